/// @file
/// The documents of one file, by kind of file. A document that cannot be taken (no text, too long) is an outcome and
/// not the end; only a damaged file throws.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "data/sources/byte_stream.h"
#include "data/sources/document_source.h"
#include "data/sources/row_filter.h"

namespace pe::data {

class FileReader {
 public:
  using Outcome = DocumentSource::Outcome;
  using Item = DocumentSource::Item;
  virtual ~FileReader() = default;
  /// Fills text, row and problem. @throws ArtifactError, IoError
  virtual Outcome next(Item& item) = 0;
};

enum class Format { kText, kJsonLines, kParquet };
struct FileFormat {
  Format format;
  Compression compression;
};
inline constexpr std::string_view kKnownFiles = ".txt, .jsonl (both plain, .gz or .zst), .parquet";
/// By the name's ending, in either case; nothing for other kinds.
std::optional<FileFormat> recognise(const std::filesystem::path& path);

/// The kind that a file's name says. @throws ConfigError for an unknown kind, and for a .txt whose rows are to be
/// filtered
FileFormat require_kind(const LocalFile& file, const RowFilter& filter);

std::unique_ptr<FileReader> open_reader(const LocalFile& file, const TextOptions& options, const RowFilter& filter);

/// .txt: one document a file, or parted by a line, or cut at blank lines, or a line each.
std::unique_ptr<FileReader> open_text_file(const std::filesystem::path& path, Compression compression,
                                           const TextOptions& options);
/// .jsonl: an object a line, its text under one key.
std::unique_ptr<FileReader> open_json_lines(const std::filesystem::path& path, Compression compression,
                                            const TextOptions& options, const RowFilter& filter);
std::unique_ptr<FileReader> open_parquet(const std::filesystem::path& path, const TextOptions& options,
                                         const RowFilter& filter);

/// "a.txt:12: a document is longer than 64 MiB".
std::string too_long(const std::filesystem::path& path, std::uint64_t line, const TextOptions& options);

}  // namespace pe::data

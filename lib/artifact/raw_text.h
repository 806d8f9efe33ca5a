/// @file
/// Documents before tokenization (kind `raw-text`): members `documents-00000.h5`, … of at most 256 MiB of text each
/// (doc/format-raw-text.md).
///
///     /bytes    uint8 [n_bytes]    all documents, one after another
///     /offsets  uint64 [n + 1]     document i is bytes [offsets[i], offsets[i + 1])
///     /source   uint32 [n]         number of its source
///     /row      uint64 [n]         number in the source: row, line or piece, from 0
///     /source_names    uint8 [k]        names of the sources, relative to the requested folder, one after another
///     /source_offsets  uint64 [m + 1]   name i is bytes [source_offsets[i], source_offsets[i + 1])
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/collection.h"
#include "artifact/h5.h"
#include "support/files.h"

namespace pe::artifact {

inline constexpr std::uint64_t kRawTextMemberBytes = 256ULL << 20;

class RawTextWriter {
 public:
  RawTextWriter(std::filesystem::path folder, const Recipe& recipe, std::uint64_t member_bytes = kRawTextMemberBytes);
  /// @throws ConfigError when a document alone is larger than a member may be.
  void add(std::string_view text, const std::string& source, std::uint64_t row);
  Manifest finish();
  std::uint64_t documents() const { return documents_; }
  std::uint64_t bytes() const { return bytes_; }

 private:
  void flush();
  Recipe recipe_;
  CollectionWriter collection_;
  std::uint64_t member_bytes_;
  std::string text_;
  std::vector<std::uint64_t> offsets_{0};
  std::vector<std::uint32_t> source_;
  std::vector<std::uint64_t> row_;
  std::string source_names_;
  std::vector<std::uint64_t> source_offsets_{0};
  std::uint64_t documents_ = 0;
  std::uint64_t bytes_ = 0;
  int members_ = 0;
};

/// Walks over all documents in order; one member is mapped at a time.
class RawTextReader {
 public:
  explicit RawTextReader(const std::filesystem::path& folder);
  std::uint64_t documents() const { return documents_; }
  std::uint64_t bytes() const { return bytes_; }

  struct Document {
    std::string_view text;    ///< lives as long as `owner`
    std::string_view source;  ///< the name of where it came from, as text
    std::shared_ptr<const support::MappedFile> owner;
    std::uint64_t index = 0;  ///< over the whole collection
  };
  /// False at the end.
  bool next(Document& document);
  void rewind();

 private:
  void open_member(std::size_t number);
  std::string_view source_of(std::uint64_t document) const;
  std::vector<std::filesystem::path> members_;
  std::uint64_t documents_ = 0, bytes_ = 0;
  std::size_t member_ = 0;
  std::shared_ptr<const support::MappedFile> map_;
  std::uint64_t data_offset_ = 0;
  std::uint64_t names_offset_ = 0;
  std::vector<std::uint64_t> offsets_, source_offsets_;
  std::vector<std::uint32_t> source_;
  std::uint64_t at_ = 0, index_ = 0;
};

}  // namespace pe::artifact

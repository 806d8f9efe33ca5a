#include "data/sources/file_reader.h"

#include <algorithm>

#include "data/sources/parquet_text.h"
#include "support/error.h"
#include "support/escaped.h"
#include "support/text.h"

namespace pe::data {

namespace fs = std::filesystem;
using support::cat;

namespace {

class ParquetFile : public FileReader {
 public:
  ParquetFile(const fs::path& path, const TextOptions& options, const RowFilter& filter)
      : path_(path), options_(options), rows_(path, options.column, filter) {}

  Outcome next(Item& item) override {
    // A long document is not kept while the page of the next one is unpacked.
    if (item.text.capacity() > (1 << 20)) std::string().swap(item.text);
    std::optional<std::string_view> text;
    if (!rows_.next(text)) return Outcome::kEnd;
    item.row = row_++;
    if (!rows_.kept()) return Outcome::kFiltered;
    if (!text) return Outcome::kNull;
    if (text->size() > static_cast<std::size_t>(options_.longest_document)) {
      item.problem = cat(support::escaped(path_.string()), ": row ", item.row, ": a document has ",
                         support::short_bytes(static_cast<double>(text->size())), ", more than ",
                         support::short_bytes(static_cast<double>(options_.longest_document)));
      return Outcome::kBad;
    }
    item.text = *text;
    return Outcome::kDocument;
  }

 private:
  fs::path path_;
  TextOptions options_;
  ParquetText rows_;
  std::uint64_t row_ = 0;
};

}  // namespace

std::optional<FileFormat> recognise(const fs::path& path) {
  std::string name = path.filename().string();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return c < 128 ? std::tolower(c) : c; });
  const auto ends = [&](std::string_view tail) {
    return name.size() > tail.size() && std::string_view(name).ends_with(tail);
  };
  for (const auto& [tail, compression] : {std::pair{".gz", Compression::kGzip}, std::pair{".zst", Compression::kZstd},
                                          std::pair{"", Compression::kNone}}) {
    if (ends(cat(".txt", tail))) return FileFormat{Format::kText, compression};
    if (ends(cat(".jsonl", tail))) return FileFormat{Format::kJsonLines, compression};
  }
  if (ends(".parquet")) return FileFormat{Format::kParquet, Compression::kNone};
  return std::nullopt;
}

std::unique_ptr<FileReader> open_parquet(const fs::path& path, const TextOptions& options, const RowFilter& filter) {
  return std::make_unique<ParquetFile>(path, options, filter);
}

FileFormat require_kind(const LocalFile& file, const RowFilter& filter) {
  const auto kind = recognise(file.name);
  if (!kind) {
    throw support::ConfigError(cat(support::quote(support::escaped(file.name)), ": unknown kind of file"), {},
                               cat("known are ", kKnownFiles));
  }
  if (kind->format == Format::kText && !filter.empty()) {
    throw support::ConfigError(cat(support::quote(support::escaped(file.path.string())),
                                   ": a .txt has no columns, so filter ",
                                   support::quote(filter.conditions().front().text), " cannot be applied"));
  }
  return *kind;
}

std::unique_ptr<FileReader> open_reader(const LocalFile& file, const TextOptions& options, const RowFilter& filter) {
  const FileFormat kind = require_kind(file, filter);
  switch (kind.format) {
    case Format::kJsonLines:
      return open_json_lines(file.path, kind.compression, options, filter);
    case Format::kParquet:
      return open_parquet(file.path, options, filter);
    case Format::kText:
      break;
  }
  return open_text_file(file.path, kind.compression, options);
}

std::string too_long(const fs::path& path, std::uint64_t line, const TextOptions& options) {
  return cat(support::escaped(path.string()), ":", line, ": a document is longer than ",
             support::short_bytes(static_cast<double>(options.longest_document)),
             " (text.longest_document); separator, lines and ", "document_bytes under text: say how a file is cut");
}

}  // namespace pe::data

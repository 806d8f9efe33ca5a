#include "data/sources/file_reader.h"
#include "data/sources/json_scan.h"
#include "support/escaped.h"
#include "support/text.h"

namespace pe::data {

namespace fs = std::filesystem;
using support::cat;
using support::quote;

namespace {

std::vector<std::string> wanted_keys(const std::string& text_key, const RowFilter& filter) {
  std::vector<std::string> keys = {text_key};
  for (const Condition& condition : filter.conditions()) keys.push_back(condition.column);
  return keys;
}

class JsonLinesFile : public FileReader {
 public:
  JsonLinesFile(const fs::path& path, Compression compression, const TextOptions& options, const RowFilter& filter)
      : path_(path),
        options_(options),
        filter_(filter),
        lines_(open_stream(path, compression)),
        scan_(wanted_keys(options.column, filter), options.any_bytes) {}

  Outcome next(Item& item) override {
    const std::size_t longest = static_cast<std::size_t>(options_.longest_document) + (1 << 20);  // for other keys
    // The rest of a line that was too long is read only now: it may be gigabytes, and the first such line may end
    // the stage.
    while (!complete_ && lines_.next(line_, longest, complete_)) {
    }
    complete_ = true;
    while (lines_.next(line_, longest, complete_)) {
      item.row = line_number_++;
      if (!complete_) read_escapes(longest);
      if (!complete_) {
        std::string().swap(line_);
        item.problem = cat(support::escaped(path_.string()), ":", line_number_, ": the line is longer than ",
                           support::short_bytes(static_cast<double>(longest)),
                           " without its escapes (text.longest_document and 1 MiB)");
        return Outcome::kBad;
      }
      if (support::trim(line_).empty()) continue;
      return read(item);
    }
    return Outcome::kEnd;
  }

 private:
  /// Reads on while the line is too long by its escapes alone; six bytes may be one of the text.
  void read_escapes(std::size_t longest) {
    std::size_t saved = 0, counted = 0;
    std::string more;
    while (!complete_) {
      // The kind of a last escape is still to come.
      while ((counted = line_.find('\\', counted)) < line_.size() - 1) {
        saved += line_[counted + 1] == 'u' ? 5 : 1;
        counted += 2;
      }
      counted = std::min(counted, line_.size());
      if (line_.size() >= longest + saved || !lines_.next(more, longest + saved - line_.size(), complete_)) return;
      line_ += more;
    }
  }

  Outcome read(Item& item) {
    using Kind = JsonScan::Kind;
    if (!scan_.read(line_)) return bad(item, scan_.problem(), scan_.error_at());
    if (scan_.root() != Kind::kObject) return bad(item, cat("expected a JSON object, found ", kind_name(scan_.root())));
    for (std::size_t i = 0; i < filter_.conditions().size(); ++i) {
      const Condition& condition = filter_.conditions()[i];
      const JsonScan::Value& found = scan_.value(i + 1);
      bool comparable = found.kind != Kind::kObject && found.kind != Kind::kArray;
      const bool holds = comparable && condition.holds(json_scalar(line_, found), comparable);
      if (!comparable) {
        return bad(item, cat("key ", quote(condition.column), ": filter ", quote(condition.text), " compares with ",
                             scalar_type(condition.value), ", found ", kind_name(found.kind)));
      }
      if (!holds) return Outcome::kFiltered;
    }
    const JsonScan::Value& text = scan_.value(0);
    if (text.kind == Kind::kMissing) return bad(item, cat("the object has no key ", quote(options_.column)));
    if (text.kind == Kind::kNull) return Outcome::kNull;
    if (text.kind != Kind::kText)
      return bad(item, cat("key ", quote(options_.column), ": expected text, found ", kind_name(text.kind)));
    const std::size_t bytes = unescape_json(line_.data() + text.begin, text.end - text.begin);
    if (bytes > static_cast<std::size_t>(options_.longest_document)) {
      item.problem = too_long(path_, line_number_, options_);
      return Outcome::kBad;
    }
    // The line becomes the document: a long one is not held twice, and the one before it not longer than needed.
    line_.resize(text.begin + bytes);
    line_.erase(0, text.begin);
    if (item.text.capacity() > (1 << 20)) std::string().swap(item.text);
    item.text.swap(line_);
    return Outcome::kDocument;
  }

  Outcome bad(Item& item, const std::string& why, std::size_t column = 0) {
    item.problem =
        cat(support::escaped(path_.string()), ":", line_number_, column > 0 ? cat(":", column) : "", ": ", why);
    return Outcome::kBad;
  }

  fs::path path_;
  TextOptions options_;
  RowFilter filter_;
  LineReader lines_;
  JsonScan scan_;
  std::string line_;
  bool complete_ = true;  // false: the end of line_ is still to come
  std::uint64_t line_number_ = 0;
};

}  // namespace

std::unique_ptr<FileReader> open_json_lines(const fs::path& path, Compression compression, const TextOptions& options,
                                            const RowFilter& filter) {
  return std::make_unique<JsonLinesFile>(path, compression, options, filter);
}

}  // namespace pe::data

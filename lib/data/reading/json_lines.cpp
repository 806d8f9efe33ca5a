#include <limits>

#include "data/reading/file_reader.h"
#include "support/error.h"
#include "support/escaped.h"
#include "support/json.h"
#include "support/text.h"

namespace pe::data {

namespace fs = std::filesystem;
using support::cat;
using support::quote;

namespace {

/// No real row is nested deeper, and none that is needs to be read.
constexpr int kDeepest = 256;

/// Takes the values of a few keys of the outermost object as they go by; the rest is checked and dropped, so that memory
/// is that of the longest single value and not of a tree.
class Picker : public nlohmann::json_sax<Json> {
 public:
  struct Wanted {
    std::string key;
    bool found = false;
    Scalar value;
    std::string_view other;   ///< "an object", "an array", when it is no scalar
  };

  Picker(const std::string& text_key, const RowFilter& filter) {
    wanted_.push_back({text_key});
    for (const Condition& condition : filter.conditions()) wanted_.push_back({condition.column});
  }
  void reset() {
    for (Wanted& wanted : wanted_) wanted.found = false, wanted.value = {}, wanted.other = {};
    depth_ = 0;
    at_key_ = false;
    root_ = "nothing";
    problem.clear();
    error_at = 0;
  }

  Wanted& text() { return wanted_[0]; }
  const Wanted& condition(std::size_t i) const { return wanted_[i + 1]; }
  /// "" for an object, else what the line holds.
  std::string_view root() const { return root_; }
  std::string problem;
  std::size_t error_at = 0;

  bool null() override { return scalar("null", [] { return Scalar(); }); }
  bool boolean(bool value) override { return scalar("a truth value", [&] { return Scalar(value); }); }
  bool number_integer(number_integer_t value) override { return scalar("a number", [&] { return Scalar(std::int64_t{value}); }); }
  bool number_unsigned(number_unsigned_t value) override {
    return scalar("a number", [&] {
      return value <= static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max()) ? Scalar(static_cast<std::int64_t>(value))
                                                                                              : Scalar(static_cast<double>(value));
    });
  }
  bool number_float(number_float_t value, const string_t&) override { return scalar("a number", [&] { return Scalar(value); }); }
  bool string(string_t& value) override { return scalar("text", [&] { return Scalar(std::move(value)); }); }
  bool binary(binary_t&) override { return scalar("binary", [] { return Scalar(); }); }
  bool start_object(std::size_t) override { return open("", "an object"); }
  bool start_array(std::size_t) override { return open("an array", "an array"); }
  bool end_object() override { return --depth_, true; }
  bool end_array() override { return --depth_, true; }
  bool key(string_t& name) override {
    at_key_ = depth_ == 1;
    if (at_key_) key_ = name;
    return true;
  }
  bool parse_error(std::size_t position, const std::string&, const Json::exception& error) override {
    error_at = position;
    problem = error.what();
    return false;
  }

 private:
  template <typename Make>
  bool scalar(std::string_view type, Make&& make) {
    if (depth_ == 0) root_ = type;
    // A repeated key: the last one counts.
    bool moved = false;
    if (at_key_ && depth_ == 1) {
      const Wanted* first = nullptr;
      for (Wanted& wanted : wanted_) {
        if (wanted.key != key_) continue;
        wanted.value = moved ? first->value : make();
        if (!moved) first = &wanted;
        moved = wanted.found = true;
        wanted.other = {};
      }
    }
    at_key_ = false;
    return true;
  }
  bool open(std::string_view as_root, std::string_view type) {
    if (depth_ == 0) root_ = as_root;
    if (at_key_ && depth_ == 1) {
      for (Wanted& wanted : wanted_) {
        if (wanted.key == key_) wanted.found = true, wanted.value = {}, wanted.other = type;
      }
    }
    at_key_ = false;
    if (++depth_ <= kDeepest) return true;
    problem = cat("it is nested deeper than ", kDeepest, " levels");
    return false;
  }

  std::vector<Wanted> wanted_;
  int depth_ = 0;
  bool at_key_ = false;
  std::string key_;
  std::string_view root_;
};

/// The library's message without its own prefix and position. The last token read may be as long as the line.
std::string reason(std::string text) {
  const std::size_t at = text.find(": ");
  if (text.starts_with("[json") && at != std::string::npos) text = text.substr(at + 2);
  if (text.starts_with("syntax error")) text = "invalid JSON" + text.substr(text.find(" - ") == std::string::npos ? 12 : text.find(" - "));
  return support::escaped(text, 200);
}

class JsonLinesFile : public FileReader {
 public:
  JsonLinesFile(const fs::path& path, Compression compression, const TextOptions& options, const RowFilter& filter)
      : path_(path), options_(options), filter_(filter), lines_(open_stream(path, compression)), picker_(options.column, filter) {}

  Outcome next(Item& item) override {
    // Escapes and other keys take room beside the text.
    const std::size_t longest = static_cast<std::size_t>(options_.longest_document) + (1 << 20);
    // What is left of a line that was too long is read only now: it may be gigabytes, and the first such line may end
    // the stage.
    while (!complete_ && lines_.next(line_, longest, complete_)) {
    }
    complete_ = true;
    while (lines_.next(line_, longest, complete_)) {
      item.row = line_number_++;
      if (!complete_) {
        std::string().swap(line_);
        item.problem = cat(support::escaped(path_.string()), ":", line_number_, ": the line is longer than ",
                           support::short_bytes(static_cast<double>(longest)));
        return Outcome::kBad;
      }
      if (support::trim(line_).empty()) continue;
      return read(item);
    }
    return Outcome::kEnd;
  }

 private:
  Outcome read(Item& item) {
    picker_.reset();
    if (!Json::sax_parse(line_, &picker_)) {
      return bad(item, reason(picker_.problem), picker_.error_at);
    }
    if (!picker_.root().empty()) return bad(item, cat("expected a JSON object, found ", picker_.root()));
    for (std::size_t i = 0; i < filter_.conditions().size(); ++i) {
      const Condition& condition = filter_.conditions()[i];
      const Picker::Wanted& found = picker_.condition(i);
      bool comparable = found.other.empty();
      const bool holds = comparable && condition.holds(found.value, comparable);
      if (!comparable) {
        return bad(item, cat("key ", quote(condition.column), ": filter ", quote(condition.text), " compares with ",
                             scalar_type(condition.value), ", found ", found.other.empty() ? scalar_type(found.value) : found.other));
      }
      if (!holds) return Outcome::kFiltered;
    }
    Picker::Wanted& text = picker_.text();
    if (!text.found) return bad(item, cat("the object has no key ", quote(options_.column)));
    if (!text.other.empty()) return bad(item, cat("key ", quote(options_.column), ": expected text, found ", text.other));
    if (std::holds_alternative<std::monostate>(text.value)) return Outcome::kNull;
    auto* value = std::get_if<std::string>(&text.value);
    if (value == nullptr) return bad(item, cat("key ", quote(options_.column), ": expected text, found ", scalar_type(text.value)));
    if (value->size() > static_cast<std::size_t>(options_.longest_document)) {
      item.problem = too_long(path_, line_number_, options_);
      return Outcome::kBad;
    }
    item.text = std::move(*value);
    return Outcome::kDocument;
  }

  Outcome bad(Item& item, const std::string& why, std::size_t column = 0) {
    item.problem = cat(support::escaped(path_.string()), ":", line_number_, column > 0 ? cat(":", column) : "", ": ", why);
    return Outcome::kBad;
  }

  fs::path path_;
  TextOptions options_;
  RowFilter filter_;
  LineReader lines_;
  Picker picker_;
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

/// @file
/// A line of JSON, checked in place: nothing of it is copied, so that memory is only the line. The library's reader
/// holds the longest string three more times.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "data/sources/row_filter.h"

namespace pe::data {

class JsonScan {
 public:
  enum class Kind { kMissing, kNull, kBoolean, kNumber, kText, kObject, kArray };
  /// Bytes [begin, end) of the line; of a text, the bytes between its quotes.
  struct Value {
    Kind kind = Kind::kMissing;
    std::size_t begin = 0, end = 0;
  };

  /// Keys of the outermost object whose values are wanted; a name may be there twice.
  /// @param any_bytes  texts may hold bytes that are not UTF-8
  explicit JsonScan(std::vector<std::string> keys, bool any_bytes = false);
  /// False when the line is no JSON (RFC 8259), or nested deeper than anyone nests rows; then `problem` says why and
  /// `error_at` which byte, from 1.
  bool read(std::string_view line);

  Kind root() const { return root_; }
  /// Value of keys[i]; where a key is repeated, the last one counts.
  const Value& value(std::size_t i) const { return values_[i]; }
  const std::string& problem() const { return problem_; }
  std::size_t error_at() const { return at_ + 1; }

 private:
  bool any(int depth, Value& value);
  bool object(int depth);
  bool array(int depth);
  bool string(Value& value);
  bool number();
  bool word(std::string_view spelled);
  bool expect(char wanted, std::string_view what);
  bool fail(std::string_view expected);
  void keep(const Value& key, const Value& value);
  void skip_space();

  std::vector<std::string> keys_;
  bool any_bytes_ = false;
  std::size_t longest_key_ = 0;
  std::vector<Value> values_;
  Kind root_ = Kind::kMissing;
  std::string problem_;
  std::string_view line_;
  std::size_t at_ = 0, not_utf8_ = 0;
};

/// "an object", "text", …
std::string_view kind_name(JsonScan::Kind kind);

/// Undoes the escapes of a text that was read without complaint, in place; returns its new length, never longer.
std::size_t unescape_json(char* text, std::size_t bytes);
/// Null, truth value, number or text as a filter compares it.
Scalar json_scalar(std::string_view line, const JsonScan::Value& value);

}  // namespace pe::data

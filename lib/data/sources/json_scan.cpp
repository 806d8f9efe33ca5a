#include "data/sources/json_scan.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "support/escaped.h"
#include "support/text.h"

namespace pe::data {

using support::cat;

namespace {

/// No real row is nested deeper, and none that is needs to be read.
constexpr int kDeepest = 256;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

int hex_digit(char c) {
  if (is_digit(c)) return c - '0';
  const char lower = static_cast<char>(c | 0x20);
  return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : -1;
}

/// The four digits of \uXXXX; -1 when they are none.
int hex_four(std::string_view digits) {
  if (digits.size() < 4) return -1;
  int value = 0;
  for (int i = 0; i < 4; ++i) {
    const int digit = hex_digit(digits[static_cast<std::size_t>(i)]);
    if (digit < 0) return -1;
    value = value << 4 | digit;
  }
  return value;
}

bool is_high(int unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low(int unit) { return unit >= 0xDC00 && unit < 0xE000; }

/// The first byte from `at` on that ends a string or needs a look: a quote, a backslash, a control character.
std::size_t find_special(std::string_view line, std::size_t at) {
  constexpr std::uint64_t kOnes = 0x0101010101010101, kHigh = 0x8080808080808080;
  const auto has_zero = [](std::uint64_t v) { return (v - kOnes) & ~v & kHigh; };
  for (; at + 8 <= line.size(); at += 8) {
    std::uint64_t eight;
    std::memcpy(&eight, line.data() + at, 8);
    // Exact for "none of the eight", which is all that is asked.
    if (has_zero(eight ^ kOnes * '"') | has_zero(eight ^ kOnes * '\\') | ((eight - kOnes * 0x20) & ~eight & kHigh))
      break;
  }
  while (at < line.size() && line[at] != '"' && line[at] != '\\' && static_cast<unsigned char>(line[at]) >= 0x20) ++at;
  return at;
}

char* put_utf8(char* to, int code) {
  if (code < 0x80) {
    *to++ = static_cast<char>(code);
  } else if (code < 0x800) {
    *to++ = static_cast<char>(0xC0 | code >> 6);
    *to++ = static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    *to++ = static_cast<char>(0xE0 | code >> 12);
    *to++ = static_cast<char>(0x80 | (code >> 6 & 0x3F));
    *to++ = static_cast<char>(0x80 | (code & 0x3F));
  } else {
    *to++ = static_cast<char>(0xF0 | code >> 18);
    *to++ = static_cast<char>(0x80 | (code >> 12 & 0x3F));
    *to++ = static_cast<char>(0x80 | (code >> 6 & 0x3F));
    *to++ = static_cast<char>(0x80 | (code & 0x3F));
  }
  return to;
}

}  // namespace

JsonScan::JsonScan(std::vector<std::string> keys, bool any_bytes)
    : keys_(std::move(keys)), any_bytes_(any_bytes), values_(keys_.size()) {
  for (const std::string& key : keys_) longest_key_ = std::max(longest_key_, key.size());
}

bool JsonScan::read(std::string_view line) {
  line_ = line;
  not_utf8_ = any_bytes_ ? line.size() : std::min(support::find_invalid_utf8(line), line.size());
  at_ = line.starts_with("\xef\xbb\xbf") ? 3 : 0;  // a byte order mark
  std::fill(values_.begin(), values_.end(), Value());
  problem_.clear();
  Value root;
  const bool read = any(0, root);
  root_ = root.kind;
  if (!read) return false;
  skip_space();
  return at_ == line_.size() || fail("the end of the line");
}

bool JsonScan::fail(std::string_view expected) {
  if (!problem_.empty()) return false;  // the innermost says it best
  if (at_ == not_utf8_ && at_ < line_.size()) {
    problem_ =
        cat("invalid JSON: byte ", fmt::format("0x{:02x}", static_cast<unsigned char>(line_[at_])), " is not UTF-8");
  } else {
    problem_ = cat("invalid JSON: expected ", expected, ", found ",
                   at_ < line_.size() ? support::quote(support::escaped(line_.substr(at_, 1))) : "the end of the line");
  }
  return false;
}

void JsonScan::skip_space() {
  while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\n' || line_[at_] == '\r'))
    ++at_;
}

bool JsonScan::expect(char wanted, std::string_view what) {
  skip_space();
  if (at_ >= line_.size() || line_[at_] != wanted) return fail(what);
  ++at_;
  return true;
}

bool JsonScan::any(int depth, Value& value) {
  skip_space();
  value.begin = at_;
  const char first = at_ < line_.size() ? line_[at_] : '\0';
  bool read = false;
  switch (first) {
    case '{':
      value.kind = Kind::kObject, read = object(depth + 1);
      break;
    case '[':
      value.kind = Kind::kArray, read = array(depth + 1);
      break;
    case '"':
      return string(value);
    case 't':
      value.kind = Kind::kBoolean, read = word("true");
      break;
    case 'f':
      value.kind = Kind::kBoolean, read = word("false");
      break;
    case 'n':
      value.kind = Kind::kNull, read = word("null");
      break;
    default:
      if (first != '-' && !is_digit(first)) return fail("a value");
      value.kind = Kind::kNumber, read = number();
  }
  value.end = at_;
  return read;
}

bool JsonScan::object(int depth) {
  if (depth > kDeepest) return problem_ = cat("it is nested deeper than ", kDeepest, " levels"), false;
  ++at_;
  skip_space();
  if (at_ < line_.size() && line_[at_] == '}') return ++at_, true;
  while (true) {
    skip_space();
    Value key, value;
    if (at_ >= line_.size() || line_[at_] != '"') return fail("a key in quotes");
    if (!string(key) || !expect(':', "':'") || !any(depth, value)) return false;
    if (depth == 1) keep(key, value);
    skip_space();
    if (at_ < line_.size() && line_[at_] == ',') {
      ++at_;
      continue;
    }
    return expect('}', "',' or '}'");
  }
}

bool JsonScan::array(int depth) {
  if (depth > kDeepest) return problem_ = cat("it is nested deeper than ", kDeepest, " levels"), false;
  ++at_;
  skip_space();
  if (at_ < line_.size() && line_[at_] == ']') return ++at_, true;
  for (Value value;;) {
    if (!any(depth, value)) return false;
    skip_space();
    if (at_ < line_.size() && line_[at_] == ',') {
      ++at_;
      continue;
    }
    return expect(']', "',' or ']'");
  }
}

void JsonScan::keep(const Value& key, const Value& value) {
  // An escape takes six bytes at most, so a key that is longer than that is none that is wanted.
  if (key.end - key.begin > 6 * longest_key_) return;
  std::string name(line_.substr(key.begin, key.end - key.begin));
  name.resize(unescape_json(name.data(), name.size()));
  for (std::size_t i = 0; i < keys_.size(); ++i) {
    if (keys_[i] == name) values_[i] = value;
  }
}

bool JsonScan::string(Value& value) {
  value.kind = Kind::kText;
  value.begin = ++at_;
  while (true) {
    at_ = find_special(line_, at_);
    if (not_utf8_ < at_) return at_ = not_utf8_, fail("");
    if (at_ >= line_.size()) return fail("'\"' at the end of a string");
    if (line_[at_] == '"') break;
    if (line_[at_] != '\\') return fail("a control character to be escaped");
    const char escape = at_ + 1 < line_.size() ? line_[at_ + 1] : '\0';
    if (escape != 'u') {
      if (escape == '\0' || std::string_view("\"\\/bfnrt").find(escape) == std::string_view::npos) {
        return ++at_, fail("an escape of JSON behind '\\'");
      }
      at_ += 2;
      continue;
    }
    const int unit = hex_four(line_.substr(at_ + 2));
    if (unit < 0) return at_ += 2, fail("four hexadecimal digits behind '\\u'");
    const bool pair =
        is_high(unit) && line_.substr(at_ + 6).starts_with("\\u") && is_low(hex_four(line_.substr(at_ + 8)));
    if (is_low(unit) || (is_high(unit) && !pair)) return fail("both halves of a surrogate pair");
    at_ += pair ? 12 : 6;
  }
  value.end = at_++;
  return true;
}

bool JsonScan::number() {
  const auto digits = [&] {
    if (at_ >= line_.size() || !is_digit(line_[at_])) return fail("a digit");
    while (at_ < line_.size() && is_digit(line_[at_])) ++at_;
    return true;
  };
  if (line_[at_] == '-') ++at_;
  if (at_ < line_.size() && line_[at_] == '0') {
    ++at_;  // no further digit
  } else if (!digits()) {
    return false;
  }
  if (at_ < line_.size() && line_[at_] == '.') {
    ++at_;
    if (!digits()) return false;
  }
  if (at_ < line_.size() && (line_[at_] == 'e' || line_[at_] == 'E')) {
    ++at_;
    if (at_ < line_.size() && (line_[at_] == '+' || line_[at_] == '-')) ++at_;
    if (!digits()) return false;
  }
  return true;
}

bool JsonScan::word(std::string_view spelled) {
  if (!line_.substr(at_).starts_with(spelled)) return fail(cat("'", spelled, "'"));
  at_ += spelled.size();
  return true;
}

std::string_view kind_name(JsonScan::Kind kind) {
  switch (kind) {
    case JsonScan::Kind::kMissing:
      return "nothing";
    case JsonScan::Kind::kNull:
      return "null";
    case JsonScan::Kind::kBoolean:
      return "a truth value";
    case JsonScan::Kind::kNumber:
      return "a number";
    case JsonScan::Kind::kText:
      return "text";
    case JsonScan::Kind::kObject:
      return "an object";
    case JsonScan::Kind::kArray:
      return "an array";
  }
  return "";
}

std::size_t unescape_json(char* text, std::size_t bytes) {
  const std::string_view from(text, bytes);
  char* to = text;
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t escape = std::min(from.find('\\', at), bytes);
    std::memmove(to, text + at, escape - at);
    to += escape - at;
    at = escape;
    if (at == bytes) break;
    const char kind = text[at + 1];
    at += 2;
    switch (kind) {
      case 'b':
        *to++ = '\b';
        break;
      case 'f':
        *to++ = '\f';
        break;
      case 'n':
        *to++ = '\n';
        break;
      case 'r':
        *to++ = '\r';
        break;
      case 't':
        *to++ = '\t';
        break;
      case 'u': {
        int code = hex_four(from.substr(at));
        at += 4;
        if (is_high(code)) {
          code = 0x10000 + ((code - 0xD800) << 10) + (hex_four(from.substr(at + 2)) - 0xDC00);
          at += 6;
        }
        to = put_utf8(to, code);
        break;
      }
      default:
        *to++ = kind;
    }
  }
  return static_cast<std::size_t>(to - text);
}

Scalar json_scalar(std::string_view line, const JsonScan::Value& value) {
  const std::string_view spelled = line.substr(value.begin, value.end - value.begin);
  switch (value.kind) {
    case JsonScan::Kind::kBoolean:
      return spelled == "true";
    case JsonScan::Kind::kNumber: {
      std::int64_t integer = 0;
      const char* end = spelled.data() + spelled.size();
      if (const auto [stop, error] = std::from_chars(spelled.data(), end, integer); error == std::errc() && stop == end)
        return integer;
      double real = 0;
      if (const auto [stop, error] = std::from_chars(spelled.data(), end, real); error == std::errc() && stop == end)
        return real;
      return std::strtod(std::string(spelled).c_str(), nullptr);  // beyond the range: infinite or zero
    }
    case JsonScan::Kind::kText: {
      std::string text(spelled);
      text.resize(unescape_json(text.data(), text.size()));
      return text;
    }
    default:
      return {};
  }
}

}  // namespace pe::data

/// @file
/// Text: joining, splitting, numbers as people write them, UTF-8.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pe::support {

/// Renders its arguments one after another, each as fmt prints it.
template <typename... Args>
std::string cat(const Args&... args) {
  std::string text;
  (fmt::format_to(std::back_inserter(text), "{}", args), ...);
  return text;
}

std::vector<std::string> split(std::string_view text, char separator);
std::string join(const std::vector<std::string>& parts, std::string_view separator);
/// "[3, 4]"; "[]" of none.
template <typename List>
std::string bracketed(const List& list) {
  std::string text = "[";
  for (const auto& item : list) text += cat(text.size() > 1 ? ", " : "", item);
  return text + "]";
}
std::string_view trim(std::string_view text);
std::string quote(std::string_view text);  ///< 'text', with control characters escaped

/// The shortest decimal text that reads back as the same double: "0.001", "1e-05", "nan", "inf".
std::string shortest(double value);

/// "1,234,567".
std::string with_commas(std::int64_t value);

/// "1.21B", "58.7M", "820": three significant digits, decimal.
std::string short_count(double value);

/// "3.2 GiB".
std::string short_bytes(double bytes);

/// "4.2 s", "3 min 10 s", "2 h 5 min".
std::string short_duration(double seconds);

/// Meaning of a suffix; see `pipeline-file` format: counts are decimal, bytes binary.
enum class Suffixes { kNone, kCount, kBytes, kSeconds };

/// A number as a person writes it: "300M", "2.4e9", "1_000_000", "8K" (bytes), "30s", "2h". Decimal always: "017"
/// is 17. Empty when it is no number. `.nan`, `.inf`, `-.inf` are read as such.
std::optional<double> parse_real(std::string_view text, Suffixes suffixes = Suffixes::kNone);

/// As parse_real, exact; empty when it is no number, has a fraction, or does not fit.
/// `why` says which of these it was, for the message.
std::optional<std::int64_t> parse_integer(std::string_view text, Suffixes suffixes = Suffixes::kNone,
                                          std::string* why = nullptr);

/// Offset of the first byte that does not belong to well-formed UTF-8 (RFC 3629), or npos.
std::size_t find_invalid_utf8(std::string_view bytes);

/// Each maximal ill-formed part replaced by U+FFFD, as the Unicode standard recommends.
std::string replace_invalid_utf8(std::string_view bytes);

/// Columns that a terminal needs; counts code points, wide East Asian ones twice.
std::size_t display_width(std::string_view utf8);

}  // namespace pe::support

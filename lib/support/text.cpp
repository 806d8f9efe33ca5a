#include "support/text.h"

#include "support/escaped.h"

#include <charconv>
#include <cmath>
#include <cstring>

namespace pe::support {

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  while (true) {
    const auto at = text.find(separator, from);
    parts.emplace_back(text.substr(from, at == std::string_view::npos ? at : at - from));
    if (at == std::string_view::npos) return parts;
    from = at + 1;
  }
}

std::string join(const std::vector<std::string>& parts, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i) text += separator;
    text += parts[i];
  }
  return text;
}

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

std::string quote(std::string_view text) { return "'" + escaped(text) + "'"; }

std::string shortest(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  return {buffer, end};
}

std::string with_commas(std::int64_t value) {
  std::string digits = std::to_string(value);
  const std::size_t sign = digits.front() == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > sign + 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string short_count(double value) {
  const char* suffixes[] = {"", "k", "M", "B", "T"};
  int step = 0;
  double scaled = value;
  while (std::abs(scaled) >= 999.5 && step < 4) {
    scaled /= 1000;
    ++step;
  }
  if (step == 0 && scaled == std::floor(scaled)) return fmt::format("{:.0f}", scaled);
  const int digits = std::abs(scaled) >= 99.95 ? 0 : std::abs(scaled) >= 9.995 ? 1 : 2;
  return fmt::format("{:.{}f}{}", scaled, digits, suffixes[step]);
}

std::string short_bytes(double bytes) {
  const char* suffixes[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  int step = 0;
  while (std::abs(bytes) >= 1023.5 && step < 4) {
    bytes /= 1024;
    ++step;
  }
  return fmt::format("{:.{}f} {}", bytes, step == 0 || bytes >= 99.5 ? 0 : 1, suffixes[step]);
}

std::string short_duration(double seconds) {
  if (seconds < 0.0995) return fmt::format("{:.0f} ms", seconds * 1000);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto total = static_cast<std::int64_t>(std::llround(seconds));
  if (total < 3600) return fmt::format("{} min {} s", total / 60, total % 60);
  if (total < 48 * 3600) return fmt::format("{} h {} min", total / 3600, total % 3600 / 60);
  return fmt::format("{} d {} h", total / 86400, total % 86400 / 3600);
}

namespace {

/// A number split into its decimal text (underscores removed) and the factor of its suffix.
struct SuffixedNumber {
  std::string digits;
  std::int64_t factor = 1;
  bool divides = false;  // "ms": factor is a divisor
};

std::optional<SuffixedNumber> spell(std::string_view text, Suffixes suffixes) {
  text = trim(text);
  if (text.empty()) return std::nullopt;
  SuffixedNumber out;
  std::size_t at = 0;
  if (text[at] == '+' || text[at] == '-') {
    if (text[at] == '-') out.digits += '-';
    ++at;
  }
  bool any = false, dot = false, exponent = false;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    if (c >= '0' && c <= '9') {
      any = true;
      out.digits += c;
    } else if (c == '_') {
      const bool between = at > 0 && at + 1 < text.size() && std::isdigit(static_cast<unsigned char>(text[at - 1])) &&
                           std::isdigit(static_cast<unsigned char>(text[at + 1]));
      if (!between) return std::nullopt;
    } else if (c == '.' && !dot && !exponent) {
      dot = true;
      out.digits += c;
    } else if ((c == 'e' || c == 'E') && any && !exponent && at + 1 < text.size() &&
               (std::isdigit(static_cast<unsigned char>(text[at + 1])) ||
                ((text[at + 1] == '+' || text[at + 1] == '-') && at + 2 < text.size() &&
                 std::isdigit(static_cast<unsigned char>(text[at + 2]))))) {
      exponent = true;
      out.digits += 'e';
      if (text[at + 1] == '+' || text[at + 1] == '-') {
        ++at;
        if (text[at] == '-') out.digits += '-';
      }
    } else {
      break;
    }
  }
  if (!any) return std::nullopt;
  const std::string_view suffix = text.substr(at);
  if (suffix.empty()) return out;
  struct Row {
    Suffixes of;
    const char* name;
    std::int64_t factor;
    bool divides;
  };
  static constexpr Row kRows[] = {
      {Suffixes::kCount, "k", 1000, false},       {Suffixes::kCount, "M", 1000000, false},
      {Suffixes::kCount, "B", 1000000000, false}, {Suffixes::kCount, "T", 1000000000000, false},
      {Suffixes::kBytes, "K", 1LL << 10, false},  {Suffixes::kBytes, "M", 1LL << 20, false},
      {Suffixes::kBytes, "G", 1LL << 30, false},  {Suffixes::kBytes, "T", 1LL << 40, false},
      {Suffixes::kSeconds, "s", 1, false},        {Suffixes::kSeconds, "m", 60, false},
      {Suffixes::kSeconds, "h", 3600, false},     {Suffixes::kSeconds, "d", 86400, false},
      {Suffixes::kSeconds, "ms", 1000, true},
  };
  for (const Row& row : kRows) {
    if (row.of == suffixes && suffix == row.name) {
      out.factor = row.factor;
      out.divides = row.divides;
      return out;
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<double> parse_real(std::string_view text, Suffixes suffixes) {
  text = trim(text);
  if (text == ".nan" || text == ".NaN" || text == ".NAN") return std::nan("");
  if (text == ".inf" || text == "+.inf" || text == ".Inf" || text == ".INF") return HUGE_VAL;
  if (text == "-.inf" || text == "-.Inf" || text == "-.INF") return -HUGE_VAL;
  const auto spelled = spell(text, suffixes);
  if (!spelled) return std::nullopt;
  double value = 0;
  const auto* end = spelled->digits.data() + spelled->digits.size();
  const auto result = std::from_chars(spelled->digits.data(), end, value);
  if (result.ptr != end) return std::nullopt;
  if (result.ec == std::errc::result_out_of_range) {
    // from_chars leaves the value alone: an exponent below the range is 0, above it has no value.
    if (spelled->digits.find("e-") == std::string::npos) return std::nullopt;
    value = 0;
  } else if (result.ec != std::errc{}) {
    return std::nullopt;
  }
  return spelled->divides ? value / static_cast<double>(spelled->factor) : value * static_cast<double>(spelled->factor);
}

std::optional<std::int64_t> parse_integer(std::string_view text, Suffixes suffixes, std::string* why) {
  const auto fail = [&](const char* reason) -> std::optional<std::int64_t> {
    if (why) *why = reason;
    return std::nullopt;
  };
  const auto spelled = spell(text, suffixes);
  if (!spelled || spelled->divides) return fail("is not a whole number");
  // Exact decimal arithmetic: digits and a power of ten, so that 2.4e9 is a whole number and 0.1 is not.
  std::string digits;
  std::int64_t exponent = 0;
  bool negative = false, after_dot = false;
  std::string_view rest = spelled->digits;
  for (std::size_t at = 0; at < rest.size(); ++at) {
    const char c = rest[at];
    if (c == '-')
      negative = true;
    else if (c == '.')
      after_dot = true;
    else if (c == 'e') {
      std::int64_t written = 0;
      const auto* from = rest.data() + at + 1;
      const auto* end = rest.data() + rest.size();
      if (std::from_chars(from, end, written).ec != std::errc{}) return fail("does not fit into 64 bits");
      if (written > 100000 || written < -100000) return fail("does not fit into 64 bits");
      exponent += written;
      break;
    } else {
      digits += c;
      if (after_dot) --exponent;
    }
  }
  const auto first = digits.find_first_not_of('0');
  if (first == std::string::npos) return 0;
  digits.erase(0, first);
  __int128 value = 0;
  const __int128 limit = static_cast<__int128>(1) << 100;
  for (const char c : digits) {
    value = value * 10 + (c - '0');
    if (value > limit) return fail("does not fit into 64 bits");
  }
  if (value > limit / spelled->factor) return fail("does not fit into 64 bits");
  value *= spelled->factor;
  for (; exponent > 0; --exponent) {
    value *= 10;
    if (value > limit) return fail("does not fit into 64 bits");
  }
  for (; exponent < 0; ++exponent) {
    if (value % 10 != 0) return fail("is not a whole number");
    value /= 10;
    if (value == 0) break;
  }
  if (negative) value = -value;
  if (value > INT64_MAX || value < INT64_MIN) return fail("does not fit into 64 bits");
  return static_cast<std::int64_t>(value);
}

namespace {

/// Length of the well-formed sequence at `at`, or minus the length of the maximal ill-formed part.
int utf8_step(std::string_view s, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(s[i]); };
  const unsigned char lead = byte(at);
  if (lead < 0x80) return 1;
  int length = 0;
  unsigned char low = 0x80, high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF)
    length = 2;
  else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  } else {
    return -1;
  }
  for (int i = 1; i < length; ++i) {
    if (at + static_cast<std::size_t>(i) >= s.size()) return -i;
    const unsigned char next = byte(at + static_cast<std::size_t>(i));
    if (next < low || next > high) return -i;
    low = 0x80;
    high = 0xBF;
  }
  return length;
}

}  // namespace

std::size_t find_invalid_utf8(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    // Eight plain ASCII bytes at a time: almost all of most corpora.
    std::uint64_t word = 0;
    if (at + 8 <= bytes.size()) {
      std::memcpy(&word, bytes.data() + at, 8);
      if ((word & 0x8080808080808080ULL) == 0) {
        at += 8;
        continue;
      }
    }
    const int step = utf8_step(bytes, at);
    if (step < 0) return at;
    at += static_cast<std::size_t>(step);
  }
  return std::string_view::npos;
}

std::string escaped(std::string_view text, std::size_t longest) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (out.size() >= longest) return out + "…";
    const auto byte = static_cast<unsigned char>(text[at]);
    const int step = utf8_step(text, at);
    // C1 controls (U+0080 to U+009F) command terminals as those below a space do.
    const bool c1 = step == 2 && byte == 0xC2 && static_cast<unsigned char>(text[at + 1]) < 0xA0;
    if (text[at] == '\n')
      out += "\\n";
    else if (text[at] == '\t')
      out += "\\t";
    else if (byte < 0x20 || byte == 0x7f || step < 0)
      out += fmt::format("\\x{:02x}", byte);
    else if (c1)
      out += fmt::format("\\x{:02x}\\x{:02x}", byte, static_cast<unsigned char>(text[at + 1]));
    else
      out.append(text.substr(at, static_cast<std::size_t>(step)));
    at += step < 0 ? 1 : static_cast<std::size_t>(step);
  }
  return out;
}

std::string replace_invalid_utf8(std::string_view bytes) {
  std::string out;
  out.reserve(bytes.size());
  for (std::size_t at = 0; at < bytes.size();) {
    const int step = utf8_step(bytes, at);
    if (step > 0)
      out.append(bytes.substr(at, static_cast<std::size_t>(step)));
    else
      out += "\xEF\xBF\xBD";
    at += static_cast<std::size_t>(step > 0 ? step : -step);
  }
  return out;
}

std::size_t display_width(std::string_view utf8) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < utf8.size();) {
    const int step = utf8_step(utf8, at);
    const auto lead = static_cast<unsigned char>(utf8[at]);
    // Lead bytes E3 to ED (CJK, kana, Hangul) and F0 (emoji, rare ideographs) are shown two columns wide.
    width += step > 0 && ((step == 3 && lead >= 0xE3 && lead <= 0xED) || step == 4) ? 2 : 1;
    at += static_cast<std::size_t>(step > 0 ? step : -step);
  }
  return width;
}

}  // namespace pe::support

#include "report/text_escape.h"

#include <cstdint>

#include "support/text.h"

namespace pe::report {
namespace {

// Replaces single bytes by texts; a null replacement keeps the byte.
template <typename Replacement>
std::string replace_bytes(std::string_view text, Replacement replacement) {
  std::string result;
  result.reserve(text.size() + 16);
  for (const char c : text) {
    if (const char* other = replacement(c)) {
      result += other;
    } else {
      result += c;
    }
  }
  return result;
}

}  // namespace

std::string clean_text(std::string_view text) {
  const std::string valid = support::replace_invalid_utf8(text);
  std::string result;
  for (std::size_t i = 0; i < valid.size(); ++i) {
    const auto byte = static_cast<unsigned char>(valid[i]);
    if (byte == '\n' || byte == '\t' || byte == '\r') {
      result += ' ';
    } else if (byte < 0x20 || byte == 0x7f) {
      result += "\xEF\xBF\xBD";
    } else if (byte == 0xC2 && i + 1 < valid.size() && static_cast<unsigned char>(valid[i + 1]) < 0xA0) {
      result += "\xEF\xBF\xBD";  // C1 controls, which XML 1.0 tolerates and people do not
      ++i;
    } else if (byte == 0xEF && i + 2 < valid.size() && static_cast<unsigned char>(valid[i + 1]) == 0xBF &&
               static_cast<unsigned char>(valid[i + 2]) >= 0xBE) {
      result += "\xEF\xBF\xBD";  // U+FFFE and U+FFFF are not XML characters
      i += 2;
    } else {
      result += valid[i];
    }
  }
  return result;
}

std::string escape_html(std::string_view text) {
  return replace_bytes(clean_text(text), [](char c) -> const char* {
    switch (c) {
      case '&':
        return "&amp;";
      case '<':
        return "&lt;";
      case '>':
        return "&gt;";
      case '"':
        return "&quot;";
      case '\'':
        return "&#39;";
      default:
        return nullptr;
    }
  });
}

std::string escape_markdown(std::string_view text) {
  return replace_bytes(clean_text(text), [](char c) -> const char* {
    switch (c) {
      case '|':
        return "\\|";
      case '\\':
        return "\\\\";
      case '*':
        return "\\*";
      case '_':
        return "\\_";
      case '`':
        return "\\`";
      case '[':
        return "\\[";
      case ']':
        return "\\]";
      case '#':
        return "\\#";
      case '~':
        return "\\~";
      case '$':
        return "\\$";
      case '<':
        return "&lt;";
      case '>':
        return "&gt;";
      case '&':
        return "&amp;";
      default:
        return nullptr;
    }
  });
}

std::string escape_latex(std::string_view text) {
  std::string result = replace_bytes(clean_text(text), [](char c) -> const char* {
    switch (c) {
      case '\\':
        return "\\textbackslash{}";
      case '{':
        return "\\{";
      case '}':
        return "\\}";
      case '$':
        return "\\$";
      case '&':
        return "\\&";
      case '#':
        return "\\#";
      case '%':
        return "\\%";
      case '_':
        return "\\_";
      case '^':
        return "\\textasciicircum{}";
      case '~':
        return "\\textasciitilde{}";
      case '<':
        return "\\textless{}";
      case '>':
        return "\\textgreater{}";
      case '|':
        return "\\textbar{}";
      case '"':
        return "''";
      default:
        return nullptr;
    }
  });
  // The few signs that we write ourselves and that pdflatex's default encoding lacks.
  const std::pair<const char*, const char*> signs[] = {
      {"−", "$-$"},      {"–", "--"},        {"×", "$\\times$"},      {"±", "$\\pm$"},        {"Δ", "$\\Delta$"},
      {"≥", "$\\geq$"},  {"≤", "$\\leq$"},   {"→", "$\\rightarrow$"}, {"↓", "$\\downarrow$"}, {"↑", "$\\uparrow$"},
      {"·", "$\\cdot$"}, {"…", "\\ldots{}"}, {"θ", "$\\theta$"},      {"⁻", "$^{-}$"},        {"\xEF\xBF\xBD", "?"}};
  for (const auto& [from, to] : signs) {
    for (std::size_t at = result.find(from); at != std::string::npos; at = result.find(from, at)) {
      result.replace(at, std::string_view(from).size(), to);
      at += std::string_view(to).size();
    }
  }
  return result;
}

std::string quote_csv(std::string_view text) {
  const std::string valid = support::replace_invalid_utf8(text);
  if (valid.find_first_of(",\"\r\n") == std::string::npos) return valid;
  std::string result = "\"";
  for (const char c : valid) {
    if (c == '"') result += '"';
    result += c;
  }
  return result + '"';
}

std::string quote_gnuplot(std::string_view text) {
  return "'" + replace_bytes(clean_text(text), [](char c) { return c == '\'' ? "''" : nullptr; }) + "'";
}

std::string escape_json_script(std::string_view json) {
  return replace_bytes(json, [](char c) { return c == '<' ? "\\u003c" : nullptr; });
}

}  // namespace pe::report

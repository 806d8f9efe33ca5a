#include "report/text_escape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include "support/text.h"

namespace pe::report {
namespace {

/// Replaces single bytes by texts.
std::string replace_bytes(std::string_view text, std::initializer_list<std::pair<char, const char*>> replacements) {
  std::string result;
  result.reserve(text.size() + 16);
  for (const char c : text) {
    const auto found = std::find_if(replacements.begin(), replacements.end(),
                                    [c](const auto& replacement) { return replacement.first == c; });
    if (found != replacements.end())
      result += found->second;
    else
      result += c;
  }
  return result;
}

// `name` of our captions in the font of code; to LaTeX the marks alone would be opening quotes.
std::string latex_code(const std::string& text) {
  std::string result;
  std::size_t done = 0;
  for (std::size_t open = text.find('`'); open != std::string::npos; open = text.find('`', done)) {
    const std::size_t close = text.find('`', open + 1);
    const bool pair = close != std::string::npos && close > open + 1;
    result += text.substr(done, open - done);
    result += pair ? "\\texttt{" + text.substr(open + 1, close - open - 1) + "}" : "\\textasciigrave{}";
    done = pair ? close + 1 : open + 1;
  }
  return result + text.substr(done);
}

// Latin letters that LaTeX's T1 encoding has.
bool in_t1(char32_t sign) {
  static const std::set<char32_t> lacking = {0xD7,  0xF7,  0x126, 0x127, 0x132, 0x133,
                                             0x138, 0x13F, 0x140, 0x149, 0x166, 0x167};
  return sign >= 0xC0 && sign <= 0x17E && lacking.count(sign) == 0;
}

// Signs that pdflatex's fonts lack, as mathematics. Others beyond Latin letters are written as their number, since no
// font of a paper is sure to have them; a name in another script stays recognisable and the table compiles.
std::string latex_signs(const std::string& text) {
  static const std::map<char32_t, const char*> signs = {{U'−', "$-$"},
                                                        {U'–', "--"},
                                                        {U'—', "---"},
                                                        {U'×', "$\\times$"},
                                                        {U'±', "$\\pm$"},
                                                        {U'Δ', "$\\Delta$"},
                                                        {U'≥', "$\\geq$"},
                                                        {U'≤', "$\\leq$"},
                                                        {U'≈', "$\\approx$"},
                                                        {U'≠', "$\\neq$"},
                                                        {U'→', "$\\rightarrow$"},
                                                        {U'↓', "$\\downarrow$"},
                                                        {U'↑', "$\\uparrow$"},
                                                        {U'·', "$\\cdot$"},
                                                        {U'…', "\\ldots{}"},
                                                        {U'θ', "$\\theta$"},
                                                        {U'α', "$\\alpha$"},
                                                        {U'β', "$\\beta$"},
                                                        {U'λ', "$\\lambda$"},
                                                        {U'σ', "$\\sigma$"},
                                                        {U'Σ', "$\\Sigma$"},
                                                        {U'√', "$\\surd$"},
                                                        {U'∞', "$\\infty$"},
                                                        {U'∈', "$\\in$"},
                                                        {U'²', "$^{2}$"},
                                                        {U'³', "$^{3}$"},
                                                        {U'⁻', "$^{-}$"},
                                                        {U'₁', "$_{1}$"},
                                                        {U'₂', "$_{2}$"},
                                                        {U'†', "$^\\dagger$"},
                                                        {U'°', "$^{\\circ}$"},
                                                        {U'µ', "$\\mu$"},
                                                        {U'μ', "$\\mu$"},
                                                        {U'‘', "`"},
                                                        {U'’', "'"},
                                                        {U'“', "``"},
                                                        {U'”', "''"},
                                                        {U'\u00a0', "~"},
                                                        {U'\u202f', "\\,"},
                                                        {U'\ufffd', "?"}};
  std::string result;
  for (std::size_t i = 0; i < text.size();) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x80) {
      result += text[i++];
      continue;
    }
    const std::size_t bytes = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;  // the text is valid UTF-8
    char32_t sign = byte & (0xFFU >> (bytes + 1));
    for (std::size_t k = 1; k < bytes; ++k) sign = sign << 6 | (static_cast<unsigned char>(text[i + k]) & 0x3FU);
    if (const auto found = signs.find(sign); found != signs.end())
      result += found->second;
    else if (in_t1(sign))
      result += text.substr(i, bytes);  // Latin letters: T1 has them
    else
      result += fmt::format("\\texttt{{U+{:04X}}}", static_cast<std::uint32_t>(sign));
    i += bytes;
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
  return replace_bytes(clean_text(text),
                       {{'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}});
}

std::string escape_markdown(std::string_view text) {
  return replace_bytes(clean_text(text), {{'|', "\\|"},
                                          {'\\', "\\\\"},
                                          {'*', "\\*"},
                                          {'_', "\\_"},
                                          {'`', "\\`"},
                                          {'[', "\\["},
                                          {']', "\\]"},
                                          {'#', "\\#"},
                                          {'~', "\\~"},
                                          {'$', "\\$"},
                                          {'<', "&lt;"},
                                          {'>', "&gt;"},
                                          {'&', "&amp;"}});
}

std::string escape_latex(std::string_view text) {
  std::string result = replace_bytes(clean_text(text), {{'\\', "\\textbackslash{}"},
                                                        {'{', "\\{"},
                                                        {'}', "\\}"},
                                                        {'$', "\\$"},
                                                        {'&', "\\&"},
                                                        {'#', "\\#"},
                                                        {'%', "\\%"},
                                                        {'_', "\\_"},
                                                        {'^', "\\textasciicircum{}"},
                                                        {'~', "\\textasciitilde{}"},
                                                        {'<', "\\textless{}"},
                                                        {'>', "\\textgreater{}"},
                                                        {'|', "\\textbar{}"},
                                                        {'"', "''"}});
  return latex_signs(latex_code(result));
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

std::string quote_gnuplot(std::string_view text) { return "'" + replace_bytes(clean_text(text), {{'\'', "''"}}) + "'"; }

std::string escape_json_script(std::string_view json) { return replace_bytes(json, {{'<', "\\u003c"}}); }

}  // namespace pe::report

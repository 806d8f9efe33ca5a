#include "encoding_docs/markdown.h"

#include <string_view>
#include <vector>

#include "support/text.h"

namespace pe::encoding_docs {
namespace {

constexpr std::size_t kColumns = 100;

/// Characters of a UTF-8 text.
std::size_t width_of(std::string_view text) {
  std::size_t width = 0;
  for (const char c : text) width += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return width;
}

/// True for a word that Markdown would read as the start of a list, quotation or heading.
bool is_mark(const std::string& word) {
  return word == "-" || word == "+" || word == "*" || word[0] == '>' || word[0] == '#' ||
         (word.size() > 1 && word.back() == '.' && word.find_first_not_of("0123456789.") == std::string::npos);
}

std::string wrapped_line(const std::string& line) {
  const std::string indent = line.starts_with("- ") ? "  " : "";
  std::string out;
  std::size_t column = 0;
  for (const std::string& word : support::split(line, ' ')) {
    const std::size_t width = width_of(word);
    if (column > 0 && column + 1 + width > kColumns && !word.empty() && !is_mark(word)) {
      out += "\n" + indent;
      column = indent.size();
    } else if (!out.empty()) {
      out += ' ';
      ++column;
    }
    out += word;
    column += width;
  }
  return out;
}

}  // namespace

std::string wrapped_markdown(const std::string& page) {
  std::vector<std::string> lines;
  bool fenced = false;
  for (const std::string& line : support::split(page, '\n')) {
    if (line.starts_with("```")) fenced = !fenced;
    const bool stays = fenced || line.empty() || line.starts_with("```") ||
                       std::string_view("|<#! ").find(line[0]) != std::string_view::npos;
    lines.push_back(stays ? line : wrapped_line(line));
  }
  return support::join(lines, "\n");
}

}  // namespace pe::encoding_docs

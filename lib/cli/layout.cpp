#include "cli/layout.h"

#include <algorithm>

#include "support/text.h"

namespace pe::cli {

std::string wrapped(const std::string& text, int columns, int indent, int hang) {
  std::string out;
  for (const std::string& paragraph : support::split(text, '\n')) {
    std::string line(static_cast<std::size_t>(indent), ' ');
    bool fresh = true;
    for (const std::string& word : support::split(paragraph, ' ')) {
      if (word.empty()) continue;
      if (!fresh && static_cast<int>(support::display_width(line) + 1 + support::display_width(word)) > columns) {
        out += line + "\n";
        line.assign(static_cast<std::size_t>(indent + hang), ' ');
        fresh = true;
      }
      line += (fresh ? "" : " ") + word;
      fresh = false;
    }
    out += (fresh ? "" : line) + "\n";
  }
  return out;
}

std::string entry(const std::string& left, const std::string& right, int column, int columns) {
  std::string beside = wrapped(right, columns, column);
  if (static_cast<int>(support::display_width(left)) + 2 > column) return left + "\n" + beside;
  return left + std::string(static_cast<std::size_t>(column) - support::display_width(left), ' ') +
         beside.substr(static_cast<std::size_t>(column));
}

std::string flag_label(const std::string& names, const std::string& value) {
  std::string label = names;
  const auto comma = label.find(',');
  if (comma != std::string::npos)
    label.insert(comma + 1, " ");
  else
    label = "    " + label;
  if (!value.empty()) label += " " + value;
  return "  " + label;
}

std::vector<std::string> choices_of(const std::string& value) {
  const bool words = value.find('|') != std::string::npos &&
                     std::none_of(value.begin(), value.end(), [](char c) { return c >= 'A' && c <= 'Z'; });
  return words ? support::split(value, '|') : std::vector<std::string>();
}

}  // namespace pe::cli

/// @file
/// The code of a Markdown page, for tests that run the code of a document.
#pragma once

#include <string>
#include <vector>

#include "support/text.h"

namespace pe::test {

struct CodeBlock {
  std::string language;  ///< as after the opening fence: "yaml", "python", "sh"; "" for an indented block
  std::string text;      ///< each line ends in "\n"; indented blocks without their indent
  std::size_t line = 0;  ///< of its first line of code, from 1
};

/// Fenced and indented blocks, in order. An indented one begins after an empty line, outside of lists.
inline std::vector<CodeBlock> code_blocks(const std::string& page) {
  std::vector<CodeBlock> blocks;
  bool fenced = false, indented = false, in_list = false, after_empty = true;
  std::size_t indent = 0, number = 0;
  for (const std::string& line : support::split(page, '\n')) {
    ++number;
    const std::size_t begin = line.find_first_not_of(' ');
    const bool empty = begin == std::string::npos;
    if (!empty && line.compare(begin, 3, "```") == 0) {
      fenced = !fenced;
      indented = false;
      if (fenced) {
        blocks.push_back({line.substr(begin + 3), "", number + 1});
        indent = begin;
      }
    } else if (fenced) {
      blocks.back().text += line.substr(empty ? line.size() : std::min(begin, indent)) + "\n";
    } else if (indented && (empty || begin >= 4)) {
      blocks.back().text += (empty ? "" : line.substr(4)) + "\n";
    } else if (!empty) {
      indented = after_empty && begin >= 4 && !in_list;
      if (indented) blocks.push_back({"", line.substr(4) + "\n", number});
      if (begin < 4) {
        const bool numbered = line[begin] >= '0' && line[begin] <= '9' && line.find(". ") < begin + 4;
        in_list = numbered || line.compare(begin, 2, "- ") == 0 || line.compare(begin, 2, "* ") == 0 ||
                  (in_list && begin > 0);
      }
    }
    after_empty = empty;
  }
  return blocks;
}

}  // namespace pe::test

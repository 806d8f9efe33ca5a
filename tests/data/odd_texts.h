#pragma once

#include <string>
#include <vector>

namespace pe::test {

inline std::vector<std::string> odd_texts() {
  return {"",
          " ",
          "  ",
          "a",
          " a",
          "  a",
          "a ",
          "a  ",
          "a  b",
          "\n",
          "\n\n",
          " \n ",
          "one\ntwo",
          "one \n two",
          "naïve café 中文 😀",
          "ends with space ",
          "   three leading"};
}

}  // namespace pe::test

/// @file
/// Text as Japanese books have it: many characters, and no space between them.
#pragma once

#include <string>

#include "support/random.h"

namespace pe::test {

/// UTF-8 of so many hiragana, some more often than others; the same every time.
inline std::string text_without_spaces(std::size_t characters) {
  std::string text;
  text.reserve(3 * characters);
  support::Xoshiro random(11);
  for (std::size_t i = 0; i < characters; ++i) {
    const auto letter = static_cast<unsigned>(0x3042 + random.below(8) * random.below(8));
    text += static_cast<char>(0xE3);
    text += static_cast<char>(0x80 | (letter >> 6 & 0x3F));
    text += static_cast<char>(0x80 | (letter & 0x3F));
  }
  return text;
}

}  // namespace pe::test

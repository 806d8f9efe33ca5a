#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "artifact/raw_text.h"
#include "data/sources/stories.h"

namespace pe::test {

inline void write_raw(const std::filesystem::path& folder, const std::vector<std::string>& texts,
                      std::uint64_t member_bytes = 20'000) {
  artifact::RawTextWriter writer(folder, {}, member_bytes);
  for (std::size_t i = 0; i < texts.size(); ++i) writer.add(texts[i], "texts", i);
  writer.finish();
}

inline std::vector<std::string> some_stories(std::uint64_t count) {
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < count; ++i) texts.push_back(data::make_story(1, i, 50, 400).text);
  return texts;
}

}  // namespace pe::test

/// @file
/// The nearest valid word, for messages that say which one was meant.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pe::support {

/// The candidate nearest to `word` by edit distance with transpositions, if one is near enough to be a slip:
/// at most one edit for three letters of the longer word. Ties go to one that begins with the word, then to the first.
std::optional<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

/// "did you mean 'x'?", or "" when nothing is near.
std::string did_you_mean(std::string_view word, const std::vector<std::string>& candidates);

/// The same, or "expected one of a, b, c" when nothing is near and the list is short. Of a long list it has the nearest
/// ones that have half of the word's letters, or the first three as examples.
std::string suggestion(std::string_view word, const std::vector<std::string>& candidates);

/// The same for the path of a file that does not exist: among the files with one of these endings (".yml"; none: any)
/// in its folder and in that folder's `pipelines/`. Names without folder and ending are compared. The answer has the
/// whole path.
std::string file_suggestion(const std::filesystem::path& wanted, const std::vector<std::string>& endings);

}  // namespace pe::support

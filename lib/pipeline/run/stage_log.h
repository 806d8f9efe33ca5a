/// @file
/// The log of an attempt: what its stage prints, appended by the stage itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace pe::pipeline {

inline constexpr std::int64_t kLargestStageLog = 64 << 20;  ///< bytes

/// Its last lines, at most `count` of them, as UTF-8; none when it cannot be read.
std::vector<std::string> last_lines(const std::filesystem::path& log, std::size_t count);

/// Cuts a log of more than `largest` bytes down to its first and last megabyte and a line between them that says so.
/// Its stage may be writing it: a line that comes in this very moment may be lost. False when it was short enough, or
/// cannot be cut.
bool cut_stage_log(const std::filesystem::path& log, std::int64_t largest = kLargestStageLog);

}  // namespace pe::pipeline

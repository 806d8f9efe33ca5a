/// @file
/// The text of a stage's log, which may be larger than memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace pe::commands {

/// Where the last `lines` lines of a file begin, in bytes; read from the end, in pieces.
std::uint64_t tail_offset(const std::filesystem::path& file, std::int64_t lines);

/// Passes on a file from its last `lines` lines on (all when absent), in pieces. Nothing when there is no such file.
/// Returns the offset after the last byte that was passed on.
std::uint64_t read_log(const std::filesystem::path& file, std::optional<std::int64_t> lines,
                       const std::function<void(std::string_view)>& piece);

/// The same from byte `at` to the present end.
std::uint64_t read_log_from(const std::filesystem::path& file, std::uint64_t at,
                            const std::function<void(std::string_view)>& piece);

/// The same as one text, of which at most the last `limit` bytes are kept.
std::string log_text(const std::filesystem::path& file, std::optional<std::int64_t> lines, std::size_t limit);

}  // namespace pe::commands

/// @file
/// Attempt folders: who works in one, which of them a stage can continue from, and what may be thrown away. Two writers
/// of one folder never happen: each attempt has its own, and nobody continues from one whose process still lives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace pe::pipeline {

/// Attempt folders aNN in a task's work folder, oldest first.
std::vector<std::filesystem::path> attempts_below(const std::filesystem::path& work);

/// Makes the next one, and the work folder where there is none. `number` counts from 1.
std::filesystem::path make_attempt(const std::filesystem::path& work, int* number = nullptr);

struct Orphan {
  std::int64_t pid = 0;
  std::filesystem::path folder;
  bool certain = true;  ///< false: /proc hides the process, and its number may belong to another one by now
};

/// Notes in `owner.json` that a process of this host works in the folder: host, boot, pid and when it began (`start`, of
/// process_start). `spent_s` was spent on what the attempt continues from.
void write_owner(const std::filesystem::path& attempt, std::int64_t pid, std::uint64_t start, double spent_s = 0);

/// Seconds of work in the folder and in what it continued from. Of an attempt that was cut off with its run, as far as
/// the times of its files tell.
double seconds_spent(const std::filesystem::path& attempt);

/// The first attempt whose process, on this host since its last boot, is still alive, or may be.
std::optional<Orphan> find_orphan(const std::vector<std::filesystem::path>& attempts);

/// Kills it and what it started. @throws IoError when it may not be killed, being another user's.
void end_orphan(const Orphan& orphan);

/// The attempt to continue from: the one with the newest file below its folder `checkpoints/`; where no attempt has
/// such a file, the one with the newest file of the stage's own making. Logs, inputs, outputs and unfinished files
/// (with
/// `.tmp` in their name) do not count. @throws IoError when a folder of an attempt cannot be listed
std::optional<std::filesystem::path> find_resumable(const std::vector<std::filesystem::path>& attempts);

/// True for what strip_attempt leaves in any case: log and descriptions.
bool is_kept_of_attempt(const std::string& name);

/// Removes what a finished attempt no longer needs; log and descriptions stay, and the stage's own files if asked.
void strip_attempt(const std::filesystem::path& attempt, bool keep_own_files);

}  // namespace pe::pipeline

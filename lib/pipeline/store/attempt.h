/// @file
/// Attempt folders: their owners, the one that a stage can continue from, and files that may be deleted. A folder never
/// has two writers: each attempt has its own, and no attempt continues from one whose process still lives.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "support/error.h"
#include "support/json.h"

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

/// Notes in `owner.json` that a process of this host works in the folder for `run`: host, boot, pid and its start time
/// (`start`, of process_start). `spent_s` was spent on the attempts that it continues from.
void write_owner(const std::filesystem::path& attempt, const std::string& run, std::int64_t pid, std::uint64_t start,
                 double spent_s = 0);

/// A file of the attempt (`owner.json`, or `exit.json` when it has ended). Null where it is missing, closed to this
/// user, or cut off by a crash of its machine. @throws IoError when it cannot be read for another reason
Json read_of_attempt(const std::filesystem::path& attempt, const char* name);

/// Seconds of work in the folder and in the attempts that it continued from. For an attempt that was cut off with its
/// run, they come from the times of its files.
double seconds_spent(const std::filesystem::path& attempt);

/// Whether an error says that a file or folder is closed to this user. Stages of other users may close theirs in a
/// shared store.
bool is_denied(const support::IoError& error);

/// The first attempt whose process, on this host since its last boot, is still alive, or may be. One that is closed to
/// this user is left out.
std::optional<Orphan> find_orphan(const std::vector<std::filesystem::path>& attempts);

/// Kills it and its children. @throws IoError when it may not be killed, being another user's.
void end_orphan(const Orphan& orphan);

/// The attempt to continue from: the one with the newest file below its folder `checkpoints/`. Where none has such a
/// file: the one with the newest file of the stage's own making. Logs, inputs, outputs and unfinished files (with
/// `.tmp` in their name) do not count. An attempt that is closed to this user is left out, and added to `closed`.
/// @throws IoError when a folder of an attempt cannot be listed for another reason
std::optional<std::filesystem::path> find_resumable(const std::vector<std::filesystem::path>& attempts,
                                                    std::vector<std::filesystem::path>* closed = nullptr);

/// True for files that strip_attempt always keeps: log and descriptions.
bool is_kept_of_attempt(const std::string& name);

/// Removes what a finished attempt no longer needs; log and descriptions stay, and the stage's own files if asked.
void strip_attempt(const std::filesystem::path& attempt, bool keep_own_files);

}  // namespace pe::pipeline

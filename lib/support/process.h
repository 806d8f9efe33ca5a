/// @file
/// Child processes, started from an argument list. No shell sees a name: quotes, spaces, `$(…)` and newlines are bytes.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "support/files.h"

namespace pe::support {

struct SpawnOptions {
  std::vector<std::string> arguments;  ///< [0] is the program: a path, or a name looked up on the PATH.
  std::optional<std::vector<std::string>> environment;  ///< "NAME=value"; absent: this process's own.
  std::filesystem::path directory;                      ///< Working folder; empty: this process's own.
  int stdin_fd = -1;                                    ///< -1: /dev/null
  int stdout_fd = -1;                                   ///< -1: inherited
  int stderr_fd = -1;                                   ///< -1: inherited
  std::vector<std::pair<int, int>> descriptors;         ///< {ours, number in the child}
  bool new_group = false;  ///< Own process group, so that a terminal's Ctrl-C is ours alone.
};

/// The form that exec wants: a pointer to each text, then null. The texts stay where they are.
std::vector<char*> pointers(const std::vector<std::string>& texts);

/// Starts a child. Descriptors not named are closed in it. @throws IoError naming the program when it cannot start.
pid_t spawn(const SpawnOptions& options);

struct ExitStatus {
  int code = 0;    ///< exit code; 128 + signal when a signal ended it
  int signal = 0;  ///< the signal that ended it, or 0
};
ExitStatus wait_for(pid_t pid);
ExitStatus decode_status(int wait_status);

struct CapturedOutput {
  ExitStatus status;
  std::string out;
  std::string err;
};

/// Runs to the end, feeding `input`, and keeps what it prints (at most `limit` bytes of each stream).
CapturedOutput capture(const std::vector<std::string>& arguments, const std::string& input = {},
                       std::size_t limit = 64u << 20, const std::filesystem::path& directory = {});

/// The program as a path: itself when it holds a '/', else the first executable of that name on the PATH.
std::optional<std::filesystem::path> find_program(const std::string& name);
/// Where `find_program` looks for a name without '/', in order.
std::vector<std::filesystem::path> program_places(const std::string& name);

/// Largest memory of this process, or of a child that it waited for, in bytes; 0 when the system has no record. Unlike
/// the figure that a parent gets, it leaves out the memory of the process that started this one.
std::int64_t peak_memory();

/// This program's own executable.
std::filesystem::path own_executable();
/// The name that /proc/self/exe had before a rebuild replaced the program: Linux then adds " (deleted)" to it.
std::filesystem::path without_deleted_mark(std::filesystem::path linked);

/// `<folder>/<name>.so` of this program: in the build tree (lib/<folder>/), installed or bundled; empty when it is
/// nowhere.
std::filesystem::path find_plugin(const std::string& folder, const std::string& name);

/// The GNU build id of an ELF file as hex, read from its notes; empty when it has none.
std::string elf_build_id(const std::filesystem::path& executable);

}  // namespace pe::support

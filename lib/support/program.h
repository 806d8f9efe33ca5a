/// @file
/// Identity of a program: its own build, and the builds of the plug-ins that it loads while it runs.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace pe::support {

/// Called first by every program. A standard stream that is closed is replaced by one that fails, so that no file takes
/// its number. A file that grows beyond its limit (ulimit -f) becomes an error (EFBIG) instead of the end of the
/// program.
void begin_program();

/// The path of a plug-in for a program of this folder: in the build tree, next to the program, or installed. `plugin`
/// is "cuda/pe-cuda": its folder in the build tree, and its name. Empty: it was not built.
std::filesystem::path plugin_for(const std::filesystem::path& program_folder, const std::string& plugin);

/// Where `plugin_for` looks, in order.
std::vector<std::filesystem::path> plugin_places(const std::filesystem::path& program_folder,
                                                 const std::string& plugin);

/// Hex of the ELF note, or SHA-256 of a file that has none, such as a script. @throws IoError
std::string build_of(const std::filesystem::path& file);

/// The files that globs name, relative to the program's folder, sorted: modules that a script imports.
/// @throws ConfigError when one matches nothing, IoError when a folder cannot be read
std::vector<std::filesystem::path> code_files(const std::filesystem::path& program_folder,
                                              const std::vector<std::string>& globs);

/// The build of the executable; where it has plug-ins or `code` (globs, see code_files), SHA-256 of its build, theirs
/// and these files. @throws IoError, ConfigError
std::string program_digest(const std::filesystem::path& executable, const std::vector<std::string>& plugins,
                           const std::vector<std::string>& code = {});

/// The build id of this process's program, and the digest of it with its plug-ins: of the very file that was started,
/// whatever has taken its name since. @throws IoError
std::string own_build_id();
/// Text of `--version` after the program's name: "0.2.0, build 1f0c9a3b5d7e".
std::string version_and_build(const std::string& version);
std::string own_program_digest(const std::vector<std::string>& plugins);

}  // namespace pe::support

#include "support/program.h"

#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <cerrno>

#include "support/error.h"
#include "support/file_listing.h"
#include "support/hash.h"
#include "support/process.h"
#include "support/text.h"

namespace pe::support {

namespace fs = std::filesystem;

void begin_program() {
  for (const int fd : {0, 1, 2}) {
    // The system takes the lowest free number, which is this one. The direction is wrong on purpose: using it fails.
    if (::fcntl(fd, F_GETFD) < 0 && errno == EBADF) ::open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
  }
  ::signal(SIGXFSZ, SIG_IGN);
  // A parent may have left it ignored. The system would then reap child processes before this one waits for them.
  ::signal(SIGCHLD, SIG_DFL);
}

std::vector<fs::path> plugin_places(const fs::path& program_folder, const std::string& plugin) {
  const std::string file = plugin.substr(plugin.find('/') + 1) + ".so";
  std::vector<fs::path> places;
  // The third place serves the benchmarks, which a build keeps one folder deeper than the programs.
  for (const std::string& place :
       {"../lib/" + plugin + ".so", file, "../../lib/" + plugin + ".so", "../lib/pe-pipeline/" + file})
    places.push_back((program_folder / place).lexically_normal());
  return places;
}

fs::path plugin_for(const fs::path& program_folder, const std::string& plugin) {
  for (const fs::path& place : plugin_places(program_folder, plugin)) {
    std::error_code ignored;
    if (fs::exists(place, ignored)) return place;
  }
  return {};
}

std::string build_of(const fs::path& file) {
  const std::string note = elf_build_id(file);
  return note.empty() ? sha256_file(file) : note;
}

namespace {

constexpr const char* kOwnProgram = "/proc/self/exe";  // leads to the file even when its name is gone

std::string digest_of(const fs::path& file, const fs::path& folder, const std::vector<std::string>& plugins,
                      const std::vector<std::string>& code) {
  const std::string own = build_of(file);
  std::string all = cat("program ", own, "\n");
  std::vector<std::string> sorted = plugins;
  std::sort(sorted.begin(), sorted.end());
  bool any = false;
  for (const std::string& plugin : sorted) {
    const fs::path found = plugin_for(folder, plugin);
    if (found.empty()) continue;
    all += cat(plugin, " ", build_of(found), "\n");
    any = true;
  }
  for (const fs::path& found : code_files(folder, code)) {
    all += cat("code ", found.lexically_relative(folder).generic_string(), " ", sha256_file(found), "\n");
    any = true;
  }
  return any ? sha256_hex(all) : own;
}

}  // namespace

std::vector<fs::path> code_files(const fs::path& program_folder, const std::vector<std::string>& globs) {
  std::vector<fs::path> files;
  for (const std::string& glob : globs) {
    const ListedFiles listed = list_files({(program_folder / glob).string()});
    if (!listed.missing.empty())
      throw ConfigError(cat("'code' of the description names ", quote(glob),
                            ", and no file in the folder of the program has that name"));
    for (const auto& [name, file] : listed.files) files.push_back(file.lexically_normal());
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  return files;
}

std::string program_digest(const fs::path& executable, const std::vector<std::string>& plugins,
                           const std::vector<std::string>& code) {
  return digest_of(executable, executable.parent_path(), plugins, code);
}

std::string own_build_id() { return elf_build_id(kOwnProgram); }

std::string version_and_build(const std::string& version) {
  const std::string build = own_build_id();
  return build.empty() ? version : cat(version, ", build ", build.substr(0, 12));
}

std::string own_program_digest(const std::vector<std::string>& plugins) {
  return digest_of(kOwnProgram, own_executable().parent_path(), plugins, {});
}

}  // namespace pe::support

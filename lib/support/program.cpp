#include "support/program.h"

#include <algorithm>

#include "support/hash.h"
#include "support/process.h"
#include "support/text.h"

namespace pe::support {

namespace fs = std::filesystem;

fs::path plugin_for(const fs::path& program_folder, const std::string& plugin) {
  const std::string file = plugin.substr(plugin.find('/') + 1) + ".so";
  for (const std::string& place : {"../lib/" + plugin + ".so", file, "../lib/pe-pipeline/" + file}) {
    std::error_code ignored;
    const fs::path found = program_folder / place;
    if (fs::exists(found, ignored)) return found.lexically_normal();
  }
  return {};
}

std::string build_of(const fs::path& file) {
  const std::string note = elf_build_id(file);
  return note.empty() ? sha256_file(file) : note;
}

std::string program_digest(const fs::path& executable, const std::vector<std::string>& plugins) {
  const std::string own = build_of(executable);
  std::string all = cat("program ", own, "\n");
  std::vector<std::string> sorted = plugins;
  std::sort(sorted.begin(), sorted.end());
  bool any = false;
  for (const std::string& plugin : sorted) {
    const fs::path file = plugin_for(executable.parent_path(), plugin);
    if (file.empty()) continue;
    all += cat(plugin, " ", build_of(file), "\n");
    any = true;
  }
  return any ? sha256_hex(all) : own;
}

}  // namespace pe::support

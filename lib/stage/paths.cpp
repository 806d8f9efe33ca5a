#include "stage/paths.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::stage {
namespace {

namespace fs = std::filesystem;
using support::cat;
using support::ConfigError;
using support::quote;

struct NamedPath {
  std::string name;  // "output 'model'"
  fs::path path, real;
};

NamedPath named(std::string name, const fs::path& path) {
  std::error_code error;
  fs::path real = fs::weakly_canonical(fs::absolute(path, error), error);
  if (error) real = path.lexically_normal();            // such as a link to itself: opening it will fail
  if (!real.has_filename()) real = real.parent_path();  // "out/" is "out"
  return {std::move(name), path, std::move(real)};
}

bool lies_in(const fs::path& inner, const fs::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), inner.begin(), inner.end()).first == folder.end();
}

bool same(const NamedPath& a, const NamedPath& b) {
  std::error_code ignored;
  return a.real == b.real || fs::equivalent(a.real, b.real, ignored);
}

/// @param at  the flag or file that names `output`
void require_apart(const NamedPath& output, const NamedPath& other, const support::Place& at) {
  const std::string one = cat(output.name, " (", quote(output.path.string()), ")"),
                    two = cat(other.name, " (", quote(other.path.string()), ")");
  if (same(output, other)) throw ConfigError(cat(one, " is the same as ", two), at, "choose another path");
  if (lies_in(output.real, other.real))
    throw ConfigError(cat(one, " is inside ", two), at, "choose a path outside of it");
  if (lies_in(other.real, output.real)) throw ConfigError(cat(one, " would replace ", two), at, "choose another path");
}

void require_writable(const NamedPath& output, bool collection) {
  const auto kind = support::irregular_kind(output.path, /*follow_links=*/false);
  if (!kind || (collection && *kind == "a folder")) return;
  throw support::IoError(
      cat("cannot write ", output.name, " as ", quote(output.path.string()), ": it is ", *kind,
          collection ? "; expected a folder that is empty or not there yet" : "; only a regular file is replaced"),
      true);
}

}  // namespace

void check_paths(const WorkOrder& order, const StageInfo& info, const std::vector<fs::path>& also_read) {
  const artifact::Workspace& workspace = order.workspace;
  std::vector<NamedPath> outputs, inputs;
  const auto add = [&](const std::map<std::string, fs::path>& paths, const std::string& of) {
    for (const auto& [role, path] : paths) {
      outputs.push_back(named(cat("output ", quote(role), of), path));
      // Clang captures no structured binding by its name alone.
      const auto is_declared = [&role = role](const auto& output) { return output.name == role; };
      const auto declared = std::find_if(info.outputs.begin(), info.outputs.end(), is_declared);
      require_writable(outputs.back(), declared != info.outputs.end() && artifact::is_collection(declared->kind));
    }
  };
  add(workspace.outputs, "");
  for (const artifact::Snapshot& snapshot : workspace.snapshots)
    add(snapshot.outputs, cat(" of snapshot ", quote(snapshot.label)));
  for (const auto& [role, list] : workspace.inputs) {
    for (const artifact::Input& input : list) inputs.push_back(named(cat("input ", quote(role)), input.path));
  }
  for (const fs::path& path : also_read) inputs.push_back(named("a file that is read", path));
  const support::Place at{order.removes_work ? "--output" : "", 0, 0, "", 1};
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) require_apart(outputs[i], outputs[j], at);
    for (const NamedPath& input : inputs) require_apart(outputs[i], input, at);
  }
  if (workspace.work.empty()) return;
  const NamedPath work = named("the work folder", workspace.work);
  for (const NamedPath& output : outputs) {
    if (lies_in(work.real, output.real))
      throw ConfigError(cat(output.name, " (", quote(output.path.string()), ") would replace the work folder, ",
                            quote(workspace.work.string())),
                        at, "choose another path");
  }
  if (!order.removes_work) return;
  for (const std::vector<NamedPath>* paths : {&inputs, &outputs}) {
    for (const NamedPath& path : *paths) {
      if (!lies_in(path.real, work.real)) continue;
      throw ConfigError(
          cat(path.name, " (", quote(path.path.string()), ") is in the work folder, which is removed at the end"), {},
          "name another work folder with --work");
    }
  }
}

}  // namespace pe::stage

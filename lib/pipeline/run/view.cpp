#include "pipeline/run/view.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <map>
#include <set>
#include <utility>

#include "artifact/collection.h"
#include "support/error.h"
#include "support/files.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

using support::cat;

constexpr const char* kMark = ".view.json";
constexpr const char* kSourceNote = ".contents.json";

/// Takes away what stands at a name: moved aside in one step first, so that two who clear it do not meet in it.
void clear(const fs::path& at) {
  const fs::path aside = support::unique_sibling(at);
  if (::rename(at.c_str(), aside.c_str()) == 0)
    support::remove_tree(aside);
  else if (errno != ENOENT)
    support::throw_errno("replace", at.string(), true);
}

/// Makes `at` a link to `target`, in one step; a link that is right stays.
void set_link(const fs::path& target, const fs::path& at) {
  if (::symlink(target.c_str(), at.c_str()) == 0) return;
  std::error_code error;
  if (errno == EEXIST && fs::read_symlink(at, error) == target && !error) return;
  const fs::path fresh = support::unique_sibling(at);
  if (::symlink(target.c_str(), fresh.c_str()) != 0) support::throw_errno("create link", at.string(), true);
  if (fs::is_directory(fs::symlink_status(at, error))) clear(at);
  support::rename_durably(fresh, at, false);
}

std::string name_of(const Task& task, const std::string& snapshot) {
  std::string name;
  for (const auto& [axis, label] : task.axes) name += cat(name.empty() ? "" : ",", axis, "=", label);
  if (name.empty()) name = task.label;
  if (!snapshot.empty()) name += "@" + snapshot;
  return name;
}

/// A folder of links to the members; made aside and swapped in, so nobody sees half of it.
void set_collection(const Store& store, const OutputRecord& output, const fs::path& at) {
  std::error_code error;
  const fs::path manifest = store.object_path(output.object);
  if (fs::read_symlink(at / artifact::kManifestName, error) == manifest && !error) return;
  const fs::path fresh = support::unique_sibling(at);
  store.materialise(output, fresh);
  for (int tries = 0;; ++tries) {
    clear(at);
    if (::rename(fresh.c_str(), at.c_str()) == 0) return;
    // Another run put one there in between: the last one stays.
    if ((errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) || tries == 8)
      support::throw_errno("create", at.string(), true);
  }
}

fs::path file_of(const Task& task, const std::string& name, bool collection) {
  const bool plain = collection || (name.size() > 3 && name.compare(name.size() - 3, 3, ".h5") == 0);
  return fs::path(task.label) / (plain ? name : name + ".h5");
}

}  // namespace

View::View(const Graph& graph, const Store& store, fs::path outputs)
    : graph_(graph), store_(store), outputs_(std::move(outputs)) {
  for (const Task& task : graph.tasks) {
    for (const auto& [role, name] : task.output_names) {
      const OutputDescription* output = task.stage->find_output(role);
      if (!output) continue;
      const bool collection = artifact::is_collection(output->kind);
      if (!task.is_trajectory()) ++takers_[given_path(task, role, "", collection)];
      for (const SnapshotPoint& point : task.snapshots) ++takers_[given_path(task, role, point.label, collection)];
    }
  }
}

/// Empty when the pipeline file gives it no name.
fs::path View::given_path(const Task& task, const std::string& role, const std::string& snapshot,
                          bool collection) const {
  const auto given = task.output_names.find(role);
  if (given == task.output_names.end()) return {};
  return file_of(task, given->second + (snapshot.empty() ? "" : "@" + snapshot), collection);
}

void View::show(const ViewItem& item) {
  const Task& task = graph_.tasks[item.task];
  fs::path at = given_path(task, item.output.role, item.snapshot, item.output.collection);
  if (!at.empty()) {
    const std::string name = task.output_names.at(item.output.role) + (item.snapshot.empty() ? "" : "@" + item.snapshot);
    const std::string why = !artifact::valid_member_name(name) ? "is not a valid file name"
                            : takers_[at] > 1                  ? "stands for several artifacts"
                                                               : "";
    if (!why.empty()) {
      at.clear();
      const std::string text =
          cat("outputs of ", task.label, ": ", support::quote(name), " ", why, "; out/ shows the long names");
      if (told_.insert(text).second) odd_.push_back(text);
    }
  }
  if (at.empty()) {
    std::string name = name_of(task, item.snapshot);
    if (task.stage->outputs.size() > 1) name += "." + item.output.role;
    at = file_of(task, name, item.output.collection);
  }
  at = outputs_ / graph_.name / at;
  if (folders_.insert(at.parent_path()).second) support::make_folders(at.parent_path());
  if (item.output.collection)
    set_collection(store_, item.output, at);
  else
    set_link(store_.object_path(item.output.object), at);
}

std::vector<std::string> View::take_odd() { return std::exchange(odd_, {}); }

std::vector<std::string> write_view(const Graph& graph, const Store& store, const std::vector<ViewItem>& items,
                                    const fs::path& outputs) {
  View view(graph, store, outputs);
  for (const ViewItem& item : items) view.show(item);
  return view.take_odd();
}

std::vector<std::string> write_reports(const Graph& graph, const Store& store, const std::vector<ViewItem>& items,
                                       const fs::path& reports, const std::string& run_id, std::size_t expected) {
  std::vector<const ViewItem*> found;
  for (const ViewItem& item : items) {
    if (item.output.kind == "report") found.push_back(&item);
  }
  if (found.empty()) return {};
  const fs::path base = reports / graph.name;
  const fs::path latest = base / "latest";
  Json contents = Json::object();
  const auto place = [&](const ViewItem& item) {
    std::string name = graph.tasks[item.task].label;
    if (!graph.tasks[item.task].axes.empty()) name += "," + name_of(graph.tasks[item.task], item.snapshot);
    if (graph.tasks[item.task].stage->outputs.size() > 1) name += "." + item.output.role;
    return std::max(expected, found.size()) == 1 ? fs::path() : fs::path(name);
  };
  for (const ViewItem* item : found) contents[place(*item).string()] = item->output.content;

  std::error_code error;
  bool same = false;
  if (fs::exists(latest / kSourceNote, error)) {
    same = support::parse_json(support::read_file(latest / kSourceNote)) == contents;
  }
  if (!same) {
    const fs::path folder = base / run_id;
    const fs::path fresh = support::unique_sibling(folder);
    for (const ViewItem* item : found) {
      const fs::path to = fresh / place(*item);
      support::make_folders(to);
      const fs::path manifest_path = store.object_path(item->output.object);
      const auto manifest = artifact::Manifest::parse(support::read_file(manifest_path), manifest_path.string());
      for (const artifact::Member& member : manifest.members) {
        const fs::path at = to / member.name;
        support::make_folders(at.parent_path());
        fs::copy_file(store.object_path(member.file_digest), at, fs::copy_options::overwrite_existing, error);
        if (error) throw support::IoError(cat("cannot write '", at.string(), "': ", error.message()));
        fs::permissions(at, fs::perms::owner_write, fs::perm_options::add, error);
      }
      support::write_file_atomically(to / artifact::kManifestName, support::read_file(manifest_path), false);
    }
    support::write_file_atomically(fresh / kSourceNote, contents.dump(1) + "\n", false);
    support::remove_tree(folder);
    support::rename_durably(fresh, folder, false);
    set_link(run_id, latest);
  }
  const fs::path target = fs::read_symlink(latest, error);
  const fs::path shown = error ? latest : base / target;
  std::vector<std::string> folders;
  for (const ViewItem* item : found) {
    const fs::path at = shown / place(*item);
    folders.push_back((at.has_filename() ? at : at.parent_path()).string());
  }
  return folders;
}

void write_view_mark(const Graph& graph, const fs::path& outputs, const std::vector<std::string>& reports) {
  support::make_folders(outputs / graph.name);
  support::write_file_atomically(outputs / graph.name / kMark, Json{{"reports", reports}}.dump() + "\n", false);
}

bool view_stands(const fs::path& outputs, const std::string& pipeline, std::vector<std::string>* reports) {
  const fs::path mark = outputs / pipeline / kMark;
  if (::access(mark.c_str(), R_OK) != 0) return false;
  const Json json = support::parse_json(support::read_file(mark, 1 << 20));
  if (!json.is_object() || !json.contains("reports") || !json["reports"].is_array()) return false;
  for (const Json& report : json["reports"]) {
    if (!report.is_string() || ::access(report.get_ref<const std::string&>().c_str(), F_OK) != 0) return false;
    if (reports) reports->push_back(report);
  }
  return true;
}

fs::path front_page(const fs::path& report) {
  for (const char* name : {"report.html", "index.html", "report.md"}) {
    if (fs::exists(report / name)) return report / name;
  }
  return report;
}

std::vector<std::string> result_lines(const fs::path& report) {
  const fs::path file = report / "result.txt";
  constexpr std::uintmax_t kMost = 1 << 16;  // another's file must not stop a run that is done
  std::error_code error;
  if (::access(file.c_str(), R_OK) != 0 || fs::file_size(file, error) > kMost || error) return {};
  std::vector<std::string> lines;
  for (std::string& line : support::split(support::read_file(file), '\n')) {
    if (!support::trim(line).empty() && lines.size() < 2) lines.push_back(std::move(line));
  }
  return lines;
}

}  // namespace pe::pipeline

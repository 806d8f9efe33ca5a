#include "pipeline/run/view.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "artifact/collection.h"
#include "support/error.h"
#include "support/file_stamp.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/json_text.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

using support::cat;
using support::quote;

constexpr const char* kMark = ".view.json";
constexpr const char* kSourceNote = ".contents.json";
constexpr std::size_t kLongestViewName = 200;  // bytes; the system takes 255, and endings are to come
constexpr std::uint64_t kLongestMark = 64u << 20;

bool is_link(const fs::path& path) {
  struct stat status {};
  return ::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
}

/// Whether a folder holds links alone, and folders of links.
bool holds_only_links(const fs::path& folder) {
  for (const std::string& name : support::list_folder(folder)) {
    struct stat status {};
    if (::lstat((folder / name).c_str(), &status) != 0) return false;
    if (S_ISDIR(status.st_mode) ? !holds_only_links(folder / name) : !S_ISLNK(status.st_mode)) return false;
  }
  return true;
}

/// A collection as `materialise` lays it out, and nothing else.
bool is_shown_collection(const fs::path& at) {
  struct stat status {};
  return ::lstat(at.c_str(), &status) == 0 && S_ISDIR(status.st_mode) && is_link(at / artifact::kManifestName) &&
         holds_only_links(at);
}

/// A new name in the folder of `at`, short also where the name of `at` is long.
fs::path fresh_name(const fs::path& at) { return support::unique_sibling(at.parent_path() / ".new"); }

/// Frees a name, in one step. A link goes. A file or folder of the user is moved to NAME.old-<run id>; `odd` says so.
void clear(const fs::path& at, const std::string& run_id, std::vector<std::string>& odd) {
  if (is_link(at)) {
    if (::unlink(at.c_str()) != 0 && errno != ENOENT) support::throw_errno("replace", at.string(), true);
    return;
  }
  const bool ours = is_shown_collection(at);
  fs::path aside = fresh_name(at);
  if (!ours) {
    aside = cat(at.string(), ".old-", run_id);
    for (int n = 2; support::is_there(aside); ++n) aside = cat(at.string(), ".old-", run_id, ".", n);
  }
  if (::rename(at.c_str(), aside.c_str()) != 0) {
    if (errno == ENOENT) return;
    support::throw_errno("replace", at.string(), true);
  }
  if (ours)
    support::remove_tree(aside);
  else
    odd.push_back(cat(quote(at.string()), " was not made by pe-pipeline; it is now ", quote(aside.string())));
}

/// Makes `at` a link to `target`, in one step; a link that is right stays. True when another link was there.
bool set_link(const fs::path& target, const fs::path& at, const std::string& run_id, std::vector<std::string>& odd) {
  if (::symlink(target.c_str(), at.c_str()) == 0) return false;
  std::error_code error;
  if (errno == EEXIST && fs::read_symlink(at, error) == target && !error) return false;
  const fs::path fresh = fresh_name(at);
  if (::symlink(target.c_str(), fresh.c_str()) != 0) support::throw_errno("create link", at.string(), true);
  const bool replaces = is_link(at);
  if (!replaces) clear(at, run_id, odd);
  support::rename_durably(fresh, at, false);
  return replaces;
}

/// A folder of links to the members. It is made under another name and swapped in, so no reader sees half of it. True
/// when another one was there.
bool set_collection(const Store& store, const OutputRecord& output, const fs::path& at, const std::string& run_id,
                    std::vector<std::string>& odd) {
  std::error_code error;
  const fs::path manifest = store.object_path(output.object);
  if (fs::read_symlink(at / artifact::kManifestName, error) == manifest && !error) return false;
  const bool replaces = is_shown_collection(at);
  const fs::path fresh = fresh_name(at);
  store.materialise(output, fresh);
  for (int tries = 0;; ++tries) {
    clear(at, run_id, odd);
    if (::rename(fresh.c_str(), at.c_str()) == 0) return replaces;
    // Another run put one there in between: the last one stays.
    if ((errno != ENOTEMPTY && errno != EEXIST && errno != ENOTDIR) || tries == 8)
      support::throw_errno("create", at.string(), true);
  }
}

/// Whether a link leads to an object of a store, whichever: `…/objects/ab/abcdef…`.
bool leads_to_an_object(const fs::path& link) {
  std::error_code error;
  const fs::path target = fs::read_symlink(link, error);
  const std::string name = target.filename().string();
  return !error && name.size() == 64 && target.parent_path().parent_path().filename() == "objects" &&
         name.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// A name that files can have, with `ending`.
std::string file_name_of(std::string name, const std::string& ending) {
  name += ending;
  if (name.size() <= kLongestViewName) return name;
  const std::string digest = support::sha256_hex(name).substr(0, 12);
  std::size_t length = kLongestViewName - digest.size() - ending.size() - 1;
  while (length > 0 && (static_cast<unsigned char>(name[length]) & 0xc0) == 0x80) --length;  // within a character
  return cat(name.substr(0, length), "-", digest, ending);
}

std::string name_of(const Task& task, const std::string& snapshot) {
  std::string name;
  for (const auto& [axis, label] : task.axes) name += cat(name.empty() ? "" : ",", axis, "=", label);
  if (name.empty()) name = task.label;
  if (!snapshot.empty()) name += "@" + snapshot;
  return name;
}

bool has_ending(const std::string& name) { return name.size() > 3 && name.ends_with(".h5"); }

/// The folders below one with the times of their last change: a link that goes, or is replaced, moves its folder's
/// time. The topmost is left out, since the mark itself is written there.
void add_folders(const fs::path& folder, const fs::path& name, Json& folders) {
  for (const std::string& entry : support::list_folder(folder)) {
    struct stat status {};
    if (::lstat((folder / entry).c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) continue;
    folders[(name / entry).string()] = support::stamp_of(folder / entry).mtime_ns;
    add_folders(folder / entry, name / entry, folders);
  }
}

/// Texts by name: of a JSON object, or of the object that it has under `part`. Empty where there is none.
std::map<std::string, std::string> read_note(const fs::path& note, const char* part = nullptr) {
  std::map<std::string, std::string> contents;
  if (::access(note.c_str(), R_OK) != 0) return contents;
  Json json = support::parse_json(support::read_file(note, kLongestMark));
  if (part) json = json.is_object() && json.contains(part) ? Json(json[part]) : Json();
  if (!json.is_object()) return contents;
  for (const auto& [place, content] : json.items()) {
    if (content.is_string()) contents[place] = content;
  }
  return contents;
}

}  // namespace

std::vector<ViewItem> items_of(const Graph& graph, const Plan& plan) {
  std::vector<ViewItem> items;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const PlannedTask& task = plan.tasks[i];
    if (task.state == TaskState::kNotNeeded) continue;
    const auto add = [&](const std::string& label, const Result& result) {
      for (const OutputRecord& output : result.outputs) {
        if (!output.absent) items.push_back({i, label, output});
      }
    };
    if ((task.present || task.known) && task.result) add("", *task.result);
    for (const PlannedSnapshot& snapshot : task.snapshots) {
      if (snapshot.present || snapshot.known) add(snapshot.label, *snapshot.result);
    }
  }
  return items;
}

// ---- out/ -----------------------------------------------------------------------------------------------------------

View::View(const Graph& graph, const Store& store, fs::path outputs, std::string run_id)
    : graph_(graph), store_(store), outputs_(std::move(outputs) / graph.name), run_id_(std::move(run_id)) {
  for (const Task& task : graph.tasks) {
    for (const auto& [role, name] : task.output_names) {
      const artifact::OutputRole* output = task.stage->find_output(role);
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
  std::string name = given->second + (snapshot.empty() ? "" : "@" + snapshot);
  if (!collection && !has_ending(name)) name += ".h5";
  return fs::path(task.label) / name;
}

fs::path View::path_of(const ViewItem& item) {
  const Task& task = graph_.tasks[item.task];
  fs::path at = given_path(task, item.output.role, item.snapshot, item.output.collection);
  if (!at.empty()) {
    const std::string name =
        task.output_names.at(item.output.role) + (item.snapshot.empty() ? "" : "@" + item.snapshot);
    const std::string why = !artifact::valid_member_name(name) ? "is not a valid file name"
                            : takers_[at] > 1                  ? "stands for several artifacts"
                                                               : "";
    if (!why.empty()) {
      at.clear();
      const std::string text =
          cat("outputs of ", task.label, ": ", quote(name), " ", why, "; out/ shows the long names");
      if (told_.insert(text).second) odd_.push_back(text);
    }
  }
  if (at.empty()) {
    std::string name = name_of(task, item.snapshot);
    if (task.stage->outputs.size() > 1) name += "." + item.output.role;
    at = fs::path(task.label) / file_name_of(name, item.output.collection || has_ending(name) ? "" : ".h5");
  }
  return at;
}

void View::show(const ViewItem& item) {
  const fs::path at = outputs_ / path_of(item);
  shown_.insert(std::hash<std::string>()(at.string()));
  if (folders_.insert(at.parent_path()).second) support::make_folders(at.parent_path());
  if (!item.output.collection) {
    replaced_ += set_link(store_.object_path(item.output.object), at, run_id_, odd_);
    return;
  }
  try {
    replaced_ += set_collection(store_, item.output, at, run_id_, odd_);
  } catch (const support::ArtifactError& error) {  // its manifest is damaged
    throw support::IoError(error.diagnostics().front().message);
  }
}

std::vector<std::string> View::take_odd() { return std::exchange(odd_, {}); }

/// Takes away every link to an object, and every folder of links to one, that was not shown. All else stays.
void View::remove_others(const fs::path& folder) {
  for (const std::string& name : support::list_folder(folder)) {
    const fs::path at = folder / name;
    struct stat status {};
    if (shown_.count(std::hash<std::string>()(at.string())) || ::lstat(at.c_str(), &status) != 0) continue;
    if (S_ISLNK(status.st_mode)) {
      if (leads_to_an_object(at) && ::unlink(at.c_str()) == 0) ++removed_;
    } else if (S_ISDIR(status.st_mode)) {
      if (is_shown_collection(at) && leads_to_an_object(at / artifact::kManifestName)) {
        support::remove_tree(at);
        ++removed_;
        continue;
      }
      remove_others(at);
      ::rmdir(at.c_str());  // where nothing is left in it
    }
  }
}

void View::finish(const std::vector<std::string>& reports, const std::string& id, bool whole) {
  if (!whole && !support::is_there(outputs_)) return;
  support::make_folders(outputs_);
  auto settings = settings_of_view(graph_, store_);
  bool same = true;
  try {
    const auto before = read_note(outputs_ / kMark, "settings");
    for (const auto& [name, value] : before) {
      const auto now = settings.find(name);
      same = same && (now == settings.end() || now->second == value);
    }
    if (same) settings.insert(before.begin(), before.end());
  } catch (const support::Error&) {
    same = false;  // a damaged mark: nothing is known of the other names
  }
  if (same && !whole) return;
  if (!same) remove_others(outputs_);
  Json folders = Json::object();
  add_folders(outputs_, "", folders);
  const Json mark{
      {"settings", settings}, {"shown", whole ? id : ""}, {"reports", reports}, {"folders", std::move(folders)}};
  support::write_file_atomically(outputs_ / kMark, support::json_text(mark) + "\n", false);
}

std::map<std::string, std::string> settings_of_view(const Graph& graph, const Store& store) {
  std::map<std::string, std::string> settings{{"store", store.root().string()}, {"set", graph.settings}};
  for (const support::FileRead& file : graph.files) settings[file.path] = file.sha256;
  const StageDescription* stage = nullptr;
  const ExternalContent* content = nullptr;
  for (const Task& task : graph.tasks) {
    if (task.stage.get() != stage) settings[task.stage->program] = std::to_string(task.stage->version);
    stage = task.stage.get();
    for (const ExternalInput& external : task.externals) {
      if (&*external.content == content) continue;
      content = &*external.content;
      settings[support::join(external.paths, "\n")] = support::canonical_hash("pe/view-input/1", content->groups);
    }
  }
  return settings;
}

std::string view_id(const Graph& graph, const Plan& plan, const Store& store) {
  return view_id(graph, items_of(graph, plan), store);
}

std::string view_id(const Graph& graph, const std::vector<ViewItem>& items, const Store& store) {
  View view(graph, store, "", "");
  support::Sha256 hash;
  hash.update(store.root().string());
  for (const ViewItem& item : items) {
    hash.update(cat("\n", view.path_of(item).string(), "\n"));
    hash.update(item.output.object);
  }
  return hash.hex();
}

bool view_stands(const fs::path& root, const std::string& pipeline, const std::string& id,
                 std::vector<std::string>* reports) {
  const fs::path folder = root / "out" / pipeline;
  if (::access((folder / kMark).c_str(), R_OK) != 0) return false;
  const Json mark = support::parse_json(support::read_file(folder / kMark, kLongestMark));
  if (!mark.is_object() || !mark.contains("reports") || !mark["reports"].is_array()) return false;
  if (!mark.contains("shown") || mark["shown"] != id) return false;
  if (!mark.contains("folders") || !mark["folders"].is_object()) return false;
  for (const auto& [name, changed] : mark["folders"].items()) {
    if (support::stamp_of(folder / name).mtime_ns != changed) return false;
  }
  const fs::path base = root / "reports" / pipeline;
  std::error_code error;
  const fs::path latest = fs::read_symlink(base / "latest", error);
  for (const Json& report : mark["reports"]) {
    if (!report.is_string() || ::access(report.get_ref<const std::string&>().c_str(), F_OK) != 0) return false;
    const fs::path inside = fs::path(report.get_ref<const std::string&>()).lexically_relative(base);
    if (error || inside.empty() || *inside.begin() != latest) return false;
    if (reports) reports->push_back(report);
  }
  return true;
}

// ---- reports/ -------------------------------------------------------------------------------------------------------

Reports::Reports(const Graph& graph, const Store& store, const fs::path& reports, std::string run_id,
                 std::size_t expected)
    : graph_(graph), store_(store), base_(reports / graph.name), run_id_(std::move(run_id)), expected_(expected) {
  try {
    latest_ = read_note(base_ / "latest" / kSourceNote);
  } catch (const support::IoError&) {
    // Then it shows nothing that is known, and is made again.
  }
}

/// Empty for the only one.
std::string Reports::place_of(const ViewItem& item) const {
  if (expected_ <= 1) return {};
  const Task& task = graph_.tasks[item.task];
  std::string name = task.label;
  if (!task.axes.empty()) name += "," + name_of(task, item.snapshot);
  if (task.stage->outputs.size() > 1) name += "." + item.output.role;
  return file_name_of(name, "");
}

void Reports::add(const ViewItem& item) {
  const std::string place = place_of(item);
  const auto before = added_.find(place);
  const bool copied = copied_.count(place) != 0 && before->second.output.content == item.output.content;
  added_.insert_or_assign(place, item);
  const auto shown = latest_.find(place);
  const bool in_latest = shown != latest_.end() && shown->second == item.output.content;
  if (!copied && !in_latest) copy(place, item.output.object);
}

void Reports::copy(const std::string& place, const std::string& manifest_digest) {
  const fs::path to = place.empty() ? base_ / run_id_ : base_ / run_id_ / place;
  support::make_folders(to.parent_path());
  const fs::path fresh = fresh_name(to);
  try {
    support::make_folders(fresh);
    const fs::path manifest_path = store_.object_path(manifest_digest);
    const auto manifest = artifact::Manifest::parse(support::read_file(manifest_path), manifest_path.string());
    for (const artifact::Member& member : manifest.members) {
      const fs::path at = fresh / member.name;
      if (at.parent_path() != fresh) support::make_folders(at.parent_path());
      store_.export_object(member.file_digest, at);
    }
    store_.export_object(manifest_digest, fresh / artifact::kManifestName);
    if (copied_.count(place) != 0)
      support::remove_tree(to);
    else
      clear(to, run_id_, odd_);
    support::rename_durably(fresh, to, false);
  } catch (const support::ArtifactError& error) {
    support::remove_tree(fresh);
    throw support::IoError(error.diagnostics().front().message);
  } catch (...) {
    support::remove_tree(fresh);
    throw;
  }
  copied_.insert(place);
}

void Reports::show_again(const std::vector<ViewItem>& items) {
  std::map<std::string, std::string> contents;
  for (const ViewItem& item : items) {
    if (item.output.kind == "report") contents[place_of(item)] = item.output.content;
  }
  if (contents.empty() || contents == latest_ || !support::is_there(base_)) return;
  std::vector<std::string> names = support::list_folder(base_);
  std::sort(names.rbegin(), names.rend());  // the newest first
  for (const std::string& name : names) {
    if (is_link(base_ / name) || read_note(base_ / name / kSourceNote) != contents) continue;
    turned_ = set_link(name, base_ / "latest", run_id_, odd_);
    latest_ = contents;
    return;
  }
}

std::vector<std::string> Reports::finish() {
  if (added_.empty()) return {};
  std::map<std::string, std::string> contents;
  for (const auto& [place, item] : added_) contents[place] = item.output.content;
  fs::path shown = base_ / run_id_;
  if (contents == latest_) {
    std::error_code error;
    const fs::path target = fs::read_symlink(base_ / "latest", error);
    shown = error ? base_ / "latest" : base_ / target;
    if (!copied_.empty()) support::remove_tree(base_ / run_id_);
  } else {
    for (const auto& [place, item] : added_) {
      if (copied_.count(place) == 0) copy(place, item.output.object);
    }
    support::write_file_atomically(shown / kSourceNote, support::json_text(contents, 1) + "\n", false);
    turned_ = set_link(run_id_, base_ / "latest", run_id_, odd_);
  }
  std::vector<std::string> folders;
  for (const auto& [place, item] : added_) folders.push_back((place.empty() ? shown : shown / place).string());
  return folders;
}

std::vector<std::string> Reports::take_odd() { return std::exchange(odd_, {}); }

std::size_t count_reports(const Graph& graph, const Plan& plan) {
  std::size_t count = 0;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (plan.tasks[i].state == TaskState::kNotNeeded) continue;
    const auto& outputs = graph.tasks[i].stage->outputs;
    count +=
        static_cast<std::size_t>(std::count_if(outputs.begin(), outputs.end(), [](const artifact::OutputRole& output) {
          return output.kind == artifact::Kind::kReport;
        }));
  }
  return count;
}

ViewChange show_all(const Graph& graph, const Plan& plan, const Store& store, const fs::path& root,
                    const std::string& run_id, bool whole) {
  ViewChange shown;
  bool failed = false;
  const auto attempt = [&](const auto& body) {
    try {
      body();
    } catch (const support::IoError& error) {
      if (!std::exchange(failed, true))
        shown.odd.push_back(
            cat("not everything has its name in out/ and reports/: ", error.diagnostics().front().message));
    }
  };
  View view(graph, store, root / "out", run_id);
  Reports reports(graph, store, root / "reports", run_id, count_reports(graph, plan));
  const std::vector<ViewItem> items = items_of(graph, plan);
  attempt([&] { reports.show_again(items); });
  for (const ViewItem& item : items) {
    attempt([&] { view.show(item); });
    if (item.output.kind == "report") attempt([&] { reports.add(item); });
  }
  attempt([&] { shown.reports = reports.finish(); });
  if (!failed) attempt([&] { view.finish(shown.reports, view_id(graph, items, store), whole); });
  shown.relinked = relinked_text(view, reports, root);
  for (const auto& odd : {view.take_odd(), reports.take_odd()})
    shown.odd.insert(shown.odd.end(), odd.begin(), odd.end());
  return shown;
}

std::string relinked_text(const View& view, const Reports& reports, const fs::path& root) {
  const std::string out = view.folder().lexically_relative(root).string();
  const auto links = [](std::size_t count) { return cat(count, count == 1 ? " link" : " links"); };
  std::vector<std::string> parts;
  if (view.replaced()) parts.push_back(cat(links(view.replaced()), " in ", out, " replaced"));
  if (view.removed()) parts.push_back(cat(links(view.removed()), " to results of other settings removed from ", out));
  if (reports.turned()) parts.push_back(cat("reports/", view.folder().filename().string(), "/latest turned"));
  return support::join(parts, ", ");
}

fs::path front_page(const fs::path& report) {
  for (const char* name : {"report.html", "index.html", "report.md"}) {
    if (::access((report / name).c_str(), F_OK) == 0) return report / name;
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

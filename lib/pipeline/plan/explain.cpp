#include "pipeline/plan/explain.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>

#include "pipeline/file/config_value.h"
#include "support/json_fields.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::display;

namespace {

std::string shown(const Json& value) {
  std::string text = value.is_null() ? "unset" : display(value);
  constexpr std::size_t kLongest = 60;
  if (text.size() > kLongest) text = cat(std::string_view(text).substr(0, kLongest), "…");
  return text;
}

bool is_label(const support::Difference& difference) { return difference.path.starts_with("labels"); }

/// "labels of inputs (2 gone, 3 new; such as scores encoding=rope,seed=44)": a renamed stage or label counts as both.
std::string labels_changed(const Json& before, const Json& now) {
  const auto labels = [](const Json& config) {
    const Json listed = config.value("labels", Json::array());
    std::multiset<std::string> texts;
    for (const Json& one : listed) texts.insert(one.is_string() ? one.get<std::string>() : one.dump());
    return texts;
  };
  const std::multiset<std::string> then = labels(before), present = labels(now);
  std::vector<std::string> gone, fresh;
  std::ranges::set_difference(then, present, std::back_inserter(gone));
  std::ranges::set_difference(present, then, std::back_inserter(fresh));
  if (gone.empty() && fresh.empty()) return "the order of its inputs";
  return cat("labels of inputs (", gone.size(), " gone, ", fresh.size(), " new; such as ",
             fresh.empty() ? gone.front() : fresh.front(), ")");
}

/// A key holds the revisions of its program in the config, under their names: they are taken out and compared.
void compare_revisions(const StageDescription& stage, Json& before, Json& now, std::vector<Cause>& causes) {
  for (const artifact::Revision& revision : stage.revisions) {
    const Json then = take_value(before, revision.name), fresh = take_value(now, revision.name);
    if (then == fresh) continue;
    causes.push_back(
        {ReasonKind::kVersion, cat("revision ", revision.name, " of ", stage.program), shown(then), shown(fresh), {}});
  }
}

/// One of the two has a schedule without an end, so its key has no horizon. The schedules differ, too.
bool is_freed_horizon(const StageDescription& stage, const support::Difference& difference) {
  return stage.trajectory && difference.path == stage.trajectory->horizon &&
         (difference.before.is_null() || difference.after.is_null());
}

std::string short_digest(const std::string& digest) { return digest.substr(0, 12); }

/// Where a dotted path, or what holds it, was written.
support::Place place_of(const support::Origins& origins, const std::string& path) {
  for (std::string at = path;;) {
    if (const auto it = origins.find(at); it != origins.end()) return it->second;
    const std::size_t dot = at.rfind('.');
    if (dot == std::string::npos) return {};
    at.resize(dot);
  }
}

std::vector<std::string> digests_of(const Json& list) {
  std::vector<std::string> found;
  if (!list.is_array()) return found;
  for (const Json& one : list) {
    if (one.is_object()) found.push_back(support::text_in(one, "digest"));
  }
  return found;
}

Json decoded(std::string_view cbor) {
  if (cbor.empty()) return Json::object();
  Json value = Json::from_cbor(cbor.begin(), cbor.end(), true, false);
  return value.is_object() ? value : Json::object();
}

/// A file as a key has it: its name and its digest.
bool is_keyed_file(const Json& file) {
  return file.is_array() && file.size() == 2 && file[0].is_string() && file[1].is_string();
}

/// The files of all paths of a field, in order: of one path a list, of several a list each. A record that was imported
/// may hold anything in their place; that is left out.
std::vector<const Json*> files_of(const Json& groups) {
  std::vector<const Json*> files;
  if (!groups.is_array()) return files;
  for (const Json& group : groups) {
    if (is_keyed_file(group)) {
      files.push_back(&group);
    } else if (group.is_array()) {
      for (const Json& file : group) {
        if (is_keyed_file(file)) files.push_back(&file);
      }
    }
  }
  return files;
}

/// The files that a field names, before and now.
void compare_files(const Json& before, const Json& now, std::vector<Cause>& causes) {
  for (const auto& [field, files] : now.items()) {
    const Json old = before.value(field, Json::array());
    if (old == files) continue;
    std::multimap<std::string, std::string> known;  // two folders may hold files of one name
    for (const Json* file : files_of(old))
      known.emplace(file->at(0).get<std::string>(), file->at(1).get<std::string>());
    std::size_t added = 0, changed = 0;
    std::string example;
    std::vector<const Json*> others;
    for (const Json* file : files_of(files)) {  // unchanged files first, so that the rest is compared correctly
      const auto [first, last] = known.equal_range(file->at(0).get<std::string>());
      const auto same = std::find_if(first, last, [&](const auto& one) { return one.second == file->at(1); });
      if (same == last)
        others.push_back(file);
      else
        known.erase(same);
    }
    for (const Json* file : others) {
      const auto it = known.find(file->at(0).get<std::string>());
      added += it == known.end();
      changed += it != known.end();
      if (it != known.end()) known.erase(it);
      if (example.empty()) example = file->at(0).get<std::string>();
    }
    if (others.empty() && known.empty()) {
      causes.push_back({ReasonKind::kExternal, cat("the order of the files of ", field), {}, {}, {}});
      continue;
    }
    if (example.empty() && !known.empty()) example = known.begin()->first;
    causes.push_back({ReasonKind::kExternal,
                      cat("files of ", field, " (", changed, " changed, ", added, " new, ", known.size(),
                          " gone; such as ", example, ")"),
                      {},
                      {},
                      {}});
  }
  for (const auto& [field, files] : before.items()) {
    if (!now.contains(field)) causes.push_back({ReasonKind::kExternal, cat(field, " names no file now"), {}, {}, {}});
  }
}

/// Equal contents under other names: the first label that differs.
void compare_labels(const std::string& role, const Json& before, const Json& now, std::vector<Cause>& causes) {
  const Json then = before.value(role, Json::array()), fresh = now.value(role, Json::array());
  for (std::size_t i = 0; i < then.size() && i < fresh.size(); ++i) {
    if (then[i] == fresh[i]) continue;
    const std::string text =
        fresh.size() == 1 ? cat("labels of input ", role) : cat("labels of input ", role, " ", i + 1);
    const auto labels = [](const Json& input) {
      const auto found = input.find("labels");
      return found == input.end() ? std::string("none") : found->dump();
    };
    causes.push_back({ReasonKind::kInput, text, labels(then[i]), labels(fresh[i]), {}});
    return;
  }
}

void compare_inputs(const StageDescription& stage, const Json& before, const Json& now, std::vector<Cause>& causes) {
  for (const artifact::InputRole& role : stage.inputs) {
    const auto old = digests_of(before.value(role.name, Json::array()));
    const auto fresh = digests_of(now.value(role.name, Json::array()));
    if (old == fresh) {
      compare_labels(role.name, before, now, causes);
      continue;
    }
    if (old.size() == 1 && fresh.size() == 1) {
      causes.push_back(
          {ReasonKind::kInput, cat("content of input ", role.name), short_digest(old[0]), short_digest(fresh[0]), {}});
      continue;
    }
    std::size_t changed = 0;
    for (const std::string& digest : fresh) changed += std::find(old.begin(), old.end(), digest) == old.end();
    causes.push_back({ReasonKind::kInput,
                      cat("input ", role.name, ": ", changed, " of ", fresh.size(), " are new"),
                      old.size() == fresh.size() ? "" : cat(old.size(), " artifacts"),
                      old.size() == fresh.size() ? "" : cat(fresh.size(), " artifacts"),
                      {}});
  }
}

/// Earlier results by stage and instance, asked of the store once.
class Past {
 public:
  explicit Past(const StoreView& store) : store_(store) {}

  /// The newest earlier result of an instance with another key, of this pipeline where it has one; null when there is
  /// none.
  const PastTask* find(const std::string& pipeline, const std::string& stage, const std::string& id,
                       const std::string& other_than) {
    const PastTask* best = nullptr;
    const auto better = [&](const PastTask& task) {
      if (!best) return true;
      const bool own = task.pipeline == pipeline;
      return own == (best->pipeline == pipeline) ? newer(task, *best) : own;
    };
    const auto [from, to] = of(stage).by_id.equal_range(id);
    for (auto at = from; at != to; ++at) {
      if (at->second->key.key != other_than && better(*at->second)) best = at->second;
    }
    return best;
  }

  /// The newest of each other stage label that ran at the same point of the axes: what this stage may have been called.
  std::vector<const PastTask*> by_other_names(const std::string& stage, const std::string& id) {
    std::map<std::string_view, const PastTask*> newest;
    OfStage& tasks = of(stage);
    if (tasks.by_axes.empty()) {
      for (const auto& [other, task] : tasks.by_id) tasks.by_axes.emplace(axes_of(other), task);
    }
    const auto [from, to] = tasks.by_axes.equal_range(axes_of(id));
    for (auto at = from; at != to; ++at) {
      const PastTask*& best = newest[label_of(at->second->id)];
      if (!best || newer(*at->second, *best)) best = at->second;
    }
    std::vector<const PastTask*> found;
    for (const auto& [label, task] : newest) found.push_back(task);
    return found;
  }

  /// "trunk" and "[seed=42]" of "trunk[seed=42]".
  static std::string_view label_of(std::string_view id) { return id.substr(0, id.find('[')); }
  static std::string_view axes_of(std::string_view id) { return id.substr(label_of(id).size()); }

 private:
  using Tasks = std::unordered_multimap<std::string_view, const PastTask*>;
  struct OfStage {
    Tasks by_id, by_axes;
  };

  static bool newer(const PastTask& a, const PastTask& b) {
    return a.ended > b.ended || (a.ended == b.ended && a.key.step > b.key.step);
  }
  OfStage& of(const std::string& stage) {
    const auto [it, fresh] = by_stage_.try_emplace(stage);
    if (fresh) {
      const std::vector<PastTask>& tasks = store_.past_tasks(stage);
      it->second.by_id.reserve(tasks.size());
      for (const PastTask& task : tasks) it->second.by_id.emplace(task.id, &task);
    }
    return it->second;
  }

  const StoreView& store_;
  std::map<std::string, OfStage> by_stage_;
};

class Explainer {
 public:
  Explainer(const Graph& graph, const Plan& plan, const StoreView& store, Against against = {})
      : graph_(graph), plan_(plan), past_(store), keys_(keys_of(graph)), against_(std::move(against)) {}

  Explanation explain(std::size_t index) {
    Explanation explanation;
    explanation.task = index;
    explanation.follows = running_producers(index);
    if (const auto against = against_.find(index); against != against_.end()) {
      compare_with(against->second, explanation);
      if (explanation.causes.empty() && explanation.follows.empty()) {
        explanation.causes.push_back({ReasonKind::kPresent, "nothing differs", {}, {}, {}});
      }
      return explanation;
    }
    if (explain_by_plan(plan_.tasks[index], explanation)) return explanation;
    explain_by_past(index, explanation);
    if (explanation.causes.empty()) {
      std::vector<std::string> labels;
      for (std::size_t producer : explanation.follows) {
        const std::string& label = graph_.tasks[producer].label;
        if (std::find(labels.begin(), labels.end(), label) == labels.end()) labels.push_back(label);
      }
      explanation.causes.push_back({ReasonKind::kFollows, cat("follows ", support::join(labels, ", ")), {}, {}, {}});
    }
    return explanation;
  }

 private:
  static constexpr std::size_t kNear = 6;  ///< results that differ in more have nothing to do with each other

  std::vector<std::size_t> running_producers(std::size_t index) const {
    std::vector<std::size_t> found;
    for (const Edge& edge : graph_.tasks[index].inputs) {
      if (plan_.tasks[edge.producer].state != TaskState::kRun) continue;
      if (std::find(found.begin(), found.end(), edge.producer) == found.end()) found.push_back(edge.producer);
    }
    return found;
  }

  void compare_with(const PastTask& before, Explanation& explanation) {
    explanation.against = before.key.key;
    explanation.against_id = before.id;
    explanation.against_run = before.run;
    explanation.causes = compare(explanation.task, before);
  }

  /// True if the plan alone explains the task: it does not run, or it runs for a reason that needs no comparison.
  static bool explain_by_plan(const PlannedTask& planned, Explanation& explanation) {
    ReasonKind reason = planned.reason_kind;
    switch (planned.state) {
      case TaskState::kReuse:
      case TaskState::kNotNeeded:
        explanation.against = planned.task_key;
        reason = ReasonKind::kPresent;
        break;
      case TaskState::kLikelyReuse:
        explanation.against = planned.task_key;
        reason = ReasonKind::kFollows;
        break;
      case TaskState::kInputMissing:
      case TaskState::kBlocked:
        break;
      case TaskState::kRun:
        if (reason != ReasonKind::kForced && reason != ReasonKind::kObjectGone && reason != ReasonKind::kBytesWanted)
          return false;
    }
    explanation.causes.push_back({reason, planned.reason, {}, {}, {}});
    return true;
  }

  /// Against the newest earlier result, if there is one.
  void explain_by_past(std::size_t index, Explanation& explanation) {
    const Task& task = graph_.tasks[index];
    const PlannedTask& planned = plan_.tasks[index];
    // A key that is only presumed may be the key of the newest result, which is then the one to compare with.
    const std::string own = task.is_trajectory() || !planned.key_is_exact ? "" : planned.task_key;
    const PastTask* const before = past_.find(graph_.name, task.stage->name, task.id, own);
    if (!before) {
      if (!explain_by_another_name(index, explanation) && explanation.follows.empty())
        explanation.causes.push_back({ReasonKind::kNew, "no result yet", {}, {}, {}});
      return;
    }
    compare_with(*before, explanation);
    if (before->pipeline != graph_.name && !before->pipeline.empty() && !explanation.causes.empty()) {
      // No user made these differences: the two pipelines share a store and a name.
      const bool near = explanation.causes.size() <= kNear;
      Cause first{ReasonKind::kNew, "no result of this pipeline yet", {}, {}, {}};
      if (near)
        first.what += cat("; compared with pipeline ", before->pipeline);
      else
        explanation.causes.clear();
      explanation.causes.insert(explanation.causes.begin(), std::move(first));
    }
    if (explanation.causes.empty() && explanation.follows.empty()) {
      // The recipe is unchanged: a step of the trajectory that was never requested, or a result that was forgotten.
      const char* const why =
          task.is_trajectory() ? "a snapshot that does not exist yet" : "its result is not recorded";
      explanation.causes.push_back({ReasonKind::kNew, why, {}, {}, {}});
    }
  }

  /// A stage that was given another name, or a second one for nearly the same work: against the result that differs
  /// least.
  bool explain_by_another_name(std::size_t index, Explanation& explanation) {
    const Task& task = graph_.tasks[index];
    const PastTask* nearest = nullptr;
    std::vector<Cause> least;
    for (const PastTask* before : past_.by_other_names(task.stage->name, task.id)) {
      std::vector<Cause> causes = compare(index, *before);
      if (causes.size() > kNear || (nearest && causes.size() >= least.size())) continue;
      nearest = before;
      least = std::move(causes);
    }
    if (!nearest) return false;
    explanation.against = nearest->key.key;
    explanation.against_id = nearest->id;
    explanation.against_run = nearest->run;
    explanation.causes = {
        {ReasonKind::kNew, cat("no result by this name yet; compared with ", Past::label_of(nearest->id)), {}, {}, {}}};
    explanation.causes.insert(explanation.causes.end(), least.begin(), least.end());
    return true;
  }

  std::vector<Cause> compare(std::size_t index, const PastTask& before) {
    const Task& task = graph_.tasks[index];
    const StageDescription& stage = *task.stage;
    std::vector<Cause> causes;
    if (before.version != stage.version) {
      causes.push_back({ReasonKind::kVersion,
                        cat("result version of ", stage.program),
                        std::to_string(before.version),
                        std::to_string(stage.version),
                        {}});
    }
    const std::string_view build = task.hash_build ? std::string_view(stage.program_digest) : std::string_view();
    if (before.build != build) {
      const auto shown_build = [](std::string_view id) {
        return id.empty() ? std::string("unset") : short_digest(std::string(id));
      };
      causes.push_back(
          {ReasonKind::kVersion, cat("build of ", stage.program), shown_build(before.build), shown_build(build), {}});
    }
    for (const Cause& cause : config_causes(task, before)) causes.push_back(cause);
    if (before.externals != keys_->externals(task)) {
      const std::size_t first = causes.size();
      compare_files(decoded(before.externals), decoded(keys_->externals(task)), causes);
      for (std::size_t i = first; i < causes.size(); ++i) causes[i].place = place(task, causes[i]);
    }
    // One byte is the empty map: a file of another day has no inputs yet.
    if (const auto inputs = known_inputs(graph_, plan_, index); inputs && before.inputs.size() > 1) {
      const Json now = input_roles(graph_, task, *inputs);
      if (const Json then = decoded(before.inputs); then != now) compare_inputs(stage, then, now, causes);
    }
    return causes;
  }

  /// Most tasks of a stage share their config, and most earlier ones did: each pair is compared once.
  const std::vector<Cause>& config_causes(const Task& task, const PastTask& before) {
    static const std::vector<Cause> none;
    const std::string& now = keys_->config(task);
    if (before.config == now) return none;
    const auto [it, fresh] = compared_.try_emplace({before.config.data(), now.data()});
    if (!fresh) return it->second;
    Json then = decoded(before.config), present = decoded(now);
    compare_revisions(*task.stage, then, present, it->second);
    const auto all = support::differences(then, present);
    // A report's labels are long, and belong to its inputs; labels that a slice leaves out move with them.
    const bool labels = task.stage->takes_labels && std::any_of(all.begin(), all.end(), is_label);
    if (labels) it->second.push_back({ReasonKind::kInput, labels_changed(then, present), {}, {}, {}});
    for (const auto& difference : all) {
      if (labels && (is_label(difference) || difference.path.starts_with("left_out"))) continue;
      if (is_freed_horizon(*task.stage, difference)) continue;
      Cause cause{ReasonKind::kConfig, difference.path, shown(difference.before), shown(difference.after), {}};
      cause.place = place(task, cause);
      it->second.push_back(std::move(cause));
    }
    return it->second;
  }

  /// Instances of a stage mostly take a value from the same line; the first one represents them.
  support::Place place(const Task& task, const Cause& cause) {
    const std::string path =
        cause.kind == ReasonKind::kExternal && !task.externals.empty() ? task.externals[0].field : cause.what;
    const auto [it, fresh] = places_.try_emplace(cat(task.label, '\n', path, '\n', cause.after));
    if (fresh) it->second = place_of(graph_.origins_of(task), path);
    return it->second;
  }

  const Graph& graph_;
  const Plan& plan_;
  Past past_;
  std::shared_ptr<KeyMaker> keys_;
  Against against_;
  std::map<std::pair<const char*, const char*>, std::vector<Cause>> compared_;
  std::map<std::string, support::Place> places_;
};

}  // namespace

std::string Cause::str() const {
  if (before.empty() && after.empty()) return what;
  return cat(what, " ", before, " -> ", after);
}

std::vector<Explanation> explain_all(const Graph& graph, const Plan& plan, const StoreView& store,
                                     const std::vector<std::size_t>& tasks, Against against) {
  Explainer explainer(graph, plan, store, std::move(against));
  std::vector<Explanation> explanations;
  explanations.reserve(tasks.size());
  for (const std::size_t task : tasks) explanations.push_back(explainer.explain(task));
  return explanations;
}

std::vector<CauseGroup> group_causes(const Graph& graph, const Plan& plan, const StoreView& store) {
  Explainer explainer(graph, plan, store);
  std::vector<CauseGroup> groups;
  std::unordered_map<std::string, std::size_t> by_text;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const TaskState state = plan.tasks[i].state;
    if (state == TaskState::kReuse || state == TaskState::kNotNeeded || state == TaskState::kLikelyReuse) continue;
    Explanation explanation = explainer.explain(i);
    std::string text = graph.tasks[i].label;
    for (const Cause& cause : explanation.causes) text += cat('\n', cause.str());
    const auto [it, fresh] = by_text.try_emplace(std::move(text), groups.size());
    if (fresh) groups.push_back({graph.tasks[i].label, std::move(explanation.causes), {}});
    groups[it->second].tasks.push_back(i);
  }
  std::stable_sort(groups.begin(), groups.end(),
                   [](const CauseGroup& a, const CauseGroup& b) { return a.tasks.size() > b.tasks.size(); });
  return groups;
}

}  // namespace pe::pipeline

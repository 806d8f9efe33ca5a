#include "pipeline/run/naive_model.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "support/hash.h"
#include "support/text.h"

namespace pe::test {

using support::cat;

namespace {

const std::vector<std::string>& labels_of(const ModelPipeline& pipeline, const std::string& axis) {
  for (const auto& [name, labels] : pipeline.axes) {
    if (name == axis) return labels;
  }
  static const std::vector<std::string> none;
  return none;
}

std::string file_of(const ModelPipeline& pipeline, const ModelStage& stage) {
  return stage.file.empty() ? "" : stage.file + "=" + pipeline.files.at(stage.file);
}

/// The text of a task names its labels, so that no two instances of a stage are the same work.
std::string text_of(const ModelTask& task) {
  const auto at = task.id.find('[');
  return at == std::string::npos ? "" : task.id.substr(at + 1, task.id.size() - at - 2);
}

std::vector<std::string> input_contents(const ModelPipeline& pipeline, const std::vector<ModelTask>& tasks,
                                        std::size_t task) {
  std::vector<std::string> contents;
  for (const auto& input : tasks[task].inputs)
    contents.push_back(cat(input.role, ":", NaiveModel::content(pipeline, tasks, input.task, input.step)));
  return contents;
}

}  // namespace

std::string recipe_text(const std::string& kind, int version, int value, int extra, const std::string& text,
                        const std::string& file, bool trajectory, const std::vector<std::string>& inputs) {
  return cat(kind, "|v", version, "|", value, "|", extra, "|", text, "|", file, "|", trajectory ? "steps" : "whole",
             "|", support::join(inputs, ","));
}

std::string content_text(const std::string& kind, int version, int value, const std::string& text,
                         const std::string& file, const std::vector<std::string>& inputs, int step) {
  // A new version of `kit` writes other bytes; one of `toy` does not.
  const int seen = kind == "kit" ? version : 0;
  return support::sha256_hex(
      cat(kind, "|", seen, "|", value / 2, "|", text, "|", file, "|", support::join(inputs, ","), "|", step));
}

ModelStage ModelPipeline::random_stage(Chance& chance, std::size_t number) const {
  ModelStage stage;
  stage.label = cat("s", number);
  stage.kind = chance.one_in(3) ? "kit" : "toy";
  stage.value = chance.below(8);
  for (const auto& [axis, labels] : axes) {
    if (chance.one_in(2)) stage.axes.push_back(axis);
  }
  if (stage.axes.size() == 2 && chance.one_in(2)) std::swap(stage.axes[0], stage.axes[1]);
  if (chance.one_in(4)) stage.file = chance.one_in(2) ? "f0.txt" : "f1.txt";
  if (chance.one_in(3)) {
    stage.tokens = 2 * (2 + chance.below(6));
    stage.snapshots = {{"half", 0.5}, {"final", 1.0}};
    if (chance.one_in(3)) stage.snapshots.pop_back();
  }
  const std::size_t earlier = std::min(number, stages.size());
  if (earlier == 0) return stage;
  const auto reference = [&] {
    ModelReference found{static_cast<std::size_t>(chance.below(static_cast<int>(earlier))), ""};
    const auto& snapshots = stages[found.stage].snapshots;
    if (!snapshots.empty())
      found.snapshot = snapshots[static_cast<std::size_t>(chance.below(static_cast<int>(snapshots.size())))].first;
    return found;
  };
  if (!chance.one_in(3)) {
    const ModelReference parent = reference();
    const auto& theirs = stages[parent.stage].axes;
    const bool closed = std::all_of(theirs.begin(), theirs.end(), [&](const std::string& axis) {
      return std::find(stage.axes.begin(), stage.axes.end(), axis) != stage.axes.end();
    });
    if (closed) stage.init = parent;
  }
  for (int left = chance.below(3); left > 0; --left) {
    const ModelReference parent = reference();
    const bool twice = std::any_of(stage.in.begin(), stage.in.end(),
                                   [&](const ModelReference& other) { return other.stage == parent.stage; });
    if (!twice) stage.in.push_back(parent);
  }
  return stage;
}

ModelPipeline ModelPipeline::random(Chance& chance) {
  ModelPipeline pipeline;
  pipeline.axes = {{"a", {"1", "2"}}, {"b", {"x", "y", "z"}}};
  pipeline.axes[0].second.resize(static_cast<std::size_t>(1 + chance.below(2)));
  pipeline.axes[1].second.resize(static_cast<std::size_t>(1 + chance.below(3)));
  pipeline.files = {{"f0.txt", "zero"}, {"f1.txt", "one"}};
  const std::size_t count = static_cast<std::size_t>(1 + chance.below(8));
  for (std::size_t i = 0; i < count; ++i) pipeline.stages.push_back(pipeline.random_stage(chance, i));
  pipeline.style = static_cast<std::uint64_t>(chance.below(1 << 20));
  return pipeline;
}

std::string ModelPipeline::yaml() const {
  Chance chance(style);
  std::string text = "schema: pe-pipeline/1\n";
  if (chance.one_in(2)) text += "# a remark\n";
  text += chance.one_in(2) ? "name: model\n" : "name:   \"model\"\n\n";
  std::set<std::string> used;
  for (const ModelStage& stage : stages) used.insert(stage.axes.begin(), stage.axes.end());
  if (!used.empty()) {
    text += "axes:\n";
    for (const auto& [axis, labels] : axes) {
      if (used.count(axis)) text += cat("  ", axis, ": [", support::join(labels, chance.one_in(2) ? ", " : ","), "]\n");
    }
  }
  text += "stages:\n";
  for (const ModelStage& stage : stages) {
    std::vector<std::string> lines{cat("run: pe-", stage.kind)};
    if (!stage.axes.empty()) lines.push_back(cat("over: [", support::join(stage.axes, ", "), "]"));
    if (stage.init)
      lines.push_back(cat("needs: {init: '", stages[stage.init->stage].label, stage.init->snapshot.empty() ? "" : "@",
                          stage.init->snapshot, "'}"));
    if (!stage.in.empty()) {
      std::vector<std::string> names;
      for (const auto& in : stage.in)
        names.push_back(cat("'", stages[in.stage].label, in.snapshot.empty() ? "" : "@", in.snapshot, "'"));
      lines.push_back(cat("gather: {in: [", support::join(names, ", "), "]}"));
    }
    std::vector<std::string> set;
    // One number in several spellings.
    const std::vector<std::string> spellings{cat(stage.value), cat(stage.value, ".0"), cat(stage.value, "e0")};
    set.push_back(cat("value: ", spellings[static_cast<std::size_t>(chance.below(3))]));
    if (stage.workers != 1 || chance.one_in(2)) set.push_back(cat("workers: ", stage.workers));
    if (stage.fails) set.push_back("fails: true");
    if (stage.extra != 0 || chance.one_in(3)) set.push_back(cat("extra: ", stage.extra));
    if (!stage.file.empty()) set.push_back(cat("path: ", stage.file));
    if (stage.tokens > 0) set.push_back(cat("tokens: ", stage.tokens));
    if (!stage.axes.empty()) {
      std::vector<std::string> parts;
      for (const std::string& axis : stage.axes) parts.push_back(cat(axis, "=$(", axis, ")"));
      set.push_back(cat("text: \"", support::join(parts, ","), "\""));
    }
    for (std::size_t i = set.size(); i > 1; --i)
      std::swap(set[i - 1], set[static_cast<std::size_t>(chance.below(static_cast<int>(i)))]);
    lines.push_back(chance.one_in(2) ? cat("config: {set: {", support::join(set, ", "), "}}")
                                     : cat("config:\n      set:\n        ", support::join(set, "\n        ")));
    if (!stage.snapshots.empty()) {
      std::vector<std::string> points;
      for (const auto& [label, point] : stage.snapshots) points.push_back(cat(label, ": ", point));
      lines.push_back(cat("snapshots: {", support::join(points, ", "), "}"));
    }
    if (chance.one_in(3)) lines.push_back(cat("resources: {cpus: ", 1 + chance.below(2), ", mem: 1G}"));
    for (std::size_t i = lines.size(); i > 1; --i)
      std::swap(lines[i - 1], lines[static_cast<std::size_t>(chance.below(static_cast<int>(i)))]);
    text += cat("  ", stage.label, ":\n");
    for (const std::string& line : lines) text += cat("    ", line, chance.one_in(6) ? "  # why\n" : "\n");
    if (chance.one_in(4)) text += "\n";
  }
  return text;
}

std::vector<ModelTask> NaiveModel::expand(const ModelPipeline& pipeline) {
  std::vector<ModelTask> tasks;
  std::vector<std::map<std::string, std::string>> labels;  // by task
  for (std::size_t s = 0; s < pipeline.stages.size(); ++s) {
    const ModelStage& stage = pipeline.stages[s];
    std::vector<std::map<std::string, std::string>> cells(1);
    for (const std::string& axis : stage.axes) {
      std::vector<std::map<std::string, std::string>> more;
      for (const auto& cell : cells) {
        for (const std::string& label : labels_of(pipeline, axis)) {
          more.push_back(cell);
          more.back()[axis] = label;
        }
      }
      cells = std::move(more);
    }
    for (const auto& cell : cells) {
      ModelTask task;
      task.stage = s;
      std::vector<std::string> parts;
      for (const std::string& axis : stage.axes) parts.push_back(cat(axis, "=", cell.at(axis)));
      task.id = parts.empty() ? stage.label : cat(stage.label, "[", support::join(parts, ","), "]");
      for (const auto& [label, point] : stage.snapshots)
        task.steps.push_back(static_cast<int>(std::lround(point * stage.tokens)));
      const auto join = [&](const std::string& role, const ModelReference& reference) {
        for (std::size_t i = 0; i < tasks.size(); ++i) {
          if (tasks[i].stage != reference.stage) continue;
          bool agrees = true;
          for (const auto& [axis, label] : labels[i]) {
            const auto mine = cell.find(axis);
            agrees = agrees && (mine == cell.end() || mine->second == label);
          }
          if (!agrees) continue;
          int step = -1;
          const auto& snapshots = pipeline.stages[reference.stage].snapshots;
          for (std::size_t k = 0; k < snapshots.size(); ++k) {
            if (snapshots[k].first == reference.snapshot) step = tasks[i].steps[k];
          }
          task.inputs.push_back({role, i, step});
        }
      };
      // In the order in which the stage declares its roles.
      for (const ModelReference& reference : stage.in) join("in", reference);
      if (stage.init) join("init", *stage.init);
      labels.push_back(cell);
      tasks.push_back(std::move(task));
    }
  }
  return tasks;
}

std::string NaiveModel::recipe(const ModelPipeline& pipeline, const std::vector<ModelTask>& tasks, std::size_t task) {
  const ModelStage& stage = pipeline.stages[tasks[task].stage];
  return recipe_text(stage.kind, pipeline.versions.at(stage.kind), stage.value, stage.extra, text_of(tasks[task]),
                     file_of(pipeline, stage), !stage.snapshots.empty(), input_contents(pipeline, tasks, task));
}

std::string NaiveModel::content(const ModelPipeline& pipeline, const std::vector<ModelTask>& tasks, std::size_t task,
                                int step) {
  const ModelStage& stage = pipeline.stages[tasks[task].stage];
  return content_text(stage.kind, pipeline.versions.at(stage.kind), stage.value, text_of(tasks[task]),
                      file_of(pipeline, stage), input_contents(pipeline, tasks, task), step);
}

NaiveModel::Outcome NaiveModel::run(const ModelPipeline& pipeline, const std::vector<ModelTask>& tasks,
                                    const std::vector<bool>& selected, bool force) {
  Outcome outcome;
  enum class State { kUnseen, kDone, kFailed, kBlocked };
  std::vector<std::string> recipes;
  for (std::size_t i = 0; i < tasks.size(); ++i) recipes.push_back(recipe(pipeline, tasks, i));
  std::vector<bool> executed(tasks.size()), failed(tasks.size());
  std::set<ModelResult> made;                    // in this run
  std::set<std::pair<std::size_t, int>> lacked;  // by the readers of a task, when it failed

  const auto recorded = [&](std::size_t task, int step) { return held.count({recipes[task], step}) > 0; };
  const auto present = [&](std::size_t task, int step) {
    const auto it = held.find({recipes[task], step});
    return it != held.end() && it->second != Held::kObjectGone;
  };
  // A key is known before anything runs when every input's content is on record, all the way up.
  std::vector<char> known(tasks.size());
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    known[i] = std::all_of(tasks[i].inputs.begin(), tasks[i].inputs.end(), [&](const ModelTask::Input& input) {
      return known[input.task] && recorded(input.task, input.step);
    });
  }
  // Which results a task must bring, from readers to producers.
  std::vector<std::set<int>> wanted(tasks.size());
  std::vector<bool> must(tasks.size());
  for (std::size_t i = tasks.size(); i-- > 0;) {
    const auto steps = tasks[i].steps.empty() ? std::vector<int>{-1} : tasks[i].steps;
    if (selected[i]) wanted[i].insert(steps.begin(), steps.end());
    if (wanted[i].empty()) continue;
    const bool there = std::all_of(wanted[i].begin(), wanted[i].end(), [&](int step) { return present(i, step); });
    must[i] = !there || (force && selected[i]);
    // Who is not sure that the result will fit keeps its inputs at hand.
    if (there && known[i] && !must[i]) continue;
    for (const auto& input : tasks[i].inputs) wanted[input.task].insert(input.step);
  }
  std::vector<State> states(tasks.size(), State::kUnseen);
  const auto fail = [&](std::size_t i) {
    failed[i] = true;
    for (const int step : wanted[i]) {
      if (!present(i, step)) lacked.insert({i, step});
    }
  };
  std::function<void(std::size_t)> execute = [&](std::size_t i) {
    for (const auto& input : tasks[i].inputs) {
      const auto it = held.find({recipes[input.task], input.step});
      if (it != held.end() && it->second == Held::kWhole) continue;
      // A damaged input is found by its reader, and its producer runs once more. So do those whose objects it lacks.
      if (it != held.end()) it->second = Held::kObjectGone;
      wanted[input.task].insert(input.step);
      execute(input.task);
      if (failed[input.task] || states[input.task] == State::kBlocked) {
        if (failed[input.task]) states[input.task] = State::kFailed;
        outcome.blocked.insert(i);
        states[i] = State::kBlocked;
        return;
      }
    }
    const ModelStage& stage = pipeline.stages[tasks[i].stage];
    if (stage.fails) {
      outcome.failed.insert(recipes[i]);
      fail(i);
      return;
    }
    outcome.executed.insert(recipes[i]);
    for (const int step : tasks[i].steps.empty() ? std::vector<int>{-1} : tasks[i].steps) {
      if (!wanted[i].count(step)) continue;
      const ModelResult result{recipes[i], step};
      // A damaged snapshot counts as present until it is read; only missing ones are requested.
      const auto it = held.find(result);
      if (it != held.end() && it->second == Held::kDamaged) continue;
      made.insert(result);
      held[result] = Held::kWhole;
    }
  };
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    if (wanted[i].empty()) continue;
    const auto broken = [&](const ModelTask::Input& input) {
      if (states[input.task] != State::kFailed && states[input.task] != State::kBlocked) return false;
      // A snapshot that is there serves although its trajectory fails later; one that is forced again does not. Neither
      // does one that the same work under another name makes after the failure, nor one whose key is not known because
      // its trajectory is blocked.
      return (force && selected[input.task]) || !present(input.task, input.step) ||
             lacked.count({input.task, input.step}) > 0 ||
             (states[input.task] == State::kBlocked && !known[input.task]);
    };
    const bool blocked = (must[i] || !known[i]) && std::any_of(tasks[i].inputs.begin(), tasks[i].inputs.end(), broken);
    if (blocked) {
      outcome.blocked.insert(i);
      states[i] = State::kBlocked;
      continue;
    }
    if (force && selected[i]) {
      // The same work under another name is done once.
      if (!std::all_of(wanted[i].begin(), wanted[i].end(), [&](int s) { return made.count({recipes[i], s}) > 0; }))
        execute(i);
    } else if (must[i] &&
               !std::all_of(wanted[i].begin(), wanted[i].end(), [&](int step) { return present(i, step); })) {
      // The same work under another name is tried separately: a setting in no key may be why the other failed.
      if (outcome.failed.count(recipes[i]) && pipeline.stages[tasks[i].stage].fails) {
        fail(i);
      } else {
        execute(i);
      }
    }
    if (states[i] != State::kBlocked) states[i] = failed[i] ? State::kFailed : State::kDone;
  }
  return outcome;
}

}  // namespace pe::test

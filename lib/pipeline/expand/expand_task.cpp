#include "pipeline/expand/expander.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "pipeline/expand/compute_auto.h"
#include "pipeline/file/config_value.h"
#include "pipeline/file/path_fields.h"
#include "pipeline/file/policy.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;
using support::Diagnostics;
using support::Node;
using support::quote;

std::string Expander::signature(const std::vector<std::string>& axes, const Scope& scope) {
  std::string labels;
  for (const std::string& name : axes) {
    if (const AxisValue* value = scope.find(name)) labels += value->label;
    labels += kSeparator;
  }
  return labels;
}

/// Config, shared by instances that agree on the axes it uses. False when a mistake was told.
bool Expander::finish_config(Stage& stage, const Scope& scope, Task& task) {
  const std::string labels = signature(stage.config_axes, scope);
  const std::pair<std::int64_t, std::int64_t> resources{task.resources.cpus, task.resources.gpus};
  auto found = stage.configs.find(labels);
  if (found == stage.configs.end()) {
    Diagnostics local;
    auto config = compose(stage, scope, nullptr, local);
    if (!config) local.add_context(cat("while reading stage ", quote(stage.node->label), " (", stage.node->mark.place().str(), ")"));
    report(local);
    if (!config) return false;
    Composed composed;
    lay_claims(stage, *config);
    composed.externals = finish_paths(stage, *config);
    if (const auto group = config->find("compute"); group != config->end()) composed.compute = *group;
    resolve_compute(*stage.description, task.resources, options_.isa, *config);
    composed.resolved[resources] = std::move(*config);   // not copied: a grid composes thousands
    found = stage.configs.emplace(labels, std::move(composed)).first;
  }
  Composed& composed = found->second;
  auto resolved = composed.resolved.find(resources);
  if (resolved == composed.resolved.end()) {
    Json config = composed.resolved.begin()->second;
    if (!composed.compute.is_null()) config["compute"] = composed.compute;
    resolve_compute(*stage.description, task.resources, options_.isa, config);
    resolved = composed.resolved.emplace(resources, std::move(config)).first;
  }
  task.config = resolved->second;
  task.externals = composed.externals;
  return true;
}

/// Makes paths absolute; returns those whose content is an input.
std::vector<ExternalInput> Expander::finish_paths(const Stage& stage, Json& config) const {
  std::vector<ExternalInput> externals;
  for_each_path(stage.description->fields, config, [&](const std::string& dotted, Json& value, bool hashed) {
    std::vector<std::string> paths;
    const auto absolute = [&](Json& item) {
      if (!item.is_string()) return;
      const std::string text = item.get<std::string>();
      if (text.empty()) return;
      const fs::path path = fs::path(text).is_absolute() ? fs::path(text) : file_.root / text;
      paths.push_back(path.lexically_normal().string());
      item = paths.back();
    };
    if (value.is_array()) {
      for (Json& item : value) absolute(item);
    } else {
      absolute(value);
    }
    if (!paths.empty() && hashed) externals.push_back({dotted, std::move(paths), {}, {}});
  });
  return externals;
}

/// A stage that prints labels gets them as config, so that they are in its key and in no other's.
void Expander::finish_labels(const Stage& stage, Task& task) {
  const StageDescription& description = *stage.description;
  if (!description.takes_labels) return;
  Json& config = task.config.edit();
  if (support::find_field(description.fields, "title") && config["title"].is_string() &&
      config["title"].get_ref<const std::string&>().empty()) {
    config["title"] = file_.title.empty() ? file_.name : file_.title;
  }
  if (support::find_field(description.fields, "labels")) {
    Json labels = Json::array();
    for (const auto& role : stage.node->gather) {
      for (const Edge& edge : task.inputs) {
        if (edge.role != role.name) continue;
        std::string line = cat(edge.role, " stage=", edge.labels->at("stage"));
        for (const auto& [axis, label] : *edge.labels) {
          if (axis == "stage") continue;
          line += ',';
          line += axis;
          line += '=';
          line += label;
        }
        labels.push_back(std::move(line));
      }
    }
    config["labels"] = std::move(labels);
  }
}

/// The file's own `claims`, for a report whose config names none. A path as others are, so its content is in the key.
void Expander::lay_claims(const Stage& stage, Json& config) const {
  if (file_.claims.empty() || !stage.description->takes_labels || !support::find_field(stage.description->fields, "claims")) return;
  Json& claims = config["claims"];
  if (claims.is_null() || (claims.is_string() && claims.get_ref<const std::string&>().empty())) claims = file_.claims;
}

Expander::Policy Expander::make_policy(const Stage& stage, const Scope& scope) {
  Policy policy;
  Diagnostics local;
  const StageNode& node = *stage.node;
  const Node& wanted = node.resources.is_null() ? file_.default_resources : node.resources;
  if (!wanted.is_null()) {
    if (const auto value = substitute(wanted, scope, local)) {
      if (value->is_scalar()) {
        const auto it = resources_.find(value->text);
        if (it == resources_.end()) {
          std::vector<std::string> names;
          for (const auto& [name, resources] : resources_) names.push_back(name);
          local.add(cat("no resources ", quote(value->text)), value->place(),
                    names.empty() ? "the file has no `resources`" : suggest_or_list(value->text, names));
        } else {
          policy.resources = it->second;
        }
      } else {
        read_resources(*value, policy.resources, local);
      }
    }
  }
  if (const auto flags = resource_flags_.find(node.label); flags != resource_flags_.end()) {
    for (const auto& [key, value] : flags->second) read_resources(single(key, value), policy.resources, local);
  }
  RetryPolicy retry;
  if (!file_.default_retry.is_null()) read_retry(file_.default_retry, retry, local);
  if (!node.retry.is_null()) {
    if (const auto value = substitute(node.retry, scope, local)) read_retry(*value, retry, local);
  }
  policy.retry = std::move(retry);
  policy.checkpoint = checkpoint_policy(stage, scope, local);
  report(local);
  return policy;
}

/// Shared by instances that agree on the axes it uses.
void Expander::finish_policy(Stage& stage, const Scope& scope, Task& task) {
  const auto [found, fresh] = stage.policies.try_emplace(signature(stage.policy_axes, scope));
  if (fresh) found->second = make_policy(stage, scope);
  task.resources = found->second.resources;
  task.retry = found->second.retry;
  task.checkpoint = found->second.checkpoint;
  const StageNode& node = *stage.node;
  task.allow_partial = node.allow_partial;
  task.record_divergence = file_.on_diverge == "record";
  task.exact_numerics = file_.numerics == "exact";
  task.hash_build = file_.code == "build";
}

void Expander::finish_snapshots(const Stage& stage, const Scope& scope, Task& task) {
  const StageNode& node = *stage.node;
  if (node.snapshots.empty()) return;
  const TrajectoryDescription& trajectory = *stage.description->trajectory;
  const auto integer = [&](const std::string& key) -> std::int64_t {
    const Json* value = find_value(*task.config, key);
    if (!value || !value->is_number()) return 0;
    return value->is_number_integer() ? value->get<std::int64_t>() : static_cast<std::int64_t>(value->get<double>());
  };
  std::int64_t tokens_per_step = 1;
  for (const std::string& key : trajectory.tokens_per_step) {
    const std::int64_t factor = integer(key);
    if (factor <= 0 || __builtin_mul_overflow(tokens_per_step, factor, &tokens_per_step)) {
      report(cat("the snapshots of stage ", quote(node.label), " need ", quote(key), " to be positive and not absurd"),
             node.snapshot_marks.front().place());
      return;
    }
  }
  const std::int64_t horizon = integer(trajectory.horizon);
  if (horizon <= 0) {
    report(cat("the snapshots of stage ", quote(node.label), " need ", quote(trajectory.horizon), " to be positive"),
           node.snapshot_marks.front().place(), cat("set ", trajectory.horizon));
    return;
  }
  const std::int64_t horizon_steps = horizon / tokens_per_step + (horizon % tokens_per_step != 0);
  for (std::size_t i = 0; i < node.snapshots.size(); ++i) {
    const auto& [label, written] = node.snapshots[i];
    Diagnostics local;
    const auto point = substitute(written, scope, local);
    std::optional<std::int64_t> step;
    const std::string what = cat("snapshot ", quote(label));
    if (point && point->is_scalar()) {
      const auto fraction = support::parse_real(point->text);
      if (!fraction || !(*fraction >= 0 && *fraction <= 1)) {
        local.add(cat(what, " must be a fraction from 0 to 1, found ", point->found()), point->place(),
                  "a point in tokens is {tokens: 1M}, one in steps {step: 1000}");
      } else {
        // Half up; the small number undoes what binary fractions lose, as in the training's own schedule.
        step = static_cast<std::int64_t>(std::floor(*fraction * static_cast<double>(horizon_steps) + 0.5 + 1e-9));
      }
    } else if (point && point->is_map() && point->members.size() == 1 &&
               (point->members[0].key == "tokens" || point->members[0].key == "step")) {
      const auto& member = point->members[0];
      std::string why;
      const auto value = member.value.is_scalar()
                             ? support::parse_integer(member.value.text, support::Suffixes::kCount, &why) : std::nullopt;
      if (!value || *value < 0) {
        local.add(cat(what, ": ", quote(member.key), " must be an integer from 0, found ", member.value.found()),
                  member.value.place(), "such as 300M or 2.4e9");
      } else {
        step = member.key == "step" ? *value : *value / tokens_per_step + (*value % tokens_per_step != 0);
      }
    } else if (point) {
      local.add(cat(what, " must be a fraction, {tokens: N} or {step: N}, found ", point->found()), point->place());
    }
    if (step && *step > horizon_steps) {
      local.add(cat(what, " is at step ", *step, ", beyond the horizon of ", horizon_steps, " steps (", trajectory.horizon,
                    " = ", horizon, " at ", tokens_per_step, " tokens a step)"),
                written.place());
      step.reset();
    }
    report(local);
    if (step) task.snapshots.push_back({label, *step});
  }
  std::stable_sort(task.snapshots.begin(), task.snapshots.end(),
                   [](const SnapshotPoint& a, const SnapshotPoint& b) { return a.step < b.step; });
}

}  // namespace pe::pipeline

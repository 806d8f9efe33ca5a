#include "pipeline/expand/policies.h"

#include <set>
#include <utility>

#include "pipeline/file/policy.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::Diagnostics;
using support::Node;
using support::quote;

std::string labels_of(const std::vector<std::string>& axes, const Scope& scope) {
  std::string labels;
  for (const std::string& name : axes) {
    if (const AxisValue* value = scope.find(name)) labels += value->label;
    labels += kLabelSeparator;
  }
  return labels;
}

Policies::Policies(const OverriddenPipeline& source, const Stages& stages) : source_(source) {
  stages_.resize(stages.all().size());
  for (const Stage& stage : stages.all()) {
    std::set<std::string> names;
    for (const Node* node :
         {&stage.node->resources, &stage.node->retry, &stage.node->checkpoint, &source.file.default_resources,
          &source.file.default_retry, &source.file.default_checkpoint}) {
      collect_names(*node, names);
    }
    stages_[stage.index].axes.assign(names.begin(), names.end());
  }
}

Json Policies::checkpoint_of(const Stage& stage, const Scope& scope, Diagnostics& diagnostics) const {
  Json checkpoint = Json::object();
  for (const Node* given : {&source_.file.default_checkpoint, &stage.node->checkpoint}) {
    if (given->is_null()) continue;
    if (const auto value = substitute(*given, scope, diagnostics)) read_checkpoint(*value, checkpoint, diagnostics);
  }
  return checkpoint;
}

Policies::Policy Policies::policy_of(const Stage& stage, const Scope& scope, Mistakes& mistakes) const {
  Policy policy;
  Diagnostics local;
  const StageDeclaration& node = *stage.node;
  const Node& wanted = node.resources.is_null() ? source_.file.default_resources : node.resources;
  if (!wanted.is_null()) {
    if (const auto value = substitute(wanted, scope, local)) {
      if (value->is_scalar()) {
        const auto it = source_.resources.find(value->text);
        if (it == source_.resources.end()) {
          std::vector<std::string> names;
          for (const auto& [name, resources] : source_.resources) names.push_back(name);
          local.add(cat("no resources ", quote(value->text)), value->place(),
                    names.empty() ? "the file has no `resources`" : support::suggestion(value->text, names));
        } else {
          policy.resources = it->second;
        }
      } else {
        read_resources(*value, policy.resources, local);
      }
    }
  }
  if (const auto flags = source_.resource_flags.find(node.label); flags != source_.resource_flags.end()) {
    for (const auto& [key, value] : flags->second) read_resources(single(key, value), policy.resources, local);
  }
  RetryPolicy retry;
  for (const Node* given : {&source_.file.default_retry, &node.retry}) {
    if (given->is_null()) continue;
    if (const auto value = substitute(*given, scope, local)) read_retry(*value, retry, local);
  }
  policy.retry = std::move(retry);
  policy.checkpoint = checkpoint_of(stage, scope, local);
  mistakes.report(local);
  return policy;
}

void Policies::give(const Stage& stage, const Scope& scope, Task& task, Mistakes& mistakes) {
  OfStage& of_stage = stages_[stage.index];
  const auto [found, fresh] = of_stage.by_labels.try_emplace(labels_of(of_stage.axes, scope));
  if (fresh) found->second = policy_of(stage, scope, mistakes);
  task.resources = found->second.resources;
  task.retry = found->second.retry;
  task.checkpoint = found->second.checkpoint;
  const StageDeclaration& node = *stage.node;
  task.allow_partial = node.allow_partial;
  task.record_divergence = source_.file.on_diverge == "record";
  task.exact_numerics = source_.file.numerics == "exact";
  // Two people may give their scripts one name and one version; the text distinguishes the scripts.
  const bool own = stage.description->is_script && source_.file.code.empty();
  task.hash_build = own || source_.file.code == "build";
}

}  // namespace pe::pipeline

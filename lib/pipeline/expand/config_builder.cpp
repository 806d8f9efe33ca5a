#include "pipeline/expand/config_builder.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <system_error>

#include "pipeline/expand/compute_auto.h"
#include "pipeline/file/config_value.h"
#include "pipeline/file/path_fields.h"
#include "pipeline/file/shipped.h"
#include "support/flag_value.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;
using support::ConfigError;
using support::Diagnostics;
using support::Mark;
using support::Node;
using support::quote;

namespace {

constexpr std::uint64_t kMostBytes = 16u << 20;  // of a config file

}  // namespace

// ---- files
// ------------------------------------------------------------------------------------------------------------

const Node* ConfigFiles::read(const std::string& path, const Mark& mark, Mistakes& mistakes) {
  const auto [it, fresh] = files_.try_emplace(path);
  if (fresh) {
    fs::path full = fs::path(path).is_absolute() ? fs::path(path) : source_.file.root / path;
    std::error_code error;
    const fs::path shipped = shipped_folder();
    if (!fs::is_regular_file(full, error) && !shipped.empty() && fs::is_regular_file(shipped / path, error)) {
      reads_.push_back({full.lexically_normal().string(), support::stamp_of(full), {}});  // one that comes here counts
      full = shipped / path;  // shipped ones serve any folder
    }
    if (!fs::is_regular_file(full, error)) {
      // The name that is near, as a pipeline file would have it, and where it was looked for.
      std::string hint;
      std::vector<std::string> looked;
      for (const fs::path& place : {source_.file.root, shipped}) {
        if (place.empty() || fs::path(path).is_absolute()) continue;
        if (hint.empty()) hint = support::file_suggestion(place / path, {".yml", ".yaml"});
        if (const auto at = hint.find(place.string() + "/"); at != std::string::npos)
          hint.erase(at, place.string().size() + 1);
        if (looked.empty() || looked.back() != quote(place.string())) looked.push_back(quote(place.string()));
      }
      if (looked.empty()) hint = support::file_suggestion(full, {".yml", ".yaml"});
      if (!looked.empty()) hint += cat(hint.empty() ? "" : " ", "(looked in ", support::join(looked, " and "), ")");
      mistakes.report(cat("no config file ", quote(path)), mark.place(), hint);
    } else {
      try {
        support::FileRead read;
        it->second = support::parse_yaml(support::read_file(full, kMostBytes, read), full.string());
        read.path = full.lexically_normal().string();
        reads_.push_back(std::move(read));
        check(*it->second, mistakes);
      } catch (const support::Error& error_in_file) {  // no YAML, or it cannot be read
        for (const auto& item : error_in_file.diagnostics()) mistakes.report(item.message, item.place, item.hint);
        it->second.reset();
      }
    }
  }
  return it->second ? &*it->second : nullptr;
}

const Node* ConfigFiles::known(const std::string& path) const {
  const auto it = files_.find(path);
  return it != files_.end() && it->second ? &*it->second : nullptr;
}

bool ConfigFiles::declared_anywhere(const std::string& dotted) const {
  for (const Stage& stage : stages_.all()) {
    if (!stage.description) return true;  // the missing stage's fields are not known; its error was already reported
    if (support::find_field(stage.description->fields, dotted)) return true;
    // An option of a variant is below the variant's own path.
    for (std::size_t dot = dotted.rfind('.'); dot != std::string::npos && dot > 0; dot = dotted.rfind('.', dot - 1)) {
      const support::Field* field = support::find_field(stage.description->fields, dotted.substr(0, dot));
      if (field && field->type == support::FieldType::kVariant) return true;
    }
  }
  return false;
}

/// A key of a config file must be declared by some stage of the pipeline.
void ConfigFiles::check(const Node& file, Mistakes& mistakes) const {
  if (file.is_null()) return;
  if (!file.is_map()) {
    mistakes.report(cat("expected a map in a config file, found ", file.found()), file.place());
    return;
  }
  const std::function<void(const Node&, const std::string&)> walk = [&](const Node& map, const std::string& prefix) {
    for (const auto& member : map.members) {
      const std::string path = prefix.empty() ? member.key : cat(prefix, ".", member.key);
      if (!declared_anywhere(path)) {
        std::vector<std::string> known;
        for (const Stage& stage : stages_.all()) {
          if (!stage.description) continue;
          for (std::string& candidate : support::field_paths(stage.description->fields)) {
            for (std::size_t dot = candidate.find('.'); dot != std::string::npos; dot = candidate.find('.', dot + 1)) {
              std::string group = candidate.substr(0, dot);
              if (std::find(known.begin(), known.end(), group) == known.end()) known.push_back(std::move(group));
            }
            known.push_back(std::move(candidate));
          }
        }
        // Inside a group the last word has the typing error.
        std::string hint = support::suggestion(path, known);
        if (hint.rfind("did you mean", 0) != 0) hint = "no stage of this pipeline declares it";
        mistakes.report(cat("unknown key ", quote(path), " in a config file"), member.key_mark.place(), hint);
        continue;
      }
      if (!member.value.is_map()) continue;
      const bool is_group = std::any_of(stages_.all().begin(), stages_.all().end(), [&](const Stage& stage) {
        if (!stage.description) return false;
        const support::Field* field = support::find_field(stage.description->fields, path);
        return field && field->type == support::FieldType::kGroup;
      });
      if (is_group) walk(member.value, path);
    }
  };
  walk(file, "");
}

// ---- layers
// -----------------------------------------------------------------------------------------------------------

namespace {

std::string owner_of(const Stage& stage) {
  return cat("stage ", quote(stage.node->label), " (", stage.description->program, ")");
}

}  // namespace

ConfigBuilder::ConfigBuilder(const OverriddenPipeline& source, const ExpandOptions& options, const Stages& stages,
                             const Policies& policies)
    : source_(source),
      options_(options),
      policies_(policies),
      folder_(options.folder.empty() ? fs::current_path() : fs::absolute(options.folder)),
      files_(source, stages) {
  stages_.resize(stages.all().size());
  for (const Stage& stage : stages.all()) {
    std::set<std::string> names;
    collect_names(stage.node->set, names);
    collect_names(stage.node->checkpoint, names);
    collect_names(source.file.default_checkpoint, names);
    for (const auto* files : {&source.file.default_config, &stage.node->config_files}) {
      for (const Node& file : *files) collect_names(file, names);
    }
    if (stage.node->budgets) names.insert(kBudgetAxis);
    stages_[stage.index].axes.assign(names.begin(), names.end());
  }
}

/// The scalars that name the stage's config files, in the order in which they are laid over each other.
std::vector<const Node*> ConfigBuilder::file_names(const Stage& stage) const {
  std::vector<const Node*> names;
  for (const auto* list : {&source_.file.default_config, &stage.node->config_files}) {
    for (const Node& name : *list) names.push_back(&name);
  }
  return names;
}

bool ConfigBuilder::same_for_all(const Stage& stage) const {
  const auto names = file_names(stage);
  return !has_substitution(stage.node->checkpoint) && !has_substitution(source_.file.default_checkpoint) &&
         std::none_of(names.begin(), names.end(), [](const Node* name) { return has_substitution(name->text); });
}

bool ConfigBuilder::read_files(const Stage& stage, const Scope& scope, Mistakes& mistakes) {
  bool good = true;
  for (const Node* name : file_names(stage)) {
    Diagnostics local;
    const auto path = substitute_text(name->text, name->mark, scope, local);
    mistakes.report(local);
    good = path && files_.read(*path, name->mark, mistakes) && good;
  }
  return good;
}

/// Everything below `set`. Reads nothing: the files are known.
Json ConfigBuilder::lay_files(const Stage& stage, const Scope& scope, support::Origins* origins,
                              Diagnostics& diagnostics) const {
  const support::OverlayOptions foreign{[](const std::string&) { return true; }, owner_of(stage)};
  const support::Schema& fields = stage.description->fields;
  Json config = support::defaults(fields);
  lay_checkpoint(stage, scope, config, diagnostics);
  for (const Node* name : file_names(stage)) {
    const auto path = substitute_text(name->text, name->mark, scope, diagnostics);
    const Node* file = path ? files_.known(*path) : nullptr;
    if (file && file->is_map()) support::overlay(fields, *file, config, origins, diagnostics, foreign);
  }
  return config;
}

/// A stage hears of the policy through its config, below whatever files and sets say; only fields that no key holds.
void ConfigBuilder::lay_checkpoint(const Stage& stage, const Scope& scope, Json& config,
                                   Diagnostics& diagnostics) const {
  const Json policy = policies_.checkpoint_of(stage, scope, diagnostics);
  for (const auto& [name, field_name] : {std::pair{"every_s", "every"}, std::pair{"keep", "keep"}}) {
    const support::Field* field = support::find_field(stage.description->fields, cat("checkpoint.", field_name));
    if (field && !field->options.hashed && policy.contains(name)) config["checkpoint"][field_name] = policy[name];
  }
}

/// Where this instance's branch ends and how long it is.
void ConfigBuilder::lay_budget(const Stage& stage, const Scope& scope, Json& config, support::Origins* origins,
                               Diagnostics& diagnostics) const {
  const AxisValue* own = stage.node->budgets ? scope.find(kBudgetAxis) : nullptr;
  if (own == nullptr) return;
  const artifact::Branch& branch = *stage.description->branch;
  Node share = own->value;
  share.text = support::shortest(stage.node->budgets->share);
  const support::OverlayOptions strict{{}, owner_of(stage)};
  support::overlay(stage.description->fields, single(branch.end, own->value), config, origins, diagnostics, strict);
  support::overlay(stage.description->fields, single(branch.share, std::move(share)), config, origins, diagnostics,
                   strict);
}

/// Values of the stage or a flag in addition to its budgets must agree with them: the trunk's snapshots are at the
/// steps of the budgets.
void ConfigBuilder::check_budget(const Stage& stage, const Scope& scope, const Json& config,
                                 Diagnostics& diagnostics) const {
  const AxisValue* own = stage.node->budgets ? scope.find(kBudgetAxis) : nullptr;
  if (own == nullptr) return;
  const artifact::Branch& branch = *stage.description->branch;
  const auto expect = [&](const std::string& key, double wanted) {
    const Json* found = find_value(config, key);
    if (found == nullptr || !found->is_number() || found->get<double>() == wanted) return;
    diagnostics.add(cat(quote(key), " of stage ", quote(stage.node->label), " is ", found->dump(),
                        ", but its budgets say ", support::shortest(wanted)),
                    stage.node->budgets->mark.place(),
                    "remove it; another share is written as `budgets: {ends: [0.25, 1], share: 0.1}`");
  };
  if (const auto end = support::parse_real(own->value.text)) expect(branch.end, *end);
  expect(branch.share, stage.node->budgets->share);
}

void ConfigBuilder::apply_sets(const Stage& stage, const Scope& scope, Json& config, support::Origins* origins,
                               Diagnostics& diagnostics) const {
  const StageDescription& description = *stage.description;
  const support::OverlayOptions strict{{}, owner_of(stage)};
  lay_budget(stage, scope, config, origins, diagnostics);
  if (stage.node->set.is_map()) {
    const auto set = substitute(stage.node->set, scope, diagnostics);
    if (set) support::overlay(description.fields, *set, config, origins, diagnostics, strict);
  }
  const auto flags = source_.stage_flags.find(stage.node->label);
  if (flags == source_.stage_flags.end()) return;
  for (const Flag& flag : flags->second) {
    const support::Field* field = support::find_field(description.fields, flag.key);
    const auto absolute = [&](const std::string& text) {
      return text.empty() || fs::path(text).is_absolute() ? text : (folder_ / text).lexically_normal().string();
    };
    Node value;
    try {
      value = support::flag_value(field, flag.value, flag.name);
    } catch (const ConfigError& error) {
      for (const auto& item : error.diagnostics()) diagnostics.add(item.message, item.place, item.hint);
      continue;
    }
    if (support::takes_paths(field)) {
      value.text = absolute(value.text);
      for (Node& item : value.items) item.text = absolute(item.text);
    }
    support::overlay(description.fields, single(flag.key, std::move(value)), config, origins, diagnostics, strict);
  }
}

/// The file's own `claims`, for a report whose config names none. A path as others are, so its content is in the key.
void ConfigBuilder::lay_claims(const Stage& stage, Json& config) const {
  if (source_.file.claims.empty() || !stage.description->takes_labels ||
      !support::find_field(stage.description->fields, "claims"))
    return;
  Json& claims = config["claims"];
  if (claims.is_null() || (claims.is_string() && claims.get_ref<const std::string&>().empty()))
    claims = source_.file.claims;
}

/// The file's `sequential`, for a report whose config has none.
void ConfigBuilder::lay_sequential(const Stage& stage, Json& config) const {
  const auto& own = source_.file.sequential;
  if (!own || !stage.description->takes_labels || !support::find_field(stage.description->fields, "sequential")) return;
  Json& group = config["sequential"];
  if (!group.is_object() || group.value("claim", "").empty())
    group = {{"claim", own->claim}, {"from", own->from}, {"most", own->most}, {"alpha", own->alpha}};
}

/// Makes paths absolute; returns those whose content is an input.
std::vector<ExternalInput> ConfigBuilder::make_paths_absolute(const Stage& stage, Json& config) const {
  std::vector<ExternalInput> externals;
  for_each_path(stage.description->fields, config, [&](const std::string& dotted, Json& value, bool hashed) {
    std::vector<std::string> paths;
    const auto absolute = [&](Json& item) {
      if (!item.is_string()) return;
      const std::string text = item.get<std::string>();
      if (text.empty()) return;
      const fs::path path = fs::path(text).is_absolute() ? fs::path(text) : source_.file.root / text;
      paths.push_back(path.lexically_normal().string());
      item = paths.back();
    };
    if (value.is_array()) {
      for (Json& item : value) absolute(item);
    } else {
      absolute(value);
    }
    if (!paths.empty() && hashed) externals.push_back({dotted, std::move(paths), {}});
  });
  return externals;
}

// ---- whole configs
// ----------------------------------------------------------------------------------------------------

std::optional<Json> ConfigBuilder::config_of(const Stage& stage, const Scope& scope, Mistakes& mistakes) {
  std::optional<Json>& base = stages_[stage.index].base;
  Diagnostics local;
  Json config;
  bool good = true;
  if (base) {
    config = *base;
  } else {
    good = read_files(stage, scope, mistakes);
    config = lay_files(stage, scope, nullptr, local);
    if (good && local.empty() && same_for_all(stage)) base = config;
  }
  apply_sets(stage, scope, config, nullptr, local);
  check_budget(stage, scope, config, local);
  good = good && local.empty();
  if (!good) {
    local.add_context(cat("while reading stage ", quote(stage.node->label), " (", stage.node->mark.place().str(), ")"));
    mistakes.report(local);
    return std::nullopt;
  }
  return config;
}

/// Value for `compute.isa: auto`. The block `slurm` of the stage, or of the file, describes the machines that will run
/// it. A login node, a laptop and a compute node therefore give the tasks the same keys. Without the block it is the
/// planning machine.
InstructionSets ConfigBuilder::isa_of(const Stage& stage, Mistakes& mistakes) const {
  static const std::vector<std::string> kKnown{"amx", "avx512", "avx2", "portable"};
  for (const Node* block : {&stage.node->slurm, &source_.file.slurm}) {
    const Node* isa = block->is_map() ? block->find("isa") : nullptr;
    if (!isa) continue;
    if (isa->is_scalar() && std::find(kKnown.begin(), kKnown.end(), isa->text) != kKnown.end())
      return {isa->text, isa->text};
    mistakes.report(cat("expected one of ", support::join(kKnown, ", "), " as slurm.isa, found ", isa->found()),
                    isa->place(), support::suggestion(isa->text, kKnown));
    return {kKnown.back(), kKnown.back()};
  }
  return {options_.isa, options_.bf16_isa};
}

bool ConfigBuilder::compose(const Stage& stage, const Scope& scope, const std::vector<Task>& producers, Task& task,
                            Mistakes& mistakes) {
  OfStage& of_stage = stages_[stage.index];
  const std::string labels = labels_of(of_stage.axes, scope);
  const std::pair<std::int64_t, double> resources{task.resources.cpus, task.resources.gpus};
  auto found = of_stage.by_labels.find(labels);
  if (found == of_stage.by_labels.end()) {
    auto config = config_of(stage, scope, mistakes);
    if (!config) return false;
    BuiltConfig composed;
    lay_claims(stage, *config);
    lay_sequential(stage, *config);
    composed.externals = make_paths_absolute(stage, *config);
    if (const auto group = config->find("compute"); group != config->end()) composed.compute = *group;
    composed.isa = isa_of(stage, mistakes);
    resolve_compute(*stage.description, task.resources, composed.isa, *config);
    composed.resolved[resources] = std::move(*config);  // not copied: a grid composes thousands
    found = of_stage.by_labels.emplace(labels, std::move(composed)).first;
  }
  BuiltConfig& composed = found->second;
  auto resolved = composed.resolved.find(resources);
  if (resolved == composed.resolved.end()) {
    Json config = composed.resolved.begin()->second;
    if (!composed.compute.is_null()) config["compute"] = composed.compute;
    resolve_compute(*stage.description, task.resources, composed.isa, config);
    resolved = composed.resolved.emplace(resources, std::move(config)).first;
  }
  task.config = resolved->second;
  task.externals = composed.externals;
  const auto isa = composed.compute.is_object() ? composed.compute.find("isa") : composed.compute.end();
  task.isa_is_auto = isa != composed.compute.end() && *isa == "auto";
  give_labels(stage, producers, task);
  return true;
}

void ConfigBuilder::finish() {
  for (OfStage& stage : stages_) stage.by_labels = {};
}

namespace {

/// "scores stage=decay,encoding=rope,seed=42"
std::string labels_line(const std::string& role, const Task& producer, const std::string& snapshot) {
  const auto told = pipeline::labels_of(producer, snapshot);
  std::string line = cat(role, " stage=", told.at("stage"));
  for (const auto& [axis, label] : told) {
    if (axis != "stage") line += cat(',', axis, '=', label);
  }
  return line;
}

}  // namespace

/// A stage that prints labels gets them as config, so that they are in its key and in no other's.
void ConfigBuilder::give_labels(const Stage& stage, const std::vector<Task>& producers, Task& task) const {
  const StageDescription& description = *stage.description;
  if (!description.takes_labels) return;
  Json& config = task.config.edit();
  if (support::find_field(description.fields, "title") && config["title"].is_string() &&
      config["title"].get_ref<const std::string&>().empty()) {
    config["title"] = source_.file.title.empty() ? source_.file.name : source_.file.title;
  }
  if (support::find_field(description.fields, "labels")) {
    Json labels = Json::array();
    for (const auto* roles : {&stage.node->gather, &stage.node->needs, &stage.node->each}) {
      for (const auto& role : *roles) {
        for (const Edge& edge : task.inputs) {
          if (edge.role == role.name) labels.push_back(labels_line(edge.role, producers[edge.producer], edge.snapshot));
        }
      }
    }
    config["labels"] = std::move(labels);
  }
  if (support::find_field(description.fields, "left_out")) config["left_out"] = left_out(task);
}

/// Labels that `--axis` or a scale leaves out, so that a claim about them is distinguished from a misspelling. Of an
/// axis that the task itself has, the others belong to other tasks.
Json ConfigBuilder::left_out(const Task& task) const {
  std::map<std::string, std::set<std::string>> kept;
  const auto keep = [&](const Axis& axis) {
    for (const AxisValue& value : axis.values) kept[axis.name].insert(value.label);
  };
  for (const Axis& axis : source_.axes) keep(axis);
  for (const StageDeclaration& stage : source_.file.stages) {
    for (const Axis& axis : stage.axes) keep(axis);
  }
  Json left = Json::array();
  for (const auto& [axis, labels] : source_.known_labels) {
    if (std::any_of(task.axes.begin(), task.axes.end(), [&axis = axis](const auto& own) { return own.first == axis; }))
      continue;
    for (const std::string& label : labels) {
      if (kept[axis].count(label) == 0) left.push_back(cat(axis, "=", label));
    }
  }
  return left;
}

support::Origins ConfigBuilder::origins_of(const Stage& stage, const Scope& scope) const {
  support::Origins origins;
  Diagnostics ignored;
  Json config = lay_files(stage, scope, &origins, ignored);
  apply_sets(stage, scope, config, &origins, ignored);
  return origins;
}

}  // namespace pe::pipeline

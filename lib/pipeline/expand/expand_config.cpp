#include "pipeline/expand/expander.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "pipeline/file/policy.h"
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

const Node* Expander::config_file(const std::string& path, const Mark& mark) {
  const auto [it, fresh] = config_files_.try_emplace(path);
  if (fresh) {
    const fs::path full = fs::path(path).is_absolute() ? fs::path(path) : file_.root / path;
    std::error_code error;
    if (!fs::is_regular_file(full, error)) {
      std::vector<std::string> near;
      const fs::path folder = full.parent_path();
      for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
        near.push_back((fs::path(path).parent_path() / entry->path().filename()).string());
      }
      std::sort(near.begin(), near.end());
      report(cat("no config file ", quote(path)), mark.place(), support::suggestion(path, near));
    } else {
      try {
        it->second = support::read_yaml(full);
        graph_.files.push_back(full.lexically_normal().string());
        check_config_file(*it->second);
      } catch (const ConfigError& error_in_file) {
        for (const auto& item : error_in_file.diagnostics()) report(item.message, item.place, item.hint);
        it->second.reset();
      }
    }
  }
  return it->second ? &*it->second : nullptr;
}

bool Expander::declared_anywhere(const std::string& dotted) const {
  for (const Stage& stage : stages_) {
    if (!stage.description) return true;   // what the missing stage declares is not known; it was told already
    if (support::find_field(stage.description->fields, dotted)) return true;
    // An option of a variant stands below the variant's own path.
    for (std::size_t dot = dotted.rfind('.'); dot != std::string::npos && dot > 0; dot = dotted.rfind('.', dot - 1)) {
      const support::Field* field = support::find_field(stage.description->fields, dotted.substr(0, dot));
      if (field && field->type == support::FieldType::kVariant) return true;
    }
  }
  return false;
}

/// A key of a config file must be declared by some stage of the pipeline.
void Expander::check_config_file(const Node& file) {
  if (file.is_null()) return;
  if (!file.is_map()) {
    report(cat("expected a map in a config file, found ", file.found()), file.place());
    return;
  }
  const std::function<void(const Node&, const std::string&)> walk = [&](const Node& map, const std::string& prefix) {
    for (const auto& member : map.members) {
      const std::string path = prefix.empty() ? member.key : cat(prefix, ".", member.key);
      if (!declared_anywhere(path)) {
        std::vector<std::string> known;
        for (const Stage& stage : stages_) {
          if (!stage.description) continue;
          for (std::string& candidate : support::field_paths(stage.description->fields)) {
            known.push_back(std::move(candidate));
          }
        }
        // Inside a group the last word is what was mistyped.
        std::string hint = support::suggestion(path, known);
        if (hint.rfind("did you mean", 0) != 0) hint = "no stage of this pipeline declares it";
        report(cat("unknown key ", quote(path), " in a config file"), member.key_mark.place(), hint);
        continue;
      }
      if (!member.value.is_map()) continue;
      const bool is_group = std::any_of(stages_.begin(), stages_.end(), [&](const Stage& stage) {
        if (!stage.description) return false;
        const support::Field* field = support::find_field(stage.description->fields, path);
        return field && field->type == support::FieldType::kGroup;
      });
      if (is_group) walk(member.value, path);
    }
  };
  walk(file, "");
}

Json Expander::checkpoint_policy(const Stage& stage, const Scope& scope, Diagnostics& diagnostics) const {
  Json checkpoint = Json::object();
  if (!file_.default_checkpoint.is_null()) read_checkpoint(file_.default_checkpoint, checkpoint, diagnostics);
  if (stage.node->checkpoint.is_null()) return checkpoint;
  if (const auto value = substitute(stage.node->checkpoint, scope, diagnostics)) {
    read_checkpoint(*value, checkpoint, diagnostics);
  }
  return checkpoint;
}

/// A stage hears of the policy through its config, below whatever files and sets say; only fields that no key holds.
void Expander::lay_checkpoint(const Stage& stage, const Scope& scope, Json& config, Diagnostics& diagnostics) const {
  const Json policy = checkpoint_policy(stage, scope, diagnostics);
  for (const auto& [name, field_name] : {std::pair{"every_s", "every"}, std::pair{"keep", "keep"}}) {
    const support::Field* field = support::find_field(stage.description->fields, cat("checkpoint.", field_name));
    if (field && !field->options.hashed && policy.contains(name)) config["checkpoint"][field_name] = policy[name];
  }
}

std::optional<Json> Expander::compose(Stage& stage, const Scope& scope, support::Origins* origins,
                                      Diagnostics& diagnostics) {
  const StageDescription& description = *stage.description;
  const std::string owner = cat("stage ", quote(stage.node->label), " (", description.program, ")");
  const std::size_t before = diagnostics.size();
  bool good = true, same_for_all = !has_substitution(stage.node->checkpoint);
  const support::OverlayOptions foreign{[](const std::string&) { return true; }, owner};
  Json config;
  const auto lay_file = [&](const Node& name) {
    same_for_all = same_for_all && !has_substitution(name.text);
    const auto path = substitute_text(name.text, name.mark, scope, diagnostics);
    const Node* file = path ? config_file(*path, name.mark) : nullptr;
    if (!file) {
      good = false;
    } else if (file->is_map()) {
      support::overlay(description.fields, *file, config, origins, diagnostics, foreign);
    }
  };
  if (stage.base && !origins) {
    config = *stage.base;
  } else {
    config = support::defaults(description.fields);
    lay_checkpoint(stage, scope, config, diagnostics);
    for (const Node& name : file_.default_config) lay_file(name);
    for (const Node& name : stage.node->config_files) lay_file(name);
    if (same_for_all && good && !origins && diagnostics.size() == before) stage.base = config;
  }
  const support::OverlayOptions strict{{}, owner};
  if (stage.node->set.is_map()) {
    const auto set = substitute(stage.node->set, scope, diagnostics);
    if (set) support::overlay(description.fields, *set, config, origins, diagnostics, strict);
  }
  for (const Flag& flag : stage.flags) {
    const support::Field* field = support::find_field(description.fields, flag.key);
    const bool is_path = field && (field->type == support::FieldType::kPath || field->type == support::FieldType::kPathList);
    const auto absolute = [&](std::string text) {
      return text.empty() || fs::path(text).is_absolute() ? text : (folder_ / text).lexically_normal().string();
    };
    Node value;
    if (is_path && (flag.value.empty() || flag.value.front() != '[')) {
      value = support::literal_node(absolute(flag.value), flag.name);
    } else {
      try {
        value = support::parse_yaml_value(flag.value, flag.name);
      } catch (const ConfigError& error) {
        for (const auto& item : error.diagnostics()) diagnostics.add(item.message, item.place, item.hint);
        continue;
      }
      if (is_path) {
        for (Node& item : value.items) item.text = absolute(item.text);
      }
    }
    support::overlay(description.fields, single(flag.key, std::move(value)), config, origins, diagnostics, strict);
  }
  if (!good || diagnostics.size() != before) return std::nullopt;
  return config;
}

}  // namespace pe::pipeline

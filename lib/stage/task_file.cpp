#include "stage/task_file.h"

#include <algorithm>

#include "artifact/missing_input.h"
#include "stage/paths.h"
#include "support/files.h"
#include "support/flag_value.h"
#include "support/parse_json.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::stage {

namespace {

using support::ConfigError;
using support::quote;

std::vector<std::string> input_names(const StageInfo& info) {
  std::vector<std::string> names;
  for (const InputRole& role : info.inputs) names.push_back(role.name);
  return names;
}

std::vector<std::string> output_names(const StageInfo& info) {
  std::vector<std::string> names;
  for (const OutputRole& role : info.outputs) names.push_back(role.name);
  return names;
}

const InputRole& find_input(const StageInfo& info, const std::string& name, const std::string& where) {
  for (const InputRole& role : info.inputs) {
    if (role.name == name) return role;
  }
  throw ConfigError("pe-" + info.name + " has no input " + quote(name), {where, 0, 0, "", 1},
                    support::suggestion(name, input_names(info)));
}

void require_output(const StageInfo& info, const std::string& name, const std::string& where) {
  const auto names = output_names(info);
  if (std::find(names.begin(), names.end(), name) == names.end()) {
    throw ConfigError("pe-" + info.name + " has no output " + quote(name), {where, 0, 0, "", 1},
                      support::suggestion(name, names));
  }
}

Json read_config(const support::Schema& schema, const std::vector<support::Node>& layers) {
  Json config = support::defaults(schema);
  support::Diagnostics diagnostics;
  for (const support::Node& layer : layers) support::overlay(schema, layer, config, nullptr, diagnostics);
  diagnostics.throw_if_any();
  return config;
}

/// `role=path` as a person types it; the path may hold anything, '=' too.
std::pair<std::string, std::string> role_and_path(const std::string& text, const std::string& flag) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0 || equals + 1 == text.size()) {
    throw ConfigError("expected ROLE=PATH, found " + quote(text), {flag, 0, 0, "", 1});
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

void check_inputs(const StageInfo& info, const artifact::Workspace& workspace) {
  support::Diagnostics diagnostics;
  for (const InputRole& role : info.inputs) {
    const std::size_t count = workspace.all_inputs(role.name).size();
    if (count == 0 && !role.optional && !role.many) {
      diagnostics.add(
          "input " + quote(role.name) + " (" + std::string(artifact::kind_name(role.kind)) + ") is not given", {},
          "add --input " + role.name + "=PATH");
    }
    if (count > 1 && !role.many)
      diagnostics.add("input " + quote(role.name) + " is given " + std::to_string(count) + " times");
  }
  diagnostics.throw_if_any();
}

}  // namespace

std::map<std::string, int> revisions_of(const StageInfo& info) {
  std::map<std::string, int> revisions;
  for (const Revision& revision : info.revisions) revisions[revision.name] = revision.number;
  return revisions;
}

WorkOrder read_task(const std::filesystem::path& file, const StageInfo& info, const support::Schema& schema) {
  WorkOrder order;
  try {
    const Json task = support::require_json(support::read_file(file, 256u << 20));
    const std::string format = task.at("schema");
    if (format != "pe-task/1")
      throw ConfigError("expected schema pe-task/1, found " + quote(format), {file.string(), 0, 0, "", 1});
    const std::string stage = task.at("stage");
    if (stage != info.name) {
      throw ConfigError("this task is for pe-" + stage + ", not for pe-" + info.name, {file.string(), 0, 0, "", 1});
    }
    if (task.contains("version")) order.version = task.at("version").get<int>();
    if (task.contains("revisions")) task.at("revisions").get_to(order.revisions);
    if (task.contains("build")) order.build = task.at("build").get<std::string>();
    // A config of another version may not even fit the schema; the message must be about the version.
    if (order.version && (*order.version != info.version || order.revisions != revisions_of(info))) return order;
    order.config = read_config(schema, {support::from_json(task.at("config"), file.string())});
    auto& workspace = order.workspace;
    Json digests = Json::object();
    for (const auto& [role, list] : task.at("inputs").items()) {
      const InputRole& declared = find_input(info, role, file.string());
      digests[role] = Json::array();
      for (const Json& item : list) {
        const auto kind = artifact::find_kind(item.at("kind").get<std::string>());
        if (!kind || *kind != declared.kind) {
          throw ConfigError("input " + quote(role) + " must be " + std::string(artifact::kind_name(declared.kind)) +
                                ", found " + quote(item.at("kind").get<std::string>()),
                            {file.string(), 0, 0, "", 1});
        }
        artifact::Input input{item.at("path").get<std::string>(), *kind, item.value("digest", ""), {}};
        if (item.contains("labels")) input.labels = item.at("labels").get<std::map<std::string, std::string>>();
        digests[role].push_back(input.digest);
        workspace.inputs[role].push_back(std::move(input));
      }
    }
    for (const auto& entry : artifact::missing_inputs(task)) find_input(info, entry.first, file.string());
    for (const auto& [role, path] : task.at("outputs").items()) {
      require_output(info, role, file.string());
      workspace.outputs[role] = path.get<std::string>();
    }
    const auto read_snapshot = [&](const Json& item) {
      artifact::Snapshot snapshot{item.at("label"), item.at("step"), {}};
      for (const auto& [role, path] : item.at("outputs").items()) {
        require_output(info, role, file.string());
        snapshot.outputs[role] = path.get<std::string>();
      }
      return snapshot;
    };
    if (task.contains("snapshots")) {
      for (const Json& item : task.at("snapshots")) workspace.snapshots.push_back(read_snapshot(item));
      std::sort(workspace.snapshots.begin(), workspace.snapshots.end(),
                [](const auto& a, const auto& b) { return a.step < b.step; });
    }
    if (task.contains("earlier")) workspace.earlier = read_snapshot(task.at("earlier"));
    workspace.work = task.at("work").get<std::string>();
    if (task.contains("resume") && !task.at("resume").is_null())
      workspace.resume = task.at("resume").get<std::string>();
    if (task.contains("events_fd") && !task.at("events_fd").is_null())
      order.events_fd = task.at("events_fd").get<int>();
    workspace.recipe = {info.name, info.version, task.value("key", ""), order.config, std::move(digests)};
    check_inputs(info, workspace);
    check_paths(order, info, {file});
  } catch (const Json::exception& error) {
    throw ConfigError(std::string("not a task file: ") + error.what(), {file.string(), 0, 0, "", 1});
  }
  return order;
}

WorkOrder order_from_flags(const cli::StageFlags& flags, const StageInfo& info, const support::Schema& schema) {
  WorkOrder order;
  std::vector<support::Node> layers;
  for (const std::string& file : flags.config_files) layers.push_back(support::read_yaml(file));
  for (const std::string& set : flags.sets) {
    const auto equals = set.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw ConfigError("expected KEY=VALUE, found " + quote(set), {"--set", 0, 0, "", 1});
    }
    const std::string key = set.substr(0, equals), text = set.substr(equals + 1);
    support::Node layer;
    layer.kind = support::Node::Kind::kMap;
    support::Node value = support::flag_value(support::find_field(schema, key), text, "--set " + key);
    layer.mark = value.mark;
    layer.members.push_back({key, value.mark, std::move(value)});
    layers.push_back(std::move(layer));
  }
  order.config = read_config(schema, layers);

  auto& workspace = order.workspace;
  Json digests = Json::object();
  for (const std::string& text : flags.inputs) {
    auto [role, path] = role_and_path(text, "--input");
    const InputRole& declared = find_input(info, role, "--input");
    workspace.inputs[role].push_back({path, declared.kind, "", {}});
    digests[role].push_back("");
  }
  for (const std::string& text : flags.outputs) {
    auto [role, path] = role_and_path(text, "--output");
    require_output(info, role, "--output");
    if (!workspace.outputs.emplace(role, path).second) {
      throw ConfigError("output " + quote(role) + " is given twice", {"--output", 0, 0, "", 1});
    }
  }
  for (const OutputRole& role : info.outputs) {
    if (!workspace.outputs.count(role.name)) {
      workspace.outputs[role.name] = artifact::is_collection(role.kind) ? role.name : role.name + ".h5";
    }
  }
  order.removes_work = flags.work.empty();
  workspace.work = order.removes_work ? "pe-" + info.name + ".work" : flags.work;
  workspace.resume = workspace.work;
  workspace.recipe = {info.name, info.version, "", order.config, std::move(digests)};
  check_inputs(info, workspace);
  check_paths(order, info, {flags.config_files.begin(), flags.config_files.end()});
  return order;
}

}  // namespace pe::stage

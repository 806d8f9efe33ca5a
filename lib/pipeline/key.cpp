#include "pipeline/key.h"

#include "pipeline/config_value.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

constexpr const char* kTaskType = "pe/task/1";
constexpr const char* kPlanType = "pe/plan/1";

/// Takes what a dotted path names out of a document; groups that become empty go too.
void erase_path(Json& document, const std::string& dotted) {
  const std::size_t dot = dotted.find('.');
  if (dot == std::string::npos) {
    document.erase(dotted);
    return;
  }
  const auto it = document.find(dotted.substr(0, dot));
  if (it == document.end() || !it->is_object()) return;
  erase_path(*it, dotted.substr(dot + 1));
  if (it->empty()) document.erase(it);
}

void erase_paths(const support::Schema& schema, const std::string& prefix, Json& document) {
  for (const support::Field& field : schema) {
    const std::string path = prefix.empty() ? field.name : prefix + "." + field.name;
    if (field.type == support::FieldType::kGroup) erase_paths(field.fields, path, document);
    if (field.type == support::FieldType::kPath || field.type == support::FieldType::kPathList) {
      erase_path(document, path);
    }
  }
}

/// The part of the document that does not depend on inputs.
Json recipe(const Task& task) {
  const StageDescription& stage = *task.stage;
  Json config = support::hashed_config(stage.fields, task.config);
  erase_paths(stage.fields, "", config);
  if (!task.exact_numerics) config.erase("compute");
  if (task.is_trajectory() && horizon_is_free(task)) erase_path(config, stage.trajectory->horizon);
  Json document = {{"stage", stage.name}, {"version", stage.version}, {"config", std::move(config)}};
  if (!task.externals.empty()) {
    Json externals = Json::object();
    for (const ExternalInput& external : task.externals) {
      Json files = Json::array();
      for (const auto& [name, sha256] : external.files) files.push_back(Json::array({name, sha256}));
      externals[external.field] = std::move(files);
    }
    document["externals"] = std::move(externals);
  }
  if (task.hash_build) document["build"] = stage.build_id;
  return document;
}

}  // namespace

bool horizon_is_free(const Task& task) {
  const auto& trajectory = task.stage->trajectory;
  if (!trajectory || trajectory->free_when.empty()) return false;
  for (const auto& [key, wanted] : trajectory->free_when.items()) {
    const Json* value = find_value(task.config, key);
    if (!value) return false;
    bool holds = wanted == *value;   // 0 and 0.0 are equal here, whichever way the description wrote it
    if (wanted.is_array() && !value->is_array()) {
      for (const Json& one : wanted) holds = holds || one == *value;
    }
    if (!holds) return false;
  }
  return true;
}

Json task_preimage(const Task& task, const std::vector<InputDigest>& inputs) {
  Json document = recipe(task);
  Json roles = Json::object();
  for (const InputDigest& input : inputs) {
    Json one = {{"digest", input.digest}};
    if (input.step >= 0) one["step"] = input.step;
    roles[input.role].push_back(std::move(one));
  }
  document["inputs"] = std::move(roles);
  return document;
}

std::string task_key_of(const Json& preimage) { return support::canonical_hash(kTaskType, preimage); }

std::string task_key(const Task& task, const std::vector<InputDigest>& inputs) {
  return task_key_of(task_preimage(task, inputs));
}

Json plan_preimage(const Graph& graph, const Task& task) {
  Json document = recipe(task);
  Json roles = Json::object();
  for (const Edge& edge : task.inputs) {
    const Task& producer = graph.tasks[edge.producer];
    Json one = {{"plan", producer.plan_key}, {"output", edge.output}};
    if (!edge.snapshot.empty()) {
      for (const SnapshotPoint& point : producer.snapshots) {
        if (point.label == edge.snapshot) one["step"] = point.step;
      }
    }
    roles[edge.role].push_back(std::move(one));
  }
  document["inputs"] = std::move(roles);
  return document;
}

void compute_plan_keys(Graph& graph) {
  for (Task& task : graph.tasks) task.plan_key = support::canonical_hash(kPlanType, plan_preimage(graph, task));
}

}  // namespace pe::pipeline

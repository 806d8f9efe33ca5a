#include "pipeline/plan/key.h"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "pipeline/file/config_value.h"
#include "pipeline/file/path_fields.h"
#include "pipeline/plan/externals.h"
#include "support/cbor.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::pipeline {

using support::Cbor;
using support::put_cbor_head;
using support::put_cbor_text;

namespace {

constexpr const char* kTaskType = "pe/task/1";
constexpr const char* kPlanType = "pe/plan/1";

/// Puts a value where a dotted path says.
void put_path(Json& document, const std::string& dotted, Json value) {
  const std::size_t dot = dotted.find('.');
  if (dot == std::string::npos)
    document[dotted] = std::move(value);
  else
    put_path(document[dotted.substr(0, dot)], dotted.substr(dot + 1), std::move(value));
}

Json hashed_part(const Task& task) {
  const StageDescription& stage = *task.stage;
  Json config = support::hashed_config(stage.fields, *task.config);
  erase_paths(stage.fields, config);
  if (!task.exact_numerics) config.erase("compute");
  for (const auto& [name, number] : revisions_of(stage, config)) put_path(config, name, number);
  if (task.is_trajectory() && horizon_is_free(task)) take_value(config, stage.trajectory->horizon);
  return config;
}

Json external_part(const Task& task) {
  Json externals = Json::object();
  for (const ExternalInput& external : task.externals) {
    externals[external.field] = keyed_files(external.content->groups);
  }
  return externals;
}

/// The part of the document that does not depend on inputs.
Json recipe(const Task& task) {
  const StageDescription& stage = *task.stage;
  Json document = {{"stage", stage.name}, {"version", stage.version}, {"config", hashed_part(task)}};
  if (!task.externals.empty()) document["externals"] = external_part(task);
  if (task.hash_build) document["build"] = stage.program_digest;
  return document;
}

}  // namespace

bool horizon_is_free(const Task& task) {
  const auto& trajectory = task.stage->trajectory;
  return trajectory && !trajectory->free_when.empty() && holds(trajectory->free_when, *task.config);
}

std::map<std::string, int> revisions_of(const StageDescription& stage, const Json& hashed_config) {
  std::map<std::string, int> met;
  for (const artifact::Revision& revision : stage.revisions) {
    if (holds(revision.when, hashed_config)) met[revision.name] = revision.number;
  }
  return met;
}

Json input_roles(const Graph& graph, const Task& task, const std::vector<InputDigest>& inputs) {
  Json roles = Json::object();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    Json one = {{"digest", inputs[i].digest}};
    if (inputs[i].step >= 0) one["step"] = inputs[i].step;
    if (task.stage->reads_labels) one["labels"] = labels_of(graph, task.inputs[i]);
    roles[inputs[i].role].push_back(std::move(one));
  }
  return roles;
}

Json task_preimage(const Graph& graph, const Task& task, const std::vector<InputDigest>& inputs) {
  Json document = recipe(task);
  document["inputs"] = input_roles(graph, task, inputs);
  return document;
}

std::string task_key_of(const Json& preimage) { return support::canonical_hash(kTaskType, preimage); }

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
    if (task.stage->reads_labels) one["labels"] = labels_of(graph, edge);
    roles[edge.role].push_back(std::move(one));
  }
  document["inputs"] = std::move(roles);
  return document;
}

struct KeyMaker::State {
  /// Inputs of the bytes below. Files follow from the paths in the config, so they need no place here.
  struct SharedKey {
    const void* config;
    const void* stage;
    bool trajectory, exact;
    bool operator==(const SharedKey&) const = default;
  };
  struct SharedKeyHash {
    std::size_t operator()(const SharedKey& shared) const {
      return std::hash<const void*>()(shared.config) * 31 + std::hash<const void*>()(shared.stage) * 4 +
             static_cast<std::size_t>(shared.trajectory) * 2 + static_cast<std::size_t>(shared.exact);
    }
  };
  struct KeyParts {
    support::SharedValue<Json> keep;  ///< so that no other config gets its address
    std::string config, externals;
  };
  using Cache = std::unordered_map<SharedKey, KeyParts, SharedKeyHash>;
  // Tasks that share a config come near each other, so only the last few thousand are remembered, in two generations.
  static constexpr std::size_t kGeneration = 8192;
  Cache young, old;
  Cache lent;  ///< what callers hold references to, so never dropped
  std::string bytes;

  static SharedKey shared_of(const Task& task) {
    return {task.config.identity(), task.stage.get(), task.is_trajectory(), task.exact_numerics};
  }
  static KeyParts encode(const Task& task) {
    KeyParts parts{task.config, support::canonical_cbor(hashed_part(task)), {}};
    if (!task.externals.empty()) parts.externals = support::canonical_cbor(external_part(task));
    return parts;
  }
  const KeyParts& encoded(const Task& task) {
    const SharedKey shared = shared_of(task);
    if (task.config.identity()) {
      if (const auto found = young.find(shared); found != young.end()) return found->second;
    }
    if (young.size() >= kGeneration) old = std::exchange(young, {});
    const auto before = task.config.identity() ? old.find(shared) : old.end();
    return young.insert_or_assign(shared, before == old.end() ? encode(task) : std::move(before->second)).first->second;
  }
  /// The member "labels" of an input, for stages that read labels.
  void put_labels(const Graph& graph, const Task& task, const Edge& edge) {
    if (!task.stage->reads_labels) return;
    put_cbor_text(bytes, "labels");
    bytes += support::canonical_cbor(labels_of(graph, edge));
  }
  const KeyParts& lend(const Task& task) {
    const SharedKey shared = shared_of(task);
    auto found = task.config.identity() ? lent.find(shared) : lent.end();
    if (found == lent.end()) found = lent.insert_or_assign(shared, encoded(task)).first;
    return found->second;
  }

  /// The document in the order of its encoded keys: shorter ones first, then by their bytes. `put_input(i)` writes the
  /// map of one input, `role(i)` names its role.
  template <typename Role, typename PutInput>
  std::string hash(const char* type, const Task& task, std::size_t inputs, const Role& role,
                   const PutInput& put_input) {
    const StageDescription& stage = *task.stage;
    const KeyParts& parts = encoded(task);
    bytes.clear();
    put_cbor_head(bytes, Cbor::kArray, 2);
    put_cbor_text(bytes, type);
    put_cbor_head(bytes, Cbor::kMap, 4u + (task.hash_build ? 1 : 0) + (task.externals.empty() ? 0 : 1));
    if (task.hash_build) {
      put_cbor_text(bytes, "build");
      put_cbor_text(bytes, stage.program_digest);
    }
    put_cbor_text(bytes, "stage");
    put_cbor_text(bytes, stage.name);
    put_cbor_text(bytes, "config");
    bytes += parts.config;
    put_cbor_text(bytes, "inputs");
    std::vector<std::pair<std::string_view, std::vector<std::size_t>>> roles;
    for (std::size_t i = 0; i < inputs; ++i) {
      const std::string_view name = role(i);
      auto at =
          std::find_if(roles.begin(), roles.end(), [&](const auto& known_role) { return known_role.first == name; });
      if (at == roles.end()) at = roles.insert(roles.end(), {name, {}});
      at->second.push_back(i);
    }
    std::sort(roles.begin(), roles.end(), [](const auto& a, const auto& b) {
      return a.first.size() != b.first.size() ? a.first.size() < b.first.size() : a.first < b.first;
    });
    put_cbor_head(bytes, Cbor::kMap, roles.size());
    for (const auto& [name, members] : roles) {
      put_cbor_text(bytes, name);
      put_cbor_head(bytes, Cbor::kArray, members.size());
      for (const std::size_t i : members) put_input(i);
    }
    put_cbor_text(bytes, "version");
    put_cbor_head(bytes, Cbor::kUnsigned, static_cast<std::uint64_t>(stage.version));
    if (!task.externals.empty()) {
      put_cbor_text(bytes, "externals");
      bytes += parts.externals;
    }
    return support::sha256_hex(bytes);
  }
};

KeyMaker::KeyMaker() : state_(std::make_unique<State>()) {}
KeyMaker::~KeyMaker() = default;

std::string KeyMaker::plan_key(const Graph& graph, const Task& task) {
  std::string& bytes = state_->bytes;
  return state_->hash(
      kPlanType, task, task.inputs.size(), [&](std::size_t i) -> std::string_view { return task.inputs[i].role; },
      [&](std::size_t i) {
        const Edge& edge = task.inputs[i];
        const Task& producer = graph.tasks[edge.producer];
        const SnapshotPoint* point = nullptr;
        if (!edge.snapshot.empty()) {
          for (const SnapshotPoint& one : producer.snapshots) {
            if (one.label == edge.snapshot) point = &one;
          }
        }
        put_cbor_head(bytes, Cbor::kMap, 2u + (point ? 1 : 0) + (task.stage->reads_labels ? 1 : 0));
        put_cbor_text(bytes, "plan");
        put_cbor_text(bytes, producer.plan_key);
        if (point) {
          put_cbor_text(bytes, "step");
          put_cbor_head(bytes, Cbor::kUnsigned, static_cast<std::uint64_t>(point->step));
        }
        state_->put_labels(graph, task, edge);
        put_cbor_text(bytes, "output");
        put_cbor_text(bytes, edge.output);
      });
}

std::string KeyMaker::task_key(const Graph& graph, const Task& task, const std::vector<InputDigest>& inputs) {
  std::string& bytes = state_->bytes;
  return state_->hash(
      kTaskType, task, inputs.size(), [&](std::size_t i) -> std::string_view { return inputs[i].role; },
      [&](std::size_t i) {
        put_cbor_head(bytes, Cbor::kMap, 1u + (inputs[i].step >= 0 ? 1 : 0) + (task.stage->reads_labels ? 1 : 0));
        if (inputs[i].step >= 0) {
          put_cbor_text(bytes, "step");
          put_cbor_head(bytes, Cbor::kUnsigned, static_cast<std::uint64_t>(inputs[i].step));
        }
        put_cbor_text(bytes, "digest");
        put_cbor_text(bytes, inputs[i].digest);
        state_->put_labels(graph, task, task.inputs[i]);
      });
}

const std::string& KeyMaker::config(const Task& task) { return state_->lend(task).config; }
const std::string& KeyMaker::externals(const Task& task) { return state_->lend(task).externals; }

std::shared_ptr<KeyMaker> keys_of(const Graph& graph) { return graph.keys ? graph.keys : std::make_shared<KeyMaker>(); }

void compute_plan_keys(Graph& graph) {
  graph.keys = std::make_shared<KeyMaker>();
  for (Task& task : graph.tasks) task.plan_key = graph.keys->plan_key(graph, task);
}

}  // namespace pe::pipeline

#include "pipeline/plan/frozen_graph.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <unordered_map>
#include <utility>

#include "pipeline/plan/key.h"
#include "support/error.h"
#include "support/program.h"
#include "support/text.h"

namespace pe::support {

static void to_json(Json& json, const FileRead& read) {
  json = {read.path,           read.sha256,         read.stamp.exists, read.stamp.size,
          read.stamp.mtime_ns, read.stamp.ctime_ns, read.stamp.inode,  read.stamp.looked_ns};
}

static void from_json(const Json& json, FileRead& read) {
  read = FileRead{json.at(0), {}, json.at(1)};
  read.stamp.exists = json.at(2);
  std::size_t at = 3;
  for (std::uint64_t* part :
       {&read.stamp.size, &read.stamp.mtime_ns, &read.stamp.ctime_ns, &read.stamp.inode, &read.stamp.looked_ns}) {
    *part = json.at(at++);
  }
}

}  // namespace pe::support

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Resources, name, cpus, mem_bytes, gpus, time_s, pools, pack)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(RetryPolicy, max, on, backoff_s, oom_mem)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ExternalContent, groups, missing, reads)

namespace {

constexpr const char* kSchema = "pe-graph/1";

/// Objects that many tasks share, written once and named by their place.
class Pool {
 public:
  template <typename T>
  std::size_t place_of(const support::SharedValue<T>& shared) {
    if (shared.identity() == nullptr) return add(*shared);
    const auto [it, fresh] = known_.try_emplace(shared.identity(), list.size());
    if (fresh) add(*shared);
    return it->second;
  }
  std::size_t add(Json value) {
    list.push_back(std::move(value));
    return list.size() - 1;
  }
  Json list = Json::array();

 private:
  std::unordered_map<const void*, std::size_t> known_;
};

Json to_json(const StageDescription& stage) {
  return {{"describe", stage.document},
          {"executable", stage.executable},
          {"build_id", stage.build_id},
          {"program", stage.program_digest},
          {"digest", stage.digest}};
}

std::shared_ptr<const StageDescription> stage_from(const Json& json) {
  auto stage = std::make_shared<StageDescription>(
      parse_description(json.at("describe"), json.at("executable").get<std::string>()));
  stage->executable = json.at("executable");
  stage->build_id = json.at("build_id");
  stage->program_digest = json.at("program");
  stage->digest = json.at("digest");
  return stage;
}

/// The values of a pool, so that tasks share them again.
template <typename T>
std::vector<support::SharedValue<T>> shared_from(const Json& list) {
  std::vector<support::SharedValue<T>> values;
  for (const Json& item : list) values.emplace_back(item.get<T>());
  return values;
}

Graph thaw_checked(const Json& document) {
  Graph graph;
  graph.name = document.at("name");
  graph.title = document.at("title");
  graph.file = document.at("file");
  graph.root = document.at("root");
  graph.dropped = document.at("dropped");
  graph.stage_labels = document.at("stage_labels").get<std::vector<std::string>>();
  graph.axes = document.at("axes");
  graph.resources = document.at("resources").get<std::map<std::string, Resources>>();
  if (document.contains("environment")) graph.environment = document["environment"].get<std::vector<std::string>>();
  if (document.contains("settings")) graph.settings = document["settings"];
  graph.files = document.at("files").get<std::vector<support::FileRead>>();
  std::vector<std::shared_ptr<const StageDescription>> stages;
  for (const Json& stage : document.at("stages")) stages.push_back(stage_from(stage));
  const auto configs = shared_from<Json>(document.at("configs"));
  const auto checkpoints = shared_from<Json>(document.at("checkpoints"));
  const auto retries = shared_from<RetryPolicy>(document.at("retries"));
  const auto contents = shared_from<ExternalContent>(document.at("externals"));
  for (const Json& json : document.at("tasks")) {
    Task task;
    task.id = json.at("id");
    task.label = json.at("label");
    task.axes = json.at("axes").get<std::vector<std::pair<std::string, std::string>>>();
    task.stage = stages.at(json.at("stage").get<std::size_t>());
    task.config = configs.at(json.at("config").get<std::size_t>());
    for (const Json& edge : json.at("inputs")) {
      task.inputs.push_back({edge.at(0), edge.at(1), edge.at(2), edge.at(3)});
      if (task.inputs.back().producer >= graph.tasks.size()) throw ArtifactError("a task of it reads what comes later");
    }
    for (const Json& point : json.at("snapshots")) task.snapshots.push_back({point.at(0), point.at(1)});
    for (const Json& external : json.at("externals")) {
      task.externals.push_back({external.at(0), external.at(1).get<std::vector<std::string>>(),
                                contents.at(external.at(2).get<std::size_t>())});
    }
    task.resources = json.at("resources").get<Resources>();
    task.retry = retries.at(json.at("retry").get<std::size_t>());
    task.checkpoint = checkpoints.at(json.at("checkpoint").get<std::size_t>());
    task.allow_partial = json.at("allow_partial");
    task.record_divergence = json.at("record_divergence");
    task.exact_numerics = json.at("exact_numerics");
    task.hash_build = json.at("hash_build");
    task.output_names = json.at("output_names").get<std::map<std::string, std::string>>();
    task.plan_key = json.at("plan_key");
    graph.tasks.push_back(std::move(task));
  }
  return graph;
}

}  // namespace

Json freeze(const Graph& graph) {
  Pool configs, checkpoints, retries, contents;
  Json stages = Json::array();
  std::map<const StageDescription*, std::size_t> stage_places;
  Json tasks = Json::array();
  for (const Task& task : graph.tasks) {
    const auto [stage, fresh] = stage_places.try_emplace(task.stage.get(), stages.size());
    if (fresh) stages.push_back(to_json(*task.stage));
    Json inputs = Json::array(), snapshots = Json::array(), externals = Json::array();
    for (const Edge& edge : task.inputs)
      inputs.push_back(Json::array({edge.role, edge.producer, edge.output, edge.snapshot}));
    for (const SnapshotPoint& point : task.snapshots) snapshots.push_back(Json::array({point.label, point.step}));
    for (const ExternalInput& external : task.externals)
      externals.push_back(Json::array({external.field, external.paths, contents.place_of(external.content)}));
    tasks.push_back({{"id", task.id},
                     {"label", task.label},
                     {"axes", task.axes},
                     {"stage", stage->second},
                     {"config", configs.place_of(task.config)},
                     {"inputs", std::move(inputs)},
                     {"snapshots", std::move(snapshots)},
                     {"externals", std::move(externals)},
                     {"resources", task.resources},
                     {"retry", retries.place_of(task.retry)},
                     {"checkpoint", checkpoints.place_of(task.checkpoint)},
                     {"allow_partial", task.allow_partial},
                     {"record_divergence", task.record_divergence},
                     {"exact_numerics", task.exact_numerics},
                     {"hash_build", task.hash_build},
                     {"output_names", task.output_names},
                     {"plan_key", task.plan_key}});
  }
  Json document{{"schema", kSchema},
                {"name", graph.name},
                {"title", graph.title},
                {"file", graph.file},
                {"root", graph.root},
                {"dropped", graph.dropped},
                {"stage_labels", graph.stage_labels},
                {"axes", graph.axes},
                {"resources", graph.resources},
                {"files", graph.files},
                {"stages", std::move(stages)},
                {"configs", std::move(configs.list)},
                {"checkpoints", std::move(checkpoints.list)},
                {"retries", std::move(retries.list)},
                {"externals", std::move(contents.list)},
                {"tasks", std::move(tasks)}};
  if (!graph.environment.empty()) document["environment"] = graph.environment;
  if (!graph.settings.empty()) document["settings"] = graph.settings;
  return document;
}

Graph thaw(const Json& document) {
  const std::string schema = document.is_object() && document.contains("schema") && document["schema"].is_string()
                                 ? document["schema"].get<std::string>()
                                 : "";
  if (schema != kSchema) {
    throw ArtifactError(cat("expected a frozen graph (", kSchema, "), found ",
                            schema.empty() ? "something else" : cat("schema ", support::quote(schema))));
  }
  Graph graph;
  try {
    graph = thaw_checked(document);
  } catch (const Json::exception& error) {
    throw ArtifactError(cat("a frozen graph is damaged: ", error.what()));
  } catch (const std::out_of_range&) {
    throw ArtifactError("a frozen graph is damaged: it names something that it does not hold");
  }
  std::vector<std::string> frozen;
  for (const Task& task : graph.tasks) frozen.push_back(task.plan_key);
  compute_plan_keys(graph);
  for (std::size_t i = 0; i < frozen.size(); ++i) {
    if (graph.tasks[i].plan_key == frozen[i]) continue;
    throw ArtifactError(
        cat("the frozen graph names another key for '", graph.tasks[i].id, "' than this program gives it"),
        "use the pe-pipeline that it was submitted with, or submit again");
  }
  return graph;
}

}  // namespace pe::pipeline

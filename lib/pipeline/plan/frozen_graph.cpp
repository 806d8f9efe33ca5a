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

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;

namespace {

constexpr const char* kSchema = "pe-graph/1";

/// Objects that many tasks share, written once and named by their place.
class Pool {
 public:
  template <typename T, typename Write>
  std::size_t place_of(const support::SharedValue<T>& shared, const Write& write) {
    if (shared.identity() == nullptr) return add(write(*shared));
    const auto [it, fresh] = known_.try_emplace(shared.identity(), list.size());
    if (fresh) add(write(*shared));
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

Json to_json(const Resources& resources) {
  return {{"name", resources.name}, {"cpus", resources.cpus},     {"mem_bytes", resources.mem_bytes},
          {"gpus", resources.gpus}, {"time_s", resources.time_s}, {"pools", resources.pools},
          {"pack", resources.pack}};
}

Resources resources_from(const Json& json) {
  Resources resources;
  resources.name = json.at("name");
  resources.cpus = json.at("cpus");
  resources.mem_bytes = json.at("mem_bytes");
  resources.gpus = json.at("gpus");
  resources.time_s = json.at("time_s");
  resources.pools = json.at("pools").get<std::vector<std::string>>();
  resources.pack = json.at("pack");
  return resources;
}

Json to_json(const RetryPolicy& retry) {
  return {{"max", retry.max}, {"on", retry.on}, {"backoff_s", retry.backoff_s}, {"oom_mem", retry.oom_mem}};
}

RetryPolicy retry_from(const Json& json) {
  RetryPolicy retry;
  retry.max = json.at("max");
  retry.on = json.at("on").get<std::vector<std::string>>();
  retry.backoff_s = json.at("backoff_s");
  retry.oom_mem = json.at("oom_mem");
  return retry;
}

Json to_json(const support::FileRead& read) {
  return {read.path,           read.sha256,         read.stamp.exists, read.stamp.size,
          read.stamp.mtime_ns, read.stamp.ctime_ns, read.stamp.inode,  read.stamp.looked_ns};
}

support::FileRead read_from(const Json& json) {
  support::FileRead read{json.at(0), {}, json.at(1)};
  read.stamp.exists = json.at(2);
  std::size_t at = 3;
  for (std::uint64_t* part :
       {&read.stamp.size, &read.stamp.mtime_ns, &read.stamp.ctime_ns, &read.stamp.inode, &read.stamp.looked_ns}) {
    *part = json.at(at++);
  }
  return read;
}

Json to_json(const std::vector<support::FileRead>& reads) {
  Json list = Json::array();
  for (const support::FileRead& read : reads) list.push_back(to_json(read));
  return list;
}

std::vector<support::FileRead> reads_from(const Json& json) {
  std::vector<support::FileRead> reads;
  for (const Json& read : json) reads.push_back(read_from(read));
  return reads;
}

Json to_json(const ExternalContent& content) {
  return {{"groups", content.groups}, {"missing", content.missing}, {"reads", to_json(content.reads)}};
}

ExternalContent content_from(const Json& json) {
  return {json.at("groups").get<std::vector<ExternalContent::Files>>(), json.at("missing"),
          reads_from(json.at("reads"))};
}

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
template <typename T, typename Read>
std::vector<support::SharedValue<T>> shared_from(const Json& list, const Read& read) {
  std::vector<support::SharedValue<T>> values;
  for (const Json& item : list) values.emplace_back(read(item));
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
  for (const auto& [name, resources] : document.at("resources").items())
    graph.resources[name] = resources_from(resources);
  if (document.contains("environment")) graph.environment = document["environment"].get<std::vector<std::string>>();
  if (document.contains("settings")) graph.settings = document["settings"];
  graph.files = reads_from(document.at("files"));
  std::vector<std::shared_ptr<const StageDescription>> stages;
  for (const Json& stage : document.at("stages")) stages.push_back(stage_from(stage));
  const auto as_is = [](const Json& json) { return json; };
  const auto configs = shared_from<Json>(document.at("configs"), as_is);
  const auto checkpoints = shared_from<Json>(document.at("checkpoints"), as_is);
  const auto retries = shared_from<RetryPolicy>(document.at("retries"), retry_from);
  const auto contents = shared_from<ExternalContent>(document.at("externals"), content_from);
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
    task.resources = resources_from(json.at("resources"));
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
  const auto as_is = [](const Json& json) { return json; };
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
    for (const ExternalInput& external : task.externals) {
      const std::size_t place =
          contents.place_of(external.content, [](const auto& content) { return to_json(content); });
      externals.push_back(Json::array({external.field, external.paths, place}));
    }
    tasks.push_back({{"id", task.id},
                     {"label", task.label},
                     {"axes", task.axes},
                     {"stage", stage->second},
                     {"config", configs.place_of(task.config, as_is)},
                     {"inputs", std::move(inputs)},
                     {"snapshots", std::move(snapshots)},
                     {"externals", std::move(externals)},
                     {"resources", to_json(task.resources)},
                     {"retry", retries.place_of(task.retry, [](const auto& retry) { return to_json(retry); })},
                     {"checkpoint", checkpoints.place_of(task.checkpoint, as_is)},
                     {"allow_partial", task.allow_partial},
                     {"record_divergence", task.record_divergence},
                     {"exact_numerics", task.exact_numerics},
                     {"hash_build", task.hash_build},
                     {"output_names", task.output_names},
                     {"plan_key", task.plan_key}});
  }
  Json resources = Json::object();
  for (const auto& [name, one] : graph.resources) resources[name] = to_json(one);
  Json document{{"schema", kSchema},
                {"name", graph.name},
                {"title", graph.title},
                {"file", graph.file},
                {"root", graph.root},
                {"dropped", graph.dropped},
                {"stage_labels", graph.stage_labels},
                {"axes", graph.axes},
                {"resources", std::move(resources)},
                {"files", to_json(graph.files)},
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

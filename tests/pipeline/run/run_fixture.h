/// @file
/// Small graphs made by hand, a store in a separate folder, and runs of them with a fake runner.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "pipeline/plan/key.h"
#include "pipeline/plan/plan.h"
#include "pipeline/run/run.h"
#include "pipeline/store/store.h"
#include "support/fake_runner.h"
#include "support/temp_folder.h"

namespace pe::test {

/// A stage with roles "in" (many) and "init" (one), outputs of kind metrics, and a config of free keys.
inline std::shared_ptr<pipeline::StageDescription> fake_stage(const std::string& name = "fake",
                                                              std::vector<std::string> outputs = {"out"}) {
  auto stage = std::make_shared<pipeline::StageDescription>();
  stage->name = name;
  stage->program = "pe-" + name;
  stage->inputs = {{"in", artifact::Kind::kMetrics, true, true}, {"init", artifact::Kind::kMetrics, false, true}};
  for (const std::string& output : outputs)
    stage->outputs.push_back({output, artifact::Kind::kMetrics, output == "times"});
  support::Field text;
  text.name = "name";
  text.default_value = "";
  stage->fields = {text};
  text.name = "salt";
  stage->fields.push_back(text);
  stage->resumes = true;
  return stage;
}

/// Description of a program that is such a stage.
inline Json fake_description(int version) {
  const Json fields = {{{"name", "name"}, {"type", "text"}, {"default", ""}, {"help", "x"}},
                       {{"name", "salt"}, {"type", "text"}, {"default", ""}, {"help", "x"}}};
  const Json inputs = {{{"name", "in"}, {"kind", "metrics"}, {"many", true}, {"optional", true}}};
  return {{"schema", "pe-stage/1"}, {"name", "fake"},   {"version", version},
          {"summary", "x"},         {"inputs", inputs}, {"outputs", {{{"name", "out"}, {"kind", "metrics"}}}},
          {"fields", fields}};
}

class SmallRun {
 public:
  SmallRun() {
    graph.name = "small";
    graph.root = (folder / "root").string();
    std::filesystem::create_directories(graph.root);
    options.capacity.cpus = 4;
    options.capacity.mem_bytes = 64LL << 30;
    options.command = {"pe-pipeline", "run", "small.yml"};
    options.check_configs = false;
    open();
  }

  void open() {
    pipeline::StoreOptions store_options;
    store_options.durable = false;
    store = std::make_unique<pipeline::Store>(folder / "store", store_options);
  }

  /// Adds a task that reads the outputs of `inputs` through role "in"; returns its index.
  std::size_t add(const std::string& name, const std::vector<std::size_t>& inputs = {},
                  const std::string& role = "in") {
    pipeline::Task task;
    task.id = task.label = name;
    task.stage = stage;
    task.config = Json{{"name", name}, {"salt", ""}};
    for (const std::size_t producer : inputs) task.inputs.push_back({role, producer, stage->outputs.front().name, ""});
    graph.tasks.push_back(std::move(task));
    graph.stage_labels.push_back(name);
    return graph.tasks.size() - 1;
  }
  pipeline::Task& task(std::size_t i) { return graph.tasks[i]; }

  pipeline::Plan plan(const pipeline::PlanOptions& plan_options = {}) {
    pipeline::compute_plan_keys(graph);
    return pipeline::make_plan(graph, pipeline::StoreReader(*store), plan_options);
  }

  pipeline::RunSummary run(const pipeline::PlanOptions& plan_options = {}, const pipeline::StopFunction& stop = {}) {
    open();
    events.clear();
    runner = std::make_unique<FakeRunner>([this](FakeAttempt& attempt) {
      const auto special = behaviour.find(attempt.config().value("name", ""));
      if (special != behaviour.end())
        special->second(attempt);
      else
        write_all_outputs(attempt);
    });
    runner->code_on_term = code_on_term;
    Listener listener(this);
    return pipeline::run(graph, plan(plan_options), *store, *runner, listener, options, stop);
  }

  /// Names of the events of a task (or of the run), in order.
  std::vector<std::string> event_names(std::int64_t of) const {
    std::vector<std::string> names;
    for (const auto& event : events) {
      if (event.task == of) names.push_back(event.name);
    }
    return names;
  }
  std::string content(std::size_t i) const {
    const auto key = store->hint(graph.tasks[i].plan_key);
    const auto result = key ? store->find({*key, -1}) : std::nullopt;
    return result && !result->outputs.empty() ? result->outputs.front().content : "";
  }

  TempFolder folder;
  pipeline::Graph graph;
  std::shared_ptr<pipeline::StageDescription> stage = fake_stage();
  std::unique_ptr<pipeline::Store> store;
  std::unique_ptr<FakeRunner> runner;
  pipeline::RunOptions options;
  std::map<std::string, FakeRunner::Stage> behaviour;  ///< by config "name"
  std::vector<pipeline::RunEvent> events;
  int code_on_term = 75;

 private:
  struct Listener : pipeline::RunListener {
    explicit Listener(SmallRun* owner) : owner_(owner) {}
    void on_event(const pipeline::RunEvent& event, const pipeline::RunState&) override {
      owner_->events.push_back(event);
    }
    SmallRun* owner_;
  };
};

}  // namespace pe::test

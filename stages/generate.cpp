// pe-generate: examples of an algorithmic task as token shards with labels, for training.
#include "data/token_shards/generate.h"
#include "data/tasks/algorithmic_task.h"
#include "stage/stage_main.h"
using pe::artifact::Kind;

namespace {

/// The vocabulary by task, with the task's defaults: options move it little, and plans need the size of a model.
pe::Json costs() {
  pe::Json vocabularies = pe::Json::array();
  for (const auto& task : pe::data::task_generators()) {
    const std::string vocabulary = std::to_string(pe::data::choose_task(task.name).task->vocabulary());
    for (const char* key : {"generate.task", "generate.task.kind"})
      vocabularies.push_back({{"when", {{key, task.name}}}, {"value", vocabulary}});
  }
  return {{"vocabulary", vocabularies}};
}

}  // namespace

int main(int argc, char** argv) {
  std::string epilogue = "Tasks (lengths of their source: training / test):\n";
  for (const auto& task : pe::data::task_generators()) {
    epilogue += "  " + task.name + ": " + task.summary + " [" + task.length + " " + std::to_string(task.train.low) +
                "-" + std::to_string(task.train.high) + " / " + std::to_string(task.test.low) + "-" +
                std::to_string(task.test.high) + "] " + task.reference + "\n";
  }
  return pe::stage::run<pe::data::GenerateConfig>(
      argc, argv,
      {.name = "generate",
       .version = 1,
       .summary = "Generate examples of an algorithmic task as token shards, to train on.",
       .outputs = {{"data", Kind::kTokenShards}},
       .costs = costs(),
       .epilogue = epilogue},
      pe::data::generate);
}

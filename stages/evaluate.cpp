// pe-evaluate: measures one model on held-out documents and on retrieval tasks, at and beyond its training length.
#include "evaluation/evaluate.h"
#include "stage/stage_main.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  std::string epilogue = "Tasks:\n";
  for (const auto& task : pe::evaluation::tasks()) epilogue += "  " + task.name + ": " + task.summary + "\n";
  return pe::stage::run<pe::evaluation::EvaluateConfig>(
      argc, argv,
      {.name = "evaluate",
       .version = 1,
       .summary = "Measure a model: perplexity against length, passkey, in-context repetition.",
       .inputs = {{"model", Kind::kCheckpoint}, {"data", Kind::kTokenShards}},
       .outputs = {{"scores", Kind::kEvalTable}},
       .resumes = true,
       .epilogue = epilogue,
       .prepare = pe::model::prepare},
      pe::evaluation::evaluate);
}

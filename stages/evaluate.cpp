// pe-evaluate: measures one model on held-out documents and on retrieval tasks, at and beyond its training length.
#include <string_view>

#include "cli/print.h"
#include "cli/run_program.h"
#include "costs.h"
#include "evaluation/evaluate.h"
#include "evaluation/scores_text.h"
#include "kernels/explain.h"
#include "model/machine.h"
#include "revisions.h"
#include "stage/stage_main.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  if (argc == 2 && std::string_view(argv[1]) == "--list") {
    return pe::cli::run_program("pe-evaluate", [] {
      pe::cli::print(pe::evaluation::list_text());
      return 0;
    });
  }
  std::string epilogue = "Tasks (--list has protocols and algorithmic tasks, too):\n";
  for (const auto& task : pe::evaluation::tasks()) epilogue += "  " + task.name + ": " + task.summary + "\n";
  epilogue += "By hand it prints the scores, a line per task and protocol. `pe-data FILE` prints the tables.\n";
  return pe::stage::run<pe::evaluation::EvaluateConfig>(
      argc, argv,
      {.name = "evaluate",
       .version = 11,  // 11: fp32 logits of bf16 models, DAPE by products; 10: kernels of AVX2 round elsewhere; 9: sums
                       // of distance_map by tiles; 8: sums inside products; logit_drift before training, too; averaged
                       // weights are separate runs; 7: selective by a mask; 6: blocks and sliding beyond the
                       // longest context, published protocols as their sources, blow-up against a window
       .revisions = {pe::stages::kBf16OnCpu, pe::stages::kOnCuda, pe::stages::kEvaluatedFactor, pe::stages::kKeptLines,
                     pe::stages::kOtherShots, pe::stages::kTaskLengths, pe::stages::kExtendedRules,
                     pe::stages::kExtendedRulesByDefault, pe::stages::kBabiControl, pe::stages::kSetPositions,
                     pe::stages::kReliesOnPositions, pe::stages::kReliesByDefault, pe::stages::kEvaluatedRule,
                     pe::stages::kDynamicFactor, pe::stages::kLongPplLimit},
       .summary = "Measure a model: perplexity against length, retrieval, algorithmic tasks, probes. By hand it prints "
                  "scores.",
       .inputs = {{"model", Kind::kCheckpoint},
                  {"data", Kind::kTokenShards},
                  {.name = "reference", .kind = Kind::kCheckpoint, .optional = true}},
       .outputs = {{"scores", Kind::kEvalTable}},
       .resumes = true,
       .costs = pe::stages::costs_of_model("model"),
       .epilogue = epilogue,
       .flags = {{"--list", "Show tasks, protocols and algorithmic tasks; no other flag"}},
       .results = pe::evaluation::scores_text,
       .prepare = pe::model::prepare,
       .machine = pe::model::machine,
       .explain = pe::kernels::explain},
      pe::evaluation::evaluate);
}

// pe-extend: continues the training of a checkpoint at a longer context, with its encoding extended or another one.
#include "training/extend.h"
#include "costs.h"
#include "kernels/explain.h"
#include "revisions.h"

#include "model/compute.h"
#include "model/machine.h"
#include "stage/stage_main.h"
#include "training/resume.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  return pe::stage::run<pe::training::ExtendPeConfig>(
      argc, argv,
      {.name = "extend",
       .version = 9,
       .revisions = {pe::stages::kBf16OnCpu, pe::stages::kOnCuda, pe::stages::kExtendedFactor,
                     pe::stages::kExtendedRule, pe::stages::kExtendedOwn, pe::stages::kExtendedClex,
                     pe::stages::kExtendedClexInStack},
       .summary = "Continue the training of a checkpoint at a longer context, with its encoding extended.",
       .inputs = {{"data", Kind::kTokenShards}, {"init", Kind::kCheckpoint}},
       .outputs = {{"model", Kind::kCheckpoint}, {"metrics", Kind::kMetrics}},
       .resumes = true,
       .takes_ranks = true,
       .costs = pe::stages::costs_of_continued_model("extend.tokens"),
       .epilogue =
           "Model, optimizer settings and seed come from the checkpoint: a snapshot, the end of a training, or what "
           "pe-search-factors wrote (extend.encoding_of: checkpoint).\n",
       .prefetch = pe::training::prefetch_checkpoint,
       .prepare = pe::model::prepare,
       .machine = pe::model::machine,
       .explain = pe::kernels::explain},
      pe::training::extend);
}

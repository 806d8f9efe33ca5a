// pe-branch-decay: from a stable-phase snapshot, decays the learning rate to reach a smaller budget.
#include "training/branch_decay.h"
#include "costs.h"
#include "kernels/explain.h"
#include "model/compute.h"
#include "model/machine.h"
#include "revisions.h"
#include "stage/stage_main.h"
#include "training/resume.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  return pe::stage::run<pe::training::BranchDecayConfig>(
      argc, argv,
      {.name = "branch-decay",
       .version = 10,
       .revisions = {pe::stages::kBf16OnCpu, pe::stages::kOnCuda},
       .summary = "Decay the learning rate from a snapshot of the stable phase.",
       .inputs = {{"data", Kind::kTokenShards}, {"init", Kind::kCheckpoint}},
       .outputs = {{"model", Kind::kCheckpoint}, {"metrics", Kind::kMetrics}},
       .resumes = true,
       .takes_ranks = true,
       .branch = pe::stage::Branch{.horizon = "decay.horizon_tokens", .end = "decay.end", .share = "decay.share"},
       .costs = pe::stages::costs_of_continued_model("decay.horizon_tokens * decay.end * decay.share"),
       .epilogue = "Model, optimizer, batch and data position come from the snapshot, which must be at "
                   "end * (1 - share) of the horizon.\n",
       .prefetch = pe::training::prefetch_checkpoint,
       .prepare = pe::model::prepare,
       .machine = pe::model::machine,
       .explain = pe::kernels::explain},
      pe::training::branch_decay);
}

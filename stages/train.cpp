// pe-train: trains one model on token shards and writes a checkpoint, or snapshots of it on the way.
#include "training/train.h"
#include "costs.h"
#include "kernels/explain.h"
#include "model/compute.h"
#include "model/machine.h"
#include "revisions.h"
#include "stage/stage_main.h"
#include "training/resume.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  return pe::stage::run<pe::training::TrainConfig>(
      argc, argv,
      {.name = "train",
       .version = 10,  // raised when the same config and inputs would give other contents
       .revisions = {pe::stages::kBf16OnCpu, pe::stages::kOnCuda, pe::stages::kBareDropout},
       .summary = "Train a model on token shards and write a checkpoint.",
       .inputs = {{"data", Kind::kTokenShards}},
       .outputs = {{"model", Kind::kCheckpoint}, {"metrics", Kind::kMetrics}},
       .resumes = true,
       .takes_ranks = true,
       .trajectory =
           pe::stage::Trajectory{
               .horizon = "train.tokens",
               .tokens_per_step = {"train.batch", "train.length"},
               // With a separate decay, or a warm-up that is a share, the horizon shapes earlier steps.
               .free_when = {{"train.schedule", "wsd"}, {"train.decay_share", 0}, {"train.warmup_share", 0}}},
       .costs = pe::stages::costs_of_new_model("train.tokens"),
       .epilogue = "Snapshots are points of the trajectory that are separate artifacts; pe-pipeline asks for them.\n",
       .prefetch = pe::training::prefetch_checkpoint,
       .prepare = pe::model::prepare,
       .machine = pe::model::machine,
       .explain = pe::kernels::explain},
      pe::training::train);
}

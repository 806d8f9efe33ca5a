// pe-drop-pe: from a snapshot, continues without the positional encoding, or with it as the control.
#include "training/drop_pe.h"
#include "costs.h"
#include "encodings/registry.h"
#include "kernels/explain.h"
#include "model/compute.h"
#include "model/machine.h"
#include "revisions.h"
#include "stage/stage_main.h"
#include "training/resume.h"
using pe::artifact::Kind;

namespace {

pe::Json costs() {
  pe::Json costs = pe::stages::costs_of_continued_model("drop.horizon_tokens - inputs.init.tokens");
  const pe::Json control = {{"when", {{"drop.arm", "nodrop"}}}, {"value", "inputs.init.encoding"}};
  costs["encoding"] = pe::Json::array({control, {{"value", "drop.encoding"}}});
  return costs;
}

/// 2: a member of a stack that stays alone keeps its parameters, too.
pe::stage::Revision kept_alone() {
  pe::Json kinds = pe::Json::array();
  for (const auto& encoding : pe::encodings::encodings()) {
    if (encoding.name != "none") kinds.push_back(encoding.name);
  }
  return {.name = "drop.kept_alone", .when = {{"drop.arm", "drop"}, {"drop.encoding.kind", kinds}}, .number = 2};
}

}  // namespace

int main(int argc, char** argv) {
  return pe::stage::run<pe::training::DropPeConfig>(
      argc, argv,
      {.name = "drop-pe",
       .version = 10,
       .revisions = {pe::stages::kBf16OnCpu, pe::stages::kOnCuda, pe::stages::kFittedSlope, pe::stages::kKeptMembers,
                     kept_alone()},
       .summary = "Drop the positional encoding at a snapshot and continue the training with a new schedule.",
       .inputs = {{"data", Kind::kTokenShards}, {"init", Kind::kCheckpoint}},
       .outputs = {{"model", Kind::kCheckpoint}, {"metrics", Kind::kMetrics}},
       .resumes = true,
       .takes_ranks = true,
       .costs = costs(),
       .epilogue = "Model, optimizer settings, batch and data position come from the snapshot. drop.arm: nodrop is the "
                   "control with the same schedule.\n",
       .prefetch = pe::training::prefetch_checkpoint,
       .prepare = pe::model::prepare,
       .machine = pe::model::machine,
       .explain = pe::kernels::explain},
      pe::training::drop_pe);
}

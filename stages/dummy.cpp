// pe-dummy: one network learns structured rows; the loss of each target after each number of epochs.
#include "studies/dummy.h"
#include "kernels/explain.h"
#include "model/compute.h"
#include "model/machine.h"
#include "revisions.h"
#include "stage/stage_main.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  return pe::stage::run<pe::studies::DummyConfig>(
      argc, argv,
      {.name = "dummy",
       .version = 7,  // raised when the same config and inputs would give other contents
       .revisions = {pe::stages::kBf16OnCpu, pe::stages::kOnCuda, pe::stages::kBareDropout},
       .summary = "Train one network on structured rows and score each of their targets.",
       .outputs = {{"scores", Kind::kEvalTable}, {.name = "timing", .kind = Kind::kEvalTable, .is_volatile = true}},
       .epilogue =
           "doc/studies/dummy.md has the rows, the floors of their losses, and the results of a published grid. "
           "configs/dummy/ has the networks; pipelines/dummy.yml is the grid.\n",
       .prepare = pe::model::prepare,
       .machine = pe::model::machine,
       .explain = pe::kernels::explain},
      pe::studies::dummy);
}

// pe-measure: times what an encoding costs within a model, on the machine it runs on. Its output is volatile.
#include "evaluation/measure.h"
#include "artifact/eval_table.h"
#include "artifact/table_text.h"
#include "kernels/explain.h"
#include "model/machine.h"
#include "stage/stage_main.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  return pe::stage::run<pe::evaluation::MeasureConfig>(
      argc, argv,
      {.name = "measure",
       .version = 2,
       .summary = "Measure a model's cost: milliseconds of encoding, attention and forward pass, peak memory.",
       .inputs = {{"model", Kind::kCheckpoint}},
       .outputs = {{.name = "cost", .kind = Kind::kEvalTable, .is_volatile = true}},
       .epilogue = "Use a machine without other work, or a separate pool in a pipeline.\n",
       .results =
           [](const pe::artifact::Workspace& workspace) {
             return pe::artifact::tables_text(pe::artifact::read_eval_tables(workspace.output("cost")));
           },
       .prepare = pe::model::prepare,
       .machine = pe::model::machine,
       .explain = pe::kernels::explain},
      pe::evaluation::measure);
}

// pe-ideal-reader: what more context is worth in generated stories, for reports to compare encodings with.
#include "data/sources/ideal_reader.h"

#include "artifact/eval_table.h"
#include "artifact/table_text.h"
#include "stage/stage_main.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  return pe::stage::run<pe::data::IdealReaderConfig>(
      argc, argv,
      {.name = "ideal-reader",
       .version = 1,
       .summary = "Measure what more context is worth in generated stories.",
       .inputs = {{"raw", Kind::kRawText}},
       .outputs = {{"scores", Kind::kEvalTable}},
       .results =
           [](const pe::artifact::Workspace& workspace) {
             return pe::artifact::tables_text(pe::artifact::read_eval_tables(workspace.output("scores")));
           }},
      pe::data::ideal_reader);
}

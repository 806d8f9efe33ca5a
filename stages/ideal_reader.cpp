// pe-ideal-reader: what more context is worth in generated stories, for reports to compare encodings with.
#include "data/sources/ideal_reader.h"
#include "stage/stage_main.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  return pe::stage::run<pe::data::IdealReaderConfig>(
      argc, argv,
      {.name = "ideal-reader",
       .version = 1,
       .summary = "Measure what more context is worth in generated stories.",
       .inputs = {{"raw", Kind::kRawText}},
       .outputs = {{"scores", Kind::kEvalTable}}},
      pe::data::ideal_reader);
}

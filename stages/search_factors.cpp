// pe-search-factors: searches LongRoPE's divisors for a trained rotary model, and writes the model with them.
#include "evaluation/language_modelling/search_factors.h"
#include "costs.h"
#include "kernels/explain.h"
#include "model/machine.h"
#include "revisions.h"
#include "stage/stage_main.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  return pe::stage::run<pe::evaluation::SearchFactorsConfig>(
      argc, argv,
      {.name = "search-factors",
       .version = 8,
       .revisions = {pe::stages::kBf16OnCpu, pe::stages::kOnCuda},
       .summary = "Search the divisors of LongRoPE or LongRoPE2 for a trained model.",
       .inputs = {{"model", Kind::kCheckpoint}, {"data", Kind::kTokenShards}},
       .outputs = {{"extended", Kind::kCheckpoint}},
       .costs = pe::stages::costs_of_model("model"),
       .epilogue = "The output is the model with its encoding extended. Evaluate it, or continue its training.\n",
       .prepare = pe::model::prepare,
       .machine = pe::model::machine,
       .explain = pe::kernels::explain},
      pe::evaluation::search_factors);
}

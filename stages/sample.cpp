// pe-sample: lets a model write texts, from prompts and from the beginnings of held-out documents.
#include "evaluation/language_modelling/sample.h"
#include "kernels/explain.h"
#include "model/machine.h"
#include "revisions.h"
#include "stage/stage_main.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  return pe::stage::run<pe::evaluation::SampleConfig>(
      argc, argv,
      {.name = "sample",
       .version = 3,
       .revisions = {pe::stages::kBf16OnCpu, pe::stages::kOnCuda},
       .summary = "Let a model write texts from prompts.",
       .inputs = {{"model", Kind::kCheckpoint}, {"data", Kind::kTokenShards}},
       .outputs = {{"texts", Kind::kEvalTable}},
       .epilogue = "The data gives the tokenizer and the documents that prompts begin. Every model gets the same "
                   "random numbers. By hand it prints the texts. `pe-data FILE` prints them, too.\n",
       .results = pe::evaluation::samples_text,
       .prepare = pe::model::prepare,
       .machine = pe::model::machine,
       .explain = pe::kernels::explain},
      pe::evaluation::sample);
}

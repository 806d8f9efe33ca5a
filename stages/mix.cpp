// pe-mix: retrieval prompts among the training windows of token shards, so that small models can learn to retrieve.
#include "evaluation/retrieval/mix.h"
#include "stage/stage_main.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  return pe::stage::run<pe::evaluation::MixConfig>(
      argc, argv,
      {.name = "mix",
       .version = 2,
       .summary = "Mix retrieval prompts into training windows: a share of them, or all for tuning.",
       .inputs = {{"data", Kind::kTokenShards}},
       .outputs = {{"mixed", Kind::kTokenShards}},
       .costs = {{"vocabulary", "inputs.data.vocabulary"}}},
      pe::evaluation::mix);
}

// pe-make-tokenizer: a tokenizer as a separate artifact, trained or from files, for any number of corpora.
#include "data/tokenizers/tokenizer_stage.h"
#include "stage/stage_main.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  return pe::stage::run<pe::data::TokenizerStageConfig>(
      argc, argv,
      {.name = "make-tokenizer",
       .version = 2,
       .summary = "Train a tokenizer on raw text, or read one from files: one artifact for any number of corpora.",
       .inputs = {{.name = "raw", .kind = Kind::kRawText, .optional = true}},
       .outputs = {{"tokenizer", Kind::kTokenizer}}},
      pe::data::make_tokenizer_artifact);
}

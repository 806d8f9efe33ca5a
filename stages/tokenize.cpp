// pe-tokenize: raw text to token shards, with a tokenizer that is trained on it, given, or plain bytes.
#include "data/token_shards/tokenize.h"
#include "stage/stage_main.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  return pe::stage::run<pe::data::TokenizeConfig>(
      argc, argv,
      {.name = "tokenize",
       .version = 2,
       .summary = "Train or load a tokenizer, encode every document, split by the text's hash, write token shards.",
       .inputs = {{"raw", Kind::kRawText}, {.name = "tokenizer", .kind = Kind::kTokenizer, .optional = true}},
       .outputs = {{"data", Kind::kTokenShards}}},
      pe::data::tokenize);
}

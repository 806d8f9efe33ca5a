// pe-tokenize: raw text to token shards, with a tokenizer that is trained on it, given, or plain bytes.
#include "data/token_shards/tokenize.h"
#include <utility>

#include "stage/stage_main.h"
using pe::artifact::Kind;

int main(int argc, char** argv) {
  // The vocabulary of a model of its tokens, where the config alone determines it.
  pe::Json vocabulary = pe::Json::array();
  for (const auto& [tokenizer, ids] : {std::pair{"bpe", "vocabulary"}, {"bytes", "258"}, {"gpt2", "50257"}})
    vocabulary.push_back({{"when", {{"tokenizer", tokenizer}}}, {"value", ids}});
  return pe::stage::run<pe::data::TokenizeConfig>(
      argc, argv,
      {.name = "tokenize",
       .version = 3,
       .summary = "Train or load a tokenizer, encode every document, split by the text's hash, write token shards.",
       .inputs = {{"raw", Kind::kRawText}, {.name = "tokenizer", .kind = Kind::kTokenizer, .optional = true}},
       .outputs = {{"data", Kind::kTokenShards}},
       .costs = {{"vocabulary", std::move(vocabulary)}}},
      pe::data::tokenize);
}

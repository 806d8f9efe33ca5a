/// @file
/// Costs of trainings, as arithmetic over config keys, for `pe-pipeline plan`: it links no model. The numbers equal
/// `parameter_count` and `flops_per_token` (model/model_config.h) for the default structure; encodings, convolutions,
/// gates and biases, and feed-forwards with two matrices in place of three, are left out.
#pragma once

#include "support/json.h"
#include "support/text.h"

namespace pe::stages {

/// Of a stage that makes a model from its config and the vocabulary of its input `data`. `tokens`: what it trains on.
inline Json costs_of_new_model(const std::string& tokens) {
  using support::cat;
  const std::string vocabulary = "(model.vocabulary | inputs.data.vocabulary)",
                    head = "(model.head_width | model.width / model.heads)",
                    key_value_heads = "(model.key_value_heads | model.heads)",
                    feed_forward = "(model.feed_forward | 4 * model.width)",
                    embedding = cat(vocabulary, " * model.width"),
                    matrices = cat("model.layers * model.width * (2 * ", head, " * (model.heads + ", key_value_heads,
                                   ") + 3 * ", feed_forward, ")");
  return {{"tokens", tokens},
          {"parameters", cat(embedding, " * (2 - model.tied) + ", matrices, " + model.layers * 2 * (model.width + ",
                             head, " * model.qk_norm) + model.width")},
          {"flops",
           cat("6 * (", embedding, " + ", matrices, ") + 12 * model.layers * model.heads * ", head, " * train.length")},
          {"encoding", "model.encoding"}};
}

/// Of a stage that trains the model of its input `init` on, or with `role` reads it.
inline Json costs_of_model(const std::string& role) {
  Json costs = Json::object();
  for (const char* name : {"parameters", "flops", "encoding"}) costs[name] = support::cat("inputs.", role, ".", name);
  return costs;
}
inline Json costs_of_continued_model(const std::string& tokens) {
  Json costs = costs_of_model("init");
  costs["tokens"] = tokens;
  return costs;
}

}  // namespace pe::stages

#include "model/model_config.h"

#include "encodings/registry.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::model {

using support::ArtifactError;
using support::cat;

void ModelConfig::describe(support::FieldVisitor& v) {
  constexpr double kMost = 1 << 20;
  v.field("width", width, "Model width d_m.", {.min = 1, .max = kMost});
  v.field("layers", layers, "Number of blocks.", {.min = 1, .max = 4096});
  v.field("heads", heads, "Query heads.", {.min = 1, .max = 4096});
  v.field("key_value_heads", key_value_heads, "Key and value heads, a divisor of heads; 0: as many as heads.",
          {.min = 0, .max = 4096, .neutral = Json(0)});
  v.field("head_width", head_width, "Width of a head; 0: width / heads.", {.min = 0, .max = kMost, .neutral = Json(0)});
  v.field("feed_forward", feed_forward, "Inner width of SwiGLU; 0: 4 · width.", {.min = 0, .max = kMost, .neutral = Json(0)});
  v.field("vocabulary", vocabulary, "Vocabulary; 0: that of the data. A larger one leaves rows unused.",
          {.min = 0, .max = 1 << 24, .neutral = Json(0)});
  v.field("tied", tied, "The output head is the embedding.");
  v.field("qk_norm", qk_norm, "RMSNorm per head on queries and keys, before any rotation.");
  v.choice("qk_norm_over", qk_norm_over, {{"head", QkNormOver::kHead}, {"width", QkNormOver::kWidth}},
           "That norm over each head, or over all heads together before they are split.", {.neutral = Json("head")});
  v.field("norm_eps", norm_eps, "Added to the mean square in every norm.", {.min = 0, .max = 1});
  v.field("init_std", init_std, "Standard deviation of initial weights.", {.min = 0, .max = 10});
  v.field("scale_residual_init", scale_residual_init, "Output projections start smaller, by 1/sqrt(2 · layers).");
  v.field("embed_scale", embed_scale, "Multiplies token embeddings.", {.min = 0, .max = 1e6});
  v.field("logit_softcap", logit_softcap, "Logits are c · tanh(logit / c); 0: as they come.",
          {.min = 0, .max = 1e6, .neutral = Json(0.0)});
  v.field("dropout", dropout, "Share of embeddings and of what each half block adds that training leaves out.",
          {.min = 0, .max = 0.99, .neutral = Json(0.0)});
  v.variant("encoding", encoding, encodings::variant_kinds(), "Positional encoding.", /*stackable=*/true);
  v.check(key_value_heads == 0 || heads % key_value_heads == 0, "key_value_heads must divide heads");
  v.check(head_width != 0 || width % heads == 0, "heads must divide width, or head_width must be given");
}

bool ModelConfig::operator==(const ModelConfig& other) const { return to_json(*this) == to_json(other); }

Json to_json(const ModelConfig& config) {
  const Json encoding = config.encoding.json.is_string() ? Json{{"kind", config.encoding.json}} : config.encoding.json;
  Json json = {{"width", config.width},
               {"layers", config.layers},
               {"heads", config.heads},
               {"key_value_heads", config.kv_heads()},
               {"head_width", config.d_h()},
               {"feed_forward", config.d_ff()},
               {"vocabulary", config.vocabulary},
               {"tied", config.tied},
               {"qk_norm", config.qk_norm},
               {"norm_eps", config.norm_eps},
               {"init_std", config.init_std},
               {"scale_residual_init", config.scale_residual_init},
               {"embed_scale", config.embed_scale},
               {"length", config.length},
               {"encoding", encoding}};
  // What came after format 1: only where it is used, so that other artifacts keep their bytes.
  if (config.logit_softcap != 0) json["logit_softcap"] = config.logit_softcap;
  if (config.dropout != 0) json["dropout"] = config.dropout;
  if (config.qk_norm_over == QkNormOver::kWidth) json["qk_norm_over"] = "width";
  return json;
}

ModelConfig config_from_json(const Json& json, const std::string& where) {
  const auto take = [&](const char* name, auto& to) {
    const auto found = json.find(name);
    if (found == json.end()) throw ArtifactError(cat(where, ": the model config lacks '", name, "'"));
    try {
      found->get_to(to);
    } catch (const Json::exception&) {
      throw ArtifactError(cat(where, ": the model config has ", found->dump(), " for '", name, "'"));
    }
  };
  ModelConfig config;
  take("width", config.width);
  take("layers", config.layers);
  take("heads", config.heads);
  take("key_value_heads", config.key_value_heads);
  take("head_width", config.head_width);
  take("feed_forward", config.feed_forward);
  take("vocabulary", config.vocabulary);
  take("tied", config.tied);
  take("qk_norm", config.qk_norm);
  take("norm_eps", config.norm_eps);
  take("init_std", config.init_std);
  take("scale_residual_init", config.scale_residual_init);
  take("embed_scale", config.embed_scale);
  take("length", config.length);
  take("encoding", config.encoding.json);
  if (json.contains("logit_softcap")) take("logit_softcap", config.logit_softcap);
  if (json.contains("dropout")) take("dropout", config.dropout);
  if (json.contains("qk_norm_over")) {
    std::string over;
    take("qk_norm_over", over);
    if (over != "width" && over != "head") {
      throw ArtifactError(cat(where, ": the model config has '", over, "' for 'qk_norm_over'; expected head or width"));
    }
    config.qk_norm_over = over == "width" ? QkNormOver::kWidth : QkNormOver::kHead;
  }
  for (const auto& [name, value] :
       {std::pair{"width", config.width}, {"layers", config.layers}, {"heads", config.heads},
        {"key_value_heads", config.key_value_heads}, {"head_width", config.head_width},
        {"feed_forward", config.feed_forward}, {"vocabulary", config.vocabulary}, {"length", config.length}}) {
    if (value <= 0 || value > (std::int64_t{1} << 31)) {
      throw ArtifactError(cat(where, ": the model config has ", value, " for '", name, "'; expected a positive number"));
    }
  }
  return config;
}

std::int64_t parameter_count(const ModelConfig& config) {
  const std::int64_t d = config.width, attention = config.d_h() * (2 * config.heads + 2 * config.kv_heads());
  const std::int64_t norms = 2 * d + (config.qk_norm ? config.query_norm_width() + config.key_norm_width() : 0);
  return config.vocabulary * d * (config.tied ? 1 : 2) + config.layers * (d * attention + 3 * d * config.d_ff() + norms) + d;
}

double flops_per_token(const ModelConfig& config, std::int64_t length) {
  const double attention = static_cast<double>(config.d_h() * (2 * config.heads + 2 * config.kv_heads()));
  const double block = static_cast<double>(config.width) * (attention + 3.0 * static_cast<double>(config.d_ff()));
  const double weights = static_cast<double>(config.layers) * block + static_cast<double>(config.vocabulary * config.width);
  return 6 * weights + 12.0 * static_cast<double>(config.layers * config.heads * config.d_h() * length);
}

}  // namespace pe::model

#include "model/model_config.h"

#include <type_traits>
#include <utility>
#include <vector>

#include "encodings/registry.h"
#include "model/layout.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::model {

using support::ArtifactError;
using support::cat;

namespace {

constexpr std::int64_t kMostWidth = 1 << 20;
constexpr std::int64_t kMostParts = 4096;      // layers, heads
constexpr std::int64_t kMostTokens = 1 << 24;  // of a vocabulary, of a context

/// A field that came after format 1: artifacts hold it only where it is not the default, so that others keep their
/// bytes.
template <typename Value>
struct LaterField {
  const char* name;
  Value ModelConfig::*member;
  std::vector<std::pair<const char*, Value>> words;  ///< of a choice; else empty
};

/// Calls `use` with each of them, in the order in which artifacts hold them.
template <typename Use>
void for_each_later_field(const Use& use) {
  use(LaterField<double>{"logit_softcap", &ModelConfig::logit_softcap, {}});
  use(LaterField<double>{"dropout", &ModelConfig::dropout, {}});
  use(LaterField<QkNormOver>{
      "qk_norm_over", &ModelConfig::qk_norm_over, {{"head", QkNormOver::kHead}, {"width", QkNormOver::kWidth}}});
  use(LaterField<bool>{"dropout_embeddings", &ModelConfig::dropout_embeddings, {}});
  use(LaterField<NormKind>{"norm", &ModelConfig::norm, {{"rms", NormKind::kRms}, {"layer", NormKind::kLayer}}});
  use(LaterField<NormPlacement>{
      "norm_placement", &ModelConfig::norm_placement, {{"pre", NormPlacement::kPre}, {"post", NormPlacement::kPost}}});
  use(LaterField<Activation>{"activation",
                             &ModelConfig::activation,
                             {{"swiglu", Activation::kSwiglu},
                              {"relu", Activation::kRelu},
                              {"gelu", Activation::kGelu},
                              {"gelu_tanh", Activation::kGeluTanh}}});
  use(LaterField<bool>{"biases", &ModelConfig::biases, {}});
  use(LaterField<bool>{"head_bias", &ModelConfig::head_bias, {}});
  use(LaterField<Mask>{
      "mask", &ModelConfig::mask, {{"causal", Mask::kCausal}, {"bidirectional", Mask::kBidirectional}}});
  use(LaterField<bool>{"attend_over_batch", &ModelConfig::attend_over_batch, {}});
  use(LaterField<bool>{"bare_attention", &ModelConfig::bare_attention, {}});
  use(LaterField<Init>{
      "init", &ModelConfig::init, {{"normal", Init::kNormal}, {"fan_in", Init::kFanIn}, {"glorot", Init::kGlorot}}});
  use(LaterField<double>{"embedding_std", &ModelConfig::embedding_std, {}});
  use(LaterField<Gate>{"gate",
                       &ModelConfig::gate,
                       {{"none", Gate::kNone}, {"headwise", Gate::kHeadwise}, {"elementwise", Gate::kElementwise}}});
}

}  // namespace

void CanonOptions::describe(support::FieldVisitor& v) {
  v.field(
      "set", set,
      "Where: letters of ABCD. A before attention, B on queries, keys and values, C before the feed-forward, D inside "
      "it; empty: nowhere.",
      {.neutral = Json("")});
  v.field("kernel", kernel, "Kernel size in tokens, current token included.",
          {.unit = "tokens", .min = 1, .max = 64, .neutral = Json(4)});
  v.field("residual", residual, "Adds the input.", {.neutral = Json(true)});
  v.choice("activation", activation, {{"none", Activation::kNone}, {"silu", Activation::kSilu}},
           "Activation of the convolution.", {.neutral = Json("none")});
  v.field("bias", bias, "Convolutions have biases.", {.neutral = Json(false)});
  std::string known;
  for (const char where : {'A', 'B', 'C', 'D'}) {
    if (has(where)) known += where;
  }
  v.check(set == known, "canon.set is made of the letters A, B, C and D, each at most once and in this order");
}

namespace {

void check_heads(support::FieldVisitor& v, const ModelConfig& config) {
  v.check(config.key_value_heads == 0 || config.heads % config.key_value_heads == 0,
          cat("key_value_heads must divide heads, found ", config.key_value_heads, " and ", config.heads));
  v.check(config.head_width != 0 || config.width % config.heads == 0,
          cat("heads must divide width, found ", config.heads, " and ", config.width, ", or head_width must be given"));
}

}  // namespace

void ModelConfig::describe(support::FieldVisitor& v) {
  v.field("width", width, "Model width d_m.", {.min = 1, .max = kMostWidth});
  v.field("layers", layers, "Number of blocks.", {.min = 1, .max = kMostParts});
  v.field("heads", heads, "Query heads.", {.min = 1, .max = kMostParts});
  v.field("key_value_heads", key_value_heads, "Key and value heads, a divisor of heads; 0: as many as heads.",
          {.min = 0, .max = kMostParts, .neutral = Json(0)});
  v.field("head_width", head_width, "Width of a head; 0: width / heads.",
          {.min = 0, .max = kMostWidth, .neutral = Json(0)});
  v.field("feed_forward", feed_forward, "Inner width of the feed-forward; 0: 4 · width.",
          {.min = 0, .max = kMostWidth, .neutral = Json(0)});
  v.field("vocabulary", vocabulary, "Vocabulary; 0: the vocabulary of the data. A larger one leaves rows unused.",
          {.min = 0, .max = kMostTokens, .neutral = Json(0)});
  v.field("tied", tied, "The output head is the embedding.");
  v.field("qk_norm", qk_norm, "RMSNorm per head on queries and keys, before any rotation.");
  v.choice("qk_norm_over", qk_norm_over, {{"head", QkNormOver::kHead}, {"width", QkNormOver::kWidth}},
           "That norm over each head, or over all heads together before they are split.", {.neutral = Json("head")});
  v.field("norm_eps", norm_eps, "Added to the mean square in every norm.", {.min = 0, .max = 1});
  v.field("init_std", init_std, "Standard deviation of initial weights.", {.min = 0, .max = 10});
  v.field("scale_residual_init", scale_residual_init, "Output projections start smaller, by 1/sqrt(2 · layers).");
  v.field("embed_scale", embed_scale, "Multiplies token embeddings.", {.min = 0, .max = 1e6});
  v.field("logit_softcap", logit_softcap, "Logits are c · tanh(logit / c); 0: unchanged.",
          {.min = 0, .max = 1e6, .neutral = Json(0.0)});
  v.field("dropout", dropout, "Dropout rate of embeddings and of the output of each half block.",
          {.min = 0, .max = 0.99, .neutral = Json(0.0)});
  v.field("dropout_embeddings", dropout_embeddings,
          "Dropout also acts on embeddings, not only on the output of half blocks.", {.neutral = Json(true)});
  v.choice("norm", norm, {{"rms", NormKind::kRms}, {"layer", NormKind::kLayer}},
           "Norm of the blocks: by the root mean square, or by mean and standard deviation.", {.neutral = Json("rms")});
  v.choice("norm_placement", norm_placement, {{"pre", NormPlacement::kPre}, {"post", NormPlacement::kPost}},
           "pre is x + f(norm(x)), with a norm before the head. post is norm(x + f(x)), as in 2017.",
           {.neutral = Json("pre")});
  v.choice(
      "activation", activation,
      {{"swiglu", Activation::kSwiglu},
       {"relu", Activation::kRelu},
       {"gelu", Activation::kGelu},
       {"gelu_tanh", Activation::kGeluTanh}},
      "Feed-forward: down · (silu(gate · x) ∘ (up · x)), or down · act(up · x). gelu_tanh is GPT-2's approximation.",
      {.neutral = Json("swiglu")});
  v.field("biases", biases, "Projections of the blocks have biases, and layer norms too.", {.neutral = Json(false)});
  v.field("head_bias", head_bias, "The output head has a bias.", {.neutral = Json(false)});
  v.choice("mask", mask, {{"causal", Mask::kCausal}, {"bidirectional", Mask::kBidirectional}},
           "bidirectional: tokens see later ones, the target of a language model among them. Not every encoding can.",
           {.neutral = Json("causal")});
  v.field("attend_over_batch", attend_over_batch,
          "Attention runs over the rows of the batch at each position, never within a row. This reproduces a "
          "published mistake.",
          {.neutral = Json(false)});
  v.field("bare_attention", bare_attention,
          "Blocks are attention alone: no residual sum, norm or feed-forward. Keys about these have no effect.",
          {.neutral = Json(false)});
  v.choice("init", init, {{"normal", Init::kNormal}, {"fan_in", Init::kFanIn}, {"glorot", Init::kGlorot}},
           "Initial matrices of blocks and head. normal has draws with init_std, and fan_in is uniform within "
           "±1/√inputs, biases too. glorot is fan_in with q, k, v by Glorot's rule as one matrix, and the biases of "
           "attention are 0.",
           {.neutral = Json("normal")});
  v.field("embedding_std", embedding_std, "Standard deviation of initial token embeddings; 0: init_std.",
          {.min = 0, .max = 1000, .neutral = Json(0.0)});
  v.group("canon", canon, "Short causal convolutions: each channel reads its own last tokens.");
  v.choice("gate", gate, {{"none", Gate::kNone}, {"headwise", Gate::kHeadwise}, {"elementwise", Gate::kElementwise}},
           "Multiplies what a head gathers by a sigmoid of the attention's input: one number a head, or one a channel.",
           {.neutral = Json("none")});
  v.variant("encoding", encoding, encodings::variant_kinds(), "Positional encoding.", /*stackable=*/true);
  check_heads(v, *this);
  v.check(!attend_over_batch || canon.set.empty(),
          "attend_over_batch puts other sequences where canon reads earlier tokens");
  v.check(!bare_attention || (!canon.has('C') && !canon.has('D')),
          "bare_attention leaves no feed-forward for canon's C and D");
}

std::int64_t ModelConfig::query_heads() const {
  return std::max<std::int64_t>(1, heads / encodings::heads_per_query(encoding.json));
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
  if (!config.canon.set.empty()) {
    json["canon"] = {{"set", config.canon.set},
                     {"kernel", config.canon.kernel},
                     {"residual", config.canon.residual},
                     {"activation", config.canon.activation == CanonOptions::Activation::kSilu ? "silu" : "none"},
                     {"bias", config.canon.bias}};
  }
  const ModelConfig defaults;
  for_each_later_field([&](const auto& field) {
    const auto value = config.*(field.member);
    if (value == defaults.*(field.member)) return;
    if constexpr (std::is_enum_v<std::decay_t<decltype(value)>>) {
      for (const auto& [word, of] : field.words) {
        if (of == value) json[field.name] = word;
      }
    } else {
      json[field.name] = value;
    }
  });
  return json;
}

namespace {

/// @throws ArtifactError that names the first size out of its bounds
void require_sizes(const ModelConfig& config, const std::string& where) {
  struct Limit {
    const char* name;
    std::int64_t value, most;
  };
  for (const auto& [name, value, most] : {Limit{"width", config.width, kMostWidth},
                                          {"layers", config.layers, kMostParts},
                                          {"heads", config.heads, kMostParts},
                                          {"key_value_heads", config.key_value_heads, kMostParts},
                                          {"head_width", config.head_width, kMostWidth},
                                          {"feed_forward", config.feed_forward, 4 * kMostWidth},
                                          {"vocabulary", config.vocabulary, kMostTokens},
                                          {"length", config.length, kMostTokens}}) {
    if (value > 0 && value <= most) continue;
    throw ArtifactError(
        cat(where, ": the model config has ", value, " for '", name, "'; expected a number from 1 to ", most));
  }
}

}  // namespace

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
  if (json.contains("canon")) {
    try {
      support::bind_config([&](support::FieldVisitor& v) { config.canon.describe(v); }, json.at("canon"), "canon");
    } catch (const support::Error& error) {
      throw ArtifactError(
          cat(where, ": the model config has ", json.at("canon").dump(), " for 'canon': ", error.what()));
    }
  }
  for_each_later_field([&](const auto& field) {
    if (!json.contains(field.name)) return;
    using Value = std::decay_t<decltype(config.*(field.member))>;
    if constexpr (std::is_enum_v<Value>) {
      std::string word, expected;
      take(field.name, word);
      for (const auto& [known, value] : field.words) {
        if (word == known) {
          config.*(field.member) = value;
          return;
        }
        expected += cat(expected.empty() ? "" : &known == &field.words.back().first ? " or " : ", ", known);
      }
      throw ArtifactError(
          cat(where, ": the model config has '", word, "' for '", field.name, "'; expected ", expected));
    } else {
      take(field.name, config.*(field.member));
    }
  });
  require_sizes(config, where);
  return config;
}

std::string why_mask_does_not_fit(const std::string& encoding) {
  return cat("encoding '", encoding, "' is defined for causal attention only, and model.mask is bidirectional");
}

std::int64_t parameter_count(const ModelConfig& config) {
  std::int64_t count = 0;
  for (const PlannedParameter& parameter : plan_parameters(config)) count += parameter.count();
  return count;
}

double flops_per_token(const ModelConfig& config, std::int64_t length) {
  std::int64_t weights = config.vocabulary * config.width;  // of the head, tied or not
  for (const PlannedParameter& parameter : plan_parameters(config)) {
    if (parameter.decay && parameter.name != "head") weights += parameter.count();
  }
  return 6 * static_cast<double>(weights) +
         12.0 * static_cast<double>(config.layers * config.heads * config.d_h() * length);
}

}  // namespace pe::model

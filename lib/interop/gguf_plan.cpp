#include "interop/gguf_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string_view>

#include "interop/rope_parameters.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::interop {

using support::cat;

namespace {

/// By this, an angle is below 1e-20 at any position. Angles of a token below kStill came from it.
constexpr double kNever = 1e30, kStill = 1e-25;

constexpr std::pair<std::string_view, std::string_view> kOutside[] = {
    {"model.embed_tokens", "token_embd"}, {"model.norm", "output_norm"}, {"lm_head", "output"}};
constexpr std::pair<std::string_view, std::string_view> kInLayer[] = {
    {"input_layernorm", "attn_norm"},    {"self_attn.q_proj", "attn_q"},
    {"self_attn.k_proj", "attn_k"},      {"self_attn.v_proj", "attn_v"},
    {"self_attn.o_proj", "attn_output"}, {"self_attn.q_norm", "attn_q_norm"},
    {"self_attn.k_norm", "attn_k_norm"}, {"post_attention_layernorm", "ffn_norm"},
    {"mlp.gate_proj", "ffn_gate"},       {"mlp.up_proj", "ffn_up"},
    {"mlp.down_proj", "ffn_down"}};

/// Translates a name of one side. `side` takes the known name of a pair, `other` the wanted one.
std::string translate(const std::string& name, std::string_view layers, std::string_view other_layers, const auto& side,
                      const auto& other) {
  const std::size_t ending = name.rfind('.');
  if (ending == std::string::npos) return {};
  const std::string stem = name.substr(0, ending);
  for (const auto& pair : kOutside) {
    if (stem == side(pair)) return cat(other(pair), name.substr(ending));
  }
  const std::size_t dot = name.find('.', layers.size());
  if (!stem.starts_with(layers) || dot >= ending) return {};
  const std::string layer = stem.substr(layers.size(), dot - layers.size());
  for (const auto& pair : kInLayer) {
    if (stem.substr(dot + 1) == side(pair)) return cat(other_layers, layer, ".", other(pair), name.substr(ending));
  }
  return {};
}

[[noreturn]] void no_gguf_form(const std::string& reason) {
  throw support::ConfigError(cat("this model has no form in llama.cpp: ", reason), {},
                             "doc/interop.md lists the models that can be exported as GGUF");
}

/// Angles of every layer; all zero where nothing turns.
RopeFrequencies frequencies_of(const Json& config) {
  const std::int64_t width = config.at("head_dim");
  if (config.at("model_type") == "smollm3") {
    const Json& turned = config.at("no_rope_layers");
    if (config.at("use_sliding_window") == true || std::find(turned.begin(), turned.end(), 1) != turned.end())
      no_gguf_form("layers with other positions");
    return {.theta = std::vector<double>(static_cast<std::size_t>(width / 2))};
  }
  return rope_frequencies(config.at("rope_parameters"), width, config.at("max_position_embeddings"), "the export");
}

/// Sets base and factor where angles fall by one ratio, as in plain and linear rotation and in NTK-aware scaling. Sets
/// a factor alone where nothing turns. @return whether one of these is the case
bool set_by_ratio(const RopeFrequencies& wanted, const std::string& prefix, GgufValues& values) {
  const auto pairs = static_cast<double>(wanted.theta.size());
  const auto turns = [](double theta) { return theta > kStill; };
  double base = 10000, factor = kNever;
  if (std::any_of(wanted.theta.begin(), wanted.theta.end(), turns)) {
    const double first = wanted.theta.front(), last = wanted.theta.back();
    if (!turns(first) || !turns(last) || first > 1 + 1e-6) return false;
    factor = std::abs(first - 1) < 1e-6 ? 1 : 1 / first;
    if (pairs > 1) base = std::pow(first / last, pairs / (pairs - 1));
    if (std::abs(base - std::round(base)) < 1e-6 * base) base = std::round(base);
    const Json linear = {{"rope_type", "linear"}, {"rope_theta", base}, {"factor", factor}};
    if (!(base > 1)) return false;
    RopeFrequencies found = rope_frequencies(linear, 2 * static_cast<std::int64_t>(pairs), 1, "the export");
    found.attention_factor = wanted.attention_factor;
    if (!same_frequencies(wanted, found)) return false;
  }
  values[prefix + "rope.freq_base"] = base;
  if (factor != 1) {
    values[prefix + "rope.scaling.type"] = "linear";
    values[prefix + "rope.scaling.factor"] = factor;
  }
  if (wanted.attention_factor != 1) values[prefix + "rope.scaling.attn_factor"] = wanted.attention_factor;
  return true;
}

/// YaRN as llama.cpp computes it: it knows no other turns than 32 and 1, rounds the two pairs between which angles are
/// mixed, and multiplies the attention factor by its own.
bool set_yarn(const Json& rope, const RopeFrequencies& wanted, const std::string& prefix, GgufValues& values) {
  if (rope.at("rope_type") != "yarn" || rope.value("beta_fast", 32.0) != 32 || rope.value("beta_slow", 1.0) != 1 ||
      rope.value("truncate", Json(true)) == false) {
    return false;
  }
  const double factor = rope.at("factor"), own = factor <= 1 ? 1 : 0.1 * std::log(factor) + 1;
  values[prefix + "rope.freq_base"] = rope.at("rope_theta").get<double>();
  values[prefix + "rope.scaling.type"] = "yarn";
  values[prefix + "rope.scaling.factor"] = factor;
  values[prefix + "rope.scaling.original_context_length"] =
      static_cast<std::int64_t>(rope.at("original_max_position_embeddings").get<double>());
  values[prefix + "rope.scaling.attn_factor"] = wanted.attention_factor / own;
  return true;
}

/// Divisors of the plain angles of a base, which llama.cpp reads for architecture llama alone.
void set_divisors(const Json& rope, const RopeFrequencies& wanted, GgufPlan& made) {
  const double base = rope.at("rope_theta"), pairs = static_cast<double>(wanted.theta.size());
  for (std::size_t i = 0; i < wanted.theta.size(); ++i) {
    const double plain = std::pow(base, -static_cast<double>(i) / pairs);
    made.divisors.push_back(static_cast<float>(wanted.theta[i] > plain / kNever ? plain / wanted.theta[i] : kNever));
  }
  made.values["llama.rope.freq_base"] = base;
  made.values["llama.rope.scaling.attn_factor"] = wanted.attention_factor;
}

void set_rope(const Json& config, GgufPlan& made) {
  const RopeFrequencies wanted = frequencies_of(config);
  const std::string prefix = made.architecture + ".";
  if (set_by_ratio(wanted, prefix, made.values)) return;
  const Json& rope = config.at("rope_parameters");
  if (made.architecture == "llama") {
    set_divisors(rope, wanted, made);
  } else if (!set_yarn(rope, wanted, prefix, made.values)) {
    no_gguf_form(
        "with a norm of queries and keys llama.cpp rotates by plain, linear or YaRN angles alone (YaRN with fixed "
        "constants), and this encoding has others");
  }
}

/// Rows of a head for pairs of neighbours (2i, 2i+1), which llama.cpp turns in architecture llama. Before, pairs are
/// (i, i + d/2).
std::vector<std::int64_t> neighbours(std::vector<std::int64_t> rows, std::int64_t head_width) {
  if (rows.empty()) {
    rows.resize(static_cast<std::size_t>(head_width));
    std::iota(rows.begin(), rows.end(), 0);
  }
  std::vector<std::int64_t> ordered;
  for (std::size_t pair = 0; pair < rows.size() / 2; ++pair) {
    ordered.push_back(rows[pair]);
    ordered.push_back(rows[pair + rows.size() / 2]);
  }
  return ordered;
}

}  // namespace

std::string gguf_name(const std::string& hf) {
  return translate(
      hf, "model.layers.", "blk.", [](const auto& pair) { return pair.first; },
      [](const auto& pair) { return pair.second; });
}

std::string hf_name_of_gguf(const std::string& gguf) {
  return translate(
      gguf, "blk.", "model.layers.", [](const auto& pair) { return pair.second; },
      [](const auto& pair) { return pair.first; });
}

GgufPlan plan_gguf(const ExportPlan& plan) {
  if (plan.needs_code) no_gguf_form(plan.why_code);
  const Json& config = plan.config;
  GgufPlan made{.architecture = config.at("model_type") == "qwen3" ? "qwen3" : "llama"};
  const std::int64_t head_width = config.at("head_dim");
  made.values = {{"general.architecture", made.architecture},
                 {"general.type", "model"},
                 {made.architecture + ".attention.key_length", head_width},
                 {made.architecture + ".attention.value_length", head_width},
                 {made.architecture + ".rope.dimension_count", head_width},
                 {made.architecture + ".attention.layer_norm_rms_epsilon", config.at("rms_norm_eps").get<double>()}};
  for (const auto& [name, key] : {std::pair{"block_count", "num_hidden_layers"},
                                  {"context_length", "max_position_embeddings"},
                                  {"embedding_length", "hidden_size"},
                                  {"feed_forward_length", "intermediate_size"},
                                  {"attention.head_count", "num_attention_heads"},
                                  {"attention.head_count_kv", "num_key_value_heads"},
                                  {"vocab_size", "vocab_size"}}) {
    made.values[cat(made.architecture, ".", name)] = config.at(key).get<std::int64_t>();
  }
  set_rope(config, made);
  for (ExportTensor tensor : plan.tensors) {
    const bool turned =
        tensor.name.find(".q_proj.") != std::string::npos || tensor.name.find(".k_proj.") != std::string::npos;
    if (turned && made.architecture == "llama") tensor.rows = neighbours(std::move(tensor.rows), head_width);
    tensor.name = gguf_name(tensor.name);
    made.tensors.push_back(std::move(tensor));
  }
  return made;
}

}  // namespace pe::interop

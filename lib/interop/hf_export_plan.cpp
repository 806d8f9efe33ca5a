#include "interop/hf_export_plan.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>

#include "encodings/attention/attention_window.h"
#include "encodings/attention/positional_encoding.h"
#include "encodings/bias/slopes.h"
#include "encodings/registry.h"
#include "encodings/rotary/rotary.h"
#include "interop/hf_names.h"
#include "interop/rope_parameters.h"
#include "model/layout.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::interop {

using encodings::PositionalEncoding;
using model::ModelConfig;
using support::cat;
using support::ConfigError;

namespace {

/// Rotations by fixed angles in some or all layers, and nothing else but windows.
struct PlainPositions {
  RopeFrequencies frequencies;         ///< d_h/2 pairs; 0: not rotated
  std::vector<std::int64_t> channels;  ///< of a head: channel c there is channels[c] here
  std::vector<bool> rotates;           ///< by layer
  std::vector<std::int64_t> windows;   ///< by layer, tokens; 0: all
  double base = 10000;

  bool any() const { return std::find(rotates.begin(), rotates.end(), true) != rotates.end(); }
  bool all() const { return std::find(rotates.begin(), rotates.end(), false) == rotates.end(); }
  bool windowed() const {
    return std::any_of(windows.begin(), windows.end(), [](auto w) { return w != 0; });
  }
};

bool acts_on_q_and_k_alone(const PositionalEncoding& encoding, const encodings::Span& span) {
  const encodings::Traits traits = encoding.traits(span);
  return traits.bias == encodings::BiasKind::kNone && !traits.adds_to_tokens && !traits.maps_positions &&
         !traits.own_logits && !traits.rewrites_logits && !traits.normalises && !traits.extra_values;
}

/// Pairs of channels (c, c + d_h/2), as transformers has them: first the rotated pairs in their order, then all others.
std::vector<std::int64_t> channel_order(const encodings::RotatedPairs& pairs, std::int64_t head_width) {
  std::vector<std::int64_t> first = pairs.first, second = pairs.second, rest;
  std::vector<bool> taken(static_cast<std::size_t>(head_width));
  for (const std::int64_t channel : first) taken[static_cast<std::size_t>(channel)] = true;
  for (const std::int64_t channel : second) taken[static_cast<std::size_t>(channel)] = true;
  for (std::int64_t channel = 0; channel < head_width; ++channel) {
    if (!taken[static_cast<std::size_t>(channel)]) rest.push_back(channel);
  }
  for (std::size_t i = 0; i < rest.size(); ++i) (i < rest.size() / 2 ? first : second).push_back(rest[i]);
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

/// Nothing, with the reason, where the encoding is not of that sort.
std::optional<PlainPositions> plain_positions(const model::LanguageModel& model, std::string& why) {
  const ModelConfig& config = model.config();
  PositionalEncoding& encoding = model.encoding();
  const encodings::Span span = encodings::Span::whole(1, config.length);
  const std::string name = encodings::encoding_name(config.encoding.json);
  const std::string kind = config.encoding.json.is_object() ? config.encoding.json.value("kind", "") : name;
  const encodings::Facts facts = encoding.facts();
  PlainPositions made;
  const auto no = [&](const std::string& reason) {
    why = cat("encoding '", name, "' ", reason);
    return std::nullopt;
  };
  const auto pairs = static_cast<std::size_t>(config.d_h() / 2);
  made.frequencies.theta.assign(pairs, 0);
  made.channels.resize(static_cast<std::size_t>(config.d_h()));
  std::iota(made.channels.begin(), made.channels.end(), 0);
  made.rotates.assign(static_cast<std::size_t>(config.layers), false);
  made.windows.assign(static_cast<std::size_t>(config.layers), 0);
  if (kind == "none") return made;
  const auto* rotary = dynamic_cast<const encodings::Rotary*>(&encoding);
  if (rotary == nullptr || !acts_on_q_and_k_alone(encoding, span) || facts.heads_per_query != 1) {
    return no("does more than rotate queries and keys");
  }
  const bool by_layer = kind == "local_global" && config.encoding.json.value("scale", "none") == "none";
  if (!rotary->only_rotates() && !by_layer) return no("does more than rotate queries and keys by one table");
  if (facts.length_dependent || facts.content_dependent || facts.stochastic || facts.max_positions) {
    return no("rotates by angles that are not fixed");
  }
  const encodings::RotaryFrequencies frequencies = rotary->frequencies(span);
  if (frequencies.protected_positions != 0) return no("has other angles for the first positions");
  made.frequencies.attention_factor = frequencies.attention_factor;
  made.base = rotary->schedule().base;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const auto at = static_cast<std::size_t>(layer);
    made.windows[at] = encodings::window_of(encoding, static_cast<int>(layer));
    const auto rotated = encoding.rotated_pairs(static_cast<int>(layer), span);
    if (!rotated) continue;
    if (rotated->groups() != 1) return no("rotates heads by different angles");
    // The classes multiply all channels by the factor, and a partial rotation multiplies only its own.
    if (2 * std::ssize(rotated->first) < config.d_h() && frequencies.attention_factor != 1)
      return no("rotates some channels and scales these alone");
    made.rotates[at] = true;
    made.channels = channel_order(*rotated, config.d_h());
    std::copy(rotated->theta.begin(), rotated->theta.end(), made.frequencies.theta.begin());
  }
  return made;
}

/// A part of the model's structure that no Llama-like class has; empty: there is none.
std::string odd_structure(const ModelConfig& c) {
  if (c.norm != model::NormKind::kRms) return "layer norms";
  if (c.norm_placement != model::NormPlacement::kPre) return "norms behind the sums";
  if (c.activation != model::Activation::kSwiglu) return "a feed-forward without a gate";
  if (c.head_bias) return "a bias of the head";
  if (c.qk_norm && c.qk_norm_over != model::QkNormOver::kHead) return "a norm of queries and keys over all heads";
  if (c.qk_norm && c.biases) return "biases with a norm of queries and keys";
  if (c.gate != model::Gate::kNone) return "gated attention";
  if (c.logit_softcap != 0) return "capped logits";
  return {};
}

/// A part that the code of the export does not have either.
std::string unknown_structure(const ModelConfig& c) {
  if (c.mask != model::Mask::kCausal) return "model.mask: bidirectional";
  if (!c.canon.set.empty()) return "model.canon";
  if (c.attend_over_batch) return "model.attend_over_batch";
  if (c.bare_attention) return "model.bare_attention";
  return {};
}

Json shape_json(const ModelConfig& c, std::int64_t longest) {
  return {{"vocab_size", c.vocabulary},
          {"hidden_size", c.width},
          {"intermediate_size", c.d_ff()},
          {"num_hidden_layers", c.layers},
          {"num_attention_heads", c.heads},
          {"num_key_value_heads", c.kv_heads()},
          {"head_dim", c.d_h()},
          {"hidden_act", "silu"},
          {"rms_norm_eps", c.norm_eps},
          {"initializer_range", c.init_std},
          {"attention_dropout", 0.0},
          {"max_position_embeddings", longest},
          {"tie_word_embeddings", c.tied},
          {"use_cache", true}};
}

void set_class(Json& config, const char* architecture, const char* type) {
  config["architectures"] = {architecture};
  config["model_type"] = type;
}

/// Both spellings: version 5 reads rope_parameters, version 4 rope_theta and rope_scaling.
void set_rope(Json& config, const Json& parameters) {
  config["rope_parameters"] = parameters;
  config["rope_theta"] = parameters.at("rope_theta");
  config["rope_scaling"] = nullptr;
  if (parameters.at("rope_type") == "default") return;
  Json scaling = parameters;
  scaling.erase("rope_theta");
  config["rope_scaling"] = scaling;
}

/// Parameters of a published rule with the options of ours, to be tried.
Json rope_hint(const ModelConfig& c) {
  const Json& e = c.encoding.json;
  if (!e.is_object()) return nullptr;
  const std::string kind = e.value("kind", "");
  if (kind != "yarn" && kind != "llama3") return nullptr;
  const Json length = e.value("train_length", Json());
  Json made = {{"rope_type", kind},
               {"rope_theta", e.value("base", 10000.0)},
               {"factor", e.value("factor", 1.0)},
               {"original_max_position_embeddings", length.is_number() ? length : Json(c.length)}};
  if (kind == "llama3") {
    made["low_freq_factor"] = e.value("low_freq_factor", 1.0);
    made["high_freq_factor"] = e.value("high_freq_factor", 4.0);
    return made;
  }
  if (e.value("beta_slow", 1.0) == 0) return nullptr;  // transformers would take 1
  made["beta_fast"] = e.value("beta_fast", 32.0);
  made["beta_slow"] = e.value("beta_slow", 1.0);
  made["truncate"] = e.value("truncate", true);
  if (e.value("attention_factor", 0.0) > 0) made["attention_factor"] = e["attention_factor"];
  return made;
}

/// Do all versions of transformers compute the hint alike? Some take the ratio of the two lengths for YaRN's factor.
bool all_versions_agree(const Json& hint, std::int64_t longest) {
  return !hint.is_object() || hint.at("rope_type") != "yarn" ||
         hint.at("factor").get<double>() * hint.at("original_max_position_embeddings").get<double>() ==
             static_cast<double>(longest);
}

/// @return whether a stock class computes the same; fills its config
bool choose_stock(const ModelConfig& c, const PlainPositions& positions, ExportForm form, Json& config,
                  std::string& why) {
  const std::int64_t longest = config["max_position_embeddings"];
  // Llama's config rejects such a width.
  const bool no_llama = form == ExportForm::kFolder && c.width % c.heads != 0 && !c.qk_norm;
  const bool mixed = (positions.any() && !positions.all()) || positions.windowed();
  if ((mixed || no_llama) && (c.qk_norm || c.biases)) {
    why = cat(mixed ? "layers with other positions" : "a width that heads do not divide", ", and ",
              c.qk_norm ? "a norm of queries and keys" : "biases");
    return false;
  }
  Json hint = rope_hint(c);
  if (form == ExportForm::kFolder && !all_versions_agree(hint, longest)) hint = nullptr;
  const Json rope = rope_parameters_for(positions.frequencies, positions.base, longest, hint);
  if (c.qk_norm) {
    set_class(config, "Qwen3ForCausalLM", "qwen3");
    config["attention_bias"] = false;
    config["use_sliding_window"] = false;
    config["sliding_window"] = nullptr;
    config["layer_types"] = std::vector<std::string>(static_cast<std::size_t>(c.layers), "full_attention");
  } else if (mixed || no_llama || (!positions.any() && !c.biases)) {
    set_class(config, "SmolLM3ForCausalLM", "smollm3");
    config["attention_bias"] = config["mlp_bias"] = false;
    std::vector<int> turned;
    std::vector<std::string> types;
    std::int64_t window = 0;
    for (std::size_t layer = 0; layer < positions.rotates.size(); ++layer) {
      const std::int64_t own = positions.windows[layer];
      turned.push_back(positions.rotates[layer] ? 1 : 0);
      types.emplace_back(own == 0 ? "full_attention" : "sliding_attention");
      if (own != 0 && window != 0 && own != window) {
        why = "layers with different windows";
        return false;
      }
      window = std::max(window, own);
    }
    config["no_rope_layers"] = turned;
    config["layer_types"] = types;
    config["use_sliding_window"] = window != 0;
    config["sliding_window"] = window != 0 ? Json(window) : Json();
    set_rope(config, positions.any() ? rope : Json{{"rope_type", "default"}, {"rope_theta", 10000.0}});
    return true;
  } else {
    set_class(config, "LlamaForCausalLM", "llama");
    config["attention_bias"] = config["mlp_bias"] = c.biases;
    config["pretraining_tp"] = 1;
  }
  set_rope(config, rope);
  return true;
}

/// Members of a stack, or the encoding itself.
std::vector<Json> members_of(const Json& encoding) {
  const auto whole = [](const Json& e) { return e.is_string() ? Json{{"kind", e}} : e; };
  if (!encoding.is_object() || !encoding.contains("stack")) return {whole(encoding)};
  std::vector<Json> members;
  for (const Json& member : encoding["stack"]) members.push_back(whole(member));
  return members;
}

/// Rotated pairs by layer and group of heads, and windows; a list of one where all layers are alike.
Json rotations_json(const PositionalEncoding& encoding, const ModelConfig& c, bool rotates) {
  const encodings::Span span = encodings::Span::whole(1, c.length);
  Json layers = Json::array();
  for (int layer = 0; layer < c.layers; ++layer) {
    Json entry = {{"window", encodings::window_of(encoding, layer)}};
    const auto pairs = rotates ? encoding.rotated_pairs(layer, span) : std::nullopt;
    if (pairs) {
      entry.update(
          {{"first", pairs->first}, {"second", pairs->second}, {"groups", pairs->groups()}, {"theta", pairs->theta}});
    }
    layers.push_back(entry);
  }
  if (std::all_of(layers.begin(), layers.end(), [&](const Json& l) { return l == layers[0]; }))
    return Json::array({layers[0]});
  return layers;
}

/// Kinds whose rotated pairs say all that they do, although not one table serves all layers and heads.
bool turns_by_pairs_alone(const std::string& kind, const Json& options) {
  return kind == "multiscale_rope" || kind == "lrope" || kind == "lerope" ||
         (kind == "local_global" && options.value("scale", "none") == "none");
}

/// A member for the code: every option with its value, angles realised. @throws ConfigError with the reason
Json member_for_code(const Json& given, const model::LanguageModel& model) {
  const ModelConfig& c = model.config();
  const std::string kind = given.value("kind", "");
  const auto no = [&](const std::string& why) {
    throw ConfigError(cat("this model has no form in transformers: encoding '", kind, "' ", why), {},
                      "doc/interop.md lists the encodings that can be exported");
  };
  const encodings::EncodingEntry* entry = encodings::find_encoding(kind);
  if (entry == nullptr) no("is not known");
  Json member = support::defaults(entry->fields);
  member.update(given);
  member["kind"] = entry->name;
  for (const char* length : {"train_length", "max_positions"}) {
    if (member.contains(length) && member[length].is_null()) member[length] = c.length;
  }
  const auto encoding = encodings::make_encoding(given, model.encoding().shape());
  const encodings::Span span = encodings::Span::whole(1, c.length);
  if (const auto* rotary = dynamic_cast<const encodings::Rotary*>(encoding.get());
      rotary != nullptr && entry->name != "pope") {
    const encodings::Facts facts = encoding->facts();
    const bool fixed = rotary->only_rotates() || turns_by_pairs_alone(entry->name, member);
    if (!fixed || facts.length_dependent || facts.content_dependent || facts.stochastic || facts.heads_per_query != 1 ||
        !acts_on_q_and_k_alone(*encoding, span)) {
      no("does more than rotate queries and keys by fixed angles");
    }
    const encodings::RotaryFrequencies frequencies = rotary->frequencies(span);
    if (frequencies.protected_positions != 0) no("has other angles for the first positions");
    // A new encoding has initial frequencies; the model's are trained.
    const bool alone = model.encoding().parameters().empty() || members_of(c.encoding.json).size() == 1;
    if (facts.learned && !alone) no("has trained frequencies in a stack");
    return {{"kind", "rotation"},
            {"of", entry->name},
            {"factor", frequencies.attention_factor},
            {"layers", rotations_json(facts.learned ? model.encoding() : *encoding, c, true)}};
  }
  if (!code_knows(entry->name)) no("has no code that is shipped");
  if (entry->name == "window" || entry->name == "pope")
    member["layers"] = rotations_json(*encoding, c, entry->name == "pope");
  if (entry->name == "alibi" && member["slopes"].empty()) member["slopes"] = encodings::alibi_slopes(c.heads);
  if (entry->name == "nape") {
    std::vector<double> slopes(static_cast<std::size_t>(c.heads));
    for (std::int64_t h = 0; h < c.heads / 2; ++h) {
      slopes[static_cast<std::size_t>(h)] =
          member["slopes"] == "exp" ? std::exp2(-static_cast<double>(h)) : 1.0 / static_cast<double>(h + 1);
    }
    member["slopes"] = slopes;
  }
  if (entry->name == "sinusoidal")
    member["theta"] = encodings::geometric_frequencies(member["base"].get<double>(), c.width);
  if (entry->name == "sinusoidal" || entry->name == "learned") {
    const std::string scale = member.value("pe_scale", "1");
    const auto number = support::parse_real(scale);
    if (scale == "matched") {
      const double size = entry->name == "sinusoidal" ? std::sqrt(0.5) : member.value("init_std", 0.02);
      member["scale"] = model.encoding().shape().token_std / size;
    } else {
      member["scale"] = number.value_or(1);
    }
  }
  if (entry->name == "learned" && member.value("overflow", "error") != "error" && member["overflow"] != "clamp") {
    no("gives positions beyond its table new rows");
  }
  if (entry->name == "inkling" && members_of(c.encoding.json).size() > 1 && member["floor_scale"] != 0) {
    no("has floor_scale in a stack");
  }
  return member;
}

void plan_code(const model::LanguageModel& model, ExportPlan& plan) {
  const ModelConfig& c = model.config();
  if (const std::string unknown = unknown_structure(c); !unknown.empty()) {
    throw ConfigError(
        cat("this model has no form in transformers: ", unknown), {},
        "the exported code knows pre- and post-norm decoders with RMSNorm or LayerNorm, and a causal mask");
  }
  plan.needs_code = true;
  set_class(plan.config, "PePipelineForCausalLM", "pe_pipeline");
  plan.config["auto_map"] = {{"AutoConfig", "modeling_pe_pipeline.PePipelineConfig"},
                             {"AutoModelForCausalLM", "modeling_pe_pipeline.PePipelineForCausalLM"}};
  plan.config["use_cache"] = false;
  plan.config["pe_model"] = model::to_json(c);
  Json members = Json::array();
  for (const Json& member : members_of(c.encoding.json)) members.push_back(member_for_code(member, model));
  plan.config["pe_members"] = members;
  Json parameters = Json::object();
  for (const model::Parameter& parameter : model.parameters()) {
    const std::string name = hf_name(parameter.name);
    if (name.rfind("model.encoding.", 0) == 0) parameters[name.substr(15)] = parameter.tensor.sizes().vec();
  }
  plan.config["pe_parameters"] = parameters;
}

}  // namespace

ExportPlan plan_export(const model::LanguageModel& model, std::int64_t longest, ExportForm form) {
  const ModelConfig& c = model.config();
  ExportPlan plan;
  plan.config = shape_json(c, longest > 0 ? longest : c.length);
  const auto plain = plain_positions(model, plan.why_code);
  plan.positions = {{"layers", rotations_json(model.encoding(), c, true)},
                    {"attention_factor", plain ? plain->frequencies.attention_factor : 1.0}};
  bool stock = plain.has_value();
  if (stock) {
    const std::string odd = odd_structure(c).empty() ? unknown_structure(c) : odd_structure(c);
    stock = odd.empty();
    if (!stock) plan.why_code = odd;
  }
  stock = stock && choose_stock(c, *plain, form, plan.config, plan.why_code);
  if (!stock) plan_code(model, plan);

  const bool untie = stock && c.tied && c.embed_scale != 1;  // stock classes multiply nothing
  if (untie) plan.config["tie_word_embeddings"] = false;
  for (const model::Parameter& parameter : model.parameters()) {
    ExportTensor tensor{
        .name = hf_name(parameter.name), .source = parameter.name, .shape = parameter.tensor.sizes().vec()};
    const auto ends = [&](const char* part) { return parameter.name.find(part) != std::string::npos; };
    if (stock && (ends(".attention.query") || ends(".attention.key")) &&
        !std::is_sorted(plain->channels.begin(), plain->channels.end())) {
      tensor.rows = plain->channels;
    }
    if (stock && parameter.name == "embedding") tensor.scale = c.embed_scale;
    if (stock && parameter.name.rfind("encoding.", 0) == 0) continue;  // realised in the frequencies
    plan.tensors.push_back(std::move(tensor));
    if (untie && parameter.name == "embedding") {
      plan.tensors.push_back(
          {.name = "lm_head.weight", .source = "embedding", .shape = parameter.tensor.sizes().vec()});
    }
  }
  return plan;
}

void exported_values(const ExportTensor& tensor, std::span<const float> values,
                     const std::function<void(std::span<const float>)>& sink) {
  constexpr std::size_t kPiece = 1u << 20;
  const std::size_t width = tensor.shape.size() > 1 ? static_cast<std::size_t>(tensor.shape[1]) : 1;
  const std::size_t rows = values.size() / std::max<std::size_t>(width, 1), step = kPiece / (width + 1) + 1;
  const std::size_t head = std::max<std::size_t>(tensor.rows.size(), 1);
  std::vector<float> piece;
  for (std::size_t begin = 0; begin < rows; begin += step) {
    piece.clear();
    for (std::size_t row = begin; row < std::min(begin + step, rows); ++row) {
      const std::size_t within = tensor.rows.empty() ? 0 : static_cast<std::size_t>(tensor.rows[row % head]);
      const std::span<const float> from = values.subspan((row / head * head + within) * width, width);
      piece.insert(piece.end(), from.begin(), from.end());
    }
    if (tensor.scale != 1) {
      for (float& value : piece) value = static_cast<float>(value * tensor.scale);
    }
    sink(piece);
  }
}

bool code_knows(const std::string& kind) {
  static constexpr std::string_view kKnown[] = {
      "none",       "window",         "alibi",      "nape",          "t5",           "kerple_log", "kerple_power",
      "sandwich",   "fire",           "cope",       "fox",           "pope",         "inkling",    "shaw",
      "ssmax",      "logn",           "head_scale", "uniform_scale", "length_scale", "sinusoidal", "learned",
      "sink_logit", "sink_off_by_one"};
  return std::find(std::begin(kKnown), std::end(kKnown), kind) != std::end(kKnown);
}

}  // namespace pe::interop

#include "interop/hf_import_plan.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "interop/hf_names.h"
#include "interop/rope_parameters.h"
#include "model/layout.h"
#include "support/error.h"
#include "support/escaped.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::interop {

using model::ModelConfig;
using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr std::int64_t kMost = 1 << 24;

/// Values that a class of transformers takes for keys that config.json lacks.
struct ClassDefaults {
  std::int64_t key_value_heads = 0;  ///< 0: as many as there are heads
  std::int64_t positions = 32768;
  std::int64_t window = 0;     ///< 0: none
  bool always_slides = false;  ///< there is no `use_sliding_window`
  bool tied = false;
};
const std::map<std::string, ClassDefaults> kClassDefaults = {
    {"llama", {.positions = 2048}},
    {"mistral", {.key_value_heads = 8, .positions = 131072, .window = 4096, .always_slides = true}},
    {"qwen2", {.key_value_heads = 32, .window = 4096}},
    {"qwen3", {.key_value_heads = 32, .window = 4096}},
    {"smollm3", {.key_value_heads = 4, .tied = true}},
};

class ConfigReader {
 public:
  ConfigReader(const Json& config, const std::string& where) : json_(config), where_(where) {}

  [[noreturn]] void fail(const std::string& what, const std::string& hint = {}) const {
    throw ArtifactError(cat(quote(where_), ": ", what), hint);
  }
  bool has(const char* name) const { return json_.contains(name); }
  const Json& at(const char* name) const {
    static const Json none;
    const auto found = json_.find(name);
    return found == json_.end() ? none : *found;
  }
  std::int64_t whole(const char* name, std::optional<std::int64_t> fallback = std::nullopt) const {
    const Json& value = at(name);
    if (value.is_null() && fallback) return *fallback;
    const bool fits = value.is_number_integer() && value.get<std::int64_t>() >= 1 && value.get<std::int64_t>() <= kMost;
    if (!fits) fail(cat(name, " is ", support::escaped(value.dump(), 60), ", expected a number from 1 to ", kMost));
    return value.get<std::int64_t>();
  }
  double real(const char* name, double fallback) const {
    const Json& value = at(name);
    if (value.is_null()) return fallback;
    if (!value.is_number()) fail(cat(name, " is ", support::escaped(value.dump(), 60), ", expected a number"));
    return value.get<double>();
  }
  bool truth(const char* name, bool fallback) const {
    const Json& value = at(name);
    if (value.is_null()) return fallback;
    if (!value.is_boolean()) fail(cat(name, " is ", support::escaped(value.dump(), 60), ", expected true or false"));
    return value.get<bool>();
  }
  std::string word(const char* name, const std::string& fallback) const {
    const Json& value = at(name);
    if (value.is_null()) return fallback;
    if (!value.is_string()) fail(cat(name, " is ", support::escaped(value.dump(), 60), ", expected a word"));
    return value.get<std::string>();
  }
  /// An option with one value that is supported. Any other value would be computed otherwise.
  void must_be(const char* name, const Json& expected) const {
    const Json& value = at(name);
    if (value.is_null() || value == expected) return;
    fail(cat(name, " is ", support::escaped(value.dump(), 60), "; only ", expected.dump(), " is supported"));
  }

 private:
  const Json& json_;
  const std::string& where_;
};

/// Rows of a head here by their number there, where there pairs are (c, c + d/2).
std::vector<std::int64_t> rows_for(encodings::PairLayout layout, std::int64_t head_width) {
  std::vector<std::int64_t> rows;
  if (layout == encodings::PairLayout::kHalf) return rows;
  for (std::int64_t pair = 0; pair < head_width / 2; ++pair) {
    rows.push_back(pair);
    rows.push_back(pair + head_width / 2);
  }
  return rows;
}

/// The window that a class has where it slides; 0: none.
std::int64_t size_of_window(const ConfigReader& in, const ClassDefaults& defaults) {
  if (!in.has("sliding_window")) return defaults.window;
  return in.at("sliding_window").is_null() ? 0 : in.whole("sliding_window");
}

/// The window of the layers that have one; 0: none. smollm3 follows its list of layers even where use_sliding_window is
/// false; other classes fail there, in transformers too.
std::int64_t window_of(const ConfigReader& in, const std::string& type) {
  const ClassDefaults& defaults = kClassDefaults.at(type);
  const Json& types = in.at("layer_types");
  const bool listed = types.is_array() && std::find(types.begin(), types.end(), "sliding_attention") != types.end();
  const bool slides = defaults.always_slides || in.truth("use_sliding_window", false) || (listed && type == "smollm3");
  const std::int64_t window = slides ? size_of_window(in, defaults) : 0;
  if (listed && window == 0 && !defaults.always_slides)
    in.fail(
        "layer_types names sliding_attention, and use_sliding_window or sliding_window says that there is no window");
  return window;
}

/// A pattern of layers without rotation, or with a window in the others, as local_global has it.
Json pattern_of(const ConfigReader& in, std::int64_t layers, double base, bool& any) {
  std::vector<std::int64_t> turned(static_cast<std::size_t>(layers), 1);
  if (const Json& given = in.at("no_rope_layers"); given.is_array()) {
    if (static_cast<std::int64_t>(given.size()) < layers) in.fail("no_rope_layers is shorter than the layers");
    for (std::size_t i = 0; i < turned.size(); ++i) {
      if (given[i] != 0 && given[i] != 1) in.fail("no_rope_layers holds other numbers than 0 and 1");
      turned[i] = given[i].get<std::int64_t>();
    }
  } else {
    const std::int64_t interval = in.whole("no_rope_layer_interval", 4);
    for (std::int64_t i = 0; i < layers; ++i) turned[static_cast<std::size_t>(i)] = (i + 1) % interval == 0 ? 0 : 1;
  }
  const Json& types = in.at("layer_types");
  const std::int64_t window = window_of(in, "smollm3");
  any = std::find(turned.begin(), turned.end(), 1) != turned.end();
  const bool all = std::find(turned.begin(), turned.end(), 0) == turned.end();
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    // Without a list, the class slides where it does not rotate.
    const bool named = types.is_array() ? at < types.size() && types[at] == "sliding_attention" : turned[at] == 0;
    const bool slides = named && window != 0;
    const bool local = turned[at] == 1 && !all;
    if (slides != (local && window != 0))
      in.fail("layer_types: only layers that rotate may have a window, and then all of them");
  }
  if (all) return {{"kind", "rope"}, {"base", base}};
  if (!any) return {{"kind", "none"}};
  for (std::int64_t interval = 2; interval <= layers; ++interval) {
    for (std::int64_t phase = 0; phase < interval; ++phase) {
      bool fits = true;
      for (std::int64_t i = 0; fits && i < layers; ++i)
        fits = (turned[static_cast<std::size_t>(i)] == 0) == (i % interval == phase);
      if (fits)
        return {{"kind", "local_global"}, {"base", base}, {"interval", interval}, {"phase", phase}, {"size", window}};
    }
  }
  in.fail("no_rope_layers: the layers without rotation do not come one in every few");
}

double epsilon_of(const ConfigReader& in, const char* name, double otherwise) {
  const double epsilon = in.real(name, otherwise);
  if (epsilon < 0) in.fail(cat(name, " is ", support::shortest(epsilon), ", expected 0 or more"));
  return epsilon;
}

void read_llama(const ConfigReader& in, const std::string& type, encodings::PairLayout layout, const std::string& where,
                const Json& json, ImportPlan& plan) {
  ModelConfig& c = plan.config;
  const ClassDefaults& defaults = kClassDefaults.at(type);
  c.width = in.whole("hidden_size");
  c.layers = in.whole("num_hidden_layers");
  c.heads = in.whole("num_attention_heads");
  const bool counted = in.has("num_key_value_heads") || defaults.key_value_heads == 0;
  c.key_value_heads = in.whole("num_key_value_heads", counted ? c.heads : defaults.key_value_heads);
  if (in.at("head_dim").is_null() && c.width % c.heads != 0) in.fail("num_attention_heads does not divide hidden_size");
  c.head_width = in.whole("head_dim", type == "qwen3" ? 128 : c.width / c.heads);
  if (c.heads % c.key_value_heads != 0) in.fail("num_key_value_heads does not divide num_attention_heads");
  c.feed_forward = in.whole("intermediate_size");
  c.vocabulary = in.whole("vocab_size");
  c.length = in.whole("max_position_embeddings", defaults.positions);
  c.tied = in.truth("tie_word_embeddings", defaults.tied);
  c.norm_eps = epsilon_of(in, "rms_norm_eps", 1e-6);
  c.init_std = in.real("initializer_range", 0.02);
  c.qk_norm = type == "qwen3";
  in.must_be("hidden_act", "silu");
  in.must_be("pretraining_tp", 1);
  in.must_be("quantization_config", nullptr);
  const bool may_slide = type != "llama" && type != "smollm3";
  if (const std::int64_t window = may_slide ? window_of(in, type) : 0; window != 0) {
    in.fail(cat("sliding_window is ", in.has("sliding_window") ? "" : "absent, so the class has ", window,
                "; a sliding window is not supported for this class"),
            "if the model was trained without one, set sliding_window to null in config.json");
  }
  plan.rope = rope_parameters_of(json, where);
  const double base = plan.rope.at("rope_theta").is_number() ? plan.rope.at("rope_theta").get<double>() : 0;
  if (type == "smollm3") {
    bool any = true;
    c.encoding.json = pattern_of(in, c.layers, base, any);
    if (!any) {
      plan.rope = nullptr;
      return;
    }
    if (c.encoding.json["kind"] == "local_global") in.must_be("rope_scaling", nullptr);
    if (c.encoding.json["kind"] == "rope") c.encoding.json = encoding_of_rope(plan.rope, c.length, where);
  } else {
    rope_frequencies(plan.rope, c.head_width, c.length, where);  // says what is wrong
    c.encoding.json = encoding_of_rope(plan.rope, c.length, where);
  }
  if (layout == encodings::PairLayout::kInterleaved) c.encoding.json["layout"] = "interleaved";
}

void read_gpt2(const ConfigReader& in, ImportPlan& plan) {
  ModelConfig& c = plan.config;
  c.width = in.whole("n_embd");
  c.layers = in.whole("n_layer");
  c.heads = in.whole("n_head");
  if (c.width % c.heads != 0) in.fail("n_head does not divide n_embd");
  c.key_value_heads = c.heads;
  c.head_width = c.width / c.heads;
  c.feed_forward = in.whole("n_inner", 4 * c.width);
  c.vocabulary = in.whole("vocab_size");
  c.length = in.whole("n_positions", 1024);
  c.tied = in.truth("tie_word_embeddings", true);
  c.norm = model::NormKind::kLayer;
  c.norm_eps = epsilon_of(in, "layer_norm_epsilon", 1e-5);
  c.init_std = in.real("initializer_range", 0.02);
  c.qk_norm = false;
  c.biases = true;
  in.must_be("scale_attn_weights", true);
  in.must_be("scale_attn_by_inverse_layer_idx", false);
  in.must_be("add_cross_attention", false);
  static const std::map<std::string, model::Activation> known = {{"gelu", model::Activation::kGelu},
                                                                 {"gelu_new", model::Activation::kGeluTanh},
                                                                 {"gelu_pytorch_tanh", model::Activation::kGeluTanh},
                                                                 {"relu", model::Activation::kRelu}};
  const std::string act = in.word("activation_function", "gelu_new");
  const auto found = known.find(act);
  if (found == known.end()) {
    in.fail(cat("activation_function is ", quote(support::escaped(act, 40)),
                "; known are gelu, gelu_new, gelu_pytorch_tanh and relu"));
  }
  c.activation = found->second;
  c.encoding.json = {{"kind", "learned"}, {"max_positions", c.length}};
}

/// Finds a source for every parameter and notes which tensors were used.
class Matcher {
 public:
  Matcher(const WeightFiles& weights, ImportPlan& plan) : weights_(weights), plan_(plan) {
    for (const std::string& name : weights.names())
      if (name.ends_with(".bias")) biases_.insert(part_of(name));
  }

  void add(ImportTensor tensor) {
    std::vector<std::int64_t> there = tensor.shape;
    if (tensor.rows_there != 0) there[0] = tensor.rows_there;
    if (tensor.transposed) std::reverse(there.begin(), there.end());
    const SafetensorsEntry* entry = weights_.find(tensor.source);
    if (entry == nullptr) {
      // Some classes have biases in some parts; a part has them in all layers or in none.
      const bool may_lack = plan_.architecture != "gpt2" && plan_.architecture != "pe_pipeline";
      if (!may_lack || !tensor.name.ends_with(".bias") || biases_.contains(part_of(tensor.source)))
        throw ArtifactError(
            cat(quote(weights_.where()), ": has no tensor ", quote(tensor.source), ", for ", tensor.name));
      tensor.source.clear();
    } else {
      if (entry->shape != there) {
        throw ArtifactError(cat(quote(weights_.where()), ": tensor ", quote(tensor.source), " is ",
                                support::bracketed(entry->shape), "; by the config it is ", support::bracketed(there)));
      }
      used_.insert(tensor.source);
    }
    plan_.tensors.push_back(std::move(tensor));
  }

  /// Names that may stay unused: tables that are made again, and a head that is the embedding.
  void finish(const std::function<bool(const std::string&)>& may_stay) const {
    for (const std::string& name : weights_.names()) {
      if (used_.contains(name) || name.ends_with(".rotary_emb.inv_freq") || may_stay(name)) continue;
      throw ArtifactError(cat(quote(weights_.where()), ": tensor ", quote(support::escaped(name, 200)),
                              " has no place in the model that config.json describes"));
    }
  }

 private:
  /// A name without the number of its layer and all before it.
  static std::string part_of(const std::string& name) { return name.substr(name.find_last_of("0123456789") + 1); }

  const WeightFiles& weights_;
  ImportPlan& plan_;
  std::set<std::string> used_, biases_;
};

/// A head that is stored although it is the embedding must be equal to it.
bool is_copy_of_embedding(const WeightFiles& weights, const std::string& head, const std::string& embedding) {
  if (weights.read(head) == weights.read(embedding)) return true;
  throw ArtifactError(
      cat(quote(weights.where()), ": ", head, " differs from ", embedding, ", but config.json ties them"));
}

void match_llama(const WeightFiles& weights, encodings::PairLayout layout, ImportPlan& plan) {
  const ModelConfig& c = plan.config;
  Matcher matcher(weights, plan);
  const bool code = plan.architecture == "pe_pipeline";
  for (const model::PlannedParameter& parameter : model::plan_parameters(c)) {
    ImportTensor tensor{.name = parameter.name, .source = hf_name(parameter.name), .shape = parameter.shape};
    const bool of_pairs = parameter.name.find(".attention.query") != std::string::npos ||
                          parameter.name.find(".attention.key") != std::string::npos;
    if (of_pairs && !code) tensor.rows = rows_for(layout, c.d_h());
    matcher.add(std::move(tensor));
  }
  if (code) {  // parameters of the encoding have the shapes that the model made of the config gives them
    for (const std::string& name : weights.names()) {
      if (name.rfind("model.encoding.", 0) == 0)
        matcher.add({.name = name, .source = name, .shape = weights.find(name)->shape});
    }
  }
  matcher.finish([&](const std::string& name) {
    return name == "lm_head.weight" && c.tied && is_copy_of_embedding(weights, name, "model.embed_tokens.weight");
  });
}

void match_gpt2(const WeightFiles& weights, ImportPlan& plan) {
  const ModelConfig& c = plan.config;
  const std::string root = weights.find("transformer.wte.weight") != nullptr ? "transformer." : "";
  Matcher matcher(weights, plan);
  const std::int64_t d = c.width;
  const std::map<std::string, std::string> in_layer = {
      {"attention.norm", "ln_1"},         {"attention.query", "attn.c_attn"},  {"attention.key", "attn.c_attn"},
      {"attention.value", "attn.c_attn"}, {"attention.output", "attn.c_proj"}, {"feed_forward.norm", "ln_2"},
      {"feed_forward.up", "mlp.c_fc"},    {"feed_forward.down", "mlp.c_proj"}};
  for (const model::PlannedParameter& parameter : model::plan_parameters(c)) {
    ImportTensor tensor{.name = parameter.name, .shape = parameter.shape};
    std::string stem = parameter.name;
    const bool bias = stem.ends_with(".bias");
    if (bias) stem.erase(stem.size() - 5);
    const std::string ending = bias ? ".bias" : ".weight";
    if (stem == "embedding") {
      tensor.source = root + "wte.weight";
    } else if (stem == "head") {
      tensor.source = "lm_head.weight";
    } else if (stem == "norm") {
      tensor.source = root + "ln_f" + ending;
    } else {
      const std::size_t dot = stem.find('.', 7);
      const std::string part = stem.substr(dot + 1);
      tensor.source = cat(root, "h.", stem.substr(7, dot - 7), ".", in_layer.at(part), ending);
      tensor.transposed = !bias && parameter.shape.size() == 2;
      if (in_layer.at(part) == "attn.c_attn") {
        tensor.rows_there = 3 * d;
        tensor.first = part == "attention.query" ? 0 : part == "attention.key" ? d : 2 * d;
      }
    }
    matcher.add(std::move(tensor));
  }
  matcher.add({.name = "encoding.learned.table", .source = root + "wpe.weight", .shape = {c.length, d}});
  matcher.finish([&](const std::string& name) {
    if (name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias")) return true;  // masks
    return name == "lm_head.weight" && c.tied && is_copy_of_embedding(weights, name, root + "wte.weight");
  });
}

/// @return whether projections have biases. A bias that the class leaves out would make another model here.
bool has_biases(const ConfigReader& in, const std::string& type, const WeightFiles& weights) {
  bool any = false;
  for (const std::string& name : weights.names()) {
    if (!name.ends_with("_proj.bias")) continue;
    any = any || name.starts_with("model.layers.0.");
    const bool of_attention = name.find(".self_attn.") != std::string::npos;
    if (type == "qwen2" && of_attention && !name.ends_with(".o_proj.bias")) continue;  // always there
    if (type == "qwen2" || type == "mistral" || (type == "qwen3" && !of_attention))
      in.fail(cat("its class has no bias for tensor ", quote(support::escaped(name, 200))));
    const char* const flag = of_attention ? "attention_bias" : "mlp_bias";
    if (!in.truth(flag, false)) {
      in.fail(cat(flag, " is ", in.has(flag) ? "false" : "absent", ", so the class leaves out tensor ",
                  quote(support::escaped(name, 200))),
              cat("if the model was trained with these biases, set ", flag, " to true in config.json"));
    }
  }
  return any;
}

}  // namespace

ImportPlan plan_import(const Json& config, const WeightFiles& weights, encodings::PairLayout layout,
                       const std::string& where) {
  if (!config.is_object()) throw ArtifactError(cat(quote(where), ": expected an object, found something else"));
  const ConfigReader in(config, where);
  ImportPlan plan;
  plan.architecture = in.word("model_type", "");
  static const std::vector<std::string> known = {"llama",   "mistral", "qwen2",      "qwen3",
                                                 "smollm3", "gpt2",    "pe_pipeline"};
  if (std::find(known.begin(), known.end(), plan.architecture) == known.end()) {
    in.fail(cat("model_type is ", quote(support::escaped(plan.architecture, 60))),
            support::suggestion(plan.architecture, known));
  }
  const auto check = [&] {  // sizes without bounds would fill memory with names alone
    const std::int64_t length = plan.config.length;
    plan.config = model::config_from_json(model::to_json(plan.config), where);
    plan.config.length = length;
    const std::size_t tensors = weights.names().size();
    if (static_cast<std::size_t>(plan.config.layers) > tensors) {
      in.fail(cat("it describes ", plan.config.layers, " layers, and there are ", tensors, " tensors"));
    }
  };
  if (plan.architecture == "gpt2") {
    read_gpt2(in, plan);
    check();
    match_gpt2(weights, plan);
    return plan;
  }
  if (plan.architecture == "pe_pipeline") {
    plan.config = model::config_from_json(in.at("pe_model"), where);
    check();
  } else {
    read_llama(in, plan.architecture, layout, where, config, plan);
    check();
    plan.config.biases = has_biases(in, plan.architecture, weights);
  }
  match_llama(weights, layout, plan);
  return plan;
}

std::vector<float> imported_values(const ImportTensor& tensor, const WeightFiles& weights) {
  std::size_t count = 1;
  for (const std::int64_t size : tensor.shape) count *= static_cast<std::size_t>(size);
  if (tensor.source.empty()) return std::vector<float>(count);
  std::vector<float> there = weights.read(tensor.source);
  const auto columns = tensor.shape.size() > 1 ? static_cast<std::size_t>(tensor.shape[1]) : std::size_t{1};
  const std::size_t rows = there.size() / std::max<std::size_t>(columns, 1);
  if (tensor.transposed) {
    std::vector<float> turned(there.size());
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t column = 0; column < columns; ++column)
        turned[row * columns + column] = there[column * rows + row];
    }
    there = std::move(turned);
  }
  std::vector<float> here(count);
  const auto first = static_cast<std::size_t>(tensor.first);
  const std::size_t head = tensor.rows.empty() ? 1 : tensor.rows.size();
  for (std::size_t row = 0; row < count / columns; ++row) {
    const std::size_t within = tensor.rows.empty() ? 0 : static_cast<std::size_t>(tensor.rows[row % head]);
    const std::size_t from = first + row / head * head + within;
    std::copy_n(there.begin() + static_cast<std::ptrdiff_t>(from * columns), columns,
                here.begin() + static_cast<std::ptrdiff_t>(row * columns));
  }
  return here;
}

}  // namespace pe::interop

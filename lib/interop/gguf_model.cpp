#include "interop/gguf_model.h"

#include <algorithm>
#include <cmath>

#include "interop/gguf.h"
#include "interop/gguf_export.h"
#include "interop/gguf_plan.h"
#include "interop/hf_folder.h"
#include "interop/hf_import_plan.h"
#include "support/error.h"
#include "support/escaped.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::interop {

using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

/// Numbers of tensor rope_freqs.weight, which is no parameter; empty: there is none.
std::vector<float> take_divisors(GgufHeader& header, std::string_view file) {
  const auto found = std::find_if(header.tensors.begin(), header.tensors.end(),
                                  [](const SafetensorsEntry& tensor) { return tensor.name == "rope_freqs.weight"; });
  if (found == header.tensors.end()) return {};
  std::vector<float> numbers =
      to_floats(found->dtype, file.substr(found->begin, found->end - found->begin), found->name);
  header.tensors.erase(found);
  return numbers;
}

class Values {
 public:
  Values(const GgufHeader& header, const std::string& where) : values_(header.values), where_(where) {
    architecture = text("general.architecture", "");
    if (architecture != "llama" && architecture != "qwen3")
      fail(cat("general.architecture is ", quote(support::escaped(architecture, 60)), ", expected llama or qwen3"));
  }
  [[noreturn]] void fail(const std::string& what) const { throw ArtifactError(cat(quote(where_), ": ", what)); }

  std::string text(const std::string& name, const std::string& fallback) const {
    return get<std::string>(name, &fallback, "a text");
  }
  std::int64_t whole(const std::string& name, const std::int64_t* fallback = nullptr) const {
    return get<std::int64_t>(architecture + "." + name, fallback, "a whole number");
  }
  double real(const std::string& name, double fallback) const {
    return get<double>(architecture + "." + name, &fallback, "a real number");
  }

  std::string architecture;

 private:
  template <typename Kind>
  Kind get(const std::string& name, const Kind* fallback, const char* expected) const {
    const auto found = values_.find(name);
    if (found == values_.end() && fallback != nullptr) return *fallback;
    if (found == values_.end()) fail(cat("has no value ", name));
    const Kind* value = std::get_if<Kind>(&found->second);
    if (value == nullptr) fail(cat(name, " is not ", expected));
    return *value;
  }

  const GgufValues& values_;
  const std::string& where_;
};

/// Rotation as Hugging Face spells it. llama.cpp's linear scaling divides each angle by one number.
Json rope_of(const Values& in, std::vector<float> divisors, std::int64_t context, std::int64_t head_width) {
  const double base = in.real("rope.freq_base", 10000), attention = in.real("rope.scaling.attn_factor", 1);
  const double stated = in.real("rope.scaling.factor", 1), factor = stated == 0 ? 1 : stated;
  const std::string type = in.text(in.architecture + ".rope.scaling.type", "linear");
  Json made = {{"rope_theta", base}, {"factor", factor}, {"attention_factor", attention}};
  if (type == "yarn") {
    made["rope_type"] = "yarn";
    made["attention_factor"] = attention * (factor <= 1 ? 1 : 0.1 * std::log(factor) + 1);
    made["original_max_position_embeddings"] = in.whole("rope.scaling.original_context_length", &context);
    return made;
  }
  if (type != "linear" && type != "none")
    in.fail(cat("rope.scaling.type '", support::escaped(type, 40), "' is not supported"));
  if (divisors.empty()) divisors.assign(static_cast<std::size_t>(head_width / 2), 1.0F);
  for (float& divisor : divisors) divisor *= type == "linear" ? static_cast<float>(factor) : 1.0F;
  made.update({{"rope_type", "longrope"},
               {"factor", 1.0},
               {"original_max_position_embeddings", context},
               {"short_factor", divisors},
               {"long_factor", divisors}});
  return made;
}

/// Values and tensors as the config.json of Hugging Face's class of the same architecture.
Json config_of(const Values& in, const WeightFiles& weights, std::vector<float> divisors) {
  const SafetensorsEntry* embedding = weights.find("model.embed_tokens.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) in.fail("has no table token_embd.weight");
  const std::int64_t width = in.whole("embedding_length"), heads = in.whole("attention.head_count");
  if (width < 1 || heads < 1) in.fail("embedding_length or attention.head_count is below 1");
  const std::int64_t plain = width / heads, head_width = in.whole("attention.key_length", &plain);
  const std::int64_t context = in.whole("context_length");
  if (in.whole("attention.value_length", &head_width) != head_width ||
      in.whole("rope.dimension_count", &head_width) != head_width || head_width < 2 || head_width > width * heads)
    in.fail("key_length, value_length and rope.dimension_count are not one number");
  return {{"model_type", in.architecture},
          {"vocab_size", embedding->shape[0]},
          {"hidden_size", width},
          {"intermediate_size", in.whole("feed_forward_length")},
          {"num_hidden_layers", in.whole("block_count")},
          {"num_attention_heads", heads},
          {"num_key_value_heads", in.whole("attention.head_count_kv", &heads)},
          {"head_dim", head_width},
          {"rms_norm_eps", in.real("attention.layer_norm_rms_epsilon", 1e-6)},
          {"max_position_embeddings", context},
          {"tie_word_embeddings", weights.find("lm_head.weight") == nullptr},
          {"attention_bias", true},  // llama.cpp adds the biases that are there
          {"mlp_bias", true},
          {"rope_parameters", rope_of(in, std::move(divisors), context, head_width)}};
}

}  // namespace

GgufModel read_gguf_model(const std::filesystem::path& path) {
  const std::string where = path.string();
  support::MappedFile file(path);
  GgufHeader header = parse_gguf(file.view(), where);
  const Values in(header, where);
  const std::vector<float> divisors = take_divisors(header, file.view());
  for (SafetensorsEntry& tensor : header.tensors) {
    std::string name = hf_name_of_gguf(tensor.name);
    if (name.empty()) in.fail(cat("tensor ", quote(support::escaped(tensor.name, 200)), " has no place in the model"));
    tensor.name = std::move(name);
  }
  const WeightFiles weights(std::move(file), std::move(header.tensors), where);
  const bool neighbours = in.architecture == "llama";  // turned pairs are (2i, 2i+1), as they are stored
  ImportPlan plan = plan_import(config_of(in, weights, divisors), weights,
                                neighbours ? encodings::PairLayout::kInterleaved : encodings::PairLayout::kHalf, where);
  for (ImportTensor& tensor : plan.tensors) tensor.rows.clear();
  model::LanguageModel model = model_of_plan(plan, weights, where);
  const std::string text = in.text(kGgufManifest, "");
  return {std::move(model), text.empty() ? Json() : support::parse_json(text, support::kForeignJson)};
}

}  // namespace pe::interop

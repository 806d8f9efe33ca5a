#include "interop/hf_names.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace pe::interop {

namespace {

constexpr std::pair<std::string_view, std::string_view> kInLayer[] = {
    {"attention.norm", "input_layernorm"},
    {"attention.query", "self_attn.q_proj"},
    {"attention.key", "self_attn.k_proj"},
    {"attention.value", "self_attn.v_proj"},
    {"attention.query_norm", "self_attn.q_norm"},
    {"attention.key_norm", "self_attn.k_norm"},
    {"attention.gate", "self_attn.gate_proj"},
    {"attention.output", "self_attn.o_proj"},
    {"feed_forward.norm", "post_attention_layernorm"},
    {"feed_forward.gate", "mlp.gate_proj"},
    {"feed_forward.up", "mlp.up_proj"},
    {"feed_forward.down", "mlp.down_proj"},
};

}  // namespace

std::string hf_name(const std::string& ours) {
  std::string_view stem = ours;
  std::string_view ending = ".weight";
  if (stem.ends_with(".bias")) {
    stem.remove_suffix(5);
    ending = ".bias";
  }
  if (stem.starts_with("encoding.")) {
    std::string name(ours.substr(9));
    std::replace(name.begin(), name.end(), '.', '_');
    return "model.encoding." + name;
  }
  if (stem == "embedding") return "model.embed_tokens.weight";
  if (stem == "norm") return "model.norm" + std::string(ending);
  if (stem == "head") return "lm_head" + std::string(ending);
  // layers.N.rest
  const std::size_t dot = stem.find('.', 7);
  const std::string_view rest = stem.substr(dot + 1);
  for (const auto& [our_part, their_part] : kInLayer) {
    if (rest == our_part)
      return "model." + std::string(stem.substr(0, dot + 1)) + std::string(their_part) + std::string(ending);
  }
  return "model." + ours;
}

}  // namespace pe::interop

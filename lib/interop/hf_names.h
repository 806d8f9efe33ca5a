/// @file
/// Names of parameters: ours (model/layout.h) become the names of Hugging Face's Llama and its relatives.
#pragma once

#include <string>

namespace pe::interop {

/// "layers.3.attention.query" → "model.layers.3.self_attn.q_proj.weight"; "encoding.fire.0.w1" →
/// "model.encoding.fire_0_w1".
std::string hf_name(const std::string& ours);

}  // namespace pe::interop

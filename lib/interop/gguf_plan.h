/// @file
/// A plan for transformers as one for llama.cpp: architecture llama without QK-norm, qwen3 with it. Nothing is written
/// here.
#pragma once

#include <string>
#include <vector>

#include "interop/gguf.h"
#include "interop/hf_export_plan.h"

namespace pe::interop {

struct GgufPlan {
  std::string architecture;
  GgufValues values;                  ///< of the model; gguf_tokenizer.h has the others
  std::vector<ExportTensor> tensors;  ///< names and rows as llama.cpp has them
  std::vector<float> divisors;        ///< of the angles of pairs, tensor rope_freqs.weight; empty: none
};

/// @throws ConfigError with the reason where llama.cpp has nothing that computes the same
GgufPlan plan_gguf(const ExportPlan& plan);

/// "model.layers.3.self_attn.q_proj.weight" ↔ "blk.3.attn_q.weight"; empty where there is no such name.
std::string gguf_name(const std::string& hf);
std::string hf_name_of_gguf(const std::string& gguf);

}  // namespace pe::interop

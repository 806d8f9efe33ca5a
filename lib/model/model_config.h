/// @file
/// The shape of a model: by default a LLaMA-style decoder (pre-norm RMSNorm, SwiGLU, no biases) whose every choice is a
/// field. Sizes by name are config files (`configs/model/*.yml`) that set these fields.
#pragma once

#include <cstdint>
#include <string>

#include "support/config.h"
#include "support/json.h"

namespace pe::model {

enum class QkNormOver { kHead, kWidth };
enum class NormKind { kRms, kLayer };
enum class NormPlacement { kPre, kPost };
enum class Activation { kSwiglu, kRelu, kGelu, kGeluTanh };
enum class Mask { kCausal, kBidirectional };
enum class Init { kNormal, kFanIn, kGlorot };
/// Gate of the output of a head: one number per head, or one per channel, by a sigmoid of the attention's input.
enum class Gate { kNone, kHeadwise, kElementwise };

/// Short causal convolutions of each channel for itself (Allen-Zhu 2025, arXiv:2512.17351).
struct CanonOptions {
  enum class Activation { kNone, kSilu };
  /// Letters of where: A before attention, B on queries, keys and values, C before the feed-forward, D inside it.
  std::string set;
  std::int64_t kernel = 4;  ///< K, tokens, the own one among them
  bool residual = true;     ///< x + the convolution; else the convolution alone
  Activation activation = Activation::kNone;
  bool bias = false;

  void describe(support::FieldVisitor& v);
  bool has(char where) const { return set.find(where) != std::string::npos; }
};

struct ModelConfig {
  std::int64_t width = 512;  ///< d_m
  std::int64_t layers = 6;
  std::int64_t heads = 8;            ///< H, query heads
  std::int64_t key_value_heads = 0;  ///< G; 0: as many as heads
  std::int64_t head_width = 0;       ///< d_h; 0: width / heads
  std::int64_t feed_forward = 0;     ///< inner width of SwiGLU; 0: 4 · width
  std::int64_t vocabulary = 0;       ///< V; 0: vocabulary of the data.
  bool tied = true;                  ///< the output head is the embedding
  bool qk_norm = true;               ///< RMSNorm per head on queries and keys, before any rotation.
  /// Over each head with one weight [d_h], or over all heads together, before they are split, with [H·d_h] and [G·d_h].
  QkNormOver qk_norm_over = QkNormOver::kHead;
  double norm_eps = 1e-6;
  double init_std = 0.02;
  bool scale_residual_init = true;  ///< Output projections are drawn with init_std / sqrt(2 · layers).
  double embed_scale = 1.0;         ///< multiplies token embeddings
  double logit_softcap = 0;         ///< c: logits are c · tanh(logit / c); 0: no cap.
  /// Share of the embeddings and of each half block's output that training sets to 0; the rest grows by 1 / (1 − p).
  double dropout = 0;
  bool dropout_embeddings = true;  ///< false: only outputs of half blocks
  NormKind norm = NormKind::kRms;
  /// kPre: x + f(norm(x)), and a norm after the last block; kPost: norm(x + f(x)).
  NormPlacement norm_placement = NormPlacement::kPre;
  Activation activation = Activation::kSwiglu;
  bool biases = false;  ///< of the blocks' projections, and of layer norms
  bool head_bias = false;
  Mask mask = Mask::kCausal;
  /// Attention runs over the rows of the batch, for each position apart, as in a network whose attention takes its
  /// first axis for the sequence. Tokens of one row never see each other.
  bool attend_over_batch = false;
  /// A block is its attention alone: no residual sum, no norm, no feed-forward.
  bool bare_attention = false;
  /// kNormal: normals of init_std. kFanIn: matrices and biases uniform within ±1/√inputs. kGlorot: the same, but
  /// queries, keys and values are one matrix within ±√(6/(inputs + outputs)). Its attention has no biases at the start.
  Init init = Init::kNormal;
  double embedding_std = 0;  ///< of initial token embeddings; 0: init_std
  CanonOptions canon;
  Gate gate = Gate::kNone;
  support::VariantValue encoding{"rope"};

  /// T, the training context. No field of this group: a stage sets it from `train.length`, an artifact holds it.
  std::int64_t length = 0;

  void describe(support::FieldVisitor& v);

  /// Heads of the projection of queries: `heads`, or a part of them where the encoding makes several heads of each.
  std::int64_t query_heads() const;
  std::int64_t kv_heads() const { return key_value_heads == 0 ? query_heads() : key_value_heads; }
  std::int64_t d_h() const { return head_width == 0 ? width / heads : head_width; }
  std::int64_t query_norm_width() const { return qk_norm_over == QkNormOver::kHead ? d_h() : query_heads() * d_h(); }
  std::int64_t key_norm_width() const { return qk_norm_over == QkNormOver::kHead ? d_h() : kv_heads() * d_h(); }
  std::int64_t d_ff() const { return feed_forward == 0 ? 4 * width : feed_forward; }
  double token_std() const { return embedding_std == 0 ? init_std : embedding_std; }
  /// Is there a norm between the last block and the head? Blocks that end with one, or have none, need none.
  bool final_norm() const { return norm_placement == NormPlacement::kPre && !bare_attention; }

  bool operator==(const ModelConfig& other) const;
};

/// As artifacts hold it: every field of the group, plus "length", with `vocabulary` resolved.
Json to_json(const ModelConfig& config);

/// The inverse. @throws ArtifactError naming `where` when a field is missing, of another type or out of range.
ModelConfig config_from_json(const Json& json, const std::string& where);

/// Why a model with this encoding needs a causal mask, and the settings that fit.
std::string why_mask_does_not_fit(const std::string& encoding);
inline constexpr const char* kMaskHint =
    "set model.mask: causal, or take an encoding that works either way: none, absolute and most rotary ones";

/// Parameters of the model without its encoding. `vocabulary` must be resolved. For the default structure it is
///     V·d (twice when untied) + L·(d·d_h·(2H + 2G) + 3·d·d_ff + 2·d + 2·d_h when qk_norm) + d
/// where the encoding makes one head of each query head. qk_norm over the width has (H + G)·d_h instead of 2·d_h.
std::int64_t parameter_count(const ModelConfig& config);

/// Floating-point operations of forward and backward for one token of a sequence of `length` (PaLM convention). It is 6
/// per weight of every matrix including the head, without embeddings, and 12 · layers · H · d_h · length for attention.
double flops_per_token(const ModelConfig& config, std::int64_t length);

}  // namespace pe::model

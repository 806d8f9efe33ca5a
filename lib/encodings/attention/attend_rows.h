/// @file
/// Parts of the dispatcher that its routes share; for encodings/attend*.cpp alone.
#pragma once

#include <ATen/core/ivalue.h>

#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "encodings/attention/attend.h"
#include "encodings/attention/fused_bias.h"
#include "encodings/attention/products.h"

namespace pe::encodings {

inline constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

/// The first key row that each row sees, of its document or of its window: [S] or [B,S] int64; undefined: row 0.
Tensor first_keys(const LayerContext& context);

/// The causal and the document mask, and the window: bool [1 or B, 1, rows, keys].
Tensor visible_keys(const LayerContext& context, std::int64_t begin, std::int64_t end, std::int64_t keys);

/// [B,G,…] → [B,H,…]: keys and values as query heads see them.
Tensor repeat_groups(const Tensor& t, std::int64_t heads);

/// All that the row stages read, in the order in which gradients are returned.
struct RowSource {
  Tensor q, k, v, raw_q, raw_k, extra;  // the last three may be undefined
  std::vector<Tensor> inputs;
};

/// @param masked  false: `Rows::visible` stays undefined
Rows make_rows(const LayerContext& context, const RowSource& source, double scale, std::int64_t begin, std::int64_t end,
               bool masked = true);

/// Keys before this one are in none of the rows' windows.
std::int64_t first_seen(const Rows& rows);

/// Of a tensor with a column for each key of the rows, those from `first` on.
Tensor from_key(const Tensor& t, std::int64_t first);

/// The kernels want q, k and v of one width; zeros at the end change nothing.
Tensor padded_to(const Tensor& t, std::int64_t width);

/// The backend that LibTorch would take for these, as at::SDPBackend counts.
std::int64_t attention_backend(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask,
                               bool causal, double scale);
/// "flash", "memory-efficient", "cuDNN", "plain".
std::string backend_name(std::int64_t backend);
/// @throws ConfigError where LibTorch would fall back to its plain form on a GPU, and `compute.kernels` does not ask
/// for plain ones. float64 has no other. @throws Error (a bug) where it would take cuDNN's, which is not deterministic,
/// although it must be.
void require_fused_backend(std::int64_t backend, const Tensor& q, bool masked);

/// A fused kernel of LibTorch. @param causal top-left aligned, so as many queries as keys.
Tensor fused(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool causal,
             double scale);

/// AttendOptions::chunk_rows, or the number that 0 means.
std::int64_t most_rows(const Span& span, std::int64_t chunk_rows);

/// Rows at a time, at most `most_rows`, whose tensors fit a budget. It is half a gibibyte on a CPU, and on a GPU a
/// power of two between a 32nd and a 16th of its memory.
std::int64_t rows_at_a_time(const Span& span, std::int64_t heads, const Traits& traits, std::int64_t chunk_rows);

/// Ranges of `chunk` query rows, whose memory grows with the keys that they see.
struct Strips {
  std::int64_t queries = 0, chunk = 0;
  bool in_order = false;   ///< each needs a result of the one before
  bool give_back = false;  ///< free memory goes back to the system now and then, where order leaves holes
};

/// body(index, begin, end) for each. The widest is first where the order is free: its freed memory has room for all
/// that follow. Growing strips fit into no freed memory, and leave several times their memory in holes.
void for_each_strip(const Strips& strips,
                    const std::function<void(std::int64_t index, std::int64_t begin, std::int64_t end)>& body);

/// The outputs of strips, put together.
Tensor joined(const std::vector<Tensor>& strips);

/// Is a strip so large that holes are worth a search for them? Training takes the returned memory again in the next
/// step.
bool worth_returning_memory(const RowSource& source, std::int64_t chunk);

/// Data for the backward pass to run rows again. The state is a copy: the pass that made it may be over by then.
struct Job : torch::CustomClassHolder {
  Job(PositionalEncoding& encoding, const LayerContext& from, const Traits& traits, double scale, std::int64_t chunk);

  PositionalEncoding& encoding;
  State state;
  Traits traits;
  double scale;
  std::int64_t chunk;
  LayerContext context;
  std::vector<std::size_t> slots;
  bool by_network = false;      // rows are FusedKind::kNetwork's
  std::vector<Tensor> carries;  // before each chunk, where rows are coupled
};

inline constexpr std::size_t kFixedSlots = 6;  // q, k, v, raw q, raw k, extra; then the inputs

/// Autograd is given the defined tensors alone; `slots` has the meaning of each.
RowSource unpack(at::TensorList tensors, const std::vector<std::size_t>& slots);

/// Does `attend_causal` have a kernel for heads of that width, one that is worth it?
/// @param plain neither a bias nor a sink.
bool has_causal_kernel(const Span& span, at::ScalarType type, bool plain, std::int64_t width);

/// Has the plug-in a kernel for a fused bias?
bool has_fused_bias_kernel(const Span& span, at::ScalarType type, std::int64_t width);

/// The plug-in's kernel has one width for all.
bool takes_widths(const Tensor& q, const Tensor& v);

struct Causal {
  Tensor out;   ///< [B,H,T,d_v]
  Tensor kept;  ///< [B,H,T,1]: the weight of each row that the sink leaves; undefined without a sink
};

/// Causal softmax by these kernels, with gradients.
/// @param table [H,S] or undefined. @param bias used instead of a table if `has_fused_bias_kernel`.
/// @param starts of `first_keys`.
/// @param sink [H], [B,H,T] or undefined: a logit of value 0 in each row.
Causal attend_causal(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& table, const FusedBias& bias,
                     const Tensor& starts, double scale, const Tensor& sink);

/// Softmax, with a bias or a sink or both, whose gradient is written out. The forward pass takes the fused kernel of
/// the CPU where there is one. The backward pass computes weights again, a range of rows at a time.
Tensor attend_softmax(c10::intrusive_ptr<Job> job, at::TensorList tensors);

}  // namespace pe::encodings

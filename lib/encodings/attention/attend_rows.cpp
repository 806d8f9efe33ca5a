#include "encodings/attention/attend_rows.h"

#include <ATen/Context.h>
#include <ATen/SDPBackend.h>
#include <ATen/ops/_fused_sdp_choice.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <malloc.h>

#include <algorithm>
#include <bit>

#include "encodings/attention/attention_window.h"
#include "kernels/dispatch.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::encodings {

Tensor first_keys(const LayerContext& context) {
  const Span& span = context.span;
  const std::int64_t window = window_of(context);
  if (window == 0) return span.doc_start;
  const Tensor first =
      (at::arange(span.keys, at::TensorOptions(at::kLong).device(span.device)) - (window - 1)).clamp_min(0);
  return span.doc_start.defined() ? at::maximum(first, span.doc_start) : first;
}

Tensor visible_keys(const LayerContext& context, std::int64_t begin, std::int64_t end, std::int64_t keys) {
  const Span& span = context.span;
  const at::TensorOptions options = at::TensorOptions(at::kLong).device(span.device);
  const std::int64_t offset = span.keys - span.queries;
  if (!span.causal) {
    if (!span.doc_start.defined()) return at::ones({1, 1, end - begin, keys}, options.dtype(at::kBool));
    const Tensor of_rows = span.doc_start.narrow(-1, offset + begin, end - begin).unsqueeze(-1);
    const Tensor same = of_rows.eq(span.doc_start.narrow(-1, 0, keys).unsqueeze(-2));  // [rows,keys] or [B,rows,keys]
    return same.dim() == 3 ? same.unsqueeze(1) : same.unsqueeze(0).unsqueeze(0);
  }
  const Tensor columns = at::arange(keys, options);
  const Tensor rows = at::arange(offset + begin, offset + end, options).unsqueeze(1);
  Tensor visible = columns.le(rows).unsqueeze(0).unsqueeze(0);
  const Tensor first = first_keys(context);
  if (first.defined()) {
    const Tensor start = first.narrow(-1, offset + begin, end - begin).unsqueeze(-1);  // [rows,1] or [B,rows,1]
    const Tensor seen = columns.ge(start);
    visible = visible.logical_and(seen.dim() == 3 ? seen.unsqueeze(1) : seen);
  }
  return visible;
}

std::int64_t first_seen(const Rows& rows) {
  const LayerContext& context = rows.context;
  const std::int64_t window = window_of(context);
  if (window == 0) return 0;
  return std::max<std::int64_t>(0, context.span.keys - context.span.queries + rows.begin - window + 1);
}

Tensor from_key(const Tensor& t, std::int64_t first) {
  return first == 0 ? t : t.narrow(-1, first, t.size(-1) - first);
}

Tensor repeat_groups(const Tensor& t, std::int64_t heads) {
  return t.size(1) == heads ? t : t.repeat_interleave(heads / t.size(1), 1);
}

namespace {

/// Rows of heads. All of them need no view, whose gradient would be copied.
Tensor narrowed(const Tensor& heads, std::int64_t begin, std::int64_t count) {
  return count == heads.size(2) ? heads : heads.narrow(2, begin, count);
}

}  // namespace

Rows make_rows(const LayerContext& context, const RowSource& source, double scale, std::int64_t begin, std::int64_t end,
               bool masked) {
  const Span& span = context.span;
  const std::int64_t offset = span.keys - span.queries, count = end - begin;
  const std::int64_t keys = span.causal ? offset + end : span.keys;
  Rows rows{.context = context, .begin = begin, .end = end, .keys = keys};
  rows.q = narrowed(source.q, begin, count);
  rows.k = narrowed(source.k, 0, keys);
  rows.v = narrowed(source.v, 0, keys);
  if (source.raw_q.defined()) {
    rows.raw_q = source.raw_q.narrow(2, begin, count);
    rows.raw_k = source.raw_k.narrow(2, 0, keys);
  }
  rows.scale = scale;
  rows.query_positions = context.positions.narrow(-1, offset + begin, count);
  rows.key_positions = context.positions.narrow(-1, 0, keys);
  if (masked) rows.visible = visible_keys(context, begin, end, keys);
  rows.inputs = source.inputs;
  return rows;
}

Tensor padded_to(const Tensor& t, std::int64_t width) {
  return t.size(-1) == width ? t : at::constant_pad_nd(t, {0, width - t.size(-1)});
}

void require_fused_backend(std::int64_t backend, const Tensor& q, bool masked) {
  if (backend == static_cast<std::int64_t>(at::SDPBackend::cudnn_attention) &&
      at::globalContext().deterministicAlgorithms()) {
    throw support::Error(
        support::kExitBug,
        support::Diagnostic{"compute.deterministic is on, but LibTorch chose the attention of cuDNN, whose "
                            "gradients differ from run to run"});
  }
  const bool is_fused = backend > static_cast<std::int64_t>(at::SDPBackend::math);
  if (is_fused || !kernels::uses_fused() || q.scalar_type() == at::kDouble) return;
  throw support::ConfigError(
      support::cat("LibTorch has no fused attention for heads of width ", q.size(-1), " in ",
                   c10::toString(q.scalar_type()), masked ? " with a mask" : "",
                   " on this GPU; its plain one would keep every score in memory"),
      {}, "change model.head_width or compute.dtype, or set compute.kernels: plain to accept the memory");
}

std::string backend_name(std::int64_t backend) {
  switch (static_cast<at::SDPBackend>(backend)) {
    case at::SDPBackend::flash_attention:
      return "flash";
    case at::SDPBackend::efficient_attention:
      return "memory-efficient";
    case at::SDPBackend::cudnn_attention:
      return "cuDNN";
    case at::SDPBackend::overrideable:
      return "the device's own";
    default:
      return "plain";
  }
}

namespace {

/// With a mask, and in fp32, LibTorch knows no shared keys, and would fall back to its plain form.
bool shares_keys(const Tensor& q, const Tensor& k, const std::optional<Tensor>& mask) {
  return q.size(1) != k.size(1) && !mask && q.scalar_type() != at::kFloat;
}

}  // namespace

std::int64_t attention_backend(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask,
                               bool causal, double scale) {
  return at::_fused_sdp_choice(q, k, v, mask, 0.0, causal, scale, shares_keys(q, k, mask));
}

Tensor fused(const Tensor& q, const Tensor& k, const Tensor& v, const std::optional<Tensor>& mask, bool causal,
             double scale) {
  if (v.size(-1) < q.size(-1)) {  // PoPE's q and k are twice as wide
    return fused(q, k, padded_to(v, q.size(-1)), mask, causal, scale).narrow(-1, 0, v.size(-1));
  }
  if (q.is_cuda()) {
    const bool shared = shares_keys(q, k, mask);
    const Tensor keys = shared ? k : repeat_groups(k, q.size(1)), values = shared ? v : repeat_groups(v, q.size(1));
    require_fused_backend(attention_backend(q, keys, values, mask, causal, scale), q, mask.has_value());
    return at::scaled_dot_product_attention(q, keys, values, mask, 0.0, causal, scale, shared);
  }
  return at::scaled_dot_product_attention(q, repeat_groups(k, q.size(1)), repeat_groups(v, q.size(1)), mask, 0.0,
                                          causal, scale, false);
}

std::int64_t most_rows(const Span& span, std::int64_t chunk_rows) {
  return chunk_rows > 0 ? chunk_rows : span.device.is_cuda() ? 1024 : 128;
}

std::int64_t rows_at_a_time(const Span& span, std::int64_t heads, const Traits& traits, std::int64_t chunk_rows) {
  std::int64_t budget = std::int64_t{512} << 20;
  if (span.device.is_cuda()) {  // a power of two, so that GPUs of nominally equal memory take equal strips
    budget = std::max(budget, static_cast<std::int64_t>(std::bit_floor(
                                  static_cast<std::uint64_t>(kernels::device_memory(span.device) / 16))));
  }
  const std::int64_t row_bytes = span.batch * heads * span.keys * 4 * traits.live_logits;
  return std::min({most_rows(span, chunk_rows), span.queries, std::max<std::int64_t>(16, budget / row_bytes)});
}

void for_each_strip(const Strips& strips, const std::function<void(std::int64_t, std::int64_t, std::int64_t)>& body) {
  constexpr std::int64_t kBetween = 8;  // strips from one giving back to the next
  const std::int64_t count = (strips.queries + strips.chunk - 1) / strips.chunk;
  for (std::int64_t n = 0; n < count; ++n) {
    const std::int64_t index = strips.in_order ? n : count - 1 - n, begin = index * strips.chunk;
    body(index, begin, std::min(strips.queries, begin + strips.chunk));
    if (strips.in_order && strips.give_back && n % kBetween == kBetween - 1) malloc_trim(0);
  }
}

Tensor joined(const std::vector<Tensor>& strips) { return strips.size() == 1 ? strips[0] : at::cat(strips, 2); }

bool worth_returning_memory(const RowSource& source, std::int64_t chunk) {
  constexpr std::int64_t kLarge = std::int64_t{32} << 20;
  const std::int64_t bytes = source.q.size(0) * source.q.size(1) * chunk * source.k.size(2) * 4;
  return source.q.is_cpu() && !source.q.requires_grad() && bytes >= kLarge;
}

Job::Job(PositionalEncoding& encoding, const LayerContext& from, const Traits& traits, double scale, std::int64_t chunk)
    : encoding(encoding),
      state(from.state),
      traits(traits),
      scale(scale),
      chunk(chunk),
      context{.state = state,
              .span = state.span,
              .layer = from.layer,
              .x = from.x.defined() ? from.x.detach() : Tensor(),
              .positions = from.positions,
              .contiguous = from.contiguous} {}

RowSource unpack(at::TensorList tensors, const std::vector<std::size_t>& slots) {
  std::vector<Tensor> all(std::max(kFixedSlots, slots.back() + 1));
  for (std::size_t i = 0; i < slots.size(); ++i) all[slots[i]] = tensors[i];
  return {all[0], all[1], all[2], all[3], all[4], all[5], std::vector<Tensor>(all.begin() + kFixedSlots, all.end())};
}

}  // namespace pe::encodings

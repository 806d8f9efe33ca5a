#include "encodings/attention/attend.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "encodings/attention/attend_plain.h"
#include "encodings/attention/attend_rows.h"
#include "encodings/attention/attention_window.h"
#include "encodings/attention/fused_bias.h"
#include "encodings/attention/weight_mix.h"
#include "kernels/dispatch.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

using support::cat;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// For a mask that needs a gradient, the memory-efficient CUDA kernel makes a gradient of the mask's size.
constexpr std::int64_t kMaskGradientBytes = std::int64_t{2} << 30;

// For fewer rows it does not pay to pack the keys.
constexpr std::int64_t kCausalRows = 8;

// ---------------------------------------------------------------- which route

enum class Kernel { kBare, kCausal, kChannels, kMask, kSoftmax, kChunked, kReference, kRowHook };

struct Plan {
  Kernel kernel = Kernel::kBare;
  Traits traits;
  bool causal_flag = false;            // the kernel's own causal mask is right
  FusedKind fused = FusedKind::kNone;  // the bias, if kCausal does not take it from a table
};

/// May only ranges of rows carry it? A normaliser that is a softmax with a sink is no reason.
bool is_row_wise(const Traits& traits, bool sink, bool mixes) {
  return traits.own_logits || traits.rewrites_logits || (traits.normalises && !sink) || mixes || traits.rows_coupled;
}

/// Without documents or a window, and with as many queries as keys, a single query, or sight of everything, no mask has
/// to be made.
bool needs_no_mask(const Span& span, bool windowed) {
  return !span.doc_start.defined() && !windowed && (!span.causal || span.queries == span.keys || span.queries == 1);
}

/// How the plug-in's kernel can take a bias that is no table.
FusedKind fused_bias_kind(const PositionalEncoding& encoding, const Span& span, const Traits& traits,
                          at::ScalarType dtype) {
  const Shape& shape = encoding.shape();
  if (traits.bias == BiasKind::kNone || !span.causal || span.queries < kCausalRows || traits.extra_values ||
      !has_fused_bias_kernel(span, dtype, shape.head_width)) {
    return FusedKind::kNone;
  }
  const FusedKind own =
      traits.maps_positions || span.positions.defined() ? FusedKind::kNone : fused_kind(encoding, span);
  if (own != FusedKind::kNone) return own;
  const bool by_sequence = traits.bias_depends_on_batch || traits.maps_positions || span.doc_start.defined();
  const std::int64_t pairs = (by_sequence ? span.batch : 1) * shape.query_heads * span.queries * span.keys;
  return pairs * static_cast<std::int64_t>(sizeof(float)) <= kMaskGradientBytes ? FusedKind::kPairs : FusedKind::kNone;
}

/// kStick or kCounts if the plug-in's kernel scans rows for this, with nothing else on the way from scores to weights.
FusedKind scan_kind(const PositionalEncoding& encoding, const Span& span, Traits traits, at::ScalarType dtype,
                    bool mixes) {
  const FusedKind kind = fused_kind(encoding, span);
  if (kind == FusedKind::kStick)
    traits.normalises = false;
  else if (kind == FusedKind::kCounts)
    traits.rewrites_logits = false;
  else
    return FusedKind::kNone;
  const bool sink = traits.sink;
  const bool alone = traits.bias == BiasKind::kNone && !is_row_wise(traits, sink, mixes) && !traits.extra_values &&
                     !(sink && kind == FusedKind::kStick);
  return alone && span.causal && span.queries >= kCausalRows &&
                 has_fused_bias_kernel(span, dtype, encoding.shape().head_width)
             ? kind
             : FusedKind::kNone;
}

/// Does the plug-in compute the terms that S7 adds to logits, with nothing else on the way from products to weights?
bool takes_network(const PositionalEncoding& encoding, const Span& span, Traits traits, at::ScalarType dtype,
                   bool mixes) {
  if (!traits.rewrites_logits || fused_kind(encoding, span) != FusedKind::kNetwork) return false;
  traits.rewrites_logits = false;
  return traits.bias == BiasKind::kNone && !is_row_wise(traits, traits.sink, mixes) && !traits.extra_values &&
         !traits.maps_positions && !span.positions.defined() && span.causal && span.queries >= kCausalRows &&
         has_fused_bias_kernel(span, dtype, encoding.shape().head_width);
}

bool scans(FusedKind kind) { return kind == FusedKind::kStick || kind == FusedKind::kCounts; }

/// @param windowed the layer's window is shorter than the keys
Plan make_plan(PositionalEncoding& encoding, const Span& span, bool windowed, at::ScalarType dtype, bool needs_grad,
               const AttendOptions& options) {
  Plan plan{.traits = encoding.traits(span)};
  const Traits& traits = plan.traits;
  plan.causal_flag =
      span.causal && span.queries == span.keys && span.queries > 1 && !span.doc_start.defined() && !windowed;
  if (options.row_hook != nullptr) {
    plan.kernel = Kernel::kRowHook;
    return plan;
  }
  if (options.matrices != nullptr || options.route == Route::kReference) {
    plan.kernel = Kernel::kReference;
    return plan;
  }
  if (options.route == Route::kChunked) {
    plan.kernel = Kernel::kChunked;
    return plan;
  }
  const std::int64_t mask_elements = span.queries * span.keys * encoding.shape().query_heads;
  const bool sink = traits.sink;
  const bool by_distance =
      traits.bias == BiasKind::kNone ||
      ((traits.bias == BiasKind::kToeplitz || traits.has_table) && !traits.maps_positions && !span.positions.defined());
  const bool mixes = mixer_of(encoding) != nullptr;
  if (const FusedKind scanned = scan_kind(encoding, span, traits, dtype, mixes); scanned != FusedKind::kNone) {
    plan.kernel = Kernel::kCausal;
    plan.fused = scanned;
  } else if (takes_network(encoding, span, traits, dtype, mixes)) {
    plan.kernel = Kernel::kChunked;
    plan.fused = FusedKind::kNetwork;
    plan.traits.live_logits = Traits{}.live_logits;
  } else if (is_row_wise(traits, sink, mixes) || (sink && traits.extra_values)) {
    plan.kernel = Kernel::kChunked;
  } else if (by_distance && span.causal && span.queries >= kCausalRows && !traits.extra_values &&
             has_causal_kernel(span, dtype, traits.bias == BiasKind::kNone && !sink && !windowed,
                               encoding.shape().head_width)) {
    plan.kernel = Kernel::kCausal;
  } else if (const FusedKind fused = fused_bias_kind(encoding, span, traits, dtype); fused != FusedKind::kNone) {
    plan.kernel = Kernel::kCausal;
    plan.fused = fused;
  } else if (sink) {
    plan.kernel = traits.sink_share ? Kernel::kChunked : Kernel::kSoftmax;
  } else if (traits.bias == BiasKind::kNone) {
    plan.kernel = needs_no_mask(span, windowed) ? Kernel::kBare : Kernel::kMask;
  } else if (traits.bias == BiasKind::kChannels && !traits.maps_positions && !span.positions.defined() &&
             !traits.needs_row_constants && !traits.extra_values && needs_no_mask(span, windowed) &&
             !(traits.channels_cancel && needs_grad && is_half(dtype))) {
    plan.kernel = Kernel::kChannels;
  } else if (!needs_grad || !traits.bias_needs_grad) {
    plan.kernel = Kernel::kMask;
  } else {
    // Only the memory-efficient CUDA kernel has a gradient for its mask; the CPU's fused kernel has none.
    const bool fits = mask_elements * span.batch * at::elementSize(dtype) <= kMaskGradientBytes;
    plan.kernel = span.device.is_cuda() && dtype != at::kDouble && fits ? Kernel::kMask
                  : traits.extra_values                                 ? Kernel::kChunked
                                                                        : Kernel::kSoftmax;
  }
  if (options.route == Route::kFused && plan.kernel == Kernel::kChunked && plan.fused == FusedKind::kNone) {
    throw support::ConfigError("the fused route was asked for, and this encoding has none here", {},
                               "use the route 'auto', 'chunked' or 'reference'");
  }
  return plan;
}

// ---------------------------------------------------------------- rows

struct MixedRows {
  Tensor out;    // [B,H,rows,d_h]
  Tensor extra;  // [B,H,rows,n] or undefined
};

/// Is it softmax over q·k, a bias at most added?
bool is_plain(PositionalEncoding& encoding, const Traits& traits) {
  return !traits.own_logits && !traits.rewrites_logits && !traits.normalises && !traits.rows_coupled &&
         mixer_of(encoding) == nullptr;
}

/// Rows of plain softmax that see a window: keys before it are not read.
Tensor attend_window(PositionalEncoding& encoding, const Traits& traits, const Rows& rows) {
  const std::int64_t first = first_seen(rows);
  Rows near = rows;
  near.keys = rows.keys - first;
  near.k = rows.k.narrow(2, first, near.keys);
  Tensor s = encoding.PositionalEncoding::logits(near);
  if (traits.bias != BiasKind::kNone) s = s + from_key(encoding.bias(rows), first);
  s = s.masked_fill(from_key(rows.visible, first).logical_not(), kMinusInfinity);
  return mix(at::softmax(s, -1), rows.v.narrow(2, first, near.keys)).to(rows.v.scalar_type());
}

/// S6, S5, S7 and S8 for some rows: the definition that all other routes must agree with.
MixedRows attend_rows(PositionalEncoding& encoding, const Traits& traits, const Rows& rows, const Tensor& extra,
                      AttentionMatrices* matrices) {
  if (matrices == nullptr && !extra.defined() && first_seen(rows) > 0 && is_plain(encoding, traits)) {
    return {attend_window(encoding, traits, rows), {}};
  }
  Tensor s = encoding.logits(rows);
  if (traits.bias != BiasKind::kNone) s = s + encoding.bias(rows);
  if (traits.rewrites_logits) s = encoding.rewrite(rows, s);
  s = s.masked_fill(rows.visible.logical_not(), kMinusInfinity);
  Normaliser::Result result;
  const std::unique_ptr<Normaliser> normaliser =
      traits.normalises ? encoding.normaliser(rows.context, rows.inputs) : nullptr;
  if (normaliser)
    result = normaliser->normalise(s, rows);
  else
    result.weights = at::softmax(s, -1);
  if (matrices != nullptr) {
    *matrices = {.logits = (result.logits.defined() ? result.logits : s).detach(), .weights = result.weights.detach()};
  }

  const at::ScalarType type = s.scalar_type();
  const std::int64_t heads = rows.q.size(1);
  MixedRows mixed{.out = mix(result.weights, rows.v)};
  if (result.own.defined()) {
    const Tensor own = repeat_groups(rows.v.narrow(2, rows.keys - rows.count(), rows.count()).to(type), heads);
    mixed.out = mixed.out + result.own.unsqueeze(-1) * own;
  }
  if (MixesByWeights* mixer = mixer_of(encoding)) mixed.out = mixed.out + mixer->mix(rows, result.weights);
  mixed.out = mixed.out.to(rows.v.scalar_type());
  if (traits.sink_share) mixed.extra = result.weights.sum({-1}, true);
  if (extra.defined()) mixed.extra = mix(result.weights, extra.narrow(2, 0, rows.keys)).to(extra.scalar_type());
  return mixed;
}

/// The same rows by the plug-in: a network's change of the logits becomes a bias from memory.
MixedRows attend_by_network(PositionalEncoding& encoding, const Traits& traits, const Rows& rows) {
  const Tensor starts = first_keys(rows.context);
  Tensor sink;
  if (traits.sink) sink = encoding.normaliser(rows.context, rows.inputs)->sink_logits();
  if (sink.defined() && sink.dim() == 3) sink = sink.narrow(2, rows.begin, rows.count());
  const Causal made =
      attend_causal(rows.q, rows.k, rows.v, {}, {.pairs = dynamic_cast<FusesBias&>(encoding).fused_rewrite(rows)},
                    starts.defined() ? starts.narrow(-1, 0, rows.keys) : starts, rows.scale, sink);
  return {made.out, traits.sink_share ? made.kept : Tensor()};
}

// ---------------------------------------------------------------- the chunked route

MixedRows attend_strip(const Job& job, const Rows& rows, const Tensor& extra) {
  return job.by_network ? attend_by_network(job.encoding, job.traits, rows)
                        : attend_rows(job.encoding, job.traits, rows, extra, nullptr);
}

class ChunkedFunction : public torch::autograd::Function<ChunkedFunction> {
 public:
  static variable_list forward(AutogradContext* context, c10::intrusive_ptr<Job> job, at::TensorList tensors) {
    context->save_for_backward(tensors.vec());
    context->saved_data["job"] = c10::IValue::make_capsule(job);
    const RowSource source = unpack(tensors, job->slots);
    const std::int64_t queries = job->state.span.queries, chunks = (queries + job->chunk - 1) / job->chunk;
    std::vector<Tensor> outs(chunks), extras(source.extra.defined() || job->traits.sink_share ? chunks : 0);
    Tensor carry;
    const Strips strips{queries, job->chunk, job->traits.rows_coupled, worth_returning_memory(source, job->chunk)};
    for_each_strip(strips, [&](std::int64_t c, std::int64_t begin, std::int64_t end) {
      Rows rows = make_rows(job->context, source, job->scale, begin, end, !job->by_network);
      if (job->traits.rows_coupled) {
        job->carries.push_back(carry.defined() ? carry.detach() : Tensor());
        rows.carry = &carry;
      }
      MixedRows mixed = attend_strip(*job, rows, source.extra);
      outs[c] = mixed.out;
      if (mixed.extra.defined()) extras[c] = mixed.extra;
    });
    variable_list result{joined(outs)};
    if (!extras.empty()) result.push_back(joined(extras));
    return result;
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list tensors = context->get_saved_variables();
    const auto job = c10::static_intrusive_pointer_cast<Job>(context->saved_data["job"].toCapsule());
    const std::int64_t queries = job->state.span.queries, chunk = job->chunk;
    const std::int64_t chunks = (queries + chunk - 1) / chunk;
    const bool sums = chunks > 1 || !job->by_network;
    variable_list wanted(tensors.size());
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!sums || !context->needs_input_grad(i)) continue;
      // Strips add up in fp32: a long text has dozens of them.
      wanted[i] = at::zeros_like(tensors[i], tensors[i].options().dtype(table_type(tensors[i].scalar_type())));
    }
    Tensor carry_gradient;
    for (std::int64_t c = chunks - 1; c >= 0; --c) {
      const std::int64_t begin = c * chunk, end = std::min(queries, begin + chunk);
      at::AutoGradMode with_gradients(true);
      variable_list leaves(tensors.size());
      variable_list asked;
      std::vector<std::size_t> which;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        leaves[i] = tensors[i].detach();
        if (!context->needs_input_grad(i)) continue;
        leaves[i].requires_grad_(true);
        asked.push_back(leaves[i]);
        which.push_back(i);
      }
      const RowSource source = unpack(leaves, job->slots);
      Rows rows = make_rows(job->context, source, job->scale, begin, end, !job->by_network);
      Tensor carry, carry_before;
      if (job->traits.rows_coupled) {
        carry_before = job->carries[c];
        if (carry_before.defined()) {
          carry_before = carry_before.detach().requires_grad_(true);
          asked.push_back(carry_before);
        }
        carry = carry_before;
        rows.carry = &carry;
      }
      const MixedRows mixed = attend_strip(*job, rows, source.extra);
      variable_list outputs, output_gradients;
      const auto add_output = [&](const Tensor& output, const Tensor& gradient) {
        if (!output.defined() || !gradient.defined() || !output.requires_grad()) return;
        outputs.push_back(output);
        output_gradients.push_back(gradient);
      };
      add_output(mixed.out, gradients[0].narrow(2, begin, end - begin));
      if (gradients.size() > 1 && gradients[1].defined()) {
        add_output(mixed.extra, gradients[1].narrow(2, begin, end - begin));
      }
      add_output(carry, carry_gradient);
      if (outputs.empty() || asked.empty()) continue;
      const variable_list found = torch::autograd::grad(outputs, asked, output_gradients, /*retain_graph=*/false,
                                                        /*create_graph=*/false, /*allow_unused=*/true);
      at::NoGradGuard without_gradients;
      for (std::size_t n = 0; n < which.size(); ++n) {
        if (!found[n].defined()) continue;
        if (sums)
          wanted[which[n]].add_(found[n]);
        else
          wanted[which[n]] = found[n];
      }
      carry_gradient = carry_before.defined() ? found.back() : Tensor();
    }
    variable_list result{Tensor()};  // the job has no gradient
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      result.push_back(wanted[i].defined() ? wanted[i].to(tensors[i].scalar_type()) : Tensor());
    }
    return result;
  }
};

// ---------------------------------------------------------------- fused kernels

/// Splits a factor into numbers that `type` holds: their sum is the factor to `pieces` times its digits. Nothing is
/// detached, so that each piece passes the gradient on exactly as far as it holds the value.
std::vector<Tensor> pieces_of(const Tensor& factor, int pieces, at::ScalarType type) {
  if (type != at::kBFloat16 && type != at::kHalf) return {factor.to(type)};
  std::vector<Tensor> parts;
  Tensor rest = factor;
  for (int i = 0; i < pieces; ++i) {
    parts.push_back(rest.to(type));
    if (i + 1 < pieces) rest = rest - parts.back().to(factor.scalar_type());
  }
  return parts;
}

/// The scale goes into q beforehand, since the kernel would apply it to the channels too.
Tensor attend_with_channels(const Channels& channels, const Heads& heads, bool causal) {
  const at::ScalarType type = heads.q.scalar_type();
  const std::vector<Tensor> query_parts = pieces_of(channels.query, channels.query_pieces, type);
  const std::vector<Tensor> key_parts = pieces_of(channels.key, channels.key_pieces, type);
  std::vector<Tensor> query_side{(heads.q.to(table_type(type)) * heads.scale).to(type)};
  const std::int64_t batch = heads.q.size(0), head_count = heads.q.size(1);
  const bool by_head = channels.key.size(1) != 1 && channels.key.size(1) != heads.k.size(1);
  const Tensor k = by_head ? repeat_groups(heads.k, head_count) : heads.k;
  const Tensor v = by_head ? repeat_groups(heads.v, head_count) : heads.v;
  std::vector<Tensor> key_side{k};
  for (const Tensor& a : query_parts) {
    for (const Tensor& b : key_parts) {
      query_side.push_back(a.expand({batch, head_count, heads.q.size(2), a.size(3)}));
      key_side.push_back(b.expand({batch, k.size(1), k.size(2), b.size(3)}));
    }
  }
  Tensor q = at::cat(query_side, -1), wide_k = at::cat(key_side, -1);
  // CUDA kernels read eight elements at a time.
  const std::int64_t width = q.is_cuda() ? (q.size(-1) + 7) / 8 * 8 : q.size(-1);
  const Tensor out =
      fused(padded_to(q, width), padded_to(wide_k, width), padded_to(v, width), std::nullopt, causal, 1.0);
  return out.narrow(-1, 0, heads.v.size(-1));
}

/// A fused kernel with an additive mask, for as many rows at a time as `mask_bytes` allow.
Tensor attend_with_mask(PositionalEncoding& encoding, const LayerContext& context, const Traits& traits,
                        const RowSource& source, double scale, const AttendOptions& options) {
  const Span& span = context.span;
  const at::ScalarType type = source.q.scalar_type();
  const std::int64_t mask_heads = traits.bias == BiasKind::kNone ? 1 : source.q.size(1);
  const std::int64_t mask_batch = traits.bias_depends_on_batch || span.doc_start.defined() ? source.q.size(0) : 1;
  const std::int64_t row_bytes = mask_heads * mask_batch * span.keys * static_cast<std::int64_t>(at::elementSize(type));
  std::int64_t chunk =
      std::clamp<std::int64_t>(options.mask_bytes / row_bytes, std::min<std::int64_t>(16, span.queries), span.queries);
  // A kernel with a mask does not skip future keys, so strips of rows leave them out. The tensors that make a pairwise
  // bias (the hidden layer of an MLP, for example) are many times as large as the bias.
  chunk = std::min(chunk, span.device.is_cuda() ? rows_at_a_time(span, source.q.size(1), traits, options.chunk_rows)
                                                : most_rows(span, options.chunk_rows));
  std::vector<Tensor> outs((span.queries + chunk - 1) / chunk);
  for_each_strip({span.queries, chunk}, [&](std::int64_t c, std::int64_t begin, std::int64_t end) {
    const Rows rows = make_rows(context, source, scale, begin, end);
    const std::int64_t first = first_seen(rows), seen = rows.keys - first;
    const Tensor hidden = from_key(rows.visible, first).logical_not();
    Tensor mask;
    if (traits.bias == BiasKind::kNone) {
      mask = at::zeros(hidden.sizes(), source.q.options()).masked_fill_(hidden, kMinusInfinity);
    } else {
      // after the cast: −inf stays −inf
      mask = from_key(encoding.bias(rows), first).to(type).masked_fill(hidden, kMinusInfinity);
    }
    outs[c] = fused(rows.q, rows.k.narrow(2, first, seen), rows.v.narrow(2, first, seen), mask, false, scale);
  });
  return joined(outs);
}

/// S5 for all rows. Ranges of rows keep the memory of a pass without gradients small.
Tensor pairs_of(PositionalEncoding& encoding, const LayerContext& context, const RowSource& source, double scale,
                std::int64_t chunk) {
  const Span& span = context.span;
  std::vector<Tensor> parts((span.queries + chunk - 1) / chunk);
  for_each_strip({span.queries, chunk}, [&](std::int64_t c, std::int64_t begin, std::int64_t end) {
    const Rows rows = make_rows(context, source, scale, begin, end);
    parts[c] = padded_to(encoding.bias(rows).to(at::kFloat), span.keys);
  });
  return joined(parts);
}

bool any_requires_grad(const RowSource& source) {
  for (const Tensor* t : {&source.q, &source.k, &source.v, &source.raw_q, &source.raw_k, &source.extra}) {
    if (t->defined() && t->requires_grad()) return true;
  }
  for (const Tensor& t : source.inputs) {
    if (t.defined() && t.requires_grad()) return true;
  }
  return false;
}

std::string sizes(const Tensor& t) {
  std::string text = "[";
  for (std::int64_t i = 0; t.defined() && i < t.dim(); ++i) text += cat(i ? ", " : "", t.size(i));
  return text + "]";
}

void check(const PositionalEncoding& encoding, const Span& span, const Heads& heads) {
  const std::int64_t groups = heads.k.defined() && heads.k.dim() == 4 ? heads.k.size(1) : 0;
  const bool q_fits = heads.q.dim() == 4 && heads.q.size(0) == span.batch && heads.q.size(2) == span.queries;
  const bool k_fits =
      groups > 0 && heads.k.size(0) == span.batch && heads.k.size(2) == span.keys && heads.k.size(3) == heads.q.size(3);
  const bool v_fits =
      heads.v.dim() == 4 && heads.v.size(0) == span.batch && heads.v.size(1) == groups && heads.v.size(2) == span.keys;
  if (!q_fits || !k_fits || !v_fits) {
    throw ShapeError(cat("attention over ", span.batch, " sequences with ", span.queries, " queries and ", span.keys,
                         " keys: expected q [B, H, T, d_h], k and v [B, G, S, d_h], found q ", sizes(heads.q), ", k ",
                         sizes(heads.k), ", v ", sizes(heads.v)));
  }
  if (heads.q.size(1) != encoding.projected_heads() || groups != encoding.shape().key_value_heads) {
    throw ShapeError(cat("the encoding was built for ", encoding.projected_heads(), " query heads and ",
                         encoding.shape().key_value_heads, " key/value heads, found ", heads.q.size(1), " and ",
                         groups));
  }
}

/// One call of `attend` after the encoding has transformed its heads.
struct Call {
  PositionalEncoding& encoding;
  LayerContext& context;
  const Traits& traits;
  const AttendOptions& options;
  const Heads& heads;
  RowSource source;

  std::int64_t chunk() const { return rows_at_a_time(context.span, heads.q.size(1), traits, options.chunk_rows); }
  Rows rows(std::int64_t begin, std::int64_t end) const { return make_rows(context, source, heads.scale, begin, end); }
};

MixedRows attend_bare(const Call& call, bool causal_flag) {
  const Heads& heads = call.heads;
  const Tensor& extra = call.source.extra;
  if (causal_flag && !extra.defined()) {
    const PlainHeads plain{heads.q, heads.k, heads.v, heads.scale};
    return {attend_plain(plain, plain_choice(plain)), {}};
  }
  MixedRows mixed{.out = fused(heads.q, heads.k, heads.v, std::nullopt, causal_flag, heads.scale), .extra = {}};
  if (!extra.defined()) return mixed;
  // Kernels want values as wide as keys, so the other values go in slices of that width.
  std::vector<Tensor> slices;
  const std::int64_t width = heads.q.size(-1), total = extra.size(-1);
  const Tensor k = repeat_groups(heads.k, extra.size(1));
  for (std::int64_t at = 0; at < total; at += width) {
    const std::int64_t n = std::min(width, total - at);
    const Tensor slice = padded_to(extra.narrow(-1, at, n), width);
    slices.push_back(fused(heads.q, k, slice, std::nullopt, causal_flag, heads.scale).narrow(-1, 0, n));
  }
  mixed.extra = at::cat(slices, -1);
  return mixed;
}

/// By `attend_causal`, with a table by distance or a fused bias.
MixedRows attend_by_kernel(const Call& call, FusedKind kind) {
  const Heads& heads = call.heads;
  Tensor table;
  FusedBias bias;
  if (kind == FusedKind::kPairs) {
    bias.pairs = pairs_of(call.encoding, call.context, call.source, heads.scale, call.chunk());
  } else if (kind != FusedKind::kNone) {
    bias = dynamic_cast<FusesBias&>(call.encoding).fused_bias(call.context, heads);
  } else if (call.traits.bias != BiasKind::kNone) {
    table = call.encoding.table(call.context, call.context.span.keys);
  }
  const Tensor sink =
      call.traits.sink ? call.encoding.normaliser(call.context, call.source.inputs)->sink_logits() : Tensor();
  const Causal made =
      attend_causal(heads.q, heads.k, heads.v, table, bias, first_keys(call.context), heads.scale, sink);
  return {made.out, call.traits.sink_share ? made.kept : Tensor()};
}

/// Ranges of rows under autograd, by softmax's own gradient or by `attend_rows` made again.
MixedRows attend_in_strips(Call& call, bool by_softmax, bool by_network = false) {
  RowSource& source = call.source;
  const auto job = c10::make_intrusive<Job>(call.encoding, call.context, call.traits, call.heads.scale, call.chunk());
  job->by_network = by_network;
  const std::int64_t own_width = source.v.size(-1);
  if (by_softmax) source.v = padded_to(source.v, std::max(own_width, source.q.size(-1)));
  std::vector<Tensor> all{source.q, source.k, source.v, source.raw_q, source.raw_k, source.extra}, defined;
  all.insert(all.end(), source.inputs.begin(), source.inputs.end());
  for (std::size_t slot = 0; slot < all.size(); ++slot) {
    if (!all[slot].defined()) continue;
    defined.push_back(all[slot]);
    job->slots.push_back(slot);
  }
  if (by_softmax) return {attend_softmax(job, defined).narrow(-1, 0, own_width), {}};
  const variable_list out = ChunkedFunction::apply(job, at::TensorList(defined));
  return {out[0], out.size() > 1 ? out[1] : Tensor()};
}

MixedRows attend_by_definition(const Call& call) {
  Rows rows = call.rows(0, call.context.span.queries);
  Tensor carry;
  if (call.traits.rows_coupled) rows.carry = &carry;
  return attend_rows(call.encoding, call.traits, rows, call.source.extra, call.options.matrices);
}

/// Shows ranges of rows to the hook, in order.
MixedRows attend_for_hook(const Call& call) {
  at::NoGradGuard no_gradients;
  std::vector<Tensor> outs, extras;
  Tensor carry;
  const std::int64_t chunk = call.chunk();
  const Strips strips{call.context.span.queries, chunk, true, worth_returning_memory(call.source, chunk)};
  for_each_strip(strips, [&](std::int64_t, std::int64_t begin, std::int64_t end) {
    Rows rows = call.rows(begin, end);
    if (call.traits.rows_coupled) rows.carry = &carry;
    AttentionMatrices seen;
    const MixedRows part = attend_rows(call.encoding, call.traits, rows, call.source.extra, &seen);
    (*call.options.row_hook)({rows, seen.logits, seen.weights});
    outs.push_back(part.out);
    if (part.extra.defined()) extras.push_back(part.extra);
  });
  return {joined(outs), extras.empty() ? Tensor() : joined(extras)};
}

/// The planned kernel, or another where the tensors rule it out.
Kernel kernel_for(const Call& call, const Plan& plan, bool grad_mode) {
  const Heads& heads = call.heads;
  // A kernel that saves its log-sum-exp only where q, k or v need gradients corrupts memory when the mask alone does.
  const bool frozen = !heads.q.requires_grad() && !heads.k.requires_grad() && !heads.v.requires_grad();
  if (plan.kernel == Kernel::kMask && grad_mode && plan.traits.bias_needs_grad && frozen &&
      any_requires_grad(call.source)) {
    return call.source.extra.defined() ? Kernel::kChunked : Kernel::kSoftmax;
  }
  // A mask, and values other than v: rows mix both.
  return plan.kernel == Kernel::kMask && call.source.extra.defined() ? Kernel::kChunked : plan.kernel;
}

}  // namespace

Tensor attend(PositionalEncoding& encoding, LayerContext& context, Heads heads, const AttendOptions& options) {
  const Span& span = context.span;
  check(encoding, span, heads);
  const bool grad_mode = at::GradMode::is_enabled();
  Plan plan = make_plan(encoding, span, window_of(context) > 0, heads.q.scalar_type(), grad_mode, options);
  const Traits& traits = plan.traits;
  if (traits.needs_raw) {
    heads.raw_q = repeat_groups(heads.q, encoding.shape().query_heads);
    heads.raw_k = heads.k;
  }
  encoding.transform(context, heads);

  if (plan.kernel == Kernel::kChannels) {
    return encoding.finish(context, attend_with_channels(encoding.channels(context, heads), heads, plan.causal_flag),
                           {});
  }
  // S2 has changed the width of q.
  if (plan.kernel == Kernel::kCausal && !takes_widths(heads.q, heads.v))
    plan.kernel = traits.sink_share || scans(plan.fused) ? Kernel::kChunked : Kernel::kSoftmax;
  if (plan.fused == FusedKind::kNetwork && !takes_widths(heads.q, heads.v)) plan.fused = FusedKind::kNone;
  const bool bare = plan.kernel == Kernel::kBare, causal = plan.kernel == Kernel::kCausal;
  // These two read strided values in place; the others read them many times, by LibTorch's products.
  if (!bare && !causal) heads.v = heads.v.contiguous();
  const bool reads_rows = !bare && (!causal || traits.sink || plan.fused == FusedKind::kPairs);
  Call call{encoding,
            context,
            traits,
            options,
            heads,
            {heads.q, heads.k, heads.v, heads.raw_q, heads.raw_k,
             traits.extra_values ? encoding.extra_values(context, heads) : Tensor(),
             reads_rows ? encoding.row_inputs(context, heads) : std::vector<Tensor>()}};
  const MixedRows mixed = [&]() -> MixedRows {
    switch (kernel_for(call, plan, grad_mode)) {
      case Kernel::kBare:
        return attend_bare(call, plan.causal_flag);
      case Kernel::kCausal:
        return attend_by_kernel(call, plan.fused);
      case Kernel::kMask:
        return {attend_with_mask(encoding, context, traits, call.source, heads.scale, options), {}};
      case Kernel::kSoftmax:
        return attend_in_strips(call, true);
      case Kernel::kChunked:
        return attend_in_strips(call, false, plan.fused == FusedKind::kNetwork);
      case Kernel::kReference:
        return attend_by_definition(call);
      case Kernel::kRowHook:
        return attend_for_hook(call);
      case Kernel::kChannels:
        break;  // done above
    }
    return {};
  }();
  return encoding.finish(context, mixed.out, mixed.extra);
}

namespace {

/// On a GPU a record chooses among routes, and LibTorch's takes one of several kernels by shape, dtype and settings.
/// @param plain `attend_plain` can take it
std::string bare_route(const PositionalEncoding& encoding, const Span& span, at::ScalarType dtype, bool needs_grad,
                       bool plain) {
  if (!span.device.is_cuda() && kernels::plugin_for(span.device, dtype) == nullptr) return "fused";
  const Shape& shape = encoding.shape();
  const auto options = at::TensorOptions(dtype).device(span.device);
  const auto like = [&](std::int64_t heads, std::int64_t rows) {
    return at::empty({span.batch, heads, rows, shape.head_width}, options).requires_grad_(needs_grad);
  };
  const Tensor q = like(shape.query_heads, span.queries), k = like(shape.key_value_heads, span.keys);
  const PeCudaAttentionRoute by = plain ? plain_choice({q, k, k, 1}).by : PeCudaAttentionRoute::kLibTorch;
  if (by == PeCudaAttentionRoute::kCudnn) return "fused, cuDNN's attention";
  if (by == PeCudaAttentionRoute::kPlugin) return "fused, the plug-in's attention";
  if (!span.device.is_cuda()) return "fused";
  return support::cat("fused, LibTorch's ", backend_name(attention_backend(q, k, k, std::nullopt, span.causal, 1)),
                      " attention");
}

}  // namespace

std::string route_name(PositionalEncoding& encoding, const Span& span, at::ScalarType dtype, bool needs_grad,
                       const AttendOptions& options) {
  const std::int64_t window = window_of(encoding, 0);
  const Plan plan = make_plan(encoding, span, window > 0 && window < span.keys, dtype, needs_grad, options);
  switch (plan.kernel) {
    case Kernel::kBare:
      return bare_route(encoding, span, dtype, needs_grad, plan.causal_flag && !plan.traits.extra_values);
    case Kernel::kCausal:
      return plan.fused == FusedKind::kGated       ? "fused, gated distance"
             : plan.fused == FusedKind::kBent      ? "fused, bent distance"
             : plan.fused == FusedKind::kPairs     ? "fused, bias of pairs"
             : plan.fused == FusedKind::kStick     ? "fused, stick-breaking"
             : plan.fused == FusedKind::kCounts    ? "fused, counts"
             : plan.fused == FusedKind::kEdges     ? "fused, edges"
             : plan.traits.bias != BiasKind::kNone ? "fused, distance table"
             : plan.traits.sink                    ? "fused, sink"
                                                   : "fused";
    case Kernel::kChannels:
      return "fused, extra channels";
    case Kernel::kMask:
      return "fused, additive mask";
    case Kernel::kSoftmax:
      return plan.traits.sink ? "fused, sink" : "fused, trained mask";
    case Kernel::kChunked:
      return plan.fused == FusedKind::kNetwork ? "fused, network of pairs" : "chunked";
    case Kernel::kReference:
      return "reference";
    case Kernel::kRowHook:
      return "chunked, for a hook";
  }
  return "";
}

}  // namespace pe::encodings

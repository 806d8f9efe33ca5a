// The route of causal softmax with or without a bias by distance. Its kernels hold a few rows of logits at a time, and
// give the gradients by q, k, v and the table in one more pass.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <vector>

#include "cuda/plugin.h"
#include "encodings/attention/attend_rows.h"
#include "kernels/dispatch.h"
#include "kernels/product_bf16.h"

namespace pe::encodings {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// Inputs without a gradient.
struct CausalConstants {
  Tensor starts;  // or undefined
  double scale = 1;
  FusedKind kind = FusedKind::kNone;  // of the bias whose tensors follow q, k and v; kNone: a table's, or there is none
  bool attend_current = false;        // of a stick
};

struct CausalInputs {
  Tensor q, k, v, table;  // the last may be undefined
  FusedBias bias;         // [B,H,·] fp32
  Tensor pieces;          // of a bent distance, [H,33,2]
  Tensor nearer;          // PeCudaScan's sums; undefined without a scan or without gradients
  CausalConstants fixed;

  CausalInputs(at::TensorList tensors, CausalConstants given)
      : q(tensors[0]), k(tensors[1]), v(tensors[2]), fixed(std::move(given)) {
    if (fixed.kind == FusedKind::kGated) {
      bias.gated = {tensors[3], tensors[4], tensors.size() > 5 ? tensors[5] : Tensor()};
    } else if (fixed.kind == FusedKind::kBent) {
      bias.bent = {tensors[3], tensors[4], tensors[5], tensors[6], tensors[7], tensors[8], tensors[9]};
      pieces = tensors[10];
    } else if (fixed.kind == FusedKind::kPairs) {
      bias.pairs = tensors[3];
    } else if (fixed.kind == FusedKind::kStick) {
      if (tensors.size() > 3) nearer = tensors[3];
    } else if (fixed.kind == FusedKind::kCounts) {
      bias.counts = tensors[3];
      if (tensors.size() > 4) nearer = tensors[4];
    } else if (fixed.kind == FusedKind::kEdges) {
      bias.edges = {tensors[3], tensors[4], tensors[5]};
      if (tensors.size() > 6) nearer = tensors[6];
    } else if (tensors.size() > 3) {
      table = tensors[3];
    }
  }

  const std::int64_t* starts() const {
    return fixed.starts.defined() ? fixed.starts.data_ptr<std::int64_t>() : nullptr;
  }
  std::int64_t starts_by_sequence() const {
    return fixed.starts.defined() && fixed.starts.dim() == 2 && fixed.starts.size(0) > 1 ? fixed.starts.stride(0) : 0;
  }
};

struct Result {
  Tensor out, lse;  // [B,H,T,d_v], [B,H,T]
};

struct Gradients {
  Tensor q, k, v, table;  // the last undefined where it is not wanted
  variable_list bias;     // by each tensor of a fused bias; undefined where there is none
};

/// A token's heads side by side, as the output projection reads them.
Result make_result(const CausalInputs& in) {
  const std::int64_t batch = in.q.size(0), heads = in.q.size(1), queries = in.q.size(2);
  return {at::empty({batch, queries, heads, in.v.size(3)}, in.v.options()).transpose(1, 2),
          at::empty({batch, heads, queries}, in.v.options().dtype(at::kFloat))};
}

Gradients make_gradients(const CausalInputs& in) {
  const auto made = [](const Tensor& like) { return at::empty(like.sizes(), like.options()); };
  return {made(in.q), made(in.k), made(in.v), {}, {}};
}

const float* floats_or_null(const Tensor& t) { return t.defined() ? t.data_ptr<float>() : nullptr; }

// ---- On the CPU

kernels::HeadStrides strides_of(const Tensor& heads) { return {heads.stride(0), heads.stride(1), heads.stride(2)}; }

float* scratch(std::int64_t floats) {
  thread_local std::vector<float> held;
  if (held.size() < static_cast<std::size_t>(floats)) held.resize(static_cast<std::size_t>(floats));
  return held.data();
}

kernels::AttentionShape shape_on_cpu(const CausalInputs& in, const Tensor& out) {
  return {.batch = in.q.size(0),
          .heads = in.q.size(1),
          .groups = in.k.size(1),
          .queries = in.q.size(2),
          .keys = in.k.size(2),
          .width = in.q.size(3),
          .value_width = in.v.size(3),
          .q = strides_of(in.q),
          .k = strides_of(in.k),
          .v = strides_of(in.v),
          .out = strides_of(out),
          .dout = {},
          .table = floats_or_null(in.table),
          .starts = in.starts(),
          .starts_batch = in.starts_by_sequence(),
          .scale = static_cast<float>(in.fixed.scale)};
}

Result on_cpu(const kernels::Table& kernel, const CausalInputs& in) {
  Result made = make_result(in);
  const kernels::AttentionShape shape = shape_on_cpu(in, made.out);
  const float *q = in.q.data_ptr<float>(), *k = in.k.data_ptr<float>(), *v = in.v.data_ptr<float>();
  float *out = made.out.data_ptr<float>(), *lse = made.lse.data_ptr<float>();
  const kernels::Bf16Table* bf16 = kernels::bf16_products_of(in.q);
  at::parallel_for(0, shape.batch * shape.heads * kernels::attention_blocks(shape.queries), 1,
                   [&](std::int64_t first, std::int64_t last) {
                     if (bf16 != nullptr) {
                       kernel.attention_in_bf16(*bf16, shape, q, k, v, out, lse, first, last,
                                                scratch(kernels::attention_in_bf16_scratch(shape)));
                     } else {
                       kernel.attention(shape, q, k, v, out, lse, first, last,
                                        scratch(kernels::attention_scratch(shape)));
                     }
                   });
  return made;
}

Gradients backward_on_cpu(const kernels::Table& kernel, const CausalInputs& in, const Result& made, const Tensor& dout,
                          const Tensor& dlse, bool table_too) {
  kernels::AttentionShape shape = shape_on_cpu(in, made.out);
  shape.dout = strides_of(dout);
  Gradients found = make_gradients(in);
  Tensor tables;  // of each sequence
  if (table_too) tables = at::empty({shape.batch, shape.heads, shape.keys}, in.table.options());
  const kernels::AttentionGradients to{found.q.data_ptr<float>(), found.k.data_ptr<float>(), found.v.data_ptr<float>(),
                                       table_too ? tables.data_ptr<float>() : nullptr};
  const float *q = in.q.data_ptr<float>(), *k = in.k.data_ptr<float>(), *v = in.v.data_ptr<float>();
  const float *out = made.out.data_ptr<float>(), *upstream = dout.data_ptr<float>(), *lse = made.lse.data_ptr<float>();
  const kernels::Bf16Table* bf16 = kernels::bf16_products_of(in.q);
  at::parallel_for(0, shape.batch * shape.groups, 1, [&](std::int64_t first, std::int64_t last) {
    if (bf16 != nullptr) {
      kernel.attention_in_bf16_backward(*bf16, shape, q, k, v, out, upstream, lse, floats_or_null(dlse), to, first,
                                        last, scratch(kernels::attention_in_bf16_backward_scratch(shape)));
    } else {
      kernel.attention_backward(shape, q, k, v, out, upstream, lse, floats_or_null(dlse), to, first, last,
                                scratch(kernels::attention_backward_scratch(shape)));
    }
  });
  if (table_too) found.table = tables.sum(0);
  return found;
}

// ---- By the plug-in

const void* halves_or_null(const Tensor& t) { return t.defined() ? t.data_ptr() : nullptr; }

/// Numbers of edges as sums of two bf16 ones. @param twice  each part follows itself, as PeCudaEdges has keys
Tensor in_two_parts(const Tensor& numbers, bool twice) {
  const Tensor high = numbers.to(at::kBFloat16), low = (numbers - high).to(at::kBFloat16);
  return twice ? at::cat({high, high, low, low}, -1) : at::cat({high, low, high, low}, -1);
}

PeCudaStrides plugin_strides(const Tensor& heads) {
  return heads.defined() ? PeCudaStrides{heads.stride(0), heads.stride(1), heads.stride(2)} : PeCudaStrides{};
}

std::int64_t stride_or_0(const Tensor& t, int dimension) {
  return t.defined() && t.size(dimension) > 1 ? t.stride(dimension) : 0;
}

PeCudaAttention shape_for_plugin(const CausalInputs& in, const Tensor& out, const Tensor& dout = {},
                                 const Gradients& to = {}) {
  const bool breaks = in.fixed.kind == FusedKind::kStick;
  return {.batch = in.q.size(0),
          .heads = in.q.size(1),
          .groups = in.k.size(1),
          .queries = in.q.size(2),
          .keys = in.k.size(2),
          .width = in.q.size(3),
          .q = plugin_strides(in.q),
          .k = plugin_strides(in.k),
          .v = plugin_strides(in.v),
          .out = plugin_strides(out),
          .dout = plugin_strides(dout),
          .dq = plugin_strides(to.q),
          .dk = plugin_strides(to.k),
          .dv = plugin_strides(to.v),
          .starts = in.starts(),
          .starts_by_sequence = in.starts_by_sequence(),
          .table = floats_or_null(in.table),
          .scale = static_cast<float>(in.fixed.scale),
          .places = floats_or_null(in.bias.gated.places),
          .query_gates = floats_or_null(in.bias.gated.query_gates),
          .key_gates = floats_or_null(in.bias.gated.key_gates),
          .bent = {floats_or_null(in.bias.bent.measure), floats_or_null(in.bias.bent.derivative),
                   floats_or_null(in.bias.bent.numbers), floats_or_null(in.bias.bent.knots),
                   floats_or_null(in.bias.bent.bends), floats_or_null(in.pieces)},
          .pairs = {floats_or_null(in.bias.pairs), stride_or_0(in.bias.pairs, 0), stride_or_0(in.bias.pairs, 1)},
          .stick = {breaks, breaks && !in.fixed.attend_current ? 1 : 0},
          .counts = {floats_or_null(in.bias.counts), in.bias.counts.defined() ? in.bias.counts.size(3) : 0},
          .edges = {halves_or_null(in.bias.edges.queries), halves_or_null(in.bias.edges.keys),
                    floats_or_null(in.bias.edges.slopes)},
          .scan = {in.nearer.defined() ? in.nearer.data_ptr<float>() : nullptr, nullptr}};
}

/// Memory for gradients by a fused bias. `by_tensor` makes them gradients by its tensors after the kernels have run.
class BiasGradients {
 public:
  BiasGradients(const CausalInputs& in, bool pairs_too) : in_(in) {
    const auto& [gated, bent, pairs, stick, counts, edges] = in.bias;
    if (in.fixed.kind == FusedKind::kGated) {
      made_ = {at::empty_like(gated.places), at::empty_like(gated.query_gates), at::empty_like(gated.places),
               at::empty_like(gated.query_gates)};
      to_.gated = {floats(1), floats(3), floats(2), floats(0)};
    } else if (in.fixed.kind == FusedKind::kBent) {
      const std::int64_t parts = pe_cuda_bent_parts(in.q.size(2));
      made_ = {at::empty_like(bent.numbers), at::empty_like(bent.numbers),
               at::empty({in.q.size(0), in.q.size(1), parts, 2, pe_cuda_knots + 1}, bent.numbers.options())};
      to_.bent = {floats(0), floats(1), floats(2)};
    } else if (in.fixed.kind == FusedKind::kPairs) {
      made_ = {pairs_too ? at::empty_like(pairs) : Tensor()};
      to_.pairs = pairs_too ? floats(0) : nullptr;
    } else if (in.fixed.kind == FusedKind::kCounts) {
      made_ = {at::zeros_like(counts)};
      to_.counts = floats(0);
    } else if (in.fixed.kind == FusedKind::kEdges) {
      const auto made = [&](const Tensor& rows) {
        return at::empty({rows.size(0), rows.size(1), rows.size(2), pe_cuda_edge_numbers}, edges.slopes.options());
      };
      made_ = {made(edges.queries), made(edges.keys), Tensor()};
      to_.edges = {floats(0), floats(1)};
    }
  }
  const PeCudaBiasGradients* to() const { return in_.fixed.kind == FusedKind::kNone ? nullptr : &to_; }

  variable_list by_tensor() const {
    if (in_.fixed.kind == FusedKind::kGated) {
      const std::int64_t keys = in_.k.size(2), queries = in_.q.size(2);
      made_[0].narrow(2, keys - queries, queries).add_(made_[3]);
      variable_list found{made_[0], made_[1]};
      if (in_.bias.gated.key_gates.defined()) found.push_back(made_[2]);
      return found;
    }
    if (in_.fixed.kind == FusedKind::kBent) {
      const BentDistance& bent = in_.bias.bent;
      const Tensor sums = made_[2].sum({2, 0}), past = sums.narrow(2, 0, pe_cuda_knots);
      const Tensor slopes = past.select(1, 0), inputs = past.select(1, 1);
      return {Tensor(),
              Tensor(),
              made_[1].sum({2, 0}),
              made_[0],
              (bent.bends * slopes).neg_(),
              at::addcmul(inputs, bent.knots, slopes, -1),
              sums.select(2, pe_cuda_knots).flip({1}),
              Tensor()};
    }
    return made_;  // the bias of pairs, the logits of counts, the numbers of edges, or nothing
  }

 private:
  float* floats(std::size_t i) const { return made_[i].data_ptr<float>(); }

  const CausalInputs& in_;
  variable_list made_;
  PeCudaBiasGradients to_;
};

Result by_plugin(const PeCudaTable& plugin, const CausalInputs& in) {
  Result made = make_result(in);
  const PeCudaAttention shape = shape_for_plugin(in, made.out);
  kernels::require_launched(
      plugin.attention(&shape, in.q.data_ptr(), in.k.data_ptr(), in.v.data_ptr(), made.out.data_ptr(),
                       made.lse.data_ptr<float>(), kernels::stream_of(&plugin, in.q)),
      "attention");
  return made;
}

Gradients backward_by_plugin(const PeCudaTable& plugin, const CausalInputs& in, const Result& made, const Tensor& dout,
                             const Tensor& dlse, bool bias_too) {
  Gradients found = make_gradients(in);
  const bool table_too = bias_too && in.table.defined();
  PeCudaAttention shape = shape_for_plugin(in, made.out, dout, found);
  void* stream = kernels::stream_of(&plugin, in.q);
  const bool breaks = in.fixed.kind == FusedKind::kStick;
  const Tensor delta = !breaks ? at::empty_like(made.lse) : dlse.defined() ? dlse.neg() : at::zeros_like(made.lse);
  const Tensor farther = in.nearer.defined() ? at::zeros_like(in.nearer) : Tensor();
  if (farther.defined()) shape.scan.farther = farther.data_ptr<float>();
  if (!breaks)
    kernels::require_launched(plugin.attention_products(&shape, dout.data_ptr(), made.out.data_ptr(),
                                                        floats_or_null(dlse), delta.data_ptr<float>(), stream),
                              "attention_products");
  Tensor scratch;
  if (table_too) {
    found.table = at::zeros_like(in.table);
    scratch = at::empty({pe_cuda_attention_scratch(shape)}, in.table.options());
  }
  const BiasGradients dbias(in, bias_too);
  kernels::require_launched(
      plugin.attention_backward(&shape, in.q.data_ptr(), in.k.data_ptr(), in.v.data_ptr(), dout.data_ptr(),
                                made.lse.data_ptr<float>(), delta.data_ptr<float>(), found.q.data_ptr(),
                                found.k.data_ptr(), found.v.data_ptr(),
                                table_too ? found.table.data_ptr<float>() : nullptr,
                                table_too ? scratch.data_ptr<float>() : nullptr, dbias.to(), stream),
      "attention_backward");
  found.bias = dbias.by_tensor();
  return found;
}

/// A head's row is read in one go, on a GPU sixteen bytes at a time.
Tensor readable(const Tensor& heads, bool on_cpu) {
  bool fits = heads.stride(3) == 1;
  if (!on_cpu) {
    for (int i = 0; i < 3; ++i) fits = fits && heads.stride(i) % 8 == 0;
    fits = fits && reinterpret_cast<std::uintptr_t>(heads.data_ptr()) % 16 == 0;
  }
  return fits ? heads : heads.clone(at::MemoryFormat::Contiguous);
}

bool needs_gradient(at::TensorList tensors) {
  return std::any_of(tensors.begin(), tensors.end(), [](const Tensor& t) { return t.requires_grad(); });
}

class CausalFunction : public torch::autograd::Function<CausalFunction> {
 public:
  /// @param tensors q, k, v and, where there are any, the table, or the tensors of a fused bias.
  static variable_list forward(AutogradContext* context, at::TensorList tensors, const CausalConstants& fixed) {
    const kernels::Table* cpu = kernels::cpu_for(tensors[0]);
    variable_list kept;
    for (int i = 0; i < 3; ++i) kept.push_back(readable(tensors[i], cpu != nullptr));
    for (std::size_t i = 3; i < tensors.size(); ++i) kept.push_back(tensors[i].contiguous());
    const bool edges = fixed.kind == FusedKind::kEdges;
    if (edges) kept[3] = in_two_parts(kept[3], false), kept[4] = in_two_parts(kept[4], true);
    if ((fixed.kind == FusedKind::kStick || fixed.kind == FusedKind::kCounts || edges) && needs_gradient(tensors)) {
      const Tensor& q = kept[0];
      // Zero where no query sees a block of keys.
      kept.push_back(at::zeros({q.size(0), q.size(1), pe_cuda_scan_blocks(kept[1].size(2)), q.size(2)},
                               q.options().dtype(at::kFloat)));
    }
    const CausalInputs in(kept, {fixed.starts.defined() ? fixed.starts.contiguous() : fixed.starts, fixed.scale,
                                 fixed.kind, fixed.attend_current});
    const Result made = cpu != nullptr ? on_cpu(*cpu, in) : by_plugin(*kernels::plugin_for(in.q), in);
    kept.insert(kept.end(), {made.out, made.lse});
    context->save_for_backward(kept);
    context->saved_data["starts"] = in.fixed.starts;
    context->saved_data["scale"] = in.fixed.scale;
    context->saved_data["kind"] = static_cast<std::int64_t>(in.fixed.kind);
    context->saved_data["attend_current"] = in.fixed.attend_current;
    context->set_materialize_grads(false);
    return {made.out, made.lse};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    variable_list kept = context->get_saved_variables();
    const Result made{kept[kept.size() - 2], kept.back()};
    kept.resize(kept.size() - 2);
    const CausalInputs in(kept, {context->saved_data["starts"].toTensor(), context->saved_data["scale"].toDouble(),
                                 static_cast<FusedKind>(context->saved_data["kind"].toInt()),
                                 context->saved_data["attend_current"].toBool()});
    const kernels::Table* cpu = kernels::cpu_for(in.q);
    const Tensor dout = gradients[0].defined() ? readable(gradients[0], cpu != nullptr) : at::zeros_like(made.out);
    const Tensor dlse = gradients[1].defined() ? gradients[1].contiguous() : gradients[1];
    const bool bias_too = kept.size() > 3 && in.fixed.kind != FusedKind::kStick && context->needs_input_grad(3);
    const bool table_too = in.table.defined() && bias_too;
    const Gradients found = cpu != nullptr
                                ? backward_on_cpu(*cpu, in, made, dout, dlse, table_too)
                                : backward_by_plugin(*kernels::plugin_for(in.q), in, made, dout, dlse, bias_too);
    variable_list result{found.q, found.k, found.v};
    if (in.table.defined()) result.push_back(found.table);
    result.insert(result.end(), found.bias.begin(), found.bias.end());
    result.emplace_back();  // the fixed inputs
    return result;
  }
};

}  // namespace

namespace {

/// The lines before, between and after knots: slope and value at 0, [H,33,2].
Tensor pieces_of(const BentDistance& bent) {
  at::NoGradGuard no_gradients;
  const Tensor changes = at::stack({bent.bends, (bent.bends * bent.knots).neg_()}, 1);  // [H,2,32]
  const Tensor all = at::cat({bent.line.unsqueeze(-1), changes}, -1);
  const Tensor earlier = at::ones({all.size(2), all.size(2)}, all.options()).triu();
  return at::matmul(all, earlier).transpose(1, 2).contiguous();
}

}  // namespace

bool has_causal_kernel(const Span& span, at::ScalarType type, bool plain, std::int64_t width) {
  if (kernels::cpu_for(span.device, type) != nullptr) return true;
  const PeCudaTable* plugin = kernels::plugin_for(span.device, type);
  // LibTorch's own know all of a GPU, and nothing of biases, documents and sinks.
  return plugin != nullptr && type == at::kBFloat16 && (!plain || span.doc_start.defined()) &&
         plugin->attends(span.device.is_cuda() ? span.device.index() : 0, width);
}

bool has_fused_bias_kernel(const Span& span, at::ScalarType type, std::int64_t width) {
  return kernels::cpu_for(span.device, type) == nullptr && has_causal_kernel(span, type, false, width);
}

bool takes_widths(const Tensor& q, const Tensor& v) { return kernels::cpu_for(q) != nullptr || q.size(3) == v.size(3); }

Causal attend_causal(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& table, const FusedBias& bias,
                     const Tensor& starts, double scale, const Tensor& sink) {
  variable_list tensors{q, k, v};
  FusedKind kind = FusedKind::kNone;
  const auto of_rows = [&](const Tensor& t) { return t.to(at::kFloat).expand({q.size(0), q.size(1), t.size(2)}); };
  if (table.defined()) tensors.push_back(table.to(at::kFloat));
  if (const GatedDistance& gated = bias.gated; gated.places.defined()) {
    kind = FusedKind::kGated;
    tensors.insert(tensors.end(), {of_rows(gated.places), of_rows(gated.query_gates)});
    if (gated.key_gates.defined()) tensors.push_back(of_rows(gated.key_gates));
  }
  if (const BentDistance& bent = bias.bent; bent.measure.defined()) {
    kind = FusedKind::kBent;
    tensors.insert(tensors.end(), {bent.measure, bent.derivative, bent.parameter, of_rows(bent.numbers), bent.knots,
                                   bent.bends, bent.line, pieces_of(bent)});
  }
  if (bias.pairs.defined()) {
    kind = FusedKind::kPairs;
    tensors.push_back(bias.pairs.to(at::kFloat));
  }
  if (bias.stick) kind = FusedKind::kStick;
  if (bias.counts.defined()) {
    kind = FusedKind::kCounts;
    tensors.push_back(bias.counts.to(at::kFloat));
  }
  if (const PathOfEdges& edges = bias.edges; edges.queries.defined()) {
    kind = FusedKind::kEdges;
    for (const Tensor& t : {edges.queries, edges.keys, edges.slopes}) tensors.push_back(t.to(at::kFloat));
  }
  const variable_list made = CausalFunction::apply(
      at::TensorList(tensors), CausalConstants{starts, scale, kind, bias.stick && bias.stick->attend_current});
  if (bias.stick && bias.stick->remainder) {
    const Tensor own = repeat_groups(v.narrow(2, v.size(2) - q.size(2), q.size(2)), q.size(1));
    return {made[0] + at::exp(-made[1]).to(own.scalar_type()).unsqueeze(-1) * own, {}};
  }
  if (!sink.defined()) return {made[0], {}};
  const Tensor logit = sink.to(made[1].scalar_type()).view({sink.dim() == 1 ? 1 : sink.size(0), made[1].size(1), -1});
  const Tensor kept = at::exp(made[1] - at::logaddexp(made[1], logit)).unsqueeze(-1);  // the share that the sink leaves
  return {made[0] * kept.to(made[0].scalar_type()), kept};
}

}  // namespace pe::encodings

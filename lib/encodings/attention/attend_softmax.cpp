// The route of plain softmax with a trained bias or a sink. With lse the logarithm of a row's sum (the sink's part
// included), P = exp(S − lse) and D = Σ dO·O:
//     dS = P ⊙ (dO Vᵀ − D),  dQ = scale·dS K,  dK = scale·dSᵀ Q,  dV = Pᵀ dO,  d sink = −Σ exp(sink − lse)·D
// So a range of rows needs its logits once more and nothing else. The bias alone goes through autograd.
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "encodings/attention/attend_rows.h"

namespace pe::encodings {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

bool has_cpu_kernel(const Tensor& q) {
  return q.is_cpu() && (q.scalar_type() == at::kFloat || q.scalar_type() == at::kDouble);
}

struct RowsResult {
  Tensor out, lse;  // [B,H,rows,d_h], [B,H,rows]
};

/// The keys that a range of rows sees: keys before its windows are left out.
struct VisibleKeys {
  explicit VisibleKeys(const Rows& rows, const Tensor& all_bias = {})
      : first(first_seen(rows)),
        count(rows.keys - first),
        k(rows.k.narrow(2, first, count)),
        v(rows.v.narrow(2, first, count)),
        hidden(from_key(rows.visible, first).logical_not()),
        bias(all_bias.defined() ? from_key(all_bias, first) : all_bias) {}
  std::int64_t first, count;
  Tensor k, v, hidden, bias;
};

/// Rows of plain softmax, by the fused kernel of the CPU where there is one. The `lse` is for the backward pass.
RowsResult softmax_rows(const Rows& rows, const Tensor& all_bias) {
  const at::ScalarType type = table_type(rows.q.scalar_type());
  const VisibleKeys seen(rows, all_bias);
  const Tensor &hidden = seen.hidden, &bias = seen.bias;
  if (has_cpu_kernel(rows.q)) {
    const Tensor mask = bias.defined()
                            ? bias.to(type).masked_fill(hidden, kMinusInfinity)
                            : at::zeros(hidden.sizes(), rows.q.options()).masked_fill_(hidden, kMinusInfinity);
    auto [out, lse] = at::_scaled_dot_product_flash_attention_for_cpu(rows.q, repeat_groups(seen.k, rows.q.size(1)),
                                                                      repeat_groups(seen.v, rows.q.size(1)), 0.0, false,
                                                                      mask, rows.scale);
    return {out, lse};
  }
  Tensor s = products(rows.q, seen.k).mul_(rows.scale);
  if (bias.defined()) s = s.add_(bias);
  s.masked_fill_(hidden, kMinusInfinity);
  const Tensor lse = s.logsumexp(-1);
  return {mix(s.sub_(lse.unsqueeze(-1)).exp_(), seen.v), lse};
}

/// The sink's logits as [1,H,1] or [B,H,T], or undefined.
Tensor sink_of(PositionalEncoding& encoding, const Traits& traits, const LayerContext& context,
               const std::vector<Tensor>& inputs) {
  if (!traits.sink) return {};
  const Tensor sink = encoding.normaliser(context, inputs)->sink_logits();
  return sink.dim() == 1 ? sink.view({1, -1, 1}) : sink;
}

/// From the slopes of the logits that are seen to the bias's gradient, 0 for keys that are not.
Tensor bias_gradient(const Tensor& slopes, const Tensor& bias, std::int64_t first) {
  const Tensor all = first == 0 ? slopes : at::constant_pad_nd(slopes, {first, 0});
  return at::sum_to(all, bias.sizes()).to(bias.scalar_type());
}

class SoftmaxFunction : public torch::autograd::Function<SoftmaxFunction> {
 public:
  static Tensor forward(AutogradContext* context, c10::intrusive_ptr<Job> job, at::TensorList tensors) {
    context->saved_data["job"] = c10::IValue::make_capsule(job);
    const RowSource source = unpack(tensors, job->slots);
    const Span& span = job->state.span;
    const bool biased = job->traits.bias != BiasKind::kNone;
    const std::int64_t step = job->chunk;
    std::vector<Tensor> outs((span.queries + step - 1) / step), sums(outs.size());
    for_each_strip({span.queries, step}, [&](std::int64_t c, std::int64_t begin, std::int64_t end) {
      const Rows rows = make_rows(job->context, source, job->scale, begin, end);
      const RowsResult result = softmax_rows(rows, biased ? job->encoding.bias(rows) : Tensor());
      outs[c] = result.out;
      sums[c] = result.lse;
    });
    Tensor out = joined(outs), lse = joined(sums);
    const Tensor sink = sink_of(job->encoding, job->traits, job->context, source.inputs);
    if (sink.defined()) {
      const Tensor total = at::logaddexp(lse, sink.to(lse.scalar_type()));
      out = out * at::exp(lse - total).unsqueeze(-1);
      lse = total;
    }
    variable_list saved(tensors.vec());
    saved.push_back(out);
    saved.push_back(lse);
    context->save_for_backward(saved);
    return out.to(source.q.scalar_type());
  }

  static variable_list backward(AutogradContext* context, variable_list gradients) {
    variable_list tensors = context->get_saved_variables();
    const auto job = c10::static_intrusive_pointer_cast<Job>(context->saved_data["job"].toCapsule());
    const Tensor lse = tensors.back(), out = tensors[tensors.size() - 2];
    tensors.resize(tensors.size() - 2);
    variable_list wanted(tensors.size());
    bool bias_wanted = false;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (!context->needs_input_grad(i)) continue;
      wanted[i] = at::zeros_like(tensors[i], tensors[i].options().dtype(table_type(tensors[i].scalar_type())));
      bias_wanted = bias_wanted || job->slots[i] >= kFixedSlots;
    }
    const auto gradient_of = [&](std::size_t slot) -> Tensor& {
      static thread_local Tensor nothing;
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        if (job->slots[i] == slot) return wanted[i];
      }
      return nothing = Tensor();
    };
    Tensor &dq = gradient_of(0), &dk = gradient_of(1), &dv = gradient_of(2);
    const RowSource source = unpack(tensors, job->slots);
    const at::ScalarType type = out.scalar_type();
    const Tensor upstream = gradients[0].to(type);
    const Tensor inner = (upstream * out).sum(-1);  // D, [B,H,T]
    const Span& span = job->state.span;
    const bool biased = job->traits.bias != BiasKind::kNone;

    for (std::int64_t begin = 0; begin < span.queries; begin += job->chunk) {
      const std::int64_t end = std::min(span.queries, begin + job->chunk), count = end - begin;
      // The bias of these rows, under autograd where its inputs ask for gradients.
      variable_list leaves = tensors, asked;
      std::vector<std::size_t> which;
      for (std::size_t i = 0; i < tensors.size() && bias_wanted && biased; ++i) {
        if (job->slots[i] < kFixedSlots || !wanted[i].defined()) continue;
        leaves[i] = tensors[i].detach().requires_grad_(true);
        asked.push_back(leaves[i]);
        which.push_back(i);
      }
      const Rows rows = make_rows(job->context, unpack(leaves, job->slots), job->scale, begin, end);
      Tensor bias;
      if (biased) {
        at::AutoGradMode with_gradients(!asked.empty());
        bias = job->encoding.bias(rows);
      }
      const VisibleKeys seen(rows, bias);
      const Tensor &q = rows.q, &k = seen.k, &v = seen.v;
      const Tensor d_out = gradients[0].narrow(2, begin, count).to(v.scalar_type());
      Tensor p = is_half(q.scalar_type()) ? products(q, k).mul_(job->scale) : products(q * job->scale, k);
      if (biased) p.add_(seen.bias.detach());
      p.sub_(lse.narrow(2, begin, count).unsqueeze(-1)).exp_().masked_fill_(seen.hidden, 0.0);
      if (dv.defined()) dv.narrow(2, seen.first, seen.count).add_(gathered(p, d_out, v.size(1)));
      Tensor ds = products(d_out, v).sub_(inner.narrow(2, begin, count).unsqueeze(-1)).mul_(p);
      if (dq.defined()) dq.narrow(2, begin, count).add_(mix(ds, k), job->scale);
      if (dk.defined()) dk.narrow(2, seen.first, seen.count).add_(gathered(ds, q, k.size(1)), job->scale);
      if (asked.empty() || !bias.requires_grad()) continue;
      const variable_list found = torch::autograd::grad({bias}, asked, {bias_gradient(ds, bias, seen.first)},
                                                        std::nullopt, false, /*allow_unused=*/true);
      for (std::size_t n = 0; n < which.size(); ++n) {
        if (found[n].defined()) wanted[which[n]].add_(found[n]);
      }
    }
    add_sink_gradient(*job, tensors, lse, inner, wanted);
    variable_list result{Tensor()};  // the job has no gradient
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      result.push_back(wanted[i].defined() ? wanted[i].to(tensors[i].scalar_type()) : Tensor());
    }
    return result;
  }

 private:
  static void add_sink_gradient(Job& job, const variable_list& tensors, const Tensor& lse, const Tensor& inner,
                                variable_list& wanted) {
    if (!job.traits.sink) return;
    variable_list leaves = tensors, asked;
    std::vector<std::size_t> which;
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      if (job.slots[i] < kFixedSlots || !wanted[i].defined()) continue;
      leaves[i] = tensors[i].detach().requires_grad_(true);
      asked.push_back(leaves[i]);
      which.push_back(i);
    }
    if (asked.empty()) return;
    at::AutoGradMode with_gradients(true);
    const Tensor sink = sink_of(job.encoding, job.traits, job.context, unpack(leaves, job.slots).inputs);
    if (!sink.requires_grad()) return;
    const Tensor share = at::exp(sink.detach().to(lse.scalar_type()) - lse);  // [B,H,T]
    const Tensor upstream = -at::sum_to(share * inner, sink.sizes()).to(sink.scalar_type());
    const variable_list found =
        torch::autograd::grad({sink}, asked, {upstream}, std::nullopt, false, /*allow_unused=*/true);
    at::NoGradGuard without_gradients;
    for (std::size_t n = 0; n < which.size(); ++n) {
      if (found[n].defined()) wanted[which[n]].add_(found[n]);
    }
  }
};

}  // namespace

Tensor attend_softmax(c10::intrusive_ptr<Job> job, at::TensorList tensors) {
  return SoftmaxFunction::apply(std::move(job), tensors);
}

}  // namespace pe::encodings

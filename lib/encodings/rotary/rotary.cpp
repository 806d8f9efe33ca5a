#include "encodings/rotary/rotary.h"

#include <torch/csrc/autograd/custom_function.h>

#include "kernels/ops.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A table as it broadcasts over [B,H,T,n].
Tensor table_for_heads(const Tensor& table, std::int64_t heads) {
  if (table.dim() == 3) return table.unsqueeze(1);
  if (table.dim() == 2 || table.size(1) == heads) return table;
  return table.repeat_interleave(heads / table.size(1), 1);
}

Tensor rotate_with_operators(const Tensor& x, const Tensor& cos, const Tensor& sin, PairLayout layout) {
  const std::int64_t pairs = cos.size(-1);
  const Tensor rotated = x.narrow(-1, 0, 2 * pairs).to(cos.scalar_type());
  const Tensor c = table_for_heads(cos, x.size(1)), s = table_for_heads(sin, x.size(1));
  Tensor out;
  if (layout == PairLayout::kHalf) {
    const Tensor a = rotated.narrow(-1, 0, pairs), b = rotated.narrow(-1, pairs, pairs);
    out = at::cat({a * c - b * s, a * s + b * c}, -1);
  } else {
    const Tensor both = rotated.unflatten(-1, {pairs, 2});
    const Tensor a = both.select(-1, 0), b = both.select(-1, 1);
    out = at::stack({a * c - b * s, a * s + b * c}, -1).flatten(-2);
  }
  out = out.to(x.scalar_type());
  return x.size(-1) == 2 * pairs ? out : at::cat({out, x.narrow(-1, 2 * pairs, x.size(-1) - 2 * pairs)}, -1);
}

#pragma GCC push_options
#pragma GCC optimize("O3")  // the compiler then works on several pairs at a time
/// Turns the pairs (u[i·step], v[i·step]) of one row.
template <std::int64_t step, typename Number>
void rotate_row(const Number* __restrict u, const Number* __restrict v, const Number* __restrict cos,
                const Number* __restrict sin, Number sign, std::int64_t pairs, Number* __restrict to_u,
                Number* __restrict to_v) {
  for (std::int64_t i = 0; i < pairs; ++i) {
    const Number a = u[i * step], b = v[i * step], cosine = cos[i], sine = sign * sin[i];
    to_u[i * step] = a * cosine - b * sine;
    to_v[i * step] = a * sine + b * cosine;
  }
}
#pragma GCC pop_options

/// One pass over memory for the common case: a CPU tensor in the dtype of the tables.
template <typename Number>
void rotate_loop(const Tensor& x, const Tensor& cos, const Tensor& sin, PairLayout layout, double sign, Tensor& out) {
  const std::int64_t heads = x.size(1), length = x.size(2), width = x.size(3), pairs = cos.size(-1);
  const std::int64_t dims = cos.dim(), by_row = cos.stride(dims - 2);
  const std::int64_t by_head = dims == 4 ? cos.stride(1) : 0, groups = dims == 4 ? cos.size(1) : 1;
  const std::int64_t by_sequence = dims > 2 && cos.size(0) > 1 ? cos.stride(0) : 0;
  const Number* c = cos.const_data_ptr<Number>();
  const Number* s = sin.const_data_ptr<Number>();
  const Number* from = x.const_data_ptr<Number>();
  Number* to = out.mutable_data_ptr<Number>();
  const std::int64_t gap = layout == PairLayout::kHalf ? pairs : 1;
  at::parallel_for(0, x.size(0) * heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t bh = begin; bh < end; ++bh) {
      const std::int64_t b = bh / heads, h = bh % heads;
      const std::int64_t first = b * by_sequence + h * groups / heads * by_head;
      for (std::int64_t t = 0; t < length; ++t) {
        const Number* row = from + b * x.stride(0) + h * x.stride(1) + t * x.stride(2);
        Number* target = to + b * out.stride(0) + h * out.stride(1) + t * out.stride(2);
        const std::int64_t angle = first + t * by_row;
        const auto row_function = layout == PairLayout::kHalf ? rotate_row<1, Number> : rotate_row<2, Number>;
        row_function(row, row + gap, c + angle, s + angle, static_cast<Number>(sign), pairs, target, target + gap);
        for (std::int64_t i = 2 * pairs; i < width; ++i) target[i] = row[i];
      }
    }
  });
}

/// `sign` −1 rotates back, which is also the transpose and so the gradient.
Tensor rotate_values(const Tensor& x, const Tensor& cos, const Tensor& sin, PairLayout layout, double sign) {
  const auto by_kernel = kernels::operations_for(x).rotate;
  if (by_kernel != nullptr && cos.scalar_type() == at::kFloat)
    return by_kernel(x, {cos, sin, layout == PairLayout::kHalf}, sign);
  if (!x.is_cpu() || x.scalar_type() != cos.scalar_type()) {
    return rotate_with_operators(x, cos, sign < 0 ? -sin : sin, layout);
  }
  const Tensor source = x.stride(-1) == 1 ? x : x.contiguous();
  Tensor out = at::empty_like(source);
  if (out.stride(-1) != 1) out = at::empty(source.sizes(), source.options());
  if (x.scalar_type() == at::kDouble)
    rotate_loop<double>(source, cos, sin, layout, sign, out);
  else
    rotate_loop<float>(source, cos, sin, layout, sign, out);
  return out;
}

/// The two channels of each pair, [B,H,T,n] each.
std::pair<Tensor, Tensor> pairs_of(const Tensor& x, std::int64_t pairs, PairLayout layout) {
  if (layout == PairLayout::kHalf) return {x.narrow(-1, 0, pairs), x.narrow(-1, pairs, pairs)};
  const Tensor both = x.narrow(-1, 0, 2 * pairs).unflatten(-1, {pairs, 2});
  return {both.select(-1, 0), both.select(-1, 1)};
}

/// A gradient for every head and sequence, summed to the shape of the table that they read.
Tensor summed_like(const Tensor& gradient, const Tensor& table) {
  if (table.dim() == 2) return gradient.sum(at::IntArrayRef{0, 1});
  if (table.dim() == 3) return gradient.sum(1);
  const std::int64_t groups = table.size(1);
  const Tensor by_group = gradient.unflatten(1, {groups, gradient.size(1) / groups}).sum(2);
  return table.size(0) == 1 ? by_group.sum(0, /*keepdim=*/true) : by_group;
}

class RotateFunction : public torch::autograd::Function<RotateFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& cos, const Tensor& sin,
                        std::int64_t layout) {
    const bool learned = cos.requires_grad() || sin.requires_grad();
    context->save_for_backward(learned ? variable_list{cos, sin, x} : variable_list{cos, sin});
    context->saved_data["layout"] = layout;
    return rotate_values(x, cos, sin, static_cast<PairLayout>(layout), 1);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto layout = static_cast<PairLayout>(context->saved_data["layout"].toInt());
    const Tensor &cos = saved[0], &sin = saved[1];
    variable_list result(4);
    if (context->needs_input_grad(0)) result[0] = rotate_values(gradients[0], cos, sin, layout, -1);
    if (saved.size() > 2) {
      const std::int64_t n = cos.size(-1);
      const auto [u, v] = pairs_of(saved[2].to(cos.scalar_type()), n, layout);
      const auto [to_u, to_v] = pairs_of(gradients[0].to(cos.scalar_type()), n, layout);
      result[1] = summed_like((to_u * u).addcmul_(to_v, v), cos);
      result[2] = summed_like((to_v * u).addcmul_(to_u, v, -1), sin);
    }
    return result;
  }
};

}  // namespace

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, PairLayout layout) {
  if (cos.size(-1) == 0) return x;
  const bool alike = cos.stride(-1) == 1 && sin.strides() == cos.strides();
  return RotateFunction::apply(x, alike ? cos : cos.contiguous(), alike ? sin : sin.contiguous(),
                               static_cast<std::int64_t>(layout));
}

void RotaryOptions::describe(support::FieldVisitor& v) {
  v.field("base", base, "Wavelengths grow from 2π to 2π·base tokens.", {.min = 1});
  v.check(base > 1, "a base of 1 would rotate all pairs equally");
  v.choice("layout", layout, {{"half", PairLayout::kHalf}, {"interleaved", PairLayout::kInterleaved}},
           "Which channels form a pair: (i, i + d/2), or (2i, 2i + 1).");
}

void check_even_head(const std::string& kind, std::int64_t head_width) {
  if (head_width % 2 == 0 && head_width >= 2) return;
  throw support::ConfigError(
      support::cat("encoding '", kind, "' rotates pairs of channels, and the head width ", head_width, " is not even"),
      {}, "choose a width and a number of heads that give an even head width");
}

Rotary::Rotary(const std::string& kind, const Shape& shape, const RotaryOptions& options, RescalingPointer rescaling)
    : PositionalEncoding(shape), kind_(kind), options_(options), rescaling_(std::move(rescaling)) {
  check_even_head(kind, shape.head_width);
}

Facts Rotary::facts() const {
  Facts facts = own_facts();
  if (rescaling_ == nullptr) return facts;
  facts.length_dependent |= rescaling_->length_dependent();
  if (!rescaling_->shift_invariant()) facts.shift_invariant = ShiftInvariance::kNever;
  return facts;
}

FrequencySchedule Rotary::schedule() const {
  return {.theta = geometric_frequencies(options_.base, shape_.head_width),
          .base = options_.base,
          .width = shape_.head_width};
}

RotaryFrequencies Rotary::rescaled(const FrequencySchedule& of, const Span& span) const {
  return rescaling_ ? rescaling_->rescale(of, span) : RotaryFrequencies{.theta = of.theta};
}

void Rotary::rescale_with(RescalingPointer rescaling) {
  rescaling_ = std::move(rescaling);
  tables_.clear();
}

RotaryCache& Rotary::table(const Span& span) {
  const std::int64_t key = frequency_key(span);
  auto found = tables_.find(key);
  if (found == tables_.end()) {
    if (tables_.size() > 8) tables_.clear();  // an evaluation at many lengths need not keep them all
    found = tables_.emplace(key, RotaryCache(table_rule(span))).first;
  }
  return found->second;
}

void Rotary::rotate_heads(Heads& heads, const Span& span, const RotaryCache::Values& all) const {
  const std::int64_t offset = span.keys - span.queries, rows = all.cos.dim() - 2;
  heads.q = rotate(heads.q, all.cos.narrow(rows, offset, span.queries), all.sin.narrow(rows, offset, span.queries),
                   options_.layout);
  heads.k = rotate(heads.k, all.cos, all.sin, options_.layout);
}

RotatedPairs Rotary::laid_out(std::vector<double> theta, std::size_t pairs) const {
  RotatedPairs rotated{.first = {}, .second = {}, .theta = std::move(theta)};
  const bool half = options_.layout == PairLayout::kHalf;
  for (std::size_t i = 0; i < pairs; ++i) {
    rotated.first.push_back(static_cast<std::int64_t>(half ? i : 2 * i));
    rotated.second.push_back(static_cast<std::int64_t>(half ? i + pairs : 2 * i + 1));
  }
  return rotated;
}

std::optional<RotatedPairs> Rotary::rotated_pairs(int layer, const Span& span) const {
  const std::size_t pairs = schedule().theta.size();
  if (pairs == 0) return std::nullopt;
  return laid_out(table_rule(span).theta, pairs);
}

void Rotary::transform(LayerContext& context, Heads& heads) {
  rotate_heads(heads, context.span, tables_for(context, heads.q.scalar_type()));
}

std::optional<RotaryTables> rotary_tables(PositionalEncoding& encoding, LayerContext& context, at::ScalarType type) {
  auto* rotary = dynamic_cast<Rotary*>(&encoding);
  const Span& span = context.span;
  if (rotary == nullptr || !rotary->only_rotates() || span.queries != span.keys ||
      encoding.facts().heads_per_query != 1 || encoding.traits(span).needs_raw) {
    return std::nullopt;
  }
  const RotaryCache::Values values = rotary->tables_for(context, type);
  if (values.cos.size(-1) == 0 || values.cos.requires_grad()) return std::nullopt;
  return RotaryTables{values.cos, values.sin, rotary->layout()};
}

}  // namespace pe::encodings

#include "encodings/rotary.h"

#include "support/text.h"

namespace pe::encodings {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

Tensor rotate_with_operators(const Tensor& x, const Tensor& cos, const Tensor& sin, PairLayout layout) {
  const std::int64_t pairs = cos.size(-1);
  const Tensor turned = x.narrow(-1, 0, 2 * pairs).to(cos.scalar_type());
  const Tensor c = cos.dim() == 3 ? cos.unsqueeze(1) : cos, s = sin.dim() == 3 ? sin.unsqueeze(1) : sin;
  Tensor out;
  if (layout == PairLayout::kHalf) {
    const Tensor a = turned.narrow(-1, 0, pairs), b = turned.narrow(-1, pairs, pairs);
    out = at::cat({a * c - b * s, a * s + b * c}, -1);
  } else {
    const Tensor both = turned.unflatten(-1, {pairs, 2});
    const Tensor a = both.select(-1, 0), b = both.select(-1, 1);
    out = at::stack({a * c - b * s, a * s + b * c}, -1).flatten(-2);
  }
  out = out.to(x.scalar_type());
  return x.size(-1) == 2 * pairs ? out : at::cat({out, x.narrow(-1, 2 * pairs, x.size(-1) - 2 * pairs)}, -1);
}

/// One pass over memory for the common case: a CPU tensor in the dtype of the tables.
template <typename Number>
void rotate_loop(const Tensor& x, const Tensor& cos, const Tensor& sin, PairLayout layout, double sign, Tensor& out) {
  const std::int64_t heads = x.size(1), length = x.size(2), width = x.size(3), pairs = cos.size(-1);
  const bool by_batch = cos.dim() == 3;
  const Number* c = cos.const_data_ptr<Number>();
  const Number* s = sin.const_data_ptr<Number>();
  const Number* from = x.const_data_ptr<Number>();
  Number* to = out.mutable_data_ptr<Number>();
  const std::int64_t step = layout == PairLayout::kHalf ? 1 : 2, gap = layout == PairLayout::kHalf ? pairs : 1;
  at::parallel_for(0, x.size(0) * heads, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t bh = begin; bh < end; ++bh) {
      const std::int64_t b = bh / heads, h = bh % heads;
      for (std::int64_t t = 0; t < length; ++t) {
        const Number* row = from + b * x.stride(0) + h * x.stride(1) + t * x.stride(2);
        Number* target = to + b * out.stride(0) + h * out.stride(1) + t * out.stride(2);
        const std::int64_t angle = ((by_batch ? b * length : 0) + t) * pairs;
        for (std::int64_t i = 0; i < pairs; ++i) {
          const Number u = row[i * step], v = row[i * step + gap];
          const Number cosine = c[angle + i], sine = static_cast<Number>(sign) * s[angle + i];
          target[i * step] = u * cosine - v * sine;
          target[i * step + gap] = u * sine + v * cosine;
        }
        for (std::int64_t i = 2 * pairs; i < width; ++i) target[i] = row[i];
      }
    }
  });
}

/// `sign` −1 turns back, which is also the transpose and so the gradient.
Tensor rotate_values(const Tensor& x, const Tensor& cos, const Tensor& sin, PairLayout layout, double sign) {
  if (!x.is_cpu() || x.scalar_type() != cos.scalar_type()) {
    return rotate_with_operators(x, cos, sign < 0 ? -sin : sin, layout);
  }
  const Tensor source = x.stride(-1) == 1 ? x : x.contiguous();
  Tensor out = at::empty_like(source);
  if (out.stride(-1) != 1) out = at::empty(source.sizes(), source.options());
  if (x.scalar_type() == at::kDouble) rotate_loop<double>(source, cos, sin, layout, sign, out);
  else rotate_loop<float>(source, cos, sin, layout, sign, out);
  return out;
}

class RotateFunction : public torch::autograd::Function<RotateFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& cos, const Tensor& sin,
                        std::int64_t layout) {
    context->save_for_backward({cos, sin});
    context->saved_data["layout"] = layout;
    return rotate_values(x, cos, sin, static_cast<PairLayout>(layout), 1);
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto layout = static_cast<PairLayout>(context->saved_data["layout"].toInt());
    return {rotate_values(gradients[0], saved[0], saved[1], layout, -1), Tensor(), Tensor(), Tensor()};
  }
};

}  // namespace

Tensor rotate(const Tensor& x, const Tensor& cos, const Tensor& sin, PairLayout layout) {
  if (cos.requires_grad() || sin.requires_grad()) return rotate_with_operators(x, cos, sin, layout);
  return RotateFunction::apply(x, cos.contiguous(), sin.contiguous(), static_cast<std::int64_t>(layout));
}

void RotaryOptions::describe(support::FieldVisitor& v) {
  v.field("base", base, "Wavelengths grow from 2π to 2π·base tokens.", {.min = 1});
  v.check(base > 1, "a base of 1 would turn all pairs alike");
  v.choice("layout", layout, {{"half", PairLayout::kHalf}, {"interleaved", PairLayout::kInterleaved}},
           "Which channels form a pair: (i, i + d/2), or (2i, 2i + 1).");
}

Rotary::Rotary(const std::string& kind, const Shape& shape, const RotaryOptions& options)
    : PositionalEncoding(shape), kind_(kind), options_(options) {
  if (shape.head_width % 2 != 0 || shape.head_width < 2) {
    throw support::ConfigError(support::cat("encoding '", kind, "' turns pairs of channels, and the head width ",
                                            shape.head_width, " is not even"),
                               {}, "choose a width and a number of heads that give an even head width");
  }
}

RotaryFrequencies Rotary::frequencies(const Span& span) const {
  return {.theta = geometric_frequencies(options_.base, shape_.head_width)};
}

AngleTable& Rotary::table(const Span& span) {
  const std::int64_t key = frequency_key(span);
  auto found = tables_.find(key);
  if (found == tables_.end()) {
    if (tables_.size() > 8) tables_.clear();   // an evaluation at many lengths need not keep them all
    RotaryFrequencies made = frequencies(span);
    found = tables_.emplace(key, AngleTable(std::move(made.theta), made.attention_factor)).first;
  }
  return found->second;
}

void Rotary::transform(LayerContext& context, Heads& heads) {
  const Span& span = context.span;
  AngleTable& angles = table(span);
  const AngleTable::Values all = angles(context, 0, span.keys, heads.q.scalar_type());
  const std::int64_t offset = span.keys - span.queries;
  const std::int64_t dim = all.cos.dim() - 2;
  heads.q = rotate(heads.q, all.cos.narrow(dim, offset, span.queries), all.sin.narrow(dim, offset, span.queries),
                   options_.layout);
  heads.k = rotate(heads.k, all.cos, all.sin, options_.layout);
}

}  // namespace pe::encodings

#include "encoding_docs/battery/toy.h"

#include <torch/csrc/autograd/autograd.h>

#include "encodings/attention/token_reader.h"
#include "support/hash.h"
#include "support/random.h"

namespace pe::encoding_docs::battery {

using encodings::Shape;
using encodings::Span;

Tensor normals(const std::string& name, at::IntArrayRef sizes) {
  Tensor t = at::empty(sizes, at::kDouble);
  support::philox_normal(support::make_key({7, support::fnv1a64(name)}), t.mutable_data_ptr<double>(),
                         static_cast<std::size_t>(t.numel()));
  return t;
}

Tensor numbers(std::vector<double> values, at::IntArrayRef sizes) {
  return at::tensor(values, at::TensorOptions(at::kDouble)).view(sizes).clone();
}

double largest_difference(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  const Tensor difference = (a.detach().to(at::kDouble) - b.detach().to(at::kDouble)).abs();
  // max() of a tensor with NaN is NaN, and comparisons with it must fail.
  const double largest = difference.numel() == 0 ? 0 : difference.max().item<double>();
  return std::isnan(largest) ? std::numeric_limits<double>::infinity() : largest;
}

double relative_difference(const Tensor& a, const Tensor& b) {
  const Tensor x = a.detach().to(at::kCPU, at::kDouble), y = b.detach().to(at::kCPU, at::kDouble);
  return value((x - y).norm() / (y.norm() + 1e-3));
}

double value(const Tensor& scalar) { return scalar.item<double>(); }
double* element(const Tensor& flat, std::int64_t index) { return flat.mutable_data_ptr<double>() + index; }
bool all_finite(const Tensor& t) { return t.isfinite().all().item<bool>(); }
bool all_equal(const Tensor& t) { return t.eq(t.flatten()[0]).all().item<bool>(); }

Shape small_shape(std::int64_t heads, std::int64_t groups) {
  return {.width = 8,
          .layers = 2,
          .query_heads = heads,
          .key_value_heads = groups,
          .head_width = 4,
          .train_length = 16,
          .seed = 5,
          .dtype = at::kDouble};
}

Shape wide_shape() {
  Shape shape = small_shape();
  shape.width = 32;
  return shape;
}

void stir(encodings::PositionalEncoding& encoding) {
  at::NoGradGuard no_grad;
  for (const encodings::Parameter& parameter : encoding.parameters()) {
    Tensor value = parameter.value;
    value.add_(normals("stir " + parameter.name, value.sizes()).to(value.options().requires_grad(false)), 0.2);
  }
}

Toy::Toy(const Shape& shape, std::int64_t batch, std::int64_t length, at::ScalarType dtype) : shape(shape) {
  const std::int64_t h = shape.query_heads, g = shape.key_value_heads, d = shape.head_width, m = shape.width;
  x = normals("x", {batch, length, m}).to(dtype);
  q = normals("q", {batch, h, length, d}).to(dtype);
  k = normals("k", {batch, g, length, d}).to(dtype);
  v = normals("v", {batch, g, length, d}).to(dtype);
  wq = (normals("wq", {m, h * d}) * 0.3).to(dtype);
  wk = (normals("wk", {m, g * d}) * 0.3).to(dtype);
  wv = (normals("wv", {m, g * d}) * 0.3).to(dtype);
}

Toy Toy::part(std::int64_t begin, std::int64_t count) const {
  Toy some = *this;
  some.x = x.narrow(1, begin, count);
  some.q = q.narrow(2, begin, count);
  some.k = k.narrow(2, begin, count);
  some.v = v.narrow(2, begin, count);
  return some;
}

Toy Toy::to(at::ScalarType dtype) const {
  Toy other = *this;
  for (Tensor Toy::*member : {&Toy::x, &Toy::q, &Toy::k, &Toy::v, &Toy::wq, &Toy::wk, &Toy::wv}) {
    other.*member = (this->*member).detach().to(dtype);
  }
  return other;
}

Toy Toy::on(at::Device device) const {
  Toy other = *this;
  for (Tensor Toy::*member : {&Toy::x, &Toy::q, &Toy::k, &Toy::v, &Toy::wq, &Toy::wk, &Toy::wv}) {
    other.*member = (this->*member).detach().to(device);
  }
  other.shape.device = device;
  return other;
}

void Toy::require_gradients() {
  for (Tensor* t : {&x, &q, &k, &v}) *t = t->detach().clone().requires_grad_(true);
}

void say_numbers(encodings::PositionalEncoding& encoding, const Tensor& x, encodings::State& state) {
  if (encodings::reader_of(encoding) == nullptr) return;
  const Span& span = state.span;
  const std::int64_t first =
      span.positions.defined() ? span.positions[0].to(at::kLong).item<std::int64_t>() : span.first_position;
  const Tensor one = x.select(-1, 0).gt(0).to(at::kLong), other = x.select(-1, 1).gt(0).to(at::kLong);
  encodings::give_numbers(state, at::stack({1 + one + 2 * other, other}, -1) + first);
}

Tensor Toy::run(encodings::PositionalEncoding& encoding, const Span& span,
                const encodings::AttendOptions& options) const {
  encodings::State state = encodings::begin_pass(encoding, span);
  say_numbers(encoding, x, state);
  const std::int64_t batch = x.size(0), keys = x.size(1), queries = span.queries;
  // The embedding sees the queries' rows; here all rows pass through it, as they did when they were queries.
  Span whole = span;
  whole.queries = keys;
  encodings::State embedding = encodings::begin_pass(encoding, whole);
  say_numbers(encoding, x, embedding);
  const Tensor h = encodings::add_to_tokens(encoding, x, embedding);
  const auto heads = [&](const Tensor& w, std::int64_t count, const Tensor& added) {
    return at::matmul(h, w).view({batch, keys, count, shape.head_width}).transpose(1, 2) + added;
  };
  const std::int64_t projected = encoding.projected_heads();
  const Tensor all_q = heads(wq.narrow(1, 0, projected * shape.head_width), projected, q.narrow(1, 0, projected)),
               all_k = heads(wk, shape.key_value_heads, k), all_v = heads(wv, shape.key_value_heads, v);
  const encodings::Heads all{.q = all_q.narrow(2, keys - queries, queries),
                             .k = all_k,
                             .v = all_v,
                             .scale = 1 / std::sqrt(static_cast<double>(shape.head_width))};
  if (encoding.traits(span).extra_values) {
    encodings::LayerContext before = encodings::layer_context(encoding, state, 0, h);
    encodings::attend(encoding, before, all, options);
    encoding.after_feed_forward(before, h.narrow(1, keys - queries, queries) * 0.5);
  }
  encodings::LayerContext context = encodings::layer_context(encoding, state, 1, h);
  return encodings::attend(encoding, context, all, options);
}

ToyGradients evaluate(encodings::PositionalEncoding& encoding, const Toy& toy, const Span& span,
                      const encodings::AttendOptions& options) {
  Toy leaves = toy;
  leaves.require_gradients();
  const Tensor out = leaves.run(encoding, span, options);
  std::vector<Tensor> wanted = leaves.inputs();
  for (const encodings::Parameter& parameter : encoding.parameters()) wanted.push_back(parameter.value);
  // Numbers that bfloat16 holds, so that all types are asked for the same gradient.
  const Tensor direction = normals("direction", out.sizes()).to(at::kBFloat16).to(out.options().requires_grad(false));
  std::vector<Tensor> gradients = torch::autograd::grad({(out * direction).sum()}, wanted, {}, std::nullopt, false,
                                                        /*allow_unused=*/true);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = at::zeros_like(wanted[i]);
  }
  return {out.detach(), gradients};
}

}  // namespace pe::encoding_docs::battery

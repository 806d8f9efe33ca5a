#include "encodings/bias/kerple.h"

#include "support/text.h"

namespace pe::encodings {

void KerpleOptions::describe(support::FieldVisitor& v) {
  v.field("floor", floor, "Lower bound of both parameters.", {.min = 0, .max = 1});
  v.field("shared", shared,
          "One pair of parameters per head for all layers, as in the reference; otherwise a pair for each layer.");
}

Kerple::Kerple(const std::string& kind, const Shape& shape, const KerpleOptions& options, double largest_p)
    : PositionalEncoding(shape), kind_(kind), options_(options), largest_p_(largest_p) {
  for (int layer = options.shared ? -1 : 0; layer < (options.shared ? 0 : shape.layers); ++layer) {
    p_.push_back(add_uniform(kind, "p", {shape.query_heads}, 0, 2, /*weight_decay=*/false, layer));
    a_.push_back(add_uniform(kind, "a", {shape.query_heads}, 0, 1, /*weight_decay=*/false, layer));
  }
  Kerple::after_step();
}

Tensor Kerple::table(LayerContext& context, std::int64_t n) {
  const std::size_t set = options_.shared ? 0 : context.layer;
  // Layers that share the numbers share the table.
  Tensor& table = context.state.tensors[support::cat(kind_, ".", set, ".", n)];
  if (!table.defined()) {
    const Tensor d = at::arange(n, p_.at(set).options().requires_grad(false));
    table = kernel(d, p_.at(set).unsqueeze(1), a_.at(set).unsqueeze(1));
  }
  return table;
}

void Kerple::after_step() {
  at::NoGradGuard no_grad;
  for (Tensor& p : p_) p.clamp_(options_.floor, largest_p_);
  for (Tensor& a : a_) a.clamp_min_(options_.floor);
}

}  // namespace pe::encodings

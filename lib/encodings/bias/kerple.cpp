// Base of KERPLE's two kernels: two positive numbers for each head, kept from zero after each optimizer step.
#include <string>
#include <vector>

#include "encodings/attention/positional_encoding.h"
#include "encodings/registry.h"
#include "support/config.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

struct KerpleOptions {
  double floor = 0.01;
  bool shared = true;
  void describe(support::FieldVisitor& v);
};

/// Chi et al. 2022, arXiv:2205.09921.
class Kerple : public PositionalEncoding {
 public:
  Facts facts() const override { return {.learned = true}; }
  Traits traits(const Span& span) const override { return {.bias = BiasKind::kToeplitz, .bias_needs_grad = true}; }
  Tensor table(LayerContext& context, std::int64_t n) final;
  void after_step() final;

 protected:
  /// @param largest_p p stays below it.
  Kerple(const std::string& kind, const Shape& shape, const KerpleOptions& options, double largest_p);

  /// @param d distances [n]. @param p, a [H,1]. @return [H,n]
  virtual Tensor kernel(const Tensor& d, const Tensor& p, const Tensor& a) const = 0;

 private:
  std::string kind_;
  KerpleOptions options_;
  double largest_p_;
  std::vector<Tensor> p_, a_;  // [H], one for all layers or one for each
};

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
  // A stack may hold several of a kind.
  Tensor& table = context.state.tensors[support::cat(kind_, ".", static_cast<const void*>(this), ".", set, ".", n)];
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

/// KERPLE's logarithmic kernel: a learned penalty that grows with the logarithm of distance, −p·ln(1 + a·d).
class KerpleLog : public Kerple {
 public:
  KerpleLog(const KerpleOptions& options, const Shape& shape)
      : Kerple("kerple_log", shape, options, std::numeric_limits<double>::infinity()) {}

 protected:
  Tensor kernel(const Tensor& d, const Tensor& p, const Tensor& a) const override { return -p * at::log1p(a * d); }
};

/// KERPLE's power kernel: a learned penalty −a·d^p with 0 < p ≤ 2; p = 1 is ALiBi with slope a.
class KerplePower : public Kerple {
 public:
  KerplePower(const KerpleOptions& options, const Shape& shape) : Kerple("kerple_power", shape, options, 2) {}

 protected:
  // pow, not exp(p·ln d): its gradient at distance 0 is 0, not NaN.
  Tensor kernel(const Tensor& d, const Tensor& p, const Tensor& a) const override { return -a * at::pow(d, p); }
};

}  // namespace

EncodingEntry kerple_log_entry() {
  return with_options<KerpleLog, KerpleOptions>(
      {.name = "kerple_log",
       .aliases = {"kerple"},
       .summary = "Adds a trained penalty on the logarithm of distance.",
       .reference = "Chi et al. 2022, arXiv:2205.09921",
       .facts = {.learned = true},
       .family = Family::kBias,
       .acts_on = "logits",
       .parameters = "2*heads",
       .formula = "logit(i,j) += −p_h·ln(1 + a_h·d), p_h ≥ 0.01, a_h ≥ 0.01",
       .known_for = "A penalty that grows slowly with distance. Perplexity is flat to about eight times the training "
                    "length in its paper and in other tables, then rises mildly.",
       .errata = {"The reference stores distances in the type of the activations, where bfloat16 is wrong above 256; "
                  "here they are float32.",
                  "The reference clamps before every forward pass, this project after every optimizer step. Values are "
                  "equal, and the gradient is exact."}});
}

EncodingEntry kerple_power_entry() {
  return with_options<KerplePower, KerpleOptions>(
      {.name = "kerple_power",
       .summary = "Adds a trained penalty on a power of distance.",
       .reference = "Chi et al. 2022, arXiv:2205.09921",
       .facts = {.learned = true},
       .family = Family::kBias,
       .acts_on = "logits",
       .parameters = "2*heads",
       .formula = "logit(i,j) += −a_h·d^p_h, a_h ≥ 0.01, 0.01 ≤ p_h ≤ 2",
       .known_for = "Learns the shape of the decay; with p = 1 it is ALiBi with trained slopes. Its paper prefers the "
                    "logarithmic kernel.",
       .errata = {"Some copies compute exp(p·ln d), whose gradient at distance 0 is NaN."}});
}

}  // namespace pe::encodings

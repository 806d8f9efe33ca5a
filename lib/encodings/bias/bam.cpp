// The prior of Bayesian attention: a generalised Gaussian over distance for each head, as a bias.
#include <string>

#include "encodings/attention/positional_encoding.h"
#include "encodings/attention/temperature.h"
#include "encodings/bias/slopes.h"
#include "encodings/registry.h"
#include "support/config.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

struct BamOptions {
  enum class Shapes { kOne, kLinear, kNormal };
  Shapes initial_shape = Shapes::kOne;
  bool location = false;
  void describe(support::FieldVisitor& v);
};

/// Bianchessi et al. 2025, arXiv:2505.22842: −(|j − i − μ| + 1e-5)^α · e^ς with μ = e^ℓ − e^−ℓ.
class BamPrior : public PositionalEncoding {
 public:
  BamPrior(const std::string& kind, const BamOptions& options, const Shape& shape);
  Facts facts() const override { return {.learned = true}; }
  Traits traits(const Span& span) const override { return {.bias = BiasKind::kToeplitz, .bias_needs_grad = true}; }
  Tensor table(LayerContext& context, std::int64_t n) override;

 private:
  std::string kind_;
  Tensor alpha_, log_scale_, location_;  // [H] for all layers; location_ only where it is trained
};

void BamOptions::describe(support::FieldVisitor& v) {
  v.choice("initial_shape", initial_shape,
           {{"one", Shapes::kOne}, {"linear", Shapes::kLinear}, {"normal", Shapes::kNormal}},
           "Initial exponents: all 1 (ALiBi), evenly from 0 to 1 over the heads, or standard normal draws.");
  v.field("location", location, "Train a location too, so that the maximum can be at another distance than 0.");
}

BamPrior::BamPrior(const std::string& kind, const BamOptions& options, const Shape& shape)
    : PositionalEncoding(shape), kind_(kind) {
  const std::int64_t heads = shape.query_heads;
  switch (options.initial_shape) {
    case BamOptions::Shapes::kOne:
      alpha_ = add_constant(kind, "shape", {heads}, 1, false);
      break;
    case BamOptions::Shapes::kLinear:
      alpha_ = add_parameter(kind, "shape", at::linspace(0, 1, heads, at::TensorOptions(at::kDouble)), false);
      break;
    case BamOptions::Shapes::kNormal:
      alpha_ = add_normal(kind, "shape", {heads}, 0, 1, false);
      break;
  }
  const Tensor slopes = at::tensor(alibi_slopes(heads), at::TensorOptions(at::kDouble));
  log_scale_ = add_parameter(kind, "log_scale", slopes.log(), false);
  if (options.location) location_ = add_constant(kind, "location", {heads}, 0, false);
}

Tensor BamPrior::table(LayerContext& context, std::int64_t n) {
  Tensor& table = context.state.tensors[support::cat(kind_, ".", n)];  // all layers share it
  if (!table.defined()) {
    Tensor d = at::arange(n, alpha_.options().requires_grad(false)).unsqueeze(0);
    if (location_.defined()) d = d + (2 * at::sinh(location_)).unsqueeze(1);  // |j − i − μ| = |d + μ|
    table = -at::pow(d.abs() + 1e-5, alpha_.unsqueeze(1)) * at::exp(log_scale_).unsqueeze(1);
  }
  return table;
}

struct BamSsmaxOptions : BamOptions {
  bool scale_prior = true;
  void describe(support::FieldVisitor& v) {
    BamOptions::describe(v);
    v.field("scale_prior", scale_prior,
            "Multiply the prior like the logits; otherwise only the logits are multiplied.");
  }
};

/// BAM under scalable softmax: (q·k·scale + prior) · s·ln n. The prior is scaled too, so this is more than a stack.
class BamSsmax : public BamPrior {
 public:
  BamSsmax(const BamSsmaxOptions& options, const Shape& shape)
      : BamPrior("bam_ssmax", options, shape), scale_prior_(options.scale_prior) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      s_.push_back(add_constant("bam_ssmax", "s", {shape.query_heads}, 1, false, layer));
    }
  }

  Facts facts() const override { return {.shift_invariant = ShiftInvariance::kNever, .learned = true}; }
  Traits traits(const Span& span) const override {
    Traits made = BamPrior::traits(span);
    made.scales_queries = true;
    if (!scale_prior_ || prior_alone_) return made;
    return {.bias = BiasKind::kPairwise,
            .bias_needs_grad = true,
            .bias_depends_on_batch = span.doc_start.defined(),
            .scales_queries = true};
  }

  void transform(LayerContext& context, Heads& heads) override {
    const at::ScalarType type = table_type(heads.q.scalar_type());
    heads.q = (heads.q.to(type) * factor(context).to(type).unsqueeze(-1)).to(heads.q.scalar_type());
  }

  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    if (!scale_prior_) return PositionalEncoding::row_inputs(context, heads);
    prior_alone_ = true;  // the table, as for the prior by itself
    std::vector<Tensor> inputs = PositionalEncoding::row_inputs(context, heads);
    prior_alone_ = false;
    inputs.push_back(factor(context));
    return inputs;
  }

  Tensor bias(const Rows& rows) override {
    const Tensor prior = PositionalEncoding::bias(rows);  // [1 or B,H,rows,keys]
    if (!scale_prior_) return prior;
    Tensor tau = rows.inputs.at(1).narrow(-1, rows.begin, rows.count()).unsqueeze(-1);  // [H,rows,1] or [B,H,rows,1]
    return prior * tau;
  }

 private:
  /// s·ln n, [H,T] or [B,H,T]
  Tensor factor(const LayerContext& context) const {
    const Tensor& s = s_.at(context.layer);
    return visible_counts(context).log().to(s.scalar_type()) * s.view({-1, 1});
  }

  bool scale_prior_;
  bool prior_alone_ = false;
  std::vector<Tensor> s_;  // [H] for each layer
};

}  // namespace

EncodingEntry bam_entry() {
  return with_options<BamPrior, BamOptions>(
      {.name = "bam",
       .summary = "Adds a trained generalised Gaussian prior over distance.",
       .reference = "Bianchessi et al. 2025, arXiv:2505.22842",
       .facts = {.learned = true},
       .family = Family::kBias,
       .acts_on = "logits",
       .parameters = "2*heads",
       .formula = "logit(i,j) += −(|j − i − μ_h| + 1e−5)^α_h·e^ς_h, μ_h = 2·sinh(location_h)",
       .known_for = "Each head learns the slope and the shape of its decay; it starts as ALiBi.",
       .errata = {"The exponent has no bound: a negative exponent gives an unbounded peak at distance 0, so watch "
                  "`shape`."}},
      "bam");
}

EncodingEntry bam_ssmax_entry() {
  return with_options<BamSsmax, BamSsmaxOptions>(
      {.name = "bam_ssmax",
       .summary = "Multiplies logits and a trained Gaussian prior over distance by the logarithm of the visible keys.",
       .reference = "Bianchessi et al. 2025, arXiv:2505.22842",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .learned = true},
       .family = Family::kCombination,
       .acts_on = "q, logits",
       .parameters = "2*heads + layers*heads",
       .formula = "logit(i,j) = (q·k/√d_h − (|j − i − μ_h| + 1e−5)^α_h·e^ς_h)·s_h·ln n_i",
       .known_for = "With this form its paper reports passkey retrieval at hundreds of times the training length.",
       .errata = {"A stack of bam and ssmax is another encoding: it does not multiply the prior by s·ln n (here an "
                  "option, `scale_prior`)."}});
}

}  // namespace pe::encodings

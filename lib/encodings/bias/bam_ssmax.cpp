// BAM under scalable softmax: (q·k·scale + prior) · s·ln n. The prior is scaled too, so this is more than a stack.
#include "encodings/attention/temperature.h"
#include "encodings/bias/bam.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

struct BamSsmaxOptions : BamOptions {
  bool scale_prior = true;
  void describe(support::FieldVisitor& v) {
    BamOptions::describe(v);
    v.field("scale_prior", scale_prior,
            "Multiply the prior like the logits; otherwise only the logits are multiplied.");
  }
};

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
    if (!scale_prior_ || prior_alone_) return BamPrior::traits(span);
    return {.bias = BiasKind::kPairwise, .bias_needs_grad = true, .bias_depends_on_batch = span.doc_start.defined()};
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

// Entmax: weights that fall to exactly zero for keys far below the best.
#include <torch/csrc/autograd/custom_function.h>

#include "encodings/registry.h"
#include "kernels/dispatch.h"

namespace pe::encodings {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct EntmaxOptions {
  double alpha = 1.5;
  void describe(support::FieldVisitor& v) {
    v.field("alpha", alpha, "Sparsity of the weights: near 1 it is softmax, 2 is the projection onto the simplex.",
            {.min = 1, .max = 2});
    v.check(alpha > 1, "alpha lies above 1, where it would be softmax");
  }
};

/// [z − τ]₊^{1/(α−1)}
Tensor powered(const Tensor& above, double alpha) {
  if (alpha == 2) return above;
  return alpha == 1.5 ? above * above : at::pow(above, 1 / (alpha - 1));
}

/// The number of Newton's steps that always suffices. The function f(τ) − 1 falls and is convex, so the ratios of its
/// new to its old value and slope add up to at most 1. Each step thus divides the product of the two by at least 4.
/// With n keys and p = 1/(α−1) the product is at most n·np before. The slope is at least p: at a product of p²·close
/// the rise is `close`.
int enough_steps(std::int64_t keys, double alpha, double close) {
  const auto n = static_cast<double>(keys);
  return static_cast<int>(std::ceil(0.5 * std::log2(std::max(n * n * (alpha - 1) / close, 1.0)))) + 1;
}

/// p = [(α−1)z − τ]₊^{1/(α−1)} with a sum of 1. The sum falls and is convex in τ, so Newton's steps from the largest
/// logit less 1, where it is at least 1, rise to τ and never pass it. A GPU takes all steps that may be needed: a read
/// of the rise would wait for it.
Tensor entmax_weights(const Tensor& logits, double alpha) {
  const bool looks = !kernels::waits_for_reads(logits.device());
  const double close = logits.scalar_type() == at::kDouble ? 1e-15 : 1e-7;
  const Tensor z = (logits - logits.amax({-1}, true)) * (alpha - 1);  // at most 0
  Tensor tau = at::full_like(z.narrow(-1, 0, 1), -1.0);
  const int most = looks ? 200 : enough_steps(logits.size(-1), alpha, close);
  for (int step = 0; step < most; ++step) {
    const Tensor above = (z - tau).clamp_min_(0);
    const Tensor sum = powered(above, alpha).sum({-1}, true);
    const Tensor slope =
        (alpha == 2     ? above.gt(0).to(z.scalar_type()).sum({-1}, true)
         : alpha == 1.5 ? above.sum({-1}, true)
                        : at::pow(above, (2 - alpha) / (alpha - 1)).masked_fill_(above.le(0), 0.0).sum({-1}, true)) /
        (alpha - 1);
    const Tensor rise = (sum - 1) / slope;
    tau = tau + rise.clamp_min(0);
    if (looks && rise.max().item<double>() <= close) break;
  }
  return powered((z - tau).clamp_min_(0), alpha);
}

class EntmaxFunction : public torch::autograd::Function<EntmaxFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& logits, double alpha) {
    const Tensor p = entmax_weights(logits, alpha);
    context->save_for_backward({p});
    context->saved_data["alpha"] = alpha;
    return p;
  }

  // With s = p^{2−α} where p > 0: dz = s ⊙ (g − Σ s·g / Σ s).
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const Tensor p = context->get_saved_variables()[0], &g = gradients[0];
    const double alpha = context->saved_data["alpha"].toDouble();
    const Tensor s = alpha == 1.5 ? p.sqrt() : at::pow(p, 2 - alpha).masked_fill_(p.le(0), 0.0);
    const Tensor mean = (s * g).sum({-1}, true) / s.sum({-1}, true);
    return {s * (g - mean), Tensor()};
  }
};

class EntmaxNormaliser : public Normaliser {
 public:
  explicit EntmaxNormaliser(double alpha) : alpha_(alpha) {}
  Result normalise(const Tensor& logits, const Rows& rows) const override {
    return {.weights = EntmaxFunction::apply(logits, alpha_)};
  }

 private:
  double alpha_;
};

class Entmax : public PositionalEncoding {
 public:
  Entmax(const EntmaxOptions& options, const Shape& shape) : PositionalEncoding(shape), alpha_(options.alpha) {}

  Traits traits(const Span& span) const override { return {.normalises = true, .live_logits = 10}; }
  std::unique_ptr<Normaliser> normaliser(const LayerContext& context, const std::vector<Tensor>& inputs) override {
    return std::make_unique<EntmaxNormaliser>(alpha_);
  }

 private:
  double alpha_;
};

}  // namespace

EncodingEntry entmax_entry() {
  return with_options<Entmax, EntmaxOptions>(
      {.name = "entmax",
       .summary = "Replaces softmax by weights that are exactly zero for keys far enough below the maximum.",
       .reference = "Peters et al. 2019, arXiv:1905.05702; Vasylenko et al. 2025, arXiv:2506.16640",
       .family = Family::kTemperature,
       .acts_on = "weights",
       .formula = "w_ij = [(α − 1)·a_ij − τ_i]₊^(1/(α − 1)), τ_i such that Σ_j w_ij = 1",
       .known_for =
           "Attention that does not dilute: keys below the threshold have weight 0 at any number of keys. With "
           "asentmax_scale and nape it is the paper's ASEntmax. The paper reports accuracy on algorithmic tasks at "
           "many times the training length.",
       .errata = {
           "The threshold needs a whole row, so blocks of keys cannot be merged as in softmax.",
           "The authors' bisection divides weights by their sum at the end, and their training kernel stops after two "
           "steps. This project computes the threshold to the last digit."}});
}

}  // namespace pe::encodings

// CABLE's family: each token takes a step, and a bias depends on the steps taken between key and query.
#include <string>
#include <vector>

#include "encodings/attention/fused_bias.h"
#include "encodings/content/cumulative.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

/// Veisi et al. 2025, arXiv:2503.08067, second version. s = relu(W_c x), S its running sum, D = S_i − S_j.
enum class CableForm {
  kWeighted,   ///< −softplus(W_s x_i)·D
  kPlain,      ///< −D
  kLogSquare,  ///< −ln(1 + D²)
};

class Cable : public PositionalEncoding, public FusesBias {
 public:
  Cable(const std::string& kind, CableForm form, const Shape& shape);

  Facts facts() const override { return {.learned = true, .content_dependent = true}; }
  Traits traits(const Span& span) const override;
  Channels channels(LayerContext& context, const Heads& heads) override;
  FusedKind fused_kind(const Span& span) const override {
    return form_ != CableForm::kLogSquare ? FusedKind::kGated : FusedKind::kNone;
  }
  FusedBias fused_bias(LayerContext& context, const Heads& heads) override;
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override;
  Tensor bias(const Rows& rows) override;

 private:
  Tensor steps(const LayerContext& context) const;   ///< S, [B,H,S]
  Tensor slopes(const LayerContext& context) const;  ///< [B,H,T]

  CableForm form_;
  std::vector<Tensor> step_, slope_;  // [H,d_m] for each layer
};

Cable::Cable(const std::string& kind, CableForm form, const Shape& shape) : PositionalEncoding(shape), form_(form) {
  for (int layer = 0; layer < shape.layers; ++layer) {
    const std::vector<std::int64_t> sizes{shape.query_heads, shape.width};
    step_.push_back(add_normal(kind, "step", sizes, 0, 0.02, true, layer));
    if (form == CableForm::kWeighted) slope_.push_back(add_normal(kind, "slope", sizes, 0, 0.02, true, layer));
  }
}

Traits Cable::traits(const Span& span) const {
  return {.bias = form_ == CableForm::kLogSquare ? BiasKind::kPairwise : BiasKind::kChannels,
          .bias_needs_grad = true,
          .bias_depends_on_batch = true,
          .channels_cancel = form_ == CableForm::kWeighted};
}

// −g_i(S_i − S_j) is g_i·S_j up to a constant of the row.
Channels Cable::channels(LayerContext& context, const Heads& heads) {
  const Tensor key = steps(context).unsqueeze(-1);
  if (form_ == CableForm::kWeighted) {
    return {.query = slopes(context).unsqueeze(-1), .key = key, .query_pieces = 2, .key_pieces = 3};
  }
  return {.query = at::ones({1, 1, context.span.queries, 1}, key.options().requires_grad(false)),
          .key = key,
          .query_pieces = 1,
          .key_pieces = 3};
}

FusedBias Cable::fused_bias(LayerContext& context, const Heads& heads) {
  const Tensor places = steps(context);
  if (form_ == CableForm::kWeighted) return {.gated = {.places = places, .query_gates = slopes(context)}};
  const Tensor ones = at::ones({1, places.size(1), context.span.queries}, places.options().requires_grad(false));
  return {.gated = {.places = places, .query_gates = ones}};
}

std::vector<Tensor> Cable::row_inputs(LayerContext& context, const Heads& heads) {
  if (form_ == CableForm::kWeighted) return {steps(context), slopes(context)};
  return {steps(context)};
}

Tensor Cable::bias(const Rows& rows) {
  const RunningSums s = running_sums(rows, rows.inputs.at(0));
  const Tensor taken = s.query - s.key;
  if (form_ == CableForm::kPlain) return -taken;
  if (form_ == CableForm::kLogSquare) return -at::log1p(taken * taken);
  return -rows.inputs.at(1).narrow(-1, rows.begin, rows.count()).unsqueeze(-1) * taken;
}

Tensor Cable::steps(const LayerContext& context) const {
  return at::relu(token_scores(context, step_.at(context.layer), {})).cumsum(-1);
}

Tensor Cable::slopes(const LayerContext& context) const {
  const Span& span = context.span;
  return at::softplus(token_scores(context, slope_.at(context.layer), {}))
      .narrow(-1, span.keys - span.queries, span.queries);
}

}  // namespace

EncodingEntry cable_entry() {
  return without_options<Cable>(
      {.name = "cable",
       .summary = "Adds a penalty: the sum of steps of the tokens between key and query, weighted by the query.",
       .reference = "Veisi et al. 2025, arXiv:2503.08067",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "layers*2*heads*width",
       .formula = "s_t = relu(W_c x_t), S_i = Σ_{l ≤ i} s_l, g_i = softplus(W_s x_i)\n"
                  "logit(i,j) += −g_i·(S_i − S_j)",
       .known_for = "The best encoding in its paper at small sizes; perplexity is flat to fifteen times the training "
                    "length.",
       .errata =
           {"The first version of the paper equals FoX in another notation, and its code omits the division by "
            "√d_h. This is the later version.",
            "As extra channels in bfloat16 its gradients are wrong by tens of percent. On a GPU a kernel computes "
            "the bias in float32."}},
      "cable", CableForm::kWeighted);
}

EncodingEntry cable_nw_entry() {
  return without_options<Cable>(
      {.name = "cable_nw",
       .summary = "Adds a penalty: the sum of steps of the tokens between key and query.",
       .reference = "Veisi et al. 2025, arXiv:2503.08067",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "layers*heads*width",
       .formula = "s_t = relu(W_c x_t), S_i = Σ_{l ≤ i} s_l\n"
                  "logit(i,j) += −(S_i − S_j)",
       .known_for = "CABLE without the weight of the query: a factor of low rank, as cheap as ALiBi."},
      "cable_nw", CableForm::kPlain);
}

EncodingEntry k_cable_entry() {
  return without_options<Cable>(
      {.name = "k_cable",
       .summary = "Adds a penalty on the logarithm of the squared steps of the tokens between key and query.",
       .reference = "Veisi et al. 2025, arXiv:2503.08067",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "layers*heads*width",
       .formula = "s_t = relu(W_c x_t), S_i = Σ_{l ≤ i} s_l\n"
                  "logit(i,j) += −ln(1 + (S_i − S_j)²)",
       .known_for = "CABLE with a logarithmic kernel, as in KERPLE.",
       .errata = {"The sign is chosen so that the bias decays."}},
      "k_cable", CableForm::kLogSquare);
}

}  // namespace pe::encodings

// Inkling: all heads share trained profiles over the distance. Each token mixes them into its bias, which ends at an
// extent.
#include "encodings/attention/attention_window.h"
#include "encodings/attention/temperature.h"
#include "encodings/content/ordered_gather.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

struct InklingOptions {
  std::optional<std::int64_t> extent;
  std::int64_t profiles = 16;
  std::int64_t floor_scale = 0;
  double alpha = 0.1;
  void describe(support::FieldVisitor& v) {
    v.field("extent", extent, "Number of distances with a bias, starting at 0; auto: a quarter of the training length.",
            {.unit = "tokens", .min = 1, .max = 65536});
    v.field("profiles", profiles,
            "Number of profiles over the distance per layer; each token mixes them for each head.",
            {.min = 1, .max = 4096});
    v.field("floor_scale", floor_scale,
            "First position from which logits grow logarithmically, in layers without a window; 0: none.",
            {.unit = "tokens", .min = 0});
    v.field("alpha", alpha, "Weight of that logarithm.", {.min = 0, .max = 10});
  }
};

class Inkling : public PositionalEncoding {
 public:
  Inkling(const InklingOptions& options, const Shape& shape)
      : PositionalEncoding(shape),
        options_(options),
        extent_(options.extent.value_or(std::max<std::int64_t>(1, shape.train_length / 4))),
        scales_(shape.layers, options.floor_scale > 0) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      mix_.push_back(
          add_normal("inkling", "mix", {shape.query_heads * options.profiles, shape.width}, 0, 0.02, true, layer));
      bank_.push_back(add_normal("inkling", "bank", {options.profiles, extent_}, 0, 0.02, false, layer));
    }
  }

  Facts facts() const override {
    return {.shift_invariant = options_.floor_scale > 0 ? ShiftInvariance::kNever : ShiftInvariance::kAlways,
            .learned = true,
            .content_dependent = true};
  }
  Traits traits(const Span& span) const override {
    return {.bias = BiasKind::kPairwise,
            .bias_needs_grad = true,
            .bias_depends_on_batch = true,
            .scales_queries = options_.floor_scale > 0};
  }

  /// The logarithm is for layers that see the whole text.
  void enter_stack(const std::vector<const PositionalEncoding*>& others) override {
    for (int layer = 0; layer < shape_.layers; ++layer) {
      for (const PositionalEncoding* other : others) scales_[layer] = scales_[layer] && window_of(*other, layer) == 0;
    }
  }

  void transform(LayerContext& context, Heads& heads) override {
    if (!scales_.at(context.layer)) return;
    const at::ScalarType type = table_type(heads.q.scalar_type());
    heads.q = (heads.q.to(type) * growth(context).to(type)).to(heads.q.scalar_type());
  }

  /// The bias at each distance below the extent, and 0 beyond: [B,H,T,E+1].
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    const Tensor& bank = bank_.at(context.layer);
    const Tensor tokens = query_tokens(context).to(bank.scalar_type());
    const Tensor mixed = at::matmul(tokens, mix_.at(context.layer).t())
                             .unflatten(-1, {shape_.query_heads, options_.profiles})
                             .transpose(1, 2);
    Tensor by_distance = at::matmul(mixed, bank);
    if (scales_.at(context.layer)) by_distance = by_distance * growth(context).to(by_distance.scalar_type());
    return {at::constant_pad_nd(by_distance, {0, 1})};
  }

  Tensor bias(const Rows& rows) override {
    const Tensor by_distance = rows.inputs.at(0).narrow(2, rows.begin, rows.count());
    Tensor d = rows.distances();
    if (d.is_floating_point()) d = d.floor().to(at::kLong);
    return gather_in_order(
        by_distance, d.clamp(0, extent_).expand({by_distance.size(0), by_distance.size(1), rows.count(), rows.keys}));
  }

 private:
  /// 1 + alpha·ln max(1, (i + 1)/floor_scale) at the position i of each query, [1 or B,1,T,1], float64.
  Tensor growth(const LayerContext& context) const {
    const Span& span = context.span;
    const Tensor i = context.positions.narrow(-1, span.keys - span.queries, span.queries).to(at::kDouble);
    const Tensor tau = ((i + 1) / static_cast<double>(options_.floor_scale)).clamp_min(1).log() * options_.alpha + 1;
    return (tau.dim() == 1 ? tau.unsqueeze(0) : tau).unsqueeze(1).unsqueeze(-1);
  }

  InklingOptions options_;
  std::int64_t extent_;
  std::vector<bool> scales_;        // by layer
  std::vector<Tensor> mix_, bank_;  // of a layer: [H·profiles,d_m], [profiles,E]
};

}  // namespace

EncodingEntry inkling_entry() {
  return with_options<Inkling, InklingOptions>(
      {.name = "inkling",
       .aliases = {"projected_bias"},
       .summary = "Adds a bias of the distance, mixed by each token from trained profiles; no bias beyond an extent.",
       .reference = "Thinking Machines 2026, model Inkling, reference code",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "layers*profiles*(heads*width + train_length/4)",
       .formula = "r_h = W_h x_i, one number for each profile\n"
                  "logit(i,j) += Σ_p r_h,p·P_p,d, d = ⌊i − j⌋ < extent; else nothing\n"
                  "floor_scale > 0: logits and bias × (1 + alpha·ln max(1, (i + 1)/floor_scale)) where no window is",
       .known_for = "The encoding of a large open model without rotation. Near tokens have a bias that the query "
                    "chooses; distant tokens have none.",
       .errata = {"The model has five layers with a window and extent of 512 for each global layer with extent 1024. A "
                  "stack with `window: {size: 512, interval: 6}` has these windows. Here all layers have one extent.",
                  "The model normalises q and k and divides q·k by the head width. A stack with `uniform_scale: "
                  "{scale: 1/√d_h}` does the same and leaves the bias unscaled. The default divisor is √d_h.",
                  "Its short convolutions are not part of the encoding; `model.canon` has them."}});
}

}  // namespace pe::encodings

// Stick-breaking attention: from the nearest key to the farthest, each takes its share of the weight that is left.
#include "encodings/attention/fused_bias.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

struct StickOptions {
  bool attend_current = false;
  bool remainder = true;
  void describe(support::FieldVisitor& v) {
    v.field("attend_current", attend_current, "Include the token of the query as the nearest key.");
    v.field("remainder", remainder, "Weight that no key took goes to the query's own value; else it is lost.");
  }
};

class StickNormaliser : public Normaliser {
 public:
  explicit StickNormaliser(const StickOptions& options) : options_(options) {}

  // ln w_ij = logσ(z_ij) + Σ logσ(−z_il) over the keys l between j and i.
  Result normalise(const Tensor& logits, const Rows& rows) const override {
    Tensor takes_part = rows.visible;
    Result result;
    if (!options_.attend_current) {
      const Tensor columns = at::arange(rows.keys, at::TensorOptions(at::kLong).device(logits.device()));
      takes_part = takes_part.logical_and(columns.lt(rows.query_rows().unsqueeze(-1)));
    }
    const Tensor hidden = takes_part.logical_not();
    if (!options_.attend_current) result.logits = logits.masked_fill(hidden, -std::numeric_limits<double>::infinity());
    const Tensor z = logits.masked_fill(hidden, 0.0);
    const Tensor left = at::log_sigmoid(-z).masked_fill(hidden, 0.0);
    // The sum over keys right of j: the sum over all keys, less the sum over keys up to j.
    const Tensor from_here = left.flip(-1).cumsum(-1).flip(-1);
    result.weights = at::exp(at::log_sigmoid(z) + (from_here - left)).masked_fill(hidden, 0.0);
    if (options_.remainder) result.own = at::exp(from_here.select(-1, 0));
    return result;
  }

 private:
  StickOptions options_;
};

class BreaksSticks : public PositionalEncoding, public FusesBias {
 public:
  BreaksSticks(const StickOptions& options, const Shape& shape) : PositionalEncoding(shape), options_(options) {}

  Traits traits(const Span& span) const override {
    return {.normalises = true, .needs_row_constants = true, .live_logits = 9};
  }
  std::unique_ptr<Normaliser> normaliser(const LayerContext& context, const std::vector<Tensor>& inputs) override {
    return std::make_unique<StickNormaliser>(options_);
  }
  FusedKind fused_kind(const Span& span) const override { return FusedKind::kStick; }
  FusedBias fused_bias(LayerContext& context, const Heads& heads) override {
    return {.stick = StickBreaking{options_.attend_current, options_.remainder}};
  }

 private:
  StickOptions options_;
};

}  // namespace

EncodingEntry stickbreaking_entry() {
  return with_options<BreaksSticks, StickOptions>(
      {.name = "stickbreaking",
       .aliases = {"stick_breaking", "sba"},
       .summary = "Replaces softmax: from the nearest key on, each takes its share of the rest.",
       .reference = "Tan et al. 2024, arXiv:2410.17980",
       .family = Family::kContent,
       .acts_on = "weights",
       .formula = "w_ij = σ(z_ij)·Π_{j < l < i} (1 − σ(z_il)), j < i; what is left goes to v_i",
       .known_for = "Prefers recent keys without a positional term, and is stable in length.",
       .errata = {"A query does not see itself unless `attend_current` is set. Without the remainder the first output "
                  "is zero."}});
}

}  // namespace pe::encodings

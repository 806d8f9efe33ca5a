// Shaw et al.: a trained vector for each distance joins the key, and another the value, up to a distance beyond which
// all are alike.
#include "encodings/attention/weight_mix.h"
#include "encodings/content/distance_vectors.h"
#include "encodings/content/ordered_gather.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

struct ShawOptions {
  std::int64_t max_distance = 16;
  bool values = true;
  bool per_head = false;
  void describe(support::FieldVisitor& v) {
    v.field("max_distance", max_distance, "Distances of at least this share one vector.",
            {.unit = "tokens", .min = 0, .max = 65536});
    v.field("values", values, "Add vectors to values too.");
    v.field("per_head", per_head, "Separate tables for each key/value head.");
  }
};

class Shaw : public DistanceVectors, public MixesByWeights {
 public:
  Shaw(const ShawOptions& options, const Shape& shape) : DistanceVectors(shape), options_(options) {
    std::vector<std::int64_t> sizes{options.max_distance + 1, shape.head_width};
    if (options.per_head) sizes.insert(sizes.begin(), shape.key_value_heads);
    for (int layer = 0; layer < shape.layers; ++layer) {
      keys_.push_back(add_normal("shaw", "key_table", sizes, 0, 0.02, false, layer));
      if (options.values) values_.push_back(add_normal("shaw", "value_table", sizes, 0, 0.02, false, layer));
    }
  }

  // The vectors of distances are not rotated, so a query rotated by another member shows its position in the products.
  Traits traits(const Span& span) const override {
    return {.bias = BiasKind::kPairwise, .bias_needs_grad = true, .bias_depends_on_batch = true};
  }

  /// scale·q_i·a_c for each class of distances, [B,H,T,K+1]; then the table of values.
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    const Tensor& table = keys_.at(context.layer);
    const Tensor scores = at::matmul(heads.q.to(table.scalar_type()) * heads.scale, for_heads(table).transpose(-1, -2));
    if (!options_.values) return {scores};
    return {scores, values_.at(context.layer)};
  }

  Tensor bias(const Rows& rows) override {
    const Tensor scores = rows.inputs.at(0).narrow(2, rows.begin, rows.count());
    return gather_in_order(scores, classes(rows, scores));
  }

  bool mixes() const override { return options_.values; }
  // Σ_j w_ij b_c: weights are summed by class first.
  Tensor mix(const Rows& rows, const Tensor& weights) override {
    const Tensor sums = rows.context.contiguous ? band(rows, weights)
                                                : at::zeros_like(weights.narrow(-1, 0, 1))
                                                      .expand({-1, -1, -1, options_.max_distance + 1})
                                                      .scatter_add(-1, classes(rows, weights), weights);
    return at::matmul(sums, for_heads(rows.inputs.at(1)).to(weights.scalar_type()));
  }

 private:
  /// [1 or H, K+1, d_h]
  Tensor for_heads(const Tensor& table) const {
    if (table.dim() == 2) return table.unsqueeze(0);
    return table.repeat_interleave(shape_.query_heads / table.size(0), 0);
  }

  /// min(⌊p_i − p_j⌋, K), [B,H,rows,keys] as `like` has them.
  Tensor classes(const Rows& rows, const Tensor& like) const {
    Tensor c = rows.distances();
    if (c.is_floating_point()) c = c.floor().to(at::kLong);
    return c.clamp(0, options_.max_distance).expand({like.size(0), like.size(1), rows.count(), rows.keys});
  }

  /// Where positions run, a class below K is one key of each row, and the last has the rest.
  Tensor band(const Rows& rows, const Tensor& weights) const {
    const Tensor columns = rows.query_rows().unsqueeze(-1) -
                           at::arange(options_.max_distance, at::TensorOptions(at::kLong).device(weights.device()));
    const Tensor there = columns.ge(0);  // keys of another document have no weight
    const Tensor near = weights.gather(-1, columns.clamp_min(0).expand({weights.size(0), weights.size(1), -1, -1}))
                            .masked_fill(there.logical_not(), 0.0);
    return at::cat({near, weights.sum({-1}, true) - near.sum({-1}, true)}, -1);
  }

  ShawOptions options_;
  std::vector<Tensor> keys_, values_;  // a layer each, [K+1,d_h] or [G,K+1,d_h]
};

}  // namespace

EncodingEntry shaw_entry() {
  return with_options<Shaw, ShawOptions>(
      {.name = "shaw",
       .aliases = {"relative_vectors"},
       .summary = "Adds a trained vector of the distance to each key and to each value.",
       .reference = "Shaw et al. 2018, arXiv:1803.02155",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits, values",
       .parameters = "layers*2*(max_distance + 1)*head_width",
       .formula = "c = min(⌊i − j⌋, max_distance)\n"
                  "logit(i,j) = q_i·(k_j + a_c)/√d_h, o_i = Σ_j w_ij (v_j + b_c)",
       .known_for = "The first relative encoding, still used by music transformers and speech models. It distinguishes "
                    "short distances exactly and long ones not at all.",
       .errata = {"The original's table has 2K + 1 rows; a decoder reaches K + 1 of them."}});
}

}  // namespace pe::encodings

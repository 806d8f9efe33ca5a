// PaTH with FoX's gate: the product of matrices, and a penalty for each forgetting token in between.
#include "encodings/content/cumulative.h"
#include "encodings/content/path.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

struct PathFoxOptions {
  bool path_fox_scale_gate = false;
  void describe(support::FieldVisitor& v) {
    v.field("path_fox_scale_gate", path_fox_scale_gate,
            "Divide the gate's bias by √head_width too, as a released kernel does.");
  }
};

class PathFox : public Path {
 public:
  PathFox(const PathFoxOptions& options, const Shape& shape)
      : Path("path_fox", shape), scale_gate_(options.path_fox_scale_gate) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      weight_.push_back(add_normal("path_fox", "gate_weight", {shape.query_heads, shape.width}, 0, 0.02, true, layer));
      bias_.push_back(add_constant("path_fox", "gate_bias", {shape.query_heads}, 0, false, layer));
    }
  }

  Traits traits(const Span& span) const override {
    Traits traits = Path::traits(span);
    traits.bias = BiasKind::kPairwise;
    traits.bias_needs_grad = true;
    traits.bias_depends_on_batch = true;
    return traits;
  }

  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    std::vector<Tensor> inputs = Path::row_inputs(context, heads);
    inputs.push_back(
        at::log_sigmoid(token_scores(context, weight_.at(context.layer), bias_.at(context.layer))).cumsum(-1));
    return inputs;
  }

  Tensor bias(const Rows& rows) override {
    const RunningSums c = running_sums(rows, rows.inputs.at(kPathInputs));
    return scale_gate_ ? (c.query - c.key) * rows.scale : c.query - c.key;
  }

 private:
  bool scale_gate_;
  std::vector<Tensor> weight_, bias_;
};

}  // namespace

EncodingEntry path_fox_entry() {
  return with_options<PathFox, PathFoxOptions>(
      {.name = "path_fox",
       .summary = "The product of matrices of PaTH and the forgetting gates of FoX.",
       .reference = "Yang et al. 2025, arXiv:2505.16381",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kCombination,
       .acts_on = "product of q and k, logits",
       .parameters = "layers*(32*width + kv_heads*head_width*(32 + 3) + kv_heads*(width + 1) + heads*(width + 1))",
       .formula = "PaTH's product, and logit(i,j) += c_i − c_j with FoX's gates",
       .known_for = "The better language model of the two in its paper.",
       .errata = {"A released kernel divides the gate's bias by √d_h; the paper and FoX do not "
                  "(`path_fox_scale_gate`)."}});
}

}  // namespace pe::encodings

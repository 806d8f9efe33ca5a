// RePo: the later layers read a position off each token's content, a real number for each head, and rotate by it.
#include "encodings/registry.h"
#include "encodings/rotary/rotary.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

struct RepoOptions : RotaryOptions {
  std::optional<std::int64_t> start;
  void describe(support::FieldVisitor& v) {
    RotaryOptions::describe(v);
    v.field("start", start,
            "First layer with its own positions, counted from 0; auto: a third of the layers. Earlier layers rotate by "
            "ordinary positions.",
            {.min = 0});
  }
};

class Repo : public Rotary {
 public:
  Repo(const RepoOptions& options, const Shape& shape)
      : Rotary("repo", shape, options), start_(options.start.value_or(shape.layers / 3)) {
    if (shape.key_value_heads < shape.query_heads) {
      throw support::ConfigError("encoding 'repo' gives each head separate positions, so heads cannot share keys", {},
                                 "set key_value_heads to the number of heads");
    }
    if (start_ >= shape.layers) {
      throw support::ConfigError(support::cat("encoding 'repo' starts at layer ", start_, " of a model with ",
                                              shape.layers, " layers, counted from 0"));
    }
    const std::int64_t hidden = std::max<std::int64_t>(1, shape.width / 8);
    for (int layer = 0; layer < shape.layers; ++layer) {
      if (layer < start_) {
        layers_.emplace_back();
        continue;
      }
      layers_.push_back({add_normal("repo", "gate", {hidden, shape.width}, 0, 0.02, true, layer),
                         add_normal("repo", "content", {hidden, shape.width}, 0, 0.02, true, layer),
                         add_normal("repo", "position", {shape.query_heads, hidden}, 0, 0.02, true, layer)});
    }
    theta_ = geometric_frequencies(options.base, shape.head_width);
  }

  Facts own_facts() const override { return {.rotates = true, .learned = true, .content_dependent = true}; }

  std::optional<RotatedPairs> rotated_pairs(int layer, const Span& span) const override {
    return layer < start_ ? Rotary::rotated_pairs(layer, span) : std::nullopt;  // later angles follow the content
  }

  bool only_rotates() const override { return false; }
  void transform(LayerContext& context, Heads& heads) override {
    if (context.layer < start_) return Rotary::transform(context, heads);
    if (!context.x.defined()) throw ShapeError("encoding 'repo' reads the tokens x of a layer, and none were given");
    const RepoLayer& layer = layers_.at(context.layer);
    const Tensor x = context.x.to(layer.gate.scalar_type());
    const Tensor r = at::silu(at::matmul(x, layer.gate.t())) * at::matmul(x, layer.content.t());
    const Tensor z = at::matmul(r, layer.position.t()).transpose(1, 2);  // [B,H,S]
    const Tensor theta = at::tensor(theta_, at::TensorOptions(at::kDouble)).to(z.options().requires_grad(false));
    const Tensor angle = z.unsqueeze(-1) * theta;  // [B,H,S,pairs]
    const Span& span = context.span;
    heads.k = rotated(heads.k, angle);
    heads.q = rotated(heads.q, angle.narrow(2, span.keys - span.queries, span.queries));
  }

 private:
  struct RepoLayer {
    Tensor gate, content, position;
  };

  /// Heads become sequences, as `rotate` has one list of angles for each of these.
  Tensor rotated(const Tensor& x, const Tensor& angle) const {
    const Tensor flat = angle.flatten(0, 1);
    const Tensor out = rotate(x.flatten(0, 1).unsqueeze(1), at::cos(flat), at::sin(flat), options_.layout);
    return out.view(x.sizes());
  }

  std::int64_t start_;
  std::vector<RepoLayer> layers_;
  std::vector<double> theta_;
};

}  // namespace

EncodingEntry repo_entry() {
  return with_options<Repo, RepoOptions>(
      {.name = "repo",
       .summary = "Rotates by positions that later layers compute from the content of each token.",
       .reference = "Li et al. 2025, arXiv:2512.14391",
       .facts = {.rotates = true, .learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "q and k",
       .parameters = "(layers - layers/3)*(width/8)*(2*width + heads)",
       .formula = "r = silu(W_g x) ⊙ (W_c x), z_h = (W_z r)_h\n"
                  "q and k rotate by angle z_h·θ_pair, in layers from ⌊layers/3⌋ on; before, by the position",
       .known_for = "The content decides the position of a token. Its paper reports better needle retrieval after "
                    "continual pre-training.",
       .errata = {"All heads need separate keys."}});
}

}  // namespace pe::encodings

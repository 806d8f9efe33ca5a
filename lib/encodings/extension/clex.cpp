// CLEX: frequencies follow a learned differential equation from the training length to any multiple of it. Training
// draws a multiple for each step and spreads the positions over that many times the length.
#include "encodings/extension/clex.h"

#include <numbers>

#include "encodings/rotary/learned_frequencies.h"
#include "support/random.h"

namespace pe::encodings {
namespace {

enum class OmegaBase { kModel, kTenThousand };

struct ClexOptions : RotaryOptions {
  std::int64_t max_factor = 16;
  std::int64_t param_factor = 1;
  ClexActivation act = ClexActivation::kTanh;
  double dt = 0.01;
  OmegaBase omega_base = OmegaBase::kModel;
  std::optional<std::int64_t> train_length;
  std::optional<std::int64_t> pe_len;
  void describe(support::FieldVisitor& v) {
    RotaryOptions::describe(v);
    v.field("max_factor", max_factor, "Largest multiple of the training length that is trained and used.",
            {.min = 1, .max = 4096});
    v.field("param_factor", param_factor, "Hidden width of the network, as a multiple of the head width.",
            {.min = 1, .max = 64});
    v.choice("act", act, {{"tanh", ClexActivation::kTanh}, {"silu", ClexActivation::kSilu}},
             "Form of the network: as in the released code, or as in the paper.");
    v.field("dt", dt, "Step of the integration; the relative error of frequencies at 0.1 is about 4e-6.",
            {.min = 1e-4, .max = 1});
    v.choice("omega_base", omega_base, {{"model", OmegaBase::kModel}, {"10000", OmegaBase::kTenThousand}},
             "Base of the frequencies that the network receives; the released code has 10000 for every model.");
    v.field("train_length", train_length, "Training length of the extended model; auto: from the model.",
            {.unit = "tokens", .min = 1});
    v.field("pe_len", pe_len, "Length of the text; auto: from the pass.", {.unit = "tokens", .min = 1});
  }
};

class Clex : public Rotary {
 public:
  Clex(const ClexOptions& options, const Shape& shape)
      : Rotary("clex", shape, options),
        clex_(options),
        train_length_(extended_length("clex", options.train_length, shape)) {
    const std::int64_t pairs = shape.head_width / 2, hidden = options.param_factor * shape.head_width;
    const double bound = 1 / std::sqrt(static_cast<double>(hidden));
    up_ = add_uniform("clex", "up", {pairs, hidden}, -bound, bound, /*weight_decay=*/true);
    down_ = add_constant("clex", "down", {hidden, pairs}, 0, /*weight_decay=*/true);
    const auto logarithms = [](std::vector<double> values) {
      for (double& x : values) x = std::log(x);
      return values;
    };
    equation_.start = logarithms(schedule().theta);
    equation_.omega = logarithms(
        geometric_frequencies(options.omega_base == OmegaBase::kModel ? options.base : 10000, shape.head_width));
    equation_.activation = options.act;
    equation_.step = options.dt;
  }

  Traits traits(const Span& span) const override { return {.maps_positions = span.training}; }

  Tensor positions(int layer, const Span& span) const override {
    if (!span.training) return default_positions(span);
    const std::int64_t n = span.keys, t = factor(span), c = std::max<std::int64_t>(1, n / train_length_);
    Tensor ids = at::zeros({n}, at::kLong);
    std::int64_t* out = ids.mutable_data_ptr<std::int64_t>();
    if (n > 2) {
      support::Xoshiro draw(key(span, "clex.positions"));
      std::vector<std::uint64_t> some =
          draw.sample(static_cast<std::uint64_t>(n * t - 2), static_cast<std::uint64_t>(n - 2));
      std::sort(some.begin(), some.end());
      for (std::int64_t r = 1; r + 1 < n; ++r) out[r] = (static_cast<std::int64_t>(some[r - 1]) + 1) / c;
    }
    if (n > 1) out[n - 1] = n * t / c - 1;
    ids = ids.to(span.device);
    if (span.restart_positions && span.doc_start.defined()) {
      ids = ids - ids.index_select(0, span.doc_start.flatten()).view(span.doc_start.sizes());
    }
    return ids + span.first_position;
  }

  void begin(State& state) override {
    state.tensors["clex.theta"] = frequencies_for(state.span).to(state.span.device);
    state.tensors.erase("clex.cos");
  }

  bool only_rotates() const override { return false; }
  void transform(LayerContext& context, Heads& heads) override {
    const at::ScalarType type = table_type(heads.q.scalar_type());
    Tensor &cos = context.state.tensors["clex.cos"], &sin = context.state.tensors["clex.sin"];
    // Alone it maps positions for all layers alike; another member of a stack may give each layer its own.
    const bool shared = context.contiguous || context.span.training;
    if (!shared || !cos.defined() || cos.scalar_type() != type) {
      RotaryCache::Values made = learned_angles(context.positions, context.state.tensors.at("clex.theta"), type);
      cos = made.cos;
      sin = made.sin;
    }
    rotate_heads(heads, context.span, {cos, sin});
  }

  std::optional<RotatedPairs> rotated_pairs(int layer, const Span& span) const override {
    at::NoGradGuard no_gradients;
    const Tensor theta = frequencies_for(span).to(at::kCPU).contiguous();
    const double* first = theta.const_data_ptr<double>();
    return laid_out({first, first + theta.numel()}, static_cast<std::size_t>(theta.numel()));
  }

 protected:
  Facts own_facts() const override { return {.rotates = true, .learned = true, .length_dependent = true}; }

 private:
  Tensor frequencies_for(const Span& span) const {
    const std::int64_t t = factor(span);
    Tensor log_theta = at::tensor(equation_.start, at::TensorOptions(at::kDouble));
    if (t > 1) log_theta = clex_log_frequencies(equation_, up_, down_, static_cast<double>(t));
    return log_theta.exp();
  }

  std::uint64_t key(const Span& span, const char* purpose) const {
    return draw_key(shape_.seed, purpose, span.step, 0, 0);
  }

  /// t, how many times the training length: drawn for each step of a training, else the need of the current length.
  std::int64_t factor(const Span& span) const {
    if (span.training) {
      return 1 + static_cast<std::int64_t>(
                     support::Xoshiro(key(span, "clex")).below(static_cast<std::uint64_t>(clex_.max_factor)));
    }
    const std::int64_t length = working_length("clex", clex_.pe_len, span);
    return std::clamp<std::int64_t>((length + train_length_ - 1) / train_length_, 1, clex_.max_factor);
  }

  ClexOptions clex_;
  std::int64_t train_length_;
  ClexEquation equation_;
  Tensor up_, down_;  // [d_h/2, n], [n, d_h/2]
};

}  // namespace

EncodingEntry clex_entry() {
  return with_options<Clex, ClexOptions>(
      {.name = "clex",
       .summary = "RoPE for longer texts: frequencies follow a trained differential equation over the length.",
       .reference = "Chen et al. 2023, arXiv:2310.16450",
       .facts = {.rotates = true, .learned = true, .length_dependent = true},
       .family = Family::kExtension,
       .acts_on = "q and k",
       .parameters = "param_factor*head_width*head_width",
       .formula = "θ(t) = exp z(t), t = ⌈pe_len/L⌉ ≤ max_factor, z(1) = ln θ\n"
                  "dz/dt = act((z + ω(t))·W_up)·W_down + dω/dt, ω_c(t) = ln θ_c − (2c/(d_h − 2))·ln(2t − 1)\n"
                  "training: t drawn from 1 .. max_factor for each step, positions 0 < … < T·t − 1 drawn in order",
       .known_for = "Extends a model to many lengths after some training. With W_down = 0, as at the start, it is "
                    "ntk with factor 2t − 1. Up to the training length it is rope.",
       .errata = {"A guide cites arXiv:2401.04695, and its code takes Euler steps on a softplus scale. The paper is "
                  "2310.16450 and integrates logarithms of frequencies.",
                  "The released network receives frequencies of base 10000 for every model; see omega_base."}});
}

}  // namespace pe::encodings

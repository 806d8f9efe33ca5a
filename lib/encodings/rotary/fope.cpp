// FoPE: each pair gets a random, frozen mixture of the pairs that rotate within the training length, instead of one
// cosine and one sine. Slower pairs see content alone. Products are not functions of distance alone.
#include <numbers>

#include "encodings/attention/frozen.h"
#include "encodings/rotary/rotary_schedules.h"
#include "support/hash.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

using support::cat;

struct FopeOptions : RotaryOptions {
  std::int64_t fourier_dim = 0;
  double gain = 0.3;
  double pad_sin = 0;
  bool learnable = false;
  std::optional<std::int64_t> train_length;
  void describe(support::FieldVisitor& v) {
    v.field("base", base, "Wavelengths grow from 2π to 2π·base tokens.", {.min = 1});
    v.field("fourier_dim", fourier_dim, "Width of the schedule of the mixed frequencies; 0: the head width.",
            {.min = 0, .max = 65536});
    v.field("gain", gain, "Deviation of the mixture from the plain frequencies: gain of a Xavier normal.", {.min = 0});
    v.field("pad_sin", pad_sin,
            "Sine of pairs that are not rotated: 0 (paper), or 1 (released code), which doubles their product.",
            {.min = 0, .max = 1});
    v.field("learnable", learnable, "Train the mixture.");
    v.field("train_length", train_length,
            "Frequencies with less than one turn in this length are dropped; auto: from the model.",
            {.unit = "tokens", .min = 1});
    v.check(base > 1, "a base of 1 would rotate all pairs equally");
  }
};

class Fope : public Rotary, public FrozenTables {
 public:
  Fope(const FopeOptions& options, const Shape& shape)
      : Rotary("fope", shape, options), fope_(options), length_(extended_length("fope", options.train_length, shape)) {
    if (shape.key_value_heads != shape.query_heads) {
      throw support::ConfigError(cat("encoding 'fope' mixes frequencies for each head, and ", shape.query_heads,
                                     " query heads share ", shape.key_value_heads, " key/value heads"),
                                 {}, "leave key_value_heads at 0");
    }
    kept_ = static_cast<std::int64_t>(schedule().theta.size());
    mixed_ = std::min(kept_, shape.head_width / 4);
    for (int layer = 0; layer < shape.layers; ++layer) {
      for (const char* name : {"cos", "sin"}) {
        Tensor matrix = initial(name, layer);
        if (options.learnable)
          matrix = add_parameter("fope", name, matrix, /*weight_decay=*/false, layer);
        else
          matrix = add_frozen(name, matrix, layer);
        (name[0] == 'c' ? cos_ : sin_).push_back(matrix);
      }
    }
  }

  const std::vector<Parameter>& frozen() const override { return frozen_; }

  FrequencySchedule schedule() const override {
    const std::int64_t width = std::max(shape_.head_width, fope_.fourier_dim) / 2 * 2;
    FrequencySchedule all{.theta = geometric_frequencies(options_.base, width), .base = options_.base, .width = width};
    std::erase_if(all.theta, [&](double theta) { return theta < 2 * std::numbers::pi / static_cast<double>(length_); });
    return all;
  }

  std::optional<RotatedPairs> rotated_pairs(int layer, const Span& span) const override {
    return std::nullopt;  // a pair has several frequencies
  }

  bool only_rotates() const override { return false; }
  void transform(LayerContext& context, Heads& heads) override {
    const Span& span = context.span;
    const at::ScalarType type = heads.q.scalar_type();
    if (mixed_ == 0 && fope_.pad_sin == 0) return;
    if (fope_.learnable || !context.contiguous) return rotate_heads(heads, span, mixtures(context, 0, span.keys, type));
    // Frozen: the tables of a layer are made once for positions 0, 1, 2, …
    if (kept_tables_.empty()) kept_tables_.resize(static_cast<std::size_t>(shape_.layers));
    RotaryCache::Values& kept = kept_tables_.at(static_cast<std::size_t>(context.layer));
    const std::int64_t first = span.first_position, last = first + span.keys;
    if (span.restart_positions || first < 0) return rotate_heads(heads, span, mixtures(context, 0, span.keys, type));
    if (!kept.cos.defined() || kept.cos.size(2) < last || kept.cos.scalar_type() != table_type(type) ||
        kept.cos.device() != heads.q.device()) {
      const c10::InferenceMode ordinary_tensors(false);
      at::NoGradGuard no_grad;
      std::int64_t capacity = 64;
      while (capacity < last) capacity *= 2;
      Span whole = Span::whole(1, capacity);
      whole.device = span.device;
      State state{.span = whole};
      LayerContext from_zero{
          .state = state, .span = state.span, .layer = context.layer, .positions = default_positions(whole)};
      kept = mixtures(from_zero, 0, capacity, type);
    }
    rotate_heads(heads, span, {kept.cos.narrow(2, first, span.keys), kept.sin.narrow(2, first, span.keys)});
  }

 protected:
  Facts own_facts() const override {
    // Without a mixture (nothing rotates, or gain 0) only distances count.
    const bool mixes = mixed_ > 0 && (fope_.gain > 0 || fope_.learnable || kept_ != mixed_);
    return {.shift_invariant = mixes ? ShiftInvariance::kNever : ShiftInvariance::kAlways,
            .rotates = true,
            .learned = fope_.learnable && mixed_ > 0};
  }

 private:
  Tensor add_frozen(const std::string& name, const Tensor& drawn, int layer) {
    const Tensor value = drawn.to(at::TensorOptions(shape_.dtype).device(shape_.device));
    frozen_.push_back({.name = cat("fope.", layer, ".", name), .short_name = name, .layer = layer, .value = value});
    return value;
  }

  /// Xavier normal of a [G, D, M] tensor, whose fans a framework takes to be D·M and G·M, plus an identity in steps.
  Tensor initial(const std::string& name, int layer) const {
    const std::int64_t groups = shape_.key_value_heads;
    Tensor t = at::empty({groups, kept_, mixed_}, at::kDouble);
    if (t.numel() == 0) return t;
    const std::string full = cat("encoding.fope.", layer, ".", name);
    support::philox_normal(support::make_key({shape_.seed, support::fnv1a64(full)}), t.mutable_data_ptr<double>(),
                           static_cast<std::size_t>(t.numel()));
    t *= fope_.gain * std::sqrt(2.0 / static_cast<double>(kept_ * mixed_ + groups * mixed_));
    const std::int64_t step = (kept_ + mixed_ - 1) / mixed_;
    for (std::int64_t j = 0; j < mixed_ && j * step < kept_; ++j) t.select(1, j * step).select(1, j).add_(1);
    return t;
  }

  /// [1 or B, G, rows, d_h/2]
  RotaryCache::Values mixtures(const LayerContext& context, std::int64_t begin, std::int64_t count,
                               at::ScalarType type) {
    const RotaryCache::Values plain = table(context.span)(context, begin, count, type);
    const auto layer = static_cast<std::size_t>(context.layer);
    const std::int64_t rest = shape_.head_width / 2 - mixed_;
    const auto mix = [&](const Tensor& of, const Tensor& matrix, double pad) {
      const Tensor rows = of.dim() == 2 ? of.unsqueeze(0) : of;
      const Tensor turned = at::matmul(rows.unsqueeze(1), matrix.to(rows.scalar_type()));
      return at::constant_pad_nd(turned, {0, rest}, pad);
    };
    return {mix(plain.cos, cos_.at(layer), 1), mix(plain.sin, sin_.at(layer), fope_.pad_sin)};
  }

  FopeOptions fope_;
  std::int64_t length_, kept_ = 0, mixed_ = 0;
  std::vector<Tensor> cos_, sin_;  // a layer each, [G, D, M]
  std::vector<RotaryCache::Values> kept_tables_;
  std::vector<Parameter> frozen_;
};

}  // namespace

EncodingEntry fope_entry() {
  return with_options<Fope, FopeOptions>(
      {.name = "fope",
       .summary = "Rotates pairs by frozen random mixtures of the frequencies that rotate fully within the "
                  "training length.",
       .reference = "Hua et al. 2024, arXiv:2412.17739",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .rotates = true},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .formula = "pair c < M of head h is rotated by F_cos(p) = Σ_D cos(p·θ_D)·A_cos[h,D,c] and F_sin(p) = Σ_D "
                  "sin(p·θ_D)·A_sin[h,D,c] in place of cos and sin\n"
                  "θ_D: rope's frequencies ≥ 2π/L; M = min(D, d_h/4); other pairs: cos 1, sin pad_sin\n"
                  "A = xavier normal(gain) + identity in steps, frozen unless learnable",
       .known_for = "Pairs are short Fourier series instead of single waves. The paper claims a milder loss beyond the "
                    "training length. Logits also depend on absolute positions, since cross terms of different "
                    "frequencies remain.",
       .errata = {"The released code pads the sine with 1, which doubles the product of unrotated pairs; `pad_sin: 1` "
                  "reproduces it.",
                  "Normalisation of q and k after it would be another method; here the norm precedes it."}});
}

}  // namespace pe::encodings

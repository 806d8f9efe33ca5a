// PoPE: each channel becomes a complex number whose magnitude is content and whose phase is position, so that "what"
// and "where" do not mix. q and k get twice as wide.
#include <numbers>

#include "encodings/attention/head_vectors.h"
#include "encodings/rotary/rotary_schedules.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

enum class DeltaInit { kZero, kUniform };
enum class ScaleWidth { kHead, kTwice };

struct PopeOptions : RotaryOptions {
  ScaleWidth scale_dim = ScaleWidth::kHead;
  DeltaInit delta_init = DeltaInit::kZero;
  bool project_delta = true;
  double fraction = 1;
  void describe(support::FieldVisitor& v) {
    v.field("base", base, "Wavelengths grow from 2π to 2π·base tokens.", {.min = 1});
    describe_own(v);
    v.check(base > 1, "a base of 1 would rotate all pairs equally");
  }
  void describe_own(support::FieldVisitor& v) {
    v.choice("scale_dim", scale_dim, {{"d", ScaleWidth::kHead}, {"2d", ScaleWidth::kTwice}},
             "Divisor of logits: the root of the head width, or of twice the head width.");
    v.choice("delta_init", delta_init, {{"zero", DeltaInit::kZero}, {"uniform", DeltaInit::kUniform}},
             "Initial phase offsets: 0 (better on longer texts), or random in −2π … 0 (better within the training "
             "length).");
    v.field("project_delta", project_delta,
            "Clamp phase offsets to −2π … 0 after each step; otherwise an offset above 0 stops learning.");
    v.field("fraction", fraction, "Share of a head's channels that get a phase; the others have no phase.",
            {.min = 0, .max = 1});
  }
};

class Pope : public Rotary {
 public:
  Pope(const PopeOptions& options, const Shape& shape, RescalingPointer rescaling = {})
      : Rotary("pope", shape, options, std::move(rescaling)),
        pope_(options),
        channels_(static_cast<std::int64_t>(options.fraction * static_cast<double>(shape.head_width))) {
    if (channels_ == 0) return;
    for (int layer = 0; layer < shape.layers; ++layer) {
      const std::vector<std::int64_t> sizes{shape.key_value_heads, channels_};
      delta_.push_back(options.delta_init == DeltaInit::kZero
                           ? add_constant("pope", "delta", sizes, 0, false, layer)
                           : add_uniform("pope", "delta", sizes, -2 * std::numbers::pi, 0, false, layer));
    }
  }

  void enter_stack(const std::vector<const PositionalEncoding*>& others) override {
    for (const PositionalEncoding* other : others) {
      const auto* holder = dynamic_cast<const HoldsHeadVectors*>(other);
      if (channels_ == 0 || holder == nullptr || !holder->apply_after_rotation()) continue;
      throw support::ConfigError(
          "encoding 'pope' makes queries and keys up to twice as wide as a head, and another member of the "
          "stack multiplies them by vectors as wide as a head",
          {}, "leave one of them out");
    }
  }

  // A frequency for each channel: the schedule of a head twice as wide.
  FrequencySchedule schedule() const override {
    return {
        .theta = geometric_frequencies(options_.base, 2 * channels_), .base = options_.base, .width = 2 * channels_};
  }

  bool only_rotates() const override { return false; }
  void transform(LayerContext& context, Heads& heads) override {
    if (channels_ == 0) return;
    const Span& span = context.span;
    const at::ScalarType type = heads.q.scalar_type();
    const RotaryCache::Values all = table(span)(context, 0, span.keys, type);
    const std::int64_t offset = span.keys - span.queries;
    const auto batched = [](const Tensor& t) { return t.dim() == 3 ? t.unsqueeze(1) : t; };
    const Tensor cos = batched(all.cos), sin = batched(all.sin);
    heads.q = with_phase(heads.q, cos.narrow(-2, offset, span.queries), sin.narrow(-2, offset, span.queries));
    // cos(nθ + δ) and sin(nθ + δ), [G,S,d] or [B,G,S,d]
    const Tensor delta = delta_.at(static_cast<std::size_t>(context.layer))
                             .to(cos.scalar_type())
                             .clamp(-2 * std::numbers::pi, 0)
                             .unsqueeze(1);
    const Tensor c = delta.cos(), s = delta.sin();
    heads.k = with_phase(heads.k, cos * c - sin * s, sin * c + cos * s);
    if (pope_.scale_dim == ScaleWidth::kTwice) heads.scale /= std::sqrt(2.0);
  }

  std::optional<RotatedPairs> rotated_pairs(int layer, const Span& span) const override {
    if (channels_ == 0) return std::nullopt;
    RotatedPairs rotated{.first = {}, .second = {}, .theta = frequencies(span).theta};
    for (std::int64_t c = 0; c < channels_;
         ++c) {  // the phase of a key's channel begins at δ, which moves no angle apart
      rotated.first.push_back(c);
      rotated.second.push_back(channels_ + c);
    }
    return rotated;
  }

  void after_step() override {
    if (!pope_.project_delta) return;
    at::NoGradGuard no_grad;
    for (Tensor& delta : delta_) delta.clamp_(-2 * std::numbers::pi, 0);
  }

 protected:
  Facts own_facts() const override { return {.rotates = true, .learned = channels_ > 0}; }

 private:
  /// [softplus(x)·cos, softplus(x)·sin, channels without a phase]
  Tensor with_phase(const Tensor& x, const Tensor& cos, const Tensor& sin) const {
    const Tensor magnitude = at::softplus(x.narrow(-1, 0, channels_).to(cos.scalar_type()));
    std::vector<Tensor> parts{(magnitude * cos).to(x.scalar_type()), (magnitude * sin).to(x.scalar_type())};
    if (channels_ < x.size(-1)) parts.push_back(x.narrow(-1, channels_, x.size(-1) - channels_));
    return at::cat(parts, -1);
  }

  PopeOptions pope_;
  std::int64_t channels_;
  std::vector<Tensor> delta_;  // a layer each, [G,d]
};

constexpr const char* kPopeSummary = "Gives each channel a magnitude from content and a phase from position.";

}  // namespace

RotarySchedule pope_schedule() { return rotary_schedule<Pope, PopeOptions>("pope", kPopeSummary); }

EncodingEntry pope_entry() {
  return with_options<Pope, PopeOptions>(
      {.name = "pope",
       .summary = kPopeSummary,
       .reference = "Gopalakrishnan et al. 2025, arXiv:2509.10534",
       .facts = {.rotates = true, .learned = true},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .parameters = "layers*kv_heads*head_width",
       .formula = "logit(i,j) = Σ_c softplus(q_c)·softplus(k_c)·cos((j − i)·θ_c + δ_c)/√d_h, θ_c = base^(−c/d_h), "
                  "c = 0 .. d_h − 1\n"
                  "δ trained for each key/value head, used within −2π … 0",
       .known_for = "Separates content from position. The paper's diagnostic task improves from 11 % to 95 % "
                    "correct, and perplexity stays stable beyond the training length where rope's collapses. q "
                    "and k get twice as wide.",
       .errata = {"The paper prints a positive exponent for θ; the sign is wrong.",
                  "A δ above 0 has no gradient and cannot return. `project_delta` clamps it after each step; the "
                  "reference code does not.",
                  "Implementations divide by √d_h or by √(2·d_h); see scale_dim."}});
}

}  // namespace pe::encodings

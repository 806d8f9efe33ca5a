// RoPE with trained frequencies, for each layer.
#include "encodings/rotary/learned_frequencies.h"

#include <torch/csrc/autograd/custom_function.h>

#include "encodings/rotary/rotary_schedules.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// cos and sin of position·θ in float64, rounded to the dtype of tables; the gradient of θ is summed in float64 too.
class AnglesFunction : public torch::autograd::Function<AnglesFunction> {
 public:
  /// @param positions [.., T] float64. @param theta [n] or [G,n]. @return cos and sin, [.., T, n] or [.., G, T, n].
  static variable_list forward(AutogradContext* context, const Tensor& positions, const Tensor& theta,
                               std::int64_t type) {
    const auto dtype = static_cast<at::ScalarType>(type);
    const Tensor angles = angles_of(positions, theta.to(at::kDouble));
    const Tensor cos = angles.cos().to(dtype), sin = angles.sin().to(dtype);
    context->save_for_backward({positions, theta, cos, sin});
    return {cos, sin};
  }
  static variable_list backward(AutogradContext* context, variable_list gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor& positions = saved[0];
    const Tensor& theta = saved[1];
    // d cos = −sin·p·dθ, d sin = cos·p·dθ
    const Tensor by_angle = (gradients[1] * saved[2] - gradients[0] * saved[3]).to(at::kDouble);
    const Tensor place = (theta.dim() == 2 ? positions.unsqueeze(-2) : positions).unsqueeze(-1);
    Tensor sum = by_angle * place;
    // Over rows, and over sequences where each has its own.
    sum = sum.sum(-2);
    while (sum.dim() > theta.dim()) sum = sum.sum(0);
    return {Tensor(), sum.to(theta.scalar_type()), Tensor()};
  }

 private:
  static Tensor angles_of(const Tensor& positions, const Tensor& theta) {
    if (theta.dim() == 1) return positions.unsqueeze(-1) * theta;
    return positions.unsqueeze(-2).unsqueeze(-1) * theta.unsqueeze(1);
  }
};

struct LropeOptions : RotaryOptions {
  FrequencyForm form = FrequencyForm::kScale;
  bool per_head = false;
  double kappa = 16;
  void describe(support::FieldVisitor& v) {
    RotaryOptions::describe(v);
    describe_own(v);
  }
  void describe_own(support::FieldVisitor& v) {
    v.choice("form", form,
             {{"scale", FrequencyForm::kScale},
              {"direct", FrequencyForm::kDirect},
              {"log", FrequencyForm::kLog},
              {"log_shared", FrequencyForm::kLogShared}},
             "The trained parameter: a factor on each frequency, the frequency, κ times its logarithm, or one "
             "addition to the logarithm for all layers.");
    v.field("per_head", per_head, "Separate frequencies for each key/value head; otherwise one set per layer.");
    v.field("kappa", kappa, "κ of form log; a larger value trains more slowly.", {.min = 1e-6});
  }
};

class Lrope : public LearnedFrequencies {
 public:
  Lrope(const LropeOptions& options, const Shape& shape, RescalingPointer rescaling = {})
      : LearnedFrequencies("lrope", options, options.form, options.per_head, options.kappa, shape,
                           std::move(rescaling)) {}
};

constexpr const char* kLropeSummary = "RoPE with trained frequencies for each layer.";

/// LeRoPE: one trained addition to the logarithm of each frequency, for all layers and heads.
class Lerope : public LearnedFrequencies {
 public:
  Lerope(const RotaryOptions& options, const Shape& shape, RescalingPointer rescaling = {})
      : LearnedFrequencies("lerope", options, FrequencyForm::kLogShared, false, 1, shape, std::move(rescaling)) {}
};

constexpr const char* kLeropeSummary = "RoPE with one table of trained frequencies for the whole model.";

}  // namespace

RotaryCache::Values learned_angles(const Tensor& positions, const Tensor& theta, at::ScalarType type) {
  const variable_list made = AnglesFunction::apply(positions.to(at::kDouble), theta, static_cast<std::int64_t>(type));
  return {made[0], made[1]};
}

LearnedFrequencies::LearnedFrequencies(const std::string& kind, const RotaryOptions& options, FrequencyForm form,
                                       bool per_head, double kappa, const Shape& shape, RescalingPointer rescaling)
    : Rotary(kind, shape, options, std::move(rescaling)), form_(form), per_head_(per_head), kappa_(kappa) {
  const Tensor plain = at::tensor(schedule().theta, at::TensorOptions(at::kDouble));
  Tensor initial;
  switch (form) {
    case FrequencyForm::kScale:
      initial = at::ones_like(plain);
      break;
    case FrequencyForm::kDirect:
      initial = plain;
      break;
    case FrequencyForm::kLog:
      initial = plain.log() * kappa;
      break;
    case FrequencyForm::kLogShared:
      initial = at::zeros_like(plain);
      break;
  }
  if (per_head) initial = initial.unsqueeze(0).expand({shape.key_value_heads, -1});
  for (const std::int64_t length : {std::int64_t{1}, std::int64_t{1} << 40}) {
    const RotaryFrequencies slowed = frequencies({.pe_len = length});
    if (slowed.protected_positions == 0 && slowed.periods.empty()) continue;
    throw support::ConfigError(support::cat("encoding '", kind, "' trains its frequencies, so a rule over it has no ",
                                            slowed.periods.empty() ? "protected positions" : "whole wavelengths"),
                               {}, "leave protected out, or extend another encoding");
  }
  const bool shared = form == FrequencyForm::kLogShared;
  for (int layer = shared ? -1 : 0; layer < (shared ? 0 : shape.layers); ++layer) {
    frequency_.push_back(add_parameter(kind, "frequency", initial.clone(), /*weight_decay=*/false, layer));
  }
}

Tensor LearnedFrequencies::theta(int layer, const Span& span) const {
  const Tensor& learned = frequency_.at(frequency_.size() == 1 ? 0 : static_cast<std::size_t>(layer));
  const FrequencySchedule of = schedule();
  const auto options = at::TensorOptions(at::kDouble);
  const Tensor plain = at::tensor(of.theta, options).to(learned.device());
  const Tensor p = learned.to(at::kDouble);
  Tensor theta;
  switch (form_) {
    case FrequencyForm::kScale:
      theta = plain * p;
      break;
    case FrequencyForm::kDirect:
      theta = p;
      break;
    case FrequencyForm::kLog:
      theta = (p / kappa_).exp();
      break;
    case FrequencyForm::kLogShared:
      theta = plain * p.exp();
      break;
  }
  if (rescaling_ == nullptr) return theta;
  // A rule slows the learned frequencies as it slows the plain ones.
  const RotaryFrequencies slowed = rescaled(of, span);
  return theta * (at::tensor(slowed.theta, options).to(learned.device()) / plain);
}

std::optional<RotatedPairs> LearnedFrequencies::rotated_pairs(int layer, const Span& span) const {
  at::NoGradGuard no_gradients;
  const Tensor values = theta(layer, span).to(at::kCPU).contiguous();  // [n] or [G,n]
  const double* first = values.const_data_ptr<double>();
  return laid_out({first, first + values.numel()}, static_cast<std::size_t>(values.size(-1)));
}

void LearnedFrequencies::transform(LayerContext& context, Heads& heads) {
  const Span& span = context.span;
  const at::ScalarType type = table_type(heads.q.scalar_type());
  const bool shared = frequency_.size() == 1 && context.contiguous;
  Tensor &cos = context.state.tensors[support::cat(kind_, ".cos")],
         &sin = context.state.tensors[support::cat(kind_, ".sin")];
  if (!shared || !cos.defined() || cos.scalar_type() != type) {
    const RotaryCache::Values made = learned_angles(context.positions, theta(context.layer, span), type);
    cos = made.cos;
    sin = made.sin;
    if (rescaling_ != nullptr) {
      const double factor = rescaled(schedule(), span).attention_factor;
      if (factor != 1) {
        cos = cos * factor;
        sin = sin * factor;
      }
    }
    if (per_head_ && cos.dim() == 3) {
      cos = cos.unsqueeze(0);
      sin = sin.unsqueeze(0);
    }
  }
  rotate_heads(heads, span, {cos, sin});
}

RotarySchedule lrope_schedule() { return rotary_schedule<Lrope, LropeOptions>("lrope", kLropeSummary); }

EncodingEntry lrope_entry() {
  return with_options<Lrope, LropeOptions>(
      {.name = "lrope",
       .aliases = {"rope_learned"},
       .summary = kLropeSummary,
       .reference = "RanMo1990/PositionalEncodingExample; form log: arXiv:2512.07805",
       .facts = {.rotates = true, .learned = true},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .parameters = "layers*head_width/2",
       .formula = "rope with θ_c trained for each layer: scale, θ_c·g_c; direct, θ_c; log, exp(u_c/κ); "
                  "log_shared, θ_c·exp(α_c), one α for the model",
       .known_for = "Trained wavelengths. Length generalisation is not better than with rope. The gradient of a "
                    "frequency grows with distance; the multiplicative forms damp it.",
       .errata = {"The notebook that calls it LRoPE compares bare attention with whole transformer blocks, so its "
                  "ranking is not about the encoding."}});
}

RotarySchedule lerope_schedule() { return rotary_schedule<Lerope, RotaryOptions>("lerope", kLeropeSummary); }

EncodingEntry lerope_entry() {
  return with_options<Lerope, RotaryOptions>(
      {.name = "lerope",
       .summary = kLeropeSummary,
       .reference = "arXiv:2607.10134",
       .facts = {.rotates = true, .learned = true},
       .family = Family::kRotary,
       .acts_on = "q and k",
       .parameters = "head_width/2",
       .formula = "rope with θ_c ← θ_c·exp(α_c), α trained, one table for all layers and heads",
       .known_for = "Its authors report slightly lower perplexity within the training length at every size, and "
                    "worse extrapolation than rope. A separate table for each layer or head does no better."});
}

}  // namespace pe::encodings

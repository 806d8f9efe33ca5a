#include "training/schedule.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <optional>

namespace pe::training {
namespace {

/// After its warm-up a schedule stays at the peak until its decay begins, and then goes down by a shape until it ends.
enum class Decays { kNever, kAtOnce, kWhereChosen };

struct ScheduleForm {
  ScheduleKind kind;
  std::string_view word, at_peak, in_decay;  ///< in configs and checkpoints; of the two phases
  Decays decays;
  std::optional<DecayShape> shape;  ///< its own; none: the one that is chosen
};

constexpr ScheduleForm kSchedules[] = {
    {ScheduleKind::kWsd, "wsd", "stable", "decay", Decays::kWhereChosen, std::nullopt},
    {ScheduleKind::kCosine, "cosine", "cosine", "cosine", Decays::kAtOnce, DecayShape::kCosine},
    {ScheduleKind::kConstant, "constant", "constant", "constant", Decays::kNever, std::nullopt},
    {ScheduleKind::kLinear, "linear", "linear", "linear", Decays::kAtOnce, DecayShape::kLinear},
};

double exponential(double x) {
  const double left = std::exp2(-kDecayHalvings);
  return (std::exp2(-kDecayHalvings * x) - left) / (1 - left);
}

struct ShapeForm {
  DecayShape shape;
  std::string_view word;
  double (*left)(double x);
};

constexpr ShapeForm kShapes[] = {
    {DecayShape::kLinear, "linear", [](double x) { return 1 - x; }},
    {DecayShape::kCosine, "cosine", [](double x) { return x == 1 ? 0 : 0.5 * (1 + std::cos(std::numbers::pi * x)); }},
    {DecayShape::kOneMinusSqrt, "1-sqrt", [](double x) { return 1 - std::sqrt(x); }},
    {DecayShape::kExponential, "exponential", exponential},
    {DecayShape::kOneMinusSquare, "1-square", [](double x) { return 1 - x * x; }},
};

const ScheduleForm& form_of(ScheduleKind kind) {
  return *std::find_if(std::begin(kSchedules), std::end(kSchedules),
                       [&](const ScheduleForm& form) { return form.kind == kind; });
}

const ShapeForm& form_of(DecayShape shape) {
  return *std::find_if(std::begin(kShapes), std::end(kShapes),
                       [&](const ShapeForm& form) { return form.shape == shape; });
}

}  // namespace

std::string_view word_of(ScheduleKind kind) { return form_of(kind).word; }
std::string_view word_of(DecayShape shape) { return form_of(shape).word; }

double decay_factor(DecayShape shape, double x) { return form_of(shape).left(std::clamp(x, 0.0, 1.0)); }

std::int64_t horizon_steps(std::int64_t tokens, std::int64_t tokens_per_step) {
  return std::max<std::int64_t>(1, tokens / tokens_per_step + (tokens % tokens_per_step != 0 ? 1 : 0));
}

std::int64_t share_of_steps(double share, std::int64_t steps) {
  return static_cast<std::int64_t>(std::floor(share * static_cast<double>(steps) + 0.5 + 1e-9));
}

DecaySpan decay_span(double end, double share, std::int64_t horizon) {
  return {share_of_steps(end * (1 - share), horizon), share_of_steps(end, horizon)};
}

double Schedule::at(std::int64_t step) const {
  const std::int64_t since = step - begin;
  if (since < warmup) return peak * static_cast<double>(since + 1) / static_cast<double>(warmup);
  const ScheduleForm& form = form_of(kind);
  const std::int64_t from = form.decays == Decays::kAtOnce ? begin + warmup : decay_begin;
  if (form.decays == Decays::kNever || step < from || end <= from) return peak;
  const double x = static_cast<double>(step - from) / static_cast<double>(end - from);
  return peak * (final_share + (1 - final_share) * decay_factor(form.shape.value_or(shape), x));
}

std::string_view Schedule::phase(std::int64_t step) const {
  const ScheduleForm& form = form_of(kind);
  const bool ends = form.decays == Decays::kAtOnce || (form.decays == Decays::kWhereChosen && decay_begin < end);
  if (step >= end && ends) return "done";
  if (step - begin < warmup) return "warm-up";
  const bool decaying = ends && (form.decays == Decays::kAtOnce || step >= decay_begin);
  return decaying ? form.in_decay : form.at_peak;
}

bool Schedule::free_of_horizon(std::int64_t step) const {
  const Decays decays = form_of(kind).decays;
  return decays == Decays::kNever || (decays == Decays::kWhereChosen && step <= decay_begin);
}

}  // namespace pe::training

#include "training/schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace pe::training {

std::string_view word_of(ScheduleKind kind) {
  switch (kind) {
    case ScheduleKind::kWsd: return "wsd";
    case ScheduleKind::kCosine: return "cosine";
    case ScheduleKind::kConstant: return "constant";
    case ScheduleKind::kLinear: return "linear";
  }
  return "";
}

std::string_view word_of(DecayShape shape) {
  switch (shape) {
    case DecayShape::kLinear: return "linear";
    case DecayShape::kCosine: return "cosine";
    case DecayShape::kOneMinusSqrt: return "1-sqrt";
    case DecayShape::kExponential: return "exponential";
    case DecayShape::kOneMinusSquare: return "1-square";
  }
  return "";
}

double decay_factor(DecayShape shape, double x) {
  x = std::clamp(x, 0.0, 1.0);
  switch (shape) {
    case DecayShape::kLinear: return 1 - x;
    case DecayShape::kCosine: return x == 1 ? 0 : 0.5 * (1 + std::cos(std::numbers::pi * x));
    case DecayShape::kOneMinusSqrt: return 1 - std::sqrt(x);
    case DecayShape::kExponential: {
      const double left = std::exp2(-kDecayHalvings);
      return (std::exp2(-kDecayHalvings * x) - left) / (1 - left);
    }
    case DecayShape::kOneMinusSquare: return 1 - x * x;
  }
  return 0;
}

std::int64_t horizon_steps(std::int64_t tokens, std::int64_t tokens_per_step) {
  return std::max<std::int64_t>(1, tokens / tokens_per_step + (tokens % tokens_per_step != 0 ? 1 : 0));
}

std::int64_t share_of_steps(double share, std::int64_t steps) {
  return static_cast<std::int64_t>(std::floor(share * static_cast<double>(steps) + 0.5 + 1e-9));
}

double Schedule::at(std::int64_t step) const {
  const std::int64_t since = step - begin;
  if (since < warmup) return peak * static_cast<double>(since + 1) / static_cast<double>(warmup);
  const auto between = [&](std::int64_t from, DecayShape f) {
    if (end <= from) return peak;
    const double x = static_cast<double>(step - from) / static_cast<double>(end - from);
    return peak * (final_share + (1 - final_share) * decay_factor(f, x));
  };
  switch (kind) {
    case ScheduleKind::kConstant: return peak;
    case ScheduleKind::kCosine: return between(begin + warmup, DecayShape::kCosine);
    case ScheduleKind::kLinear: return between(begin + warmup, DecayShape::kLinear);
    case ScheduleKind::kWsd: return step < decay_begin ? peak : between(decay_begin, shape);
  }
  return peak;
}

std::string_view Schedule::phase(std::int64_t step) const {
  if (step >= end && !(kind == ScheduleKind::kConstant) && !(kind == ScheduleKind::kWsd && decay_begin >= end)) return "done";
  if (step - begin < warmup) return "warm-up";
  switch (kind) {
    case ScheduleKind::kConstant: return "constant";
    case ScheduleKind::kCosine: return "cosine";
    case ScheduleKind::kLinear: return "linear";
    case ScheduleKind::kWsd: return step < decay_begin || decay_begin >= end ? "stable" : "decay";
  }
  return "constant";
}

bool Schedule::free_of_horizon(std::int64_t step) const {
  return kind == ScheduleKind::kConstant || (kind == ScheduleKind::kWsd && step <= decay_begin);
}

}  // namespace pe::training

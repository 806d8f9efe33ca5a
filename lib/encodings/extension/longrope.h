/// @file
/// LongRoPE's rule: each frequency has a separate divisor, found by a search (`longrope_search.h`).
#pragma once

#include "encodings/rotary/rescaling.h"

namespace pe::encodings {

struct LongRopeOptions : ExtensionOptions {
  std::optional<std::int64_t> train_length;
  std::vector<double> long_factors;
  std::vector<double> short_factors;
  std::int64_t protected_positions = 0;  ///< option `protected`, n̂
  double attention_factor = 0;
  std::optional<std::int64_t> pe_len;
  void describe(support::FieldVisitor& v);
};

/// LongRoPE2 differs in two points: up to the training length nothing changes. Without a list, pairs are slowed by the
/// factor, from the first pair without a whole turn in that length on.
enum class LongRopeVersion { kOne, kTwo };

class LongRopeRule : public Rescaling {
 public:
  LongRopeRule(const LongRopeOptions& options, const Shape& shape, LongRopeVersion version = LongRopeVersion::kOne);
  RotaryFrequencies rescale(const FrequencySchedule& of, const Span& span) const override;
  std::int64_t key(const Span& span) const override;
  bool length_dependent() const override;
  bool shift_invariant() const override { return options_.protected_positions == 0; }

 private:
  std::string kind() const { return version_ == LongRopeVersion::kOne ? "longrope" : "longrope2"; }

  LongRopeOptions options_;
  LongRopeVersion version_;
  std::int64_t train_length_;
};

/// √(1 + ln s / ln L), 1 for s ≤ 1.
double longrope_attention_factor(double factor, std::int64_t train_length);

/// ⌈(d/2)·log_base(L/(2π·turns))⌉: the first pair that makes fewer turns than that in the training length, clamped to
/// 0 .. d/2.
std::int64_t critical_pair(const FrequencySchedule& of, std::int64_t train_length, double turns);

/// Divisors that slow pair `critical` and all later ones by `factor`, and earlier ones by a base that fits.
std::vector<double> critical_divisors(const FrequencySchedule& of, std::int64_t critical, double factor);

}  // namespace pe::encodings

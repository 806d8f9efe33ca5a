/// @file
/// YaRN's rule, which others build on.
#pragma once

#include "encodings/rotary/rescaling.h"

namespace pe::encodings {

/// `index` is the released code's ramp, linear in the pair's index; `rotations` the paper's, linear in turns.
enum class YarnRamp { kIndex, kRotations };

struct YarnOptions : ExtensionOptions {
  std::optional<std::int64_t> train_length;
  double beta_fast = 32;
  double beta_slow = 1;
  YarnRamp ramp = YarnRamp::kIndex;
  bool truncate = true;
  double attention_factor = 0;
  double mscale = 0;
  double mscale_all_dim = 0;
  bool dynamic = false;
  std::optional<std::int64_t> pe_len;
  void describe(support::FieldVisitor& v);
};

class YarnRule : public Rescaling {
 public:
  YarnRule(const YarnOptions& options, const Shape& shape);
  RotaryFrequencies rescale(const FrequencySchedule& of, const Span& span) const override;
  std::int64_t key(const Span& span) const override;
  bool length_dependent() const override { return options_.dynamic; }

 private:
  double attention_factor(double s) const;

  YarnOptions options_;
  std::int64_t train_length_;
};

/// The frequencies of a schedule under YaRN with default options; a start for searches.
RotaryFrequencies yarn_frequencies(const FrequencySchedule& of, double factor, std::int64_t train_length);

}  // namespace pe::encodings

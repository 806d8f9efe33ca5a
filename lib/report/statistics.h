/// @file
/// What a comparison may claim. Documents are the sampling unit: their tokens stand and fall together. Intervals over
/// documents describe the test set, intervals over seeds describe training; neither may be read as the other.
///
/// Missing is NaN in and NaN out; nothing here turns it into a zero.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pe::report {

struct Interval {
  double low = 0;
  double high = 0;
};

/// Wilson's score interval at 95 %. `successes` may be fractional (means over draws); [0, 1] without trials.
Interval wilson(double successes, double trials);

/// Results of one arm over its seeds.
struct SeedSummary {
  std::size_t seeds = 0;
  double mean = 0;        ///< NaN without seeds
  double half_width = 0;  ///< t(0.975, s−1)·sd/√s from three seeds on, else NaN: two values are no sample
};
/// Values that are not finite are left out of neither side: one of them makes the mean NaN.
SeedSummary summarise_seeds(const std::vector<double>& values);

/// θ = Σ y / Σ x over documents, with the standard error of the linearised ratio.
struct Ratio {
  double value = 0;
  double se = 0;  ///< NaN below two documents
};
Ratio ratio_of_sums(const std::vector<double>& y, const std::vector<double>& x);

/// Resamples of N documents with replacement, the same for every model that is asked about N documents: resample b
/// draws N indices from the generator keyed (base, fnv1a64("bootstrap"), N, b).
class Bootstrap {
 public:
  static constexpr std::uint64_t kBase = 20260101;
  static constexpr int kResamples = 10000;

  explicit Bootstrap(std::size_t documents, int resamples = kResamples, std::uint64_t base = kBase);

  std::size_t documents() const { return documents_; }
  int resamples() const { return resamples_; }
  /// Σ y / Σ x of every resample. Both have one entry per document, in the order shared by all models.
  std::vector<double> ratios(const std::vector<double>& y, const std::vector<double>& x) const;

 private:
  std::size_t documents_;
  int resamples_;
  std::vector<std::uint16_t> counts_;  ///< [resamples, documents]: how often each was drawn
};

/// Percentile interval at 95 %, linear between order statistics.
Interval percentile_interval(std::vector<double> values);

/// Two models on the same resamples.
struct PairedDifference {
  double delta = 0;   ///< θ_a − θ_b on the documents themselves
  Interval interval;  ///< 95 % percentile interval of the resampled differences
  double p = 1;       ///< two-sided: min(1, 2·min(#{Δ≤0}+1, #{Δ≥0}+1)/(B+1))
  bool excludes_zero() const { return interval.low > 0 || interval.high < 0; }
};
/// `a` and `b` hold the ratios of the same resamples.
PairedDifference paired_difference(double theta_a, double theta_b, const std::vector<double>& a,
                                   const std::vector<double>& b);

/// Holm's step-down adjustment, in the order given. NaN entries stay NaN and do not count.
std::vector<double> holm(const std::vector<double>& p);

}  // namespace pe::report

/// @file
/// The searches for LongRoPE's and LongRoPE2's divisors. The caller, who has the model and the texts, scores a set of
/// divisors:
///
///     auto& rotary = dynamic_cast<Rotary&>(model.encoding());
///     const FactorSearchResult found = search_longrope(rotary.schedule(), 512, 8, options, [&](const RescaleFactors&
///     f) {
///       rotary.rescale_with(longrope_rescaling(f, 512, 8));
///       return perplexity_at(8 * 512);
///     });
///
/// The divisors found go into a config as `long_factors` and `protected`. Same seed and same scores, same result.
#pragma once

#include <functional>
#include <vector>

#include "encodings/rotary/rotary.h"

namespace pe::encodings {

struct RescaleFactors {
  std::vector<double> divisors;          ///< one a pair, never falling
  std::int64_t protected_positions = 0;  ///< n̂
};

/// Lower is better: perplexity at the target length, for LongRoPE2 only over the answers of needles. A value that is
/// not finite counts as worst.
using FactorScore = std::function<double(const RescaleFactors&)>;

/// Called after each generation, 0 for the first population.
using FactorProgress = std::function<void(std::int64_t generation, double best)>;

/// Defaults are for models of up to 100M parameters; the papers take 64, 16, 16 and 40.
struct FactorSearchOptions {
  std::int64_t population = 16;
  std::int64_t mutations = 8;
  std::int64_t crossovers = 8;
  std::int64_t generations = 10;
  double mutation_probability = 0.3;
  double crossover_probability = 0.15;  ///< of taking an entry from the second parent; 0.3 · 0.5 as released
  bool search_protected = true;         ///< n̂ too, as the paper says and its code does not
  std::uint64_t seed = 0;
  void describe(support::FieldVisitor& v);
};

struct FactorSearchResult {
  RescaleFactors best;
  double score = 0;
  std::int64_t evaluated = 0;              ///< calls of the score
  std::vector<double> best_of_generation;  ///< best so far, the first population included
};

/// Divisors from {1.00, 1.01, … 1.25·factor}, starting from the divisors of pi, ntk and yarn and mutants of them.
FactorSearchResult search_longrope(const FrequencySchedule& of, std::int64_t train_length, double factor,
                                   const FactorSearchOptions& options, const FactorScore& score,
                                   const FactorProgress& progress = {});

/// Searches a critical pair between the pairs with ten turns and with one turn in the training length. From it on
/// divisors are from factor to 2·factor, before it a base that fits.
FactorSearchResult search_longrope2(const FrequencySchedule& of, std::int64_t train_length, double factor,
                                    const FactorSearchOptions& options, const FactorScore& score,
                                    const FactorProgress& progress = {});

/// The rule that these divisors make for any length, with LongRoPE's attention factor.
RescalingPointer longrope_rescaling(const RescaleFactors& factors, std::int64_t train_length, double factor);

}  // namespace pe::encodings

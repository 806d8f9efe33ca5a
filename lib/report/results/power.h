/// @file
/// The noise of the present results. It determines the differences that a study of so many seeds and items can show
/// (two_level.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "report/results/results.h"
#include "statistics/two_level.h"

namespace pe::report {

/// How noisy differences from the baseline were: of one measure at one length, in one variant. Where the baseline was
/// not measured, the first arm takes its place.
struct ObservedNoise {
  std::string measure;               ///< "NLL, anchored", with the variant if there are several
  bool nats = true;                  ///< else a share
  std::int64_t length = 0;           ///< 0: the measure has none
  statistics::NoiseLevels noise;     ///< medians over the encodings; `seed` is NaN below three seeds
  std::size_t seeds = 0, items = 0;  ///< the fewest of any encoding
};

/// NLL under the headline protocol, tasks of retrieval and algorithmic ones, and rules of extension against the plain
/// model, each by length; then losses on structured rows by network. Measures without any noise (no model answered
/// anything, say) are left out: they say nothing about a study in which something is answered.
std::vector<ObservedNoise> observed_noise(const Results& results);

}  // namespace pe::report

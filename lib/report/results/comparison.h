/// @file
/// Comparisons of arms on the documents and seeds that both have: for bold numbers in tables, claims in sentences, and
/// forest plots. From three common seeds on, every interval holds the noise of training. With fewer it holds the noise
/// of the documents, and the text with it says how many seeds there were.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/results/results.h"
#include "report/tables/table.h"
#include "statistics/two_level.h"

namespace pe::report {

/// One arm under one protocol at one length, over its seeds.
struct ArmScore {
  std::string status = "ok";  ///< the first that is not, else ok
  std::string reason;         ///< of a status that is not ok
  std::vector<double> nll;    ///< of each seed; infinite or NaN where the status says so
  std::vector<std::string> seeds;
  std::vector<const LmCell*> cells;  ///< of each seed; null where nothing was measured
  double documents = 0;
  double bpb = 0;  ///< mean over seeds
  bool ok() const { return status == "ok"; }
};
/// "not_measured" where no seed of the arm has the cell.
ArmScore arm_score(const Results& results, const Arm& arm, const std::string& protocol, std::int64_t length);

/// Mean NLL over seeds and over the documents that all of them have, with its interval. Empty when the arm has no
/// number, or fewer than two documents by id.
std::optional<statistics::TwoLevel> level_of(const ArmScore& score);

/// Mean NLL of `a` minus the mean NLL of `b`, over the seeds that both have and the documents that all of these have.
/// Empty when one side has no number, they share no seed, or fewer than two documents.
std::optional<statistics::TwoLevel> compare(const ArmScore& a, const ArmScore& b);

/// A comparison that was chosen from `comparisons` possible ones: Bonferroni's p.
double adjusted_p(const statistics::TwoLevel& difference, std::size_t comparisons);
/// All pairs of so many arms.
std::size_t pairs_of_arms(std::size_t arms);

/// Bold for the best cell and all cells that are not significantly worse (5 %, corrected for all pairs of the column).
/// No bold where none is, where a pair cannot be compared, or below three seeds. @return how many seeds the least
/// repeated of the comparisons had; 0 without any.
std::size_t mark_best(const std::vector<Cell*>& cells, const std::vector<const ArmScore*>& scores);
/// The evidence for bold numbers, for a caption.
std::string bold_sentence(const Results& results, std::size_t fewest_seeds);

/// The protocol that sentences, checks and the forest plot use: anchored, which has the same targets at every length,
/// else sliding, else blocks, else the first.
std::string headline_protocol(const Results& results);

/// "one seed", "two seeds", "5 seeds".
std::string seeds_in_words(std::size_t seeds);
/// "p = 0.012", "p < 0.001".
std::string p_in_words(double p);
/// Whether a difference is shown: "significant", "not significant", and below three seeds "not shown: two seeds".
std::string verdict_words(const statistics::TwoLevel& difference, double p);
/// The verdict with its evidence, for a sentence: "significant: p = 0.012, 3 seeds", "not shown: one seed, beyond the
/// noise of the documents"; says so where documents are few.
std::string certainty(const statistics::TwoLevel& difference, double p);

}  // namespace pe::report

/// @file
/// Several evaluations of one model are one run. Rows that contradict each other stay apart, and labels that tell
/// models apart stay.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "artifact/table.h"
#include "report/results/results.h"

namespace pe::report {

/// The rows of a run so far, by table and place (corpus, protocol, length, task and the like).
class EvaluatedRows {
 public:
  /// The rows of a place: whole numbers and words exactly, real numbers as sums.
  struct Content {
    std::uint64_t exact = 0;
    std::vector<double> sums;
    bool same(const Content& other) const;
  };
  using Places = std::map<std::string, Content>;
  /// Whether a table holds times, sampled texts or rows of a user.
  static bool always_fits(const std::string& table);
  /// Empty for tables that always fit.
  static Places places_of(const artifact::Table& table);

  /// Whether the rows of `table` are of other places, or the same numbers as before. Tables that sum up a whole
  /// evaluation always fit.
  bool fit(const std::string& table, const Places& places) const;
  /// Adds the rows. @return the rows of new places, so that nothing counts twice
  artifact::Table add(artifact::Table table, Places places);

 private:
  std::map<std::string, Places> tables_;
};

/// Labels that further evaluations of a run have, where they differ from the run's: axis → labels, in order.
using OtherLabels = std::map<std::string, std::vector<std::string>>;

/// An axis in which evaluations of one model differ says nothing of the model. It is erased from all runs, unless two
/// models would then have the same labels. Where it stays, a run has the label that most runs have.
/// @param runs      with a label of each axis that any of their evaluations has
/// @param others    of each run
/// @param kept      axes that stay
/// @param unmeasured  runs that are no models of the comparison
void settle_labels(std::vector<Run>& runs, const std::vector<OtherLabels>& others, const std::set<std::string>& kept,
                   const std::set<std::size_t>& unmeasured);

/// Evaluated with another encoding than its training had, which an axis of evaluations chose.
bool is_laid_over(const Run& run);

}  // namespace pe::report

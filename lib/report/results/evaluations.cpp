#include "report/results/evaluations.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <tuple>

#include "report/results/drops.h"
#include "schema/tables.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

/// Columns that say what a row is about. Other columns are settings and numbers.
const std::vector<std::string> kPlace = {"corpus",  "protocol", "task",   "variant", "split",     "test", "amount",
                                         "measure", "network",  "method", "tested",  "separator", "bins", "reference",
                                         "context", "last",     "offset", "L",       "length",    "m"};
/// Tables that sum up all that a call evaluated, or depend on the device: other lengths, a reference or a dtype change
/// them, and that is no contradiction.
const std::set<std::string> kDerived = {schema::LmLength::kName,        schema::LmPosition::kName,
                                        schema::LmKeyToken::kName,      schema::LongPplDocument::kName,
                                        schema::RetrievalLadder::kName, schema::AlgoLength::kName,
                                        schema::Parameters::kName};
/// The same evaluation on another device rounds otherwise.
constexpr double kRounding = 1e-4;

std::string exact_text(const artifact::Cell& cell) {
  if (const auto* whole = std::get_if<std::int64_t>(&cell.value())) return std::to_string(*whole);
  if (const auto* words = std::get_if<std::string>(&cell.value())) return *words;
  return "";
}

std::vector<std::size_t> place_columns(const artifact::Table& table) {
  std::vector<std::size_t> columns;
  for (const std::string& name : kPlace) {
    if (const auto column = table.find_column(name)) columns.push_back(*column);
  }
  return columns;
}

std::string place_of(const artifact::Table& table, std::size_t row, const std::vector<std::size_t>& columns) {
  std::string place;
  for (const std::size_t column : columns) place += cat(exact_text(table.cell(row, column)), "\n");
  return place;
}

}  // namespace

bool EvaluatedRows::always_fits(const std::string& table) {
  return !is_known_table(table) || table == schema::Cost::kName || table == schema::Sample::kName;
}

bool EvaluatedRows::Content::same(const Content& other) const {
  return exact == other.exact &&
         std::equal(sums.begin(), sums.end(), other.sums.begin(), other.sums.end(), [](double a, double b) {
           return std::abs(a - b) <= kRounding * std::max({1.0, std::abs(a), std::abs(b)});
         });
}

EvaluatedRows::Places EvaluatedRows::places_of(const artifact::Table& table) {
  if (always_fits(table.name())) return {};
  const std::vector<std::size_t> columns = place_columns(table);
  std::uint64_t names = 0;
  for (const artifact::ColumnSpec& column : table.columns()) names = support::fnv1a64(cat(names, "\n", column.name));
  Places places;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Content& content =
        places.try_emplace(place_of(table, row, columns), Content{names, std::vector<double>(table.columns().size())})
            .first->second;
    std::string exact = std::to_string(content.exact);
    for (std::size_t i = 0; i < table.columns().size(); ++i) {
      const artifact::Cell cell = table.cell(row, i);
      const auto* real = std::get_if<double>(&cell.value());
      if (real != nullptr && std::isfinite(*real))
        content.sums[i] += *real;
      else
        exact += cat("\n", real == nullptr ? exact_text(cell) : support::shortest(*real));
    }
    content.exact = support::fnv1a64(exact);
  }
  return places;
}

bool EvaluatedRows::fit(const std::string& table, const Places& places) const {
  const auto known = tables_.find(table);
  if (known == tables_.end() || kDerived.count(table) != 0) return true;
  return std::all_of(places.begin(), places.end(), [&](const auto& place) {
    const auto own = known->second.find(place.first);
    return own == known->second.end() || own->second.same(place.second);
  });
}

artifact::Table EvaluatedRows::add(artifact::Table table, Places places) {
  Places& known = tables_[table.name()];
  const bool all_fresh =
      std::none_of(places.begin(), places.end(), [&](const auto& place) { return known.count(place.first) != 0; });
  artifact::Table fresh(table.name(), table.columns());
  if (!all_fresh) {
    const std::vector<std::size_t> columns = place_columns(table);
    for (std::size_t row = 0; row < table.rows(); ++row) {
      if (known.count(place_of(table, row, columns)) != 0) continue;
      std::vector<artifact::Cell> cells;
      for (std::size_t i = 0; i < table.columns().size(); ++i) cells.push_back(table.cell(row, i));
      fresh.add_row(std::move(cells));
    }
    fresh.attributes = table.attributes;
  }
  known.merge(places);
  return all_fresh ? std::move(table) : std::move(fresh);
}

bool is_laid_over(const Run& run) { return run.facts.contains("trained_encoding"); }

namespace {

bool is_maker(const std::string& axis) { return axis == "stage" || axis == "from" || axis == "snapshot"; }

/// Whether two runs may be two models, as far as an axis says.
using MayDiffer = std::function<bool(std::size_t, std::size_t)>;

/// Whether models that had different labels before have the same labels after.
bool merges_models(const std::vector<Run>& runs, const std::vector<Labels>& before, const std::vector<Labels>& after,
                   const std::set<std::size_t>& unmeasured, const MayDiffer& may_differ = {}) {
  std::map<std::tuple<std::string, std::string, Labels>, std::vector<std::size_t>> alike;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (unmeasured.count(i) != 0) continue;
    auto& others = alike[{runs[i].encoding, runs[i].seed, after[i]}];
    for (const std::size_t other : others) {
      const bool one_model = !runs[i].run_id.empty() && runs[i].run_id == runs[other].run_id;
      if (!one_model && before[i] != before[other] && (!may_differ || may_differ(i, other))) return true;
    }
    others.push_back(i);
  }
  return false;
}

std::vector<Labels> without_all_makers(std::vector<Labels> all) {
  for (Labels& labels : all) labels = without_makers(std::move(labels));
  return all;
}

/// All labels of a run's evaluations in an axis.
std::set<std::string> labels_in(const std::string& axis, const Run& run, const OtherLabels& others) {
  std::set<std::string> all;
  if (const auto own = run.labels.find(axis); own != run.labels.end()) all.insert(own->second);
  if (const auto more = others.find(axis); more != others.end()) all.insert(more->second.begin(), more->second.end());
  return all;
}

/// Each run with the label of its evaluations that most runs have; of several the first.
std::vector<Labels> with_usual_label(std::vector<Labels> labels, const std::vector<OtherLabels>& others,
                                     const std::string& axis) {
  std::map<std::string, std::size_t> count;
  const auto each_label = [&](std::size_t run, const auto& use) {
    if (const auto own = labels[run].find(axis); own != labels[run].end()) use(std::string(own->second));
    if (const auto more = others[run].find(axis); more != others[run].end()) {
      for (const std::string& label : more->second) use(label);
    }
  };
  for (std::size_t run = 0; run < labels.size(); ++run) each_label(run, [&](const std::string& one) { ++count[one]; });
  for (std::size_t run = 0; run < labels.size(); ++run) {
    std::string best;
    each_label(run, [&](const std::string& one) { best = best.empty() || count[one] > count[best] ? one : best; });
    if (!best.empty()) labels[run][axis] = best;
  }
  return labels;
}

}  // namespace

void settle_labels(std::vector<Run>& runs, const std::vector<OtherLabels>& others, const std::set<std::string>& kept,
                   const std::set<std::size_t>& unmeasured) {
  std::vector<Labels> labels;
  std::set<std::tuple<int, std::string, bool>> axes;  // the stage first: an axis says more of a model than its maker
  for (std::size_t run = 0; run < runs.size(); ++run) {
    labels.push_back(runs[run].labels);
    for (const auto& [axis, more] : others[run]) {
      if (kept.count(axis) == 0)
        axes.emplace(axis == "stage" ? 0 : is_maker(axis) ? 2 : 1, axis, is_laid_over(runs[run]));
    }
  }
  for (const auto& [rank, axis, laid_over] : axes) {
    // A model that lacks an evaluation is no other model than one that has all of them.
    const auto share_no_label = [&, &axis = axis](std::size_t a, std::size_t b) {
      const auto of_a = labels_in(axis, runs[a], others[a]), of_b = labels_in(axis, runs[b], others[b]);
      return std::none_of(of_a.begin(), of_a.end(), [&](const std::string& label) { return of_b.count(label) != 0; });
    };
    const auto merges = [&, &axis = axis](const std::vector<Labels>& after) {
      return merges_models(runs, labels, after, unmeasured) ||
             (!is_maker(axis) &&
              merges_models(runs, without_all_makers(labels), without_all_makers(after), unmeasured, share_no_label));
    };
    std::vector<Labels> after = labels;
    for (std::size_t run = 0; run < runs.size(); ++run) {
      if (is_laid_over(runs[run]) == laid_over) after[run].erase(axis);
    }
    if (merges(after)) after = with_usual_label(labels, others, axis);
    if (!merges(after)) labels = std::move(after);
  }
  for (std::size_t run = 0; run < runs.size(); ++run) runs[run].labels = std::move(labels[run]);
}

}  // namespace pe::report

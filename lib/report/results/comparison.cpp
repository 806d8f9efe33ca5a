#include "report/results/comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "report/results/arms.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

constexpr double kLevel = 0.05;

/// The cells of seeds that both arms have, as pairs. A seed that an arm has twice pairs in order.
std::vector<std::pair<const LmCell*, const LmCell*>> common_seeds(const ArmScore& a, const ArmScore& b) {
  std::vector<std::pair<const LmCell*, const LmCell*>> pairs;
  std::vector<bool> taken(b.cells.size(), false);
  for (std::size_t i = 0; i < a.cells.size(); ++i) {
    for (std::size_t k = 0; k < b.cells.size(); ++k) {
      if (taken[k] || a.seeds[i] != b.seeds[k]) continue;
      taken[k] = true;
      if (a.cells[i] && b.cells[k]) pairs.emplace_back(a.cells[i], b.cells[k]);
      break;
    }
  }
  return pairs;
}

/// Ids that all cells have, in their order.
std::vector<std::int64_t> common_documents(const std::vector<std::pair<const LmCell*, const LmCell*>>& pairs) {
  std::vector<std::int64_t> common;
  for (const schema::DocumentScore& score : pairs.front().first->scores) common.push_back(score.id);
  const auto keep = [&](const LmCell& cell) {
    std::vector<std::int64_t> kept;
    auto other = cell.scores.begin();
    for (const std::int64_t id : common) {
      while (other != cell.scores.end() && other->id < id) ++other;
      if (other != cell.scores.end() && other->id == id) kept.push_back(id);
    }
    common = std::move(kept);
  };
  for (const auto& [a, b] : pairs) {
    keep(*a);
    keep(*b);
  }
  return common;
}

statistics::SeedItems items_of(const LmCell& cell, const std::vector<std::int64_t>& documents) {
  statistics::SeedItems items;
  auto score = cell.scores.begin();
  for (const std::int64_t id : documents) {
    while (score->id != id) ++score;
    items.y.push_back(score->nll);
    items.x.push_back(static_cast<double>(score->tokens));
  }
  return items;
}

}  // namespace

ArmScore arm_score(const Results& results, const Arm& arm, const std::string& protocol, std::int64_t length) {
  ArmScore score;
  std::vector<std::string> bad;
  for (const std::size_t run : arm.runs) {
    const LmCell* cell = results.find_lm(run, protocol, length);
    const std::string status = cell ? cell->status : "not_measured";
    score.seeds.push_back(results.runs[run].seed);
    score.cells.push_back(cell);
    score.nll.push_back(cell ? cell->nll : std::numeric_limits<double>::quiet_NaN());
    if (status != "ok") {
      if (score.ok()) score.status = status;
      bad.push_back(results.runs[run].seed);
      continue;
    }
    score.documents = std::max(score.documents, cell->documents);
    score.bpb += cell->bpb;
  }
  if (score.ok()) {
    score.bpb /= static_cast<double>(arm.runs.size());
    return score;
  }
  score.bpb = std::numeric_limits<double>::quiet_NaN();
  score.reason = reason_of(score.status);
  if (bad.size() < arm.runs.size())
    score.reason += cat(", in ", bad.size(), " of ", arm.runs.size(), " seeds (", support::join(bad, ", "), ")");
  return score;
}

std::optional<statistics::TwoLevel> level_of(const ArmScore& score) {
  std::vector<std::pair<const LmCell*, const LmCell*>> cells;
  for (const LmCell* cell : score.cells) {
    if (!score.ok() || !cell) return std::nullopt;
    cells.emplace_back(cell, cell);
  }
  if (cells.empty()) return std::nullopt;
  const std::vector<std::int64_t> documents = common_documents(cells);
  if (documents.size() < 2) return std::nullopt;
  std::vector<statistics::SeedItems> seeds;
  for (const auto& [cell, same] : cells) seeds.push_back(items_of(*cell, documents));
  const statistics::TwoLevel level = statistics::two_level_ratio(seeds);
  // A mean of windows is not the loss over all tokens of the documents, so it would have another number's interval.
  const bool all = std::all_of(cells.begin(), cells.end(),
                               [&](const auto& pair) { return pair.first->scores.size() == documents.size(); });
  const double shown = mean_of_finite(score.nll);
  if (all && std::abs(level.estimate - shown) > 1e-6 * std::max(1.0, std::abs(shown))) return std::nullopt;
  return level;
}

std::optional<statistics::TwoLevel> compare(const ArmScore& a, const ArmScore& b) {
  if (!a.ok() || !b.ok()) return std::nullopt;
  const auto pairs = common_seeds(a, b);
  if (pairs.empty()) return std::nullopt;
  const std::vector<std::int64_t> documents = common_documents(pairs);
  if (documents.size() < 2) return std::nullopt;
  std::vector<statistics::SeedItems> items_a, items_b;
  for (const auto& [of_a, of_b] : pairs) {
    items_a.push_back(items_of(*of_a, documents));
    items_b.push_back(items_of(*of_b, documents));
  }
  return statistics::two_level_difference(items_a, items_b);
}

double adjusted_p(const statistics::TwoLevel& difference, std::size_t comparisons) {
  return std::min(1.0, difference.p * static_cast<double>(comparisons));
}

std::size_t pairs_of_arms(std::size_t arms) { return arms * (arms - 1) / 2; }

std::size_t mark_best(const std::vector<Cell*>& cells, const std::vector<const ArmScore*>& scores) {
  std::size_t best = cells.size(), numbers = 0, fewest = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!cells[i]->number) continue;
    ++numbers;
    if (best == cells.size() || *cells[i]->number < *cells[best]->number) best = i;
  }
  if (numbers < 2) return 0;
  std::vector<Cell*> tied{cells[best]};
  std::size_t unknown = 0;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!cells[i]->number || i == best) continue;
    const auto difference = compare(*scores[best], *scores[i]);
    if (!difference) {
      ++unknown;
      continue;
    }
    fewest = fewest == 0 ? difference->seeds : std::min(fewest, difference->seeds);
    // With other seeds than the means, a pair may differ the other way.
    const bool better = difference->estimate < 0 && adjusted_p(*difference, pairs_of_arms(numbers)) < kLevel;
    if (!better) tied.push_back(cells[i]);
  }
  // Bold says "better than some other": where nothing is, or pairs are not comparable, nothing is bold.
  if (tied.size() == numbers || unknown > 0 || fewest < statistics::kSeedsForNoise) return fewest;
  for (Cell* cell : tied) cell->best = true;
  return fewest;
}

std::string bold_sentence(const Results& results, std::size_t fewest_seeds) {
  if (fewest_seeds == 0) return "";
  if (fewest_seeds < statistics::kSeedsForNoise)
    return cat(" No number is bold: with ", seeds_in_words(fewest_seeds), " the noise of training is unknown.");
  return cat(" Bold: the best", has_variants(results) ? " of each variant" : "",
             ", and all that are not significantly worse (5 %, all pairs of a column",
             has_variants(results) ? " and variant" : "", "; noise of ", fewest_seeds, " seeds and of the documents).");
}

std::string headline_protocol(const Results& results) {
  const auto protocols = protocols_of(results);
  for (const char* better : {"anchored", "sliding", "blocks"}) {
    if (std::find(protocols.begin(), protocols.end(), better) != protocols.end()) return better;
  }
  return protocols.empty() ? "" : protocols.front();
}

std::string seeds_in_words(std::size_t seeds) {
  return seeds == 1 ? "one seed" : seeds == 2 ? "two seeds" : cat(seeds, " seeds");
}

std::string p_in_words(double p) { return cat("p ", p < 0.001 ? "< 0.001" : cat("= ", p_text(p, p < 0.1 ? 3 : 2))); }

std::string verdict_words(const statistics::TwoLevel& difference, double p) {
  if (!difference.knows_seeds()) return cat("not shown: ", seeds_in_words(difference.seeds));
  return p < kLevel ? "significant" : "not significant";
}

std::string certainty(const statistics::TwoLevel& difference, double p) {
  std::string text = verdict_words(difference, p);
  if (difference.knows_seeds()) {
    text += cat(": ", p_in_words(p), ", ", seeds_in_words(difference.seeds));
  } else {
    text += cat(", ", p < kLevel ? "beyond" : "within", " the noise of the documents");
  }
  if (difference.few())
    text +=
        cat("; only ", difference.items, difference.items < statistics::kFewItems ? " documents" : " skewed documents");
  return text;
}

}  // namespace pe::report

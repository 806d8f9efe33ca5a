// How far a model's context reaches, unscaled and with its frequencies rescaled: measured classes instead of
// adjectives.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/sections/section.h"
#include "schema/language_modelling.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

constexpr double kTolerance = 0.05;  // of perplexity over that at the training length

/// The largest length with `good`, when all shorter tested ones from the training length on are good, too; 0 without
/// any.
std::int64_t reach(const std::map<std::int64_t, double>& scores, const std::function<bool(double)>& good) {
  std::int64_t far = 0;
  for (const auto& [length, score] : scores) {
    if (!good(score)) break;
    far = length;
  }
  return far;
}

std::string class_of(double multiple, bool ends_with_the_test) {
  if (!std::isfinite(multiple)) return "not measured";
  const char* word = multiple < 1   ? "none"
                     : multiple < 2 ? "none beyond training"
                     : multiple < 4 ? "limited"
                     : multiple < 8 ? "moderate"
                                    : "large";
  return cat(word, ends_with_the_test ? " (as far as was tested)" : "");
}

Cell length_cell(double value, const std::string& status) {
  if (std::isfinite(value) && value > 0) return Cell::of_number(value);
  return Cell::missing(status == "none" ? "none" : mark_of(status), reason_of(status));
}

/// Exact match of trials by length, of one arm over its seeds.
using Shares = std::map<std::int64_t, std::pair<double, double>>;

std::map<std::int64_t, double> means_of(const Shares& shares) {
  std::map<std::int64_t, double> means;
  for (const auto& [length, sum] : shares) means[length] = sum.first / sum.second;
  return means;
}

/// Σ nll and Σ tokens over seeds, by document.
using Documents = std::map<std::string, std::pair<double, double>>;
/// One rule by length.
using RuleLosses = std::map<std::int64_t, Documents>;

/// The measurements of one arm.
struct ArmReach {
  std::vector<double> usable, effective;
  std::string usable_status = "not_measured", effective_status = "not_measured";
  std::set<std::int64_t> tested;
  bool extended = false;  ///< rules were asked for
  std::map<std::string, RuleLosses> test, validation;
  std::map<std::string, std::set<std::int64_t>> bad;  ///< rule → lengths without a number in some seed
  Shares passkey, ruler;
};

/// The status of the seeds together: one that is not ok counts, whichever comes last.
void keep_worst(std::string& status, const std::string& of_seed) {
  if (status == "not_measured" || status == "ok") status = of_seed;
}

std::vector<ArmReach> gather(const Results& results) {
  std::vector<ArmReach> arms(results.arms.size());
  std::vector<std::size_t> arm_of_run(results.runs.size(), results.arms.size());
  for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
    for (const std::size_t run : results.arms[arm].runs) arm_of_run[run] = arm;
  }
  const auto of = [&](std::size_t run) { return arm_of_run[run] < arms.size() ? &arms[arm_of_run[run]] : nullptr; };
  const std::set<std::string> unjudged_lengths = unjudged_texts<schema::LmLength>(results);
  // A perplexity beyond the limit at the training length is compared with no other, so it has no lengths.
  std::set<std::size_t> failed;
  for (const LmCell& cell : results.lm) {
    const std::int64_t own = results.runs[cell.run].train_length;
    if (cell.protocol == "anchored" && cell.status == "overflow" &&
        cell.length == (own > 0 ? own : results.train_length))
      failed.insert(cell.run);
  }
  each_row<schema::LmLength>(results, [&](std::size_t run, const schema::LmLength& row) {
    if (unjudged_lengths.count(row.corpus) != 0) return;
    ArmReach* arm = of(run);
    if (!arm || row.protocol != "anchored") return;
    const bool fails = failed.count(run) != 0;
    const std::string measure = row.measure, status = fails ? "overflow" : row.status;
    const double value = fails ? kUnknown : row.value;
    if (measure == "ratio" && std::isfinite(schema::real_of(row.length))) arm->tested.insert(row.length.value_or(0));
    if (measure == "usable_context") {
      arm->usable.push_back(value);
      keep_worst(arm->usable_status, status);
    }
    if (measure == "effective_context") {
      arm->effective.push_back(value);
      keep_worst(arm->effective_status, status);
    }
  });
  // A length at which a model has no positions, or fails, was tested as well.
  for (const LmCell& cell : results.lm) {
    ArmReach* arm = of(cell.run);
    if (arm && cell.protocol == "anchored" &&
        (cell.status == "ok" || cell.status == "na_positions" || cell.status == "overflow"))
      arm->tested.insert(cell.length);
  }
  const std::set<std::string> unjudged = unjudged_texts<schema::Extension>(results);
  each_row<schema::Extension>(results, [&](std::size_t run, const schema::Extension& row) {
    if (unjudged.count(row.corpus) != 0) return;
    ArmReach* arm = of(run);
    if (!arm) return;
    arm->extended = true;
    if (row.status != "ok") arm->bad[row.variant].insert(row.length);
  });
  const std::set<std::string> unjudged_documents = unjudged_texts<schema::ExtensionDocument>(results);
  each_row<schema::ExtensionDocument>(results, [&](std::size_t run, const schema::ExtensionDocument& row) {
    ArmReach* arm = of(run);
    if (!arm || (row.corpus == "train" && unjudged_documents.count(row.corpus) != 0)) return;
    auto& rules = row.corpus == "validation" ? arm->validation : arm->test;
    auto& [nll, tokens] = rules[row.variant][row.length][cat(row.doc_id)];
    nll += row.nll_sum;
    tokens += row.tokens_scored;
  });
  for (const Trial& trial : results.trials) {
    ArmReach* arm = of(trial.run);
    if (!arm) continue;
    const bool ruler = trial.task.rfind("ruler", 0) == 0;
    if (!ruler && trial.task != "passkey") continue;
    auto& [exact, trials] = (ruler ? arm->ruler : arm->passkey)[trial.length];
    exact += trial.exact;
    trials += 1;
  }
  return arms;
}

/// Mean loss by length, of every second document from `first` on; of all where `step` is 1.
std::map<std::int64_t, double> losses_of(const RuleLosses& rule, std::size_t first, std::size_t step) {
  std::map<std::int64_t, double> losses;
  for (const auto& [length, documents] : rule) {
    double nll = 0, tokens = 0;
    std::size_t i = 0;
    for (const auto& [id, sums] : documents) {
      if (i++ % step != first) continue;
      nll += sums.first;
      tokens += sums.second;
    }
    if (tokens > 0) losses[length] = nll / tokens;
  }
  return losses;
}

/// The documents that a rule is judged by: half of the test's documents, or all of a split.
struct RuleScores {
  const std::map<std::string, RuleLosses>* rules;
  std::size_t first = 0, step = 1;

  std::map<std::int64_t, double> losses(const std::string& rule) const {
    return losses_of(rules->at(rule), first, step);
  }

  /// The largest length from the training length on up to which a rule keeps perplexity within 5 %; 0 for none.
  std::int64_t reach_of(const std::string& rule, std::int64_t trained, const std::set<std::int64_t>& bad) const {
    const auto plain = rules->find("plain");
    if (plain == rules->end()) return 0;
    const auto own = losses_of(plain->second, first, step);
    const auto base = own.find(trained);
    if (base == own.end()) return 0;
    std::map<std::int64_t, double> curve;
    for (const auto& [length, loss] : losses(rule)) {
      if (length >= trained && bad.count(length) == 0) curve[length] = loss;
    }
    return reach(curve, [&](double loss) { return loss <= base->second + std::log1p(kTolerance); });
  }
};

struct BestRule {
  std::string rule;
  std::int64_t reach = 0, longest = 0;
};

/// The rule that reaches farthest (then: with the least loss there). The choice uses validation documents where they
/// were scored, else every second document of the test; its reach is reported from other documents.
BestRule rescaled(const ArmReach& arm, std::int64_t trained) {
  const bool held_out = !arm.validation.empty();
  const RuleScores choice{held_out ? &arm.validation : &arm.test, 0, held_out ? 1U : 2U};
  const RuleScores report{&arm.test, held_out ? 0U : 1U, held_out ? 1U : 2U};
  BestRule best;
  std::int64_t farthest = 0;
  double least = INFINITY;
  const std::set<std::int64_t> none;
  for (const auto& [rule, by_length] : *choice.rules) {
    if (rule == "plain" || rule == "crop") continue;  // no rules, and cropping reads no further than training did
    const auto bad = arm.bad.find(rule);
    const std::int64_t own = choice.reach_of(rule, trained, bad == arm.bad.end() ? none : bad->second);
    if (own == 0) continue;
    const double at_end = choice.losses(rule).at(own);
    if (own < farthest || (own == farthest && at_end >= least)) continue;
    farthest = own;
    least = at_end;
    best.rule = rule;
  }
  if (best.rule.empty() || report.rules->count(best.rule) == 0) return {};
  const auto bad = arm.bad.find(best.rule);
  best.reach = report.reach_of(best.rule, trained, bad == arm.bad.end() ? none : bad->second);
  for (const auto& [length, loss] : report.losses(best.rule)) best.longest = std::max(best.longest, length);
  return best;
}

/// The worst seed: what one may count on. NaN where a seed has none.
double least_of(const std::vector<double>& values) {
  double lowest = NAN;
  for (const double value : values) {
    if (!std::isfinite(value)) return std::nan("");
    lowest = std::isfinite(lowest) ? std::min(lowest, value) : value;
  }
  return lowest;
}

Cell retrieval_cell(const std::map<std::int64_t, double>& scores, const std::function<bool(double)>& good,
                    bool acquired) {
  if (scores.empty()) return Cell::missing("–", reason_of("not_measured"));
  if (!acquired) return Cell::missing("–", reason_of("not_acquired"));
  return length_cell(static_cast<double>(reach(scores, good)), "none");
}

void add_rescaled(Row& row, const ArmReach& arm, std::int64_t trained) {
  const BestRule best = trained > 0 ? rescaled(arm, trained) : BestRule{};
  if (best.rule.empty()) {
    const bool tried = arm.test.size() > 1 && trained > 0;
    const std::string why = !arm.extended  ? reason_of("not_measured")
                            : trained == 0 ? "the training length is not known"
                            : tried        ? "no rule keeps perplexity within 5 %"
                                           : reason_of("na_encoding");
    row.cells.push_back(Cell::of_text("–"));
    row.cells.push_back(Cell::missing("–", why));
    row.cells.push_back(Cell::of_text(tried ? class_of(0, false) : "–"));
    return;
  }
  row.cells.push_back(Cell::of_text(best.rule));
  row.cells.push_back(length_cell(static_cast<double>(best.reach), "none"));
  row.cells.push_back(Cell::of_text(
      class_of(static_cast<double>(best.reach) / static_cast<double>(trained), best.reach >= best.longest)));
}

Row reach_row(const Results& results, const Arm& own, const ArmReach& arm) {
  const std::int64_t trained = train_length_of(results, own);
  const double far = least_of(arm.usable);
  const double multiple = trained > 0 ? far / static_cast<double>(trained) : NAN;
  const auto passkey = means_of(arm.passkey), ruler = means_of(arm.ruler);
  double own_ruler = NAN;
  if (const auto found = ruler.find(trained); found != ruler.end()) own_ruler = found->second;

  Row row{.cells = arm_cells(results, own)};
  row.cells.push_back(length_cell(far, arm.usable_status == "ok" ? "none" : arm.usable_status));
  row.cells.push_back(length_cell(least_of(arm.effective), arm.effective_status));
  row.cells.push_back(retrieval_cell(
      passkey, [](double score) { return score >= 0.8; }, true));
  row.cells.push_back(retrieval_cell(
      ruler, [&](double score) { return score >= 0.85 * own_ruler; }, own_ruler >= 0.5));
  row.cells.push_back(Cell::of_text(class_of(arm.usable_status == "none" ? 0 : multiple,
                                             !arm.tested.empty() && far >= static_cast<double>(*arm.tested.rbegin()))));
  add_rescaled(row, arm, trained);
  return row;
}

}  // namespace

Section context_extension_section(const Results& results, Palette&) {
  Section section{.id = "context_extension", .title = "Context extension"};
  if (!has_table<schema::LmLength>(results) && !has_table<schema::Extension>(results)) return section;
  Table table{.id = "context_extension", .title = "Usable and effective context"};
  table.columns = arm_columns(results);
  const auto count = [](const char* id, const char* header, const char* group) {
    return Column{.id = id, .header = header, .group = group, .style = NumberStyle::kCount};
  };
  table.columns.insert(table.columns.end(),
                       {count("usable", "usable", "unscaled, tokens"),
                        count("effective", "effective", "unscaled, tokens"),
                        count("passkey", "passkey", "unscaled, tokens"),
                        count("ruler", "RULER", "unscaled, tokens"),
                        {.id = "class", .header = "Class", .text = true},
                        {.id = "rule", .header = "best rule", .group = "rescaled, untrained", .text = true},
                        count("rescaled", "usable", "rescaled, untrained"),
                        {.id = "rescaled_class", .header = "Class rescaled", .text = true}});
  bool any = false;
  const std::vector<ArmReach> arms = gather(results);
  for (std::size_t arm = 0; arm < arms.size(); ++arm) {
    any = any || !arms[arm].usable.empty() || arms[arm].extended;
    table.rows.push_back(reach_row(results, results.arms[arm], arms[arm]));
  }
  if (!any) return section;
  section.paragraphs.push_back(
      "Classes by usable over training length: below 2 none beyond training, below 4 limited, below 8 moderate, else "
      "large. The rule is chosen on "
      "validation documents, or on every second document of the test, and its reach is reported from the others.");
  table.caption = cat(
      "Of the worst seed: usable, the largest tested length up to which anchored perplexity stays within 5 % of that "
      "at the training length, and effective, the shortest within 0.01 nats of the best; of the mean over seeds: "
      "passkey, up to 80 % exact, and RULER, up to 85 % of its score at the training length. "
      "Rescaled: the same checkpoint, untrained, under the static rule that reaches farthest. ",
      training_sentence(results));
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace pe::report

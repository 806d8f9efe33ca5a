// How far a model's context reaches, as it is and with its frequencies rescaled: measured classes instead of adjectives.
#include <algorithm>
#include <cmath>
#include <set>

#include "report/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

constexpr double kTolerance = 0.05;   // of perplexity over that at the training length

/// The largest length with `good`, when all shorter tested ones from the training length on are good, too; 0 without any.
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
  const char* word = multiple < 1 ? "none" : multiple < 2 ? "none beyond training" : multiple < 4 ? "limited" : multiple < 8 ? "moderate" : "large";
  return cat(word, ends_with_the_test ? " (as far as was tested)" : "");
}

Cell length_cell(double value, const std::string& status) {
  if (std::isfinite(value) && value > 0) return Cell::of_number(value);
  return Cell::missing(status == "none" ? "none" : mark_of(status), reason_of(status));
}

/// Scores of an arm's trials by length, over seeds.
std::map<std::int64_t, double> exact_by_length(const Results& results, std::size_t arm, const std::function<bool(const std::string&)>& of) {
  std::map<std::int64_t, std::pair<double, double>> sums;
  for (const Trial& trial : results.trials) {
    if (arm_of(results, trial.run) != arm || !of(trial.task)) continue;
    sums[trial.length].first += trial.exact;
    sums[trial.length].second += 1;
  }
  std::map<std::int64_t, double> means;
  for (const auto& [length, sum] : sums) means[length] = sum.first / sum.second;
  return means;
}

}  // namespace

Section context_extension_section(const Results& results, Palette&) {
  Section section{.id = "context_extension", .title = "How far the context reaches"};
  if (!results.tables.count("lm_length") && !results.tables.count("lm_extension")) return section;
  Table table{.id = "context_extension", .title = "How far the context reaches"};
  table.columns = arm_columns(results);
  const auto count = [](const char* id, const char* header, const char* group) {
    return Column{.id = id, .header = header, .group = group, .style = NumberStyle::kCount};
  };
  table.columns.insert(table.columns.end(), {count("usable", "usable", "as it is, tokens"),
                                             count("effective", "effective", "as it is, tokens"),
                                             count("passkey", "passkey", "as it is, tokens"),
                                             count("ruler", "RULER", "as it is, tokens"),
                                             {.id = "class", .header = "Class", .text = true},
                                             {.id = "rule", .header = "best rule", .group = "rescaled, untrained", .text = true},
                                             count("rescaled", "usable", "rescaled, untrained"),
                                             {.id = "rescaled_class", .header = "Class rescaled", .text = true}});
  bool any = false;
  for (std::size_t arm = 0; arm < results.arms.size(); ++arm) {
    std::vector<double> usable, effective;
    std::string usable_status = "not_measured", effective_status = "not_measured";
    std::set<std::int64_t> tested;
    each_row(results, "lm_length", [&](std::size_t run, const TableReader& read, std::size_t row) {
      if (arm_of(results, run) != arm || read.text(row, "protocol") != "anchored") return;
      const std::string measure = read.text(row, "measure"), status = read.text(row, "status");
      if (measure == "ratio" && std::isfinite(read.real(row, "L"))) tested.insert(read.whole(row, "L"));
      if (measure == "usable_context") {
        usable.push_back(read.real(row, "value"));
        usable_status = status;
      }
      if (measure == "effective_context") {
        effective.push_back(read.real(row, "value"));
        effective_status = status;
      }
    });
    // The worst seed: what one may count on.
    const auto least = [](const std::vector<double>& values) {
      double lowest = NAN;
      for (const double value : values) {
        if (!std::isfinite(value)) return std::nan("");
        lowest = std::isfinite(lowest) ? std::min(lowest, value) : value;
      }
      return lowest;
    };
    const double far = least(usable);
    const double multiple = results.train_length > 0 ? far / static_cast<double>(results.train_length) : NAN;

    // Under every rule: mean loss over seeds by length.
    std::map<std::string, std::map<std::int64_t, std::vector<double>>> losses;
    std::map<std::string, std::map<std::int64_t, bool>> bad;
    each_row(results, "lm_extension", [&](std::size_t run, const TableReader& read, std::size_t row) {
      if (arm_of(results, run) != arm) return;
      const std::string variant = read.text(row, "variant");
      if (variant == "crop") return;   // reads no further than training did
      if (read.text(row, "status") == "ok") losses[variant][read.whole(row, "L")].push_back(read.real(row, "nll_mean"));
      else bad[variant][read.whole(row, "L")] = true;
    });
    double base = NAN;
    if (losses.count("plain") && losses["plain"].count(results.train_length)) base = mean_of_finite(losses["plain"][results.train_length]);
    std::string best_rule;
    std::int64_t best = 0, longest = 0;
    double best_loss = INFINITY;
    for (const auto& [variant, by_length] : losses) {
      if (variant == "plain" || !std::isfinite(base)) continue;
      std::map<std::int64_t, double> curve;
      for (const auto& [length, values] : by_length) {
        longest = std::max(longest, length);
        if (length >= results.train_length && !bad[variant][length]) curve[length] = mean_of_finite(values);
      }
      const std::int64_t own = reach(curve, [&](double loss) { return loss <= base + std::log1p(kTolerance); });
      const double at_end = own > 0 ? curve[own] : INFINITY;
      if (own > best || (own == best && own > 0 && at_end < best_loss)) {
        best = own;
        best_rule = variant;
        best_loss = at_end;
      }
    }
    const auto passkey = exact_by_length(results, arm, [](const std::string& task) { return task == "passkey"; });
    const auto ruler = exact_by_length(results, arm, [](const std::string& task) { return task.rfind("ruler", 0) == 0; });
    double own_ruler = NAN;
    if (const auto found = ruler.find(results.train_length); found != ruler.end()) own_ruler = found->second;

    Row row{.cells = arm_cells(results, results.arms[arm])};
    row.cells.push_back(length_cell(far, usable_status == "ok" ? "none" : usable_status));
    row.cells.push_back(length_cell(least(effective), effective_status));
    const auto retrieval = [&](const std::map<std::int64_t, double>& scores, const std::function<bool(double)>& good, bool acquired) {
      if (scores.empty()) return Cell::missing("–", reason_of("not_measured"));
      if (!acquired) return Cell::missing("–", reason_of("not_acquired"));
      return length_cell(static_cast<double>(reach(scores, good)), "none");
    };
    row.cells.push_back(retrieval(passkey, [](double score) { return score >= 0.8; }, true));
    row.cells.push_back(retrieval(ruler, [&](double score) { return score >= 0.85 * own_ruler; }, own_ruler >= 0.5));
    row.cells.push_back(Cell::of_text(class_of(usable_status == "none" ? 0 : multiple, !tested.empty() && far >= static_cast<double>(*tested.rbegin()))));
    if (best_rule.empty()) {
      const std::string why = losses.empty() ? "not_measured" : "na_encoding";
      row.cells.push_back(Cell::of_text("–"));
      row.cells.push_back(Cell::missing("–", best == 0 && !losses.empty() && losses.size() > 1 ? "no rule keeps perplexity within 5 %" : reason_of(why)));
      row.cells.push_back(Cell::of_text(losses.size() > 1 ? class_of(0, false) : "–"));
    } else {
      row.cells.push_back(Cell::of_text(best_rule));
      row.cells.push_back(Cell::of_number(static_cast<double>(best)));
      row.cells.push_back(Cell::of_text(class_of(static_cast<double>(best) / static_cast<double>(results.train_length), best >= longest)));
    }
    any = any || !usable.empty() || !losses.empty();
    table.rows.push_back(std::move(row));
  }
  if (!any) return section;
  table.caption = cat("Usable: the largest tested length up to which perplexity of the anchored targets stays within 5 % of that at the training length, in "
                      "the worst seed. Effective: the shortest whose loss is within 0.01 nats of the best. Passkey: up to which 80 % of answers are exact. "
                      "RULER: up to which the score is at least 85 % of that at the training length. Classes by usable context over training length: below "
                      "2 none beyond training, below 4 limited, below 8 moderate, else large. Rescaled: the same checkpoint under the best of the static "
                      "rules, untrained. A model that was trained on at a longer context is a row of its own. ", training_sentence(results));
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace pe::report

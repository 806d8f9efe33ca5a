#include "report/claims/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/claims/claim_items.h"
#include "report/results/results.h"
#include "report/results/rows.h"
#include "report/tables/table.h"
#include "schema/cells.h"
#include "support/hash.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;
using support::quote;

using Words = std::vector<std::string>;
using RunsOfArms = std::map<std::string, std::vector<const Run*>>;

constexpr const char* kCorpus = "corpus";  // the split of a row's text, in tables that have one

/// 12 hex digits.
std::string hash_of(const Words& words) { return support::sha256_hex(support::join(words, "\n")).substr(0, 12); }

std::string filter_text(const RowFilter& filter) {
  Words parts;
  for (const auto& [column, values] : filter) parts.push_back(cat(column, " ", support::join(values, "/")));
  return support::join(parts, ", ");
}

/// Arms whose control failed or could not be tested, with the reason; comparisons that name one of them are not tested.
struct Gates {
  std::map<std::string, std::string> arms;
  std::string all;  ///< why no comparison can be tested; empty: each arm by itself

  /// A control of arms that the claim does not compare gates the whole claim.
  void add(const TestResult& control, const std::set<std::string>& compared) {
    if (control.failed_arms.empty()) return;
    const bool failed = control.verdict == Verdict::kRefuted;
    const std::string reason =
        cat(failed ? "the control failed: " : "the control could not be tested: ", control.test->text(),
            control.observed.empty() ? "" : cat(" (", control.observed, ")"),
            control.reason.empty() ? "" : cat(": ", control.reason));
    bool named = false, other = false;
    for (const std::string& arm : control.failed_arms) {
      if (compared.count(arm)) {
        arms.emplace(arm, reason);
        named = true;
      } else {
        const Words& of = control.test->of;
        other = other || std::find(of.begin(), of.end(), arm) != of.end();
      }
    }
    if ((other || !named) && all.empty()) all = reason;
  }
  std::string reason(const Component& component) const {
    if (!all.empty()) return all;
    for (const std::string* arm : {&component.arm, &component.other}) {
      if (const auto gate = arms.find(*arm); gate != arms.end()) return gate->second;
    }
    return "";
  }
};

/// One comparison of a test: an arm with another or with a number. `near` has two inequalities, the others one.
struct Comparison {
  Component component;  ///< the least favourable inequality
  ComponentResult measured;
  Verdict verdict = Verdict::kNotTestable;
  std::string reason;
  bool in_band = true;
};

constexpr const char* kUntested = " comparisons could not be tested";

class Judge {
 public:
  explicit Judge(const Results& results) : results_(results) {}

  ClaimResult judge(const ClaimSpec& claim) {
    ClaimResult result;
    result.claim = &claim;
    repeated_ = claim.id == results_.sequential.claim;
    Gates gates;
    std::set<std::string> compared;
    comparisons_ = 0;
    for (const ClaimTest& test : claim.tests) {
      for (const std::string& arm : test.arms()) compared.insert(arm);
      comparisons_ += comparisons_of(test);
    }
    for (const ClaimTest& test : claim.control) {
      result.control.push_back(control(test));
      gates.add(result.control.back(), compared);
    }
    Words reasons;
    bool tested = false;
    std::size_t comparisons = 0, untested = 0;
    for (const ClaimTest& test : claim.tests) {
      result.tests.push_back(run(test, gates));
      const TestResult& last = result.tests.back();
      comparisons += last.comparisons;
      untested += last.untested;
      const bool gated = last.comparisons > 0 && last.untested == last.comparisons;
      const bool decides = !tested || last.verdict > result.verdict ||
                           (last.verdict == result.verdict && last.margin() < result.tests[*result.deciding].margin());
      if (!gated && decides) {
        result.verdict = last.verdict;
        result.reason = last.reason;
        result.deciding = result.tests.size() - 1;
        tested = true;
      } else if (gated && !tested) {
        result.reason = last.reason;
      }
      if (last.seeds > 0 && (result.seeds == 0 || last.seeds < result.seeds)) result.seeds = last.seeds;
    }
    if (!result.deciding || !std::isfinite(result.tests[*result.deciding].effect)) {  // shown where there is one
      const auto found = std::ranges::find_if(result.tests, [&](const TestResult& test) {
        return test.verdict == result.verdict && std::isfinite(test.effect);
      });
      if (found != result.tests.end()) result.deciding = static_cast<std::size_t>(found - result.tests.begin());
    }
    const bool said = result.reason.find(kUntested) != std::string::npos;
    if (tested && untested > 0 && !said && result.verdict != Verdict::kNotTestable) {
      result.reason += cat(result.reason.empty() ? "" : "; ", untested, " of ", comparisons, kUntested);
    }
    return result;
  }

 private:
  /// A control passes for an arm whose mean meets the condition. Each arm is judged by itself: one that is missing or
  /// has not learned says nothing of the others.
  TestResult control(const ClaimTest& test) {
    TestResult result = run(test, {}, false);
    result.failed_arms.clear();
    result.verdict = Verdict::kReproduced;
    for (const std::string& arm : test.of) {
      ClaimTest alone = test;
      alone.of = {arm};
      const TestResult own = run(alone, {}, false);
      result.failed_arms.insert(result.failed_arms.end(), own.failed_arms.begin(), own.failed_arms.end());
      if (!own.failed_arms.empty())
        result.verdict = std::max(result.verdict, own.seeds > 0 ? Verdict::kRefuted : Verdict::kNotTestable);
    }
    if (result.failed_arms.empty()) result.reason.clear();  // it is about the arms together
    return result;
  }

  /// @param medians scores are judged by their median; a control goes by the mean, which seeds that have not learned
  /// lower
  TestResult run(const ClaimTest& test, const Gates& gates, bool medians = true) {
    TestResult result;
    result.test = &test;
    result.failed_arms = test.of;  // until their means are known
    const auto [arms, runs] = measure(test, result);
    const Words all = test.arms();
    std::set<std::string> seeds;
    std::string lacking;  // without such seeds the verdict would rest on the successful ones
    bool first = true;
    for (const std::string& name : all) {
      const auto arm = arms.find(name);
      std::set<std::string> own;
      if (arm != arms.end()) {
        own = seeds_with_number(arm->second);
        if (lacking.empty() && own.size() < arm->second.size()) lacking = without_number(name, arm->second, own.size());
        if (lacking.empty()) lacking = diverged_seed(test, name, arm->second, runs);
      } else if (result.reason.empty()) {
        result.reason = unmeasured(name, arms, test);
      }
      std::set<std::string> both;
      std::set_intersection(seeds.begin(), seeds.end(), own.begin(), own.end(), std::inserter(both, both.end()));
      seeds = first ? own : both;
      first = false;
    }
    result.is_score = medians && about_scores(test, arms);
    result.level = 1 - alpha_of(result, seeds.size());
    result.observed = observed(result, arms, seeds);
    if (!lacking.empty() && result.reason.empty()) result.reason = lacking;
    if (seeds.empty() && result.reason.empty()) result.reason = "no seed that all of them have";
    if (seeds.empty() || !lacking.empty()) return result;
    result.reason.clear();
    const Words common(seeds.begin(), seeds.end());
    const CommonItems items = common_items(arms, all, common);
    if (items.most > 1 && has_items(arms, all, common) && items.shared < 2) {
      result.reason = "the arms were not tested on the same items";
      return result;
    }
    result.seeds = seeds.size();
    result.items = items.paired ? items.main.size() : 0;
    decide(compare(result, arms, common, items, gates), items, result);
    if (items.paired && items.main.size() < items.most) {
      result.reason += cat(result.reason.empty() ? "" : "; ", "on the ", items.main.size(), " of ", items.most,
                           " items that all arms have");
    }
    return result;
  }

  static std::set<std::string> seeds_with_number(const std::map<std::string, Measurement>& seeds) {
    std::set<std::string> found;
    for (const auto& [seed, measured] : seeds) {
      if (std::isfinite(measured.value())) found.insert(seed);
    }
    return found;
  }

  /// "rope has no number for 2 of 5 seeds: overflow".
  static std::string without_number(const std::string& name, const std::map<std::string, Measurement>& seeds,
                                    std::size_t with) {
    const auto first =
        std::find_if(seeds.begin(), seeds.end(), [](const auto& seed) { return !std::isfinite(seed.second.value()); });
    return cat(name, " has no number",
               with > 0 ? cat(" for ", seeds.size() - with, " of ", seeds.size(), " seeds") : "", ": ",
               first->second.status.empty() ? "missing" : first->second.status);
  }

  /// "rope has no number for seed 43: diverged", for a training that diverged and so was not evaluated.
  std::string diverged_seed(const ClaimTest& test, const std::string& name,
                            const std::map<std::string, Measurement>& seeds, const RunsOfArms& runs) const {
    const auto own = runs.find(name);
    if (own == runs.end()) return "";
    for (const std::string& missing : results_.missing) {
      const auto colon = missing.find(": ");
      if (colon == std::string::npos || missing.find("diverged", colon) == std::string::npos) continue;
      const Labels labels = labels_of_missing(missing);
      const auto seed = labels.find("seed");
      if (seed == labels.end() || seeds.count(seed->second) != 0) continue;
      const bool same = std::any_of(own->second.begin(), own->second.end(), [&](const Run* run) {
        return std::all_of(labels.begin(), labels.end(), [&](const auto& label) {
          if (label.first == "encoding" || label.first == "pe") return label.second == run->encoding;
          if (label.first == "seed") return true;
          const auto known = run->labels.find(label.first);
          return known != run->labels.end() ? known->second == label.second : !any_run_has(label.first);
        });
      });
      const bool wanted = std::all_of(test.quantity.runs.begin(), test.quantity.runs.end(), [&](const auto& label) {
        const auto known = labels.find(label.first);
        return known == labels.end() || same_value(known->second, label.second);
      });
      if (same && wanted) return cat(name, " has no number for seed ", seed->second, ": ", missing.substr(colon + 2));
    }
    return "";
  }

  /// Labels in which evaluations of one model differ are no labels of its run.
  bool any_run_has(const std::string& label) const {
    return std::any_of(results_.runs.begin(), results_.runs.end(),
                       [&](const Run& run) { return run.labels.count(label) != 0; });
  }

  /// Labels of an entry of `missing`; empty where it is free text.
  static Labels labels_of_missing(const std::string& missing) {
    try {
      return parse_labels(missing.substr(0, missing.find(": "))).second;
    } catch (const support::ConfigError&) {
      return {};
    }
  }

  /// Why an arm has no rows: it was not measured there, or several trainings were under longer names.
  static std::string unmeasured(const std::string& arm, const ArmSeeds& arms, const ClaimTest& test) {
    constexpr std::size_t kShown = 3;
    Words longer;
    for (const auto& [name, seeds] : arms) {
      if (name.starts_with(arm + ", ")) longer.push_back(quote(name));
    }
    if (longer.empty()) {
      std::string where = filter_text(test.quantity.where);
      for (const auto& [label, name] : test.quantity.runs) where += cat(where.empty() ? "" : ", ", label, " ", name);
      return cat(arm, " was not measured", where.empty() ? "" : " where " + where);
    }
    const Words shown(longer.begin(), longer.begin() + static_cast<std::ptrdiff_t>(std::min(longer.size(), kShown)));
    return cat(arm, " was measured in ", longer.size(), longer.size() == 1 ? " variant (" : " variants (",
               support::join(shown, ", "), longer.size() > kShown ? ", …" : "",
               "): name one, or choose with 'runs: {label: value}'");
  }

  /// The inequalities of a test; each must hold.
  static std::vector<Component> components_of(const ClaimTest& test) {
    std::vector<Component> components;
    for (const std::string& arm : test.of) {
      switch (test.kind) {
        case ClaimTest::Kind::kAbove:
          for (const std::string& other : test.others) components.push_back({arm, other, 1, -test.value});
          break;
        case ClaimTest::Kind::kAtLeast:
          components.push_back({arm, "", 1, -test.value});
          break;
        case ClaimTest::Kind::kAtMost:
          components.push_back({arm, "", -1, test.value});
          break;
        case ClaimTest::Kind::kNear:
          components.push_back({arm, "", 1, test.within - test.value});
          components.push_back({arm, "", -1, test.within + test.value});
          break;
      }
    }
    return components;
  }

  static std::size_t comparisons_of(const ClaimTest& test) {
    return test.of.size() * (test.kind == ClaimTest::Kind::kAbove ? test.others.size() : 1);
  }

  /// Whether a test compares scores of answers with a number.
  static bool about_scores(const ClaimTest& test, const ArmSeeds& arms) {
    if (test.kind == ClaimTest::Kind::kAbove || !test.noise) return false;
    bool any = false;
    for (const std::string& name : test.of) {
      const auto arm = arms.find(name);
      if (arm == arms.end()) continue;
      any = true;
      for (const auto& [seed, values] : arm->second) {
        if (!is_score(values)) return false;
      }
    }
    return any;
  }

  /// `near` is two one-sided tests at 5 %, a number that a score reaches is one: their intervals have level 90 %.
  double alpha_of(const TestResult& result, std::size_t seeds) const {
    return at_look(result.one_sided() ? 0.1 : 0.05, seeds);
  }

  /// Level of the test at this look, of a claim whose seeds are added until it is decided. `alpha`: without looks.
  double at_look(double alpha, std::size_t seeds) const {
    const statistics::Looks looks = results_.sequential.looks();
    return repeated_ && seeds >= looks.from ? looks.level(seeds, alpha * results_.sequential.alpha / 0.05) : alpha;
  }

  /// Seeds that a verdict on a number with noise needs.
  std::size_t fewest_seeds() const { return repeated_ ? results_.sequential.looks().from : statistics::kSeedsForNoise; }

  /// Every comparison of a test by itself. All must hold, so "reproduced" needs no correction. One that fails refutes
  /// the claim, so the level of "refuted" is shared among its comparisons (Bonferroni).
  std::vector<Comparison> compare(const TestResult& result, const ArmSeeds& arms, const Words& seeds,
                                  const CommonItems& items, const Gates& gates) const {
    const ClaimTest& test = *result.test;
    const bool as_score = result.is_score && seeds.size() >= statistics::kSeedsForNoise;
    const std::vector<Component> components = components_of(test);
    const std::size_t sides = components.size() / comparisons_of(test);
    const double count = static_cast<double>(std::max<std::size_t>(comparisons_, 1));
    const double alpha = alpha_of(result, seeds.size()), shared = at_look(0.05 / count, seeds.size());
    std::vector<Comparison> comparisons;
    for (std::size_t i = 0; i < components.size(); ++i) {
      Comparison one{.component = components[i], .measured = evaluate(components[i], arms, seeds, items, as_score)};
      const statistics::TwoLevel& difference = one.measured.difference;
      const double value = (one.measured.effect() - one.component.offset) * one.component.sign;
      one.in_band = !test.band || (value >= test.band->low && value <= test.band->high);
      one.reason = gates.reason(one.component);
      if (one.reason.empty() && one.measured.at_bound && test.value == 0) {
        one.reason = cat(one.component.arm, " and ", one.component.other,
                         " are both at a bound: every answer is right, or every one is wrong");
      }
      if (one.reason.empty()) {
        const statistics::Interval exact{difference.estimate, difference.estimate};  // a number without noise
        one.verdict = verdict_of({.interval = test.noise ? one.measured.interval(alpha) : exact,
                                  .refuting = test.noise ? one.measured.interval(shared) : exact,
                                  .inclusive = test.kind != ClaimTest::Kind::kAbove,
                                  .in_band = one.in_band,
                                  .enough_seeds = seeds.size() >= (test.noise ? fewest_seeds() : 1)});
      }
      if (i % sides == 0) {
        comparisons.push_back(std::move(one));
      } else if (less_favourable(one, comparisons.back())) {
        comparisons.back() = std::move(one);
      }
    }
    return comparisons;
  }

  /// The order in which comparisons are shown: those without a verdict come last.
  static bool less_favourable(const Comparison& a, const Comparison& b) {
    const bool a_tested = a.verdict != Verdict::kNotTestable, b_tested = b.verdict != Verdict::kNotTestable;
    if (a_tested != b_tested) return a_tested;
    if (a.verdict != b.verdict) return a.verdict > b.verdict;
    return a.measured.effect() < b.measured.effect();
  }

  /// A test has the verdict of its least favourable comparison, whose effect and interval are shown.
  void decide(const std::vector<Comparison>& comparisons, const CommonItems& items, TestResult& result) const {
    const Comparison* shown = &comparisons.front();
    result.failed_arms.clear();
    result.comparisons = comparisons.size();
    for (const Comparison& one : comparisons) {
      if (less_favourable(one, *shown)) shown = &one;
      if (one.verdict == Verdict::kNotTestable) ++result.untested;
      const bool inclusive = result.test->kind != ClaimTest::Kind::kAbove;
      const double estimate = one.measured.effect();
      if (one.in_band && (inclusive ? estimate >= 0 : estimate > 0)) continue;
      result.failed_arms.push_back(one.component.arm);
      if (!one.component.other.empty()) result.failed_arms.push_back(one.component.other);
    }
    const statistics::TwoLevel& difference = shown->measured.difference;
    const bool noise = result.test->noise;
    result.shown = shown->component.other.empty() ? shown->component.arm
                                                  : cat(shown->component.arm, " above ", shown->component.other);
    result.effect = shown->measured.effect();
    result.interval = noise ? shown->measured.interval(alpha_of(result, result.seeds))
                            : statistics::Interval{difference.estimate, difference.estimate};
    // Intervals of shares and of medians have no such number.
    const bool by_noise = noise && shown->measured.scores.empty() && !shown->measured.share;
    result.detectable =
        by_noise ? difference.detectable(alpha_of(result, result.seeds)) : std::numeric_limits<double>::quiet_NaN();
    // No difference of scores is larger than their range.
    if (const auto& bounds = shown->measured.bounds; bounds && result.detectable > bounds->high - bounds->low)
      result.detectable = std::numeric_limits<double>::infinity();
    result.verdict = shown->verdict;
    result.reason = shown->reason;
    if (result.verdict == Verdict::kInconclusive) result.reason = why_inconclusive(*shown, items, result);
    if (result.untested > 0 && result.untested < result.comparisons) {
      const auto untested = std::find_if(comparisons.begin(), comparisons.end(),
                                         [](const Comparison& one) { return one.verdict == Verdict::kNotTestable; });
      result.reason += cat(result.reason.empty() ? "" : "; ", result.untested, " of ", result.comparisons, kUntested,
                           ": ", untested->reason);
    }
  }

  std::string why_inconclusive(const Comparison& one, const CommonItems& items, const TestResult& result) const {
    const std::string seeds = result.seeds == 1   ? "one seed"
                              : result.seeds == 2 ? "two seeds"
                                                  : cat(result.seeds, " seeds");
    const std::size_t fewest = fewest_seeds();
    const std::size_t needed =
        result.is_score ? std::max(fewest, statistics::seeds_for_median(alpha_of(result, result.seeds))) : fewest;
    if (result.test->noise && result.seeds < needed) {
      const bool no_interval = std::isnan(result.interval.low) && result.seeds < statistics::kSeedsForNoise;
      return cat(seeds, ": ",
                 result.is_score && needed > fewest
                     ? cat(needed == 5 ? "five" : cat(needed),
                           " are needed for a score, since seeds often learn a task or do not")
                     : cat(needed == 3 ? "three" : cat(needed), " are needed"),
                 no_interval ? cat(", and there is no interval over items: ",
                                   items.most > 1 ? "they cannot be paired" : "the table holds summaries")
                             : "");
    }
    const bool outside =
        (result.test->kind != ClaimTest::Kind::kAbove ? result.interval.low >= 0 : result.interval.low > 0) &&
        !one.in_band;
    if (outside) return "the value lies outside the band";
    if (result.test->kind == ClaimTest::Kind::kAbove ? result.interval.high <= 0 : result.interval.high < 0) {
      const std::size_t to_refute =
          result.is_score ? statistics::seeds_for_median(0.05 / static_cast<double>(comparisons_)) : 0;
      return cat("the interval excludes the claim, but not at the level of \"refuted\"",
                 comparisons_ > 1 ? cat(" for ", comparisons_, " comparisons") : "",
                 to_refute > result.seeds ? cat(", which needs ", to_refute, " seeds for a score") : "");
    }
    return cat("the interval contains both outcomes",
               std::isfinite(result.detectable)
                   ? cat("; ", seeds, " can show a difference of ", fmt::format("{:.2g}", result.detectable))
               : std::isinf(result.detectable) ? cat("; ", seeds, " can show no difference of scores")
                                               : "");
  }

  static bool has_items(const ArmSeeds& arms, const Words& names, const Words& seeds) {
    return std::all_of(names.begin(), names.end(),
                       [&](const std::string& name) { return arms.at(name).at(seeds.front()).has_items; });
  }

  /// @param common  seeds whose numbers are shown; empty: all
  static std::string observed(const TestResult& result, const ArmSeeds& arms, const std::set<std::string>& common) {
    const ClaimTest& test = *result.test;
    const auto text = [](double value) { return std::isfinite(value) ? fmt::format("{:.4g}", value) : "–"; };
    const auto of = [&](const Words& names) {
      Words parts;
      for (const std::string& name : names) {
        const auto arm = arms.find(name);
        if (arm == arms.end()) {
          parts.push_back(cat(name, " –"));
          continue;
        }
        std::vector<double> values;
        Words seeds;
        for (const auto& [seed, measured] : arm->second) {
          if (!common.empty() && common.count(seed) == 0) continue;
          values.push_back(measured.value());
          seeds.push_back(text(values.back()));
        }
        const bool each = result.is_score && values.size() > 1;
        parts.push_back(
            each ? cat(name, " median ", text(statistics::median_of(values)), " (", support::join(seeds, ", "), ")")
                 : cat(name, " ", text(statistics::mean_of(values))));
      }
      return support::join(parts, ", ");
    };
    return test.others.empty() ? of(test.of) : cat(of(test.of), "; ", of(test.others));
  }

  std::pair<ArmSeeds, RunsOfArms> measure(const ClaimTest& test, TestResult& result) const {
    const Quantity& quantity = test.quantity;
    const auto tables = results_.tables.find(quantity.table);
    if (tables == results_.tables.end() && !(results_.missing.empty() && results_.left_out.empty())) {
      result.reason = cat("no table ", quote(quantity.table), " was gathered, and ",
                          results_.missing.empty() ? cat(support::join(results_.left_out, ", "),
                                                         results_.left_out.size() == 1 ? " was" : " were", " left out")
                                                   : cat(results_.missing.size(), " results are missing"));
      return {};
    }
    if (tables == results_.tables.end()) {
      Words known;
      for (const auto& [name, gathered] : results_.tables) known.push_back(name);
      throw support::ConfigError(cat("no table ", quote(quantity.table), " was gathered"), test.place,
                                 support::suggestion(quantity.table, known));
    }
    check_labels(test);
    ArmSeeds arms;
    RunsOfArms runs;
    std::map<std::pair<std::string, std::string>, const Run*> models;  // by arm and seed
    std::set<std::string> names, configs;
    for (const GatheredTable& gathered : tables->second) {
      const Run& run = results_.runs[gathered.run];
      const bool wanted = std::all_of(quantity.runs.begin(), quantity.runs.end(), [&](const auto& label) {
        const auto own = run.labels.find(label.first);
        return own != run.labels.end() && same_value(own->second, label.second);
      });
      if (!wanted) continue;
      const std::string arm = arm_of(run, test);
      if (!add_rows(test, gathered, arm, run.seed, arms)) continue;
      configs.insert(run.facts.value("config_hash", run.run_id));
      runs[arm].push_back(&run);
      if (!quantity.by.empty() || !quantity.seed_by.empty()) continue;
      const auto [first, fresh] = models.try_emplace({arm, run.seed}, &run);
      if (!fresh) require_one_model(test, *first->second, run);
    }
    configs.erase("");
    if (!configs.empty())
      result.configs = configs.size() == 1 ? *configs.begin() : hash_of({configs.begin(), configs.end()});
    for (const auto& [name, seeds] : arms) names.insert(name);
    for (const std::string& encoding : results_.encodings) names.insert(encoding);
    for (const std::string& name : test.arms()) {
      if (names.count(name) != 0) continue;
      if (const std::string reason = missing_reason(name); !reason.empty()) {
        if (result.reason.empty()) result.reason = cat(name, " is missing: ", reason);
      } else if (const std::string axis = axis_without(name); !axis.empty()) {
        if (result.reason.empty()) result.reason = cat(name, " was left out of this run (axis ", axis, ")");
      } else {
        throw support::ConfigError(cat("nothing that was gathered is called ", quote(name)), test.place,
                                   support::suggestion(name, {names.begin(), names.end()}));
      }
    }
    return {std::move(arms), std::move(runs)};
  }

  /// Items of different models must not be summed. @throws ConfigError that names labels in which they differ
  static void require_one_model(const ClaimTest& test, const Run& one, const Run& other) {
    if (&one == &other) return;
    // Two runs of known models are two models, or two evaluations that contradict each other.
    const bool known = !one.run_id.empty() && !other.run_id.empty();
    const char* several =
        known && one.run_id == other.run_id ? "several evaluations fit for " : "several models fit for ";
    Labels all = one.labels;
    all.insert(other.labels.begin(), other.labels.end());
    const auto value_of = [](const Run& run, const std::string& label) {
      const auto own = run.labels.find(label);
      return own == run.labels.end() ? "" : own->second;
    };
    const std::string here_stage = value_of(one, "stage"), there_stage = value_of(other, "stage");
    for (const auto& [label, value] : all) {
      const std::string here = value_of(one, label), there = value_of(other, label);
      if (here == there || (label == "stage" && !known)) continue;
      // Its stage distinguishes a model without the label from the others.
      const bool by_stage = (here.empty() || there.empty()) && here_stage != there_stage && !here_stage.empty();
      throw support::ConfigError(
          cat(several, one.encoding, ", seed ", one.seed, ": ", label, " is ", here.empty() ? "missing" : quote(here),
              " or ", there.empty() ? "missing" : quote(there)),
          test.place,
          by_stage ? cat("choose one with 'runs: {stage: ", here_stage, "}'")
                   : cat("choose one with 'runs: {", label, ": ", value, "}'"));
    }
    if (!known || one.variant == other.variant) return;
    throw support::ConfigError(
        cat(several, one.encoding, ", seed ", one.seed, ": ", quote(one.variant), " and ", quote(other.variant)),
        test.place, cat("leave out 'runs' and name an arm, such as '", one.encoding, ", ", one.variant, "'"));
  }

  /// The arm that a run belongs to. Where axes were narrowed to one label, its name lacks these labels; it is still the
  /// arm that a test names with them.
  std::string arm_of(const Run& run, const ClaimTest& test) const {
    if (!test.quantity.runs.empty()) return run.encoding;
    const bool named = !run.variant.empty() && results_.variants.size() > 1;
    const std::string name = named ? cat(run.encoding, ", ", run.variant) : run.encoding;
    const Words arms = test.arms(), own = words_of(name);
    if (std::count(arms.begin(), arms.end(), name) > 0) return name;
    std::set<std::string> all;
    for (const auto& [axis, label] : run.labels) all.insert(label_text(axis, label));
    for (const std::string& arm : arms) {
      const Words asked = words_of(arm);
      const bool longer = asked.size() > own.size() && asked.front() == run.encoding;
      if (longer &&
          std::all_of(own.begin() + 1, own.end(),
                      [&](const std::string& word) { return std::count(asked.begin(), asked.end(), word) > 0; }) &&
          std::all_of(asked.begin() + 1, asked.end(), [&](const std::string& word) { return all.count(word) > 0; }))
        return arm;
    }
    return name;
  }

  static Words words_of(const std::string& arm) {
    Words words;
    for (const std::string& word : support::split(arm, ',')) words.emplace_back(support::trim(word));
    return words;
  }

  /// Why an arm that was asked for is missing; empty for one that was not asked for.
  std::string missing_reason(const std::string& arm) const {
    const std::string encoding = arm.substr(0, arm.find(','));
    for (const std::string& missing : results_.missing) {
      const auto colon = missing.find(": ");
      const Labels labels = labels_of_missing(missing);
      for (const char* axis : {"encoding", "pe"}) {
        const auto own = labels.find(axis);
        if (own != labels.end() && own->second == encoding)
          return colon == std::string::npos ? "it was not made" : missing.substr(colon + 2);
      }
    }
    return "";
  }

  /// The axis by which an arm was left out of this run; empty for one that was not asked for.
  std::string axis_without(const std::string& arm) const {
    const auto comma = arm.find(',');
    const std::string encoding = arm.substr(0, comma);
    std::set<std::string> others;
    for (const std::string& label : results_.left_out) {
      const auto equals = label.find('=');
      const std::string axis = label.substr(0, equals);
      if (axis != "encoding" && axis != "pe")
        others.insert(axis);
      else if (label.substr(equals + 1) == encoding)
        return axis;
    }
    // With another axis narrowed, variants have other names, or are gone.
    const bool known =
        std::find(results_.encodings.begin(), results_.encodings.end(), encoding) != results_.encodings.end();
    return comma != std::string::npos && known && !others.empty() ? support::join({others.begin(), others.end()}, ", ")
                                                                  : "";
  }

  void check_labels(const ClaimTest& test) const {
    for (const auto& [label, value] : test.quantity.runs) {
      std::set<std::string> known;
      for (const Run& run : results_.runs) {
        for (const auto& [name, own] : run.labels) known.insert(name);
      }
      if (known.count(label) != 0 || !results_.missing.empty() || !results_.left_out.empty())
        continue;  // perhaps of a run that is not there
      throw support::ConfigError(cat("no run has a label ", quote(label)), test.place,
                                 support::suggestion(label, {known.begin(), known.end()}));
    }
  }

  static void check_column(const ClaimTest& test, const artifact::Table& table, const std::string& name) {
    if (table.find_column(name)) return;
    Words names;
    for (const artifact::ColumnSpec& spec : table.columns()) names.push_back(spec.name);
    throw support::ConfigError(cat("table ", quote(table.name()), " has no column ", quote(name)), test.place,
                               support::suggestion(name, names));
  }

  /// The texts that a table is not judged by, unless a claim asks for one.
  std::set<std::string> unjudged_texts_of(const artifact::Table& table, const RowFilter& filter) const {
    const bool named = std::any_of(filter.begin(), filter.end(), [](const auto& one) { return one.first == kCorpus; });
    if (named || !table.find_column(kCorpus)) return {};
    const auto [known, fresh] = unjudged_.try_emplace(table.name());
    if (!fresh) return known->second;
    std::set<std::string> texts;
    for (const GatheredTable& gathered : results_.tables.at(table.name())) {
      const schema::CellReader read(gathered.table);
      for (std::size_t row = 0; gathered.table.find_column(kCorpus) && row < gathered.table.rows(); ++row)
        texts.insert(read.text(row, kCorpus));
    }
    return known->second = unjudged_of(texts);
  }

  /// Whether a row of an arm that the test is about was among them.
  bool add_rows(const ClaimTest& test, const GatheredTable& gathered, const std::string& run_name,
                const std::string& run_seed, ArmSeeds& arms) const {
    const Quantity& quantity = test.quantity;
    const artifact::Table& table = gathered.table;
    const schema::CellReader read(table);
    for (const std::string* name : {&quantity.measure, &quantity.per, &quantity.by, &quantity.seed_by}) {
      if (!name->empty()) check_column(test, table, *name);
    }
    const Words asked = test.arms();
    bool used = false;
    const Words item_names = item_columns(table, quantity);
    const bool has_items = !item_names.empty(), of_answers = names_score(quantity);
    const auto take = [&](const RowFilter& filter, bool is_minus) {
      for (const auto& [name, values] : filter) check_column(test, table, name);
      const std::set<std::string> unjudged = unjudged_texts_of(table, filter);
      for (std::size_t row = 0; row < table.rows(); ++row) {
        if (!unjudged.empty() && unjudged.count(read.text(row, kCorpus)) != 0) continue;
        const bool fits = std::all_of(filter.begin(), filter.end(), [&](const auto& one) {
          const std::string own = read.text(row, one.first);
          return std::any_of(one.second.begin(), one.second.end(),
                             [&](const std::string& value) { return same_value(own, value); });
        });
        if (!fits) continue;
        const std::string name = quantity.by.empty() ? run_name : read.text(row, quantity.by);
        const std::string seed = quantity.seed_by.empty() ? run_seed : read.text(row, quantity.seed_by);
        used = used || std::find(asked.begin(), asked.end(), name) != asked.end();
        Measurement& measured = arms[name][seed];
        measured.has_items = has_items;
        measured.has_minus = quantity.minus.has_value();
        measured.of_answers = of_answers;
        ItemSums& sums = is_minus ? measured.minus : measured.main;
        if (!has_items && !sums.empty()) {
          throw support::ConfigError(cat("several rows of ", quote(table.name()), " fit '", filter_text(filter),
                                         "' for ", name, ", and the table holds summaries"),
                                     test.place, "name more columns under 'where'");
        }
        Words item;
        for (const std::string& column : item_names) item.push_back(read.text(row, column));
        // The same item again (several draws of it, say) is another part of it.
        auto& [y, x] = sums[support::join(item, "\n")];
        const double value = read.real(row, quantity.measure);
        y += quantity.absolute ? std::abs(value) : value;
        x += quantity.per.empty() ? 1.0 : read.real(row, quantity.per);
        if (!std::isfinite(y)) measured.status = read.status(row);
      }
    };
    take(quantity.where, false);
    if (quantity.minus) take(*quantity.minus, true);
    return used;
  }

  const Results& results_;
  mutable std::map<std::string, std::set<std::string>> unjudged_;  ///< of tables by name
  std::size_t comparisons_ = 1;  ///< of the claim that is judged
  bool repeated_ = false;        ///< whether its seeds are added until it is decided
};

}  // namespace

std::vector<std::string> ClaimTest::arms() const {
  Words all = of;
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

double TestResult::margin() const {
  const double half = (interval.high - interval.low) / 2;
  if (half > 0) return effect / half;
  if (half == 0) return effect == 0 ? 0 : std::copysign(INFINITY, effect);  // without noise
  return -INFINITY;                                                         // with an unknown one
}

bool TestResult::one_sided() const { return is_score || test->kind == ClaimTest::Kind::kNear; }

std::string ClaimTest::text() const {
  std::string words = cat(quantity.absolute ? "absolute " : "", quantity.measure,
                          quantity.per.empty() ? "" : cat(" per ", quantity.per), " of ", support::join(of, ", "));
  switch (kind) {
    case Kind::kAbove:
      words += cat(" above ", support::join(others, ", "), value != 0 ? cat(" by ", support::shortest(value)) : "");
      break;
    case Kind::kAtLeast:
      words += cat(" at least ", support::shortest(value));
      break;
    case Kind::kAtMost:
      words += cat(" at most ", support::shortest(value));
      break;
    case Kind::kNear:
      words += cat(" within ", support::shortest(within), " of ", support::shortest(value));
      break;
  }
  if (!quantity.where.empty()) words += cat(" where ", filter_text(quantity.where));
  if (quantity.minus) words += cat(", less where ", filter_text(*quantity.minus));
  for (const auto& [label, name] : quantity.runs) words += cat(", ", label, " ", name);
  return words;
}

std::optional<SequentialState> sequential_state(const Results& results, const std::vector<ClaimResult>& judged) {
  const SequentialConfig& config = results.sequential;
  const auto result =
      std::find_if(judged.begin(), judged.end(), [&](const ClaimResult& one) { return one.claim->id == config.claim; });
  if (result == judged.end()) return std::nullopt;
  const statistics::Looks looks = config.looks();
  // The tests with fewest seeds wait. Intervals of tests of one side have twice the level, and less at an early look.
  const bool two_sided = std::any_of(result->tests.begin(), result->tests.end(), [&](const TestResult& test) {
    return test.seeds == result->seeds && !test.one_sided();
  });
  const double sides = two_sided || result->tests.empty() ? 1 : 2;
  return SequentialState{.claim = config.claim,
                         .verdict = result->verdict,
                         .seeds = result->seeds,
                         .most = looks.most,
                         .look = looks.count(result->seeds),
                         .looks = looks.count(looks.most),
                         .alpha = config.alpha,
                         .sides = sides,
                         .spent = looks.spent(result->seeds, sides * config.alpha) / sides,
                         .level = looks.level(result->seeds, sides * config.alpha)};
}

Json to_json(const SequentialState& look) {
  return {{"claim", look.claim}, {"verdict", verdict_name(look.verdict)},
          {"seeds", look.seeds}, {"most", look.most},
          {"look", look.look},   {"looks", look.looks},
          {"alpha", look.alpha}, {"spent", look.spent},
          {"level", look.level}};
}

std::vector<ClaimResult> judge(const std::vector<ClaimSpec>& claims, const Results& results) {
  Judge judge(results);
  std::vector<ClaimResult> found;
  for (const ClaimSpec& claim : claims) found.push_back(judge.judge(claim));
  return found;
}

}  // namespace pe::report

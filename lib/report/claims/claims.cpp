#include "report/claims/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "report/claims/claim_items.h"
#include "report/results/results.h"
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

/// 12 hex digits.
std::string hash_of(const Words& words) { return support::sha256_hex(support::join(words, "\n")).substr(0, 12); }

std::string filter_text(const RowFilter& filter) {
  Words parts;
  for (const auto& [column, values] : filter) parts.push_back(cat(column, " ", support::join(values, "/")));
  return support::join(parts, ", ");
}

class Judge {
 public:
  explicit Judge(const Results& results) : results_(results) {}

  ClaimResult judge(const ClaimSpec& claim) {
    ClaimResult result;
    result.claim = &claim;
    bool control = true;
    for (const ClaimTest& test : claim.control) {
      result.control.push_back(run(test, true));
      const TestResult& last = result.control.back();
      if (last.verdict == Verdict::kReproduced || last.verdict == Verdict::kPartly) continue;
      control = false;
      result.reason = cat("the control failed: ", test.text(), last.observed.empty() ? "" : cat(" (", last.observed, ")"),
                          last.reason.empty() ? "" : cat(": ", last.reason));
    }
    // The worst decides: what cannot be tested before what is refuted, that before what is open.
    result.verdict = Verdict::kReproduced;
    for (const ClaimTest& test : claim.tests) {
      result.tests.push_back(run(test, control));
      const TestResult& last = result.tests.back();
      if (!worse_than(last.verdict, result.verdict)) continue;
      result.verdict = last.verdict;
      if (control) result.reason = last.reason;
    }
    for (const TestResult& test : result.tests) {
      if (test.seeds > 0 && (result.seeds == 0 || test.seeds < result.seeds)) result.seeds = test.seeds;
    }
    return result;
  }

 private:
  TestResult run(const ClaimTest& test, bool control) {
    TestResult result;
    result.test = &test;
    const ArmSeeds arms = measure(test, result);
    const Words all = test.arms();
    std::set<std::string> seeds;
    bool first = true;
    for (const std::string& name : all) {
      const auto arm = arms.find(name);
      std::set<std::string> own;
      if (arm != arms.end()) {
        for (const auto& [seed, measured] : arm->second) {
          if (std::isfinite(measured.value())) own.insert(seed);
          else if (result.reason.empty()) result.reason = cat(name, " has no number: ", measured.status.empty() ? "missing" : measured.status);
        }
      } else if (result.reason.empty()) {
        result.reason = unmeasured(name, arms);
      }
      std::set<std::string> both;
      std::set_intersection(seeds.begin(), seeds.end(), own.begin(), own.end(), std::inserter(both, both.end()));
      seeds = first ? own : both;
      first = false;
    }
    result.observed = observed(test, arms);
    if (seeds.empty()) {
      if (result.reason.empty()) result.reason = "no seed that all of them have";
      return result;
    }
    result.reason.clear();
    result.seeds = seeds.size();
    const Words common(seeds.begin(), seeds.end());
    const CommonItems items = common_items(arms, all, common);
    if (items.most > 1 && has_items(arms, all, common) && items.main.empty() && !test.quantity.minus) {
      result.reason = "the arms were not tested on the same items";
      return result;
    }
    result.items = items.paired ? items.main.size() : 0;
    Claim claim = combine(test, arms, common, items);
    claim.control = control;
    result.effect = claim.mean;
    result.interval = claim.interval;
    result.verdict = verdict_of(claim);
    if (result.verdict == Verdict::kPartly) result.reason = why_partly(claim, items);
    if (items.paired && items.main.size() < items.most) {
      result.reason += cat(result.reason.empty() ? "" : "; ", "on the ", items.main.size(), " of ", items.most, " items that all arms have");
    }
    return result;
  }

  /// Why an arm has no rows: nobody measured it, or several trainings did under longer names.
  static std::string unmeasured(const std::string& arm, const ArmSeeds& arms) {
    constexpr std::size_t kShown = 3;
    Words longer;
    for (const auto& [name, seeds] : arms) {
      if (name.starts_with(arm + ", ")) longer.push_back(quote(name));
    }
    if (longer.empty()) return cat(arm, " was not measured");
    const Words shown(longer.begin(), longer.begin() + static_cast<std::ptrdiff_t>(std::min(longer.size(), kShown)));
    return cat(arm, " was measured in ", longer.size(), longer.size() == 1 ? " variant (" : " variants (", support::join(shown, ", "),
               longer.size() > kShown ? ", …" : "", "): name one, or choose with 'runs: {label: value}'");
  }

  /// The inequalities that a test stands for; each must hold.
  static std::vector<Component> components_of(const ClaimTest& test) {
    std::vector<Component> components;
    for (const std::string& arm : test.of) {
      switch (test.kind) {
        case ClaimTest::Kind::kAbove:
          for (const std::string& other : test.others) components.push_back({arm, other, 1, -test.value});
          break;
        case ClaimTest::Kind::kAtLeast: components.push_back({arm, "", 1, -test.value}); break;
        case ClaimTest::Kind::kAtMost: components.push_back({arm, "", -1, test.value}); break;
        case ClaimTest::Kind::kNear:
          components.push_back({arm, "", 1, test.within - test.value});
          components.push_back({arm, "", -1, test.within + test.value});
          break;
      }
    }
    return components;
  }

  /// Each inequality is tested by itself, and all must hold, so none needs a correction; the least favourable is shown.
  static Claim combine(const ClaimTest& test, const ArmSeeds& arms, const Words& seeds, const CommonItems& items) {
    constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
    Claim claim;
    claim.effects.assign(seeds.size(), std::numeric_limits<double>::infinity());
    claim.mean = std::numeric_limits<double>::infinity();
    claim.inclusive = test.kind != ClaimTest::Kind::kAbove;
    claim.seeds_needed = test.noise ? statistics::kSeedsForNoise : 1;
    double low = std::numeric_limits<double>::infinity();
    for (const Component& component : components_of(test)) {
      const ComponentResult result = evaluate(component, arms, seeds, items);
      for (std::size_t s = 0; s < seeds.size(); ++s) claim.effects[s] = std::min(claim.effects[s], result.seeds[s]);
      const statistics::TwoLevel& difference = result.difference;
      // A number without noise is as it is.
      const statistics::Interval interval =
          test.noise ? difference.interval : statistics::Interval{difference.estimate, difference.estimate};
      low = std::isnan(interval.low) || std::isnan(low) ? kNaN : std::min(low, interval.low);
      if (difference.estimate < claim.mean) {
        claim.mean = difference.estimate;
        claim.interval.high = interval.high;
      }
      const double value = (difference.estimate - component.offset) * component.sign;
      if (test.band) claim.in_band = claim.in_band && value >= test.band->low && value <= test.band->high;
    }
    claim.interval.low = low;
    if (std::isnan(low)) claim.interval.high = kNaN;
    return claim;
  }

  static std::string why_partly(const Claim& claim, const CommonItems& items) {
    Words why;
    const bool every = std::all_of(claim.effects.begin(), claim.effects.end(), [&](double e) { return claim.inclusive ? e >= 0 : e > 0; });
    if (!every) why.emplace_back("not in every seed");
    if (std::isnan(claim.interval.low)) {
      why.push_back(cat("no interval: fewer than three seeds, and ", items.most > 1 ? "items that cannot be paired" : "the table holds summaries"));
    } else if (claim.inclusive ? claim.interval.low < 0 : claim.interval.low <= 0) {
      why.emplace_back("within the noise");
    }
    if (!claim.in_band) why.emplace_back("outside the band");
    if (claim.effects.size() < claim.seeds_needed) why.push_back(cat(claim.effects.size() == 1 ? "one seed" : "two seeds", ": three are needed"));
    return support::join(why, "; ");
  }

  static bool has_items(const ArmSeeds& arms, const Words& names, const Words& seeds) {
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return arms.at(name).at(seeds.front()).has_items; });
  }

  std::string observed(const ClaimTest& test, const ArmSeeds& arms) const {
    const auto of = [&](const Words& names) {
      Words parts;
      for (const std::string& name : names) {
        const auto arm = arms.find(name);
        if (arm == arms.end()) {
          parts.push_back(cat(name, " –"));
          continue;
        }
        double sum = 0;
        for (const auto& [seed, measured] : arm->second) sum += measured.value();
        const double mean = sum / static_cast<double>(arm->second.size());
        parts.push_back(cat(name, " ", std::isfinite(mean) ? fmt::format("{:.4g}", mean) : "–"));
      }
      return support::join(parts, ", ");
    };
    return test.others.empty() ? of(test.of) : cat(of(test.of), "; ", of(test.others));
  }

  ArmSeeds measure(const ClaimTest& test, TestResult& result) const {
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
    std::set<std::string> names, configs;
    for (const GatheredTable& gathered : tables->second) {
      const Run& run = results_.runs[gathered.run];
      const bool wanted = std::all_of(quantity.runs.begin(), quantity.runs.end(), [&](const auto& label) {
        const auto own = run.labels.find(label.first);
        return own != run.labels.end() && same_value(own->second, label.second);
      });
      if (!wanted) continue;
      const bool named = !run.variant.empty() && quantity.runs.empty() && results_.variants.size() > 1;
      const std::string own_name = named ? cat(run.encoding, ", ", run.variant) : run.encoding;
      if (add_rows(test, gathered, own_name, run.seed, arms)) configs.insert(run.facts.value("config_hash", run.run_id));
    }
    configs.erase("");
    if (!configs.empty()) result.configs = configs.size() == 1 ? *configs.begin() : hash_of({configs.begin(), configs.end()});
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
    return arms;
  }

  /// Why an arm that was asked for is not there; empty for one that nobody asked for.
  std::string missing_reason(const std::string& arm) const {
    const std::string encoding = arm.substr(0, arm.find(','));
    for (const std::string& missing : results_.missing) {
      const auto colon = missing.find(": ");
      Labels labels;
      try {
        labels = parse_labels(missing.substr(0, colon)).second;
      } catch (const support::ConfigError&) {   // free text
        continue;
      }
      for (const char* axis : {"encoding", "pe"}) {
        const auto own = labels.find(axis);
        if (own != labels.end() && own->second == encoding) return colon == std::string::npos ? "it was not made" : missing.substr(colon + 2);
      }
    }
    return "";
  }

  /// The axis by which an arm was left out of this run; empty for one that nobody asked for.
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
    const bool known = std::find(results_.encodings.begin(), results_.encodings.end(), encoding) != results_.encodings.end();
    return comma != std::string::npos && known && !others.empty() ? support::join({others.begin(), others.end()}, ", ") : "";
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

  /// Whether a row of an arm that the test is about was among them.
  static bool add_rows(const ClaimTest& test, const GatheredTable& gathered, const std::string& run_name,
                       const std::string& run_seed, ArmSeeds& arms) {
    const Quantity& quantity = test.quantity;
    const artifact::Table& table = gathered.table;
    const schema::CellReader read(table);
    for (const std::string* name : {&quantity.measure, &quantity.per, &quantity.by, &quantity.seed_by}) {
      if (!name->empty()) check_column(test, table, *name);
    }
    const Words asked = test.arms();
    bool used = false;
    const Words item_names = item_columns(table, quantity);
    const bool has_items = !item_names.empty();
    const auto take = [&](const RowFilter& filter, bool is_minus) {
      for (const auto& [name, values] : filter) check_column(test, table, name);
      for (std::size_t row = 0; row < table.rows(); ++row) {
        const bool fits = std::all_of(filter.begin(), filter.end(), [&](const auto& one) {
          const std::string own = read.text(row, one.first);
          return std::any_of(one.second.begin(), one.second.end(), [&](const std::string& value) { return same_value(own, value); });
        });
        if (!fits) continue;
        const std::string name = quantity.by.empty() ? run_name : read.text(row, quantity.by);
        const std::string seed = quantity.seed_by.empty() ? run_seed : read.text(row, quantity.seed_by);
        used = used || std::find(asked.begin(), asked.end(), name) != asked.end();
        Measured& measured = arms[name][seed];
        measured.has_items = has_items;
        measured.has_minus = quantity.minus.has_value();
        ItemSums& sums = is_minus ? measured.minus : measured.main;
        if (!has_items && !sums.empty()) {
          throw support::ConfigError(cat("several rows of ", quote(table.name()), " fit '", filter_text(filter), "' for ", name,
                                         ", and the table holds summaries"),
                                     test.place, "name more columns under 'where'");
        }
        Words item;
        for (const std::string& column : item_names) item.push_back(read.text(row, column));
        // The same item again (several draws of it, say) is another part of it.
        auto& [y, x] = sums[support::join(item, "\n")];
        y += read.real(row, quantity.measure);
        x += quantity.per.empty() ? 1.0 : read.real(row, quantity.per);
        if (!std::isfinite(y)) measured.status = read.status(row);
      }
    };
    take(quantity.where, false);
    if (quantity.minus) take(*quantity.minus, true);
    return used;
  }

  const Results& results_;
};

}  // namespace

std::vector<std::string> ClaimTest::arms() const {
  Words all = of;
  all.insert(all.end(), others.begin(), others.end());
  return all;
}

bool worse_than(Verdict verdict, Verdict other) {
  const auto rank = [](Verdict of) {
    switch (of) {
      case Verdict::kReproduced: return 0;
      case Verdict::kPartly: return 1;
      case Verdict::kNotReproduced: return 2;
      case Verdict::kNotTestable: return 3;
    }
    return 3;
  };
  return rank(verdict) > rank(other);
}

std::string ClaimTest::text() const {
  std::string words = cat(quantity.measure, quantity.per.empty() ? "" : cat(" per ", quantity.per), " of ", support::join(of, ", "));
  switch (kind) {
    case Kind::kAbove:
      words += cat(" above ", support::join(others, ", "), value != 0 ? cat(" by ", support::shortest(value)) : "");
      break;
    case Kind::kAtLeast: words += cat(" at least ", support::shortest(value)); break;
    case Kind::kAtMost: words += cat(" at most ", support::shortest(value)); break;
    case Kind::kNear: words += cat(" within ", support::shortest(within), " of ", support::shortest(value)); break;
  }
  if (!quantity.where.empty()) words += cat(" where ", filter_text(quantity.where));
  if (quantity.minus) words += cat(", less where ", filter_text(*quantity.minus));
  for (const auto& [label, name] : quantity.runs) words += cat(", ", label, " ", name);
  return words;
}

std::vector<ClaimResult> judge(const std::vector<ClaimSpec>& claims, const Results& results) {
  Judge judge(results);
  std::vector<ClaimResult> found;
  for (const ClaimSpec& claim : claims) found.push_back(judge.judge(claim));
  return found;
}

}  // namespace pe::report

#include "report/claims.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>

#include "report/results.h"
#include "report/table.h"
#include "report/table_reader.h"
#include "support/hash.h"
#include "support/suggest.h"
#include "support/text.h"
#include "support/yaml.h"

namespace pe::report {
namespace {

using support::cat;
using support::Node;
using support::quote;

// ---- reading

using Words = std::vector<std::string>;

/// What tests may take over from their claim.
const Words kShared = {"table", "measure", "per", "by", "seed_by", "runs", "noise"};
const Words kComparisons = {"above", "at_least", "at_most", "near"};

class ClaimReader {
 public:
  std::vector<ClaimSpec> read(const Node& root) {
    std::vector<ClaimSpec> claims;
    if (!known_keys(root, "a file of claims", {"claims"})) diagnostics_.throw_if_any();
    const Node* list = root.find("claims");
    if (!list || !list->is_map() || list->members.empty()) {
      diagnostics_.add(cat("expected a map of claims under 'claims', found ", list ? list->found() : "nothing"), root.place());
    } else {
      for (const Node::Member& member : list->members) claims.push_back(claim(member));
    }
    diagnostics_.throw_if_any();
    return claims;
  }

 private:
  ClaimSpec claim(const Node::Member& member) {
    ClaimSpec claim;
    claim.id = member.key;
    claim.hash = support::sha256_hex(support::to_json(member.value).dump()).substr(0, 12);
    Words keys = {"says", "source", "published", "control", "tests"};
    keys.insert(keys.end(), kShared.begin(), kShared.end());
    if (!known_keys(member.value, cat("claim ", quote(claim.id)), keys)) return claim;
    claim.says = text(member.value, "says", true);
    claim.source = text(member.value, "source");
    claim.published = text(member.value, "published");
    ClaimTest shared;
    read_shared(member.value, shared);
    const auto tests = [&](const char* key, std::vector<ClaimTest>& to, bool needed) {
      const Node* list = member.value.find(key);
      if (!list && !needed) return;
      if (!list || !list->is_list() || list->items.empty()) {
        diagnostics_.add(cat("claim ", quote(claim.id), ": expected a list of tests under '", key, "', found ", list ? list->found() : "nothing"),
                         list ? list->place() : member.key_mark.place());
        return;
      }
      for (const Node& item : list->items) to.push_back(test(item, shared));
    };
    tests("control", claim.control, false);
    tests("tests", claim.tests, true);
    return claim;
  }

  ClaimTest test(const Node& node, const ClaimTest& shared) {
    ClaimTest test = shared;
    test.place = node.place();
    Words keys = {"where", "minus", "of", "margin", "within"};
    keys.insert(keys.end(), kShared.begin(), kShared.end());
    keys.insert(keys.end(), kComparisons.begin(), kComparisons.end());
    if (!known_keys(node, "a test", keys)) return test;
    read_shared(node, test);
    if (const Node* where = node.find("where")) test.quantity.where = filter(*where);
    if (const Node* minus = node.find("minus")) {
      // What is not said again is as in 'where'.
      RowFilter elsewhere = test.quantity.where;
      for (auto& [column, values] : filter(*minus)) elsewhere[column] = values;
      test.quantity.minus = std::move(elsewhere);
    }
    test.of = words(node, "of");
    for (const char* needed : {"table", "measure"}) {
      if ((needed == std::string("table") ? test.quantity.table : test.quantity.measure).empty()) {
        diagnostics_.add(cat("a test needs a ", needed), node.place(), cat("give '", needed, "' here or for the whole claim"));
      }
    }
    if (test.of.empty()) diagnostics_.add("a test needs arms to be about", node.place(), "give 'of': one encoding or a list");
    Words found;
    for (const std::string& key : kComparisons) {
      if (node.find(key)) found.push_back(key);
    }
    if (found.size() != 1) {
      diagnostics_.add(cat("a test says one of above, at_least, at_most and near; found ", found.empty() ? "none" : support::join(found, " and ")),
                       node.place());
      return test;
    }
    if (found[0] == "above") {
      test.kind = ClaimTest::Kind::kAbove;
      test.others = words(node, "above");
      test.value = number(node, "margin", 0);
    } else {
      test.kind = found[0] == "at_least"  ? ClaimTest::Kind::kAtLeast
                  : found[0] == "at_most" ? ClaimTest::Kind::kAtMost
                                          : ClaimTest::Kind::kNear;
      test.value = number(node, found[0].c_str(), 0);
      if (node.find("margin")) diagnostics_.add("'margin' belongs to 'above'", node.find("margin")->place());
    }
    if (test.kind == ClaimTest::Kind::kNear) {
      test.within = number(node, "within", -1);
      if (test.within < 0) diagnostics_.add("'near' needs 'within', at least 0", node.place());
    } else if (const Node* within = node.find("within")) {
      diagnostics_.add("'within' belongs to 'near'", within->place());
    }
    return test;
  }

  void read_shared(const Node& node, ClaimTest& test) {
    Quantity& quantity = test.quantity;
    for (const auto& [key, to] : {std::pair<const char*, std::string*>{"table", &quantity.table}, {"measure", &quantity.measure},
                                  {"per", &quantity.per}, {"by", &quantity.by}, {"seed_by", &quantity.seed_by}}) {
      if (node.find(key)) *to = text(node, key);
    }
    if (const Node* runs = node.find("runs")) {
      for (const auto& [label, values] : filter(*runs)) quantity.runs[label] = values.front();
    }
    if (const Node* noise = node.find("noise")) {
      const std::string word = text(node, "noise");
      if (word != "items" && word != "none") {
        diagnostics_.add(cat("'noise' is 'items' or 'none', found ", quote(word)), noise->place());
      }
      test.noise = word != "none";
    }
  }

  bool known_keys(const Node& node, const std::string& what, const Words& keys) {
    if (!node.is_map()) {
      diagnostics_.add(cat(what, " is a map, found ", node.found()), node.place());
      return false;
    }
    for (const Node::Member& member : node.members) {
      if (std::find(keys.begin(), keys.end(), member.key) == keys.end()) {
        diagnostics_.add(cat(what, " has no key ", quote(member.key)), member.key_mark.place(), support::suggestion(member.key, keys));
      }
    }
    return true;
  }

  std::string text(const Node& node, const char* key, bool needed = false) {
    const Node* value = node.find(key);
    if (!value) {
      if (needed) diagnostics_.add(cat("'", key, "' is missing"), node.place());
      return "";
    }
    if (!value->is_scalar() || value->text.empty()) {
      diagnostics_.add(cat("'", key, "' is a text, found ", value->found()), value->place());
      return "";
    }
    return value->text;
  }

  double number(const Node& node, const char* key, double fallback) {
    const Node* value = node.find(key);
    if (!value) return fallback;
    const auto parsed = value->is_scalar() ? support::parse_real(value->text) : std::nullopt;
    if (!parsed || !std::isfinite(*parsed)) {
      diagnostics_.add(cat("'", key, "' is a number, found ", value->found()), value->place());
      return fallback;
    }
    return *parsed;
  }

  Words words(const Node& node, const char* key) {
    const Node* value = node.find(key);
    return value ? word_list(*value, key) : Words{};
  }
  Words word_list(const Node& value, const std::string& key) {
    Words found;
    if (value.is_scalar()) found.push_back(value.text);
    if (value.is_list()) {
      for (const Node& item : value.items) {
        if (item.is_scalar()) found.push_back(item.text);
        else diagnostics_.add(cat("'", key, "' lists words, found ", item.found()), item.place());
      }
    }
    if (found.empty()) diagnostics_.add(cat("'", key, "' is a word or a list of them, found ", value.found()), value.place());
    return found;
  }

  RowFilter filter(const Node& node) {
    RowFilter filter;
    if (!node.is_map()) {
      diagnostics_.add(cat("expected a map of columns to values, found ", node.found()), node.place());
      return filter;
    }
    for (const Node::Member& member : node.members) {
      const Words values = word_list(member.value, member.key);
      if (!values.empty()) filter[member.key] = values;
    }
    return filter;
  }

  support::Diagnostics diagnostics_;
};

/// 12 hex digits.
std::string hash_of(const Words& words) { return support::sha256_hex(support::join(words, "\n")).substr(0, 12); }

std::string filter_text(const RowFilter& filter) {
  Words parts;
  for (const auto& [column, values] : filter) parts.push_back(cat(column, " ", support::join(values, "/")));
  return support::join(parts, ", ");
}

// ---- judging

/// Columns that number the items behind a mean. A table without one holds summaries: a row is a whole result.
const Words kItemColumns = {"doc_id", "trial", "index", "item"};

/// "512" and "5.12e2" are one value.
bool same_value(const std::string& a, const std::string& b) {
  if (a == b) return true;
  const auto x = support::parse_real(a), y = support::parse_real(b);
  return x && y && *x == *y;
}

/// The rows behind one number: of each item its numerator and denominator.
struct Sums {
  std::vector<double> y, x;
  double value() const {
    double top = 0, bottom = 0;
    for (std::size_t i = 0; i < y.size(); ++i) {
      top += y[i];
      bottom += x[i];
    }
    return y.empty() ? std::numeric_limits<double>::quiet_NaN() : top / bottom;
  }
};

struct Measured {
  Sums main, minus;
  bool has_minus = false, has_items = false;
  std::string status;   ///< of rows that hold no number
  double value() const { return has_minus ? main.value() - minus.value() : main.value(); }
};

using ArmSeeds = std::map<std::string, std::map<std::string, Measured>>;   ///< arm → seed

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
      if (last.verdict == Verdict::kReproduced || (last.effect > 0 && last.verdict == Verdict::kPartly)) continue;
      control = false;
      result.reason = cat("the control failed: ", test.text(), last.observed.empty() ? "" : cat(" (", last.observed, ")"),
                          last.reason.empty() ? "" : cat(": ", last.reason));
    }
    // The worst decides: what cannot be tested before what is refuted, that before what is open.
    const auto rank = [](Verdict verdict) {
      switch (verdict) {
        case Verdict::kNotTestable: return 3;
        case Verdict::kNotReproduced: return 2;
        case Verdict::kPartly: return 1;
        case Verdict::kReproduced: return 0;
      }
      return 3;
    };
    result.verdict = Verdict::kReproduced;
    for (const ClaimTest& test : claim.tests) {
      result.tests.push_back(run(test, control));
      const TestResult& last = result.tests.back();
      if (rank(last.verdict) <= rank(result.verdict)) continue;
      result.verdict = last.verdict;
      if (control) result.reason = last.reason;
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
        result.reason = cat(name, " was not measured");
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
    Claim claim;
    claim.control = control;
    const auto value_of = [&](const std::string& arm, const std::string& seed) { return arms.at(arm).at(seed).value(); };
    for (const std::string& seed : seeds) {
      claim.effects.push_back(effect(test, [&](const std::string& arm) { return value_of(arm, seed); }));
    }
    double sum = 0;
    for (const double value : claim.effects) sum += value;
    result.effect = sum / static_cast<double>(claim.effects.size());
    result.interval = interval(test, arms, seeds, claim.effects, result);
    claim.interval = result.interval;
    result.verdict = verdict_of(claim);
    return result;
  }

  /// Signed so that above zero is as claimed; the least favourable arm decides.
  template <typename Value>
  static double effect(const ClaimTest& test, const Value& value) {
    double low = std::numeric_limits<double>::infinity(), high = -low, off = 0;
    for (const std::string& arm : test.of) {
      const double v = value(arm);
      low = std::min(low, v);
      high = std::max(high, v);
      off = std::max(off, std::abs(v - test.value));
    }
    double others = -std::numeric_limits<double>::infinity();
    for (const std::string& arm : test.others) others = std::max(others, value(arm));
    switch (test.kind) {
      case ClaimTest::Kind::kAbove: return low - others - test.value;
      case ClaimTest::Kind::kAtLeast: return low - test.value;
      case ClaimTest::Kind::kAtMost: return test.value - high;
      case ClaimTest::Kind::kNear: return test.within - off;
    }
    return 0;
  }

  Interval interval(const ClaimTest& test, const ArmSeeds& arms, const std::set<std::string>& seeds,
                    const std::vector<double>& effects, TestResult& result) {
    const Interval none{std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::quiet_NaN()};
    if (seeds.size() >= 3) {
      const SeedSummary summary = summarise_seeds(effects);
      return {summary.mean - summary.half_width, summary.mean + summary.half_width};
    }
    if (!test.noise) return {result.effect, result.effect};
    std::size_t items = 0;
    const Words all = test.arms();
    for (const std::string& arm : all) {
      for (const std::string& seed : seeds) {
        const Measured& measured = arms.at(arm).at(seed);
        const std::size_t own = measured.main.y.size();
        if (!measured.has_items || (measured.has_minus && measured.minus.y.size() != own) || (items != 0 && own != items)) {
          result.reason = measured.has_items ? "no interval: the arms were not tested on the same items"
                                             : "no interval: fewer than three seeds, and the table holds summaries";
          return none;
        }
        items = own;
      }
    }
    result.items = items;
    if (items < 2) {
      result.reason = "no interval: fewer than three seeds and fewer than two items";
      return none;
    }
    auto& bootstrap = bootstraps_[items];
    if (!bootstrap) bootstrap = std::make_unique<Bootstrap>(items);
    std::map<std::string, std::map<std::string, std::vector<double>>> draws;
    for (const std::string& arm : all) {
      for (const std::string& seed : seeds) {
        const Measured& measured = arms.at(arm).at(seed);
        std::vector<double>& own = draws[arm][seed];
        own = bootstrap->ratios(measured.main.y, measured.main.x);
        if (!measured.has_minus) continue;
        const std::vector<double> less = bootstrap->ratios(measured.minus.y, measured.minus.x);
        for (std::size_t b = 0; b < own.size(); ++b) own[b] -= less[b];
      }
    }
    std::vector<double> resampled(static_cast<std::size_t>(bootstrap->resamples()), 0);
    for (const std::string& seed : seeds) {
      for (std::size_t b = 0; b < resampled.size(); ++b) {
        resampled[b] += effect(test, [&](const std::string& arm) { return draws.at(arm).at(seed)[b]; }) / static_cast<double>(seeds.size());
      }
    }
    return percentile_interval(std::move(resampled));
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
      if (names.count(name) == 0) {
        throw support::ConfigError(cat("nothing that was gathered is called ", quote(name)), test.place,
                                   support::suggestion(name, {names.begin(), names.end()}));
      }
    }
    return arms;
  }

  void check_labels(const ClaimTest& test) const {
    for (const auto& [label, value] : test.quantity.runs) {
      std::set<std::string> known;
      for (const Run& run : results_.runs) {
        for (const auto& [name, own] : run.labels) known.insert(name);
      }
      if (known.count(label) != 0) continue;
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
    const TableReader read(table, gathered.where);
    for (const std::string* name : {&quantity.measure, &quantity.per, &quantity.by, &quantity.seed_by}) {
      if (!name->empty()) check_column(test, table, *name);
    }
    const Words asked = test.arms();
    bool used = false;
    const bool has_items = std::any_of(kItemColumns.begin(), kItemColumns.end(),
                                       [&](const std::string& name) { return table.find_column(name).has_value(); });
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
        Sums& sums = is_minus ? measured.minus : measured.main;
        if (!has_items && !sums.y.empty()) {
          throw support::ConfigError(cat("several rows of ", quote(table.name()), " fit '", filter_text(filter), "' for ", name,
                                         ", and the table holds summaries"),
                                     test.place, "name more columns under 'where'");
        }
        sums.y.push_back(read.real(row, quantity.measure));
        sums.x.push_back(quantity.per.empty() ? 1.0 : read.real(row, quantity.per));
        if (!std::isfinite(sums.y.back())) measured.status = read.text(row, "status");
      }
    };
    take(quantity.where, false);
    if (quantity.minus) take(*quantity.minus, true);
    return used;
  }

  const Results& results_;
  std::map<std::size_t, std::unique_ptr<Bootstrap>> bootstraps_;
};

}  // namespace

std::vector<std::string> ClaimTest::arms() const {
  Words all = of;
  all.insert(all.end(), others.begin(), others.end());
  return all;
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

std::vector<ClaimSpec> read_claims(const std::filesystem::path& file) { return ClaimReader().read(support::read_yaml(file)); }

std::vector<ClaimResult> judge(const std::vector<ClaimSpec>& claims, const Results& results) {
  Judge judge(results);
  std::vector<ClaimResult> found;
  for (const ClaimSpec& claim : claims) found.push_back(judge.judge(claim));
  return found;
}

}  // namespace pe::report

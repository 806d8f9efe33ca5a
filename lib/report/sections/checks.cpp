// Checks whether a comparison of encodings is trustworthy, decided from the gathered results where they suffice.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

#include <fmt/format.h>

#include "report/results/comparison.h"
#include "report/sections/section.h"
#include "schema/models.h"
#include "schema/probes.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;
using support::quote;

enum class Outcome { kPass, kFail, kUnknown };

struct Check {
  std::string what;
  Outcome outcome = Outcome::kUnknown;
  std::string reason;
};

const char* word(Outcome outcome) {
  return outcome == Outcome::kPass ? "pass" : outcome == Outcome::kFail ? "FAIL" : "unknown";
}

/// Trainings of one kind (variant), from scratch where there are such.
std::map<std::string, std::vector<const Curve*>> by_variant(const Results& results) {
  std::map<std::string, std::vector<const Curve*>> groups;
  for (const Curve& curve : results.curves) groups[curve.run.variant].push_back(&curve);
  return groups;
}

/// Digests of the data that a model was trained on; empty where no log of its training was gathered.
std::string training_data_of(const Run& run, const Results& results) {
  const auto agrees =
      [&](const auto& label) {  // the stage of a training is `from` of its evaluation, where several have models
        const bool stage = label.first == "stage";
        const auto own = run.labels.find(stage ? "from" : label.first);
        return own == run.labels.end() ? stage : own->second == label.second;
      };
  const auto curve = std::find_if(results.curves.begin(), results.curves.end(), [&](const Curve& one) {
    return one.run.encoding == run.encoding && one.run.seed == run.seed &&
           std::all_of(one.run.labels.begin(), one.run.labels.end(), agrees);
  });
  return curve == results.curves.end() ? "" : curve->data;
}

double number_of(const Json& facts, const char* name) {
  const auto found = facts.find(name);
  return found != facts.end() && found->is_number() ? found->get<double>() : NAN;
}

/// Settings by dotted key.
void flatten(const Json& config, const std::string& front, std::map<std::string, std::string>& settings) {
  for (const auto& [key, value] : config.items()) {
    if (value.is_object() && !(front == "model." && key == "encoding"))
      flatten(value, front + key + ".", settings);
    else
      settings[front + key] = value.dump();
  }
}

/// Settings that may differ between compared trainings: the encoding itself, the seed, and a tuned learning rate.
bool may_differ(const std::string& key, const Results& results) {
  if (key == "model.encoding" || key == "train.seed") return true;
  const bool tuned = std::any_of(results.selections.begin(), results.selections.end(),
                                 [](const Selection& s) { return s.axis == "lr"; });
  return tuned && key.size() > 8 && (key == "train.peak_lr" || key.find(".peak_lr") != std::string::npos);
}

/// Keys in which trainings of one kind differ.
std::map<std::string, std::string> differing_settings(const Results& results) {
  std::map<std::string, std::string> differing;
  for (const auto& [variant, curves] : by_variant(results)) {
    std::map<std::string, std::string> first;
    bool any = false;
    for (const Curve* curve : curves) {
      if (!curve->config.is_object()) continue;
      std::map<std::string, std::string> own;
      flatten(curve->config, "", own);
      if (!any) first = own;
      any = true;
      for (const auto* side : {&own, &first}) {
        for (const auto& [key, value] : *side) {
          const auto a = first.find(key), b = own.find(key);
          if ((a != first.end() && b != own.end() && a->second == b->second) || may_differ(key, results)) continue;
          differing.emplace(key, cat(a == first.end() ? "none" : a->second, " (", curves.front()->run.encoding, "), ",
                                     b == own.end() ? "none" : b->second, " (", curve->run.encoding, ")"));
        }
      }
    }
  }
  return differing;
}

bool configs_known(const Results& results) {
  return !results.curves.empty() &&
         std::all_of(results.curves.begin(), results.curves.end(), [](const Curve& c) { return c.config.is_object(); });
}

/// Tokens seen by step, where trainings of one kind disagree; empty where they do not.
std::string other_tokens(const Results& results) {
  for (const auto& [variant, curves] : by_variant(results)) {
    std::map<double, double> tokens;
    for (const CurvePoint& point : curves.front()->train) tokens[point.step] = point.tokens;
    for (const Curve* curve : curves) {
      for (const CurvePoint& point : curve->train) {
        const auto other = tokens.find(point.step);
        if (other == tokens.end() || other->second == point.tokens) continue;
        return cat(quote(curve->run.encoding), " had seen ", support::with_commas(std::llround(point.tokens)),
                   " tokens at step ", std::llround(point.step), ", ", quote(curves.front()->run.encoding), " ",
                   support::with_commas(std::llround(other->second)));
      }
    }
  }
  return "";
}

Check same_tokens(const Results& results) {
  Check check{"Same token stream for all encodings"};
  std::map<std::string, std::set<std::string>> evaluated;  // by training data: other texts and tasks have other tests
  for (const Run& run : results.runs) {
    if (const std::string data = data_of(run); !data.empty()) evaluated[training_data_of(run, results)].insert(data);
  }
  if (auto untraced = evaluated.extract(""); !untraced.empty()) {  // nothing says that these may differ from the others
    for (const auto& [trained_on, data] : evaluated) untraced.mapped().insert(data.begin(), data.end());
    evaluated.clear();
    evaluated.insert(std::move(untraced));
  }
  if (const std::string other = other_tokens(results); !other.empty()) return {check.what, Outcome::kFail, other};
  for (const auto& [trained_on, data] : evaluated) {
    if (data.size() > 1) {
      return {check.what, Outcome::kFail,
              cat("models", trained_on.empty() ? "" : " of the same training data", " were evaluated on ", data.size(),
                  " different token shards")};
    }
  }
  bool known = configs_known(results);
  std::string differs;
  for (const auto& [variant, curves] : by_variant(results)) {
    for (const Curve* curve : curves) {
      known = known && !curve->data.empty();
      if (!curve->data.empty() && !curves.front()->data.empty() && curve->data != curves.front()->data)
        differs = cat(quote(curve->run.encoding), " and ", quote(curves.front()->run.encoding),
                      " were trained on different data");
    }
  }
  if (!differs.empty()) return {check.what, Outcome::kFail, differs};
  const auto settings = differing_settings(results);
  for (const char* key : {"train.batch", "train.length", "train.tokens"}) {
    if (const auto own = settings.find(key); own != settings.end())
      return {check.what, Outcome::kFail, cat(key, ": ", own->second)};
  }
  if (known)
    return {check.what, Outcome::kPass,
            cat("same data (by digest), batch, length and tokens",
                evaluated.size() > 1 ? cat(" in each of ", evaluated.size(), " texts or tasks") : "",
                "; batches follow from these and the seed")};
  check.reason = results.curves.empty() ? "no training log was gathered"
                                        : "tokens by step agree, but not every log says which data it was trained on";
  return check;
}

Check same_weights(const Results& results) {
  Check check{"Same initial weights wherever shapes agree"};
  if (results.curves.empty()) return {check.what, Outcome::kUnknown, "no training log was gathered"};
  for (const auto& [variant, curves] : by_variant(results)) {  // sizes of a grid are separate kinds
    std::map<std::string, std::set<std::string>> seeds;
    std::set<double> rest;
    for (const Curve* curve : curves) {
      seeds[curve->run.encoding].insert(curve->run.seed);
      const double own = number_of(curve->run.facts, "parameters"),
                   encoding = number_of(curve->run.facts, "encoding_parameters");
      if (std::isfinite(own) && std::isfinite(encoding)) rest.insert(own - encoding);
    }
    if (rest.size() > 1)
      return {check.what, Outcome::kFail, "models differ in the number of parameters outside their encodings"};
    for (const auto& [encoding, own] : seeds) {
      if (own != seeds.begin()->second)
        return {check.what, Outcome::kFail,
                cat(quote(encoding), " has other seeds than ", quote(seeds.begin()->first))};
    }
  }
  return {check.what, Outcome::kPass,
          "same seeds and sizes; weights are drawn from (seed, name of the tensor), so shared ones are equal"};
}

Check same_training(const Results& results) {
  Check check{"Same everything else: model, optimizer, schedule, length, steps"};
  if (results.curves.empty()) return {check.what, Outcome::kUnknown, "no training log was gathered"};
  if (const auto settings = differing_settings(results); !settings.empty()) {
    std::vector<std::string> words;
    for (const auto& [key, values] : settings) {
      if (words.size() < 4) words.push_back(cat(key, ": ", values));
    }
    if (settings.size() > words.size()) words.push_back(cat(settings.size() - words.size(), " more"));
    return {check.what, Outcome::kFail, support::join(words, "; ")};
  }
  for (const auto& [variant, curves] : by_variant(results)) {
    for (const Curve* curve : curves) {
      for (const char* name : {"length", "step", "first_step"}) {
        const double own = number_of(curve->run.facts, name), other = number_of(curves.front()->run.facts, name);
        if (own == other || (std::isnan(own) && std::isnan(other))) continue;
        return {check.what, Outcome::kFail,
                cat(quote(curve->run.encoding), " and ", quote(curves.front()->run.encoding), " differ in ", name, ": ",
                    support::shortest(own), " and ", support::shortest(other))};
      }
    }
  }
  if (!configs_known(results))
    return {check.what, Outcome::kUnknown, "length and steps agree; not every log says how it was trained"};
  return {check.what, Outcome::kPass,
          results.selections.empty() ? "all settings of training agree but encoding and seed"
                                     : "all settings of training agree but encoding, seed and the tuned learning rate"};
}

/// Says that a compared training has another rate than pilots chose for it; empty if none has. Trainings with an axis
/// `lr` choose among themselves, so these are left out.
std::string trained_at_another_rate(const Results& results, const Selection& selection) {
  if (!selection.of.empty()) return {};  // several sizes, each with its own choice
  const auto chosen = [&](const Curve& curve) {
    const auto label = curve.run.labels.find(selection.axis);
    return curve.run.encoding == selection.encoding && label != curve.run.labels.end() &&
           label->second == selection.chosen;
  };
  const auto pilot = std::find_if(results.unselected_curves.begin(), results.unselected_curves.end(), chosen);
  if (pilot == results.unselected_curves.end()) return {};
  for (const Curve& curve : results.curves) {
    if (curve.run.encoding != selection.encoding || curve.first_step != 0 || curve.run.labels.count(selection.axis) > 0)
      continue;
    // The largest logged rate: a cosine may pass its peak between two logged steps.
    if (std::abs(curve.peak_rate - pilot->peak_rate) > 0.05 * pilot->peak_rate) {
      return fmt::format("{} was trained at {:.4g}, and {:.4g} had the lowest validation loss in pilots",
                         quote(selection.encoding), curve.peak_rate, pilot->peak_rate);
    }
  }
  return {};
}

/// "46 of 65 encodings have".
std::string of_all(const std::vector<std::string>& some, std::size_t all) {
  return cat(some.size(), " of ", all, all == 1 ? " encoding" : " encodings", some.size() == 1 ? " has" : " have");
}

Check tuned_rates(const Results& results) {
  Check check{"Learning rate tuned for each encoding, three values or more"};
  std::set<std::string> compared;  // an encoding may have pilots alone as yet
  for (const Curve& curve : results.curves) compared.insert(curve.run.encoding);
  std::map<std::string, std::set<double>> rates;
  for (const auto* curves : {&results.curves, &results.unselected_curves}) {
    for (const Curve& curve : *curves) {
      // A branch continues at the rate that its trunk had reached.
      const bool whole = std::isfinite(curve.peak_rate) && curve.first_step == 0;
      if (whole && compared.count(curve.run.encoding) > 0) rates[curve.run.encoding].insert(curve.peak_rate);
    }
  }
  if (rates.empty()) {
    return {check.what, Outcome::kUnknown,
            results.curves.empty() ? "no training log was gathered" : "no log of a training from scratch was gathered"};
  }
  for (const Selection& selection : results.selections) {
    // An encoding may have pilots alone as yet.
    if (selection.axis != "lr" || !selection.chosen.empty()) continue;
    if (selection.own_seeds && compared.count(selection.encoding) == 0) continue;
    return {check.what, Outcome::kFail,
            cat(quote(selection.encoding),
                " has no learning rate with a validation loss in every seed, so none was chosen")};
  }
  std::vector<std::string> few;
  for (const auto& [encoding, own] : rates) {
    if (own.size() < 3) few.push_back(encoding);
  }
  if (!few.empty()) {
    std::vector<std::string> words;
    for (const double rate : rates[few.front()]) words.push_back(fmt::format("{:.4g}", rate));
    return {check.what, Outcome::kFail,
            cat(of_all(few, rates.size()), " one or two learning rates here, such as ", quote(few.front()), " (",
                support::join(words, ", "), ")")};
  }
  std::vector<std::string> unchosen;
  for (const std::string& encoding : compared) {
    const bool chosen = std::any_of(results.selections.begin(), results.selections.end(),
                                    [&](const Selection& one) { return one.axis == "lr" && one.encoding == encoding; });
    if (!chosen && rates.count(encoding) > 0) unchosen.push_back(encoding);
  }
  if (!unchosen.empty())
    return {check.what, Outcome::kFail,
            cat(of_all(unchosen, rates.size()),
                " several learning rates, and none was chosen on validation data, such as ", quote(unchosen.front()))};
  for (const Selection& selection : results.selections) {
    if (selection.axis != "lr" || compared.count(selection.encoding) == 0) continue;
    if (const std::string other = trained_at_another_rate(results, selection); !other.empty())
      return {check.what, Outcome::kFail, other};
    if (selection.at_edge)
      return {check.what, Outcome::kFail,
              cat(quote(selection.encoding), " is best at the edge of its rates (", selection.chosen,
                  "): a better one may be outside them")};
  }
  return {check.what, Outcome::kPass, "three learning rates or more for every encoding, chosen on validation data"};
}

Check enough_seeds(const Results& results) {
  Check check{"Three seeds or more"};
  std::size_t fewest = 1000, few = 0;
  const Arm* least = nullptr;
  for (const Arm& arm : results.arms) {
    few += arm.runs.size() < 3;
    if (arm.runs.size() < fewest) {
      fewest = arm.runs.size();
      least = &arm;
    }
  }
  if (least == nullptr) return {check.what, Outcome::kUnknown, "no evaluation was gathered"};
  if (fewest < 3) {
    return {check.what, Outcome::kFail,
            cat(few, " of ", results.arms.size(), " models ", few == 1 ? "has" : "have", " one or two seeds, such as ",
                quote(arm_name(*least, has_variants(results))), " with ", fewest == 1 ? "one" : "two",
                ": differences within seed noise are no findings")};
  }
  return {check.what, Outcome::kPass, cat("at least ", fewest, " for every model")};
}

bool has_text_scores(const Results& results, const Arm& arm) {
  return std::any_of(results.lm.begin(), results.lm.end(), [&](const LmCell& cell) {
    return std::find(arm.runs.begin(), arm.runs.end(), cell.run) != arm.runs.end();
  });
}

Check parity(const Results& results) {
  Check check{"In-distribution parity: within 1 % of the best at the training length"};
  const std::string protocol = headline_protocol(results);
  std::map<std::tuple<std::int64_t, std::string, std::string>, std::vector<std::pair<std::string, double>>>
      losses;  // by training length, data and variant, such as the size: others are no peers
  std::vector<std::string> unknown;
  for (const Arm& arm : results.arms) {
    const std::int64_t length = train_length_of(results, arm);
    const ArmScore score = arm_score(results, arm, protocol, length);
    if (!score.ok()) {
      if (has_text_scores(results, arm))
        unknown.push_back(cat(arm_name(arm, has_variants(results)), " ", score.status));
      continue;
    }
    losses[{length, data_of(results.runs[arm.runs.front()]), arm.variant}].emplace_back(
        arm_name(arm, has_variants(results)), statistics::summarise_seeds(score.nll).mean);
  }
  std::vector<std::string> worse, agree;
  for (const auto& [peers, own] : losses) {
    if (own.size() < 2) continue;
    double best = INFINITY;
    for (const auto& [name, loss] : own) best = std::min(best, loss);
    std::vector<std::string> names;
    for (const auto& [name, loss] : own) {
      if (std::exp(loss - best) > 1.01) names.push_back(name);
    }
    const std::string where = cat(support::with_commas(std::get<0>(peers)), " tokens (", protocol, ")");
    if (!names.empty())
      worse.push_back(cat("at ", where, ": ", support::join(names, ", ")));
    else if (std::find(agree.begin(), agree.end(), where) == agree.end())
      agree.push_back(where);
  }
  if (!worse.empty())
    return {check.what, Outcome::kFail,
            cat("worse ", support::join(worse, "; "), "; what is claimed of them at other lengths is qualified")};
  if (!agree.empty() && !unknown.empty())
    return {check.what, Outcome::kUnknown, cat("no number at the training length: ", support::join(unknown, ", "))};
  if (!agree.empty())
    return {check.what, Outcome::kPass, cat("perplexities at ", support::join(agree, " and at "), " agree")};
  return {check.what, Outcome::kUnknown, "fewer than two models were measured at their training length"};
}

Check shared_items(const Results& results) {
  Check check{"Shared test items, paired, with Holm's correction"};
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::vector<std::int64_t>> documents;
  std::set<std::size_t> counted;
  for (const LmCell& cell : results.lm) {
    if (cell.scores.empty()) continue;
    std::vector<std::int64_t> ids;
    for (const schema::DocumentScore& score : cell.scores) ids.push_back(score.id);
    const auto [at, fresh] = documents.try_emplace({data_of(results.runs[cell.run]), cell.protocol, cell.length}, ids);
    if (!fresh && at->second != ids) {
      return {check.what, Outcome::kFail,
              cat("under ", cell.protocol, " at ", support::with_commas(cell.length),
                  " tokens models have different documents")};
    }
    counted.insert(cell.run);
  }
  if (counted.size() < 2) return {check.what, Outcome::kUnknown, "fewer than two models have scores by document"};
  return {check.what, Outcome::kPass,
          cat(counted.size(),
              " models have the same documents at every length; differences are paired, p values are Holm's")};
}

Check primary_endpoint(const Results& results) {
  Check check{"Primary endpoint named"};
  if (results.primary.empty())
    return {check.what, Outcome::kFail, "`primary` of the report's config is empty: every figure here is exploratory"};
  for (const std::string& encoding : results.encodings) {
    const std::string words = cat(" against ", encoding, " ");
    if (encoding != results.baseline && cat(" ", results.primary, " ").find(words) != std::string::npos)
      return {check.what, Outcome::kFail,
              cat("it names ", quote(encoding), ", but differences are from the baseline ", quote(results.baseline),
                  ": ", results.primary)};
  }
  return {check.what, Outcome::kPass, results.primary};
}

Check budgets(const Results& results) {
  Check check{"Token budget and wall time both given"};
  std::set<double> tokens;
  for (const Run& run : results.runs) {
    if (run.tokens_seen > 0) tokens.insert(run.tokens_seen);
  }
  if (tokens.empty()) return {check.what, Outcome::kUnknown, "no artifact says how many tokens its model has seen"};
  const std::string seen =
      tokens.size() == 1 ? cat("every model has seen ", support::with_commas(std::llround(*tokens.begin())), " tokens")
                         : "models have seen different numbers of tokens; they are in the list of models";
  if (has_table<schema::Cost>(results))
    return {check.what, Outcome::kPass, cat(seen, "; times are in the section on cost")};
  return {check.what, Outcome::kUnknown, cat(seen, "; times are measured (pe-measure) and were not gathered")};
}

Check named_constants(const Results& results) {
  Check check{"Base, rotated fraction and other options named"};
  std::set<std::string> options;
  for (const Run& run : results.runs) {
    if (run.facts.contains("encoding")) options.insert(run.facts["encoding"].dump());
  }
  if (options.empty()) return {check.what, Outcome::kUnknown, "no artifact says which options its encoding has"};
  std::vector<std::string> all(options.begin(), options.end());
  if (all.size() > 24) {
    all.resize(24);
    all.emplace_back("…");
  }
  return {check.what, Outcome::kPass,
          cat(support::join(all, " "),
              "; head width and dtype are in the configs of the models, tables of positions are float32 and made in "
              "float64")};
}

Check controls(const Results& results) {
  Check check{"Negative controls"};
  std::vector<std::string> found;
  if (std::find(results.encodings.begin(), results.encodings.end(), "none") != results.encodings.end())
    found.emplace_back("a model without an encoding");
  std::set<std::string> networks;
  each_row<schema::ProbePosition>(
      results, [&](std::size_t, const schema::ProbePosition& row) { networks.insert(row.network.value_or("")); });
  if (networks.count("random")) found.emplace_back("position probes of a random network");
  if (networks.count("shuffled")) found.emplace_back("position probes on shuffled texts");
  bool shuffled_prefixes = false;
  each_row<schema::ProbeReliance>(results, [&](std::size_t, const schema::ProbeReliance& row) {
    shuffled_prefixes = shuffled_prefixes || row.test == "shuffled_prefix";
  });
  if (shuffled_prefixes) found.emplace_back("shuffled prefixes");
  if (found.empty())
    return {check.what, Outcome::kFail, "neither a model without an encoding nor a probe's control was gathered"};
  return {check.what, Outcome::kPass, support::join(found, ", ")};
}

}  // namespace

Section checks_section(const Results& results, Palette&) {
  Section section{.id = "checks", .title = "Can this comparison be trusted?"};
  if (results.encodings.size() < 2) return section;  // nothing is compared
  const std::vector<Check> checks = {
      same_tokens(results),
      same_weights(results),
      same_training(results),
      tuned_rates(results),
      enough_seeds(results),
      parity(results),
      {"Same kernel path, or paths shown to agree", Outcome::kUnknown,
       "tables do not say which route was taken; tests hold all routes of every encoding to each other"},
      shared_items(results),
      primary_endpoint(results),
      budgets(results),
      named_constants(results),
      controls(results)};
  Table table{.id = "checks",
              .title = "Checks of the comparison",
              .columns = {{.id = "number", .header = "No.", .style = NumberStyle::kCount},
                          {.id = "check", .header = "Check", .text = true},
                          {.id = "verdict", .header = "Verdict", .text = true},
                          {.id = "reason", .header = "Reason", .text = true}}};
  std::size_t passed = 0, failed = 0;
  for (std::size_t i = 0; i < checks.size(); ++i) {
    passed += checks[i].outcome == Outcome::kPass;
    failed += checks[i].outcome == Outcome::kFail;
    table.rows.push_back({.cells = {Cell::of_number(static_cast<double>(i + 1)), Cell::of_text(checks[i].what),
                                    Cell::of_text(word(checks[i].outcome)), Cell::of_text(checks[i].reason)}});
  }
  table.caption = cat("Decided from the gathered results: ", passed, " of ", checks.size(), " pass, ", failed,
                      " fail, ", checks.size() - passed - failed, " cannot be decided from them.");
  if (failed > 0) section.lines.push_back(cat("checks of the comparison: ", failed, " of ", checks.size(), " fail"));
  if (failed > 0)
    section.findings.push_back(cat("Checks of the comparison: ", failed, " of ", checks.size(),
                                   " fail; see 'Can this comparison be trusted?'."));
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace pe::report

// How steady trainings were, from the facts that each of them records over every step.
#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "report/results/training_curves.h"
#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

double fact(const Json& facts, const char* name, const char* inner = nullptr) {
  const auto found = facts.find(name);
  if (found == facts.end()) return NAN;
  const Json& value = *found;
  if (inner == nullptr) return value.is_number() ? value.get<double>() : NAN;
  if (!value.is_object() || !value.contains(inner) || !value[inner].is_number()) return NAN;
  return value[inner].get<double>();
}

/// Mean excess of the final loss over that at the best rate, where a model was trained at three learning rates or more
/// (axis `lr`).
double sensitivity(const Results& results, const std::string& encoding, const std::string& variant) {
  std::map<std::string, std::vector<double>> losses;
  for (const auto* curves : {&results.curves, &results.unselected_curves}) {
    for (const Curve& curve : *curves) {
      if (curve.run.encoding != encoding || curve.run.variant != variant) continue;
      const auto rate = curve.run.labels.find("lr");
      if (rate == curve.run.labels.end() || curve.train.empty()) return NAN;
      const double last = curve.validation.empty() ? curve.train.back().loss : curve.validation.back().loss;
      const double first = curve.train.front().loss;  // a training that fell apart has learned nothing
      losses[rate->second].push_back(std::isfinite(last) && !curve.diverged ? std::min(last, first) : first);
    }
  }
  if (losses.size() < 3) return NAN;
  std::vector<double> means;
  for (const auto& [rate, values] : losses) means.push_back(mean_of_finite(values));
  const double best = *std::min_element(means.begin(), means.end());
  for (double& mean : means) mean -= best;
  return mean_of_finite(means);
}

/// Steps of the trainings that tried learning rates: "245 steps · ".
std::string training_steps(const Results& results) {
  std::set<double> steps;
  for (const Curve& curve : results.unselected_curves) {
    const double last = fact(curve.run.facts, "step");
    if (curve.run.labels.count("lr") && std::isfinite(last)) steps.insert(last);
  }
  if (steps.empty()) return "";
  const auto count = [](double value) { return support::with_commas(std::llround(value)); };
  const std::string low = count(*steps.begin()), high = count(*steps.rbegin());
  return cat(low, low == high ? "" : cat(" to ", high), " steps · ");
}

/// Validation loss against the values that were tried, where these are numbers.
Figure rates_figure(const Results& results, Palette& palette) {
  Figure figure{.id = "learning_rates",
                .title = "Validation loss against the learning rate",
                .x = {.title = "Peak learning rate", .scale = Scale::kLog10},
                .y = {.title = "Validation loss, nats per token, lower is better"}};
  std::map<std::string, Panel> panels;
  std::size_t most_seeds = 0;
  for (const Selection& selection : results.selections) {
    if (selection.axis != "lr") continue;
    std::size_t seeds = 0;
    for (const auto& candidate : selection.candidates) seeds = std::max(seeds, candidate.losses.size());
    std::vector<double> rates;
    std::vector<std::vector<double>> losses(seeds);
    for (const auto& candidate : selection.candidates) {
      const auto rate = support::parse_real(candidate.label);
      if (!rate || !(*rate > 0) || !std::isfinite(candidate.mean)) continue;  // a mean needs every seed
      rates.push_back(*rate);
      for (std::size_t s = 0; s < seeds; ++s) losses[s].push_back(candidate.losses[s]);
    }
    if (rates.size() < 2) continue;
    Panel& panel = panels[selection.of];
    panel.title = selection.of;
    std::vector<std::string> names;
    for (std::size_t s = 0; s < seeds; ++s) names.push_back(cat("seed ", s + 1));
    most_seeds = std::max(most_seeds, seeds);
    add_arm_series(panel, {selection.encoding, selection.of, {}}, palette.look(selection.encoding), names, rates,
                   losses, [](double loss) { return loss; });
  }
  for (auto& [of, panel] : panels) figure.panels.push_back(std::move(panel));
  figure.setting = cat(training_steps(results), most_seeds, most_seeds == 1 ? " seed" : " seeds");
  figure.caption =
      cat("Final validation loss; each encoding's lowest mean over seeds was chosen. Thick: mean over seeds; thin: "
          "single seeds; band: 95 % t "
          "interval over seeds, from three on. A rate at which a seed diverged has no point.");
  figure.description =
      "Line chart of validation loss against the learning rate. The values are in the table of chosen values.";
  return figure;
}

/// Encodings that are not compared, since none of their values could be chosen.
std::string unchosen_words(const Results& results) {
  std::map<std::string, std::vector<std::string>> encodings;  // by axis
  for (const Selection& selection : results.selections) {
    if (selection.chosen.empty())
      encodings[selection.axis].push_back(
          cat(selection.encoding, selection.of.empty() ? "" : cat(" (", selection.of, ")")));
  }
  std::string words;
  for (const auto& [axis, names] : encodings) {
    words += cat(" Not compared, since no value of '", axis,
                 "' has a validation loss in every seed: ", support::join(names, ", "), ".");
  }
  return words;
}

/// The seeds that selected the values, and the effect on the comparison.
std::string selection_sentence(const Results& results) {
  const Selection& first = results.selections.front();
  const std::string unchosen = unchosen_words(results);
  if (first.own_seeds)
    return cat("The values of '", first.axis, "' were chosen on seeds that are not compared.", unchosen);
  return cat("The values of '", first.axis,
             "' were chosen on the seeds that are compared, which favours encodings whose seeds vary much "
             "('select_seeds' in the report's config chooses on others).",
             unchosen);
}

/// Validation loss by learning rate, the chosen ones in bold.
Table rates_table(const Results& results) {
  Table table{.id = "selections", .title = "Settings chosen on validation data"};
  table.columns = {
      {.id = "encoding", .header = "Encoding", .text = true},
      {.id = "of", .header = "Of", .text = true},
      {.id = "axis", .header = "Axis", .text = true},
      {.id = "value", .header = "Value", .text = true},
      {.id = "loss", .header = "Validation loss", .style = NumberStyle::kNats, .direction = Direction::kLowerIsBetter},
      {.id = "seeds", .header = "Seeds", .style = NumberStyle::kCount},
      {.id = "chosen", .header = "Chosen", .text = true}};
  const char* same_seeds = ", on the seeds that are compared";
  for (const Selection& selection : results.selections) {
    bool first = !table.rows.empty();
    for (const Selection::Candidate& candidate : selection.candidates) {
      const bool chosen = candidate.label == selection.chosen;
      Cell loss = Cell::of_known(candidate.mean, "a seed diverged, is missing, or logged no validation");
      loss.best = chosen;
      const statistics::SeedSummary summary = statistics::summarise_seeds(candidate.losses);
      if (loss.number && std::isfinite(summary.half_width)) loss.half_width = summary.half_width;
      table.rows.push_back({.cells = {Cell::of_text(selection.encoding), Cell::of_text(selection.of),
                                      Cell::of_text(selection.axis), Cell::of_text(candidate.label), loss,
                                      Cell::of_number(static_cast<double>(candidate.losses.size())),
                                      Cell::of_text(!chosen ? ""
                                                            : cat(selection.at_edge ? "yes, at the edge" : "yes",
                                                                  selection.own_seeds ? "" : same_seeds))},
                            .rule_above = first,
                            .runs = std::vector<std::size_t>{}});  // none: pilots are no runs of the model
      first = false;
    }
  }
  table.caption =
      cat("Final validation loss, mean over seeds. The value with the lowest is the encoding's in every other table "
          "and figure; the "
          "others are left out. ",
          selection_sentence(results));
  return table;
}

std::vector<Column> stability_columns(bool with_variant) {
  std::vector<Column> columns = arm_columns(with_variant);
  columns.insert(columns.end(),
                 {{.id = "seeds", .header = "Seeds", .style = NumberStyle::kCount},
                  {.id = "steps", .header = "Steps counted", .style = NumberStyle::kCount},
                  {.id = "spikes", .header = "Spikes", .style = NumberStyle::kCount},
                  {.id = "spike_mass", .header = "mass, nats", .style = NumberStyle::kNats},
                  {.id = "gnorm_p50", .header = "median", .group = "gradient norm", .style = NumberStyle::kPerplexity},
                  {.id = "gnorm_p99", .header = "p99", .group = "gradient norm", .style = NumberStyle::kPerplexity},
                  {.id = "gnorm_max", .header = "largest", .group = "gradient norm", .style = NumberStyle::kPerplexity},
                  {.id = "clip_frac", .header = "clipped, %", .style = NumberStyle::kPercent},
                  {.id = "nonfinite", .header = "not finite", .style = NumberStyle::kCount},
                  {.id = "max_logit", .header = "largest logit", .style = NumberStyle::kPerplexity},
                  {.id = "diverged", .header = "diverged", .style = NumberStyle::kCount},
                  {.id = "sensitivity", .header = "rate sensitivity, nats", .style = NumberStyle::kNats},
                  {.id = "label", .header = "Label", .text = true}});
  return columns;
}

/// The facts of the trainings of one encoding and variant: sums of counts, and values of each training.
struct Stability {
  double spikes = 0, mass = 0, nonfinite = 0, diverged = 0, judged = 0, known = 0;
  std::vector<double> median, p99, largest, clipped, logit;
  std::set<std::string> seeds;
};

Stability stability_of(const std::vector<const Curve*>& curves) {
  Stability all;
  for (const Curve* curve : curves) {
    const auto found = curve->run.facts.find("stability");
    if (found == curve->run.facts.end() || !found->is_object()) continue;
    const Json& facts = *found;
    ++all.known;
    all.seeds.insert(curve->run.seed);
    const auto count = [&](const char* name) {  // absent is none counted
      const double value = fact(facts, name);
      return std::isfinite(value) ? value : 0;
    };
    all.spikes += count("spikes");
    all.mass += count("spike_mass");
    all.nonfinite += count("nonfinite_steps");
    all.judged += count("steps_judged");
    all.diverged += curve->diverged || (facts.contains("diverged") && facts["diverged"] == true);
    all.median.push_back(fact(facts, "grad_norm", "median"));
    all.p99.push_back(fact(facts, "grad_norm", "p99"));
    all.largest.push_back(fact(facts, "grad_norm", "max"));
    all.clipped.push_back(fact(facts, "clipped_share"));
    all.logit.push_back(fact(facts, "largest_logit"));
  }
  return all;
}

double largest_finite(const std::vector<double>& values) {
  double highest = NAN;
  for (const double value : values) highest = std::isfinite(value) && !(value <= highest) ? value : highest;
  return highest;
}

/// `rates`: the sensitivity to the learning rate.
std::vector<Cell> stability_cells(const Stability& all, double rates) {
  const char *few = "too few steps", *brief = "training is no longer than its first 128 steps and the warm-up";
  return {Cell::of_number(static_cast<double>(all.seeds.size())),
          Cell::of_number(all.judged),
          Cell::of_known(all.judged > 0 ? all.spikes : NAN, brief),
          Cell::of_known(all.judged > 0 ? all.mass : NAN, brief),
          Cell::of_known(mean_of_finite(all.median), few),
          Cell::of_known(mean_of_finite(all.p99), few),
          Cell::of_known(largest_finite(all.largest), few),
          Cell::of_known(mean_of_finite(all.clipped), few),
          Cell::of_number(all.nonfinite),
          Cell::of_known(largest_finite(all.logit), "not sampled"),
          Cell::of_number(all.diverged),
          Cell::of_known(rates, "needs trainings at three learning rates or more (axis `lr`), and no others"),
          Cell::of_text(all.diverged > 0                      ? "unstable"
                        : all.spikes > 0 || all.nonfinite > 0 ? "needs care"
                        : all.judged == 0                     ? "unknown: too few steps"
                        : !std::isfinite(rates)               ? "no spikes"
                        : rates < 0.05                        ? "stable"
                                                              : "needs care")};
}

}  // namespace

Section stability_section(const Results& results, Palette& palette) {
  Section section{.id = "stability", .title = "Stability of training"};
  const auto curves = pointers_to(results.curves);
  const std::vector<std::string> variants = variants_of(curves);
  Table table{.id = "stability", .title = "How steady trainings were"};
  table.columns = stability_columns(variants.size() > 1);
  for (const std::string& variant : variants) {
    bool first = !table.rows.empty();
    for (const std::string& encoding : results.encodings) {
      const auto own = curves_of(curves, encoding, variant);
      const Stability all = stability_of(own);
      if (all.known == 0) continue;
      Row row{.cells = arm_cells(encoding, variant, variants.size() > 1),
              .rule_above = first,
              .trainings = places_of(results, own)};
      first = false;
      for (Cell& cell : stability_cells(all, sensitivity(results, encoding, variant)))
        row.cells.push_back(std::move(cell));
      table.rows.push_back(std::move(row));
    }
  }
  if (!results.selections.empty()) {
    section.tables.push_back(rates_table(results));
    section.findings.push_back(selection_sentence(results));
  }
  if (Figure rates = rates_figure(results, palette); !rates.panels.empty()) section.figures.push_back(std::move(rates));
  if (table.rows.empty()) return section;
  table.caption =
      cat("Recorded over every step; a spike exceeds the median of the 128 steps before it by max(6 · 1.4826 · MAD, "
          "0.1 nats); steps within 16 of "
          "each other are one; counts are sums over seeds, gradient norms means, the logit the largest of all "
          "samples. Label: unstable where a run diverged; stable without spikes and with a sensitivity to the learning "
          "rate below 0.05 nats; "
          "'no spikes' where the latter was not measured; else needs care. ",
          training_sentence(results));
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace pe::report

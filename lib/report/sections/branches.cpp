// The tree of trainings: which parts of them several results share, and what that saved.
#include <algorithm>
#include <cmath>

#include "report/results/training_curves.h"
#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

double last_tokens(const Curve& curve) {
  double tokens = 0;
  for (const auto* points : {&curve.train, &curve.validation}) {
    if (!points->empty()) tokens = std::max(tokens, points->back().tokens);
  }
  return tokens;
}

std::string tokens_text(double tokens) { return format_number(tokens, NumberStyle::kTokens); }

}  // namespace

Section branches_section(const Results& results, Palette& palette) {
  Section section{.id = "setup", .title = "Setup"};
  const auto curves = distinct(results.curves);
  struct Branch {
    const Curve* curve;
    double fork, end;
  };
  std::map<const Curve*, std::vector<Branch>> trees;
  std::vector<const Curve*> trunks;
  double trained = 0, alone = 0, flops = 0, flops_alone = 0;
  std::size_t ends = 0;
  for (const Curve* curve : curves) {
    const double end = last_tokens(*curve), rate = flops_per_token(*curve);
    const Curve* trunk = trunk_of(curves, *curve);
    const double fork = trunk ? fork_tokens_of(*curve, *trunk) : 0;
    trained += end - fork;
    flops += (end - fork) * rate;
    if (!trunk) {
      trunks.push_back(curve);
      continue;
    }
    trees[trunk].push_back({curve, fork, end});
  }
  if (trees.empty()) return section;
  // Trained on their own, every branch would have cost its trunk up to the fork again; a trunk is the way to its
  // branches.
  for (const auto& [trunk, branches] : trees) {
    for (const Branch& branch : branches) {
      alone += branch.end;
      flops_alone += branch.end * flops_per_token(*branch.curve);
      ++ends;
    }
  }
  for (const Curve* trunk : trunks) {
    if (trees.count(trunk)) continue;
    alone += last_tokens(*trunk);
    flops_alone += last_tokens(*trunk) * flops_per_token(*trunk);
    ++ends;
  }

  Figure figure{.id = "branches",
                .title = "Which trainings share their beginning",
                .x = {.title = "Tokens seen", .ticks = TickStyle::kCount},
                .y = {.hidden = true}};
  figure.x.low = 0;
  std::vector<std::string> drawn;
  for (const Curve* trunk : trunks) {
    const auto tree = trees.find(trunk);
    if (tree == trees.end()) continue;
    const std::string name =
        trunk->run.variant.empty() ? trunk->run.encoding : cat(trunk->run.encoding, ", ", trunk->run.variant);
    if (std::find(drawn.begin(), drawn.end(), name) != drawn.end()) continue;  // one seed of each
    drawn.push_back(name);
    Panel panel{.title = name, .encoding = trunk->run.encoding};
    const Look look = palette.look(trunk->run.encoding);
    auto branches = tree->second;
    std::stable_sort(branches.begin(), branches.end(),
                     [](const Branch& a, const Branch& b) { return a.fork < b.fork; });
    const double end = last_tokens(*trunk), top = static_cast<double>(branches.size());
    const auto units = units_of(results, *trunk);
    panel.series.push_back({.name = cat("whole training, ", tokens_text(end), " tokens"),
                            .role = Series::Role::kLine,
                            .look = look,
                            .points = {{.x = 0, .y = top}, {.x = end, .y = top}},
                            .units = units});
    std::vector<std::string> labels;
    for (const Branch& branch : branches) labels.push_back(branch.curve->run.variant);
    if (labels.size() > 1) labels = distinguishing_parts(labels);
    for (std::size_t b = 0; b < branches.size(); ++b) {
      const Branch& branch = branches[b];
      Look own = look;
      own.dash = Dash::kDashed;
      // Branches that fork last are drawn highest, so that no line crosses another.
      const double lane = static_cast<double>(b);
      const std::string label = labels[b].empty() ? "branch" : labels[b];
      panel.series.push_back(
          {.name = cat(label, ", ", tokens_text(branch.end - branch.fork), " tokens more"),
           .role = Series::Role::kLine,
           .look = own,
           .points = {{.x = branch.fork, .y = top}, {.x = branch.fork, .y = lane}, {.x = branch.end, .y = lane}},
           .variant = branch.curve->run.variant,
           .units = units});
      panel.flags.push_back({branch.fork, top, "", look.colour});
    }
    figure.panels.push_back(std::move(panel));
  }
  figure.y.low = -0.6;
  double highest = 1;
  for (const Panel& panel : figure.panels) highest = std::max(highest, static_cast<double>(panel.series.size()) - 1);
  figure.y.high = highest + 0.6;
  add_units(figure, results.x_unit);
  const double price = alone > 0 ? static_cast<double>(ends) * trained / alone : NAN;
  figure.caption = cat(ends, " trained results for the price of ", format_number(price, NumberStyle::kPerplexity), ": ",
                       tokens_text(trained), " tokens were trained instead of ", tokens_text(alone),
                       std::isfinite(flops) && std::isfinite(flops_alone)
                           ? cat(" (", tokens_text(flops), " of ", tokens_text(flops_alone), " FLOPs, estimated)")
                           : "",
                       ", over all encodings and seeds. Solid: the trunk; dashed: branches, which reuse it up to their "
                       "fork (×); one seed of each encoding is drawn.");
  figure.description = "Trees of trunks and their branches over tokens, one for each encoding.";
  section.figures.push_back(std::move(figure));
  return section;
}

}  // namespace pe::report

// The tree of trainings: the parts that several results share, and the training that this saved.
#include <algorithm>
#include <cmath>

#include "report/results/training_curves.h"
#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

std::string tokens_text(double tokens) { return format_number(tokens, NumberStyle::kTokens); }

struct Branch {
  const Curve* curve;
  double fork, end;  ///< tokens
};

/// Trainings, and their cost without a common beginning, where every branch repeats its trunk up to the fork.
struct Trees {
  std::vector<const Curve*> trunks;
  std::map<const Curve*, std::vector<Branch>> branches;  ///< by trunk
  double trained = 0, alone = 0, flops = 0, flops_alone = 0;
  std::size_t ends = 0;

  void add_end(const Curve& curve, double end) {
    alone += end;
    flops_alone += end * flops_per_token(curve);
    ++ends;
  }
};

Trees trees_of(const std::vector<const Curve*>& curves) {
  Trees trees;
  for (const Curve* curve : curves) {
    const double end = last_tokens(*curve);
    const Curve* trunk = trunk_of(curves, *curve);
    const double fork = trunk ? fork_tokens_of(*curve, *trunk) : 0;
    trees.trained += end - fork;
    trees.flops += (end - fork) * flops_per_token(*curve);
    if (trunk)
      trees.branches[trunk].push_back({curve, fork, end});
    else
      trees.trunks.push_back(curve);
  }
  // A trunk is the way to its branches, and no result.
  for (const auto& [trunk, branches] : trees.branches) {
    for (const Branch& branch : branches) trees.add_end(*branch.curve, branch.end);
  }
  for (const Curve* trunk : trees.trunks) {
    if (!trees.branches.count(trunk)) trees.add_end(*trunk, last_tokens(*trunk));
  }
  return trees;
}

Panel tree_panel(const Results& results, const Curve& trunk, std::vector<Branch> branches, const Look& look) {
  Panel panel{
      .title = trunk.run.variant.empty() ? trunk.run.encoding : cat(trunk.run.encoding, ", ", trunk.run.variant),
      .encoding = trunk.run.encoding};
  std::stable_sort(branches.begin(), branches.end(), [](const Branch& a, const Branch& b) { return a.fork < b.fork; });
  const double end = last_tokens(trunk), top = static_cast<double>(branches.size());
  const auto units = units_of(results, trunk);
  panel.series.push_back({.name = cat("whole training, ", tokens_text(end)),
                          .role = Series::Role::kLine,
                          .look = look,
                          .points = {{.x = 0, .y = top}, {.x = end, .y = top}},
                          .units = units});
  std::vector<std::string> labels;
  for (const Branch& branch : branches) labels.push_back(branch.curve->run.variant);
  if (labels.size() > 1) labels = distinguishing_parts(labels);
  Look own = look;
  own.dash = Dash::kDashed;
  for (std::size_t b = 0; b < branches.size(); ++b) {
    const Branch& branch = branches[b];
    // Branches that fork last are drawn highest, so that no line crosses another.
    const double lane = static_cast<double>(b);
    const std::string label = labels[b].empty() ? "branch" : labels[b];
    panel.series.push_back(
        {.name = cat(label, ", +", tokens_text(branch.end - branch.fork)),
         .role = Series::Role::kLine,
         .look = own,
         .points = {{.x = branch.fork, .y = top}, {.x = branch.fork, .y = lane}, {.x = branch.end, .y = lane}},
         .variant = branch.curve->run.variant,
         .units = units});
    panel.flags.push_back({branch.fork, top, "", look.colour});
  }
  return panel;
}

}  // namespace

Section branches_section(const Results& results, Palette& palette) {
  Section section{.id = "setup", .title = "Setup"};
  const auto curves = distinct(results.curves);
  const Trees trees = trees_of(curves);
  if (trees.branches.empty()) return section;
  Figure figure{.id = "branches",
                .title = "Which trainings share their beginning",
                .x = {.title = "Tokens seen", .ticks = TickStyle::kCount},
                .y = {.hidden = true}};
  figure.x.low = 0;
  for (const Curve* trunk : trees.trunks) {
    const auto tree = trees.branches.find(trunk);
    if (tree == trees.branches.end()) continue;
    Panel panel = tree_panel(results, *trunk, tree->second, palette.look(trunk->run.encoding));
    const bool drawn = std::any_of(figure.panels.begin(), figure.panels.end(),
                                   [&](const Panel& other) { return other.title == panel.title; });
    if (!drawn) figure.panels.push_back(std::move(panel));  // one seed of each
  }
  figure.y.low = -0.6;
  double highest = 1;
  for (const Panel& panel : figure.panels) highest = std::max(highest, static_cast<double>(panel.series.size()) - 1);
  figure.y.high = highest + 0.6;
  add_units(figure, results);
  const double price = trees.alone > 0 ? static_cast<double>(trees.ends) * trees.trained / trees.alone : NAN;
  figure.caption =
      cat(trees.ends, " trained results for the price of ", format_number(price, NumberStyle::kPerplexity), ": ",
          tokens_text(trees.trained), " tokens were trained instead of ", tokens_text(trees.alone),
          std::isfinite(trees.flops) && std::isfinite(trees.flops_alone)
              ? cat(" (", tokens_text(trees.flops), " of ", tokens_text(trees.flops_alone), " FLOPs, estimated)")
              : "",
          ", over all encodings and seeds. Solid: the trunk; dashed: branches and their tokens, which reuse it up "
          "to their fork (×); one seed of each encoding is drawn.");
  figure.description = "Trees of trunks and their branches over tokens, one for each encoding.";
  section.figures.push_back(std::move(figure));
  return section;
}

}  // namespace pe::report

// Differences that so many seeds and items can show: a sentence in the findings of reports that compare, and a table.
#include "report/results/power.h"

#include <algorithm>
#include <cmath>

#include "report/results/comparison.h"
#include "report/sections/section.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

/// The first measure whose noise of training is known, at the training length where that holds, else at its shortest.
const ObservedNoise& leading(const Results& results, const std::vector<ObservedNoise>& all) {
  const auto known = [](const ObservedNoise& one) { return one.seeds >= statistics::kSeedsForNoise; };
  const auto found = std::find_if(all.begin(), all.end(), known);
  const ObservedNoise& first = found == all.end() ? all.front() : *found;
  for (const ObservedNoise& one : all) {
    if (one.measure == first.measure && one.length == results.train_length && known(one) == known(first)) return one;
  }
  return first;
}

std::string sentence_of(const Results& results, const ObservedNoise& seen) {
  const bool documents = seen.measure.rfind("NLL", 0) == 0;
  const std::string where = seen.length > 0 ? cat(" at ", documents ? tokens_header(results, seen.length)
                                                                    : length_header(results, seen.length))
                                            : std::string();
  const std::string who = cat(seeds_in_words(seen.seeds),
                              seen.items > 1 ? cat(" and ", seen.items, documents ? " documents" : " items") : "",
                              where, " (", seen.measure, ")");
  if (seen.seeds < statistics::kSeedsForNoise)
    return cat(who, " can show no difference between encodings: the noise of training takes three seeds to know.");
  const double least = statistics::detectable_difference(seen.noise, seen.seeds, seen.items);
  return cat(who, " show differences of ",
             seen.nats ? cat(format_number(least, NumberStyle::kNats), " nats (",
                             format_number(std::expm1(least), NumberStyle::kPercent), " % of perplexity)")
                       : cat(format_number(least, NumberStyle::kPercent), " points"),
             " and more, with a power of 80 %.");
}

Table power_table(const std::vector<ObservedNoise>& all) {
  Table table{.id = "power", .title = "Differences that can be shown"};
  // pe-pipeline power reads the columns up to item_sd.
  table.columns = {
      {.id = "measure", .header = "Measure", .text = true},
      {.id = "unit", .header = "Unit", .text = true},
      {.id = "length", .header = "Length", .style = NumberStyle::kCount},
      {.id = "seeds", .header = "Seeds", .style = NumberStyle::kCount},
      {.id = "items", .header = "Items", .style = NumberStyle::kCount},
      {.id = "seed_sd", .header = "of a seed", .group = "sd of a difference", .style = NumberStyle::kNats},
      {.id = "item_sd", .header = "of an item", .group = "sd of a difference", .style = NumberStyle::kNats},
      {.id = "shown", .header = "here", .group = "smallest difference found in 80 %", .style = NumberStyle::kNats}};
  const std::size_t counts[] = {3, 5, 10, 20};
  for (const std::size_t seeds : counts) {
    table.columns.push_back({.id = cat("seeds_", seeds),
                             .header = cat(seeds, " seeds"),
                             .group = "of a study to come",
                             .style = NumberStyle::kNats});
  }
  table.columns.push_back(
      {.id = "for_1_percent", .header = "for 1 %", .group = "seeds needed", .style = NumberStyle::kCount});
  const char* unknown = "the noise of training takes three seeds to know";
  for (const ObservedNoise& seen : all) {
    const statistics::NoiseLevels upper = statistics::upper_limit(seen.noise, seen.seeds);
    const auto number = [&](double value) { return Cell::of_known(value, unknown); };
    const auto of_items = [&](double value) {
      return seen.items > 1 ? Cell::of_number(value) : Cell::missing("–", "a summary counts as one item");
    };
    Row row{.cells = {Cell::of_text(seen.measure), Cell::of_text(seen.nats ? "nats" : "share"),
                      seen.length > 0 ? Cell::of_number(static_cast<double>(seen.length))
                                      : Cell::missing("–", "the measure has no length"),
                      Cell::of_number(static_cast<double>(seen.seeds)), of_items(static_cast<double>(seen.items)),
                      number(seen.noise.seed), of_items(seen.noise.item),
                      number(statistics::detectable_difference(seen.noise, seen.seeds, seen.items))},
            .rule_above = !table.rows.empty() && table.rows.back().cells.front().text != seen.measure};
    for (const std::size_t seeds : counts)
      row.cells.push_back(number(statistics::detectable_difference(upper, seeds, seen.items)));
    const std::size_t needed = statistics::seeds_to_detect(seen.nats ? std::log(1.01) : 0.01, upper, seen.items);
    row.cells.push_back(needed > 0 ? Cell::of_number(static_cast<double>(needed))
                        : std::isfinite(seen.noise.seed)
                            ? Cell::missing(">200", "more items are needed, or more than 200 seeds")
                            : Cell::missing("–", unknown));
    table.rows.push_back(std::move(row));
  }
  table.caption =
      "Of differences from the baseline, or from the first encoding where the baseline was not measured (extended: "
      "from the same model as trained), in nats per token or as shares of answers; sd: medians over the encodings, "
      "from the scores of this report. "
      "Two-sided test at 5 %, as many items as here; 1 % is of perplexity, or one point of exact match. A study to "
      "come is planned with "
      "the upper 80 % limit of the seeds' sd, since few seeds often show too small a one.";
  return table;
}

}  // namespace

Section power_section(const Results& results, Palette&) {
  Section section{.id = "power", .title = "Differences that this study can detect"};
  const std::vector<ObservedNoise> all = observed_noise(results);
  if (all.empty()) return section;
  section.findings.push_back(sentence_of(results, leading(results, all)));
  section.tables.push_back(power_table(all));
  return section;
}

}  // namespace pe::report

// Texts that the models wrote, one below the other for each prompt.
#include <algorithm>
#include <map>

#include "report/sections/section.h"
#include "schema/models.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

/// Prompts that a page shows; the others are in the data.
constexpr std::size_t kPrompts = 4;

struct Sample {
  std::size_t run;
  std::string prompt_id, prompt, text;
  bool ended;
  double tokens, nll, repeated;
};

}  // namespace

Section samples_section(const Results& results, Palette&) {
  Section section{.id = "samples", .title = "Texts that the models wrote"};
  std::vector<Sample> samples;
  std::vector<std::string> prompts;  // names, in order of first use
  double temperature = kUnknown, top_k = kUnknown;
  std::size_t texts = 0;
  std::map<std::size_t, std::size_t> first_run;  // of each arm
  each_row<schema::Sample>(results, [&](std::size_t run, const schema::Sample& row) {
    ++texts;
    const std::string id = row.prompt_id;
    if (std::find(prompts.begin(), prompts.end(), id) == prompts.end()) prompts.push_back(id);
    // The first seed of each model, and the first text of a prompt.
    const std::size_t arm = arm_of(results, run);
    if (arm == results.arms.size() || row.text_id != 0 || first_run.emplace(arm, run).first->second != run) return;
    samples.push_back(
        {run, id, row.prompt, row.text, row.ended == 1, static_cast<double>(row.tokens), row.nll, row.repeated});
    temperature = row.temperature;
    top_k = static_cast<double>(row.top_k);
  });
  if (samples.empty()) return section;

  Table table{.id = "samples", .title = "Texts by prompt"};
  table.columns = arm_columns(results);
  table.columns.insert(table.columns.end(),
                       {{.id = "prompt", .header = "Prompt", .text = true},
                        {.id = "text", .header = "Text", .text = true},
                        {.id = "tokens", .header = "Tokens", .style = NumberStyle::kCount},
                        {.id = "nll", .header = "Nats per token", .style = NumberStyle::kNats},
                        {.id = "repeated", .header = "Repeated, %", .style = NumberStyle::kPercent}});
  const std::size_t shown = std::min(prompts.size(), kPrompts);
  for (std::size_t p = 0; p < shown; ++p) {
    bool first = !table.rows.empty();
    for (const Sample& sample : samples) {
      if (sample.prompt_id != prompts[p]) continue;
      Row row{.cells = arm_cells(results, results.arms[arm_of(results, sample.run)]), .rule_above = first};
      row.cells.push_back(Cell::of_text(sample.prompt));
      row.cells.push_back(Cell::of_text(sample.text + (sample.ended ? " ∎" : " …")));
      row.cells.push_back(Cell::of_number(sample.tokens));
      row.cells.push_back(Cell::of_number(sample.nll));
      row.cells.push_back(Cell::of_number(sample.repeated));
      table.rows.push_back(std::move(row));
      first = false;
    }
  }
  table.caption =
      cat("One text of each model, of its first seed, for ", shown, " of ", prompts.size(), " prompts; all ", texts,
          " are in data/samples.csv", ". Temperature ", support::shortest(temperature),
          top_k > 0 ? cat(", of the ", support::shortest(top_k), " likeliest tokens") : "",
          ", the same random numbers for all models. ∎: the model ended the text. Nats per token: what the drawn "
          "tokens cost the model at temperature 1; "
          "repeated: four-token sequences that the text held before. Single texts show what models write, and compare "
          "nothing.");
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace pe::report

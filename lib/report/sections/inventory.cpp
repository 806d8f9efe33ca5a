// The inputs of the report, and the missing inputs with the reason.
#include <cmath>
#include <set>

#include "report/sections/section.h"
#include "schema/status.h"
#include "schema/structured_rows.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

// The statuses of each run's cells: "ok", or how many are of which other kind.
std::vector<std::string> statuses_of(const Results& results) {
  struct Count {
    std::map<std::string, int> other;
    int cells = 0;
  };
  std::vector<Count> counts(results.runs.size());
  const auto count = [&](std::size_t run, const std::string& status) {
    if (run >= counts.size()) return;
    ++counts[run].cells;
    if (status != "ok") ++counts[run].other[status];
  };
  for (const LmCell& cell : results.lm) count(cell.run, cell.status);
  each_row<schema::DummyTargets>(results, [&](std::size_t run, const schema::DummyTargets& row) {
    if (row.target == "all") count(run, row.status.empty() ? schema::status::kOk : row.status);
  });
  for (const auto* list : {&results.retrieval, &results.tasks}) {
    for (const TaskCell& cell : *list) count(cell.run, cell.status);
  }
  std::vector<std::string> statuses;
  for (std::size_t run = 0; run < counts.size(); ++run) {
    const Count& own = counts[run];
    std::vector<std::string> parts;
    for (const auto& [status, number] : own.other) parts.push_back(cat(number, " of ", own.cells, " cells ", status));
    statuses.push_back(!results.runs[run].selected ? "not compared: another setting was chosen"
                       : own.cells == 0            ? "no rows"
                       : parts.empty()             ? "ok"
                                                   : support::join(parts, ", "));
  }
  return statuses;
}

std::string labels_text(const Labels& labels) {
  std::vector<std::string> parts;
  for (const auto& [axis, label] : labels) {
    if (axis != "encoding" && axis != "seed") parts.push_back(cat(axis, "=", label));
  }
  return support::join(parts, ", ");
}

// One row for all missing results that differ in encoding and seed alone; a row's encodings lack the same seeds.
std::vector<Row> missing_rows(const std::vector<std::string>& missing) {
  using Group = std::pair<std::string, std::string>;  // the other labels, the reason
  std::vector<std::pair<Group, std::vector<std::pair<std::string, std::vector<std::string>>>>> groups;
  const auto entry = [](auto& list, const auto& key) -> auto& {
    for (auto& [known, value] : list) {
      if (known == key) return value;
    }
    list.push_back({key, {}});
    return list.back().second;
  };
  for (const std::string& text : missing) {
    const auto colon = text.find(": ");
    const std::string what = text.substr(0, colon);
    const std::string reason = colon == std::string::npos ? "no reason was given" : text.substr(colon + 2);
    Labels labels;
    try {
      labels = parse_labels(what).second;
    } catch (const std::exception&) {
      labels.clear();  // free text is shown unchanged
    }
    const std::string others = labels.empty() ? what : labels_text(labels);
    entry(entry(groups, Group{others, reason}), labels["encoding"]).push_back(labels["seed"]);
  }
  std::vector<Row> rows;
  for (const auto& [group, by_encoding] : groups) {
    std::vector<std::pair<std::vector<std::string>, std::vector<std::string>>> by_seeds;
    for (const auto& [encoding, seeds] : by_encoding) entry(by_seeds, seeds).push_back(encoding);
    for (const auto& [seeds, encodings] : by_seeds) {
      const std::size_t count = seeds.size() * encodings.size();
      Row row;
      row.cells = {Cell::of_text(support::join(encodings, ", ")),
                   Cell::of_text(support::join(seeds, ", ")),
                   Cell::of_text(group.first),
                   Cell::of_text("missing"),
                   Cell::of_text(""),
                   Cell::of_text(""),
                   Cell::of_text(cat(count > 1 ? cat(count, " ") : "", "missing: ", group.second))};
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

}  // namespace

Section inventory_section(const Results& results, Palette&) {
  Section section{.id = "inventory", .title = "Provenance"};
  Table table{.id = "inventory",
              .title = "Runs",
              .columns = {{.id = "encoding", .header = "Encoding", .text = true},
                          {.id = "seed", .header = "Seed", .text = true},
                          {.id = "labels", .header = "Labels", .text = true},
                          {.id = "run_id", .header = "Run", .text = true},
                          {.id = "step", .header = "Step", .style = NumberStyle::kCount},
                          {.id = "tokens", .header = "Tokens seen", .style = NumberStyle::kTokens},
                          {.id = "status", .header = "Status", .text = true}}};
  const std::vector<std::string> statuses = statuses_of(results);
  for (std::size_t i = 0; i < results.runs.size(); ++i) {
    const Run& run = results.runs[i];
    Row row{.variant = run.variant, .runs = std::vector{i}};
    row.cells = {
        Cell::of_text(run.encoding),
        Cell::of_text(run.seed),
        Cell::of_text(labels_text(run.labels)),
        Cell::of_text(run.run_id),
        run.step >= 0 ? Cell::of_number(static_cast<double>(run.step))
                      : Cell::missing("–", "the artifact does not say"),
        run.tokens_seen > 0 ? Cell::of_number(run.tokens_seen) : Cell::missing("–", "the artifact does not say"),
        Cell::of_text(statuses[i])};
    table.rows.push_back(std::move(row));
  }
  for (Row& row : missing_rows(results.missing)) table.rows.push_back(std::move(row));
  const std::size_t absent = results.missing.size();
  table.caption = cat(results.runs.size(), " evaluated ", results.runs.size() == 1 ? "model" : "models", " and ",
                      results.curves.size(), " training ", results.curves.size() == 1 ? "log" : "logs",
                      absent ? cat("; ", absent, " gathered ", absent == 1 ? "result is" : "results are",
                                   " missing, listed with the reason")
                             : "",
                      ". A run's name is the beginning of its model's content digest.");
  if (!results.missing.empty())
    section.findings.push_back(cat("Incomplete: ", absent, " gathered ", absent == 1 ? "result is" : "results are",
                                   " missing; see the list of models."));
  if (!results.copies.empty())
    section.findings.push_back(cat("Seeds that are copies count once: ", support::join(results.copies, ", "),
                                   ". Set train.seed: $(seed) in the stage that trains."));
  section.tables.push_back(std::move(table));
  return section;
}

}  // namespace pe::report

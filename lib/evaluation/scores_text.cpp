#include "evaluation/scores_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "artifact/eval_table.h"
#include "schema/status.h"
#include "schema/tables.h"
#include "support/text.h"

namespace pe::evaluation {

using support::cat;

namespace {

/// Lines in the order in which their names were first added.
class Lines {
 public:
  void add(const std::string& name, std::int64_t length, double value, const std::string& status) {
    const auto known = std::find_if(lines_.begin(), lines_.end(), [&](const auto& line) { return line.first == name; });
    auto& line = known != lines_.end() ? *known : lines_.emplace_back(name, std::vector<std::string>());
    const bool scored = status.empty() || status == schema::status::kOk;
    line.second.push_back(cat(scored ? fmt::format("{:.4g}", value) : status, " at ", support::with_commas(length)));
  }
  std::string text() const {
    std::string out;
    for (const auto& [name, values] : lines_) out += cat(name, ": ", support::join(values, ", "), "\n");
    return out;
  }

 private:
  std::vector<std::pair<std::string, std::vector<std::string>>> lines_;
};

template <typename Row, typename Use>
void each_row(const artifact::Tables& tables, const Use& use) {
  const artifact::Table* table = tables.find(Row::kName);
  if (!table) return;
  const schema::Reader<Row> reader(*table, Row::kName);
  for (std::size_t i = 0; i < reader.rows(); ++i) use(reader.row(i));
}

}  // namespace

std::string scores_text(const artifact::Workspace& workspace) {
  const std::filesystem::path& file = workspace.output("scores");
  const artifact::Tables tables = artifact::read_eval_tables(file);
  Lines lines;
  each_row<schema::LmSummary>(tables, [&](const schema::LmSummary& row) {
    lines.add(cat("perplexity, ", row.protocol), row.length, row.ppl, row.status);
  });
  each_row<schema::LongPpl>(
      tables, [&](const schema::LongPpl& row) { lines.add("LongPPL", row.length, row.longppl, row.status); });
  each_row<schema::Extension>(tables, [&](const schema::Extension& row) {
    lines.add(cat("perplexity, extension ", row.variant), row.length, row.ppl, row.status);
  });
  each_row<schema::RetrievalSummary>(tables, [&](const schema::RetrievalSummary& row) {
    if (row.depth != "all") return;
    lines.add(cat(row.task, row.variant.empty() ? "" : " ", row.variant, ", exact answers"), row.length, row.em,
              row.status);
  });
  each_row<schema::AlgoSummary>(tables, [&](const schema::AlgoSummary& row) {
    lines.add(cat(row.task, ", exact answers"), row.length, row.em, row.status);
  });
  std::vector<std::string> names;
  for (const artifact::Table& table : tables.tables) names.push_back(table.name());
  return cat(lines.text(), "tables: ", support::join(names, ", "), "; `pe-data ", file.string(), "` prints them\n");
}

}  // namespace pe::evaluation

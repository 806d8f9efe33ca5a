#include "commands/chosen_report.h"

#include <algorithm>

#include "artifact/kind.h"
#include "support/error.h"
#include "support/files.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::commands {

using pipeline::Inventory;
using pipeline::OutputRecord;
using pipeline::Record;
using pipeline::Store;
using support::cat;
using support::ConfigError;
using support::quote;

bool is_report(const Record& record) {
  return std::any_of(record.outputs.begin(), record.outputs.end(), [](const OutputRecord& output) {
    return output.kind == artifact::kind_name(artifact::Kind::kReport);
  });
}

Record report_of(const Store& store, const Inventory& inventory, const std::vector<std::size_t>& chosen) {
  std::optional<Record> found;
  std::size_t index = 0;
  for (const std::size_t i : chosen) {
    auto record = store.read(inventory.results[i].key, true);
    if (!record || !is_report(*record)) continue;
    if (found && found->task != record->task)
      throw ConfigError(cat(quote(found->task), " and ", quote(record->task), " are both reports"), {},
                        "name one of them");
    if (!found || inventory.results[i].ended > inventory.results[index].ended) {
      found = std::move(record);
      index = i;
    }
  }
  if (!found)
    throw ConfigError(chosen.empty() ? "no report has a result with these settings yet"
                                     : "none of the results that were named is a report",
                      {},
                      chosen.empty() ? "`pe-pipeline run FILE report` makes it"
                                     : "name the stage of the report, as in: grid.yml report");
  return *std::move(found);
}

std::optional<Json> report_json(const std::filesystem::path& folder) {
  if (!std::filesystem::is_regular_file(folder / "report.json")) return std::nullopt;
  Json json = support::parse_json(support::read_file(folder / "report.json"));
  return json.is_object() && json.value("schema", "") == "pe-report/1" ? std::optional(std::move(json)) : std::nullopt;
}

}  // namespace pe::commands

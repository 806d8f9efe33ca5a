#include <algorithm>
#include <map>

#include "cli/terminal.h"
#include "commands/chosen.h"
#include "commands/commands.h"
#include "commands/run_choice.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using support::cat;
using support::ConfigError;
using support::quote;

std::string hours_text(double hours) { return hours <= 0 ? "" : support::short_duration(hours * 3600); }

double hours_to_rebuild(const pipeline::GarbageReport& report) {
  double hours = 0;
  for (const auto& dropped : report.dropped) hours += dropped.hours;
  return hours;
}

Json garbage_json(const pipeline::GarbageReport& report, bool dry_run) {
  Json json{{"schema", "pe-gc/1"}, {"schema_version", 1}, {"dry_run", dry_run}, {"dropped", Json::array()}};
  for (const auto& dropped : report.dropped) {
    Json each{
        {"what", what_name(dropped.what)}, {"name", dropped.name}, {"bytes", dropped.bytes}, {"why", dropped.why}};
    if (!dropped.key.empty()) {
      each["key"] = dropped.key;
      each["step"] = dropped.step;
      each["hours"] = dropped.hours;
    }
    json["dropped"].push_back(std::move(each));
  }
  json["bytes_before"] = report.bytes_before;
  json["bytes_after"] = report.bytes_after;
  json["to_trash"] = report.to_trash;
  json["deleted"] = report.deleted;
  json["hours_to_rebuild"] = hours_to_rebuild(report);
  json["results"] = report.results;
  json["known"] = report.known;
  json["runs"] = report.runs;
  json["kept"] = {{"pins", report.kept_by_pins}, {"runs", report.kept_by_runs}, {"grace", report.kept_by_grace}};
  json["restored"] = report.restored;
  json["fits"] = report.fits;
  json["notes"] = report.notes;
  return json;
}

std::string garbage_text(const pipeline::GarbageReport& report, const cli::CommandLine& line) {
  const cli::Style style = out_style(line);
  std::vector<std::vector<std::string>> rows;
  constexpr std::size_t kMost = 200;
  for (std::size_t i = 0; i < report.dropped.size() && i < kMost; ++i) {
    const auto& dropped = report.dropped[i];
    rows.push_back({std::string(what_name(dropped.what)), support::short_bytes(static_cast<double>(dropped.bytes)),
                    hours_text(dropped.hours), cli::harmless(dropped.name), dropped.why});
  }
  std::string out = table(rows);
  if (report.dropped.size() > kMost)
    out += cat("and ", report.dropped.size() - kMost, " more; --json lists them all\n");
  const auto size = [](std::uint64_t bytes) { return support::short_bytes(static_cast<double>(bytes)); };
  out += cat(line.dry_run ? "would move " : "moved ", size(report.to_trash), " to the trash",
             line.dry_run ? " and delete " : " and deleted ", size(report.deleted), " from it; the store holds ",
             size(report.bytes_after), ", before ", size(report.bytes_before), "\n");
  const double hours = hours_to_rebuild(report);
  if (hours > 0)
    out += cat("recomputing what ", line.dry_run ? "would be" : "was", " dropped would take ", hours_text(hours), "\n");
  out += cat(counted(report.results, "result"), report.known > 0 ? cat(" (", report.known, " known, not here)") : "",
             " of ", counted(report.runs, "run"), "; kept: ", report.kept_by_pins, " by pins, ", report.kept_by_runs,
             " by runs, ", report.kept_by_grace, " younger than ", support::short_duration(line.trash_grace_s), "\n");
  if (report.restored > 0)
    out += cat(counted(report.restored, "result"), " brought back for a run that began meanwhile\n");
  if (!report.fits)
    out += style.warn("still over the limit: what is left is pinned, needed by the newest runs, or too young") + "\n";
  return out;
}

}  // namespace

int gc_command(const cli::CommandLine& line) {
  const Scope scope = scope_of(line);
  if (!scope.words.empty())
    throw ConfigError(cat("'gc' takes no selection, found ", quote(scope.words.front())),
                      {"pe-pipeline gc", 0, 0, "", 1}, "'pe-pipeline forget' drops results by name");
  pipeline::Store store = open_for_writing(line, scope.store);
  pipeline::GarbageOptions options;
  options.grace_s = line.trash_grace_s;
  options.dry_run = line.dry_run;
  options.by_age = line.policy == "age";
  if (line.max_size) options.max_bytes = static_cast<std::uint64_t>(*line.max_size);
  if (line.keep_last) options.keep_last = static_cast<std::size_t>(*line.keep_last);
  const pipeline::GarbageReport report = pipeline::collect_garbage(store, options);
  print_warnings(store);
  const int code = report.fits ? pipeline::kRunDone : pipeline::kRunIncomplete;
  if (line.json) {
    print_json(garbage_json(report, line.dry_run));
    return code;
  }
  print(garbage_text(report, line));
  for (const std::string& note : report.notes) say(cat("pe-pipeline: ", note, "\n"));
  return code;
}

namespace {

/// Says of an id that stands for results with several keys which they are, a line an id.
std::string several_of_one_id(const pipeline::Inventory& inventory, const std::vector<std::size_t>& chosen) {
  std::map<std::string, std::map<std::string, const pipeline::StoredResult*>> keys;  // id → key → its newest result
  for (const std::size_t i : chosen) {
    const pipeline::StoredResult& result = inventory.results[i];
    const pipeline::StoredResult*& newest = keys[result.task][result.key.key];
    if (!newest || result.ended > newest->ended) newest = &result;
  }
  std::string lines;
  for (const auto& [id, of_id] : keys) {
    if (of_id.size() < 2) continue;
    std::vector<const pipeline::StoredResult*> results;
    for (const auto& [key, result] : of_id) results.push_back(result);
    std::sort(results.begin(), results.end(), [](const auto* a, const auto* b) { return a->ended > b->ended; });
    std::vector<std::string> runs;
    for (const auto* result : results) runs.push_back(cat(result->key.key.substr(0, 12), " (run ", result->run, ")"));
    lines += cat("  ", id, " has ", results.size(), " results, and all are pinned: ", support::join(runs, ", "),
                 "; --run RUN takes the results of one run\n");
  }
  return lines;
}

}  // namespace

int pin_command(const cli::CommandLine& line) {
  Scope scope = scope_of(line);
  if (scope.words.empty()) {
    if (!scope.file.empty() || !line.run.empty())
      throw ConfigError("no name for the pin", {"pe-pipeline pin", 0, 0, "", 1},
                        "as in: pe-pipeline pin grid.yml paper 'evaluate[size=tiny]'");
    const pipeline::Store store = open_for_reading(scope.store);
    Json json{{"schema", "pe-pins/1"}, {"schema_version", 1}, {"pins", Json::array()}};
    std::vector<std::vector<std::string>> rows;
    std::vector<std::string> damaged;
    for (const auto& pin : pipeline::read_pins(store, &damaged)) {
      std::size_t gone = 0;
      for (const auto& key : pin.keys) gone += store.find(key) ? 0u : 1u;
      json["pins"].push_back({{"name", pin.name},
                              {"created", pin.created},
                              {"results", pin.keys.size()},
                              {"gone", gone},
                              {"tasks", pin.tasks}});
      rows.push_back({pin.name, pin.created, counted(pin.keys.size(), "result"),
                      gone > 0 ? cat(gone, " of them gone") : "",
                      pin.tasks.empty()       ? ""
                      : pin.tasks.size() == 1 ? pin.tasks.front()
                                              : cat(pin.tasks.front(), ", …")});
    }
    for (const std::string& path : damaged) say(cat("pe-pipeline: warning: the pin ", path, " cannot be read\n"));
    if (line.json)
      print_json(json);
    else
      print(rows.empty() ? "no pins\n" : table(rows));
    return pipeline::kRunDone;
  }
  pipeline::Pin pin;
  pin.name = scope.words.front();
  scope.words.erase(scope.words.begin());
  if (scope.words.empty() && scope.file.empty() && line.run.empty())
    throw ConfigError("pin what?", {"pe-pipeline pin", 0, 0, "", 1},
                      cat("as in: pe-pipeline pin ", pin.name, " 'evaluate[size=tiny]'"));
  const pipeline::Store store = open_for_writing(line, scope.store);
  const pipeline::Inventory inventory = pipeline::read_inventory(store);
  auto chosen = chosen_results(line, scope, store, inventory);
  if (!line.run.empty()) {
    const std::string run = pick_run(store, line.run, scope.file);
    std::erase_if(chosen, [&](std::size_t i) { return inventory.results[i].run != run; });
  }
  if (chosen.empty()) throw ConfigError("the store has none of the named results", {}, "'pe-pipeline run' makes them");
  const std::string several = line.json || !scope.file.empty() ? "" : several_of_one_id(inventory, chosen);
  for (const std::size_t i : chosen) {
    pin.keys.push_back(inventory.results[i].key);
    pin.tasks.push_back(inventory.results[i].name());
  }
  pin.created = support::utc_text(support::unix_time());
  std::string before;
  for (const pipeline::Pin& old : pipeline::read_pins(store)) {
    if (old.name == pin.name) before = cat(", in place of ", counted(old.keys.size(), "result"));
  }
  pipeline::write_pin(store, pin);
  if (line.json)
    print_json({{"schema", "pe-pins/1"},
                {"schema_version", 1},
                {"pins", Json::array({{{"name", pin.name},
                                       {"created", pin.created},
                                       {"results", pin.keys.size()},
                                       {"gone", 0},
                                       {"tasks", pin.tasks}}})}});
  else
    print(cat("pinned ", counted(pin.keys.size(), "result"), " as ", pin.name, before, "\n", several));
  return pipeline::kRunDone;
}

int unpin_command(const cli::CommandLine& line) {
  const Scope scope = scope_of(line);
  if (scope.words.empty())
    throw ConfigError("unpin what?", {"pe-pipeline unpin", 0, 0, "", 1}, "'pe-pipeline pin' lists the pins");
  const pipeline::Store store = open_for_writing(line, scope.store);
  for (const std::string& name : scope.words) {
    if (pipeline::remove_pin(store, name)) {
      print(cat("unpinned ", name, "\n"));
      continue;
    }
    std::vector<std::string> names;
    for (const auto& pin : pipeline::read_pins(store)) names.push_back(pin.name);
    throw ConfigError(cat("there is no pin ", quote(name)), {}, support::suggestion(name, names));
  }
  return pipeline::kRunDone;
}

}  // namespace pe::commands

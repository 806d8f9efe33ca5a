#include <algorithm>

#include "cli/terminal.h"
#include "commands/chosen.h"
#include "commands/commands.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using support::cat;
using support::ConfigError;
using support::quote;

/// The store that DIR means: itself, or store/ in it.
fs::path other_store(const std::string& word) {
  const fs::path folder = fs::absolute(word);
  if (!fs::exists(folder / "VERSION") && fs::exists(folder / "store" / "VERSION")) return folder / "store";
  return folder;
}

Json report_json(Json json, const pipeline::TransferReport& report) {
  json["results"] = Json::array();
  for (const auto& each : report.results) {
    Json item{{"task", each.task},
              {"key", each.key.key},
              {"step", each.key.step},
              {"bytes", each.bytes},
              {"record_only", each.record_only},
              {"existed", each.existed},
              {"conflict", each.conflict}};
    if (!each.problem.empty()) item["problem"] = each.problem;
    json["results"].push_back(std::move(item));
  }
  return json;
}

std::string report_text(const pipeline::TransferReport& report, const cli::CommandLine& line) {
  constexpr std::size_t kMost = 20;
  std::size_t moved = 0, there = 0, records = 0;
  std::string out;
  const cli::Style style = out_style(line);
  for (const auto& each : report.results) {
    if (!each.problem.empty()) {
      out += cat(style.bad("problem   "), each.task, "  ", cli::harmless(each.problem), "\n");
    } else if (each.conflict) {
      out +=
          cat(style.warn("conflict  "), each.task, "  the other store has other contents under this key; they stay\n",
              "  ours    ", cli::harmless(each.ours), "\n  theirs  ", cli::harmless(each.theirs), "\n");
    } else if (each.record_only) {
      records += each.existed ? 0u : 1u;
    } else if (each.existed) {
      ++there;
    } else if (++moved <= kMost) {
      out += cat(line.dry_run ? "would copy" : "copied    ", "  ", each.task, "  ",
                 support::short_bytes(static_cast<double>(each.bytes)), "\n");
    }
  }
  if (moved > kMost) out += cat("and ", moved - kMost, " more\n");
  out += cat(line.dry_run ? "would copy " : "copied ", counted(moved, "result"), " (",
             counted(report.objects, "object"), ", ", support::short_bytes(static_cast<double>(report.bytes)), ")");
  if (there > 0) out += cat("; ", there, " were there already");
  if (records > 0) out += cat("; ", counted(records, "record"), " of their inputs, without contents");
  return out + "\n";
}

int move_results(const cli::CommandLine& line, bool push) {
  const char* verb = push ? "push" : "pull";
  Scope scope = scope_of(line, /*may_make=*/!push);
  if (scope.words.size() < 2) {
    throw ConfigError(push ? "push what, and where to?" : "pull what, and from where?",
                      {cat("pe-pipeline ", verb), 0, 0, "", 1},
                      cat("as in: pe-pipeline ", verb, " 'evaluate[size=tiny]' /mnt/box/store"));
  }
  const fs::path other = other_store(scope.words.back());
  scope.words.pop_back();
  const fs::path from_path = push ? scope.store : other;
  const fs::path to_path = push ? other : scope.store;
  if (!fs::exists(from_path / "VERSION")) throw ConfigError(cat("there is no store at ", quote(from_path.string())));
  std::error_code error;
  if (fs::equivalent(from_path, to_path, error)) throw ConfigError("both are the same store");
  pipeline::Store from = open_for_reading(from_path);
  const pipeline::Inventory inventory = pipeline::read_inventory(from);
  const std::vector<std::size_t> chosen = chosen_results(line, scope, from, inventory);
  if (chosen.empty()) throw ConfigError(cat("the store ", quote(from_path.string()), " has none of the named results"));
  pipeline::StoreOptions options;
  options.durable = line.durability != "off";
  options.create = !line.dry_run;
  pipeline::Store to(to_path, options);
  pipeline::TransferOptions how;
  how.dry_run = line.dry_run;
  const pipeline::TransferReport report = pipeline::transfer(from, inventory, chosen, to, how);
  print_warnings(from);
  print_warnings(to);

  const Json head{{"schema", "pe-transfer/1"},  {"schema_version", 1},      {"verb", verb},
                  {"from", from_path.string()}, {"to", to_path.string()},   {"dry_run", line.dry_run},
                  {"bytes", report.bytes},      {"objects", report.objects}};
  if (line.json)
    print_json(report_json(head, report));
  else
    print(report_text(report, line));
  const auto any = [&](auto&& test) { return std::any_of(report.results.begin(), report.results.end(), test); };
  if (any([](const pipeline::TransferItem& each) { return !each.problem.empty(); })) return pipeline::kRunStore;
  const bool conflicts = any([](const pipeline::TransferItem& each) { return each.conflict; });
  return conflicts ? pipeline::kRunMismatch : pipeline::kRunDone;
}

}  // namespace

int push_command(const cli::CommandLine& line) { return move_results(line, true); }
int pull_command(const cli::CommandLine& line) { return move_results(line, false); }

}  // namespace pe::commands

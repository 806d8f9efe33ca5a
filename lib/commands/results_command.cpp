#include <algorithm>
#include <map>
#include <set>

#include "cli/terminal.h"
#include "commands/chosen.h"
#include "commands/commands.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/clock.h"
#include "support/cpu.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/json_fields.h"
#include "support/text.h"
#include "support/version.h"

namespace pe::commands {

namespace {

using pipeline::Inventory;
using pipeline::Record;
using pipeline::Store;
using support::cat;
using support::ConfigError;
using support::quote;

/// The results that a run asked for, made or found.
std::vector<std::size_t> results_of_run(const Store& store, const Inventory& inventory, const std::string& id) {
  std::set<std::string> keys, plan_keys;
  const fs::path folder = store.runs_folder() / id;
  pipeline::read_plan(folder, [&](const Json& task) {
    keys.insert(support::text_in(task, "task_key"));
    plan_keys.insert(support::text_in(task, "plan_key"));
  });
  pipeline::each_journal_event(folder, [&](const pipeline::JournalEvent& event) { keys.insert(event.key); });
  keys.erase("");
  plan_keys.erase("");
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < inventory.results.size(); ++i) {
    const auto& result = inventory.results[i];
    if (keys.count(result.key.key) != 0 || plan_keys.count(result.plan_key) != 0) found.push_back(i);
  }
  return found;
}

std::vector<std::size_t> results_to_pack(const cli::CommandLine& line, const Scope& scope, const Store& store,
                                         const Inventory& inventory) {
  if (!scope.file.empty()) return chosen_results(line, scope, store, inventory);
  const std::vector<std::string> runs = store.runs();
  std::set<std::size_t> all;
  Scope rest = scope;
  rest.words.clear();
  for (const std::string& word : scope.words) {
    if (std::find(runs.begin(), runs.end(), word) == runs.end()) {
      rest.words.push_back(word);
      continue;
    }
    const auto of_run = results_of_run(store, inventory, word);
    all.insert(of_run.begin(), of_run.end());
  }
  if (!rest.words.empty() || scope.words.empty()) {
    const auto named = chosen_results(line, rest, store, inventory);
    all.insert(named.begin(), named.end());
  }
  return {all.begin(), all.end()};
}

/// A file that is not ours is not replaced.
void require_ours(const fs::path& file) {
  if (!support::is_there(file)) return;
  support::require_replaceable(file);
  try {
    pipeline::ArchiveReader archive(file);
    const auto first = archive.next();
    if (first && first->name == "results.json") return;
  } catch (const support::ArtifactError&) {
    // Named below.
  }
  throw ConfigError(cat(quote(file.string()), " exists and holds no results"), {"-o", 0, 0, "", 1},
                    "choose another name");
}

/// Why no task here would reuse a result; empty when one may.
class Versions {
 public:
  std::string why_old(const Record& record) {
    const std::string program = cat("pe-", record.stage);
    auto known = stages_.find(program);
    if (known == stages_.end()) {
      std::shared_ptr<const pipeline::StageDescription> stage;
      try {
        stage = catalog_.find(program, fs::current_path(), {});
      } catch (const support::Error&) {
        // A stage of a user's own, which is found by its pipeline alone.
      }
      known = stages_.emplace(program, std::move(stage)).first;
    }
    const auto& stage = known->second;
    if (!stage || stage->name != record.stage) return "";
    if (stage->version != record.version)
      return cat(record.stage, " has result version ", stage->version, " here, not ", record.version);
    const Json config =
        record.preimage.is_object() && record.preimage.contains("config") ? record.preimage["config"] : Json::object();
    for (const auto& [name, number] : pipeline::revisions_of(*stage, config)) {
      const Json* made_by = pipeline::find_value(config, name);
      if (!made_by || *made_by != number) return cat(record.stage, " has revision ", number, " of ", name, " here");
    }
    return "";
  }

 private:
  pipeline::StageCatalog catalog_ = stage_catalog();
  std::map<std::string, std::shared_ptr<const pipeline::StageDescription>> stages_;
};

/// The setting with which this machine finds a result of another CPU, "--set train.compute.isa=avx512"; empty where it
/// needs none.
std::string setting_for(const Record& record) {
  const auto text = [&](const char* name) {
    const Json* value = pipeline::find_value(record.config, name);
    return value && value->is_string() ? value->get<std::string>() : std::string();
  };
  const std::string isa = text("compute.isa");
  const std::string here = support::best_instruction_set(text("compute.dtype") == "bf16");
  if (isa.empty() || isa == "portable" || isa == here || text("compute.device") != "cpu") return "";
  return cat("--set ", record.task.substr(0, record.task.find_first_of("[@")), ".compute.isa=", isa);
}

/// The results of one file.
struct ImportSummary {
  fs::path file;
  std::string sha256;
  pipeline::TransferReport report;
  std::map<std::string, std::size_t> old;  ///< why → results
  std::map<pipeline::ResultKey, std::string> old_keys;
  std::set<std::string> hints;
  std::size_t fresh = 0, known = 0, there = 0, conflicts = 0;
};

class Import {
 public:
  Import(const cli::CommandLine& line, const fs::path& store) : line_(line), store_(store) {}

  /// Reads and checks a file, and asks what the store would make of it. @throws ArtifactError
  void look_at(const fs::path& file) {
    auto& item = items_.emplace_back();
    item.imported.file = file;
    item.imported.sha256 = support::sha256_file(file);
    pipeline::StoreOptions scratch;
    scratch.durable = false;
    item.store = std::make_unique<Store>(folder_.path() / std::to_string(items_.size()), scratch);
    pipeline::unpack_results(file, *item.store);
    item.inventory = pipeline::read_inventory(*item.store);
    for (const auto& result : item.inventory.results) {
      const auto record = item.store->read(result.key);
      if (!record) continue;
      if (const std::string hint = setting_for(*record); !hint.empty()) item.imported.hints.insert(hint);
      const std::string why = versions_.why_old(*record);
      if (why.empty()) continue;
      ++item.imported.old[why];
      item.imported.old_keys[result.key] = why;
    }
    Store to = open_for_reading(store_);
    compare(item, to);
    compare_with_earlier_files(item);
  }

  bool conflicts() const {
    return std::any_of(items_.begin(), items_.end(), [](const auto& item) { return item.imported.conflicts > 0; });
  }

  /// @throws IoError
  void write() {
    pipeline::StoreOptions options;
    options.durable = line_.durability != "off";
    Store to(store_, options);
    for (auto& item : items_) {
      pipeline::TransferOptions how;
      how.amend = [&](Record& record) {
        if (!record.occasion.is_object()) record.occasion = Json::object();
        Json note{{"file", item.imported.file.filename().string()},
                  {"sha256", item.imported.sha256},
                  {"at", support::utc_text(support::unix_time())}};
        const auto old = item.imported.old_keys.find(record.key);
        if (old != item.imported.old_keys.end()) note["old"] = old->second;
        record.occasion["imported"] = std::move(note);
      };
      check(item, pipeline::transfer(*item.store, item.inventory, everything(item.inventory), to, how));
    }
    print_warnings(to);
  }

  int tell() const;

 private:
  struct Item {
    ImportSummary imported;
    std::unique_ptr<Store> store;
    Inventory inventory;
  };

  static std::vector<std::size_t> everything(const Inventory& inventory) {
    std::vector<std::size_t> all(inventory.results.size());
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
    return all;
  }

  /// @throws ArtifactError when a result could not go
  static void check(const Item& item, const pipeline::TransferReport& report) {
    for (const auto& each : report.results) {
      if (!each.problem.empty())
        throw support::ArtifactError(cat(quote(item.imported.file.string()), ": ", each.task, ": ", each.problem));
    }
  }

  /// Counts the effects of a transfer without writing.
  void compare(Item& item, Store& to) {
    pipeline::TransferOptions how;
    how.dry_run = true;
    item.imported.report = pipeline::transfer(*item.store, item.inventory, everything(item.inventory), to, how);
    check(item, item.imported.report);
    for (const auto& each : item.imported.report.results) {
      ImportSummary& imported = item.imported;
      const auto result = item.store->find(each.key);
      const bool whole = result && item.store->complete(*result);
      ++(each.conflict ? imported.conflicts : each.existed ? imported.there : whole ? imported.fresh : imported.known);
    }
  }

  /// Two files of one call may disagree, too.
  void compare_with_earlier_files(Item& item) {
    for (auto& each : item.imported.report.results) {
      const auto ours = item.store->read(each.key);
      for (const auto& earlier : items_) {
        if (&earlier == &item) break;
        const auto theirs = earlier.store->read(each.key);
        if (!ours || !theirs || each.conflict || pipeline::same_contents(*ours, *theirs)) continue;
        each.conflict = true;
        each.ours = origin_of(*ours);
        each.theirs = cat(origin_of(*theirs), ", in ", quote(earlier.imported.file.string()));
        ++item.imported.conflicts;
      }
    }
  }

  const cli::CommandLine& line_;
  const fs::path store_;
  support::ScratchFolder folder_ = support::ScratchFolder::temporary("pe-import");
  Versions versions_;
  std::vector<Item> items_;
};

int Import::tell() const {
  const bool refused = conflicts();
  const char* did = refused ? "would import " : line_.dry_run ? "would import " : "imported ";
  const cli::Style style = out_style(line_);
  Json json{{"schema", "pe-import/1"},
            {"schema_version", 1},
            {"store", store_.string()},
            {"dry_run", line_.dry_run},
            {"written", !refused && !line_.dry_run},
            {"files", Json::array()}};
  std::string out;
  for (const Item& item : items_) {
    const ImportSummary& imported = item.imported;
    Json file{{"path", imported.file.string()}, {"sha256", imported.sha256}, {"results", imported.fresh},
              {"known", imported.known},        {"existed", imported.there}, {"conflicts", Json::array()},
              {"old", Json::object()}};
    for (const auto& each : imported.report.results) {
      if (!each.conflict) continue;
      file["conflicts"].push_back({{"task", each.task},
                                   {"key", each.key.key},
                                   {"step", each.key.step},
                                   {"file", each.ours},
                                   {"store", each.theirs}});
      out +=
          cat(style.bad("conflict  "), cli::harmless(each.task), "  key ", each.key.short_name(), "\n  in the file   ",
              cli::harmless(each.ours), "\n  in the store  ", cli::harmless(each.theirs), "\n");
    }
    for (const auto& [why, count] : imported.old) file["old"][why] = count;
    file["hints"] = imported.hints;
    json["files"].push_back(std::move(file));
    if (imported.conflicts > 0) {
      out += cat(quote(short_path(imported.file)), ": ", counted(imported.conflicts, "key"),
                 " with other contents; nothing was written\n");
      continue;
    }
    out += cat(did, counted(imported.fresh + imported.known, "result"), " from ", quote(short_path(imported.file)));
    if (imported.known > 0) out += cat(", ", imported.known, " of them known without their checkpoints or data");
    if (imported.there > 0) out += cat("; ", imported.there, imported.there == 1 ? " was" : " were", " there already");
    out += "\n";
    for (const auto& [why, count] : imported.old)
      out += cat(style.warn("old       "), counted(count, "result"), ": ", why, "; no task reuses them\n");
    if (!imported.hints.empty()) {
      out += cat("another CPU computed them. run --from-store uses them; other runs need\n  ",
                 cli::harmless(support::join({imported.hints.begin(), imported.hints.end()}, " ")), "\n");
    }
  }
  if (line_.json)
    print_json(json);
  else
    print(out);
  return refused ? pipeline::kRunMismatch : pipeline::kRunDone;
}

}  // namespace

int export_command(const cli::CommandLine& line) {
  const Scope scope = scope_of(line);
  const Store store = open_for_reading(scope.store);
  const Inventory inventory = pipeline::read_inventory(store);
  const std::vector<std::size_t> chosen = results_to_pack(line, scope, store, inventory);
  print_warnings(store);
  if (chosen.empty())
    throw ConfigError(cat("the store ", quote(scope.store.string()), " has none of the named results"));
  pipeline::PackOptions options;
  options.made_by = cat("pe-pipeline ", PE_VERSION);
  options.durable = line.durability != "off";
  options.root = pipeline::find_root_of_store(fs::current_path());
  if (!scope.file.empty()) {
    options.pipeline_text = support::read_file(scope.file, 16u << 20);
    const pipeline::PipelineFile file = pipeline::read_pipeline_file(scope.file);
    options.pipeline = file.name;
    options.root = file.root;
  }
  const std::string name = options.pipeline.empty() ? "results" : options.pipeline;
  const fs::path file = line.out.empty() ? fs::path(name + pipeline::kResultsEnding) : fs::path(line.out);
  require_ours(file);
  const pipeline::PackReport report = pipeline::pack_results(store, inventory, chosen, file, options);
  const std::string sha256 = support::sha256_file(file);
  if (line.json) {
    print_json({{"schema", "pe-export/1"},
                {"schema_version", 1},
                {"path", file.string()},
                {"sha256", sha256},
                {"results", report.results},
                {"known", report.known},
                {"objects", report.objects},
                {"bytes", report.bytes}});
  } else {
    print(cat("exported ", counted(report.results, "result"), " to ", quote(short_path(file)), ", ",
              support::short_bytes(static_cast<double>(report.bytes)), "; ", report.known,
              " of them without checkpoints, data or reports\nsha256 ", sha256, "\n"));
  }
  return pipeline::kRunDone;
}

int import_command(const cli::CommandLine& line) {
  const Scope scope = scope_of(line, /*may_make=*/true);
  if (scope.words.empty()) {
    throw ConfigError("no packed file is named", {"pe-pipeline import", 0, 0, "", 1},
                      "as in: pe-pipeline import grid.yml results.tar.zst");
  }
  Import files(line, scope.store);
  for (const std::string& word : scope.words) {
    if (!support::is_there(word)) throw ConfigError("there is no such file", {word, 0, 0, "", 1});
    files.look_at(word);
  }
  if (!files.conflicts() && !line.dry_run) files.write();
  return files.tell();
}

}  // namespace pe::commands

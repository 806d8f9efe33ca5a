#include <algorithm>
#include <map>
#include <set>

#include "artifact/collection.h"
#include "artifact/kind.h"
#include "cli/terminal.h"
#include "commands/capsule.h"
#include "commands/chosen.h"
#include "commands/chosen_report.h"
#include "commands/commands.h"
#include "commands/session.h"
#include "pipeline/run/exit_code.h"
#include "pipeline/upkeep/transfer.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/parse_json.h"
#include "support/text.h"
#include "support/version.h"

namespace pe::commands {

namespace {

using pipeline::InputRecord;
using pipeline::Inventory;
using pipeline::OutputRecord;
using pipeline::Record;
using pipeline::Store;
using support::cat;
using support::ConfigError;
using support::quote;

constexpr const char* kIndex = "capsule.json";

/// The records behind a result, its own first; what is in the store no more is left out.
std::vector<Record> ancestry(const Store& store, const Inventory& inventory, const Record& record) {
  std::vector<Record> all{record};
  std::set<std::string> seen{record.key.short_name()};
  for (std::size_t i = 0; i < all.size(); ++i) {
    const auto inputs = all[i].inputs;
    for (const InputRecord& input : inputs) {
      const auto [maker, output] = inventory.maker(input.digest);
      if (input.digest.empty() || !maker) continue;
      auto before = store.read(maker->key);
      if (before && seen.insert(before->key.short_name()).second) all.push_back(*std::move(before));
    }
  }
  return all;
}

Json task_json(const Record& record) {
  Json json{{"task", record.task}, {"key", record.key.key}, {"stage", record.stage}, {"version", record.version}, {"config", record.config},
            {"inputs", Json::array()}, {"outputs", Json::array()}};
  if (record.key.is_snapshot()) json["step"] = record.key.step;
  for (const InputRecord& input : record.inputs) {
    json["inputs"].push_back({{"role", input.role}, {"content", input.digest}, {"producer", input.producer}, {"labels", input.labels}});
    if (!input.missing.empty()) json["inputs"].back()["missing"] = input.missing;
  }
  for (const OutputRecord& output : record.outputs) json["outputs"].push_back({{"role", output.role}, {"kind", output.kind}, {"content", output.content}, {"bytes", output.bytes}});
  return json;
}

std::string occasion_text(const Record& record, const char* key) {
  return record.occasion.is_object() && record.occasion.contains(key) && record.occasion[key].is_string() ? record.occasion[key].get<std::string>() : "";
}

Json crate_of(const Record& report, const std::vector<Record>& behind, const std::vector<std::string>& files, bool has_pipeline) {
  Json parts = Json::array();
  for (const std::string& file : files) parts.push_back({{"@id", file}});
  Json root{{"@id", "./"}, {"@type", "Dataset"}, {"name", report.config.value("title", report.task)}, {"hasPart", parts},
            {"conformsTo", {{"@id", "https://w3id.org/ro/wfrun/process/0.5"}}}, {"mentions", {{{"@id", "#report"}}}}};
  if (const std::string ended = occasion_text(report, "ended"); !ended.empty()) root["datePublished"] = ended;
  Json graph = Json::array({{{"@id", "ro-crate-metadata.json"}, {"@type", "CreativeWork"}, {"about", {{"@id", "./"}}}, {"conformsTo", {{"@id", "https://w3id.org/ro/crate/1.1"}}}},
                            root,
                            {{"@id", "#pe-pipeline"}, {"@type", "SoftwareApplication"}, {"name", "pe-pipeline"}, {"softwareVersion", PE_VERSION}}});
  Json objects = Json::array();
  for (std::size_t i = 1; i < behind.size(); ++i) {
    const std::string id = cat("#", behind[i].key.short_name());
    graph.push_back({{"@id", id}, {"@type", "PropertyValue"}, {"name", behind[i].task}, {"value", behind[i].key.key}});
    objects.push_back({{"@id", id}});
  }
  Json action{{"@id", "#report"}, {"@type", "CreateAction"}, {"name", cat("pe-", report.stage)}, {"instrument", {{"@id", "#pe-pipeline"}}}, {"object", objects},
              {"result", {{"@id", "report/report.html"}}}};
  if (const std::string ended = occasion_text(report, "ended"); !ended.empty()) action["endTime"] = ended;
  graph.push_back(std::move(action));
  for (const std::string& file : files) {
    Json entry{{"@id", file}, {"@type", "File"}, {"name", file}};
    if (file == "pipeline.yml" && has_pipeline) entry["@type"] = Json::array({"File", "SoftwareSourceCode"});
    graph.push_back(std::move(entry));
  }
  return {{"@context", "https://w3id.org/ro/crate/1.1/context"}, {"@graph", graph}};
}

/// Every file of the capsule but its index, those of the store left to `verify`; names relative, sorted.
std::vector<std::string> files_of(const fs::path& folder) {
  std::vector<std::string> files;
  for (auto it = fs::recursive_directory_iterator(folder); it != fs::recursive_directory_iterator(); ++it) {
    const std::string name = fs::relative(it->path(), folder).generic_string();
    if (name == "store") it.disable_recursion_pending();
    if (it->is_regular_file() && name != kIndex) files.push_back(name);
  }
  std::sort(files.begin(), files.end());
  return files;
}

void put(const fs::path& file, const Json& json) { support::write_file_atomically(file, json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n", false); }

}  // namespace

bool is_capsule(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kIndex, ignored);
}

int capsule_command(const cli::CommandLine& given) {
  cli::CommandLine line = given;
  if (line.words.size() < 2) {
    throw ConfigError("a capsule of what, and where?", {"pe-pipeline capsule", 0, 0, "", 1}, "as in: pe-pipeline capsule grid.yml report grid-capsule");
  }
  const fs::path folder = fs::absolute(line.words.back());
  line.words.pop_back();
  if (fs::exists(folder) && !(fs::is_directory(folder) && fs::is_empty(folder)))
    throw ConfigError(cat(quote(folder.string()), " exists already"), {}, "name a new or empty folder");
  const Scope scope = scope_of(line);
  Store store = open_for_reading(scope.store);
  const Inventory inventory = pipeline::read_inventory(store);
  const Record report = report_of(store, inventory, chosen_results(line, scope, store, inventory));

  std::vector<std::size_t> wanted{inventory.by_key.at(pipeline::PackedKey(report.key))};
  for (const std::size_t input : inventory.made_from(inventory.results[wanted.front()])) wanted.push_back(input);
  std::sort(wanted.begin(), wanted.end());
  wanted.erase(std::unique(wanted.begin(), wanted.end()), wanted.end());
  support::make_folders(folder);
  pipeline::StoreOptions options;
  options.create = true;
  Store inner(folder / "store", options);
  const pipeline::TransferReport moved = pipeline::transfer(store, inventory, wanted, inner, {});
  print_warnings(store);
  for (const auto& each : moved.results) {
    if (!each.problem.empty() && !each.record_only) throw support::ArtifactError(cat(each.task, ": ", each.problem));
  }

  // As files of its own, not as links into a store that may go.
  const fs::path links = support::unique_sibling(fs::temp_directory_path() / "pe-capsule");
  for (const OutputRecord& output : report.outputs) {
    if (output.kind != artifact::kind_name(artifact::Kind::kReport)) continue;
    const fs::path from = store.materialise(output, links);
    fs::copy(from, folder / "report", fs::copy_options::recursive);
  }
  std::error_code ignored;
  fs::remove_all(links, ignored);

  const std::vector<Record> behind = ancestry(store, inventory, report);
  Json tasks = Json::array(), versions{{"pe-pipeline", PE_VERSION}, {"stages", Json::object()}};
  for (const Record& record : behind) {
    tasks.push_back(task_json(record));
    versions["stages"][record.stage] = record.version;
  }
  put(folder / "tasks.json", tasks);
  put(folder / "versions.json", versions);
  if (!scope.file.empty()) fs::copy_file(scope.file, folder / "pipeline.yml");
  put(folder / "ro-crate-metadata.json", crate_of(report, behind, files_of(folder), !scope.file.empty()));
  Json index{{"schema", "pe-capsule/1"}, {"schema_version", 1}, {"report", report.key.key}, {"task", report.task}, {"files", Json::array()}};
  std::uint64_t bytes = 0;
  for (const std::string& file : files_of(folder)) {
    bytes += fs::file_size(folder / file);
    index["files"].push_back({{"path", file}, {"bytes", fs::file_size(folder / file)}, {"sha256", support::sha256_file(folder / file)}});
  }
  put(folder / kIndex, index);
  if (line.json) {
    print_json({{"schema", "pe-capsule/1"}, {"schema_version", 1}, {"folder", folder.string()}, {"report", report.key.key}, {"results", wanted.size()}, {"bytes", bytes + moved.bytes}});
  } else {
    print(cat("capsule of ", report.task, " in ", short_path(folder), ": ", counted(wanted.size(), "result"), ", ", support::short_bytes(static_cast<double>(bytes + moved.bytes)),
              "; check it with: pe-pipeline verify ", short_path(folder), "\n"));
  }
  return pipeline::kRunDone;
}

int verify_capsule(const cli::CommandLine& given) {
  const fs::path folder = fs::absolute(given.words.front());
  const Json index = support::parse_json(support::read_file(folder / kIndex));
  if (!index.is_object() || index.value("schema", "") != "pe-capsule/1" || !index.contains("files"))
    throw support::ArtifactError(cat((folder / kIndex).string(), ": expected pe-capsule/1, found ", index.is_object() ? index.value("schema", "no schema") : "no JSON"));
  const cli::Style style = out_style(given);
  std::size_t bad = 0;
  Json problems = Json::array();
  const auto problem = [&](const std::string& file, const std::string& what) {
    ++bad;
    problems.push_back({{"path", file}, {"problem", what}});
    if (!given.json) print(cat(style.bad("damaged  "), cli::harmless(file), "  ", what, "\n"));
  };
  std::set<std::string> named;
  for (const Json& file : index["files"]) {
    const std::string name = file.at("path");
    named.insert(name);
    if (!artifact::valid_member_name(name))
      problem(name, "is not a valid file name in a capsule");
    else if (!fs::is_regular_file(folder / name)) problem(name, "is gone");
    else if (support::sha256_file(folder / name) != file.at("sha256")) problem(name, "has other bytes than when the capsule was made");
  }
  for (const std::string& name : files_of(folder)) {
    if (!named.count(name)) problem(name, "was not part of the capsule when it was made");
  }
  cli::CommandLine line = given;
  line.words = {index.at("report").get<std::string>()};
  line.store = (folder / "store").string();
  line.rerun = true;
  if (!given.json) print(cat(counted(named.size() - std::min(bad, named.size()), "file"), " whole; computing figures and tables again\n"));
  else if (bad > 0) print_json({{"schema", "pe-capsule-check/1"}, {"schema_version", 1}, {"problems", problems}});
  const int code = verify_command(line);
  return bad > 0 ? static_cast<int>(pipeline::kRunMismatch) : code;
}

}  // namespace pe::commands

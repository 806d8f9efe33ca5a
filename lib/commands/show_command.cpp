#include <algorithm>
#include <set>

#include "artifact/artifact_check.h"
#include "artifact/collection.h"
#include "artifact/content_digest.h"
#include "artifact/h5.h"
#include "artifact/header.h"
#include "cli/terminal.h"
#include "commands/chosen.h"
#include "commands/commands.h"
#include "commands/encodings_command.h"
#include "commands/session.h"
#include "pipeline/orchestrator.h"
#include "support/config.h"
#include "support/error.h"
#include "support/json_text.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using pipeline::Record;
using pipeline::Store;
using support::cat;
using support::ConfigError;
using support::quote;

/// A page, table or figure of a report, or any other member, stands for the collection that it belongs to.
fs::path artifact_of(const fs::path& path) {
  if (fs::is_directory(path) || path.extension() == ".h5") return path;
  for (fs::path folder = fs::absolute(path).parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    if (fs::exists(folder / artifact::kManifestName)) return folder;
  }
  return path;
}

/// The record that made some content, if the store has it.
const Record* maker_of(const std::vector<Record>& records, const std::string& content) {
  for (const Record& record : records) {
    for (const auto& output : record.outputs) {
      if (output.content == content) return &record;
    }
  }
  return nullptr;
}

Json tree_json(const std::vector<Record>& records, const Record& record, int depth) {
  Json inputs = Json::array();
  for (const auto& input : record.inputs) {
    Json json{{"role", input.role}, {"producer", input.producer}, {"digest", input.digest}};
    const Record* maker = depth > 0 && !input.digest.empty() ? maker_of(records, input.digest) : nullptr;
    if (maker) json["made_by"] = tree_json(records, *maker, depth - 1);
    inputs.push_back(std::move(json));
  }
  return {{"task", record.task}, {"key", record.key.short_name()}, {"inputs", std::move(inputs)}};
}

void print_tree(const std::vector<Record>& records, const Record& record, const std::string& indent,
                std::set<std::string>& seen, std::string& out) {
  for (const auto& input : record.inputs) {
    const Record* maker = input.digest.empty() ? nullptr : maker_of(records, input.digest);
    out += cat(indent, input.role, ": ", input.producer, "  ",
               input.digest.empty() ? cat("(", input.missing, ")") : input.digest.substr(0, 12));
    if (!maker) {
      out += input.digest.empty() ? "\n" : "  (its record is gone)\n";
      continue;
    }
    const bool again = !seen.insert(maker->key.short_name()).second;
    out += again && !maker->inputs.empty() ? "  (above)\n" : "\n";
    if (!again) print_tree(records, *maker, indent + "  ", seen, out);
  }
}

/// The record of an artifact that is at hand as a file, among all of a store's.
const Record* record_of(const std::vector<Record>& records, const artifact::Recipe& recipe,
                        const std::string& content) {
  for (const Record& record : records) {
    if (!recipe.task_key.empty() && record.key.key != recipe.task_key) continue;
    for (const auto& output : record.outputs) {
      if (output.content == content) return &record;
    }
  }
  return nullptr;
}

std::vector<Record> all_records(const Store& store) {
  std::vector<Record> records;
  for (const auto& key : store.keys()) {
    if (auto record = store.read(key, true)) records.push_back(*std::move(record));
  }
  return records;
}

/// An artifact that is at hand as a file or folder.
struct ArtifactFile {
  fs::path path;
  std::string kind, digest;
  artifact::Recipe recipe;
  std::vector<artifact::Member> members;
};

ArtifactFile read_artifact(const fs::path& path) {
  ArtifactFile read{path, {}, {}, {}, {}};
  if (fs::is_directory(path) || path.filename() == artifact::kManifestName) {
    const artifact::Manifest manifest = artifact::Manifest::read(path);
    read.recipe = manifest.recipe;
    read.kind = artifact::kind_name(manifest.kind);
    read.members = manifest.members;
  } else {
    const artifact::h5::File file = artifact::h5::File::open(path);
    read.kind = artifact::kind_name(artifact::read_header(file).kind);
    read.recipe = artifact::read_recipe(file);
  }
  read.digest = artifact::artifact_content_digest(path);
  return read;
}

Json file_json(const ArtifactFile& file) {
  Json json{{"schema", "pe-show/1"},         {"schema_version", 1},
            {"path", file.path.string()},    {"kind", file.kind},
            {"content_digest", file.digest}, {"made_by", artifact::recipe_to_json(file.recipe)}};
  if (!file.members.empty()) {
    json["members"] = Json::array();
    for (const auto& member : file.members) {
      json["members"].push_back(
          {{"name", member.name}, {"bytes", member.bytes}, {"content_digest", member.content_digest}});
    }
  }
  return json;
}

/// Adds the leaves of a config, a line each.
void print_config(const Json& node, const std::string& prefix, std::string& out) {
  for (const auto& [name, value] : node.items()) {
    const std::string path = prefix.empty() ? name : prefix + "." + name;
    if (value.is_object() && !value.contains("kind") && !value.contains("stack"))
      print_config(value, path, out);
    else
      out += cat("    ", path, ": ", support::display(value), "\n");
  }
}

std::string file_text(const ArtifactFile& file) {
  const artifact::Recipe& recipe = file.recipe;
  std::string out = cat("  kind      ", file.kind, "\n  content   ", file.digest, "\n");
  out += cat("  made by   pe-", recipe.stage, ", result version ", recipe.version, "\n");
  out += cat("  task key  ", recipe.task_key.empty() ? "none: a person ran the stage" : recipe.task_key, "\n");
  if (!file.members.empty()) out += cat("  members   ", file.members.size(), "\n");
  if (recipe.inputs.is_object()) {
    for (const auto& [role, digests] : recipe.inputs.items()) {
      for (const Json& each : digests)
        out += cat("  input     ", role, "  ", each.is_string() ? each.get<std::string>() : each.dump(), "\n");
    }
  }
  out += "  config\n";
  if (recipe.config.is_object()) print_config(recipe.config, "", out);
  return out;
}

/// The tree and the preimage of a record, where the command line asks for them.
std::string extras_text(const cli::CommandLine& line, const std::vector<Record>& records, const Record& record) {
  std::string out;
  if (line.tree) {
    std::set<std::string> seen;
    out += "  made from\n";
    print_tree(records, record, "    ", seen, out);
  }
  if (line.preimage) out += cat("  preimage\n", support::json_text(record.preimage, 2), "\n");
  return out;
}

/// Shows an artifact without any store, which only --tree and --preimage need.
int show_file(const cli::CommandLine& line, const fs::path& path) {
  const ArtifactFile file = read_artifact(path);
  std::vector<Record> records;
  const Record* record = nullptr;
  if (line.tree || line.preimage) {
    const Store store = open_for_reading(store_path(line, pipeline::find_root_of_store(fs::current_path())));
    records = all_records(store);
    record = record_of(records, file.recipe, file.digest);
    if (!record)
      say("pe-pipeline: the store has no record of this file, so what it was made from is not known (--store names "
          "another)\n");
  }
  if (line.json) {
    Json json = file_json(file);
    if (record && line.preimage) json["preimage"] = record->preimage;
    if (record && line.tree) json["tree"] = tree_json(records, *record, 16);
    print_json(json);
    return pipeline::kRunDone;
  }
  const std::string title = out_style(line).bold(cli::harmless(path.string())) + "\n";
  std::string out = file_text(file);
  if (record) out += extras_text(line, records, *record);
  print(title + cli::harmless(out));
  return pipeline::kRunDone;
}

/// A record may come from an imported file, so its texts are made harmless.
std::string record_text(const Record& record, const Store& store, const cli::Style& style) {
  std::string out = cat(style.bold(cli::harmless(record.task)),
                        record.key.is_snapshot() ? cat(" at step ", record.key.step) : "", "\n");
  const auto add = [&](const auto&... parts) { out += cli::harmless(cat(parts...)); };
  add("  key       ", record.key.key, "\n  plan key  ", record.plan_key, "\n");
  add("  stage     pe-", record.stage, ", result version ", record.version, "\n  status    ",
      status_name(record.status), "\n");
  for (const auto& output : record.outputs) {
    add("  output    ", output.role, "  ", output.kind, "  ", support::short_bytes(static_cast<double>(output.bytes)),
        "  content ", output.content.substr(0, 12), output.is_volatile ? "  measured" : "");
    if (!store.has_object(output.object))
      out += output.absent ? style.warn("  known, not here") : style.bad("  its object is gone");
    add("\n            ", store.object_path(output.object).string(), "\n");
  }
  for (const auto& input : record.inputs) {
    add("  input     ", input.role, "  ", input.producer, "  ",
        input.digest.empty() ? cat("missing: ", input.missing) : input.digest.substr(0, 12), "\n");
  }
  if (record.occasion.is_object() && record.occasion.contains("imported")) add("  origin    ", origin_of(record), "\n");
  for (const char* name : {"pipeline", "run", "host", "started", "ended", "wall_s", "attempts", "build_id", "program",
                           "libtorch", "device", "executable", "work", "inherited_from"}) {
    if (!record.occasion.is_object() || !record.occasion.contains(name)) continue;
    const Json& value = record.occasion[name];
    const std::size_t width = std::min<std::size_t>(10, std::string_view(name).size());
    add("  ", name, std::string(std::max<std::size_t>(1, 10 - width), ' '),
        value.is_string() ? value.get<std::string>() : value.dump(), "\n");
  }
  return out;
}

/// Records that a key or a task's id names, the newest first: an id may have had several results.
struct FoundRecords {
  std::vector<Record> found;
  std::vector<Record> records;   ///< all of the store, for a tree
  std::set<std::string> ids;     ///< of all records, for suggestions
  bool by_id = false;            ///< the word is no key
};

void newest_first(std::vector<Record>& records) {
  std::stable_sort(records.begin(), records.end(), [](const Record& a, const Record& b) {
    const auto ended = [](const Record& record) {
      return record.occasion.is_object() ? record.occasion.value("ended", "") : "";
    };
    return ended(a) > ended(b);
  });
}

/// By a selection, as for `diff` and `pin`: part of an id. None where the word is no selection.
std::vector<Record> selected_records(const std::vector<Record>& records, const std::string& word) try {
  std::vector<Record> found;
  std::copy_if(records.begin(), records.end(), std::back_inserter(found), [&](const Record& record) {
    const auto name = pipeline::parse_task_id(record.task);
    return name && pipeline::matches(*name, word);
  });
  return found;
} catch (const ConfigError&) {
  return {};
}

FoundRecords find_records(const Store& store, const std::string& word, bool with_all) {
  FoundRecords of;
  auto& [found, records, ids, by_id] = of;
  const std::vector<pipeline::ResultKey> keys = store.matching(word);
  by_id = keys.empty();
  for (const auto& key : keys) {
    if (auto record = store.read(key, true)) found.push_back(*std::move(record));
  }
  if (found.empty() || with_all) {
    for (const auto& key : store.keys()) {
      auto record = store.read(key, true);
      if (!record) continue;
      ids.insert(record->task);
      if (keys.empty() && (record->task == word || cat(record->task, "@", record->key.step) == word))
        found.push_back(*record);
      records.push_back(*std::move(record));
    }
  }
  if (found.empty() && keys.empty()) found = selected_records(records, word);
  newest_first(found);
  return of;
}

/// Drops records of other pipelines than the file's.
std::vector<Record> records_of_pipeline(const cli::CommandLine& line, const Store& store, const std::string& id,
                                        const std::vector<Record>& found) {
  const pipeline::Inventory inventory = pipeline::read_inventory(store);
  std::vector<std::size_t> named;
  for (const Record& record : found) {
    if (const auto at = inventory.by_key.find(pipeline::PackedKey(record.key)); at != inventory.by_key.end())
      named.push_back(at->second);
  }
  std::vector<Record> kept;
  for (const std::size_t i : results_of_pipeline(line, {line.file, store.root(), {}}, store, inventory, named, id)) {
    if (auto record = store.read(inventory.results[i].key, true)) kept.push_back(*std::move(record));
  }
  newest_first(kept);
  return kept;
}

int show_records(const cli::CommandLine& line, const Store& store, const FoundRecords& of) {
  const auto& [found, records, ids, by_id] = of;
  if (line.json) {
    Json list = Json::array();
    for (const Record& record : found) {
      Json json = to_json(record);
      if (!line.preimage) json.erase("preimage");
      if (line.tree) json["tree"] = tree_json(records, record, 16);
      list.push_back(std::move(json));
    }
    print_json({{"schema", "pe-show/1"}, {"schema_version", 1}, {"records", std::move(list)}});
    return pipeline::kRunDone;
  }
  const cli::Style style = out_style(line);
  constexpr std::size_t kMost = 5;
  for (std::size_t i = 0; i < found.size() && i < kMost; ++i) {
    print(record_text(found[i], store, style) + cli::harmless(extras_text(line, records, found[i])));
  }
  if (found.size() > kMost)
    print(cat("and ", counted(found.size() - kMost, "more record"), "; give more digits, or --json\n"));
  return pipeline::kRunDone;
}

}  // namespace

int show_command(const cli::CommandLine& given) {
  cli::CommandLine line = given;
  if (line.words.empty()) {
    throw ConfigError("nothing to show is named", {"pe-pipeline show", 0, 0, "", 1},
                      "a key, the path of an artifact, a task's id, or: encoding NAME");
  }
  if (line.words.front() == "encoding" && !fs::exists("encoding")) {
    if (line.words.size() != 2) {
      throw ConfigError("which encoding?", {"pe-pipeline show encoding", 0, 0, "", 1},
                        "one name; `pe-pipeline list encodings` has them all");
    }
    for (const auto& [flag, used] : {std::pair<const char*, bool>{"--tree", line.tree},
                                     {"--preimage", line.preimage},
                                     {"--store", !line.store.empty()}}) {
      if (used)
        throw ConfigError(cat("'pe-pipeline show encoding' takes no ", flag), {flag, 0, 0, "", 1}, "it is for results");
    }
    return show_encoding(line, line.words.back());
  }
  fs::path store_folder;
  if (line.words.size() > 1) store_folder = store_path_for(line);
  if (line.words.size() != 1) throw ConfigError("expected one key, path or id", {"pe-pipeline show", 0, 0, "", 1});
  const std::string word = line.words.front();
  if (names_a_path(word, line.file)) return show_file(line, artifact_of(word));
  if (store_folder.empty()) store_folder = store_path(line, pipeline::find_root_of_store(fs::current_path()));
  const Store store = open_for_reading(store_folder);
  FoundRecords of = find_records(store, word, line.tree);
  print_warnings(store);  // of damaged records
  if (of.found.empty() && fs::exists(word)) return show_file(line, artifact_of(word));
  if (of.found.empty()) {
    throw ConfigError(
        cat("no artifact, record or file is called ", quote(word), " (store ", store_folder.string(), ")"), {},
        support::suggestion(word, {of.ids.begin(), of.ids.end()}));
  }
  if (of.by_id && !line.file.empty()) of.found = records_of_pipeline(line, store, word, of.found);
  return show_records(line, store, of);
}

}  // namespace pe::commands

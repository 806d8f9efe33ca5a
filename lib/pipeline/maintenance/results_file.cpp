#include "pipeline/maintenance/results_file.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <set>

#include "artifact/collection.h"
#include "artifact/kind.h"
#include "pipeline/maintenance/verify.h"
#include "pipeline/plan/key.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/json_fields.h"
#include "support/json_text.h"
#include "support/parse_json.h"
#include "support/sha256_text.h"
#include "support/text.h"

namespace pe::pipeline {

using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr const char* kSchema = "pe-results/1";
constexpr const char* kIndex = "results.json";
constexpr const char* kPipeline = "pipeline.yml";

std::string record_name(const ResultKey& key) {
  return cat("records/", key.key, key.is_snapshot() ? cat("-", key.step) : "", ".json");
}
std::string object_name(const std::string& digest) { return cat("objects/", digest); }

Json file_json(std::string_view bytes) { return {{"sha256", support::sha256_hex(bytes)}, {"bytes", bytes.size()}}; }

/// An occasion without paths of this machine and without the way by which the result came here.
Json told_occasion(const Json& occasion) {
  Json told = Json::object();
  if (!occasion.is_object()) return told;
  static const std::set<std::string> kHere{"work", "paths", "kept_at", "imported", "confirms"};
  for (const auto& [name, value] : occasion.items()) {
    if (kHere.count(name) == 0) told[name] = value;
  }
  if (const std::string program = support::text_in(told, "executable"); !program.empty())
    told["executable"] = fs::path(program).filename().string();
  return told;
}

/// A path below `root` as relative to it; the name of any other. Paths of imported records are relative already.
std::string told_path(const fs::path& path, const fs::path& root) {
  if (path.is_relative()) return path.string();
  const fs::path relative = root.empty() ? fs::path() : path.lexically_relative(root);
  if (!relative.empty() && *relative.begin() != "..") return relative.string();
  return (path.has_filename() ? path : path.parent_path()).filename().string();  // of a folder, "texts/" has none
}

}  // namespace

bool travels(std::string_view kind) {
  return kind == artifact::kind_name(artifact::Kind::kEvalTable) ||
         kind == artifact::kind_name(artifact::Kind::kMetrics);
}

PackReport pack_results(const Store& from, const Inventory& inventory, const std::vector<std::size_t>& chosen,
                        const fs::path& file, const PackOptions& options) {
  PackReport report;
  std::set<std::size_t> all = inventory.behind(chosen);
  all.insert(chosen.begin(), chosen.end());
  Json index{{"schema", kSchema},          {"schema_version", 1},
             {"made_by", options.made_by}, {"pipeline", options.pipeline},
             {"results", Json::array()},   {"objects", Json::array()}};
  std::vector<std::pair<std::string, std::string>> records;
  std::map<std::string, std::uint64_t> objects;
  for (const std::size_t i : all) {
    auto record = from.read(inventory.results[i].key, true);
    if (!record) continue;  // dropped meanwhile
    Result result = to_result(*record);
    for (OutputRecord& output : result.outputs) output.absent = output.absent || !travels(output.kind);
    if (from.presence(result, true) == Presence::kGone) {
      throw ArtifactError(cat("an object of ", inventory.results[i].name(), " is gone from the store"),
                          "the next run of its pipeline makes it again");
    }
    bool whole = true;
    for (OutputRecord& output : result.outputs) {
      output.absent = output.absent || !travels(output.kind);
      whole = whole && !output.absent;
      if (!output.absent) objects[output.object] = output.bytes;
    }
    record->outputs = result.outputs;
    record->occasion = told_occasion(record->occasion);
    change_paths(*record, [&](const std::string& path) { return told_path(path, options.root); });
    records.emplace_back(record_name(record->key), record_text(*record));
    Json item = file_json(records.back().second);
    item.update({{"key", record->key.key},
                 {"step", record->key.step},
                 {"task", record->task},
                 {"stage", record->stage},
                 {"version", record->version}});
    index["results"].push_back(std::move(item));
    ++report.results;
    report.known += !whole;
  }
  for (const auto& [digest, bytes] : objects) index["objects"].push_back({{"sha256", digest}, {"bytes", bytes}});
  if (!options.pipeline_text.empty()) index["pipeline_file"] = file_json(options.pipeline_text);
  report.objects = objects.size();

  ArchiveWriter archive(file);
  archive.add(kIndex, support::json_text(index, 1) + "\n");
  if (!options.pipeline_text.empty()) archive.add(kPipeline, options.pipeline_text);
  for (const auto& [name, text] : records) archive.add(name, text);
  for (const auto& [digest, bytes] : objects)
    archive.add_object(object_name(digest), from.object_path(digest), digest, bytes);
  report.bytes = archive.close(options.durable);
  return report;
}

// ---- unpacking
// --------------------------------------------------------------------------------------------------------

namespace {

/// One member as the list gives it.
struct ListEntry {
  std::string sha256;
  std::uint64_t bytes = 0;
  ResultKey key;
  std::string stage;
  std::int64_t version = 0;
};

class Unpacking {
 public:
  Unpacking(const fs::path& file, Store& into) : file_(file), archive_(file), into_(into) {}

  UnpackReport unpack() {
    read_index();
    if (!report_.pipeline_text.empty()) report_.pipeline_text = take_text(kPipeline, pipeline_);
    std::vector<Record> records;
    for (const ListEntry& listed : records_) records.push_back(take_record(listed));
    for (const ListEntry& listed : objects_) take_object(listed);
    if (archive_.next()) fail("it has members that its list does not name");
    Verifier verifier(into_);
    for (const Record& record : records) {
      const std::vector<Problem> problems = verifier.check(record);
      if (!problems.empty()) fail(cat(record.task, ": ", problems.front().text));
      into_.commit(record);
      report_.keys.push_back(record.key);
    }
    return std::move(report_);
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw ArtifactError(cat(quote(file_.string()), " is no whole file of results: ", why),
                        "get it again; `pe-pipeline export` writes such files");
  }

  static std::optional<ListEntry> listed_of(const Json& item) {
    ListEntry listed;
    listed.sha256 = support::text_in(item, "sha256");
    const auto bytes = support::field_or(item, "bytes", std::int64_t{-1});
    if (!support::is_sha256(listed.sha256) || bytes < 0) return std::nullopt;
    listed.bytes = static_cast<std::uint64_t>(bytes);
    return listed;
  }

  void read_index() {
    const auto first = archive_.next();
    if (!first || first->name != kIndex) fail(cat("expected ", quote(kIndex), " first"));
    const Json index = support::parse_json(archive_.text());
    const std::string schema = support::text_in(index, "schema");
    if (schema != kSchema) {
      throw ArtifactError(cat(quote(file_.string()), ": schema is ", quote(schema), ", expected ", quote(kSchema)),
                          "another version of pe-pipeline wrote it");
    }
    report_.pipeline = support::text_in(index, "pipeline");
    const auto results = index.find("results"), objects = index.find("objects");
    if (results == index.end() || !results->is_array() || objects == index.end() || !objects->is_array())
      fail("its list has no 'results' or no 'objects'");
    std::set<ResultKey> keys;
    for (const Json& item : *results) {
      auto listed = listed_of(item);
      if (!listed) fail("its list of results is damaged");
      listed->key = {support::text_in(item, "key"), support::field_or(item, "step", std::int64_t{-1})};
      listed->stage = support::text_in(item, "stage");
      listed->version = support::field_or(item, "version", std::int64_t{-1});
      if (!support::is_sha256(listed->key.key) || listed->key.step < -1) fail("its list of results is damaged");
      if (!keys.insert(listed->key).second) fail(cat("it lists ", listed->key.short_name(), " twice"));
      records_.push_back(*std::move(listed));
    }
    for (const Json& item : *objects) {
      auto listed = listed_of(item);
      if (!listed) fail("its list of objects is damaged");
      if (!named_.emplace(listed->sha256, listed->bytes).second)
        fail(cat("it lists object ", listed->sha256.substr(0, 12), " twice"));
      objects_.push_back(*std::move(listed));
    }
    if (const auto pipeline = index.find("pipeline_file"); pipeline != index.end()) {
      const auto listed = listed_of(*pipeline);
      if (!listed) fail("its list is damaged");
      pipeline_ = *listed;
      report_.pipeline_text = "listed";
    }
  }

  void expect(const std::string& name, const ListEntry& listed) {
    const auto member = archive_.next();
    if (!member || member->name != name)
      fail(cat("expected member ", quote(name), ", found ", member ? quote(member->name) : "its end"));
    if (member->bytes != listed.bytes)
      fail(cat(quote(name), " has ", member->bytes, " bytes, and its list says ", listed.bytes));
  }

  std::string take_text(const std::string& name, const ListEntry& listed) {
    expect(name, listed);
    std::string text = archive_.text();
    if (support::sha256_hex(text) != listed.sha256) fail(cat(quote(name), " has other bytes than its list says"));
    return text;
  }

  Record take_record(const ListEntry& listed) {
    const std::string name = record_name(listed.key);
    Record record = record_from_text(take_text(name, listed), cat(file_.string(), ": ", name));
    if (record.key != listed.key || record.stage != listed.stage || record.version != listed.version)
      fail(cat(quote(name), " is the record of another result than its list says"));
    if (!record.plan_key.empty() && !support::is_sha256(record.plan_key))
      fail(cat(quote(name), ": 'plan_key' is no digest"));
    if (!has_sound_inputs(record.preimage))
      fail(cat(quote(name), ": 'inputs' of its preimage are no lists of objects with a text 'digest' by role"));
    for (const OutputRecord& output : record.outputs) check_output(name, output);
    record.occasion = told_occasion(record.occasion);
    return record;
  }

  /// As `input_roles` writes them: explanations read them later.
  static bool has_sound_inputs(const Json& preimage) {
    const Json roles = preimage.is_object() ? preimage.value("inputs", Json::object()) : Json();
    const auto has_digest = [](const Json& input) {
      return input.is_object() && input.contains("digest") && input["digest"].is_string();
    };
    return roles.is_object() && std::all_of(roles.begin(), roles.end(), [&](const Json& inputs) {
             return inputs.is_array() && std::all_of(inputs.begin(), inputs.end(), has_digest);
           });
  }

  void check_output(const std::string& name, const OutputRecord& output) const {
    const auto kind = artifact::find_kind(output.kind);
    if (!kind) fail(cat(quote(name), " has an output of the unknown kind ", quote(output.kind)));
    if (artifact::is_collection(*kind) != output.collection)
      fail(cat(quote(name), ": ", output.kind, " is a collection or not"));
    if (!artifact::valid_member_name(output.role) || output.role.find('/') != std::string::npos)
      fail(cat(quote(name), " has an output with the name ", quote(output.role)));
    if (output.absent) return;
    std::vector<std::string> digests = output.members;
    digests.push_back(output.object);
    for (const std::string& digest : digests) {
      if (named_.count(digest) == 0)
        fail(cat(quote(name), " names object ", digest.substr(0, 12), ", which is not in it"));
    }
    if (output.object_bytes() && named_.at(output.object) != *output.object_bytes())
      fail(cat(quote(name), " gives object ", output.object.substr(0, 12), " another size than the list"));
  }

  void take_object(const ListEntry& listed) {
    expect(object_name(listed.sha256), listed);
    const fs::path at = into_.root() / "unpacked";
    {
      std::ofstream out(at, std::ios::binary | std::ios::trunc);
      archive_.each_block(
          [&](std::string_view block) { out.write(block.data(), static_cast<std::streamsize>(block.size())); });
      out.close();
      if (!out) throw support::IoError(cat("cannot write ", quote(at.string())));
    }
    try {
      into_.import_object(at, listed.sha256);
    } catch (const ArtifactError&) {
      fail(cat("object ", listed.sha256.substr(0, 12), " has other bytes than its name says"));
    }
    std::error_code ignored;
    fs::remove(at, ignored);
  }

  const fs::path file_;
  ArchiveReader archive_;
  Store& into_;
  UnpackReport report_;
  ListEntry pipeline_;
  std::vector<ListEntry> records_, objects_;
  std::map<std::string, std::uint64_t> named_;
};

}  // namespace

UnpackReport unpack_results(const fs::path& file, Store& into) { return Unpacking(file, into).unpack(); }

}  // namespace pe::pipeline

#include "pipeline/maintenance/verify.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>

#include "artifact/artifact_check.h"
#include "artifact/collection.h"
#include "artifact/content_digest.h"
#include "artifact/finish_collection.h"
#include "artifact/header.h"
#include "pipeline/file/config_value.h"
#include "pipeline/file/pipeline_file.h"
#include "pipeline/plan/externals.h"
#include "pipeline/plan/key.h"
#include "pipeline/run/local_runner.h"
#include "pipeline/run/stage_log.h"
#include "pipeline/run/task_file_writer.h"
#include "support/error.h"
#include "support/file_stamp.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/json_fields.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::quote;

namespace {

std::string message_of(const support::Error& error) { return error.diagnostics().front().message; }

/// Whether it tells of the bytes: the medium does not give them any more, or a folder has the file's name. No right to
/// read them, or a server that does not answer, says nothing.
bool tells_of_bytes(const support::IoError& error, const Store& store) {
  return error.system_error() == 0 || (error.system_error() == EIO && !support::is_on_network(store.root()));
}

}  // namespace

void change_paths(Record& record, const std::function<std::string(const std::string& path)>& change) {
  const auto externals = record.preimage.find("externals");
  if (externals == record.preimage.end() || !externals->is_object()) return;
  const auto change_text = [&](Json& value) {
    if (value.is_string() && !value.get_ref<const std::string&>().empty()) value = change(value.get<std::string>());
  };
  for (const auto& [field, _] : externals->items()) {
    Json* value = find_value(record.config, field);
    if (!value) continue;
    if (value->is_array()) std::for_each(value->begin(), value->end(), change_text);
    change_text(*value);
  }
}

std::string_view what_name(Problem::What what) {
  switch (what) {
    case Problem::What::kMissing:
      return "missing";
    case Problem::What::kDamaged:
      return "damaged";
    case Problem::What::kContent:
      return "content";
    case Problem::What::kRecord:
      return "record";
  }
  return "";
}

std::string Verifier::look_at(const std::string& digest, Problem::What* what) {
  const auto known = seen_.find(digest);
  if (known != seen_.end()) {
    *what = known->second.first;
    return known->second.second;
  }
  std::string text;
  *what = Problem::What::kDamaged;
  const fs::path path = store_.object_path(digest);
  if (!store_.has_object(digest)) {
    *what = Problem::What::kMissing;
    text = cat("object ", digest.substr(0, 12), " is gone");
  } else {
    try {
      const std::string found = support::sha256_file(path);
      std::error_code ignored;
      const auto size = fs::file_size(path, ignored);
      if (!ignored) bytes_ += size;
      if (found != digest)
        text = cat("object ", digest.substr(0, 12), " holds other bytes (", found.substr(0, 12), "): ", path.string());
    } catch (const support::IoError& error) {
      if (!tells_of_bytes(error, store_)) throw;
      text = message_of(error);
    }
  }
  seen_[digest] = {*what, text};
  return text;
}

void Verifier::check_output(const Record& record, const OutputRecord& output, std::vector<Problem>& problems) {
  bool whole = true;
  const auto look = [&](const std::string& digest) {
    Problem::What what = Problem::What::kMissing;
    const std::string text = look_at(digest, &what);
    if (text.empty()) return;
    whole = false;
    problems.push_back({what, output.role, digest, text});
  };
  look(output.object);
  for (const std::string& member : output.members) look(member);
  if (!whole) return;
  const fs::path path = store_.object_path(output.object);
  const auto wrong = [&](const std::string& text) {
    problems.push_back({Problem::What::kContent, output.role, output.object, text});
  };
  try {
    std::string content;
    artifact::Recipe recipe;
    if (output.collection) {
      const artifact::Manifest manifest = artifact::Manifest::parse(support::read_file(path), path.string());
      content = manifest.content_digest();
      recipe = manifest.recipe;
      std::vector<std::string> members;
      for (const artifact::Member& member : manifest.members) members.push_back(member.file_digest);
      if (members != output.members) wrong("its manifest names other members than the record");
      if (artifact::kind_name(manifest.kind) != output.kind)
        wrong(cat("is of kind ", artifact::kind_name(manifest.kind), ", and the record says ", output.kind));
    } else {
      content = artifact::content_digest(path);
      if (artifact::h5::looks_like_hdf5(path)) {
        const artifact::h5::File file = artifact::h5::File::open(path);
        const std::string kind(artifact::kind_name(artifact::read_header(file).kind));
        if (kind != output.kind) wrong(cat("is of kind ", kind, ", and the record says ", output.kind));
        recipe = artifact::read_recipe(file);
      }
    }
    if (content != output.content)
      wrong(cat("has content ", content.substr(0, 12), ", and the record says ", output.content.substr(0, 12)));
    if (!recipe.task_key.empty() && recipe.task_key != record.key.key)
      wrong(cat("says of itself that it was made for key ", recipe.task_key.substr(0, 12)));
  } catch (const support::IoError& error) {
    if (!tells_of_bytes(error, store_)) throw;
    wrong(message_of(error));
  } catch (const support::Error& error) {
    wrong(message_of(error));
  }
}

std::vector<Problem> Verifier::check(const Record& record) {
  std::vector<Problem> problems;
  try {
    if (task_key_of(record.preimage) != record.key.key) {
      problems.push_back({Problem::What::kRecord, "", "", "the record's preimage does not give its key"});
    }
  } catch (const support::Error& error) {
    problems.push_back(
        {Problem::What::kRecord, "", "", cat("the record's preimage cannot be hashed: ", message_of(error))});
  }
  for (const OutputRecord& output : record.outputs) {
    if (!output.absent || store_.has_object(output.object)) check_output(record, output, problems);
  }
  return problems;
}

std::vector<std::string> absent_roles(const Store& store, const std::vector<OutputRecord>& outputs) {
  std::vector<std::string> roles;
  for (const OutputRecord& output : outputs) {
    if (output.absent && !store.has_object(output.object)) roles.push_back(output.role);
  }
  return roles;
}

void set_aside(Store& store, const Record& record, const std::vector<Problem>& problems) {
  bool whole_record = true;
  for (const Problem& problem : problems) {
    if (problem.what == Problem::What::kDamaged) store.discard_object(problem.object);
    if (problem.what == Problem::What::kRecord || problem.what == Problem::What::kContent) whole_record = false;
  }
  if (!whole_record) store.forget(record.key);
}

// ---- running again --------------------------------------------------------------------------------------------------

std::string_view outcome_name(RerunResult::Outcome outcome) {
  switch (outcome) {
    case RerunResult::Outcome::kSame:
      return "same";
    case RerunResult::Outcome::kDiffers:
      return "differs";
    case RerunResult::Outcome::kFailed:
      return "failed";
    case RerunResult::Outcome::kCannot:
      return "cannot";
  }
  return "";
}

namespace {

/// Reason why a task cannot be run in its old form; thrown here, reported there.
struct Cannot {
  std::string why;
};

std::shared_ptr<const StageDescription> stage_of(StageCatalog& catalog, const Record& record) {
  std::string run = cat("pe-", record.stage);
  if (record.occasion.is_object() && record.occasion.contains("executable") &&
      record.occasion["executable"].is_string()) {
    const std::string executable = record.occasion["executable"];
    std::error_code ignored;
    run = fs::is_regular_file(executable, ignored) ? executable : fs::path(executable).filename().string();
  }
  std::shared_ptr<const StageDescription> stage;
  try {
    stage = catalog.find(run, fs::current_path(), {});
  } catch (const support::Error& error) {
    throw Cannot{message_of(error)};
  }
  if (stage->name != record.stage) throw Cannot{cat(run, " is now the stage ", quote(stage->name))};
  if (stage->version != record.version) {
    throw Cannot{
        cat(run, " has result version ", stage->version, " now; the result was made by version ", record.version)};
  }
  if (record.preimage.is_object() && record.preimage.contains("config")) {
    for (const auto& [name, number] : revisions_of(*stage, record.preimage["config"])) {
      const Json* made_by = find_value(record.preimage["config"], name);
      if (!made_by || *made_by != number) {
        throw Cannot{cat(run, " has revision ", number, " of ", name, " now; the result was made by ",
                         made_by ? cat("revision ", made_by->dump()) : std::string("an earlier one"))};
      }
    }
  }
  return stage;
}

std::vector<std::string> paths_named(const Record& record, const std::string& field) {
  const Json* value = find_value(record.config, field);
  if (!value) throw Cannot{cat("its config has no ", quote(field))};
  std::vector<std::string> paths;
  if (value->is_string()) paths.push_back(*value);
  if (value->is_array()) {
    for (const Json& each : *value) {
      if (each.is_string()) paths.push_back(each);
    }
  }
  return paths;
}

/// Files that the config names must have the contents that the key names. They are listed in the task file.
void add_files(const Record& record, TaskFileWriter& file) {
  if (!record.preimage.is_object() || !record.preimage.contains("externals")) return;
  for (const auto& [field, files] : record.preimage["externals"].items()) {
    const ListedGroups listed = list_groups(paths_named(record, field));
    if (!listed.missing.empty()) throw Cannot{cat("its input file ", quote(listed.missing), " is gone")};
    std::vector<ExternalContent::Files> now;
    std::vector<std::string> told;
    for (const ListedGroups::Files& group : listed.groups) {
      now.emplace_back();
      for (const auto& [name, path] : group) {
        now.back().emplace_back(name, support::sha256_file(path));
        told.push_back(path.string());
      }
    }
    if (keyed_files(now) != files) throw Cannot{cat("the files that ", quote(field), " names have changed since")};
    file.name_files(field, told);
  }
}

/// An input was made again with another content, or was not made.
struct InputFailure {
  RerunResult rerun;
};

/// Where runs happen.
struct Workshop {
  const Store& store;
  const Inventory& inventory;
  StageCatalog& catalog;
  Runner& runner;
  const RerunOptions& options;
};

/// The output that holds what an input reads, made again; null when it cannot be.
const OutputRecord* remake(const Workshop& shop, const InputRecord& input, const StoredResult& maker,
                           std::size_t& made) {
  RemadeInputs* remade = shop.options.remade;
  if (!remade) return nullptr;
  if (const OutputRecord* output = remade->find(input.digest)) return output;
  std::vector<Record> records;  // with earlier snapshots of the training, which others may read
  for (const StoredResult& result : shop.inventory.results) {
    if (result.key.key != maker.key.key || result.key.step > maker.key.step) continue;
    if (auto record = shop.store.read(result.key, true)) records.push_back(*std::move(record));
  }
  if (records.empty()) return nullptr;
  RerunResult rerun = run_again(shop.store, shop.inventory, shop.catalog, shop.runner, records, shop.options);
  made += rerun.inputs_made + 1;
  if (rerun.outcome == RerunResult::Outcome::kCannot)
    throw Cannot{cat("its input ", quote(input.role), " (", input.producer, ") is not here, and ", rerun.why)};
  const OutputRecord* output = remade->find(input.digest);
  if (rerun.outcome == RerunResult::Outcome::kSame && output) return output;
  if (rerun.why.empty()) rerun.why = "its contents are others";
  rerun.why = cat("its input ", quote(input.role), " (", input.producer, ") was made again: ", rerun.why);
  throw InputFailure{std::move(rerun)};
}

void add_inputs(const Workshop& shop, const Record& record, TaskFileWriter& file, std::size_t& made) {
  for (const InputRecord& input : record.inputs) {
    if (!input.missing.empty()) {
      file.add_missing(input);
      continue;
    }
    const auto [maker, output] = shop.inventory.maker(input.digest);
    Result one;
    if (output) one.outputs.push_back(*output);
    const bool here = maker && shop.store.complete(one);
    if (maker && !here && output->absent) {
      if (const OutputRecord* again = remake(shop, input, *maker, made)) {
        file.add_input(shop.options.remade->store(), input.role, *again, maker->status, input.labels);
        continue;
      }
    }
    if (!here) {
      throw Cannot{cat("its input ", quote(input.role), " (", input.producer, ", content ", input.digest.substr(0, 12),
                       ") is not in the store any more")};
    }
    file.add_input(shop.store, input.role, *output, maker->status, input.labels);
  }
}

std::int64_t cpus_of(const Record& record) { return support::field_or(record.occasion, "cpus", std::int64_t{1}); }

double wall_s_of(const Record& record) { return support::field_or(record.occasion, "wall_s", 0.0); }

/// Starts a stage and waits for its exit; asks it to stop, and kills it after the grace, when the user wants that or
/// its time is over. `why` says then which.
RunnerEvent run_to_its_end(Runner& runner, const Launch& launch, const RerunOptions& options, double limit_s,
                           std::string& why) {
  limit_s = std::max(limit_s, options.patience_s);
  runner.start(launch);
  const double began = runner.now();
  double asked = -1;
  while (true) {
    for (const RunnerEvent& event : runner.wait(0.25)) {
      if (event.kind == RunnerEvent::Kind::kExit && event.ticket == launch.ticket) return event;
    }
    cut_stage_log(launch.log);
    const double now = runner.now();
    const int level = options.stop ? options.stop() : 0;
    if (asked < 0 && (level > 0 || now - began > limit_s)) {
      asked = now;
      why = level > 0 ? std::string("it was interrupted")
                      : cat("it was stopped after ", support::short_duration(limit_s), ", far more than it took then");
      runner.signal(launch.ticket, SIGTERM);
    }
    if (asked >= 0 && (level > 1 || now - asked > options.grace_s)) runner.signal(launch.ticket, SIGKILL);
  }
}

std::string snapshot_label(const Record& record) { return cat("step-", record.key.step); }

/// task.json without a checkpoint policy or anything to resume: it is to be made from nothing.
void write_task_file(const Workshop& shop, const StageDescription& stage, const std::vector<Record>& records,
                     const fs::path& folder, std::size_t& made) {
  // A longer budget may have asked for the later ones: the newest config knows them all.
  Record record = records.back();
  // An imported record has paths relative to the root of a project.
  change_paths(record, [&](const std::string& path) { return (shop.options.root / path).string(); });
  TaskFileWriter file(stage, record.key.key, record.config, cpus_of(record), folder);
  file.bind_to_program(false);
  add_inputs(shop, record, file, made);
  add_files(record, file);
  if (!record.key.is_snapshot()) file.name_outputs();
  for (const Record& each : records) {
    if (each.key.is_snapshot()) file.add_snapshot(snapshot_label(each), each.key.step);
  }
  file.write_to(folder / "task.json");
}

void compare(const Store& store, const StageDescription& stage, const std::vector<Record>& records,
             const fs::path& folder, const RerunOptions& options, RerunResult& rerun) {
  for (const Record& record : records) {
    for (const artifact::OutputRole& description : stage.outputs) {
      if (description.is_volatile) continue;
      const OutputRecord* stored = record.output(description.name);
      fs::path path = folder / "out";
      if (record.key.is_snapshot()) path /= snapshot_label(record);
      path /= file_name(description);
      std::error_code ignored;
      const bool there = fs::exists(path, ignored);
      if (there && description.kind == artifact::Kind::kReport) {
        artifact::Recipe recipe;
        recipe.stage = stage.name;
        artifact::finish_collection(path, description.kind, recipe);
      }
      if (!stored && !there) continue;
      OutputComparison comparison;
      comparison.key = record.key;
      comparison.role = description.name;
      if (stored) comparison.stored = stored->content;
      if (there) comparison.again = artifact::artifact_content_digest(path);
      if (stored && there && !comparison.same()) {
        Result one;
        one.outputs.push_back(*stored);
        if (!store.complete(one)) {
          comparison.diff.differences.push_back(
              {artifact::Difference::What::kOnlyInSecond, "", "its object is gone", ""});
        } else {
          const fs::path first = store.materialise(*stored, folder / "stored" / description.name);
          comparison.diff = artifact::diff_artifacts(first, path);
        }
      }
      if (!comparison.same()) rerun.outcome = RerunResult::Outcome::kDiffers;
      rerun.outputs.push_back(std::move(comparison));
    }
  }
}

/// For results that read what just came out the same.
void keep_as_inputs(const StageDescription& stage, const std::vector<Record>& records, const fs::path& folder,
                    RemadeInputs& remade) {
  for (const Record& record : records) {
    for (const artifact::OutputRole& description : stage.outputs) {
      fs::path path = folder / "out";
      if (record.key.is_snapshot()) path /= snapshot_label(record);
      path /= file_name(description);
      std::error_code ignored;
      const OutputRecord* known = record.output(description.name);
      if (!known || !known->absent || !fs::exists(path, ignored)) continue;
      remade.add(remade.store().publish_output({description.name, description.kind, description.is_volatile, path}));
    }
  }
}

/// A name that no other process has, on any host, and that none has left.
fs::path scratch_name(const Store& store) {
  fs::path name;
  do {
    name = support::unique_sibling(store.root() / "work" / "verify");
  } while (support::is_there(name));
  return name;
}

StoreOptions not_durable() {
  StoreOptions options;
  options.durable = false;
  return options;
}

}  // namespace

RemadeInputs::RemadeInputs(const Store& store) : folder_(scratch_name(store)), store_(folder_.path(), not_durable()) {}

const OutputRecord* RemadeInputs::find(const std::string& content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : &found->second;
}

RerunResult run_again(const Store& store, const Inventory& inventory, StageCatalog& catalog, Runner& runner,
                      const std::vector<Record>& records, const RerunOptions& options) {
  RerunResult rerun;
  if (records.empty()) return rerun;
  static std::uint64_t count = 0;
  const Record& record = records.back();
  try {
    if (record.occasion.is_object() && record.occasion.contains("inherited_from")) {
      throw Cannot{"it never ran: what it was made from had diverged"};
    }
    const auto stage = stage_of(catalog, record);
    // As an attempt's folder is called, since a stage may look at the name.
    support::ScratchFolder scratch(scratch_name(store));
    const fs::path folder = scratch.path() / "a01";
    support::make_folders(folder);
    Launch launch;
    launch.ticket = ++count;
    launch.directory = folder;
    launch.log = folder / "stage.log";
    const Workshop shop{store, inventory, catalog, runner, options};
    write_task_file(shop, *stage, records, folder, rerun.inputs_made);
    launch.arguments = {stage->executable, "--task", (folder / "task.json").string()};
    const Json& config = record.config;
    const bool computes = config.is_object() && config.contains("compute") && config["compute"].is_object();
    const bool cuda = computes && config["compute"].value("device", "") == "cuda";
    if (computes && config["compute"].value("deterministic", "") == "off") {
      throw Cannot{"compute.deterministic is off: another run gives other bytes"};
    }
    if (cuda && options.gpus.empty()) throw Cannot{"it was made on a GPU, and none is available here (--gpus)"};
    launch.environment =
        stage_environment(cuda ? options.gpus : std::vector<std::string>(), stage->name,
                          support::field_or(record.occasion, "environment", std::vector<std::string>()));
    const RunnerEvent exit = run_to_its_end(runner, launch, options, 10 * wall_s_of(record), rerun.why);
    rerun.wall_s = exit.wall_s;
    const bool diverged = record.status == ResultStatus::kDiverged;
    if (!rerun.why.empty()) {
      if (options.stop && options.stop() > 0) throw Cannot{rerun.why};
      rerun.outcome = RerunResult::Outcome::kFailed;
    } else if (exit.code != (diverged ? support::kExitDiverged : support::kExitDone)) {
      rerun.outcome = RerunResult::Outcome::kFailed;
      rerun.why = exit.signal != 0 ? cat("signal ", exit.signal, " ended it") : cat("it ended with ", exit.code);
      if (const auto lines = last_lines(launch.log, 1); !lines.empty()) rerun.why += cat(": ", lines.back());
    }
    if (rerun.outcome != RerunResult::Outcome::kFailed) {
      rerun.outcome = RerunResult::Outcome::kSame;
      compare(store, *stage, records, folder, options, rerun);
      if (options.remade && rerun.outcome == RerunResult::Outcome::kSame)
        keep_as_inputs(*stage, records, folder, *options.remade);
    }
    // Evidence stays.
    if (rerun.outcome != RerunResult::Outcome::kSame || options.keep) {
      scratch.keep();
      rerun.folder = folder;
    }
  } catch (const InputFailure& input) {
    rerun.outcome = input.rerun.outcome;
    rerun.why = input.rerun.why;
    rerun.outputs = input.rerun.outputs;
    rerun.folder = input.rerun.folder;
  } catch (const Cannot& cannot) {
    rerun.outcome = RerunResult::Outcome::kCannot;
    rerun.why = cannot.why;
  } catch (const support::ArtifactError& error) {
    rerun.outcome = RerunResult::Outcome::kFailed;
    rerun.why = message_of(error);
  }
  return rerun;
}

}  // namespace pe::pipeline

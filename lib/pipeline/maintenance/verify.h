/// @file
/// Whether the store is still true: objects against their names, records against their keys and contents; and whether a
/// result is the same when its task runs again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "artifact/diff.h"
#include "pipeline/file/stage_description.h"
#include "pipeline/maintenance/inventory.h"
#include "pipeline/run/run.h"
#include "pipeline/run/runner.h"
#include "pipeline/store/record.h"
#include "pipeline/store/store.h"
#include "support/folders.h"

namespace pe::pipeline {

/// Changes the paths in the config of a record whose contents are in its key (files and folders that were read).
void change_paths(Record& record, const std::function<std::string(const std::string& path)>& change);

/// One thing that is wrong with a result.
struct Problem {
  enum class What {
    kMissing,  ///< An object is gone.
    kDamaged,  ///< An object's bytes do not have the digest of its name.
    kContent,  ///< An object is whole, but differs from its record.
    kRecord,   ///< the record does not fit its own key
  };
  What what = What::kMissing;
  std::string role;    ///< of the output; empty for the record
  std::string object;  ///< digest; empty for the record
  std::string text;    ///< one line for people
};
std::string_view what_name(Problem::What what);  ///< "missing", "damaged", "content", "record"

/// Checks results; objects that several share are read once.
class Verifier {
 public:
  explicit Verifier(const Store& store) : store_(store) {}
  /// @throws IoError when an object cannot be read for a reason that says nothing of its bytes
  std::vector<Problem> check(const Record& record);
  std::uint64_t bytes_read() const { return bytes_; }
  std::size_t objects_read() const { return seen_.size(); }

 private:
  /// Empty when the object is whole.
  std::string look_at(const std::string& digest, Problem::What* what);
  void check_output(const Record& record, const OutputRecord& output, std::vector<Problem>& problems);

  const Store& store_;
  std::map<std::string, std::pair<Problem::What, std::string>> seen_;
  std::uint64_t bytes_ = 0;
};

/// Roles of the outputs of which only the contents are known here (OutputRecord::absent).
std::vector<std::string> absent_roles(const Store& store, const std::vector<OutputRecord>& outputs);

/// Moves what a check found damaged to the trash: objects that are not what their names say, and the record when the
/// record itself is wrong. The next run makes the result again.
void set_aside(Store& store, const Record& record, const std::vector<Problem>& problems);

// ---- running again ------------------------------------------------------------------------------------------------

struct OutputComparison {
  ResultKey key;
  std::string role;
  std::string stored, again;  ///< content digests
  artifact::ArtifactDiff diff;
  bool same() const { return stored == again; }
};

struct RerunResult {
  enum class Outcome {
    kSame,
    kDiffers,
    kFailed,  ///< the stage did not end as it did then
    kCannot,  ///< what it takes is not there any more; `why` says what
  };
  Outcome outcome = Outcome::kCannot;
  std::string why;
  std::vector<OutputComparison> outputs;
  std::size_t inputs_made = 0;   ///< tasks that ran for inputs that were not here
  std::filesystem::path folder;  ///< scratch, with task.json, stage.log and outputs; gone unless it is kept
  double wall_s = 0;
};
std::string_view outcome_name(RerunResult::Outcome outcome);  ///< "same", "differs", "failed", "cannot"

/// Inputs of which a store knows the contents alone: made again by `run_again`, each once, and kept here while it is at
/// work. A folder on the file system of the store, which goes with this.
class RemadeInputs {
 public:
  /// @throws IoError
  explicit RemadeInputs(const Store& store);
  Store& store() { return store_; }
  /// Null when nothing with this content was made again.
  const OutputRecord* find(const std::string& content) const;
  void add(OutputRecord output) { by_content_.insert_or_assign(output.content, std::move(output)); }

 private:
  support::ScratchFolder folder_;
  Store store_;
  std::map<std::string, OutputRecord> by_content_;
};

struct RerunOptions {
  std::filesystem::path root;      ///< of the project: input files of imported results are below it
  RemadeInputs* remade = nullptr;  ///< Null: results whose inputs are not here cannot run again.
  bool keep = false;               ///< Keep the scratch folder of results that were the same, too.
  std::vector<std::string> gpus;   ///< For results whose compute.device is cuda.
  /// A stage is stopped when it takes longer than this and than ten times its earlier time.
  double patience_s = 600;
  double grace_s = 120;  ///< How long it may take to stop before it is killed.
  StopFunction stop;     ///< Asked while a stage runs, as `run` asks.
};

/// Runs the task of these records once more in scratch and compares contents. Several records are snapshots of one
/// trajectory, by step. The stage is asked to write exactly these. No process of it is left when this returns.
RerunResult run_again(const Store& store, const Inventory& inventory, StageCatalog& catalog, Runner& runner,
                      const std::vector<Record>& records, const RerunOptions& options);

}  // namespace pe::pipeline

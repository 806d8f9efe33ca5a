/// @file
/// What would run, what is there already, and why. A plan reads the store through `StoreView` and changes nothing.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/graph.h"
#include "pipeline/key.h"

namespace pe::pipeline {

/// One output in the store.
struct StoredOutput {
  std::string role;
  std::string file_digest;            ///< names the object
  std::string content_digest;         ///< what readers' keys hold
  bool is_volatile = false;
};

/// A result record, as far as planning cares.
struct StoredRecord {
  std::string task_key;
  bool diverged = false;
  std::vector<StoredOutput> outputs;
  const StoredOutput* find(const std::string& role) const;
};

/// An earlier result, for explanations.
struct PastTask {
  std::string task_key;
  std::string pipeline;               ///< name of the pipeline that made it
  std::string id;                     ///< instance id it had there
  double time = 0;                    ///< when, seconds since 1970; newer is greater
  Json preimage;                      ///< document of its task key
};

/// The store as planning sees it; implemented by the store, and by fakes in tests.
class StoreView {
 public:
  virtual ~StoreView() = default;
  virtual std::optional<StoredRecord> find_record(const std::string& task_key) const = 0;
  /// The task key that a plan key led to last; a hint.
  virtual std::optional<std::string> find_plan(const std::string& plan_key) const = 0;
  /// The task key of a snapshot; a hint like find_plan.
  virtual std::optional<std::string> find_snapshot(const std::string& trajectory_key, std::int64_t step) const = 0;
  /// True when the object is there; one stat, no reading.
  virtual bool has_object(const std::string& file_digest) const = 0;
  /// Cheaper than find_record where only presence matters.
  virtual bool has_record(const std::string& task_key) const { return find_record(task_key).has_value(); }
  /// Earlier results of a stage (by StageDescription::name); only asked for explanations.
  virtual std::vector<PastTask> past_tasks(const std::string& stage) const = 0;
};

enum class TaskState {
  kReuse,          ///< the result is there
  kLikelyReuse,    ///< there if the inputs, which must be made again, come out as before
  kRun,
  kInputMissing,   ///< a file that its config names is not there
  kBlocked,        ///< follows a task that cannot run
  kNotNeeded,      ///< neither selected nor needed by what is
};

std::string_view state_name(TaskState state);   ///< "reuse", "likely-reuse", "run", "input-missing", "blocked", "not-needed"

/// Why a task is in its state.
enum class ReasonKind {
  kPresent,          ///< the record and its objects are there
  kForced,
  kNew,              ///< nothing like it ran before
  kObjectGone,       ///< the record is there, an object is not
  kFollows,          ///< a producer runs
  kConfig,           ///< config differs from an earlier result
  kVersion,          ///< the stage's result version differs
  kInput,            ///< an input's content differs
  kExternal,         ///< a file that config names has other content
  kMissingPath,
  kBlockedBy,
};

struct PlannedSnapshot {
  std::string label;
  std::int64_t step = 0;
  bool needed = false;
  std::string task_key;               ///< known or presumed; empty when neither
  std::optional<StoredRecord> record; ///< when it is there
  bool objects_present = false;
};

struct PlannedTask {
  TaskState state = TaskState::kNotNeeded;
  ReasonKind reason_kind = ReasonKind::kPresent;
  std::string reason;                 ///< one line for people
  bool selected = false;
  bool forced = false;
  std::string task_key;               ///< exact when the digests of all inputs are known; else presumed, or empty
  bool key_is_exact = false;
  std::optional<StoredRecord> record; ///< for a task without snapshots
  std::vector<PlannedSnapshot> snapshots;
  std::optional<std::size_t> same_as; ///< an earlier task of this graph with the same plan key: one run serves both,
                                      ///< never both at once
};

struct PlanOptions {
  std::vector<bool> selected;         ///< per task; empty: all
  bool force = false;                 ///< what is selected runs again
};

struct Plan {
  std::vector<PlannedTask> tasks;     ///< like Graph::tasks

  std::size_t count(TaskState state) const;
  /// True when nothing is to run: every needed task is there.
  bool nothing_to_do() const;
};

/// Plan keys must be filled in.
Plan make_plan(const Graph& graph, const StoreView& store, const PlanOptions& options = {});

/// The content digests of a task's inputs where every one is known from `plan`, else empty.
std::optional<std::vector<InputDigest>> known_inputs(const Graph& graph, const Plan& plan, std::size_t task);

/// The last step that a needed snapshot asks for; 0 when none does.
std::int64_t last_needed_step(const PlannedTask& task);

}  // namespace pe::pipeline

/// @file
/// Tasks that would run, results that exist, and the reasons. A plan reads the store through `StoreView` and changes
/// nothing.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/file/graph.h"
#include "pipeline/plan/key.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

/// The store as planning sees it: `StoreReader` (below) in earnest, fakes in tests.
class StoreView {
 public:
  virtual ~StoreView() = default;
  virtual std::optional<Result> find(const ResultKey& key) const = 0;
  /// Whether every object is there: stats, no reading.
  virtual bool complete(const Result& result) const = 0;
  /// The same, output by output; outputs that are here lose their mark `absent`.
  Presence presence(Result& result) const;
  /// The task or trajectory key that a plan key last led to; a hint, never the truth.
  virtual std::optional<std::string> hint(const std::string& plan_key) const = 0;
  virtual bool has_object(const std::string& digest) const = 0;
  /// Earlier results of a stage (by StageDescription::name); only asked for explanations.
  virtual const std::vector<PastTask>& past_tasks(const std::string& stage) const = 0;
};

/// A store, read.
class StoreReader : public StoreView {
 public:
  explicit StoreReader(const Store& store) : store_(store) {}
  // A record that cannot be read ends a plan: no result could be published in its place.
  std::optional<Result> find(const ResultKey& key) const override { return store_.find(key, true); }
  bool complete(const Result& result) const override { return store_.complete(result, true); }
  std::optional<std::string> hint(const std::string& plan_key) const override { return store_.hint(plan_key); }
  bool has_object(const std::string& digest) const override { return store_.has_object(digest); }
  const std::vector<PastTask>& past_tasks(const std::string& stage) const override;

 private:
  const Store& store_;
  mutable std::shared_ptr<const std::map<std::string, std::vector<PastTask>, std::less<>>> by_stage_;  // once asked for
};

enum class TaskState {
  kReuse,        ///< the result is there
  kLikelyReuse,  ///< exists if the inputs, which must be made again, have the same contents
  kRun,
  kInputMissing,  ///< a file in its config does not exist
  kBlocked,       ///< follows a task that cannot run
  kNotNeeded,     ///< neither selected nor needed by a selected task
};

std::string_view state_name(
    TaskState state);  ///< "reuse", "likely-reuse", "run", "input-missing", "blocked", "not-needed"

/// Why a task is in its state.
enum class ReasonKind {
  kPresent,  ///< The record and its objects are there.
  kForced,
  kNew,          ///< Nothing like it ran before.
  kObjectGone,   ///< The record exists, an object does not.
  kKnown,        ///< Its contents are known; the bytes of some outputs are not here, and no task needs them.
  kBytesWanted,  ///< The same, and a task that runs needs them.
  kFollows,      ///< A producer runs.
  kConfig,       ///< Config differs from an earlier result.
  kVersion,      ///< The stage's result version or one of its revisions differs.
  kInput,        ///< An input's content differs.
  kExternal,     ///< A file that config names has other content.
  kMissingPath,
  kBlockedBy,
  kLeftOut,  ///< The result is not there, and the plan makes only selected tasks (PlanOptions::make_inputs).
};

struct PlannedSnapshot {
  std::string label;
  std::int64_t step = 0;
  bool needed = false;
  std::optional<Result> result;  ///< The store's result under (task key, step).
  bool present = false;          ///< All of its objects exist.
  bool known = false;            ///< not all of them came (OutputRecord::absent)
  bool bytes_wanted = false;     ///< of a known one: something that runs needs what is not here
  /// Whether readers can use it.
  bool usable() const { return present || (known && !bytes_wanted); }
};

struct PlannedTask {
  TaskState state = TaskState::kNotNeeded;
  ReasonKind reason_kind = ReasonKind::kPresent;
  std::string reason;  ///< one line for people
  bool selected = false;
  bool forced = false;
  std::string task_key;  ///< exact when the digests of all inputs are known; else presumed, or empty
  bool key_is_exact = false;
  std::optional<Result> result;  ///< Of a task without snapshots: the store's entry under the task key.
  bool present = false;          ///< And all of its objects are there.
  bool known = false;            ///< Not all of them came (OutputRecord::absent).
  bool bytes_wanted = false;     ///< Of a known one: a task that runs needs bytes that are not here.
  std::vector<PlannedSnapshot> snapshots;
  /// Of a task without snapshots: whether readers can use its result.
  bool usable() const { return present || (known && !bytes_wanted); }
  /// Whether it or one of its snapshots is known and not here.
  bool any_known() const;
  std::optional<std::size_t> same_as;  ///< an earlier task of this graph with the same plan key: one run serves both,
                                       ///< never both concurrently
};

struct PlanOptions {
  std::vector<bool> selected;  ///< per task; empty: all
  bool force = false;          ///< what is selected runs again
  /// False: what is selected is made where only its contents are known. An element of a cluster's array does not see
  /// who needs the bytes; the plan of its submission did.
  bool known_suffices = true;
  /// False: only selected tasks are made, from results that are there. A gather with `allow_partial` does without the
  /// others; other tasks are blocked by them.
  bool make_inputs = true;
};

struct Plan {
  std::vector<PlannedTask> tasks;  ///< like Graph::tasks
  bool make_inputs = true;         ///< PlanOptions::make_inputs

  /// Whether this plan never makes a task, not even when its result turns out to be damaged.
  bool never_makes(std::size_t i) const { return !make_inputs && !tasks[i].selected; }
  std::size_t count(TaskState state) const;
  /// True when nothing is to run: every needed task is there.
  bool nothing_to_do() const;
  /// Tasks that are reused though not all of their bytes are here.
  std::size_t count_known() const;
  /// Number of tasks whose results a selected task lacks, since this plan makes no inputs.
  std::size_t count_left_out() const;
};

/// Finds the key of a task, and its results in the store. The results of its producers were found before. Plan keys
/// must be filled in.
void look_up(const Graph& graph, const StoreView& store, KeyMaker& keys, Plan& plan, std::size_t task);

/// Plan keys must be filled in.
Plan make_plan(const Graph& graph, const StoreView& store, const PlanOptions& options = {});

/// The content digests of a task's inputs where every one is known from `plan`, else empty.
std::optional<std::vector<InputDigest>> known_inputs(const Graph& graph, const Plan& plan, std::size_t task);

/// The last step that a needed snapshot asks for; 0 when none does.
std::int64_t last_needed_step(const PlannedTask& task);

}  // namespace pe::pipeline

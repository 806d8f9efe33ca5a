/// @file
/// Dependencies of each task of a run. Pure book-keeping: this reads no file, starts nothing and logs nothing. The
/// execution reports the outcome of a task. The consequences for others are returned as news, in order: a task whose
/// inputs are all settled, or one that is blocked.
///
/// Each wanted task counts its open inputs. A result closes the inputs that read it, a damaged one opens them again. A
/// task is therefore looked at only when the last of its inputs exists, however many it has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "pipeline/file/graph.h"
#include "pipeline/plan/key.h"
#include "pipeline/plan/plan.h"
#include "pipeline/plan/ready_queue.h"
#include "pipeline/run/task_phase.h"
#include "pipeline/store/packed_result.h"
#include "pipeline/store/record.h"
#include "pipeline/store/store.h"
#include "support/shared.h"

namespace pe::pipeline {

/// The inputs of a task that is about to be looked up or started.
struct TaskInputs {
  std::vector<InputDigest> digests;            ///< of its key, one for each of Task::inputs, in order
  std::map<std::size_t, std::string> missing;  ///< missing ones, by number, with the reason
  std::string diverged_parent;                 ///< id of the first whose divergence it inherits; empty: none
  bool all_inputs_missing() const { return !digests.empty() && missing.size() == digests.size(); }
};

/// Record of an input of `task`, by its number.
InputRecord input_record(const Graph& graph, const Task& task, const TaskInputs& inputs, std::size_t number);

class TaskStates {
 public:
  /// The snapshot number of a task's own result; others are indices into Task::snapshots.
  static constexpr int kWhole = -1;

  struct State {
    TaskPhase phase = TaskPhase::kSkipped;
    bool forced = false;
    bool made = false;  ///< this run published something for it
    PackedDigest key;   ///< task key; none until its inputs are known
    PackedResult result;
    // Shared, since most tasks have none of these: an empty one is a pointer.
    support::SharedValue<std::map<int, PackedResult>> snapshots;
    support::SharedValue<std::set<int>> fresh;  ///< snapshots that this run published
    support::SharedValue<std::set<int>>
        bytes_wanted;  ///< Snapshots, or kWhole, whose bytes are needed and not only known contents.
    support::SharedValue<std::string> reason;      ///< Of a failure, a block or an interruption.
    support::SharedValue<std::string> blocked_by;  ///< Id of the task at the root of a block; empty: the task itself.
  };
  struct TaskEvent {
    enum class Kind { kInputsSettled, kBlocked };
    Kind kind = Kind::kInputsSettled;
    std::size_t task = 0;
  };

  /// @param seconds  what each task is expected to take; orders the ready ones
  /// @param only     tasks that this process may run; empty: all
  TaskStates(const Graph& graph, const Plan& plan, const std::vector<double>& seconds, std::vector<bool> only = {});

  const State& at(std::size_t i) const { return states_[i]; }
  State& at(std::size_t i) { return states_[i]; }
  TaskPhase phase(std::size_t i) const { return states_[i].phase; }
  const std::vector<TaskPhase>& phases() const { return phases_; }
  const std::map<TaskPhase, std::size_t>& counts() const { return counts_; }  ///< of the tasks that are needed
  const ReadyQueue& ready() const { return ready_; }
  std::size_t size() const { return states_.size(); }
  /// Whether this process makes it: an element of a cluster's array makes some of a run's tasks; other processes make
  /// the others.
  bool is_own(std::size_t i) const { return only_.empty() || only_[i]; }
  /// Whether a task of the graph reads a result of it.
  bool has_readers(std::size_t i) const { return !readers_[i].empty(); }

  // ---- what happens
  /// The task's result is needed: it waits for its inputs, and their producers are wanted in turn.
  void want(std::size_t i);
  void set_phase(std::size_t i, TaskPhase phase);
  /// Something that readers wait for is in the store.
  void add_result(std::size_t i, int snapshot, PackedResult result);
  /// It is not, after all. Readers that have not started wait again.
  void drop_result(std::size_t i, int snapshot);
  void fail(std::size_t i, const std::string& reason);
  /// @param root  id of the task that failed or lacks something, when that is another one
  void block(std::size_t i, const std::string& reason, const std::string& root = {});
  /// Back from verifying or running: ready again, or waiting where an input went meanwhile.
  void make_ready_again(std::size_t i);
  /// Its inputs are looked at from the start, and its result with them.
  void look_again(std::size_t i);

  // ---- what follows
  std::optional<TaskEvent> next_event();
  bool has_news() const { return !news_.empty(); }

  // ---- looking
  std::optional<Result> result_of(const Edge& edge) const;
  /// Index into the producer's snapshots, or kWhole.
  int snapshot_number(const Edge& edge) const;
  /// Inputs of a task whose inputs are settled.
  TaskInputs inputs_of(std::size_t i) const;
  /// Indices of the snapshots that the plan or a waiting reader needs, ascending.
  std::vector<std::size_t> needed_snapshots(std::size_t i) const;

 private:
  struct Reader {
    std::uint32_t task = 0;
    std::uint32_t edge = 0;  // index into its inputs
    int snapshot = kWhole;
  };
  enum class Input { kOpen, kSettled, kBlocks };

  Input look_at(std::size_t i, const Edge& edge, std::string& reason, std::string& root) const;
  void count_inputs(std::size_t i, std::vector<std::size_t>& producers);
  void settle_input(std::size_t reader, std::size_t edge);
  void mark_unavailable(std::size_t i, TaskPhase phase, const std::string& reason);
  void propagate_unavailable(std::size_t i);
  void push_settled(std::size_t i);
  std::optional<Result> result(std::size_t i, int snapshot) const;

  const Graph& graph_;
  const Plan& plan_;
  const std::vector<bool> only_;
  std::vector<State> states_;
  std::vector<TaskPhase> phases_;
  std::map<TaskPhase, std::size_t> counts_;
  ReadyQueue ready_;
  std::vector<std::vector<Reader>> readers_;               // by producer
  std::vector<std::size_t> first_edge_;                    // by task, into settled_
  std::vector<bool> settled_;                              // by edge
  std::vector<int> edge_snapshot_;                         // by edge
  std::vector<std::size_t> open_;                          // by task
  std::map<std::size_t, std::vector<std::size_t>> twins_;  // task → tasks that wait for it, having its plan key
  std::deque<TaskEvent> news_;
};

}  // namespace pe::pipeline

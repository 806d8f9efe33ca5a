#include "pipeline/run.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <deque>
#include <fstream>
#include <memory>
#include <utility>

#include "pipeline/journal.h"
#include "pipeline/key.h"
#include "pipeline/local_runner.h"
#include "pipeline/orphan.h"
#include "pipeline/status.h"
#include "pipeline/view.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/process.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::quote;

std::string_view phase_name(TaskPhase phase) {
  switch (phase) {
    case TaskPhase::kWaiting:
      return "waiting";
    case TaskPhase::kReady:
      return "ready";
    case TaskPhase::kRunning:
      return "running";
    case TaskPhase::kDone:
      return "done";
    case TaskPhase::kReused:
      return "reused";
    case TaskPhase::kFailed:
      return "failed";
    case TaskPhase::kBlocked:
      return "blocked";
    case TaskPhase::kInterrupted:
      return "interrupted";
    case TaskPhase::kSkipped:
      return "skipped";
  }
  return "unknown";
}

std::string shell_quoted(const std::string& word) {
  const bool plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return std::isalnum(c) || c == '/' || c == '.' || c == '_' || c == '-' || c == '=' || c == ':' || c == ',' ||
           c == '+' || c == '@' || c == '%';
  });
  if (plain) return word;
  std::string out = "'";
  for (const char c : word) {
    if (c == '\'')
      out += "'\\''";
    else
      out += c;
  }
  return out + "'";
}

std::string shell_command(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + shell_quoted(word);
  return out;
}

namespace {

constexpr double kTick = 0.25;
constexpr std::size_t kTailLines = 20;

std::vector<std::string> last_lines(const fs::path& path, std::size_t count) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {};
  file.seekg(0, std::ios::end);
  const auto size = static_cast<std::int64_t>(file.tellg());
  const std::int64_t from = std::max<std::int64_t>(0, size - 65536);
  file.seekg(from);
  std::string text(static_cast<std::size_t>(size - from), '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  std::vector<std::string> lines = support::split(text, '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  for (std::string& line : lines) line = support::replace_invalid_utf8(line);
  return lines;
}

class Run {
 public:
  Run(const Graph& graph, const Plan& plan, Store& store, Runner& runner, RunListener& listener,
      const RunOptions& options, const StopFunction& stop)
      : graph_(graph),
        plan_(plan),
        store_(store),
        runner_(runner),
        listener_(listener),
        options_(options),
        stop_(stop),
        slots_(options.capacity),
        nodes_(graph.tasks.size()),
        readers_(graph.tasks.size()) {}

  RunSummary go() {
    begin();
    loop();
    return end();
  }

 private:
  struct Node {
    TaskPhase phase = TaskPhase::kSkipped;
    bool forced = false;
    std::optional<Result> result;             // of a task without snapshots
    std::map<std::string, Result> snapshots;  // by label
    std::vector<InputDigest> inputs;          // once all are known
    std::vector<InputRecord> input_records;
    Json preimage;
    std::string key;
    Attempts attempts;
    double mem_factor = 1;
    double not_before_s = 0;
    double orphan_since_s = -1;
    int input_repairs = 0;
    std::string reason;           // of a failure or block
    bool made = false;            // this run published something for it
    std::set<std::string> fresh;  // snapshots that this run published
    int number = 0;               // of the latest attempt
    int first_number = 0;         // of this run's first attempt
  };

  struct Active {
    std::size_t task = 0;
    Slot slot;
    fs::path folder;
    int attempt = 0;
    double started_s = 0;
    double started_unix = 0;
    std::int64_t started_step = -1;  // the last checkpoint before this attempt
    std::int64_t step = -1;
    bool stop_sent = false;
    bool resumed = false;
    Json progress = Json::object();
    std::vector<std::size_t> snapshots;  // indices into Task::snapshots that were asked for
    std::set<std::size_t> published;
  };

  // ---- set-up -----------------------------------------------------------------------------------------------------

  void begin() {
    started_s_ = runner_.now();
    summary_.run_id = options_.run_id.empty() ? new_run_id() : options_.run_id;
    state_.graph = &graph_;
    state_.run_id = summary_.run_id;
    state_.phases.assign(graph_.tasks.size(), TaskPhase::kSkipped);
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      std::size_t last = static_cast<std::size_t>(-1);
      for (const Edge& edge : graph_.tasks[i].inputs) {
        if (edge.producer != last) readers_[edge.producer].push_back(i);
        last = edge.producer;
      }
    }
    refuse_impossible();
    if (options_.check_configs) check_configs();
    store_.tidy_index();
    seconds_ = expected_seconds();
    queue_.emplace(graph_, seconds_);
    folder_ = std::make_unique<RunFolder>(store_, graph_, plan_, options_, summary_.run_id);
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      const PlannedTask& planned = plan_.tasks[i];
      Node& node = nodes_[i];
      node.forced = planned.forced;
      node.key = planned.task_key;
      if (planned.present && planned.result && !node.forced) node.result = planned.result;
      for (std::size_t k = 0; k < planned.snapshots.size() && !node.forced; ++k) {
        if (planned.snapshots[k].present) node.snapshots[planned.snapshots[k].label] = *planned.snapshots[k].result;
      }
      if (planned.state == TaskState::kNotNeeded) continue;
      if (planned.state == TaskState::kReuse) {
        set_phase(i, TaskPhase::kReused);
        // A kill between a record and its hint leaves the hint out; it is caught up with here.
        if (store_.hint(graph_.tasks[i].plan_key) != node.key) remember_plan(i);
      } else {
        set_phase(i, TaskPhase::kWaiting);
      }
    }
    Json counts = Json::object();
    for (const auto& [phase, count] : state_.counts) counts[std::string(phase_name(phase))] = count;
    emit({"plan", -1, 0, {{"tasks", counts}, {"capacity", describe(options_.capacity)}}});
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      if (nodes_[i].phase == TaskPhase::kWaiting) evaluate(i);
    }
  }

  bool will_run(std::size_t i) const {
    return plan_.tasks[i].state == TaskState::kRun || plan_.tasks[i].state == TaskState::kLikelyReuse;
  }

  void refuse_impossible() const {
    support::Diagnostics diagnostics;
    std::map<std::string, std::pair<std::string, std::size_t>> seen;  // message → (first id, count)
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      if (!will_run(i)) continue;
      const std::string why = impossible(graph_.tasks[i].resources, options_.capacity);
      if (why.empty()) continue;
      auto [at, fresh] = seen.try_emplace(graph_.tasks[i].label + "\n" + why, graph_.tasks[i].id, 0);
      ++at->second.second;
    }
    for (const auto& [key, value] : seen) {
      const auto& [id, count] = value;
      diagnostics.add(cat(quote(id), count > 1 ? cat(" and ", count - 1, " more") : std::string(),
                          " cannot run here: ", key.substr(key.find('\n') + 1)));
    }
    diagnostics.throw_if_any();
  }

  /// Each stage reads all configs that it is about to get, once, before anything starts.
  void check_configs() const {
    std::map<std::string, std::vector<std::size_t>> by_executable;
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      if (will_run(i) && !graph_.tasks[i].stage->executable.empty()) {
        by_executable[graph_.tasks[i].stage->executable].push_back(i);
      }
    }
    for (const auto& [executable, tasks] : by_executable) {
      std::string lines;
      for (const std::size_t i : tasks) lines += graph_.tasks[i].config.dump() + "\n";
      const support::Captured captured = support::capture({executable, "--check"}, lines);
      if (captured.status.code == 0) continue;
      // One answer a config, in order: {"ok": true} or {"ok": false, "errors": ["…"]}. Equal ones are told once.
      std::vector<support::Diagnostic> diagnostics;
      std::map<std::string, std::pair<std::size_t, std::size_t>> refused;  // message → (first task, how many)
      std::size_t at = 0;
      for (const std::string& line : support::split(captured.out, '\n')) {
        const Json answer = Json::parse(line, nullptr, false);
        if (!answer.is_object() || at >= tasks.size()) continue;
        const std::size_t task = tasks[at++];
        if (!answer.contains("errors") || !answer["errors"].is_array()) continue;
        for (const Json& error : answer["errors"]) {
          ++refused.try_emplace(error.is_string() ? error.get<std::string>() : error.dump(), task, 0)
                .first->second.second;
        }
      }
      for (const auto& [message, where] : refused) {
        diagnostics.push_back(
            {cat(graph_.tasks[where.first].id,
                 where.second > 1 ? cat(" and ", where.second - 1, " more") : std::string(), ": ", message)});
      }
      if (diagnostics.empty()) {
        const std::string text(support::trim(captured.err.empty() ? captured.out : captured.err));
        diagnostics.push_back({cat(fs::path(executable).filename().string(), " refuses a config (exit code ",
                                   captured.status.code, "):\n", text)});
      }
      throw support::ConfigError(std::move(diagnostics));
    }
  }

  /// What a task took when its plan was last carried out, else what its stage took on average, else a second.
  std::vector<double> expected_seconds() const {
    std::vector<double> seconds(graph_.tasks.size(), -1);
    std::map<std::string, std::pair<double, int>> by_label;
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      const Task& task = graph_.tasks[i];
      const auto key = store_.hint(task.plan_key);
      if (!key) continue;
      double wall = 0;
      bool known = false;
      if (task.is_trajectory()) {
        for (const SnapshotPoint& point : task.snapshots) {
          if (const auto result = store_.find({*key, point.step})) {
            wall = std::max(wall, result->wall_s);
            known = true;
          }
        }
      } else if (const auto result = store_.find({*key, -1})) {
        wall = result->wall_s;
        known = true;
      }
      if (!known) continue;
      seconds[i] = wall;
      auto& [sum, count] = by_label[task.label];
      sum += wall;
      ++count;
    }
    for (std::size_t i = 0; i < graph_.tasks.size(); ++i) {
      if (seconds[i] >= 0) continue;
      const auto found = by_label.find(graph_.tasks[i].label);
      seconds[i] = found == by_label.end() ? 1.0 : found->second.first / found->second.second;
    }
    known_labels_ = std::move(by_label);
    return seconds;
  }

  // ---- states -----------------------------------------------------------------------------------------------------

  void set_phase(std::size_t i, TaskPhase phase) {
    TaskPhase& current = nodes_[i].phase;
    if (current == phase) return;
    if (current != TaskPhase::kSkipped) --state_.counts[current];
    if (current == TaskPhase::kReady) queue_->remove(i);
    current = phase;
    state_.phases[i] = phase;
    if (phase != TaskPhase::kSkipped) ++state_.counts[phase];
    if (phase == TaskPhase::kReady) queue_->add(i);
  }

  void emit(RunEvent event) {
    state_.now_s = runner_.now();
    if (folder_ && !folder_->add(graph_, event) && !journal_failed_) {
      journal_failed_ = true;
      listener_.on_event({"warn", -1, 0, {{"text", "the journal of this run cannot be written; the run goes on"}}},
                         state_);
    }
    listener_.on_event(event, state_);
  }

  const Result* result_of(const Edge& edge) const {
    const Node& node = nodes_[edge.producer];
    if (edge.snapshot.empty()) return node.result ? &*node.result : nullptr;
    const auto found = node.snapshots.find(edge.snapshot);
    return found == node.snapshots.end() ? nullptr : &found->second;
  }

  std::int64_t step_of(const Edge& edge) const {
    if (edge.snapshot.empty()) return -1;
    for (const SnapshotPoint& point : graph_.tasks[edge.producer].snapshots) {
      if (point.label == edge.snapshot) return point.step;
    }
    return -1;
  }

  std::string producer_id(const Edge& edge) const {
    return graph_.tasks[edge.producer].id + (edge.snapshot.empty() ? "" : "@" + edge.snapshot);
  }

  bool is_many(const Task& task, const std::string& role) const {
    const InputDescription* input = task.stage->find_input(role);
    return input && input->many;
  }

  /// Looks at a waiting task: blocks it, reuses its result, or makes it ready.
  void evaluate(std::size_t i) {
    Node& node = nodes_[i];
    if (node.phase != TaskPhase::kWaiting) return;
    const Task& task = graph_.tasks[i];
    for (const ExternalInput& external : task.externals) {
      if (!external.missing.empty()) {
        block(i, cat("input missing: ", quote(external.missing), " (", external.field, ")"));
        return;
      }
    }
    std::vector<InputDigest> digests;
    std::vector<InputRecord> records;
    bool pending = false;
    std::string diverged_parent;
    for (const Edge& edge : task.inputs) {
      const Result* result = result_of(edge);
      const OutputRecord* output = result ? result->output(edge.output) : nullptr;
      const bool many = is_many(task, edge.role);
      const bool has_diverged = result && result->status == ResultStatus::kDiverged;
      InputRecord record{edge.role, output ? output->content : "", producer_id(edge), edge.labels, ""};
      if (has_diverged && !many && diverged_parent.empty()) diverged_parent = producer_id(edge);
      if (output) {
        digests.push_back({edge.role, output->content, step_of(edge)});
        records.push_back(std::move(record));
        continue;
      }
      if (result && has_diverged) {
        // Nothing to read, but the key must still tell whose place is empty.
        digests.push_back({edge.role, diverged_digest({nodes_[edge.producer].key, step_of(edge)}), step_of(edge)});
        record.missing = "diverged";
        records.push_back(std::move(record));
        continue;
      }
      if (result) {
        block(i, cat("its record of ", producer_id(edge), " has no output ", quote(edge.output)));
        return;
      }
      const TaskPhase phase = nodes_[edge.producer].phase;
      if (phase == TaskPhase::kFailed || phase == TaskPhase::kBlocked) {
        if (task.allow_partial && many) {
          record.missing = std::string(phase_name(phase));
          records.push_back(std::move(record));
          continue;
        }
        // A blocked producer hands its own reason on, so that every descendant names the root and no chain grows.
        const std::string& root = nodes_[edge.producer].reason;
        block(i, phase == TaskPhase::kFailed ? cat("needs ", producer_id(edge), ", which failed")
                 : root.rfind("needs ", 0) == 0 || root.rfind("waits for ", 0) == 0
                     ? root
                     : cat("waits for ", producer_id(edge), ": ", root));
        return;
      }
      pending = true;
      activate(edge.producer);
    }
    if (const auto twin = plan_.tasks[i].same_as; twin && !settled(*twin)) {
      twins_[*twin].push_back(i);
      return;
    }
    if (pending) return;
    const bool nothing =
        std::all_of(records.begin(), records.end(), [](const InputRecord& record) { return !record.missing.empty(); });
    if (task.allow_partial && !task.inputs.empty() && nothing) {
      block(i, "nothing that it gathers is there");
      return;
    }
    node.preimage = task_preimage(task, digests);
    node.key = task_key_of(node.preimage);
    node.inputs = std::move(digests);
    node.input_records = std::move(records);
    if (twin_made_it(i)) node.forced = false;
    if (!node.forced && look_up(i)) return;
    if (!diverged_parent.empty()) {
      inherit_divergence(i, diverged_parent);
      return;
    }
    set_phase(i, TaskPhase::kReady);
  }

  bool settled(std::size_t i) const {
    const TaskPhase phase = nodes_[i].phase;
    return phase != TaskPhase::kWaiting && phase != TaskPhase::kReady && phase != TaskPhase::kRunning;
  }

  bool twin_made_it(std::size_t i) const {
    const auto twin = plan_.tasks[i].same_as;
    return twin && nodes_[*twin].made;
  }

  /// A task that the plan did not need, but that now has to be made again.
  void activate(std::size_t i) {
    if (nodes_[i].phase != TaskPhase::kSkipped) return;
    set_phase(i, TaskPhase::kWaiting);
    evaluate(i);
  }

  /// Takes what the store has under the task's key. True when that is all that is needed.
  bool look_up(std::size_t i) {
    Node& node = nodes_[i];
    const Task& task = graph_.tasks[i];
    if (!task.is_trajectory()) {
      const auto result = store_.find({node.key, -1});
      if (!result || !store_.complete(*result)) return false;
      node.result = *result;
    } else {
      bool all = true;
      for (const std::size_t k : needed_snapshots(i)) {
        const SnapshotPoint& point = task.snapshots[k];
        const auto result = store_.find({node.key, point.step});
        if (result && store_.complete(*result))
          node.snapshots[point.label] = *result;
        else
          all = false;
      }
      if (!all) {
        notify_readers(i);
        return false;
      }
    }
    remember_plan(i);
    set_phase(i, node.made ? TaskPhase::kDone : TaskPhase::kReused);
    if (!node.made) {
      emit({"reuse", static_cast<std::int64_t>(i), 0, {{"key", node.key}}});
    }
    notify_readers(i);
    return true;
  }

  std::vector<std::size_t> needed_snapshots(std::size_t i) const {
    const Task& task = graph_.tasks[i];
    const PlannedTask& planned = plan_.tasks[i];
    std::vector<std::size_t> needed;
    for (std::size_t k = 0; k < task.snapshots.size(); ++k) {
      bool wanted = k < planned.snapshots.size() && planned.snapshots[k].needed;
      for (std::size_t reader = 0; !wanted && reader < readers_[i].size(); ++reader) {
        // A snapshot that was there when planning may be damaged now; whoever waits for it needs it.
        const std::size_t r = readers_[i][reader];
        if (nodes_[r].phase != TaskPhase::kWaiting) continue;
        for (const Edge& edge : graph_.tasks[r].inputs) {
          wanted = wanted || (edge.producer == i && edge.snapshot == task.snapshots[k].label);
        }
      }
      if (wanted) needed.push_back(k);
    }
    return needed;
  }

  void remember_plan(std::size_t i) {
    guarded([&] { store_.set_hint(graph_.tasks[i].plan_key, nodes_[i].key); });
  }

  void notify_readers(std::size_t i) {
    for (const std::size_t reader : readers_[i]) evaluate(reader);
    const auto twins = twins_.find(i);
    if (twins != twins_.end() && settled(i)) {
      const std::vector<std::size_t> waiting = std::move(twins->second);
      twins_.erase(twins);
      for (const std::size_t twin : waiting) evaluate(twin);
    }
  }

  void block(std::size_t i, const std::string& reason) {
    nodes_[i].reason = reason;
    set_phase(i, TaskPhase::kBlocked);
    emit({"block", static_cast<std::int64_t>(i), 0, {{"reason", reason}}});
    notify_readers(i);
  }

  void fail(std::size_t i, Outcome outcome, const std::string& reason, const fs::path& attempt) {
    Node& node = nodes_[i];
    node.reason = reason;
    TaskFailure failure;
    failure.task = i;
    failure.outcome = outcome;
    failure.reason = reason;
    if (!attempt.empty()) {
      failure.log = (attempt / "stage.log").string();
      failure.tail = last_lines(attempt / "stage.log", kTailLines);
    }
    failure.rerun = options_.command;
    failure.rerun.push_back(graph_.tasks[i].id);
    set_phase(i, TaskPhase::kFailed);
    ++summary_.failed;
    emit({"fail",
          static_cast<std::int64_t>(i),
          node.number,
          {{"class", outcome_name(outcome)},
           {"reason", reason},
           {"tail", failure.tail},
           {"log", failure.log},
           {"rerun", shell_command(failure.rerun)}}});
    summary_.failures.push_back(std::move(failure));
    if (!options_.keep_going) no_new_starts_ = true;
    notify_readers(i);
  }

  /// The store failed: nothing new starts, what runs is asked to stop, the run ends with 4.
  void store_failed(const std::string& why) {
    if (summary_.store_error.empty()) {
      summary_.store_error = why;
      emit({"warn", -1, 0, {{"text", cat("the store cannot be written, stopping: ", why)}}});
    }
    no_new_starts_ = true;
    stop_stages(SIGTERM);
  }

  template <typename Body>
  bool guarded(Body&& body) {
    try {
      body();
      return true;
    } catch (const support::IoError& error) {
      store_failed(error.diagnostics().front().message);
      return false;
    }
  }

  // ---- starting ---------------------------------------------------------------------------------------------------

  void start_ready() {
    if (no_new_starts_ || stop_level_ > 0 || slots_.full()) return;
    bool starved = false;
    next_wake_s_ = -1;
    // Slots are taken in order of urgency, but a small task may pass a large one that does not fit now. The step is
    // taken first: a task that starts leaves the queue, and others may join it.
    for (auto next = queue_->ordered().begin(); next != queue_->ordered().end() && !slots_.full();) {
      const std::size_t i = *next++;
      Node& node = nodes_[i];
      const Task& task = graph_.tasks[i];
      if (node.not_before_s > runner_.now()) {
        wake_at(node.not_before_s);
        continue;
      }
      if (busy_.count(task.plan_key) != 0 || busy_.count(node.key) != 0) continue;
      if (refused_.size() < 64 && std::any_of(refused_.begin(), refused_.end(), [&](const Resources* demand) {
            return demand->cpus <= task.resources.cpus && demand->mem_bytes <= task.resources.mem_bytes &&
                   demand->gpus <= task.resources.gpus && demand->pools == task.resources.pools;
          })) {
        continue;  // no smaller than one that did not fit a moment ago
      }
      // Another task may have published the same key meanwhile.
      if (!node.forced && look_up(i)) continue;
      auto slot = slots_.take(task.resources, node.mem_factor, &gpu_leases_);
      if (!slot) {
        refused_.push_back(&task.resources);
        starved = true;
        continue;
      }
      if (!start(i, *slot)) give_back(*slot);
      if (no_new_starts_) break;
    }
    refused_.clear();
    if (starved && running_.empty()) wake_at(runner_.now() + 1);  // GPUs that another program holds
  }

  void wake_at(double when_s) {
    if (next_wake_s_ < 0 || when_s < next_wake_s_) next_wake_s_ = when_s;
  }

  void give_back(const Slot& slot) {
    for (const std::string& id : slot.gpus) gpu_leases_.give_back(id);
    slots_.give_back(slot);
  }

  /// False when the task did not start; it is then failed, or ready again later.
  bool start(std::size_t i, const Slot& slot) {
    Node& node = nodes_[i];
    const Task& task = graph_.tasks[i];
    const double now = runner_.now();
    const auto before = store_.attempts(task.plan_key);
    // A stage of a run that died may still be on its way out. It ends by itself, since its pipe has closed.
    if (const auto orphan = find_orphan(before)) {
      if (node.orphan_since_s < 0) {
        node.orphan_since_s = now;
        emit({"note",
              static_cast<std::int64_t>(i),
              0,
              {{"text",
                cat("waits for process ", orphan->pid, " of an earlier run to leave ", orphan->folder.string())}}});
      } else if (now - node.orphan_since_s > options_.grace_s) {
        end_orphan(*orphan);
      }
      node.not_before_s = now + 0.2;
      wake_at(node.not_before_s);
      return false;
    }
    Active active;
    Launch launch;
    try {
      active.task = i;
      active.slot = slot;
      active.folder = store_.new_attempt(task.plan_key, &active.attempt);
      node.number = active.attempt;
      if (node.first_number == 0) node.first_number = active.attempt;
      active.started_s = now;
      active.started_unix = unix_time();
      active.started_step = node.attempts.last_step;
      active.step = node.attempts.last_step;
      for (const std::size_t k : task.is_trajectory() ? needed_snapshots(i) : std::vector<std::size_t>()) {
        const std::string& label = task.snapshots[k].label;
        if (node.forced ? node.fresh.count(label) == 0 : node.snapshots.count(label) == 0)
          active.snapshots.push_back(k);
      }
      launch.ticket = ++last_ticket_;
      launch.directory = active.folder;
      launch.log = active.folder / "stage.log";
      const fs::path description = active.folder / "task.json";
      const Json document = task_document(i, active, before);
      active.resumed = !document["resume"].is_null();
      support::write_file_atomically(description, document.dump(1) + "\n", false);
      launch.arguments = {task.stage->executable, "--task", description.string()};
      launch.environment = stage_environment(slot.gpus);
    } catch (const support::IoError& error) {
      store_failed(error.diagnostics().front().message);
      return false;
    } catch (const support::ArtifactError& error) {
      if (!repair_inputs(i, active)) fail(i, Outcome::kInput, error.diagnostics().front().message, {});
      return false;
    }
    try {
      runner_.start(launch);
    } catch (const support::IoError& error) {
      after_failure(i, active, Outcome::kNode, error.diagnostics().front().message, false);
      return false;
    }
    guarded([&] { write_owner(active.folder, runner_.pid(launch.ticket)); });
    set_phase(i, TaskPhase::kRunning);
    busy_.insert(task.plan_key);
    if (!task.is_trajectory()) busy_.insert(node.key);
    Json detail{{"key", node.key},           {"work", active.folder.string()}, {"cpus", slot.cpus},
                {"resumed", active.resumed}, {"log", launch.log.string()},     {"pid", runner_.pid(launch.ticket)}};
    if (!slot.gpus.empty()) detail["gpus"] = slot.gpus;
    const int attempt = active.attempt;
    running_.emplace(launch.ticket, std::move(active));
    emit({"start", static_cast<std::int64_t>(i), attempt, std::move(detail)});
    return true;
  }

  static std::string file_name(const OutputDescription& output) {
    return output.name + (artifact::is_collection(output.kind) ? "" : ".h5");
  }

  Json task_document(std::size_t i, const Active& active, const std::vector<fs::path>& before) const {
    const Task& task = graph_.tasks[i];
    const Node& node = nodes_[i];
    Json inputs = Json::object();
    Json missing = Json::object();
    for (const InputDescription& input : task.stage->inputs) inputs[input.name] = Json::array();
    std::size_t record_at = 0;
    for (const Edge& edge : task.inputs) {
      const InputRecord& record = node.input_records.at(record_at++);
      if (!record.missing.empty()) {
        missing[edge.role].push_back(
            {{"producer", record.producer}, {"labels", record.labels}, {"reason", record.missing}});
        continue;
      }
      const Result& result = *result_of(edge);
      const OutputRecord& output = *result.output(edge.output);
      Json& list = inputs[edge.role];
      const fs::path folder = active.folder / "inputs" / cat(edge.role, "-", list.size());
      Json item{{"path", store_.materialise(output, folder).string()},
                {"kind", output.kind},
                {"digest", output.content},
                {"labels", edge.labels}};
      if (result.status == ResultStatus::kDiverged) item["status"] = "diverged";
      list.push_back(std::move(item));
    }
    Json config = task.config;
    fill_workers(task.stage->fields, active.slot.cpus, config);
    Json document{
        {"schema", "pe-task/1"},          {"stage", task.stage->name},   {"key", node.key},
        {"config", std::move(config)},    {"inputs", std::move(inputs)}, {"outputs", Json::object()},
        {"work", active.folder.string()}, {"resume", nullptr},           {"events_fd", Launch::kEventsDescriptor}};
    if (!missing.empty()) document["missing"] = std::move(missing);
    if (!task.checkpoint.empty()) document["checkpoint"] = task.checkpoint;
    const fs::path out = active.folder / "out";
    support::make_folders(out);
    if (task.is_trajectory()) {
      Json snapshots = Json::array();
      for (const std::size_t k : active.snapshots) {
        const SnapshotPoint& point = task.snapshots[k];
        Json outputs = Json::object();
        support::make_folders(out / point.label);
        for (const OutputDescription& output : task.stage->outputs) {
          outputs[output.name] = (out / point.label / file_name(output)).string();
        }
        snapshots.push_back({{"label", point.label}, {"step", point.step}, {"outputs", std::move(outputs)}});
      }
      document["snapshots"] = std::move(snapshots);
    } else {
      for (const OutputDescription& output : task.stage->outputs) {
        document["outputs"][output.name] = (out / file_name(output)).string();
      }
    }
    if (options_.resume && task.stage->resumes) {
      std::vector<fs::path> candidates;
      for (const fs::path& attempt : before) {
        // A forced task must not continue from what it is forced to make again; and a plan key says nothing of
        // contents.
        const int number = std::stoi(attempt.filename().string().substr(1));
        if ((!node.forced || number >= node.first_number) && key_of_attempt(attempt) == node.key)
          candidates.push_back(attempt);
      }
      if (const auto folder = find_resumable(candidates)) document["resume"] = folder->string();
    }
    return document;
  }

  static std::string key_of_attempt(const fs::path& attempt) {
    if (!fs::exists(attempt / "task.json")) return "";
    const Json json = Json::parse(support::read_file(attempt / "task.json"), nullptr, false);
    return json.is_object() ? json.value("key", "") : "";
  }

  /// Unhashed `workers` that are `auto` take the slot's CPUs.
  static void fill_workers(const support::Schema& fields, std::int64_t cpus, Json& config) {
    for (const support::Field& field : fields) {
      if (field.type == support::FieldType::kGroup && config.contains(field.name)) {
        fill_workers(field.fields, cpus, config[field.name]);
      } else if (field.name == "workers" && !field.options.hashed && config.contains("workers") &&
                 config["workers"].is_null()) {
        config["workers"] = cpus;
      }
    }
  }

  // ---- messages of stages -------------------------------------------------------------------------------------------

  void on_message(Active& active, const Json& message) {
    const auto kind = message.find("event");
    const std::string name = kind != message.end() && kind->is_string() ? kind->get<std::string>() : "progress";
    const auto task = static_cast<std::int64_t>(active.task);
    if (name == "progress") {
      active.progress = message;
      if (message.contains("done") && message["done"].is_number_integer() &&
          !active_reports_steps_.count(active.task)) {
        active.step = std::max(active.step, message["done"].get<std::int64_t>());
      }
      return;
    }
    if (name == "snapshot") {
      const Json* number = message.contains("step") && message["step"].is_number_integer() ? &message["step"] : nullptr;
      const std::int64_t step = number ? number->get<std::int64_t>() : -1;
      const bool has_diverged = message.contains("status") && message["status"] == "diverged";
      // Whether divergence may be published is decided when the stage has ended.
      if (has_diverged) return;
      for (const std::size_t k : active.snapshots) {
        if (graph_.tasks[active.task].snapshots[k].step == step) publish_snapshot(active, k, ResultStatus::kDone);
      }
      return;
    }
    if (name == "checkpoint") {
      if (message.contains("step") && message["step"].is_number_integer()) {
        if (active_reports_steps_.insert(active.task).second) active.step = active.started_step;
        active.step = std::max(active.step, message["step"].get<std::int64_t>());
      }
    }
    Json detail = message;
    detail.erase("event");
    emit({name == "end" || name == "plan" || name == "publish" || name == "fail" ? "note" : name, task, active.attempt,
          std::move(detail)});
  }

  // ---- publishing ---------------------------------------------------------------------------------------------------

  Record record_for(const Active& active, std::int64_t step, ResultStatus status) const {
    const Task& task = graph_.tasks[active.task];
    const Node& node = nodes_[active.task];
    Record record;
    record.key = {node.key, step};
    record.plan_key = task.plan_key;
    record.stage = task.stage->name;
    record.version = task.stage->version;
    record.task = task.id;
    record.status = status;
    record.inputs = node.input_records;
    record.preimage = node.preimage;
    record.config = task.config;
    const double now = unix_time();
    record.occasion = {{"run", summary_.run_id},
                       {"host", host_name()},
                       {"started", utc_text(active.started_unix)},
                       {"ended", utc_text(now)},
                       {"wall_s", std::round((now - active.started_unix) * 1e3) / 1e3},
                       {"attempts", active.attempt},
                       {"resumed", active.resumed},
                       {"cpus", active.slot.cpus},
                       {"work", active.folder.string()},
                       {"executable", task.stage->executable},
                       {"build_id", task.stage->build_id},
                       {"pipeline", graph_.name}};
    if (!active.slot.gpus.empty()) record.occasion["gpus"] = active.slot.gpus;
    if (!task.externals.empty()) {
      Json paths = Json::object();
      for (const ExternalInput& external : task.externals) paths[external.field] = external.paths;
      record.occasion["paths"] = std::move(paths);
    }
    return record;
  }

  /// Moves the outputs into the store. Throws ArtifactError for one that is missing or damaged.
  std::vector<OutputRecord> publish_outputs(const Active& active, const std::string& label, bool all) {
    const Task& task = graph_.tasks[active.task];
    std::vector<OutputRecord> outputs;
    for (const OutputDescription& description : task.stage->outputs) {
      fs::path path = active.folder / "out";
      if (!label.empty()) path /= label;
      path /= file_name(description);
      if (!fs::exists(path)) {
        if (!all) continue;
        throw support::ArtifactError(cat("output ", quote(description.name), " is missing: ", path.string()));
      }
      outputs.push_back(store_.publish_output({description.name, description.kind, description.is_volatile, path}));
    }
    return outputs;
  }

  /// Writes the record; afterwards `published` holds what is valid now.
  void commit(const Active& active, Record record, Json detail) {
    const std::size_t i = active.task;
    const Published published = store_.commit(record);
    store_.set_hint(record.plan_key, record.key.key);
    nodes_[i].made = true;
    detail["key"] = record.key.key;
    if (record.key.is_snapshot()) detail["step"] = record.key.step;
    detail["status"] = status_name(record.status);
    std::uint64_t bytes = 0;
    for (const OutputRecord& output : record.outputs) bytes += output.bytes;
    detail["bytes"] = bytes;
    if (published.conflict) {
      ++summary_.conflicts;
      emit({"conflict",
            static_cast<std::int64_t>(i),
            active.attempt,
            {{"key", record.key.key}, {"file", published.conflict_file.string()}, {"first", published.record.task}}});
    }
    detail["same"] = published.existed;
    emit({"publish", static_cast<std::int64_t>(i), active.attempt, std::move(detail)});
  }

  Result known(const Record& record) const {
    const auto found = store_.find(record.key);
    if (found) return *found;
    Result result;
    result.status = record.status;
    result.outputs = record.outputs;
    return result;
  }

  /// False when an output is damaged or the store failed; `why` says so in the first case.
  bool publish_snapshot(Active& active, std::size_t k, ResultStatus status, std::string* why = nullptr) {
    const SnapshotPoint& point = graph_.tasks[active.task].snapshots[k];
    if (active.published.count(k) != 0) return true;
    bool good = true;
    guarded([&] {
      try {
        Record record = record_for(active, point.step, status);
        record.outputs = publish_outputs(active, point.label, status == ResultStatus::kDone);
        commit(active, record, {{"snapshot", point.label}});
        active.published.insert(k);
        nodes_[active.task].snapshots[point.label] = known(record);
        nodes_[active.task].fresh.insert(point.label);
        support::remove_tree(active.folder / "out" / point.label);
      } catch (const support::ArtifactError& error) {
        good = false;
        const std::string text = error.diagnostics().front().message;
        if (why) *why = text;
        emit({"warn",
              static_cast<std::int64_t>(active.task),
              active.attempt,
              {{"text", cat("snapshot ", point.label, " is not whole: ", text)}}});
      }
    });
    if (active.published.count(k) != 0) notify_readers(active.task);
    return good && active.published.count(k) != 0;
  }

  /// Without a run: what reads a diverged artifact has diverged too.
  void inherit_divergence(std::size_t i, const std::string& parent) {
    Active active;
    active.task = i;
    active.started_unix = unix_time();
    const Task& task = graph_.tasks[i];
    Node& node = nodes_[i];
    const bool good = guarded([&] {
      const auto publish = [&](std::int64_t step) {
        Record record = record_for(active, step, ResultStatus::kDiverged);
        record.occasion["inherited_from"] = parent;
        commit(active, record, {{"inherited_from", parent}});
        return known(record);
      };
      if (!task.is_trajectory()) node.result = publish(-1);
      for (const std::size_t k : task.is_trajectory() ? needed_snapshots(i) : std::vector<std::size_t>()) {
        node.snapshots[task.snapshots[k].label] = publish(task.snapshots[k].step);
      }
    });
    if (!good) return;
    node.forced = false;
    set_phase(i, TaskPhase::kDone);
    notify_readers(i);
  }

  // ---- ends of stages -----------------------------------------------------------------------------------------------

  void on_exit(const RunnerEvent& event) {
    const auto found = running_.find(event.ticket);
    if (found == running_.end()) return;
    Active active = std::move(found->second);
    running_.erase(found);
    const std::size_t i = active.task;
    Node& node = nodes_[i];
    const Task& task = graph_.tasks[i];
    give_back(active.slot);
    busy_.erase(task.plan_key);
    busy_.erase(node.key);
    active_reports_steps_.erase(i);
    Outcome outcome = classify(event, active.stop_sent);
    std::string reason = describe_exit(event);
    const bool moved = active.step > node.attempts.last_step;
    node.attempts.last_step = std::max(node.attempts.last_step, active.step);
    write_exit(active, event, outcome);
    emit({"exit",
          static_cast<std::int64_t>(i),
          active.attempt,
          {{"code", event.code},
           {"signal", event.signal},
           {"class", outcome_name(outcome)},
           {"wall_s", event.wall_s},
           {"cpu_s", event.cpu_s},
           {"peak_rss_bytes", event.peak_rss_bytes}}});

    if (outcome == Outcome::kDiverged && !task.record_divergence) {
      after_failure(i, active, outcome, "training diverged, and on_diverge is 'fail'", false);
      return;
    }
    if (outcome == Outcome::kDone || outcome == Outcome::kDiverged) {
      finish(active, event, outcome);
      return;
    }
    if (outcome == Outcome::kInput && repair_inputs(i, active)) return;
    if (outcome == Outcome::kInput) reason += "; the store's copies of its inputs are whole";
    after_failure(i, active, outcome, reason, moved);
  }

  void finish(Active& active, const RunnerEvent& event, Outcome outcome) {
    const std::size_t i = active.task;
    const Task& task = graph_.tasks[i];
    Node& node = nodes_[i];
    const ResultStatus status = outcome == Outcome::kDone ? ResultStatus::kDone : ResultStatus::kDiverged;
    std::string broken;
    bool stored = true;
    if (task.is_trajectory()) {
      for (const std::size_t k : active.snapshots) {
        // What was announced is published already; a stage may also just end with its files in place.
        std::string why;
        if (active.published.count(k) == 0 && !publish_snapshot(active, k, status, &why)) {
          if (!summary_.store_error.empty())
            stored = false;
          else
            broken = why;
          break;
        }
      }
    } else {
      stored = guarded([&] {
        try {
          Record record = record_for(active, -1, status);
          record.outputs = publish_outputs(active, "", status == ResultStatus::kDone);
          record.occasion["cpu_s"] = event.cpu_s;
          record.occasion["peak_rss_bytes"] = event.peak_rss_bytes;
          commit(active, record, Json::object());
          node.result = known(record);
        } catch (const support::ArtifactError& error) {
          broken = error.diagnostics().front().message;
        }
      });
    }
    if (!stored) {
      node.reason = "its outputs could not be published";
      set_phase(i, TaskPhase::kInterrupted);
      return;
    }
    if (!broken.empty()) {
      after_failure(i, active, Outcome::kBroken, cat("it ended well, but ", broken), false);
      return;
    }
    clean_up(task);
    ++summary_.executed;
    auto& [sum, count] = known_labels_[task.label];
    sum += event.wall_s;
    ++count;
    node.forced = false;
    set_phase(i, TaskPhase::kDone);
    notify_readers(i);
  }

  /// After a success: logs stay, the rest goes. A trajectory keeps its newest checkpoints, since a later step continues
  /// from there.
  void clean_up(const Task& task) {
    try {
      const auto attempts = store_.attempts(task.plan_key);
      const auto keep = task.is_trajectory() ? find_resumable(attempts) : std::nullopt;
      for (const fs::path& attempt : attempts) strip_attempt(attempt, keep && *keep == attempt);
    } catch (const support::IoError& error) {
      emit({"warn", -1, 0, {{"text", cat("could not tidy a work folder: ", error.diagnostics().front().message)}}});
    }
  }

  void write_exit(const Active& active, const RunnerEvent& event, Outcome outcome) {
    const Json json{{"schema", "pe-exit/1"},
                    {"code", event.code},
                    {"signal", event.signal},
                    {"class", outcome_name(outcome)},
                    {"wall_s", event.wall_s},
                    {"cpu_s", event.cpu_s},
                    {"peak_rss_bytes", event.peak_rss_bytes},
                    {"ended", utc_text(unix_time())},
                    {"step", active.step}};
    try {
      support::write_file_atomically(active.folder / "exit.json", json.dump(1) + "\n", false);
    } catch (const support::IoError&) {
      // Told by the journal as well.
    }
  }

  void after_failure(std::size_t i, const Active& active, Outcome outcome, const std::string& reason, bool moved) {
    Node& node = nodes_[i];
    const Task& task = graph_.tasks[i];
    try {
      // Half-written outputs are of no use to anyone; checkpoints and the log stay for the next attempt.
      support::remove_tree(active.folder / "out");
      support::remove_tree(active.folder / "inputs");
    } catch (const support::IoError&) {
    }
    Decision decision = decide(outcome, task.retry, node.attempts, moved);
    const auto id = static_cast<std::int64_t>(i);
    if (decision.kind == Decision::Kind::kStop) {
      if (summary_.store_error.empty()) summary_.store_error = cat(task.id, " could not read or write (exit code 74)");
      fail(i, outcome, reason + ": reading or writing failed, or the disk is full", active.folder);
      no_new_starts_ = true;
      return;
    }
    const bool stopping = stop_level_ > 0 || active.stop_sent;
    if (stopping && decision.kind != Decision::Kind::kFail) {
      node.reason = reason;
      set_phase(i, TaskPhase::kInterrupted);
      ++summary_.interrupted;
      notify_readers(i);
      return;
    }
    switch (decision.kind) {
      case Decision::Kind::kRequeue:
        node.attempts.requeued = moved ? 0 : node.attempts.requeued + 1;
        if (node.attempts.requeued > 2) {
          fail(i, Outcome::kNoProgress, cat(reason, " three times without a step"), active.folder);
          return;
        }
        emit({"requeue", id, active.attempt, {{"class", outcome_name(outcome)}, {"step", active.step}}});
        again(i, 0);
        return;
      case Decision::Kind::kRetry:
        ++node.attempts.failed;
        node.mem_factor *= decision.mem_factor;
        emit({"retry",
              id,
              active.attempt,
              {{"class", outcome_name(outcome)},
               {"reason", reason},
               {"delay_s", decision.delay_s},
               {"log", (active.folder / "stage.log").string()}}});
        again(i, decision.delay_s);
        return;
      default:
        fail(i, outcome == Outcome::kCheckpointed ? Outcome::kNoProgress : outcome,
             outcome == Outcome::kCheckpointed ? reason + " twice without a step" : reason, active.folder);
    }
  }

  void again(std::size_t i, double delay_s) {
    nodes_[i].not_before_s = runner_.now() + delay_s;
    set_phase(i, TaskPhase::kWaiting);
    set_phase(i, TaskPhase::kReady);
  }

  /// Exit 3: looks whether an input is damaged. If so its producer runs once more, and this task after it.
  bool repair_inputs(std::size_t i, const Active& active) {
    Node& node = nodes_[i];
    if (node.input_repairs >= 1) return false;
    const Task& task = graph_.tasks[i];
    std::set<std::size_t> producers;
    const bool good = guarded([&] {
      for (const Edge& edge : task.inputs) {
        const Result* result = result_of(edge);
        const OutputRecord* output = result ? result->output(edge.output) : nullptr;
        if (!output) continue;
        const auto bad = store_.damaged(*output);
        if (bad.empty()) continue;
        for (const std::string& digest : bad) store_.discard_object(digest);
        producers.insert(edge.producer);
        emit({"warn",
              static_cast<std::int64_t>(edge.producer),
              0,
              {{"text", cat("its output ", quote(edge.output), " was damaged in the store and is made again")}}});
        Node& producer = nodes_[edge.producer];
        if (edge.snapshot.empty())
          producer.result.reset();
        else
          producer.snapshots.erase(edge.snapshot);
      }
      support::remove_tree(active.folder / "out");
      support::remove_tree(active.folder / "inputs");
    });
    if (!good || producers.empty()) return false;
    ++node.input_repairs;
    emit({"retry",
          static_cast<std::int64_t>(i),
          active.attempt,
          {{"class", "input"}, {"reason", "a damaged input"}, {"delay_s", 0}}});
    set_phase(i, TaskPhase::kWaiting);
    for (const std::size_t producer : producers) {
      nodes_[producer].made = false;
      if (nodes_[producer].phase != TaskPhase::kRunning) {
        set_phase(producer, TaskPhase::kWaiting);
        evaluate(producer);
      }
    }
    return true;
  }

  // ---- the loop -----------------------------------------------------------------------------------------------------

  void stop_stages(int signal) {
    for (auto& [ticket, active] : running_) {
      active.stop_sent = true;
      runner_.signal(ticket, signal);
    }
  }

  void poll_stop() {
    const int level = stop_ ? stop_() : 0;
    if (level > 0 && stop_level_ == 0) {
      stop_level_ = 1;
      state_.stopping = true;
      stop_since_s_ = runner_.now();
      emit({"stop", -1, 0, {{"level", 1}, {"running", running_.size()}}});
      stop_stages(SIGTERM);
    }
    if (level > 1 && stop_level_ == 1) {
      stop_level_ = 2;
      emit({"stop", -1, 0, {{"level", 2}, {"running", running_.size()}}});
      stop_stages(SIGKILL);
    }
    const bool asked = stop_level_ == 1 || !summary_.store_error.empty();
    if (asked && stop_since_s_ < 0) stop_since_s_ = runner_.now();
    if (asked && !grace_over_ && stop_since_s_ >= 0 && runner_.now() - stop_since_s_ > options_.grace_s &&
        !running_.empty()) {
      grace_over_ = true;
      emit({"warn",
            -1,
            0,
            {{"text",
              cat("stages did not stop within ", support::short_duration(options_.grace_s), "; killing them")}}});
      stop_stages(SIGKILL);
    }
  }

  void loop() {
    double last_tick = 0;
    double last_progress = runner_.now();
    while (true) {
      poll_stop();
      start_ready();
      if (running_.empty() && (queue_->empty() || no_new_starts_ || stop_level_ > 0)) break;
      double timeout = kTick;
      if (running_.empty() && next_wake_s_ >= 0) timeout = std::clamp(next_wake_s_ - runner_.now(), 0.001, kTick);
      for (const RunnerEvent& event : runner_.wait(timeout)) {
        if (event.kind == RunnerEvent::Kind::kExit) {
          on_exit(event);
          continue;
        }
        const auto found = running_.find(event.ticket);
        if (found != running_.end()) on_message(found->second, event.message);
      }
      const double now = runner_.now();
      if (now - last_tick >= kTick) {
        last_tick = now;
        refresh_state();
        listener_.on_tick(state_);
        if (now - last_progress >= 1) {
          last_progress = now;
          folder_->write_progress(state_);
        }
      }
    }
  }

  void refresh_state() {
    state_.now_s = runner_.now();
    state_.running.clear();
    for (const auto& [ticket, active] : running_) {
      state_.running.push_back({active.task, active.attempt, active.started_s, active.progress});
    }
    state_.eta_s = estimate();
  }

  /// Seconds to the end, from what tasks of each stage took; -1 when some stage never ran.
  double estimate() const {
    double total = 0, longest = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const TaskPhase phase = nodes_[i].phase;
      if (phase != TaskPhase::kWaiting && phase != TaskPhase::kReady && phase != TaskPhase::kRunning) continue;
      const auto label = known_labels_.find(graph_.tasks[i].label);
      if (label == known_labels_.end()) return -1;
      total += label->second.first / label->second.second;
      longest = std::max(longest, queue_->remaining(i));
    }
    for (const auto& [ticket, active] : running_) {
      const auto label = known_labels_.find(graph_.tasks[active.task].label);
      total -= std::min(runner_.now() - active.started_s, label->second.first / label->second.second);
    }
    return std::max({total / static_cast<double>(std::max<std::size_t>(1, running_.size())), 0.0});
  }

  // ---- the end ------------------------------------------------------------------------------------------------------

  RunSummary end() {
    std::vector<ViewItem> items;
    std::size_t unfinished = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      summary_.phases.push_back(node.phase);
      if (node.phase == TaskPhase::kSkipped) continue;
      if (node.phase == TaskPhase::kReused) ++summary_.reused;
      if (node.phase == TaskPhase::kBlocked) ++summary_.blocked;
      if (node.phase == TaskPhase::kWaiting || node.phase == TaskPhase::kReady || node.phase == TaskPhase::kInterrupted)
        ++unfinished;
      if (node.result) {
        for (const OutputRecord& output : node.result->outputs) items.push_back({i, "", output});
      }
      for (const auto& [label, result] : node.snapshots) {
        for (const OutputRecord& output : result.outputs) items.push_back({i, label, output});
      }
    }
    if (summary_.store_error.empty()) {
      guarded([&] {
        const fs::path root = graph_.root;
        write_view(graph_, store_, items, root / "out");
        summary_.reports = write_reports(graph_, store_, items, root / "reports", summary_.run_id);
        if (options_.whole) write_view_mark(graph_, root / "out", summary_.reports);
      });
    }
    if (stop_level_ == 2)
      summary_.exit_code = kRunInterrupted;
    else if (!summary_.store_error.empty())
      summary_.exit_code = kRunStore;
    else if (summary_.failed > 0)
      summary_.exit_code = kRunFailed;
    else if (summary_.conflicts > 0 && options_.strict)
      summary_.exit_code = kRunMismatch;
    else if (summary_.blocked > 0 || unfinished > 0)
      summary_.exit_code = kRunIncomplete;
    summary_.wall_s = runner_.now() - started_s_;
    refresh_state();
    try {
      folder_->write_progress(state_);
      folder_->write_summary(graph_, summary_);
    } catch (const support::IoError& error) {
      if (summary_.store_error.empty()) summary_.store_error = error.diagnostics().front().message;
      if (summary_.exit_code == kRunDone) summary_.exit_code = kRunStore;
    }
    emit({"end", -1, 0, to_json(graph_, summary_)});
    return std::move(summary_);
  }

  const Graph& graph_;
  const Plan& plan_;
  Store& store_;
  Runner& runner_;
  RunListener& listener_;
  const RunOptions& options_;
  const StopFunction& stop_;
  Slots slots_;
  GpuLeases gpu_leases_;
  std::vector<Node> nodes_;
  std::vector<std::vector<std::size_t>> readers_;
  std::map<std::size_t, std::vector<std::size_t>> twins_;  // task → tasks that wait for it, having its plan key
  std::vector<double> seconds_;
  mutable std::map<std::string, std::pair<double, int>> known_labels_;  // stage label → (seconds, tasks)
  std::optional<ReadyQueue> queue_;
  std::unique_ptr<RunFolder> folder_;
  std::map<std::uint64_t, Active> running_;
  std::multiset<std::string> busy_;             // plan and task keys at work
  std::set<std::size_t> active_reports_steps_;  // tasks that report checkpoints
  std::vector<const Resources*> refused_;
  std::uint64_t last_ticket_ = 0;
  double started_s_ = 0;
  double next_wake_s_ = -1;
  double stop_since_s_ = -1;
  int stop_level_ = 0;
  bool grace_over_ = false;
  bool no_new_starts_ = false;
  bool journal_failed_ = false;
  RunState state_;
  RunSummary summary_;
};

}  // namespace

RunSummary run(const Graph& graph, const Plan& plan, Store& store, Runner& runner, RunListener& listener,
               const RunOptions& options, const StopFunction& stop) {
  return Run(graph, plan, store, runner, listener, options, stop).go();
}

}  // namespace pe::pipeline

/// @file
/// Common code of simulations: small pipelines, stages that take time and fail, and invariants that must hold.
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/plan/key.h"
#include "pipeline/run/run.h"
#include "pipeline/run/run_fixture.h"
#include "pipeline/run/stage_event.h"
#include "pipeline/simulation/world.h"
#include "support/error.h"
#include "support/fake_runner.h"
#include "support/files.h"

namespace pe::test {

namespace fs = std::filesystem;

// ---- pipelines
// --------------------------------------------------------------------------------------------------------

/// Task i reads those before it whose bit is set in `needs[i]`.
using Shape = std::vector<unsigned>;

inline std::string text_of(const Shape& shape) {
  std::string text;
  for (const unsigned needs : shape) text += (text.empty() ? "" : " ") + std::to_string(needs);
  return text;
}

/// @param salt  tells editions of a pipeline apart
/// @param long_names  as long as names may be, so that those for people are longer than a file's
inline pipeline::Graph graph_of(const Shape& shape, const fs::path& root, const std::string& salt = "",
                                bool long_names = false,
                                std::shared_ptr<const pipeline::StageDescription> stage = nullptr) {
  static const std::shared_ptr<const pipeline::StageDescription> fake = fake_stage();
  if (!stage) stage = fake;
  pipeline::Graph graph;
  graph.name = "small";
  graph.root = root.string();
  for (std::size_t i = 0; i < shape.size(); ++i) {
    pipeline::Task task;
    task.id = task.label = "t" + std::to_string(i);
    task.stage = stage;
    task.config = Json{{"name", task.label}, {"salt", salt}};
    for (const char* axis : {"w", "x", "y", "z"}) {
      if (long_names) task.axes.emplace_back(axis, std::string(64, 'a'));
    }
    pipeline::RetryPolicy retry;
    retry.max = 3;
    task.retry = retry;
    for (std::size_t producer = 0; producer < i; ++producer) {
      if ((shape[i] >> producer & 1u) == 0) continue;
      task.inputs.push_back({"in", producer, "out", ""});
    }
    graph.stage_labels.push_back(task.label);
    graph.tasks.push_back(std::move(task));
  }
  pipeline::compute_plan_keys(graph);
  return graph;
}

// ---- stages
// -----------------------------------------------------------------------------------------------------------

/// Outputs as a stage would write them; each is made once and copied then.
inline void write_outputs(const FakeAttempt& attempt) {
  static std::map<std::string, std::string> made;
  const Quiet quiet;
  std::string& bytes = made[attempt.task.at("key").get<std::string>()];
  const fs::path out = attempt.task.at("outputs").at("out").get<std::string>();
  if (bytes.empty()) {
    write_all_outputs(attempt);
    bytes = support::read_file(out);
    fs::remove(out);
  }
  support::append_file(out, bytes);
}

/// Common state of all runs of a schedule.
struct Ledger {
  std::multiset<std::string> at_work;  ///< keys
  std::map<std::string, int> started;  ///< by key
  std::set<std::string> announced;     ///< keys whose record a run has announced
  std::vector<std::string> wrongs;
  std::function<Json()> talk;                     ///< events of stages; empty: none
  std::function<void(const FakeAttempt&)> begun;  ///< a stage has just started
  std::function<void(const FakeAttempt&)> write;  ///< and writes its outputs; empty: write_outputs
  bool strict = true;                             ///< no process sleeps past a lease, no name comes late
  void wrong(const std::string& what) { wrongs.push_back(what); }
};

/// How stages end.
enum class Endings {
  kByChance,
  kInEveryOrder,  ///< each choice of who ends next, well or not, and a crash instead
  kCalmly,        ///< in the order in which they began, well
};

/// Stages that take time, fail, and end in any order; they die with their host.
class SimulatedRunner : public pipeline::Runner {
 public:
  SimulatedRunner(World& world, Ledger& ledger, const fs::path& store, Endings endings, double failing,
                  std::size_t longest_s = 40)
      : world_(world), ledger_(ledger), store_(store), endings_(endings), failing_(failing), longest_s_(longest_s) {}
  ~SimulatedRunner() override {
    for (const auto& [ticket, attempt] : running_) leave(attempt);
  }

  void start(const pipeline::Launch& launch) override {
    if (World::moving()->dead) throw Crashed();
    const Quiet quiet;
    FakeAttempt attempt;
    attempt.ticket = launch.ticket;
    attempt.launch = launch;
    attempt.folder = launch.directory;
    attempt.task = Json::parse(support::read_file(launch.directory / "task.json"));
    const std::string key = attempt.task.at("key");
    if (ledger_.strict) {
      if (ledger_.at_work.count(key) != 0) ledger_.wrong("two stages at work on " + key);
      if (fs::exists(store_ / "tasks" / key.substr(0, 2) / (key + ".json")))
        ledger_.wrong("a stage was started for a result that is there: " + key);
    }
    ledger_.at_work.insert(key);
    ++ledger_.started[key];
    attempt.seconds =
        world_.now() +
        (endings_ == Endings::kByChance ? 1.0 + static_cast<double>(world_.choices().pick(longest_s_)) : 1.0);
    if (ledger_.begun) ledger_.begun(attempt);
    running_.emplace(launch.ticket, std::move(attempt));
  }

  std::vector<pipeline::RunnerEvent> wait(double timeout_s) override {
    std::vector<pipeline::RunnerEvent> out;
    for (const auto& [ticket, signal] : signals_) end(ticket, signal == SIGTERM ? 75 : 128 + signal, out);
    signals_.clear();
    if (!out.empty()) return out;
    talk(out);
    if (!out.empty()) return out;
    if (endings_ == Endings::kInEveryOrder) return wait_for_any(timeout_s);
    double until = world_.now() + (timeout_s < 0 ? 1e5 : timeout_s);
    for (const auto& [ticket, attempt] : running_) until = std::min(until, attempt.seconds);
    if (world_.choices().chance(world_.faults().pause)) {
      until = world_.now() + 300;
      ++world_.happened.pauses;
    }
    world_.sleep_until(until);
    if (World::moving()->dead) throw Crashed();
    for (const auto& [ticket, attempt] : running_) {
      if (attempt.seconds > world_.now()) continue;
      const bool fails = world_.choices().chance(failing_);
      end(ticket, fails ? (world_.choices().pick(2) == 0 ? 69 : 1) : 0, out);
      break;
    }
    return out;
  }

  void signal(std::uint64_t ticket, int signal) override {
    if (running_.count(ticket)) signals_[ticket] = signal;
  }
  double now() const override { return world_.now(); }

 private:
  /// Now and then every stage writes an event.
  void talk(std::vector<pipeline::RunnerEvent>& out) {
    if (!ledger_.talk || !world_.choices().chance(0.3)) return;
    for (const auto& [ticket, attempt] : running_) {
      const auto message =
          pipeline::parse_stage_event(ledger_.talk().dump(-1, ' ', false, Json::error_handler_t::replace));
      if (!message) continue;
      pipeline::RunnerEvent event;
      event.ticket = ticket;
      event.message = *message;
      out.push_back(std::move(event));
    }
  }

  /// Every choice of the next event: each of the running stages ends well or fails for good, or the run crashes.
  std::vector<pipeline::RunnerEvent> wait_for_any(double timeout_s) {
    std::vector<pipeline::RunnerEvent> out;
    if (running_.empty()) {
      world_.sleep_until(world_.now() + (timeout_s < 0 ? 1e5 : timeout_s));
      return out;
    }
    if (timeout_s == 0) return out;
    const std::size_t choice = world_.choices().pick(2 * running_.size() + 1);
    if (choice == 2 * running_.size()) {
      World::moving()->dead = true;
      throw Crashed();
    }
    auto at = running_.begin();
    std::advance(at, choice / 2);
    end(at->first, choice % 2 == 0 ? 0 : 2, out);
    return out;
  }

  void leave(const FakeAttempt& attempt) {
    const auto found = ledger_.at_work.find(attempt.task.at("key").get<std::string>());
    if (found != ledger_.at_work.end()) ledger_.at_work.erase(found);
  }

  void end(std::uint64_t ticket, int code, std::vector<pipeline::RunnerEvent>& out) {
    const auto found = running_.find(ticket);
    if (found == running_.end()) return;
    if (code == 0) {
      try {
        if (ledger_.write)
          ledger_.write(found->second);
        else
          write_outputs(found->second);
      } catch (const support::IoError&) {
        code = 74;  // its folder went, since another run took the task over
      }
    }
    leave(found->second);
    running_.erase(found);
    pipeline::RunnerEvent event;
    event.ticket = ticket;
    event.kind = pipeline::RunnerEvent::Kind::kExit;
    event.code = code;
    event.wall_s = 1;
    out.push_back(std::move(event));
  }

  World& world_;
  Ledger& ledger_;
  fs::path store_;
  Endings endings_;
  double failing_;
  std::size_t longest_s_;
  std::map<std::uint64_t, FakeAttempt> running_;  // `seconds` is when it ends
  std::map<std::uint64_t, int> signals_;
};

/// A folder in memory where there is one; always the same name, so that a schedule is the same again.
inline fs::path scene_folder() {
  static const fs::path* folder = [] {
    const fs::path base = fs::is_directory("/dev/shm") ? fs::path("/dev/shm") : fs::temp_directory_path();
    return new fs::path(base / ("pe-simulation-" + std::to_string(::getpid())));
  }();
  return *folder;
}

struct Cleaner {
  ~Cleaner() { fs::remove_all(scene_folder()); }
};
inline Cleaner cleaner;

inline std::uint64_t number_from(const char* name, std::uint64_t otherwise) {
  const char* text = ::getenv(name);
  return text ? std::strtoull(text, nullptr, 10) : otherwise;
}

}  // namespace pe::test

/// @file
/// A runner without processes: each started task is given to a function that plays the stage, and the test advances the
/// clock. Tests of the executing loop take milliseconds with it.
#pragma once

#include <algorithm>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "artifact/collection.h"
#include "artifact/metrics.h"
#include "pipeline/run/runner.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/json.h"

namespace pe::test {

/// One started attempt, as the fake stage sees it.
struct FakeAttempt {
  std::uint64_t ticket = 0;
  Json task;  ///< task.json
  std::filesystem::path folder;
  pipeline::Launch launch;
  std::vector<Json> messages;  ///< to send before the exit
  int code = 0;                ///< of the exit
  int signal = 0;
  bool out_of_memory = false;
  double seconds = 1;  ///< how long it takes on the fake clock
  bool stays = false;  ///< never ends by itself, only on a signal

  const Json& config() const { return task.at("config"); }
};

/// Writes a metrics artifact whose content is `state`.
inline void write_fake_output(const std::filesystem::path& path, const std::string& state,
                              const std::string& key = "") {
  artifact::Recipe recipe;
  recipe.stage = "fake";
  recipe.task_key = key;
  recipe.config = Json::object();
  recipe.inputs = Json::object();
  artifact::Tables tables;
  tables.facts = {{"state", state}};
  artifact::Table table("fake", {{"x", artifact::ColumnType::kInteger, ""}});
  table.add_row({1});
  tables.tables.push_back(std::move(table));
  artifact::write_metrics(path, recipe, tables);
}

/// Writes every output of a task: contents derive from its config and the digests of its inputs.
inline void write_all_outputs(const FakeAttempt& attempt, const std::string& salt = "") {
  std::string state = attempt.config().dump() + salt;
  for (const auto& [role, list] : attempt.task.at("inputs").items()) {
    for (const Json& input : list) state += role + input.at("digest").get<std::string>();
  }
  for (const auto& [role, path] : attempt.task.at("outputs").items()) {
    write_fake_output(path.get<std::string>(), support::sha256_hex(state + role), attempt.task.at("key"));
  }
  if (!attempt.task.contains("snapshots")) return;
  for (const Json& snapshot : attempt.task.at("snapshots")) {
    for (const auto& [role, path] : snapshot.at("outputs").items()) {
      write_fake_output(path.get<std::string>(), support::sha256_hex(state + role + snapshot.at("step").dump()),
                        attempt.task.at("key"));
    }
  }
}

class FakeRunner : public pipeline::Runner {
 public:
  using Stage = std::function<void(FakeAttempt&)>;
  explicit FakeRunner(Stage stage) : stage_(std::move(stage)) {}

  void start(const pipeline::Launch& launch) override {
    FakeAttempt attempt;
    attempt.ticket = launch.ticket;
    attempt.launch = launch;
    attempt.folder = launch.directory;
    attempt.task = Json::parse(support::read_file(launch.directory / "task.json"));
    started.push_back(attempt.task.at("config").value("name", ""));
    support::write_file_atomically(launch.log, "the log of " + started.back() + "\n", false);
    stage_(attempt);
    most_at_once = std::max(most_at_once, running_.size() + 1);
    ends_[attempt.ticket] = now_ + attempt.seconds;
    running_.emplace(launch.ticket, std::move(attempt));
  }

  std::vector<pipeline::RunnerEvent> wait(double timeout_s) override {
    std::vector<pipeline::RunnerEvent> out;
    if (!signals_.empty()) {
      // A stage that is asked to stop does so with the next event.
      for (const auto& [ticket, signal] : signals_) end(ticket, signal, out);
      signals_.clear();
      return out;
    }
    for (auto& [ticket, attempt] : running_) flush(attempt, out);
    if (!out.empty()) return out;
    std::uint64_t next = 0;
    double when = now_ + (timeout_s < 0 ? 1e9 : timeout_s);
    for (const auto& [ticket, at] : ends_) {
      if (!running_.at(ticket).stays && at <= when) {
        next = ticket;
        when = at;
      }
    }
    now_ = when;
    if (next != 0) end(next, 0, out);
    return out;
  }

  void signal(std::uint64_t ticket, int signal) override {
    signalled.push_back(signal);
    if (running_.count(ticket)) signals_[ticket] = signal;
  }
  double now() const override { return now_; }

  std::vector<std::string> started;  ///< config "name" of each attempt, in order
  std::vector<int> signalled;
  std::size_t most_at_once = 0;
  /// How a stage ends when it is asked to stop; the default is a checkpoint.
  int code_on_term = 75;

 private:
  void flush(FakeAttempt& attempt, std::vector<pipeline::RunnerEvent>& out) {
    for (Json& message : attempt.messages) {
      pipeline::RunnerEvent event;
      event.ticket = attempt.ticket;
      event.message = std::move(message);
      out.push_back(std::move(event));
    }
    attempt.messages.clear();
  }
  void end(std::uint64_t ticket, int signal, std::vector<pipeline::RunnerEvent>& out) {
    FakeAttempt& attempt = running_.at(ticket);
    flush(attempt, out);
    pipeline::RunnerEvent event;
    event.ticket = ticket;
    event.kind = pipeline::RunnerEvent::Kind::kExit;
    event.code = signal == 15 ? code_on_term : signal != 0 ? 128 + signal : attempt.code;
    event.signal = signal == 15 ? 0 : signal != 0 ? signal : attempt.signal;
    event.out_of_memory = attempt.out_of_memory;
    event.wall_s = attempt.seconds;
    out.push_back(std::move(event));
    running_.erase(ticket);
    ends_.erase(ticket);
  }

  Stage stage_;
  double now_ = 100;
  std::map<std::uint64_t, FakeAttempt> running_;
  std::map<std::uint64_t, double> ends_;
  std::map<std::uint64_t, int> signals_;
};

}  // namespace pe::test

// pe-toy: a stage whose every habit is chosen: how long it takes, how often and how it fails, its outputs. Its
// content is a chain of hashes, a link a step, so a run that was killed and resumed must end at the same value. Built
// three times: as pe-toy; with TOY_VERSION as pe-toy of the next result version; and with TOY_REPORT as pe-toy-report,
// which gathers results into a collection.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "artifact/collection.h"
#include "artifact/metrics.h"
#include "stage/stage_main.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/text.h"

#ifndef TOY_VERSION
#define TOY_VERSION 1
#endif

namespace {

namespace fs = std::filesystem;
using pe::Json;
using pe::artifact::Kind;
using pe::artifact::Workspace;
using pe::support::cat;

struct ToyConfig {
  enum class Shape { kFree, kBound };
  enum class Fail { kNever, kExit, kSignal, kMissing, kGarbage, kDiverge, kHang };
  std::int64_t value = 1;
  std::string text;
  std::vector<std::string> path;
  std::int64_t tokens = 4, batch = 1;
  Shape shape = Shape::kFree;
  // Fields that cannot change the content.
  double step_s = 0;
  Fail fail = Fail::kNever;
  std::int64_t fail_code = 1, fail_attempts = 1'000'000, fail_step = 0, checkpoint_every = 0, workers = 1;

  void describe(pe::support::FieldVisitor& v) {
    v.field("value", value, "A number.");
    v.field("text", text, "A text.");
    v.paths("path", path, "Files whose content counts.");
    v.field("tokens", tokens, "Horizon.", {.unit = "tokens", .min = 1});
    v.field("batch", batch, "Tokens a step.", {.unit = "tokens", .min = 1});
    v.choice("shape", shape, {{"free", Shape::kFree}, {"bound", Shape::kBound}},
             "Whether the horizon shapes the steps.");
    v.field("step_s", step_s, "Time a step takes.", {.unit = "s", .min = 0, .hashed = false});
    v.choice("fail", fail,
             {{"never", Fail::kNever},
              {"exit", Fail::kExit},
              {"signal", Fail::kSignal},
              {"missing", Fail::kMissing},
              {"garbage", Fail::kGarbage},
              {"diverge", Fail::kDiverge},
              {"hang", Fail::kHang}},
             "How it ends.", {.hashed = false});
    v.field("fail_code", fail_code, "Exit code or signal.", {.hashed = false});
    v.field("fail_attempts", fail_attempts, "Only the first attempts fail.", {.hashed = false});
    v.field("fail_step", fail_step, "At which step it fails.", {.hashed = false});
    v.field("checkpoint_every", checkpoint_every, "Steps between checkpoints; 0: only when stopped.",
            {.hashed = false});
    v.field("workers", workers, "Unused.", {.hashed = false});
    v.check(value != 13, "13 is refused, so that a check across fields can be seen");
  }
};

/// Contents of the inputs, in order.
std::string digest_inputs(const Workspace& workspace) {
  std::string all;
  for (const char* role : {"init", "in"}) {
    for (const auto& input : workspace.all_inputs(role)) {
      const auto tables = pe::artifact::read_metrics(input.path);
      all += cat(role, ":", tables.facts.value("state", "?"), "\n");
    }
  }
  return all;
}

#ifndef TOY_REPORT
void write_state(const fs::path& path, const Workspace& workspace, const std::string& state, std::int64_t step) {
  pe::artifact::Tables tables;
  tables.facts = {{"state", state}};
  pe::artifact::Table table("toy", {{"step", pe::artifact::ColumnType::kInteger, "steps"}});
  table.add_row({step});
  tables.tables.push_back(std::move(table));
  pe::artifact::write_metrics(path, workspace.recipe, tables);
}

class Toy {
 public:
  Toy(const ToyConfig& config, Workspace& workspace) : config_(config), workspace_(workspace) {
    // Attempts are distinguished by the folder that pe-pipeline gives: …/a01.
    const std::string name = workspace.work.filename().string();
    attempt_ = name.size() > 1 && name[0] == 'a' ? std::atoi(name.c_str() + 1) : 1;
    std::string files;
    for (const std::string& path : config.path) files += pe::support::read_file(path) + "\n";
    state_ = pe::support::sha256_hex(cat(config.value, "\n", config.text, "\n", files, "\n", digest_inputs(workspace)));
  }

  void run() {
    resume();
    workspace_.progress->note(cat("toy ", config_.value, " from step ", step_, " ", config_.text));
    const std::int64_t end =
        workspace_.snapshots.empty() ? config_.tokens / config_.batch : workspace_.snapshots.back().step;
    std::size_t next = 0;
    while (next < workspace_.snapshots.size() && workspace_.snapshots[next].step < step_) ++next;
    while (true) {
      for (; next < workspace_.snapshots.size() && workspace_.snapshots[next].step == step_; ++next) {
        write_state(workspace_.snapshots[next].outputs.at("out"), workspace_, state_, step_);
        workspace_.progress->event(
            {{"event", "snapshot"}, {"step", step_}, {"label", workspace_.snapshots[next].label}});
      }
      misbehave(next);
      if (step_ >= end) break;
      if (pe::support::stop_requested()) {
        checkpoint();
        throw pe::support::StopRequest(true);
      }
      if (config_.step_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(config_.step_s));
      state_ = pe::support::sha256_hex(cat(state_, ":", ++step_));
      workspace_.progress->advance("step", step_, end, {{"value", config_.value}});
      if (config_.checkpoint_every > 0 && step_ % config_.checkpoint_every == 0) checkpoint();
    }
    if (workspace_.snapshots.empty()) write_state(workspace_.output("out"), workspace_, state_, step_);
  }

 private:
  fs::path state_file(const fs::path& folder) const { return folder / "checkpoints" / "state.json"; }

  void checkpoint() {
    pe::support::make_folders(workspace_.work / "checkpoints");
    pe::support::write_file_atomically(state_file(workspace_.work), Json{{"step", step_}, {"state", state_}}.dump(),
                                       false);
    workspace_.progress->event({{"event", "checkpoint"}, {"step", step_}});
  }

  void resume() {
    if (!workspace_.resume || !fs::exists(state_file(*workspace_.resume))) return;
    const Json saved = Json::parse(pe::support::read_file(state_file(*workspace_.resume)));
    const std::int64_t limit =
        workspace_.snapshots.empty() ? config_.tokens / config_.batch : workspace_.snapshots.front().step;
    if (saved.at("step") > limit) return;
    step_ = saved.at("step");
    state_ = saved.at("state");
  }

  void misbehave(std::size_t next) {
    if (config_.fail == ToyConfig::Fail::kNever || attempt_ > config_.fail_attempts || step_ < config_.fail_step)
      return;
    std::fprintf(stderr, "toy: failing on purpose at step %lld\n", static_cast<long long>(step_));
    switch (config_.fail) {
      case ToyConfig::Fail::kExit:
        if (config_.fail_code == 75) checkpoint();
        std::exit(static_cast<int>(config_.fail_code));
      case ToyConfig::Fail::kSignal:
        ::kill(::getpid(), static_cast<int>(config_.fail_code));
        ::pause();
        break;
      case ToyConfig::Fail::kMissing:
        std::exit(0);
      case ToyConfig::Fail::kGarbage:
        pe::support::write_file_atomically(workspace_.output("out"), "no HDF5\n", false);
        std::exit(0);
      case ToyConfig::Fail::kDiverge:
        for (; next < workspace_.snapshots.size(); ++next) {
          write_state(workspace_.snapshots[next].outputs.at("out"), workspace_, state_, step_);
          workspace_.progress->event(
              {{"event", "snapshot"}, {"step", workspace_.snapshots[next].step}, {"status", "diverged"}});
        }
        if (workspace_.snapshots.empty()) write_state(workspace_.output("out"), workspace_, state_, step_);
        throw pe::support::Error(pe::support::kExitDiverged,
                                 pe::support::Diagnostic{"it diverged, as told", {}, {}, {}});
      case ToyConfig::Fail::kHang:
        // Ends only when its watcher is gone or asks for it.
        while (!pe::support::stop_requested()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        checkpoint();
        throw pe::support::StopRequest(true);
      case ToyConfig::Fail::kNever:
        break;
    }
  }

  const ToyConfig& config_;
  Workspace& workspace_;
  int attempt_ = 1;
  std::int64_t step_ = 0;
  std::string state_;
};

void toy(const ToyConfig& config, Workspace& workspace) { Toy(config, workspace).run(); }
#else
void toy_report(const ToyConfig& config, Workspace& workspace) {
  pe::artifact::CollectionWriter writer(workspace.output("out"), Kind::kReport, workspace.recipe);
  std::string text = cat("# ", config.text, "\n");
  for (const auto& input : workspace.all_inputs("in")) {
    std::string labels;
    for (const auto& [axis, label] : input.labels) labels += cat(" ", axis, "=", label);
    text += cat("-", labels, " ", pe::artifact::read_metrics(input.path).facts.value("state", "?"), "\n");
  }
  pe::support::write_file_atomically(writer.add("report.md"), text, false);
  pe::support::write_file_atomically(
      writer.add("result.txt"),
      cat(workspace.all_inputs("in").size(), " toys were gathered into ", config.text, "\nand that is all\n"), false);
  if (std::int64_t needed = 0; std::sscanf(config.text.c_str(), "until %ld", &needed) == 1) {  // judges claim C1
    const auto count = static_cast<std::int64_t>(workspace.all_inputs("in").size());
    const Json look{{"claim", "C1"},
                    {"verdict", count < needed ? "inconclusive" : "reproduced"},
                    {"look", count - 2},
                    {"looks", 3}};
    pe::support::write_file_atomically(writer.add("report.json"),
                                       Json{{"schema", "pe-report/1"}, {"sequential", look}}.dump(), false);
  }
  pe::support::write_file_atomically(writer.add("data/inputs.txt"),
                                     pe::support::sha256_hex(digest_inputs(workspace)) + "\n", false);
  writer.finish(false);
}
#endif

}  // namespace

int main(int argc, char** argv) {
#ifdef TOY_REPORT
  return pe::stage::run<ToyConfig>(argc, argv,
                                   {.name = "toy-report",
                                    .version = 1,
                                    .summary = "Gathers what pe-toy made.",
                                    .inputs = {{"in", Kind::kMetrics, true, false}},
                                    .outputs = {{"out", Kind::kReport}},
                                    .reads_labels = true},
                                   toy_report);
#else
  return pe::stage::run<ToyConfig>(
      argc, argv,
      {.name = "toy",
       .version = TOY_VERSION,
       .summary = "Behaves and misbehaves as told.",
       .inputs = {{"in", Kind::kMetrics, true, true}, {"init", Kind::kMetrics, false, true}},
       .outputs = {{"out", Kind::kMetrics}},
       .resumes = true,
       .trajectory = pe::stage::Trajectory{"tokens", {"batch"}, {{"shape", "free"}}}},
      toy);
#endif
}

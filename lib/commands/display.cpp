#include "commands/display.h"

#include <cstdio>
#include <ctime>
#include <set>

#include "cli/terminal.h"
#include "commands/display_panel.h"
#include "commands/display_text.h"
#include "commands/session.h"
#include "support/clock.h"
#include "support/json_text.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using pipeline::RunEvent;
using pipeline::RunState;
using support::cat;

class Quiet : public Display {
 public:
  void on_event(const RunEvent& event, const RunState& state) override {
    if (event.name == "fail") say(cli::harmless(render_failure(*state.graph, event, false)));
  }
};

class Plain : public Display {
 public:
  explicit Plain(cli::Style style) : style_(style) {}
  void on_event(const RunEvent& event, const RunState& state) override {
    if (event.name == "fail") {
      say(render_failure(*state.graph, event, style_.color()));
      return;
    }
    if (event.name == "block" && !blocked_.insert(event.detail.dump()).second) {
      ++more_blocked_;  // one failure may block hundreds, for one and the same reason
      return;
    }
    const std::string line = event_line(event, state, style_);
    if (!line.empty()) say(cat(time_text(), " ", line, "\n"));
  }
  void finish() override {
    if (more_blocked_)
      say(cat(time_text(), " ", style_.warn("blocked "), " ", counted(more_blocked_, "more task"), "\n"));
  }
  void on_tick(const RunState& state) override {
    clock_.look(state);
    // A tool that says nothing for long is taken for dead.
    if (state.now_s - last_summary_s_ < 60 && last_summary_s_ > 0) return;
    if (last_summary_s_ == 0) {
      last_summary_s_ = state.now_s;
      return;
    }
    last_summary_s_ = state.now_s;
    say(cat(time_text(), " ", counts_line(state, style_), "\n"));
    for (const auto& running : state.running) {
      say(cat(time_text(), "   ", state.graph->tasks[running.task].id, "  ",
              running_text(state, running, clock_.left_s(state, running), 0), "\n"));
    }
  }

 private:
  static std::string time_text() {
    const std::time_t now = std::time(nullptr);
    std::tm parts{};
    ::localtime_r(&now, &parts);
    char text[16];
    std::strftime(text, sizeof text, "%H:%M:%S", &parts);
    return text;
  }
  cli::Style style_;
  TaskClock clock_;
  std::set<std::string> blocked_;  // reasons
  std::size_t more_blocked_ = 0;
  double last_summary_s_ = 0;
};

class JsonLines : public Display {
 public:
  void on_event(const RunEvent& event, const RunState& state) override {
    Json line = event.detail;
    line["event"] = event.name;
    line["time"] = support::unix_time();
    line["schema_version"] = 1;
    if (event.task >= 0) {
      line["task"] = id_of(state, event);
      line["attempt"] = event.attempt;
    }
    emit(line);
  }
  void on_tick(const RunState& state) override {
    if (state.now_s - last_s_ < 1) return;
    last_s_ = state.now_s;
    Json counts = Json::object();
    for (const auto& [phase, count] : state.counts) {
      if (count) counts[std::string(pipeline::phase_name(phase))] = count;
    }
    Json line{{"event", "state"}, {"schema_version", 1}, {"time", support::unix_time()}, {"counts", std::move(counts)}};
    if (state.eta_s >= 0) line["eta_s"] = state.eta_s;
    emit(line);
    for (const auto& running : state.running) {
      if (running.progress.empty()) continue;
      emit({{"event", "progress"},
            {"schema_version", 1},
            {"time", support::unix_time()},
            {"task", state.graph->tasks[running.task].id},
            {"attempt", running.attempt},
            {"progress", running.progress}});
    }
  }

 private:
  static void emit(const Json& json) {
    print(support::json_text(json) + "\n");
    std::fflush(stdout);
  }
  double last_s_ = 0;
};

}  // namespace

std::unique_ptr<Display> make_display(const cli::CommandLine& line) {
  const cli::Style style = err_style(line);
  if (line.progress == "json") return std::make_unique<JsonLines>();
  if (line.progress == "none") return std::make_unique<Quiet>();
  if (line.progress == "tty" || (line.progress == "auto" && cli::can_draw(2))) return make_panel_display(style, 2);
  return std::make_unique<Plain>(style);
}

}  // namespace pe::commands

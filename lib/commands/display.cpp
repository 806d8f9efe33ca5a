#include "commands/display.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>

#include "cli/color.h"
#include "cli/terminal.h"
#include "commands/session.h"
#include "pipeline/journal.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using pipeline::RunEvent;
using pipeline::RunState;
using pipeline::TaskPhase;
using support::cat;

std::string text_of(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

/// A text of a stage on one line.
std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return cli::harmless(text);
}

double number_of(const Json& json, const char* name, double fallback = 0) {
  const auto found = json.find(name);
  return found != json.end() && found->is_number() ? found->get<double>() : fallback;
}

std::string figure(const Json& value) {
  if (value.is_number_float()) {
    const double real = value.get<double>();
    return std::abs(real) >= 1000 ? support::short_count(real) : fmt::format("{:.4g}", real);
  }
  if (value.is_number_integer()) return support::short_count(value.get<double>());
  return value.is_string() ? value.get<std::string>() : value.dump();
}

const std::string& id_of(const RunState& state, const RunEvent& event) {
  static const std::string none = "run";
  return event.task < 0 ? none : state.graph->tasks[static_cast<std::size_t>(event.task)].id;
}

std::size_t count_of(const RunState& state, TaskPhase phase) {
  const auto found = state.counts.find(phase);
  return found == state.counts.end() ? 0 : found->second;
}

std::string counts_line(const RunState& state, const cli::Style& style) {
  const std::size_t finished = count_of(state, TaskPhase::kDone) + count_of(state, TaskPhase::kReused);
  std::size_t all = 0;
  for (const auto& [phase, count] : state.counts) all += count;
  std::string line = cat(finished, "/", all, " there");
  const auto add = [&](TaskPhase phase, const std::string& text) {
    if (const std::size_t count = count_of(state, phase)) line += cat("  ", count, " ") + text;
  };
  add(TaskPhase::kRunning, "running");
  add(TaskPhase::kReady, "ready");
  add(TaskPhase::kWaiting, "waiting");
  add(TaskPhase::kFailed, style.bad("failed"));
  add(TaskPhase::kBlocked, style.warn("blocked"));
  add(TaskPhase::kInterrupted, style.warn("interrupted"));
  if (state.eta_s >= 0) line += cat("  ", support::short_duration(state.eta_s), " left");
  if (state.stopping) line += "  " + style.warn("stopping");
  return line;
}

/// One line for an event that people want to read; empty for the others.
std::string event_line(const RunEvent& event, const RunState& state, const cli::Style& style) {
  const std::string& id = id_of(state, event);
  const Json& detail = event.detail;
  if (event.name == "start") {
    return cat("start    ", id, event.attempt > 1 ? cat("  attempt ", event.attempt) : "",
               detail.value("resumed", false) ? ", continues" : "",
               detail.contains("gpus") ? cat("  gpus ", detail["gpus"].dump()) : "");
  }
  if (event.name == "publish") {
    const std::string snapshot = text_of(detail, "snapshot");
    const bool diverged = text_of(detail, "status") == "diverged";
    return cat(diverged ? style.warn("diverged") : style.good("done    "), " ", id,
               snapshot.empty() ? "" : "@" + snapshot, "  ", support::short_bytes(number_of(detail, "bytes")),
               detail.contains("inherited_from") ? cat("  follows ", text_of(detail, "inherited_from")) : "");
  }
  if (event.name == "reuse") return cat("reuse    ", id, "  its inputs came out as before");
  if (event.name == "retry") {
    return cat(
        style.warn("retry   "), " ", id, "  ", text_of(detail, "reason"), ", class ", text_of(detail, "class"),
        number_of(detail, "delay_s") > 0 ? cat(", in ", support::short_duration(number_of(detail, "delay_s"))) : "");
  }
  if (event.name == "requeue") return cat("again    ", id, "  it stopped at a checkpoint");
  if (event.name == "conflict") {
    return cat(
        style.warn("conflict"), " ", id, "  gave other contents than ", text_of(detail, "first"),
        " before; the first stays, this one is described in ", text_of(detail, "file"),
        "\n         `forget` it first if the new one is right; a stage whose bytes change needs a new result version");
  }
  if (event.name == "wait") {
    return cat("elsewhere ", id, "  ", detail.value("waits", true) ? "waits for " : "is left to ",
               text_of(detail, "owner"));
  }
  if (event.name == "block") return cat(style.warn("blocked "), " ", id, "  ", text_of(detail, "reason"));
  if (event.name == "warn")
    return cat(style.warn("warning "), " ", event.task < 0 ? "" : id + "  ", one_line(text_of(detail, "text")));
  if (event.name == "note" && event.task >= 0) return cat("note     ", id, "  ", one_line(text_of(detail, "text")));
  if (event.name == "stop") {
    const std::string stages = counted(static_cast<std::size_t>(number_of(detail, "running")), "stage");
    return number_of(detail, "level") > 1
               ? cat("killing ", stages)
               : cat("stopping: asked ", stages, " to save and end; Ctrl-C again kills them");
  }
  return "";
}

class Quiet : public Display {
 public:
  explicit Quiet(bool color) : color_(color) {}
  void on_event(const RunEvent& event, const RunState& state) override {
    if (event.name == "fail") say(cli::harmless(render_failure(*state.graph, event, false)));
  }

 private:
  bool color_;
};

class Plain : public Display {
 public:
  explicit Plain(cli::Style style) : style_(style) {}
  void on_event(const RunEvent& event, const RunState& state) override {
    if (event.name == "fail") {
      say(render_failure(*state.graph, event, style_.color()));
      return;
    }
    const std::string line = event_line(event, state, style_);
    if (!line.empty()) say(cat(time_text(), " ", line, "\n"));
    last_s_ = state.now_s;
  }
  void on_tick(const RunState& state) override {
    // A tool that says nothing for long is taken for dead.
    if (last_s_ < 0) last_s_ = state.now_s;
    if (state.now_s - last_summary_s_ < 60 && last_summary_s_ > 0) return;
    if (last_summary_s_ == 0) {
      last_summary_s_ = state.now_s;
      return;
    }
    last_summary_s_ = state.now_s;
    say(cat(time_text(), " ", counts_line(state, style_), "\n"));
    for (const auto& running : state.running) {
      const std::string progress = render_progress(running.progress);
      if (!progress.empty()) say(cat(time_text(), "   ", state.graph->tasks[running.task].id, "  ", progress, "\n"));
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
  double last_s_ = -1;
  double last_summary_s_ = 0;
};

class Terminal : public Display {
 public:
  explicit Terminal(cli::Style style) : style_(style), panel_(2) {}
  void on_event(const RunEvent& event, const RunState& state) override {
    if (event.name == "fail") {
      panel_.print(render_failure(*state.graph, event, style_.color()));
    } else if (event.name == "block") {
      last_block_ = event_line(event, state, style_);
    } else if (event.name != "start" && event.name != "reuse" && event.name != "note") {
      const std::string line = event_line(event, state, style_);
      if (!line.empty()) panel_.print(line);
    }
  }
  void on_tick(const RunState& state) override {
    std::vector<std::string> lines;
    lines.push_back(cat(style_.bold(state.graph->name), "  ", counts_line(state, style_)));
    std::vector<pipeline::RunningTask> running = state.running;
    std::stable_sort(running.begin(), running.end(),
                     [](const auto& a, const auto& b) { return a.started_s < b.started_s; });
    const auto room = static_cast<std::size_t>(std::max(cli::terminal_size(2).rows - 4, 1));
    for (std::size_t i = 0; i < running.size() && i < room; ++i) {
      lines.push_back(cat("  ", style_.name(state.graph->tasks[running[i].task].id), "  ",
                          support::short_duration(state.now_s - running[i].started_s), "  ",
                          cli::harmless(render_progress(running[i].progress))));
    }
    if (running.size() > room) lines.push_back(cat("  and ", running.size() - room, " more"));
    if (!last_block_.empty()) lines.push_back("  " + last_block_);
    panel_.show(lines);
  }
  void finish() override { panel_.clear(); }

 private:
  cli::Style style_;
  cli::Panel panel_;
  std::string last_block_;
};

class JsonLines : public Display {
 public:
  void on_event(const RunEvent& event, const RunState& state) override {
    Json line = event.detail;
    line["event"] = event.name;
    line["time"] = pipeline::unix_time();
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
    for (const auto& running : state.running) {
      if (running.progress.empty()) continue;
      emit({{"event", "progress"},
            {"schema_version", 1},
            {"time", pipeline::unix_time()},
            {"task", state.graph->tasks[running.task].id},
            {"attempt", running.attempt},
            {"progress", running.progress}});
    }
  }

 private:
  static void emit(const Json& json) {
    print(json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
    std::fflush(stdout);
  }
  double last_s_ = 0;
};

}  // namespace

std::string render_progress(const Json& progress) {
  if (!progress.is_object()) return "";
  std::string out = text_of(progress, "what");
  const double done = number_of(progress, "done"), total = number_of(progress, "total");
  if (progress.contains("done")) {
    out += cat(out.empty() ? "" : " ", support::with_commas(static_cast<std::int64_t>(done)));
    if (total > 0) out += cat("/", support::with_commas(static_cast<std::int64_t>(total)));
  }
  const auto detail = progress.find("detail");
  if (detail != progress.end() && detail->is_object()) {
    for (const auto& [name, value] : detail->items()) out += cat("  ", name, " ", figure(value));
  }
  return out;
}

std::string render_failure(const pipeline::Graph& graph, const RunEvent& event, bool color) {
  const cli::Style style(color);
  const Json& detail = event.detail;
  std::string out = cat(style.bad("failed"), "   ", graph.tasks[static_cast<std::size_t>(event.task)].id, "  ",
                        text_of(detail, "reason"), " (class ", text_of(detail, "class"), ")\n");
  const auto tail = detail.find("tail");
  if (tail != detail.end() && tail->is_array()) {
    for (const Json& line : *tail) {
      if (line.is_string()) out += cat("         ", style.dim("|"), " ", cli::harmless(line.get<std::string>()), "\n");
    }
  }
  const std::string log = text_of(detail, "log");
  if (!log.empty()) out += cat("         log    ", log, "\n");
  out += cat("         again  ", text_of(detail, "rerun"), "\n");
  return out;
}

std::unique_ptr<Display> make_display(const cli::CommandLine& line) {
  const cli::Style style = err_style(line);
  if (line.progress == "json") return std::make_unique<JsonLines>();
  if (line.progress == "none") return std::make_unique<Quiet>(style.color());
  if (line.progress == "tty" || (line.progress == "auto" && cli::can_draw(2))) return std::make_unique<Terminal>(style);
  return std::make_unique<Plain>(style);
}

}  // namespace pe::commands

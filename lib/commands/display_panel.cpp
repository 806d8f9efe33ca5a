#include "commands/display_panel.h"

#include <algorithm>

#include "cli/terminal.h"
#include "commands/display_text.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using pipeline::RunEvent;
using pipeline::RunningTask;
using pipeline::RunState;
using pipeline::TaskPhase;
using support::cat;

std::string padded(const std::string& text, std::size_t columns) {
  const std::size_t width = support::display_width(text);
  return width < columns ? text + std::string(columns - width, ' ') : text;
}

std::string bar(double share, int columns) {
  const int full = static_cast<int>(share * columns + 0.5);
  std::string out;
  for (int i = 0; i < columns; ++i) out += i < full ? "━" : "╌";
  return out;
}

/// An id (ASCII) in a narrow column: both ends say which it is, the middle least.
std::string shortened(const std::string& id, std::size_t columns) {
  if (id.size() <= columns || columns < 8) return cli::fit(id, static_cast<int>(columns));
  const std::size_t head = columns / 2 - 1;
  return cat(id.substr(0, head), "…", id.substr(id.size() - (columns - head - 1)));
}

/// "28 tasks wait for trunk[seed=42]": the running or ready task that most others wait for.
std::string holdup(const RunState& state) {
  std::vector<std::size_t> waiting(state.graph->tasks.size(), 0);
  std::size_t most = 0;
  for (std::size_t i = 0; i < state.phases.size(); ++i) {
    if (state.phases[i] != TaskPhase::kWaiting) continue;
    std::size_t last = state.graph->tasks.size();
    for (const auto& edge : state.graph->tasks[i].inputs) {
      const TaskPhase phase = state.phases[edge.producer];
      const bool is_next = phase == TaskPhase::kRunning || phase == TaskPhase::kVerifying || phase == TaskPhase::kReady;
      if (edge.producer == last || !is_next) continue;
      last = edge.producer;
      if (++waiting[last] > waiting[most]) most = last;
    }
  }
  const std::size_t count = waiting.empty() ? 0 : waiting[most];
  if (count == 0) return "";
  return cat(support::with_commas(static_cast<std::int64_t>(count)),
             count == 1 ? " task waits for " : " tasks wait for ", state.graph->tasks[most].id);
}

class PanelDisplay : public Display {
 public:
  PanelDisplay(cli::Style style, int fd) : style_(style), fd_(fd), panel_(fd) {}
  void on_event(const RunEvent& event, const RunState& state) override {
    if (event.name == "fail") {
      panel_.print(render_failure(*state.graph, event, style_.color()));
    } else if (event.name == "block") {
      trouble_ = event_line(event, state, style_);
    } else if (event.name != "start" && event.name != "reuse" && event.name != "note") {
      const std::string line = event_line(event, state, style_);
      if (!line.empty()) panel_.print(line);
    }
  }
  void on_tick(const RunState& state) override {
    clock_.look(state);
    const cli::TerminalSize size = cli::terminal_size(fd_);
    panel_.show(panel_lines(state, clock_, trouble_, style_, size.columns, size.rows));
  }
  void finish() override { panel_.clear(); }

 private:
  cli::Style style_;
  int fd_;
  cli::Panel panel_;
  TaskClock clock_;
  std::string trouble_;
};

}  // namespace

void TaskClock::look(const RunState& state) {
  for (const RunningTask& task : state.running) {
    const auto done = task.progress.find("done");
    if (done == task.progress.end() || !done->is_number()) continue;
    const double now = done->get<double>();
    const auto [at, fresh] =
        seen_.try_emplace({task.task, task.attempt}, ProgressMark{now, state.now_s, now, state.now_s});
    // A stage may count several things in turn: a count that falls is a new one.
    if (!fresh && now < at->second.last_done) at->second = {now, state.now_s, now, state.now_s};
    at->second.last_done = now;
    at->second.last_s = state.now_s;
  }
}

double TaskClock::left_s(const RunState& state, const RunningTask& task) const {
  const auto seen = seen_.find({task.task, task.attempt});
  const auto total = task.progress.find("total");
  if (seen != seen_.end() && total != task.progress.end() && total->is_number()) {
    const ProgressMark& at = seen->second;
    const double whole = total->get<double>(), gone = at.last_s - at.time_s;
    if (whole > 0 && at.last_done >= whole) return 0;
    if (whole > 0 && gone >= 1 && at.last_done > at.done) {
      const double pace = (at.last_done - at.done) / gone;
      return std::max(0.0, (whole - at.last_done) / pace - (state.now_s - at.last_s));
    }
  }
  if (task.expected_s < 0) return -1;
  const double left = task.expected_s - (state.now_s - task.started_s);
  return left > 0 ? left : -1;  // longer than ever before: anything would be a guess
}

std::string running_text(const RunState& state, const RunningTask& task, double left_s, int columns) {
  std::string times = support::short_duration(state.now_s - task.started_s);
  if (left_s >= 0) times += cat("  ", support::short_duration(left_s), " left");
  const std::string progress = render_progress(task.progress);
  const int room = columns - static_cast<int>(support::display_width(times)) - 2;
  if (progress.empty() || (columns > 0 && room < 8)) return times;
  return cat(columns > 0 ? cli::fit(progress, room) : progress, "  ", times);
}

std::vector<std::string> panel_lines(const RunState& state, const TaskClock& clock, const std::string& trouble,
                                     const cli::Style& style, int columns, int rows) {
  std::vector<std::string> lines;
  std::size_t all = 0, finished = 0;
  for (const auto& [phase, count] : state.counts) {
    all += count;
    if (phase == TaskPhase::kDone || phase == TaskPhase::kReused) finished += count;
  }
  const double share = all ? static_cast<double>(finished) / static_cast<double>(all) : 0;
  lines.push_back(cat(style.bold(state.graph->name), "  ", columns >= 70 ? style.good(bar(share, 16)) + "  " : "",
                      counts_line(state, style)));
  std::vector<std::string> below;
  if (const std::string text = holdup(state); !text.empty()) below.push_back("  " + style.dim(text));
  if (!state.elsewhere.empty()) {
    const auto& [task, owner] = *state.elsewhere.begin();
    below.push_back(cat("  ", style.dim(cat(state.elsewhere.size(), " made by other runs: ",
                                            state.graph->tasks[task].id, " by ", cli::harmless(owner)))));
  }
  if (!trouble.empty()) below.push_back("  " + trouble);

  std::vector<RunningTask> running = state.running;
  std::stable_sort(running.begin(), running.end(),
                   [](const auto& a, const auto& b) { return a.started_s < b.started_s; });
  // The panel leaves one row of the window to lines that stay.
  const auto most = static_cast<std::size_t>(std::max(rows - 1, 1));
  while (!below.empty() && 1 + below.size() + std::min<std::size_t>(running.size(), 2) > most)
    below.erase(below.begin());
  std::size_t room = most - std::min(most, 1 + below.size());
  const bool cut = running.size() > room;
  if (cut && room > 0) --room;
  std::size_t widest = 0;
  for (std::size_t i = 0; i < running.size() && i < room; ++i)
    widest = std::max(widest, support::display_width(state.graph->tasks[running[i].task].id));
  const auto column = static_cast<std::size_t>(std::clamp(columns / 2 - 4, 8, 60));
  const std::size_t width = std::min(widest, column);
  for (std::size_t i = 0; i < running.size() && i < room; ++i) {
    const std::string id = shortened(state.graph->tasks[running[i].task].id, width);
    const double left = clock.left_s(state, running[i]);
    std::string text;
    if (columns < 70) {
      // The remaining time matters most where there is room for little.
      const ProgressText parts = progress_text(running[i].progress);
      text = left >= 0 ? cat(support::short_duration(left), " left  ") : "";
      text += cat(cli::harmless(parts.work), "  ", cli::harmless(parts.figures.substr(0, parts.figures.find("  "))),
                  "  ", cli::harmless(parts.speed));
    } else {
      text = running_text(state, running[i], left, columns - 4 - static_cast<int>(width));
    }
    lines.push_back(cat("  ", style.name(padded(id, width)), "  ", text));
  }
  if (cut && lines.size() < most) lines.push_back(cat("  and ", running.size() - room, " more running"));
  lines.insert(lines.end(), below.begin(), below.end());
  if (lines.size() > most) lines.resize(most);
  return lines;
}

std::unique_ptr<Display> make_panel_display(cli::Style style, int fd) {
  return std::make_unique<PanelDisplay>(style, fd);
}

}  // namespace pe::commands

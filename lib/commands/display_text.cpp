#include "commands/display_text.h"

#include <algorithm>
#include <cmath>

#include "cli/terminal.h"
#include "commands/session.h"
#include "support/json_fields.h"
#include "support/json_text.h"
#include "support/progress_format.h"
#include "support/text.h"

namespace pe::commands {

using pipeline::RunEvent;
using pipeline::RunState;
using pipeline::TaskPhase;
using support::cat;
using support::field_or;

namespace {

/// A member that is a text, so that it can be shown: stages, paths and messages of other programs may hold anything.
std::string text_of(const Json& json, const char* name) { return cli::harmless(support::text_in(json, name)); }

std::string on_one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

std::string line_of(const Json& json, const char* name) { return on_one_line(text_of(json, name)); }

/// A count as people read it; one that no 64 bits hold is shown as the largest that they do.
std::string count_text(double count) {
  return support::with_commas(static_cast<std::int64_t>(std::clamp(count, -9e18, 9e18)));
}

std::size_t count_of(const RunState& state, TaskPhase phase) {
  const auto found = state.counts.find(phase);
  return found == state.counts.end() ? 0 : found->second;
}

}  // namespace

const std::string& id_of(const RunState& state, const RunEvent& event) {
  static const std::string none = "run";
  return event.task < 0 ? none : state.graph->tasks[static_cast<std::size_t>(event.task)].id;
}

std::string counts_line(const RunState& state, const cli::Style& style) {
  const std::size_t finished = count_of(state, TaskPhase::kDone) + count_of(state, TaskPhase::kReused);
  std::size_t all = 0;
  for (const auto& [phase, count] : state.counts) all += count;
  std::string line = cat(finished, "/", all, " finished");
  const auto add = [&](TaskPhase phase, const std::string& text) {
    if (const std::size_t count = count_of(state, phase)) line += cat("  ", count, " ") + text;
  };
  add(TaskPhase::kRunning, "running");
  add(TaskPhase::kVerifying, "verifying");
  add(TaskPhase::kReady, "ready");
  add(TaskPhase::kWaiting, "waiting");
  add(TaskPhase::kFailed, style.bad("failed"));
  add(TaskPhase::kBlocked, style.warn("blocked"));
  add(TaskPhase::kInterrupted, style.warn("interrupted"));
  if (state.eta_s >= 0) line += cat("  about ", support::short_duration(state.eta_s), " left");
  if (state.stopping) line += "  " + style.warn("stopping");
  return line;
}

std::string event_line(const RunEvent& event, const RunState& state, const cli::Style& style) {
  const std::string& id = id_of(state, event);
  const Json& detail = event.detail;
  if (event.name == "start") {
    return cat("start    ", id, event.attempt > 1 ? cat("  attempt ", event.attempt) : "",
               field_or(detail, "resumed", false) ? ", continues" : "",
               detail.contains("gpus") ? cat("  gpus ", cli::harmless(support::json_text(detail["gpus"]))) : "");
  }
  if (event.name == "publish") {
    const std::string snapshot = text_of(detail, "snapshot");
    const bool diverged = text_of(detail, "status") == "diverged";
    return cat(diverged ? style.warn("diverged") : style.good("done    "), " ", id,
               snapshot.empty() ? "" : "@" + snapshot, "  ", support::short_bytes(field_or(detail, "bytes", 0.0)),
               detail.contains("inherited_from") ? cat("  follows ", text_of(detail, "inherited_from")) : "");
  }
  if (event.name == "reuse") return cat("reuse    ", id, "  its result is in the store");
  if (event.name == "retry") {
    return cat(style.warn("retry   "), " ", id, "  ", line_of(detail, "reason"), ", class ", text_of(detail, "class"),
               field_or(detail, "delay_s", 0.0) > 0
                   ? cat(", in ", support::short_duration(field_or(detail, "delay_s", 0.0)))
                   : "");
  }
  if (event.name == "requeue") return cat("requeue  ", id, "  stopped at a checkpoint, continues");
  if (event.name == "conflict") {
    return cat(
        style.warn("conflict"), " ", id, "  gave other contents than ", text_of(detail, "first"),
        " before; the first stays, this one is described in ", text_of(detail, "file"),
        "\n         `--force` puts a new one in its place; a stage whose bytes change needs a new result version");
  }
  if (event.name == "wait") {
    return cat("elsewhere ", id, "  ", field_or(detail, "waits", true) ? "waits for " : "is left to ",
               text_of(detail, "owner"));
  }
  if (event.name == "block") return cat(style.warn("blocked "), " ", id, "  ", line_of(detail, "reason"));
  if (event.name == "warn")
    return cat(style.warn("warning "), " ", event.task < 0 ? "" : id + "  ", line_of(detail, "text"));
  if (event.name == "note" && event.task >= 0) return cat("note     ", id, "  ", line_of(detail, "text"));
  if (event.name == "stop") {
    const std::string stages =
        counted(static_cast<std::size_t>(std::clamp(field_or(detail, "running", 0.0), 0.0, 1e9)), "stage");
    return field_or(detail, "level", 0.0) > 1
               ? cat("killing ", stages)
               : cat("stopping: asked ", stages, " to save and end; Ctrl-C again kills them");
  }
  return "";
}

ProgressText progress_text(const Json& progress) {
  ProgressText out;
  if (!progress.is_object()) return out;
  out.work = line_of(progress, "what");
  const double done = field_or(progress, "done", 0.0), total = field_or(progress, "total", 0.0);
  if (progress.contains("done")) {
    out.work += cat(out.work.empty() ? "" : " ", count_text(done));
    if (total > 0) {
      out.share = std::clamp(done / total, 0.0, 1.0);
      out.work += cat("/", count_text(total), " ", static_cast<int>(out.share * 100), "%");
    }
  }
  const auto detail = progress.find("detail");
  if (detail != progress.end() && detail->is_object()) {
    for (const auto& [name, value] : support::figures_in_order(*detail)) {
      std::string& to = name.ends_with("_per_second") ? out.speed : out.figures;
      to += cat(to.empty() ? "" : "  ", on_one_line(support::format_metric(name, value)));
    }
  }
  return out;
}

std::string render_progress(const Json& progress) {
  const ProgressText text = progress_text(progress);
  std::string out = text.work;
  for (const std::string& part : {text.speed, text.figures}) {
    if (!part.empty()) out += (out.empty() ? "" : "  ") + part;
  }
  return cli::harmless(out);
}

std::string render_failure(const pipeline::Graph& graph, const RunEvent& event, bool color) {
  const cli::Style style(color);
  const Json& detail = event.detail;
  std::string out = cat(style.bad("failed"), "   ", graph.tasks[static_cast<std::size_t>(event.task)].id, "  ",
                        line_of(detail, "reason"), " (class ", text_of(detail, "class"), ")\n");
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

}  // namespace pe::commands

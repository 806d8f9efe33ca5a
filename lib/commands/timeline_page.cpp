#include "commands/timeline.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "report/text_escape.h"
#include "support/clock.h"
#include "support/json_text.h"
#include "support/text.h"

namespace pe::commands {

namespace {

using pipeline::Timeline;
using pipeline::TimelineSpan;
using pipeline::TimelineTask;
using report::escape_html;
using support::cat;

constexpr const char kStyle[] =
#include "timeline.css.inc"
    ;
constexpr const char kScript[] =
#include "timeline.js.inc"
    ;

double rounded(double seconds) { return std::round(seconds * 1000) / 1000; }

/// The data of the chart. A '<' would let a task's name end the script element.
std::string data_of(const Timeline& timeline) {
  const auto text_of = [](const Json& json) { return support::json_text(json); };
  // A task after the other: one tree of all would take several times the memory of the page.
  std::string all = text_of({{"length", rounded(timeline.length_s)},
                             {"lanes", timeline.lanes},
                             {"stages", timeline.stages},
                             {"critical", timeline.critical}});
  all.back() = ',';
  all += "\"tasks\":[";
  for (const TimelineTask& task : timeline.tasks) {
    const auto stage = std::find(timeline.stages.begin(), timeline.stages.end(), task.stage) - timeline.stages.begin();
    Json spans = Json::array();
    for (const TimelineSpan& span : task.spans) {
      spans.push_back({rounded(span.start_s), rounded(span.end_s), span.lane, span.outcome, span.peak_rss_bytes,
                       rounded(span.cpu_s), span.attempt, span.cpus, support::join(span.gpus, " ")});
    }
    if (all.back() != '[') all += ',';
    all += text_of(
        Json::array({task.id, stage, task.state, rounded(task.ready_s), task.bytes, task.reason, std::move(spans)}));
  }
  all += "]}";
  return report::escape_json_script(all);
}

std::string card(const std::string& title, const std::string& figure, const std::string& note, bool bad = false) {
  return cat("<div><dt>", escape_html(title), "</dt><dd", bad ? " class=\"bad\"" : "", ">", escape_html(figure),
             note.empty() ? "" : cat("<small>", escape_html(note), "</small>"), "</dd></div>\n");
}

std::string seconds_text(double seconds) { return seconds < 0.0095 ? "0 s" : support::short_duration(seconds); }

std::string bytes_text(double bytes) { return bytes > 0 ? support::short_bytes(bytes) : ""; }

std::string number_cell(const std::string& text) { return cat("<td class=\"n\">", escape_html(text), "</td>"); }

std::string cards(const Timeline& timeline) {
  std::size_t made = 0, attempts = 0, waits = 0;
  double waited = 0, longest_wait = 0;
  std::int64_t peak = 0;
  std::uint64_t published = 0;
  const TimelineTask* hungriest = nullptr;
  for (const TimelineTask& task : timeline.tasks) {
    made += task.state == "done";
    attempts += task.spans.size();
    published += task.bytes;
    if (task.peak_rss_bytes() > peak) {
      peak = task.peak_rss_bytes();
      hungriest = &task;
    }
    if (task.spans.empty()) continue;
    ++waits;
    waited += task.waited_s();
    longest_wait = std::max(longest_wait, task.waited_s());
  }
  const std::size_t failed = timeline.count("failed"), blocked = timeline.count("blocked");
  const std::size_t rest = timeline.tasks.size() - made - failed - blocked - timeline.count("reused");
  std::string out = "<dl class=\"cards\">\n";
  out += card("Time", seconds_text(timeline.length_s), timeline.capacity);
  out += card("Made", support::with_commas(static_cast<std::int64_t>(made)),
              attempts > made ? cat(support::with_commas(static_cast<std::int64_t>(attempts)), " attempts") : "");
  out += card("From the store", support::with_commas(static_cast<std::int64_t>(timeline.count("reused"))),
              timeline.tasks.empty() ? ""
                                     : cat(std::llround(100.0 * static_cast<double>(timeline.count("reused")) /
                                                        static_cast<double>(timeline.tasks.size())),
                                           " % of the tasks"));
  if (failed || blocked)
    out += card("Failed", cat(failed), blocked ? cat(blocked, " blocked by them") : "", failed > 0);
  if (rest) out += card("Not finished", cat(rest), "");
  const double work = timeline.task_seconds();
  out += card("Work", seconds_text(work),
              timeline.length_s > 0 ? cat(fmt::format("{:.1f}", work / timeline.length_s), " tasks at a time, ",
                                          timeline.lanes, " at most")
                                    : "");
  if (waits)
    out += card("Waiting for a slot", seconds_text(waited / static_cast<double>(waits)),
                cat("a task on average, ", seconds_text(longest_wait), " at most"));
  if (peak > 0)
    out += card("Peak memory", support::short_bytes(static_cast<double>(peak)),
                cat(hungriest->stage, "; at most ",
                    support::short_bytes(static_cast<double>(timeline.peak_together_bytes())), " together"));
  out += card("Published", published ? support::short_bytes(static_cast<double>(published)) : "nothing", "");
  return out + "</dl>\n";
}

std::string critical_table(const Timeline& timeline) {
  if (timeline.critical.empty()) return "<p class=\"note\">Nothing ran.</p>\n";
  double ran = 0, waited = 0;
  std::string rows;
  constexpr std::size_t kMost = 200;
  std::size_t shown = 0;
  for (const std::size_t i : timeline.critical) {
    const TimelineTask& task = timeline.tasks[i];
    ran += task.ran_s();
    waited += task.waited_s();
    if (++shown > kMost) continue;
    rows += cat("<tr><td class=\"id\">", escape_html(task.id), "</td>", number_cell(seconds_text(task.ready_s)),
                number_cell(seconds_text(task.waited_s())), number_cell(seconds_text(task.ran_s())),
                number_cell(bytes_text(static_cast<double>(task.peak_rss_bytes()))), "</tr>\n");
  }
  return cat(
      "<p class=\"note\">Each of these became ready when the one above it was published; together they ran ",
      escape_html(seconds_text(ran)), " and waited ", escape_html(seconds_text(waited)),
      " for a slot. More slots shorten the waiting only.",
      timeline.critical.size() > kMost ? cat(" The first ", kMost, " of ", timeline.critical.size(), ".") : "",
      "</p>\n<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">Task</th><th scope=\"col\" "
      "class=\"n\">Ready</th><th scope=\"col\" class=\"n\">Waited</th><th scope=\"col\" class=\"n\">Ran</th><th "
      "scope=\"col\" class=\"n\">Peak memory</th></tr></thead>\n<tbody>\n",
      rows, "</tbody></table></div>\n");
}

std::string stage_table(const Timeline& timeline) {
  struct Sum {
    std::size_t tasks = 0, made = 0, reused = 0, failed = 0, ran = 0;
    double seconds = 0, longest = 0, waited = 0;
    std::int64_t peak = 0;
    std::uint64_t bytes = 0;
  };
  std::map<std::string, Sum> sums;
  for (const TimelineTask& task : timeline.tasks) {
    Sum& sum = sums[task.stage];
    ++sum.tasks;
    sum.made += task.state == "done";
    sum.reused += task.state == "reused";
    sum.failed += task.state == "failed";
    sum.ran += !task.spans.empty();
    sum.seconds += task.ran_s();
    sum.longest = std::max(sum.longest, task.ran_s());
    sum.waited += task.waited_s();
    sum.peak = std::max(sum.peak, task.peak_rss_bytes());
    sum.bytes += task.bytes;
  }
  std::string rows;
  for (const std::string& stage : timeline.stages) {
    const Sum& sum = sums[stage];
    const auto mean = [&](double total) { return sum.ran ? seconds_text(total / static_cast<double>(sum.ran)) : ""; };
    rows += cat(
        "<tr><td>", escape_html(stage), "</td>", number_cell(cat(sum.tasks)), number_cell(cat(sum.made)),
        number_cell(cat(sum.reused)), number_cell(sum.failed ? cat(sum.failed) : ""), number_cell(mean(sum.waited)),
        number_cell(mean(sum.seconds)), number_cell(sum.ran ? seconds_text(sum.longest) : ""),
        number_cell(sum.ran ? seconds_text(sum.seconds) : ""), number_cell(bytes_text(static_cast<double>(sum.peak))),
        number_cell(bytes_text(static_cast<double>(sum.bytes))), "</tr>\n");
  }
  std::string head;
  for (const char* name : {"Tasks", "Made", "From the store", "Failed", "Waited, mean", "Ran, mean", "Longest",
                           "Ran, all", "Peak memory", "Published"}) {
    head += cat("<th scope=\"col\" class=\"n\">", name, "</th>");
  }
  return cat("<div class=\"scroll\" tabindex=\"0\"><table>\n<thead><tr><th scope=\"col\">Stage</th>", head,
             "</tr></thead>\n<tbody>\n", rows, "</tbody></table></div>\n");
}

}  // namespace

std::string render_timeline(const Timeline& timeline) {
  const std::string title = timeline.title.empty() ? timeline.pipeline : timeline.title;
  std::string legend;
  for (std::size_t i = 0; i < timeline.stages.size(); ++i) {
    legend += cat("<li><i style=\"background:var(--s", i % 8, ")\"></i>", escape_html(timeline.stages[i]), "</li>");
  }
  return cat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n<title>Timeline of ",
      escape_html(timeline.pipeline), ", run ", escape_html(timeline.run_id), "</title>\n<style>\n", kStyle,
      "</style>\n</head>\n<body>\n<header>\n<h1>", escape_html(title), "</h1>\n<p class=\"lead\">Run ",
      escape_html(timeline.run_id), ", ", escape_html(timeline.state), ", on ", escape_html(timeline.host), " since ",
      escape_html(support::utc_text(timeline.started)), "</p>\n", cards(timeline),
      "</header>\n<main>\n<section aria-labelledby=\"chart\">\n<h2 id=\"chart\">Who ran when</h2>\n",
      "<noscript><p class=\"note\">The chart and the list of tasks need JavaScript; the tables below do "
      "not.</p></noscript>\n",
      "<div class=\"needs-script\" hidden>\n<div class=\"tools\"><button id=\"slots\" "
      "aria-pressed=\"true\">Slots</button><button id=\"tasks\" aria-pressed=\"false\">Tasks</button><button id=\"in\" "
      "aria-label=\"Nearer\">+</button><button id=\"out\" aria-label=\"Farther\">−</button><button "
      "id=\"all\">All</button><span class=\"note\">drag to move, Ctrl and wheel to go nearer</span></div>\n<ul "
      "class=\"legend\">",
      legend,
      "</ul>\n<div id=\"rows\"><canvas tabindex=\"0\" role=\"img\" aria-label=\"Tasks over time; the tables below say "
      "the same\"></canvas><div></div></div>\n<p class=\"note\">A line below a bar: the critical path. A red frame: an "
      "attempt that failed. Grey, among Tasks: ready, but no slot was free.</p>\n</div>\n</section>\n",
      "<section aria-labelledby=\"critical\">\n<h2 id=\"critical\">Critical path</h2>\n", critical_table(timeline),
      "</section>\n<section aria-labelledby=\"stages\">\n<h2 id=\"stages\">Stages</h2>\n", stage_table(timeline),
      "</section>\n<section class=\"needs-script\" aria-labelledby=\"list\" hidden>\n<h2 id=\"list\">Tasks</h2>\n<div "
      "class=\"tools\"><input id=\"filter\" type=\"search\" placeholder=\"words of a name, or a state\" "
      "aria-label=\"Which tasks\"><span id=\"found\" class=\"note\"></span></div>\n<div class=\"scroll\" "
      "tabindex=\"0\"><table><thead><tr id=\"tasks-head\"></tr></thead><tbody "
      "id=\"tasks-body\"></tbody></table></div>\n<p><button id=\"more\">More</button></p>\n</section>\n</main>\n<div "
      "id=\"tip\" role=\"status\" hidden></div>\n<footer>Made from the journal of the run by pe-pipeline timeline.",
      timeline.damaged_lines ? cat(" ", timeline.damaged_lines, " damaged lines were left out.") : "",
      "</footer>\n<script type=\"application/json\" id=\"data\">", data_of(timeline), "</script>\n<script>\n", kScript,
      "</script>\n</body>\n</html>\n");
}

}  // namespace pe::commands

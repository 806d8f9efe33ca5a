#include "pipeline/run/timeline.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "pipeline/run/run_folder.h"
#include "pipeline/run/run_status.h"
#include "pipeline/store/journal.h"
#include "support/clock.h"
#include "support/json_fields.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

/// When a thing that others need was there: "trunk[seed=42]@b25" → seconds.
using Availability = std::unordered_map<std::string, double>;

class Reader {
 public:
  Reader(const Store& store, const std::string& run_id) : folder_(store.runs_folder() / run_id) {
    const RunStatus status = read_run(store, run_id);
    out_.run_id = run_id;
    out_.pipeline = status.pipeline;
    out_.host = status.host;
    out_.state = status.state;
    out_.started = status.started;
    out_.damaged_lines = status.damaged_lines;
    running_ = status.state == "running";
    if (status.ended > status.started) out_.length_s = status.ended - status.started;
    for (std::size_t i = 0; i < status.tasks.size(); ++i) {
      const TaskStatus& known = status.tasks[i];
      TimelineTask task;
      task.id = known.id;
      task.stage = known.stage;
      task.state = known.phase;
      task.reason = known.reason;
      index_[task.id] = out_.tasks.size();
      if (std::find(out_.stages.begin(), out_.stages.end(), task.stage) == out_.stages.end())
        out_.stages.push_back(task.stage);
      out_.tasks.push_back(std::move(task));
    }
    const Json plan = read_plan(folder_, [&](const Json& task) {
      const auto found = index_.find(support::text_in(task, "id"));
      if (found == index_.end() || !task.contains("needs")) return;
      for (const Json& need : task["needs"]) {
        if (need.is_string()) needs_[found->second].push_back(need.get<std::string>());
      }
    });
    out_.title = support::text_in(plan, "title");
    out_.root = support::text_in(plan, "root");
    out_.capacity = support::text_in(plan, "capacity");
  }

  Timeline read() {
    each_journal_event(folder_, [&](const JournalEvent& event) { take(event); });
    close_open_spans();
    find_ready_times();
    give_lanes();
    find_critical_path();
    return std::move(out_);
  }

 private:
  void take(const JournalEvent& event) {
    const double time = std::max(0.0, event.time - out_.started);
    last_s_ = std::max(last_s_, time);
    const auto found = index_.find(event.task);
    if (found == index_.end()) return;
    TimelineTask& task = out_.tasks[found->second];
    const std::string& name = event.event;
    if (name == "start") {
      TimelineSpan span;
      span.attempt = static_cast<int>(event.attempt);
      span.start_s = time;
      span.end_s = -1;
      span.cpus = event.cpus;
      span.resumed = event.resumed;
      span.gpus = event.gpus;
      task.spans.push_back(std::move(span));
    } else if (name == "exit") {
      for (auto span = task.spans.rbegin(); span != task.spans.rend(); ++span) {
        if (span->attempt != event.attempt || span->end_s >= 0) continue;
        span->end_s = time;
        span->outcome = event.outcome;
        span->cpu_s = event.cpu_s;
        span->peak_rss_bytes = event.peak_rss_bytes;
        break;
      }
    } else if (name == "publish") {
      task.published_s = time;
      task.bytes += static_cast<std::uint64_t>(std::max<std::int64_t>(0, event.bytes));
      there_[event.snapshot.empty() ? task.id : task.id + "@" + event.snapshot] = time;
    } else if (name == "reuse") {
      there_[task.id] = time;
    }
  }

  void close_open_spans() {
    if (out_.length_s <= 0) out_.length_s = running_ ? std::max(last_s_, support::unix_time() - out_.started) : last_s_;
    for (TimelineTask& task : out_.tasks) {
      for (TimelineSpan& span : task.spans) {
        if (span.end_s >= 0) continue;
        span.outcome = running_ ? "running" : "lost";
        span.end_s = std::max(span.start_s, out_.length_s);
      }
      for (const TimelineSpan& span : task.spans) out_.length_s = std::max(out_.length_s, span.end_s);
    }
  }

  /// A need that this run neither made nor looked up late was there from the start.
  double available(const std::string& need) const {
    if (const auto found = there_.find(need); found != there_.end()) return found->second;
    const auto whole = there_.find(need.substr(0, need.rfind('@')));
    return whole == there_.end() ? 0 : whole->second;
  }

  void find_ready_times() {
    for (const auto& [i, needs] : needs_) {
      TimelineTask& task = out_.tasks[i];
      std::unordered_set<std::size_t> known;
      for (const std::string& need : needs) {
        task.ready_s = std::max(task.ready_s, available(need));
        auto found = index_.find(need);
        if (found == index_.end()) found = index_.find(need.substr(0, need.rfind('@')));
        if (found == index_.end()) continue;
        if (known.insert(found->second).second) task.needs.push_back(found->second);
      }
      // A clock that was set back must not make a task wait before it was ready.
      if (!task.spans.empty()) task.ready_s = std::min(task.ready_s, task.spans.front().start_s);
    }
  }

  void give_lanes() {
    std::vector<TimelineSpan*> spans;
    for (TimelineTask& task : out_.tasks) {
      for (TimelineSpan& span : task.spans) spans.push_back(&span);
    }
    std::sort(spans.begin(), spans.end(), [](const auto* a, const auto* b) {
      return a->start_s != b->start_s ? a->start_s < b->start_s : a->end_s < b->end_s;
    });
    std::set<std::size_t> free;
    std::multimap<double, std::size_t> busy;  // end → lane
    for (TimelineSpan* span : spans) {
      while (!busy.empty() && busy.begin()->first <= span->start_s) {
        free.insert(busy.begin()->second);
        busy.erase(busy.begin());
      }
      if (free.empty()) free.insert(out_.lanes++);
      span->lane = *free.begin();
      free.erase(free.begin());
      busy.emplace(span->end_s, span->lane);
    }
  }

  void find_critical_path() {
    std::size_t last = out_.tasks.size();
    for (std::size_t i = 0; i < out_.tasks.size(); ++i) {
      if (out_.tasks[i].spans.empty()) continue;
      if (last == out_.tasks.size() || out_.tasks[i].spans.back().end_s > out_.tasks[last].spans.back().end_s) last = i;
    }
    std::vector<bool> seen(out_.tasks.size());
    while (last != out_.tasks.size() && !seen[last]) {
      seen[last] = true;
      out_.critical.push_back(last);
      // The last of its inputs comes before it.
      std::size_t before = out_.tasks.size();
      double when = 0;
      for (const std::string& need : needs_[last]) {
        const double time = available(need);
        auto found = index_.find(need);
        if (found == index_.end()) found = index_.find(need.substr(0, need.rfind('@')));
        if (found == index_.end() || time <= when || out_.tasks[found->second].spans.empty()) continue;
        when = time;
        before = found->second;
      }
      last = before;
    }
    std::reverse(out_.critical.begin(), out_.critical.end());
  }

  std::filesystem::path folder_;
  Timeline out_;
  bool running_ = false;
  double last_s_ = 0;
  std::unordered_map<std::string, std::size_t> index_;
  std::map<std::size_t, std::vector<std::string>> needs_;
  Availability there_;
};

}  // namespace

double TimelineTask::ran_s() const {
  double sum = 0;
  for (const TimelineSpan& span : spans) sum += span.end_s - span.start_s;
  return sum;
}

std::int64_t TimelineTask::peak_rss_bytes() const {
  std::int64_t most = 0;
  for (const TimelineSpan& span : spans) most = std::max(most, span.peak_rss_bytes);
  return most;
}

std::size_t Timeline::count(const std::string& wanted) const {
  return static_cast<std::size_t>(
      std::count_if(tasks.begin(), tasks.end(), [&](const TimelineTask& task) { return task.state == wanted; }));
}

double Timeline::task_seconds() const {
  double sum = 0;
  for (const TimelineTask& task : tasks) sum += task.ran_s();
  return sum;
}

std::int64_t Timeline::peak_together_bytes() const {
  std::vector<std::pair<double, std::int64_t>> changes;
  for (const TimelineTask& task : tasks) {
    for (const TimelineSpan& span : task.spans) {
      changes.emplace_back(span.start_s, span.peak_rss_bytes);
      changes.emplace_back(span.end_s, -span.peak_rss_bytes);
    }
  }
  std::sort(changes.begin(), changes.end());  // at one moment what ends goes before what begins
  std::int64_t now = 0, most = 0;
  for (const auto& [time, bytes] : changes) most = std::max(most, now += bytes);
  return most;
}

Timeline read_timeline(const Store& store, const std::string& run_id) { return Reader(store, run_id).read(); }

Json to_json(const Timeline& timeline) {
  Json tasks = Json::array(), critical = Json::array();
  for (const TimelineTask& task : timeline.tasks) {
    Json spans = Json::array();
    for (const TimelineSpan& span : task.spans) {
      Json json{{"attempt", span.attempt}, {"start_s", span.start_s}, {"end_s", span.end_s},
                {"outcome", span.outcome}, {"slot", span.lane},       {"cpus", span.cpus},
                {"cpu_s", span.cpu_s},     {"resumed", span.resumed}, {"peak_rss_bytes", span.peak_rss_bytes}};
      if (!span.gpus.empty()) json["gpus"] = span.gpus;
      spans.push_back(std::move(json));
    }
    Json json{{"id", task.id},           {"stage", task.stage},         {"state", task.state},
              {"ready_s", task.ready_s}, {"waited_s", task.waited_s()}, {"ran_s", task.ran_s()},
              {"bytes", task.bytes},     {"attempts", std::move(spans)}};
    if (!task.reason.empty()) json["reason"] = task.reason;
    tasks.push_back(std::move(json));
  }
  for (const std::size_t i : timeline.critical) critical.push_back(timeline.tasks[i].id);
  return {{"schema", "pe-timeline/1"},
          {"schema_version", 1},
          {"run", timeline.run_id},
          {"pipeline", timeline.pipeline},
          {"state", timeline.state},
          {"started", timeline.started},
          {"length_s", timeline.length_s},
          {"slots_used", timeline.lanes},
          {"task_s", timeline.task_seconds()},
          {"reused", timeline.count("reused")},
          {"peak_together_bytes", timeline.peak_together_bytes()},
          {"critical_path", std::move(critical)},
          {"tasks", std::move(tasks)},
          {"damaged_journal_lines", timeline.damaged_lines}};
}

}  // namespace pe::pipeline

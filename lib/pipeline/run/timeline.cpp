#include "pipeline/run/timeline.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_set>

#include "support/clock.h"

namespace pe::pipeline {

namespace {

class Reader {
 public:
  explicit Reader(RunStatus status) : status_(std::move(status)) {
    out_.run_id = status_.run_id;
    out_.pipeline = status_.pipeline;
    out_.title = status_.title;
    out_.root = status_.root;
    out_.host = status_.host;
    out_.capacity = status_.capacity;
    out_.state = status_.state;
    out_.started = status_.started;
    out_.damaged_lines = status_.damaged_lines;
  }

  Timeline read() {
    const bool running = status_.state == "running";
    if (status_.ended > status_.started)
      out_.length_s = status_.ended - status_.started;
    else
      out_.length_s = running ? std::max(status_.last_s, support::unix_time() - status_.started) : status_.last_s;
    for (TaskStatus& known : status_.tasks) add_task(known, running ? "running" : "lost");
    give_lanes();
    find_critical_path();
    return std::move(out_);
  }

 private:
  void add_task(TaskStatus& known, const char* open) {
    TimelineTask task;
    task.id = known.id;
    task.stage = known.stage;
    task.state = known.phase;
    task.reason = known.reason;
    task.bytes = known.bytes;
    if (std::find(out_.stages.begin(), out_.stages.end(), task.stage) == out_.stages.end())
      out_.stages.push_back(task.stage);
    for (TaskAttempt& attempt : known.attempts) {
      TimelineSpan& span = task.spans.emplace_back(TimelineSpan{std::move(attempt)});
      if (span.end_s >= 0) continue;
      span.outcome = open;
      span.end_s = std::max(span.start_s, out_.length_s);
    }
    for (const TimelineSpan& span : task.spans) out_.length_s = std::max(out_.length_s, span.end_s);
    std::unordered_set<std::size_t> producers;
    for (const std::string& need : known.needs) {
      task.ready_s = std::max(task.ready_s, available(need));
      const std::size_t producer = producer_of(need);
      if (producer != status_.tasks.size() && producers.insert(producer).second) task.needs.push_back(producer);
    }
    // A clock that was set back must not make a task wait before it was ready.
    if (!task.spans.empty()) task.ready_s = std::min(task.ready_s, task.spans.front().start_s);
    out_.tasks.push_back(std::move(task));
  }

  /// Index of a task; the number of tasks when no task of the run makes it.
  std::size_t producer_of(const std::string& need) const {
    const TaskStatus* const task = status_.find_producer(need);
    return task ? static_cast<std::size_t>(task - status_.tasks.data()) : status_.tasks.size();
  }

  /// A need that this run neither made nor looked up late was there from the start.
  double available(const std::string& need) const {
    if (const auto found = status_.there_s.find(need); found != status_.there_s.end()) return found->second;
    const auto whole = status_.there_s.find(need.substr(0, need.rfind('@')));
    return whole == status_.there_s.end() ? 0 : whole->second;
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
      for (const std::string& need : status_.tasks[last].needs) {
        const double time = available(need);
        const std::size_t producer = producer_of(need);
        if (producer == out_.tasks.size() || time <= when || out_.tasks[producer].spans.empty()) continue;
        when = time;
        before = producer;
      }
      last = before;
    }
    std::reverse(out_.critical.begin(), out_.critical.end());
  }

  RunStatus status_;
  Timeline out_;
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

Timeline read_timeline(const Store& store, const std::string& run_id) { return Reader(read_run(store, run_id)).read(); }

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

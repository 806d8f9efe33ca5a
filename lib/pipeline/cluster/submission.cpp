#include "pipeline/cluster/submission.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "pipeline/cluster/subgraph.h"
#include "pipeline/plan/frozen_graph.h"
#include "pipeline/store/attempt.h"
#include "pipeline/store/journal.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/json_text.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;

namespace {

constexpr const char* kSchema = "pe-submission/1";

std::string dumped(const Json& json, int indent = -1) { return support::json_text(json, indent) + "\n"; }

fs::path folder_of(const Store& store, const std::string& run) { return store.runs_folder() / run; }

/// Twelve digits that no other array of any run has.
std::string token_of(const std::string& run, const std::string& what) {
  return support::sha256_hex(cat("pe-pipeline ", run, " ", what)).substr(0, 12);
}

Json elements_json(const std::map<std::int64_t, std::vector<std::size_t>>& elements) {
  Json json = Json::array();
  for (const auto& [index, tasks] : elements) json.push_back(Json::array({index, tasks}));
  return json;
}

std::map<std::int64_t, std::vector<std::size_t>> elements_from(const Json& json) {
  std::map<std::int64_t, std::vector<std::size_t>> elements;
  for (const Json& one : json) elements[one.at(0)] = one.at(1).get<std::vector<std::size_t>>();
  return elements;
}

Json array_json(const SubmittedArray& array) {
  Json needs = Json::array();
  for (const ArrayNeed& need : array.needs)
    needs.push_back(Json::array({static_cast<int>(need.kind), need.array, need.indices}));
  return {{"token", array.token},      {"label", array.label}, {"options", array.options},
          {"script", array.script},    {"needs", needs},       {"elements", elements_json(array.elements)},
          {"live_job", array.live_job}};
}

SubmittedArray array_from(const Json& json) {
  SubmittedArray array;
  array.token = json.at("token");
  array.label = json.at("label");
  array.options = json.at("options").get<std::vector<std::string>>();
  array.script = json.at("script");
  array.live_job = json.at("live_job");
  array.elements = elements_from(json.at("elements"));
  for (const Json& need : json.at("needs")) {
    const int kind = need.at(0);
    if (kind < 0 || kind > 2) throw support::ArtifactError("a submission names a dependency of no kind");
    array.needs.push_back(
        {static_cast<ArrayNeed::Kind>(kind), need.at(1), need.at(2).get<std::vector<std::int64_t>>()});
  }
  return array;
}

/// The frozen tasks of one array, which its elements read.
std::string array_document(const Graph& graph, const JobArray& array, const SubmissionRequest& order,
                           const std::string& token) {
  std::vector<bool> wanted(graph.tasks.size());
  for (const auto& [index, tasks] : array.elements) {
    for (const std::size_t i : tasks) wanted[i] = true;
  }
  const Subgraph part = subgraph(graph, wanted);
  auto elements = array.elements;
  for (auto& [index, tasks] : elements) {
    for (std::size_t& i : tasks) i = part.place.at(i);
  }
  return dumped({{"schema", "pe-array/1"},
                 {"run", order.run},
                 {"pipeline", graph.name},
                 {"token", token},
                 {"command", order.command},
                 {"lead_s", array.lead_s()},
                 {"elements", elements_json(elements)},
                 {"graph", freeze(part.graph)}});
}

/// The last job needs almost no resources. It has the policy of the first array.
JobArray last_job(const std::vector<JobArray>& arrays) {
  JobArray last;
  last.label = "last";
  last.resources.mem_bytes = 1LL << 30;
  last.resources.time_s = 3600;
  last.elements[0] = {};
  const auto own = std::find_if(arrays.begin(), arrays.end(), [](const JobArray& a) { return a.live_job.empty(); });
  if (own != arrays.end()) {
    last.policy = own->policy;
    last.policy.nodes = 1;
    last.policy.max_running = 0;
    last.policy.gpu_type.clear();
    last.resources.name = own->resources.name;
  }
  return last;
}

}  // namespace

PreparedSubmission make_submission(const Graph& graph, const std::vector<JobArray>& arrays,
                                   const SubmissionRequest& order) {
  PreparedSubmission made;
  Submission& submission = made.submission;
  submission.run = order.run;
  submission.pipeline = graph.name;
  submission.file = graph.file;
  submission.user = order.user;
  submission.cluster = order.cluster;
  submission.max_in_queue = order.max_in_queue;
  submission.created = support::unix_time();
  std::map<std::size_t, std::size_t> places;
  const fs::path folder = fs::absolute(order.store) / "runs" / order.run;
  BatchPlace place{order.run, "", folder.string(), {}};
  for (std::size_t k = 0; k < arrays.size(); ++k) {
    const JobArray& from = arrays[k];
    SubmittedArray array;
    array.label = from.label;
    array.needs = from.needs;
    array.live_job = from.live_job;
    for (const auto& [index, tasks] : from.elements) {
      auto& list = array.elements[index];
      for (const std::size_t i : tasks) {
        const auto [at, fresh] = places.try_emplace(i, submission.tasks.size());
        if (fresh) submission.tasks.push_back({graph.tasks[i].id, graph.tasks[i].label, graph.tasks[i].plan_key});
        list.push_back(at->second);
      }
    }
    if (array.live_job.empty()) {
      array.token = token_of(order.run, cat("array ", k));
      std::string document = array_document(graph, from, order, array.token);
      place.token = array.token;
      place.command = {order.program, "__element", fs::absolute(order.store).string(),
                       order.run,     array.token, support::sha256_hex(document)};
      array.options = sbatch_options(from, place);
      array.script = batch_script(from, place);
      made.documents[array.token] = std::move(document);
    }
    submission.arrays.push_back(std::move(array));
  }
  const JobArray last = last_job(arrays);
  submission.last.label = "last";
  submission.last.token = token_of(order.run, "last");
  submission.last.elements[0] = {};
  place.token = submission.last.token;
  place.command = {order.program, "__last", fs::absolute(order.store).string(), order.run};
  submission.last.options = sbatch_options(last, place);
  submission.last.script = batch_script(last, place);
  return made;
}

void write_submission(const Store& store, const Graph& graph, const PreparedSubmission& made) {
  const Submission& submission = made.submission;
  const fs::path folder = folder_of(store, submission.run);
  for (const char* part : {"arrays", "sent", "jobs", "state"}) support::make_folders(folder / part);
  for (const auto& [token, document] : made.documents)
    support::write_file_atomically(folder / "arrays" / (token + ".json"), document, false);
  support::write_file_atomically(folder / "graph.json", dumped(freeze(graph)), store.durable());
  Json tasks = Json::array(), arrays = Json::array();
  for (const SentTask& task : submission.tasks) tasks.push_back(Json::array({task.id, task.stage, task.plan_key}));
  for (const SubmittedArray& array : submission.arrays) arrays.push_back(array_json(array));
  const Json json{{"schema", kSchema},
                  {"run", submission.run},
                  {"pipeline", submission.pipeline},
                  {"file", submission.file},
                  {"user", submission.user},
                  {"cluster", submission.cluster},
                  {"created", submission.created},
                  {"max_in_queue", submission.max_in_queue},
                  {"tasks", std::move(tasks)},
                  {"arrays", std::move(arrays)},
                  {"last", array_json(submission.last)}};
  // Last: who finds it finds all the rest.
  support::write_file_atomically(folder / "submission.json", dumped(json), store.durable());
}

std::optional<Submission> read_submission(const Store& store, const std::string& run) {
  const fs::path path = folder_of(store, run) / "submission.json";
  if (!support::is_there(path)) return std::nullopt;
  const Json json = support::parse_json(support::read_file(path));
  if (!json.is_object() || json.value("schema", "") != kSchema)
    throw support::ArtifactError(cat("'", path.string(), "' is not a submission (", kSchema, ")"));
  try {
    Submission submission;
    submission.run = json.at("run");
    submission.pipeline = json.at("pipeline");
    submission.file = json.at("file");
    submission.user = json.value("user", "");
    submission.cluster = json.value("cluster", "");
    submission.created = json.at("created");
    submission.max_in_queue = json.at("max_in_queue");
    for (const Json& task : json.at("tasks")) submission.tasks.push_back({task.at(0), task.at(1), task.at(2)});
    for (const Json& array : json.at("arrays")) {
      submission.arrays.push_back(array_from(array));
      const SubmittedArray& read = submission.arrays.back();
      for (const auto& [index, tasks] : read.elements) {
        for (const std::size_t i : tasks) {
          if (i >= submission.tasks.size()) throw support::ArtifactError("it names a task that it does not list");
        }
      }
      for (const ArrayNeed& need : read.needs) {
        if (need.array + 1 >= submission.arrays.size())
          throw support::ArtifactError("an array of it waits for one that comes later");
      }
    }
    submission.last = array_from(json.at("last"));
    return submission;
  } catch (const Json::exception& error) {
    throw support::ArtifactError(cat("'", path.string(), "' is corrupt: ", error.what()));
  }
}

// ---- marks
// -------------------------------------------------------------------------------------------------------------

void mark_cancelled(const Store& store, const std::string& run, const std::set<std::string>& plan_keys) {
  const fs::path folder = folder_of(store, run) / "cancelled";
  support::make_folders(folder);
  const Json json{{"time", support::unix_time()}, {"all", plan_keys.empty()}, {"tasks", plan_keys}};
  support::write_file_atomically(
      folder / cat("mark.", static_cast<std::int64_t>(support::unix_time() * 1000), ".", ::getpid(), ".json"),
      dumped(json), store.durable());
}

Cancellation read_cancelled(const Store& store, const std::string& run) {
  Cancellation cancelled;
  const fs::path folder = folder_of(store, run) / "cancelled";
  for (const std::string& name : support::list_folder(folder)) {
    if (!name.ends_with(".json")) continue;
    const Json json = support::parse_json(support::read_file(folder / name));
    // A damaged mark was a wish to cancel all the same.
    if (!json.is_object() || json.value("all", true)) {
      cancelled.all = true;
    } else if (json.contains("tasks") && json["tasks"].is_array()) {
      for (const Json& key : json["tasks"]) {
        if (key.is_string()) cancelled.plan_keys.insert(key.get<std::string>());
      }
    }
  }
  return cancelled;
}

// ---- what is in the queue
// ------------------------------------------------------------------------------------------------

JobTable::JobTable(const std::vector<JobRow>& rows) {
  for (const JobRow& row : rows) {
    Rows& of_name = by_name_[row.name];
    of_name.all.push_back(&row);
    // Of several with one index the last one counts: a job that came twice, or was queued again under a new id.
    const JobRow*& counts = of_name.by_index[row.index];
    if (!counts || !is_live(*counts)) counts = &row;
  }
}

const JobRow* JobTable::find(const SubmittedArray& array, std::int64_t index) const {
  const auto rows = by_name_.find(array.name());
  if (rows == by_name_.end()) return nullptr;
  const auto found = rows->second.by_index.find(index);
  return found == rows->second.by_index.end() ? nullptr : found->second;
}

std::vector<const JobRow*> JobTable::rows_of(const SubmittedArray& array) const {
  const auto rows = by_name_.find(array.name());
  return rows == by_name_.end() ? std::vector<const JobRow*>() : rows->second.all;
}

bool is_live(const JobRow& row) {
  return !is_final(row.state) && row.state != "COMPLETING" && row.reason != "DependencyNeverSatisfied";
}

Graph read_graph(const Store& store, const std::string& run) {
  const fs::path path = folder_of(store, run) / "graph.json";
  if (!support::is_there(path))
    throw support::ArtifactError(cat("run ", run, " has lost its graph.json"), "submit again");
  return thaw(support::parse_json(support::read_file(path)));
}

std::vector<Submission> open_submissions(const Store& store) {
  std::vector<Submission> open;
  for (const std::string& run : store.runs()) {
    const fs::path folder = folder_of(store, run);
    if (::access((folder / "summary.json").c_str(), F_OK) == 0) continue;
    try {
      if (auto submission = read_submission(store, run)) open.push_back(*std::move(submission));
    } catch (const support::ArtifactError&) {
      // A damaged one cannot be continued; its jobs see for themselves.
    } catch (const support::IoError& error) {
      if (!is_denied(error)) throw;  // else another user's
    }
  }
  return open;
}

bool is_own(const Submission& submission, Slurm& slurm) {
  if (!submission.user.empty() && submission.user != slurm.user()) return false;
  return submission.cluster.empty() || submission.cluster == slurm.cluster();
}

std::string submitter(const Submission& submission) {
  return cat("user ", support::quote(submission.user),
             submission.cluster.empty() ? "" : cat(" on cluster ", support::quote(submission.cluster)));
}

std::filesystem::path job_log(const Store& store, const Submission& submission, const std::string& plan_key) {
  for (const SubmittedArray& array : submission.arrays) {
    for (const auto& [index, tasks] : array.elements) {
      for (const std::size_t i : tasks) {
        if (submission.tasks[i].plan_key != plan_key || !array.live_job.empty()) continue;
        const fs::path path = folder_of(store, submission.run) / "jobs" / cat(array.token, "_", index, ".log");
        std::error_code error;
        if (fs::exists(path, error)) return path;
      }
    }
  }
  return {};
}

bool has_jobs(const Submission& submission, const std::vector<JobRow>& rows) {
  const std::string last = submission.last.name();
  std::set<std::string> names;
  for (const SubmittedArray& array : submission.arrays) names.insert(array.name());
  return std::any_of(rows.begin(), rows.end(), [&](const JobRow& row) {
    return !is_final(row.state) && (names.count(row.name) > 0 || row.name.rfind(last, 0) == 0);
  });
}

LiveTasks live_tasks(const Store& store, const std::vector<Submission>& open, const std::vector<JobRow>& rows) {
  LiveTasks live;
  const JobTable table(rows);
  for (const Submission& submission : open) {
    std::optional<Cancellation> cancelled;
    for (const SubmittedArray& array : submission.arrays) {
      if (!array.live_job.empty()) continue;
      for (const JobRow* row : table.rows_of(array)) {
        if (row->reason == "DependencyNeverSatisfied" && !is_final(row->state)) live.blocked.push_back(row->id());
        const auto element = array.elements.find(row->index);
        if (element == array.elements.end() || !is_live(*row)) continue;
        if (!cancelled) cancelled = read_cancelled(store, submission.run);
        for (const std::size_t i : element->second) {
          const std::string& key = submission.tasks[i].plan_key;
          if (!cancelled->covers(key)) live.by_plan_key[key] = {row->array_job, row->index};
        }
      }
    }
  }
  return live;
}

// ---- sending
// -------------------------------------------------------------------------------------------------------------

namespace {

constexpr int kLooks = 4;  // for a job whose answer was lost
constexpr int kTries = 3;
constexpr int kLookAgain = 300;  // seconds after which a last job that has nothing to wait for looks for room

struct SubmittedJobs {
  std::map<std::string, std::string> jobs;  // token → id
  std::set<std::string> intents;            // without a job
};

SubmittedJobs read_sent(const fs::path& folder) {
  SubmittedJobs sent;
  for (const Json& event : read_journal(folder)) {
    const std::string name = event.value("event", ""), token = event.value("token", "");
    if (name == "submit-intent") sent.intents.insert(token);
    if (name == "submitted") sent.jobs[token] = event.value("job", "");
  }
  for (const auto& [token, job] : sent.jobs) sent.intents.erase(token);
  return sent;
}

class Sending {
 public:
  Sending(const Store& store, const Submission& submission, Slurm& slurm, const SendOptions& options)
      : submission_(submission),
        slurm_(slurm),
        options_(options),
        folder_(folder_of(store, submission.run) / "sent"),
        sent_(read_sent(folder_)),
        journal_(folder_) {}

  SendReport send() {
    const bool again = !sent_.jobs.empty() || !sent_.intents.empty();
    if (again && !look_around()) {
      report_.failed = "squeue does not answer, and some jobs may be in the queue already";
      return report_;
    }
    std::int64_t room = options_.room - 1;  // one is the last job's
    for (std::size_t k = 0; k < submission_.arrays.size(); ++k) {
      const SubmittedArray& array = submission_.arrays[k];
      const auto size = static_cast<std::int64_t>(array.elements.size());
      if (!array.live_job.empty()) {
        if (!again || is_anything_left(array.live_job)) jobs_[k] = array.live_job;
        continue;
      }
      if (const auto job = sent_.jobs.find(array.token); job != sent_.jobs.end()) {
        if (is_in_queue(array, job->second)) jobs_[k] = job->second;
        continue;
      }
      if (std::find(options_.skip.begin(), options_.skip.end(), k) != options_.skip.end()) continue;
      // Never past one that does not fit: what waits for it comes later in the list.
      if (size > room) {
        report_.looks_again = true;
        return leave_from(k);
      }
      const std::string job = send_once(array, dependency(array.needs, jobs_));
      if (job.empty() && report_.refusal == Refusal::kFull) {
        report_.looks_again = !options_.own_job.empty();  // a last job continues to look, since nothing else does
        return leave_from(k);
      }
      if (job.empty()) return report_;
      jobs_[k] = job;
      room -= size;
      ++report_.arrays;
      report_.elements += array.elements.size();
    }
    send_last();
    return report_;
  }

 private:
  /// The queue takes no more: what is left is for the last job, for which there may still be room.
  SendReport leave_from(std::size_t k) {
    for (; k < submission_.arrays.size(); ++k) {
      const SubmittedArray& left = submission_.arrays[k];
      const bool skipped = std::find(options_.skip.begin(), options_.skip.end(), k) != options_.skip.end();
      if (left.live_job.empty() && !skipped && !sent_.jobs.count(left.token)) report_.waiting += left.elements.size();
    }
    report_.limit = std::exchange(report_.failed, "");
    send_last();
    if (!report_.last_is_sent && report_.failed.empty()) report_.failed = report_.limit;
    return report_;
  }

  bool look_around() {
    rows_ = slurm_.own_jobs();
    if (!rows_) return false;
    for (const SubmittedArray& array : submission_.arrays) adopt(array);
    return true;
  }

  /// A job whose answer was lost when it was sent.
  void adopt(const SubmittedArray& array) {
    if (!sent_.intents.count(array.token)) return;
    for (const JobRow& row : *rows_) {
      if (row.name != array.name()) continue;
      note_sent(array, row.array_job);
      return;
    }
  }

  void note_sent(const SubmittedArray& array, const std::string& job) {
    sent_.jobs[array.token] = job;
    sent_.intents.erase(array.token);
    journal_.append({{"event", "submitted"}, {"token", array.token}, {"job", job}, {"name", array.name()}});
  }

  bool is_anything_left(const std::string& job) const {
    return rows_ && std::any_of(rows_->begin(), rows_->end(),
                                [&](const JobRow& row) { return row.array_job == job && !is_final(row.state); });
  }

  bool is_in_queue(const SubmittedArray& array, const std::string& job) const {
    return rows_ && std::any_of(rows_->begin(), rows_->end(), [&](const JobRow& row) {
             return row.array_job == job && row.name == array.name() && !is_final(row.state);
           });
  }

  std::string send_once(const SubmittedArray& array, const std::string& dependency) {
    std::vector<std::string> words = array.options;
    if (!dependency.empty()) {
      words.push_back("--dependency=" + dependency);
      // A job that can never start is cancelled immediately. Jobs that depend on it, the last job too, would otherwise
      // wait forever.
      words.push_back("--kill-on-invalid-dep=yes");
    }
    for (int tries = 0; tries < kTries; ++tries) {
      journal_.append({{"event", "submit-intent"}, {"token", array.token}});
      options_.heartbeat();
      const SbatchReply answer = slurm_.submit(words, array.script);
      if (!answer.job.empty()) {
        note_sent(array, answer.job);
        return answer.job;
      }
      report_.failed = answer.message;
      report_.refusal = answer.refusal;
      if (answer.refusal != Refusal::kUnknown) return "";
      options_.tell(cat(answer.message, "; looking for ", array.name(), " in the queue"));
      // Was the order lost, or the answer? The job's name shows it, once the controller answers again.
      double pause_s = options_.pause_s;
      int empty = 0;
      for (int look = 0; look < kLooks; ++look, pause_s *= 2) {
        std::this_thread::sleep_for(std::chrono::duration<double>(pause_s));
        options_.heartbeat();
        const auto rows = slurm_.jobs_named({array.name()});
        if (!rows) continue;
        if (!rows->empty()) {
          report_.failed.clear();
          note_sent(array, rows->front().array_job);
          return rows->front().array_job;
        }
        ++empty;
      }
      if (empty < 2) return "";  // not known either way: the next call looks again
      report_.failed.clear();
    }
    report_.failed = cat("sbatch gave no answer ", kTries, " times");
    return "";
  }

  void send_last() {
    SubmittedArray last = submission_.last;
    // A new one after each window, under a separate name.
    int number = 0;
    for (;; ++number) {
      last.token = number == 0 ? submission_.last.token : cat(submission_.last.token, "w", number);
      adopt(last);
      const auto job = sent_.jobs.find(last.token);
      if (job == sent_.jobs.end()) break;
      if (job->second != options_.own_job && is_in_queue(last, job->second)) {
        report_.last_is_sent = true;  // it will look for remaining work itself
        return;
      }
    }
    report_.looks_again = report_.looks_again && jobs_.empty();
    if (jobs_.empty() && !report_.looks_again) return;
    for (std::string& option : last.options) {
      if (option.rfind("--job-name=", 0) == 0) option = "--job-name=" + last.name();
    }
    // Jobs of others fill the queue: with none of ours to wait for, it waits for a while.
    if (report_.looks_again) last.options.push_back(cat("--begin=now+", kLookAgain));
    std::vector<ArrayNeed> needs;
    for (const auto& [array, job] : jobs_) needs.push_back({ArrayNeed::Kind::kAfterAny, array, {}});
    report_.last_is_sent = !send_once(last, dependency(needs, jobs_)).empty();
  }

  const Submission& submission_;
  Slurm& slurm_;
  const SendOptions& options_;
  fs::path folder_;
  SubmittedJobs sent_;
  Journal journal_;
  std::optional<std::vector<JobRow>> rows_;
  std::map<std::size_t, std::string> jobs_;  // arrays that still count → job
  SendReport report_;
};

}  // namespace

SendReport send(const Store& store, const Submission& submission, Slurm& slurm, const SendOptions& options) {
  return Sending(store, submission, slurm, options).send();
}

std::map<std::string, std::string> sent_jobs(const Store& store, const std::string& run) {
  return read_sent(folder_of(store, run) / "sent").jobs;
}

}  // namespace pe::pipeline

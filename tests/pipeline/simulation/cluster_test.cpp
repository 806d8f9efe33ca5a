// Hundreds of schedules of submissions on a Slurm in memory. Answers come late, are lost or never come; jobs are
// preempted, requeued or cancelled by people; nodes fail and submissions are interrupted. In half of them two users
// submit to one store, often on two clusters whose jobs have the same numbers. In every schedule: no result is made
// twice, and no array is in the queue twice. No process ends a submission whose jobs are in a queue. A cancelled job
// stays cancelled, and a new submission without trouble makes the missing results.
//
// PE_TEST_SEED=N runs that schedule alone, PE_TEST_SCHEDULES=N that many; both, so many from that one on.
#include <boost/test/unit_test.hpp>

#include <limits>
#include <memory>
#include <optional>

#include "pipeline/cluster/array_runner.h"
#include "pipeline/cluster/finalizer.h"
#include "pipeline/cluster/submission.h"
#include "pipeline/cluster/submit_lease.h"
#include "pipeline/plan/plan.h"
#include "pipeline/run/run_folder.h"
#include "pipeline/simulation/stages.h"
#include "pipeline/simulation/world.h"
#include "support/text.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using namespace pe::test;      // NOLINT
using support::cat;

namespace {

/// Tasks that do not need each other get one label, so that a job may have up to `pack` of them.
void pack_levels(Graph& graph, std::int64_t pack) {
  RetryPolicy once;
  once.max = 0;  // one task of a job may fail while another is at work
  std::vector<std::size_t> level(graph.tasks.size());
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    Task& task = graph.tasks[i];
    for (const Edge& edge : task.inputs) level[i] = std::max(level[i], level[edge.producer] + 1);
    task.label = graph.stage_labels[level[i]];
    task.resources.pack = pack;
    task.retry = once;
  }
}

/// The small graph with a stage that can be written down, as a submission does.
Graph submitted_graph(const Shape& shape, const fs::path& root, std::int64_t pack) {
  static const auto stage = [] {
    const auto plain = fake_stage();
    const Json role{{"name", "in"}, {"kind", "metrics"}, {"many", true}, {"optional", true}};
    return std::make_shared<const StageDescription>(
        parse_description({{"schema", "pe-stage/1"},
                           {"name", plain->name},
                           {"version", 1},
                           {"inputs", Json::array({role})},
                           {"outputs", Json::array({Json{{"name", "out"}, {"kind", "metrics"}}})},
                           {"fields", support::schema_to_json(plain->fields)},
                           {"resumes", true}},
                          "the simulation"));
  }();
  Graph graph = graph_of(shape, root);
  for (Task& task : graph.tasks) task.stage = stage;
  if (pack > 1) pack_levels(graph, pack);
  compute_plan_keys(graph);
  return graph;
}

struct Trouble {
  double late = 0, lost = 0, dropped = 0, silent = 0, full = 0;  // per call
  double preempt = 0, requeue = 0, cancel = 0, node_fails = 0;   // per job at work and look of the controller
  double cancel_all = 0;                                         // per look: `pe-pipeline cancel`
};

struct Seen {
  std::uint64_t lost = 0, silent = 0, preempted = 0, requeued = 0, cancelled = 0, failed_nodes = 0, cancelled_runs = 0,
                resumed = 0, gave_way = 0, shared = 0, kept = 0;

  Seen& operator+=(const Seen& more) {
    for (const auto member :
         {&Seen::lost, &Seen::silent, &Seen::preempted, &Seen::requeued, &Seen::cancelled, &Seen::failed_nodes,
          &Seen::cancelled_runs, &Seen::resumed, &Seen::gave_way, &Seen::shared, &Seen::kept})
      this->*member += more.*member;
    return *this;
  }
};

/// One element of an array.
struct Job {
  std::string id, array, name, dependency, user;
  double begins_s = 0;  // not sooner
  std::int64_t index = 0;
  std::vector<std::string> words;  // of the command that its script ends with
  std::string state = "PENDING";
  int restarts = 0;
  double began_s = 0, ended_s = 0;
  bool told = false;        // to stop
  bool comes_back = false;  // once it has stopped
  bool cancelled = false;
  double cancelled_s = 0;
  double asked_s = -1;  // when it last got its own state
  double kill_s = std::numeric_limits<double>::infinity();
  Process* process = nullptr;
  std::optional<int> code;  // set when its process is over

  bool is_final() const { return pipeline::is_final(state); }
};

/// The controller, and the nodes below it.
class Cluster {
 public:
  using Start = std::function<int(Cluster&, Job&)>;
  Cluster(World& world, Ledger& ledger, Start start, std::string cluster_name)
      : name(std::move(cluster_name)), world_(world), ledger_(ledger), start_(std::move(start)) {}

  const std::string name;
  Trouble trouble;
  Seen seen;
  int open = 0;  // submitters who may still send jobs
  std::vector<std::unique_ptr<Job>> jobs;
  std::function<void()> cancel_everything;

  SlurmCall call(const std::string& user) {
    return [this, user](const std::vector<std::string>& words, const std::string& script, double limit_s) {
      return answer(user, words, script, limit_s);
    };
  }

  /// The body of its process: looks at the jobs every few seconds until all are over.
  void control() {
    const Quiet quiet;
    while (true) {
      bool busy = open > 0;
      for (std::size_t k = 0; k < jobs.size(); ++k) {
        look_at(*jobs[k]);
        busy = busy || !jobs[k]->is_final();
      }
      if (!busy) return;
      if (world_.choices().chance(trouble.cancel_all)) {
        trouble.cancel_all = 0;
        ++seen.cancelled_runs;
        cancel_everything();
      }
      world_.sleep_until(world_.now() + 1 + static_cast<double>(world_.choices().pick(5)));
    }
  }

  /// As scancel does.
  void cancel(Job& job) {
    job.cancelled = true;
    job.cancelled_s = world_.now();
    job.comes_back = false;
    if (job.state == "PENDING") return end(job, "CANCELLED");
    if (job.is_final()) return;
    tell(job, 30);
    job.state = "COMPLETING";
  }

 private:
  void end(Job& job, const char* state) {
    job.state = state;
    job.ended_s = world_.now();
    job.kill_s = std::numeric_limits<double>::infinity();
  }
  void tell(Job& job, double grace_s) {
    job.told = true;
    job.kill_s = std::min(job.kill_s, world_.now() + grace_s);
  }
  Job* find(const std::string& array, std::int64_t index) {
    for (const auto& job : jobs) {
      if (job->array == array && job->index == index) return job.get();
    }
    return nullptr;
  }

  enum class Wait { kReady, kWait, kNever };
  Wait wait_of(const Job& job) {
    Wait worst = Wait::kReady;
    for (const std::string& part : support::split(job.dependency, ',')) {
      const auto words = support::split(part, ':');
      for (std::size_t w = 1; w < words.size(); ++w) {
        const auto bar = words[w].find('_');
        const std::string array = words[w].substr(0, bar);
        for (const auto& other : jobs) {
          if (other->array != array) continue;  // of an id that it does not know nothing is waited for
          if (bar != std::string::npos && std::to_string(other->index) != words[w].substr(bar + 1)) continue;
          if (words[0] == "aftercorr" && find(array, job.index) && other->index != job.index) continue;
          if (words[0] == "afterany" ? other->is_final() : other->state == "COMPLETED") continue;
          worst = std::max(worst, other->is_final() ? Wait::kNever : Wait::kWait);
        }
      }
    }
    return worst;
  }

  void look_at(Job& job) {
    Choices& choices = world_.choices();
    if (job.is_final()) return;
    if (job.code) return process_ready_tasks(job);
    if (job.process) {
      if (world_.now() >= job.kill_s) job.process->dead = true;
      if (job.state != "RUNNING") return;
      if (choices.chance(trouble.preempt)) {
        ++seen.preempted;
        tell(job, 5 + static_cast<double>(choices.pick(60)));
        job.comes_back = true;  // by Slurm, when its time is over
      } else if (choices.chance(trouble.requeue)) {
        ++seen.requeued;
        requeue(job);
      } else if (choices.chance(trouble.cancel)) {
        ++seen.cancelled;
        cancel(job);
      } else if (choices.chance(trouble.node_fails)) {
        ++seen.failed_nodes;
        job.comes_back = true;
        job.process->dead = true;
      }
      return;
    }
    if (world_.now() < job.begins_s) return;
    const Wait wait = wait_of(job);
    if (wait == Wait::kNever) return end(job, "CANCELLED");  // --kill-on-invalid-dep
    if (wait == Wait::kReady && choices.pick(3) > 0) begin(job);
  }

  void begin(Job& job) {
    if (job.cancelled) ledger_.wrong("a cancelled job came back: " + job.name);
    job.state = "RUNNING";
    job.began_s = world_.now();
    job.told = job.comes_back = false;
    job.code.reset();
    Process& process = world_.add("node", [this, &job] { job.code = start_(*this, job); });
    process.variables = {{"SLURM_JOB_ID", job.id},
                         {"SLURM_ARRAY_JOB_ID", job.array},
                         {"SLURM_ARRAY_TASK_ID", std::to_string(job.index)},
                         {"SLURM_CPUS_ON_NODE", "4"},
                         {"SLURM_CLUSTER_NAME", name},
                         {"SLURM_JOB_NAME", job.name},
                         {"SLURMD_NODENAME", "node"}};
    if (job.restarts > 0) process.variables["SLURM_RESTART_COUNT"] = std::to_string(job.restarts);
    job.process = &process;
  }

  /// Its process is over.
  void process_ready_tasks(Job& job) {
    const int code = *job.code;
    job.process = nullptr;
    job.code.reset();
    if (job.comes_back && (code != 0 || job.state == "COMPLETING")) {
      ++job.restarts;
      ++seen.resumed;
      end(job, "PENDING");
      return;
    }
    end(job, job.cancelled ? "CANCELLED" : code == 0 ? "COMPLETED" : "FAILED");
  }

  /// As scontrol requeue does: also of one that was cancelled, which then comes back.
  void requeue(Job& job) {
    job.comes_back = true;
    if (job.process) {
      tell(job, 30);
      job.state = "COMPLETING";
    } else if (job.is_final()) {
      ++job.restarts;
      end(job, "PENDING");
    }
  }

  /// The number of an array, which one of its elements has as well, means all of it.
  static bool is_meant(const Job& job, const std::string& id) {
    return id == job.array || id == job.id || id == cat(job.array, "_", job.index);
  }

  static std::string option(const std::vector<std::string>& words, const std::string& name) {
    for (const std::string& word : words) {
      if (word.rfind(name + "=", 0) == 0) return word.substr(name.size() + 1);
    }
    return "";
  }

  void take(const std::string& user, const std::vector<std::string>& words, const std::string& script,
            support::TimedCapture& captured) {
    const std::string array = std::to_string(next_id_++);
    const std::string line = script.substr(script.rfind("\nexec ") + 6);
    std::vector<std::string> command;
    for (std::string word : support::split(line.substr(0, line.find(" \"$")), ' ')) {
      std::erase(word, '\'');
      command.push_back(word);
    }
    for (const std::string& part : support::split(option(words, "--array"), ',')) {
      const auto dash = part.find('-');
      const std::int64_t first = std::stoll(part),
                         last = dash == std::string::npos ? first : std::stoll(part.substr(dash + 1));
      for (std::int64_t i = first; i <= last; ++i) {
        auto job = std::make_unique<Job>();
        job->id = i == first ? array : std::to_string(next_id_++);
        job->array = array;
        job->index = i;
        job->name = option(words, "--job-name");
        job->dependency = option(words, "--dependency");
        job->user = user;
        if (const std::string begin = option(words, "--begin"); !begin.empty())
          job->begins_s = world_.now() + std::stod(begin.substr(4));
        job->words = command;
        jobs.push_back(std::move(job));
      }
    }
    captured.out = array + "\n";
  }

  support::TimedCapture answer(const std::string& user, const std::vector<std::string>& words,
                               const std::string& script, double limit_s) {
    Choices& choices = world_.choices();
    support::TimedCapture captured;
    const auto fail = [&](const std::string& text) {
      captured.out.clear();
      captured.status.code = 1;
      captured.err = text;
    };
    const auto patience = [&](double seconds) {
      world_.sleep_until(world_.now() + seconds);
      if (World::moving() && World::moving()->dead) throw Crashed();
    };
    patience(choices.chance(trouble.late) ? static_cast<double>(choices.pick(static_cast<std::size_t>(limit_s)))
                                          : 0.01);
    const bool dropped = choices.chance(trouble.dropped);
    if (words[0] == "squeue") {
      if (dropped || choices.chance(trouble.silent)) {
        ++seen.silent;
        fail("slurm_load_jobs error: Unable to contact slurm controller (connect failure)");
        return captured;
      }
      const auto names = support::split(option(words, "--name"), ',');
      const std::string id = option(words, "--jobs");
      const bool own = std::find(words.begin(), words.end(), "--me") != words.end();
      for (const auto& job : jobs) {
        if (own && job->user != user) continue;
        if (job->is_final() && world_.now() > job->ended_s + 300) continue;  // it remembers them no longer
        if (!option(words, "--name").empty() && std::find(names.begin(), names.end(), job->name) == names.end())
          continue;
        if (!id.empty() && job->id != id) continue;
        if (!id.empty()) job->asked_s = world_.now();  // by itself
        captured.out +=
            cat(job->array, "|", job->id, "|", job->index, "|", job->state, "|None||0:10|1:00:00|", job->name, "\n");
      }
      return captured;
    }
    if (words[0] == "sbatch" && choices.chance(trouble.full)) {
      fail("sbatch: error: QOSMaxSubmitJobPerUserLimit");
      return captured;
    }
    if (words[0] == "scontrol" && words[1] == "show") {
      captured.out = "ClusterName = " + name + "\nSLURM_VERSION = 22.05.8\n";
      return captured;
    }
    if (!dropped) {
      if (words[0] == "sbatch") take(user, words, script, captured);
      if (words[0] == "scancel") {
        for (std::size_t w = 1; w < words.size(); ++w) {
          for (const auto& job : jobs) {
            if (job->user != user) continue;
            if (words[w] == job->array || words[w] == cat(job->array, "_", job->index)) cancel(*job);
          }
        }
      }
      if (words[0] == "scontrol" && words[1] == "update") {
        ++seen.gave_way;
        const std::string id = option(words, "JobId"), start = option(words, "StartTime");
        for (const auto& job : jobs) {
          if (is_meant(*job, id)) job->begins_s = world_.now() + std::stod(start.substr(4));
        }
      }
      if (words[0] == "scontrol" && words[1] == "requeue") {
        for (const auto& job : jobs) {
          if (!is_meant(*job, words[2])) continue;
          // Between question and order the answer may change; later, Slurm would bring it back all the same.
          if (job->cancelled && job->cancelled_s <= job->asked_s) ledger_.wrong("a cancelled job requeued itself");
          job->cancelled = false;
          requeue(*job);
        }
      }
    }
    if (dropped || choices.chance(trouble.lost)) {
      ++seen.lost;
      fail(words[0] + ": error: Socket timed out on send/recv operation");
    }
    return captured;
  }

  World& world_;
  Ledger& ledger_;
  Start start_;
  int next_id_ = 100;
};

/// Stages of an element; none may start for a run that was cancelled before the element began.
class ElementRunner : public SimulatedRunner {
 public:
  ElementRunner(World& world, Ledger& ledger, const fs::path& store, double failing, std::size_t longest_s,
                bool cancelled)
      : SimulatedRunner(world, ledger, store, Endings::kByChance, failing, longest_s),
        ledger_(ledger),
        cancelled_(cancelled) {}
  void start(const Launch& launch) override {
    if (cancelled_) ledger_.wrong("a stage was started for a run that had been cancelled");
    SimulatedRunner::start(launch);
  }

 private:
  Ledger& ledger_;
  bool cancelled_;
};

/// A submitter, with user and host.
struct Submitter {
  std::string user;
  Cluster* cluster = nullptr;
  bool asked_before = false;
};

class ClusterPlay {
 public:
  ClusterPlay(Shape shape, Choices& choices, const Faults& faults, int users = 1, int clusters = 1)
      : shape_(std::move(shape)), root_(scene_folder() / "root"), world_(scene_folder() / "disk", choices, faults) {
    fs::remove_all(scene_folder());
    fs::create_directories(root_);
    fs::create_directories(world_.disk());
    note_unsynced(world_.disk());
    for (int k = 0; k < clusters; ++k) {
      clusters_.push_back(std::make_unique<Cluster>(
          world_, ledger_, [this](Cluster& cluster, Job& job) { return start(cluster, job); },
          k == 0 ? "alpha" : "beta"));
      Cluster& cluster = *clusters_.back();
      cluster.cancel_everything = [this, &cluster] { cancel_open(cluster); };
    }
    for (int k = 0; k < users; ++k)
      submitters_.push_back({k == 0 ? "ann" : "bob", clusters_[static_cast<std::size_t>(k % clusters)].get()});
  }

  World& world() { return world_; }
  Ledger& ledger() { return ledger_; }
  void set_trouble(const Trouble& trouble) {
    for (const auto& cluster : clusters_) cluster->trouble = trouble;
  }
  Seen seen() const {
    Seen all;
    for (const auto& cluster : clusters_) all += cluster->seen;
    all.shared = submitters_.size() > 1;
    return all;
  }
  std::string mode = "stage";
  std::int64_t max_in_queue = 0, pack = 1;
  double failing = 0;
  std::size_t longest_s = 40;  // of a stage

  /// Runs `submit` of all users up to `times` times, as a user does after an interruption, and all consequences.
  void play(int times) {
    for (Submitter& submitter : submitters_) {
      ++submitter.cluster->open;
      add_submitter(submitter, times);
    }
    for (const auto& cluster : clusters_) world_.add("controller", [&cluster] { cluster->control(); });
    world_.run();
    for (const auto& cluster : clusters_) {
      std::map<std::string, std::set<std::string>> arrays;
      for (const auto& job : cluster->jobs) arrays[job->name].insert(job->array);
      for (const auto& [name, ids] : arrays) {
        if (ids.size() > 1) ledger_.wrong("an array was sent twice: " + name);
      }
    }
  }

  std::map<std::string, std::string> contents() const {
    std::map<std::string, std::string> all;
    if (!fs::exists(store() / "VERSION")) return all;
    const Store opened(store(), {.durable = false, .create = false});
    for (const ResultKey& key : opened.keys()) {
      const auto record = opened.read(key);
      if (!record) {
        ledger_.wrong("a record that cannot be read");
        continue;
      }
      for (const OutputRecord& output : record->outputs) {
        if (!opened.damaged(output).empty()) ledger_.wrong("a record whose objects are not whole");
      }
      all[key.key] = record->outputs.at(0).content;
    }
    return all;
  }

 private:
  fs::path store() const { return world_.disk() / "store"; }

  void add_submitter(Submitter& submitter, int times) {
    world_.add("login", [this, &submitter, times] {
      bool sent = false;
      try {
        sent = submit(submitter);
      } catch (const Crashed&) {
      } catch (const support::Error& error) {
        if (!World::moving()->dead) ledger_.wrong(std::string("an error of submit: ") + error.what());
      } catch (const std::exception& error) {
        if (!World::moving()->dead) ledger_.wrong(std::string("a mistake of submit: ") + error.what());
      }
      if (!sent && times > 1)
        add_submitter(submitter, times - 1);
      else
        --submitter.cluster->open;
    });
  }

  /// Only its own last job ends a submission whose elements wait or run somewhere.
  void check_ended(const Store& opened) {
    const Quiet quiet;
    for (const std::string& run : opened.runs()) {
      if (!fs::exists(opened.runs_folder() / run / "summary.json")) continue;
      const auto submission = read_submission(opened, run);
      if (!submission) continue;
      for (const SubmittedArray& array : submission->arrays) {
        for (const auto& cluster : clusters_) {
          for (const auto& job : cluster->jobs) {
            if (job->name == array.name() && !job->is_final() && array.live_job.empty())
              ledger_.wrong("a submission was ended while its jobs are in the queue: " + run);
          }
        }
      }
    }
  }

  /// As the command does, from the plan to the last sbatch. False: it is to be called again.
  bool submit(Submitter& submitter) {
    if (submitter.asked_before) world_.sleep_until(world_.now() + 60);
    submitter.asked_before = true;
    if (World::moving()->dead) throw Crashed();
    Store opened(store(), {.durable = false});
    const Graph graph = submitted_graph(shape_, root_, pack);
    const Plan plan = make_plan(graph, StoreReader(opened), {});
    if (plan.nothing_to_do()) return true;
    std::vector<bool> to_run(graph.tasks.size());
    for (std::size_t i = 0; i < graph.tasks.size(); ++i)
      to_run[i] = plan.tasks[i].state == TaskState::kRun || plan.tasks[i].state == TaskState::kLikelyReuse;
    Slurm slurm(submitter.cluster->call(submitter.user), 60, submitter.user);
    SubmitLease lease(opened, graph.name, slurm, [](const std::string&) {});
    const auto rows = slurm.own_jobs();
    if (!rows) return false;
    std::vector<Submission> open = open_submissions(opened);
    std::erase_if(open, [&](const Submission& one) { return !is_own(one, slurm); });
    const LiveTasks live = live_tasks(opened, open, *rows);
    if (!live.blocked.empty()) slurm.cancel(live.blocked);
    Grouping grouping;
    grouping.mode = mode;
    grouping.largest_array = max_in_queue > 0 ? max_in_queue - 1 : 3;
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      const auto found = live.by_plan_key.find(graph.tasks[i].plan_key);
      if (found != live.by_plan_key.end() && to_run[i]) grouping.live[i] = found->second;
    }
    end_abandoned(opened, open, *rows, slurm);
    check_ended(opened);
    const std::vector<JobArray> arrays = group(graph, to_run, grouping);
    if (std::all_of(arrays.begin(), arrays.end(), [](const JobArray& array) { return !array.live_job.empty(); }))
      return true;
    RunOptions options;
    options.run_id = "20260101-000000-" + std::to_string(++runs_);
    options.command = {"pe-pipeline", "run", "small.yml"};
    const RunFolder folder(opened, graph, plan, options);
    SubmissionRequest order;
    order.run = folder.run_id();
    order.store = store();
    order.program = "/bin/pe-pipeline";
    order.command = options.command;
    order.max_in_queue = max_in_queue;
    order.user = slurm.user();
    order.cluster = slurm.cluster();
    const PreparedSubmission made = make_submission(graph, arrays, order);
    write_submission(opened, graph, made);
    SendOptions sending;
    sending.heartbeat = [&] { lease.send_heartbeat(); };
    if (max_in_queue > 0) sending.room = max_in_queue;
    return send(opened, made.submission, slurm, sending).failed.empty();
  }

  /// `pe-pipeline cancel` of everything: the mark first, then scancel.
  void cancel_open(Cluster& cluster) {
    if (!fs::exists(store() / "VERSION")) return;
    const Store opened(store(), {.durable = false, .create = false});
    for (const Submission& submission : open_submissions(opened)) {
      if (submission.cluster != cluster.name) continue;
      mark_cancelled(opened, submission.run, {});
      cancelled_runs_.insert(submission.run);
      for (const SubmittedArray& array : submission.arrays) {
        for (const auto& job : cluster.jobs) {
          if (job->name == array.name() && !job->is_final()) cluster.cancel(*job);
        }
      }
    }
  }

  /// The job's script; returns its exit code.
  int start(Cluster& cluster, Job& job) {
    struct Listener : RunListener {
      explicit Listener(Ledger& ledger) : ledger(ledger) {}
      void on_event(const RunEvent& event, const RunState&) override {
        if (event.name == "conflict") ledger.wrong("a conflict");
        failed = failed || event.name == "fail";
      }
      Ledger& ledger;
      bool failed = false;
    };
    try {
      Slurm slurm(cluster.call(job.user), 60, job.user);
      if (job.words.at(1) == "__last") {
        Store opened(job.words.at(2), {.durable = false});
        go_on(opened, job.words.at(3), slurm, job.array);
        return 0;
      }
      ElementOrder order;
      order.store = job.words.at(2);
      order.run = job.words.at(3);
      order.token = job.words.at(4);
      order.digest = job.words.at(5);
      order.index = job.index;
      order.publish_threads = 0;  // a process of the world is one context
      ElementRunner runner(world_, ledger_, store(), failing, longest_s, cancelled_runs_.count(order.run) > 0);
      Listener listener(ledger_);
      const int code = run_element(order, slurm, runner, listener, [&job] { return job.told ? 1 : 0; });
      if (World::moving()->dead) throw Crashed();
      if (code == 0 && job.comes_back && listener.failed) ++cluster.seen.kept;
      return code;
    } catch (const Crashed&) {
      return -1;
    } catch (const support::Error& error) {
      if (!World::moving()->dead) ledger_.wrong(std::string("an error of an element: ") + error.what());
      return -1;
    } catch (const std::exception& error) {
      if (!World::moving()->dead) ledger_.wrong(std::string("a mistake of an element: ") + error.what());
      return -1;
    }
  }

  Shape shape_;
  fs::path root_;
  World world_;
  mutable Ledger ledger_;
  std::vector<std::unique_ptr<Cluster>> clusters_;
  std::vector<Submitter> submitters_;
  int runs_ = 0;
  std::set<std::string> cancelled_runs_;
};

/// Results of an undisturbed submission of a shape.
const std::map<std::string, std::string>& expected(const Shape& shape, std::int64_t pack) {
  static std::map<std::pair<Shape, std::int64_t>, std::map<std::string, std::string>> known;
  auto [found, fresh] = known.try_emplace({shape, pack});
  if (fresh) {
    RandomChoices choices(1);
    Faults peace;
    peace.change = 0;
    ClusterPlay play(shape, choices, peace);
    play.pack = pack;
    play.play(1);
    found->second = play.contents();
    std::string all;
    for (const std::string& wrong : play.ledger().wrongs) all += "\n  " + wrong;
    BOOST_REQUIRE_MESSAGE(all.empty(), all);
    BOOST_REQUIRE(found->second.size() == shape.size());
    for (const auto& [key, times] : play.ledger().started) BOOST_REQUIRE(times == 1);
  }
  return found->second;
}

Seen play_schedule(std::uint64_t seed) {
  RandomChoices choices(seed);
  Shape shape;
  const std::size_t tasks = 1 + choices.pick(4);
  for (std::size_t i = 0; i < tasks; ++i) shape.push_back(static_cast<unsigned>(choices.pick(1u << i)));
  const std::int64_t pack = choices.pick(3) == 0 ? 2 : 1;
  expected(shape, pack);
  Faults faults;
  faults.change = 0.05;
  if (choices.pick(3) == 0) faults.crash = 0.002;
  const int users = choices.pick(2) == 0 ? 2 : 1;
  const int clusters = users == 2 && choices.pick(2) == 0 ? 2 : 1;
  ClusterPlay play(shape, choices, faults, users, clusters);
  play.mode = choices.pick(3) == 0 ? "lane" : "stage";
  play.pack = pack;
  if (choices.pick(4) == 0) play.max_in_queue = 2 + static_cast<std::int64_t>(choices.pick(3));
  if (pack > 1 || choices.pick(4) == 0) play.failing = pack > 1 ? 0.4 : 0.2;
  // Longer than a job waits for another user's.
  if (users == 2 && choices.pick(3) == 0) play.longest_s = 600;
  Trouble trouble;
  if (choices.pick(2) == 0) trouble.late = 0.2;
  if (choices.pick(2) == 0) trouble.lost = 0.1;
  if (choices.pick(3) == 0) trouble.dropped = 0.1;
  if (choices.pick(3) == 0) trouble.silent = 0.2;
  if (choices.pick(6) == 0) trouble.full = 0.1;
  if (choices.pick(2) == 0) trouble.preempt = pack > 1 ? 0.2 : 0.05;
  if (choices.pick(3) == 0) trouble.requeue = 0.03;
  if (choices.pick(3) == 0) trouble.cancel = 0.02;
  if (choices.pick(3) == 0) trouble.node_fails = 0.02;
  if (choices.pick(4) == 0) trouble.cancel_all = 0.02;
  play.set_trouble(trouble);
  play.play(3);
  // Without trouble: a new submission gets everything.
  play.set_trouble({});
  play.failing = 0;
  Faults peace;
  peace.change = 0;
  play.world().set_faults(peace);
  for (int i = 0; i < 3 && play.contents().size() < shape.size(); ++i) play.play(1);
  if (play.contents() != expected(shape, pack))
    play.ledger().wrong("other results than those of an undisturbed submission");
  std::string all;
  for (const std::string& wrong : play.ledger().wrongs) all += "\n  " + wrong;
  BOOST_REQUIRE_MESSAGE(all.empty(), "PE_TEST_SEED=" << seed << ", tasks " << text_of(shape) << ":" << all);
  return play.seen();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(simulation_cluster)

BOOST_AUTO_TEST_CASE(whatever_happens_nothing_is_done_twice_and_what_is_cancelled_stays_so) {
  const std::uint64_t first = number_from("PE_TEST_SEED", 1);
  if (::getenv("PE_TEST_SEED") && !::getenv("PE_TEST_SCHEDULES")) {
    play_schedule(first);
    return;
  }
  const std::uint64_t schedules = number_from("PE_TEST_SCHEDULES", 400);
  Seen all;
  for (std::uint64_t seed = first; seed < first + schedules; ++seed) {
    all += play_schedule(seed);
  }
  BOOST_TEST_MESSAGE(schedules << " schedules: " << all.lost << " lost answers, " << all.silent << " silences, "
                               << all.preempted << " preemptions, " << all.requeued << " requeues, " << all.cancelled
                               << " jobs and " << all.cancelled_runs << " runs cancelled, " << all.failed_nodes
                               << " nodes failed, " << all.resumed << " jobs came back, " << all.gave_way
                               << " gave way to another user; " << all.shared << " with two users; " << all.kept
                               << " jobs came back for the other tasks of one that had failed");
  BOOST_TEST(all.kept > 0u);
  for (const std::uint64_t count : {all.lost, all.silent, all.preempted, all.requeued, all.cancelled, all.failed_nodes,
                                    all.cancelled_runs, all.resumed, all.gave_way, all.shared}) {
    BOOST_TEST(count > schedules / 100);
  }
}

BOOST_AUTO_TEST_CASE(a_seed_replays_its_schedule) {
  for (const std::uint64_t seed : {5u, 23u, 42u}) {
    const Seen first = play_schedule(seed), again = play_schedule(seed);
    BOOST_TEST(first.lost == again.lost, "seed " << seed);
    BOOST_TEST(first.resumed == again.resumed, "seed " << seed);
  }
}

BOOST_AUTO_TEST_SUITE_END()

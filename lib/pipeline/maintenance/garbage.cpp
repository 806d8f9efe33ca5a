#include "pipeline/maintenance/garbage.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <set>

#include "pipeline/maintenance/inventory.h"
#include "pipeline/maintenance/pin.h"
#include "pipeline/maintenance/uses.h"
#include "pipeline/run/failure.h"
#include "pipeline/run/run_folder.h"
#include "pipeline/run/run_status.h"
#include "pipeline/store/attempt.h"
#include "pipeline/store/host.h"
#include "pipeline/store/journal.h"
#include "pipeline/store/shard_name.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/fault_point.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/json_fields.h"
#include "support/parse_json.h"
#include "support/sha256_text.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::field_or;
using support::text_in;

namespace {

// Lower limit of every grace: a run of another host that was silent for less than this may be alive, and a younger file
// may still be in writing.
constexpr double kLeastPatience = 600;

double seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

struct EntryStat {
  std::uint64_t bytes = 0;
  double mtime = 0, ctime = 0;
  bool folder = false;
};

/// Nothing where nothing is. @throws IoError when that cannot be seen
std::optional<EntryStat> look(const fs::path& path) {
  struct stat status {};
  if (::lstat(path.c_str(), &status) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    support::throw_errno("look at", path.string());
  }
  return EntryStat{static_cast<std::uint64_t>(status.st_size), seconds(status.st_mtim), seconds(status.st_ctim),
                   S_ISDIR(status.st_mode)};
}

/// Bytes of a tree, and its newest change.
EntryStat measure(const fs::path& path) {
  auto seen = look(path);
  if (!seen) return {};
  if (!seen->folder) return *seen;
  EntryStat total;
  total.folder = true;
  total.mtime = seen->mtime;
  for (const std::string& name : support::list_folder(path)) {
    const EntryStat inner = measure(path / name);
    total.bytes += inner.bytes;
    total.mtime = std::max(total.mtime, inner.mtime);
    total.ctime = std::max(total.ctime, inner.ctime);
  }
  return total;
}

/// Whether a process of this host made this unique name (support::unique_sibling) and still lives.
bool of_living_process(const std::string& name) {
  const auto split = [](const std::string& text) {  // .tmp.<host>.<pid>.<number>
    const std::size_t number = text.rfind('.');
    const std::size_t pid = number == std::string::npos || number == 0 ? number : text.rfind('.', number - 1);
    if (pid == std::string::npos) return std::pair<std::string, std::string>();
    const std::size_t tmp = text.find(".tmp.");
    return std::pair(tmp < pid ? text.substr(tmp, pid - tmp) : "", text.substr(pid + 1, number - pid - 1));
  };
  const auto [host, pid] = split(name);
  if (host.empty() || host != split(support::unique_sibling("own").string()).first) return false;
  const auto number = support::parse_integer(pid);
  return number && process_life(*number, 0) != ProcessLife::kGone;
}

bool is_temporary(const std::string& name) { return name.find(".tmp.") != std::string::npos; }

/// The results of one run: asked for, made or found.
struct RunRoots {
  std::string pipeline, variant;  ///< the pipeline with its root; the variant with both
  double started = 0;
  bool complete = false;  ///< the whole pipeline was asked for, and came
  std::set<std::string> keys, plan_keys;
};

/// Of the plan in a folder. @throws ArtifactError when it is damaged, IoError when it cannot be read
RunRoots roots_in(const Store& store, const fs::path& folder) {
  RunRoots roots;
  const Json plan = read_plan(folder, [&](const Json& task) {
    if (const std::string key = text_in(task, "task_key"); !key.empty()) roots.keys.insert(key);
    const std::string plan_key = text_in(task, "plan_key");
    if (plan_key.empty()) return;
    roots.plan_keys.insert(plan_key);
    if (const auto key = store.hint(plan_key)) roots.keys.insert(*key);
  });
  roots.pipeline = cat(text_in(plan, "root"), "\n", text_in(plan, "pipeline"));
  roots.variant = cat(roots.pipeline, "\n", text_in(plan, "variant"));
  roots.started = field_or(plan, "started", 0.0);
  roots.complete =
      field_or(plan, "whole", false);  // plans of earlier versions do not say whether they are of a selection
  return roots;
}

/// As `roots_in`, with the keys that its journals name.
RunRoots roots_of_run(const Store& store, const std::string& id) {
  const fs::path folder = store.runs_folder() / id;
  RunRoots roots = roots_in(store, folder);
  each_journal_event(folder, [&](const JournalEvent& event) {
    if (!event.key.empty()) roots.keys.insert(event.key);
  });
  Json summary;
  if (roots.complete && support::is_there(folder / "summary.json"))
    summary = support::parse_json(support::read_file(folder / "summary.json"));
  roots.complete = summary.is_object() && summary.value("exit_code", Json()) == 0;
  return roots;
}

class Collector {
 public:
  Collector(Store& store, const GarbageOptions& options)
      : store_(store), options_(options), now_(support::file_time(store.root())), dry_(options.dry_run) {}

  /// @throws IoError; before anything was dropped when a folder or a file with records cannot be read
  GarbageReport collect() {
    // Objects are listed before records are read: what is published meanwhile is in no list, and stays.
    list_objects();
    inventory_ = std::make_shared<const Inventory>(read_inventory(store_));
    report_.results = inventory_->results.size();
    mark();
    measure_all();
    report_.bytes_before = live_bytes_;
    if (!dry_) {
      // A rehearsal lists every folder before the first drop: a folder that cannot be listed is not an empty one.
      Collector rehearsal = *this;
      rehearsal.dry_ = true;
      rehearsal.drop_all();
      store_.tidy_memos();
    }
    drop_all();
    report_.bytes_after = live_bytes_;
    if (options_.max_bytes && live_bytes_ > *options_.max_bytes) report_.fits = false;
    return std::move(report_);
  }

 private:
  void drop_all() {
    drop_leftovers();
    drop_runs();
    drop_logs();
    drop_memos();
    if (options_.max_bytes) drop_checkpoints();
    drop_results();
    restore_for_new_runs();
    empty_trash();
  }

  bool old(double when) const { return when <= now_ - options_.grace_s; }
  /// Old enough that no process can be writing it any more.
  bool abandoned(double when) const { return when <= now_ - std::max(options_.grace_s, kLeastPatience); }

  void list_objects() {
    for (const std::string& shard : support::list_folder(store_.root() / "objects")) {
      if (!is_shard(shard)) continue;
      for (const std::string& name : support::list_folder(store_.root() / "objects" / shard)) {
        const fs::path path = store_.root() / "objects" / shard / name;
        const auto seen = look(path);
        if (!seen) continue;
        if (!support::is_sha256(name)) {
          stray_.push_back({path, *seen});
          continue;
        }
        objects_.emplace(name, *seen);
        live_bytes_ += seen->bytes;
      }
    }
  }

  // ---- roots --------------------------------------------------------------------------------------------------------

  void mark() {
    for (const std::string& id : live_runs(store_)) live_.insert(id);
    for (const std::string& name : support::list_folder(store_.root() / "leases")) {
      const std::string plan_key = name.substr(0, 64);
      if (!support::is_sha256(plan_key)) continue;
      busy_plans_.insert(plan_key);
      run_plans_.insert(plan_key);
      if (const auto key = store_.hint(plan_key)) run_keys_.insert(*key);
    }
    mark_runs();
    std::vector<std::string> damaged;
    list_strays(pins_folder(store_));
    pins_seen_ = changed(pins_folder(store_));
    for (const Pin& pin : read_pins(store_, &damaged)) {
      for (const ResultKey& key : pin.keys) pinned_.insert({key.key, key.step});
    }
    for (const std::string& path : damaged) keep_results(cat("the pin ", path, " cannot be read"));
    for (const StoredResult& result : inventory_->results) {
      report_.known += std::any_of(result.outputs.begin(), result.outputs.end(), [&](const OutputRecord& output) {
        return output.absent && objects_.count(output.object) == 0;
      });
      for (const std::string& digest : digests_of(result)) ++references_[digest];
      if (pinned_.count({result.key.key, result.key.step}) != 0) {
        ++report_.kept_by_pins;
      } else if (run_keys_.count(result.key.key) != 0 || run_plans_.count(result.plan_key) != 0) {
        // By its plan key where the run could not write its journal and the hint, on a disk that was full.
        ++report_.kept_by_runs;
      } else if (!old(result.written) || (!live_.empty() && !abandoned(result.written))) {
        // A run commits a record first and writes its journal afterwards.
        ++report_.kept_by_grace;
      } else {
        droppable_.push_back(&result);
      }
    }
    count_conflicts();
  }

  void keep_results(const std::string& why) {
    report_.notes.push_back(why + ", so no result is dropped");
    may_drop_results_ = false;
  }

  struct Run {
    std::string name;
    fs::path path;
    RunRoots roots;
    EntryStat seen;
    bool live = false;
  };

  /// Every run, and every use of results by a run that found them there; newest first, by the clock: ids of one second
  /// are in no order.
  std::vector<Run> list_runs() {
    std::vector<Run> runs;
    const auto add = [&](const std::string& name, const fs::path& path, const auto& read) {
      try {
        runs.push_back({name, path, read(), measure(path), live_.count(name) != 0});
      } catch (const support::ArtifactError& error) {
        keep_results(error.diagnostics().front().message);
      }
    };
    for (const std::string& id : store_.runs(ClosedRuns::kIncluded)) {
      known_runs_.insert(id);
      add(id, store_.runs_folder() / id, [&] { return roots_of_run(store_, id); });
    }
    for (const std::string& name : support::list_folder(uses_folder(store_.root()))) {
      const fs::path path = uses_folder(store_.root()) / name;
      if (const auto seen = look(path); seen && seen->folder) list_strays(path);
      const auto use = look(path / "plan.json");
      if (!use) continue;
      known_uses_[name] = use->mtime;
      add(name, path, [&] { return roots_in(store_, path); });
      if (!runs.empty() && runs.back().path == path) runs.back().roots.started = runs.back().seen.mtime;
    }
    std::stable_sort(runs.begin(), runs.end(),
                     [](const Run& a, const Run& b) { return a.roots.started > b.roots.started; });
    return runs;
  }

  /// The newest N complete runs of a pipeline with the same options protect what they used, and so does everything that
  /// ran since: selections, and runs that are not complete.
  void mark_runs() {
    const std::size_t kept_complete = std::max<std::size_t>(1, options_.keep_last.value_or(1));
    std::map<std::string, std::size_t> of_pipeline, complete_of_variant;
    for (const Run& run : list_runs()) {
      std::size_t& complete = complete_of_variant[run.roots.variant];
      const bool protects = run.live || !old(run.seen.mtime) || complete < kept_complete;
      complete += run.roots.complete;
      const std::size_t place = of_pipeline[run.roots.pipeline]++;
      // A run whose plan is not written yet is young; one of another host may be at work though it is silent.
      if (!protects && place >= options_.keep_runs && abandoned(run.seen.mtime))
        surplus_runs_.push_back(run);
      else
        named_plans_.insert(run.roots.plan_keys.begin(), run.roots.plan_keys.end());
      if (run.live) busy_plans_.insert(run.roots.plan_keys.begin(), run.roots.plan_keys.end());
      if (!protects) continue;
      run_keys_.insert(run.roots.keys.begin(), run.roots.keys.end());
      run_plans_.insert(run.roots.plan_keys.begin(), run.roots.plan_keys.end());
    }
  }

  void list_strays(const fs::path& folder) {
    for (const std::string& name : support::list_folder(folder)) {
      const auto seen = is_temporary(name) ? look(folder / name) : std::nullopt;
      if (seen) stray_.push_back({folder / name, *seen});
    }
  }

  /// Objects of a conflict live as long as its record.
  void count_conflicts() {
    for (const char* kind : {"tasks", "tracks"}) {
      for (const std::string& shard : support::list_folder(store_.root() / kind)) {
        if (!is_shard(shard) && !support::is_sha256(shard)) continue;
        for (const std::string& name : support::list_folder(store_.root() / kind / shard)) {
          const fs::path path = store_.root() / kind / shard / name;
          if (is_temporary(name)) {
            if (const auto seen = look(path)) stray_.push_back({path, *seen});
            continue;
          }
          if (name.find(".conflict.") == std::string::npos) continue;
          try {
            for (const OutputRecord& output : record_from_text(support::read_file(path), path.string()).outputs) {
              ++references_[output.object];
              for (const std::string& member : output.members) ++references_[member];
            }
          } catch (const support::ArtifactError&) {
            // Damaged: it says nothing.
          } catch (const support::IoError&) {
            if (look(path)) throw;  // else gone meanwhile
          }
        }
      }
    }
  }

  static std::vector<std::string> digests_of(const StoredResult& result) {
    std::vector<std::string> digests;
    for (const OutputRecord& output : result.outputs) {
      digests.push_back(output.object);
      digests.insert(digests.end(), output.members.begin(), output.members.end());
    }
    return digests;
  }

  // ---- dropping -----------------------------------------------------------------------------------------------------

  void add(Deletion dropped) {
    if (dropped.what == Deletion::What::kTrash)
      report_.deleted += dropped.bytes;
    else
      report_.to_trash += dropped.bytes;
    report_.dropped.push_back(std::move(dropped));
  }

  void before_drop() const {
    if (!dry_) support::fault_point("drop");
  }

  /// Moves an object away unless someone published it again since it was listed.
  bool drop_object(const std::string& digest) {
    const auto listed = objects_.find(digest);
    if (listed == objects_.end()) return false;
    const fs::path path = store_.object_path(digest);
    if (!dry_) {
      const auto seen = look(path);
      if (!seen || seen->mtime != listed->second.mtime) return false;
      const fs::path to = store_.move_to_trash(path);
      if (to.empty()) return false;
      const auto moved = look(to);
      if (moved && moved->mtime != listed->second.mtime) {
        // Published again between the look and the move. The publisher may have found it in place, so it is moved back.
        if (::link(to.c_str(), path.c_str()) == 0 || errno == EEXIST) ::unlink(to.c_str());
        return false;
      }
      moved_.push_back({path, to, digest});
    }
    live_bytes_ -= std::min(live_bytes_, listed->second.bytes);
    objects_.erase(listed);
    return true;
  }

  void drop_leftovers() {
    if (!inventory_->unreadable.empty()) {
      report_.notes.push_back(cat(inventory_->unreadable.size(),
                                  " record(s) are damaged, so objects without a record stay; 'pe-pipeline doctor "
                                  "--fix' moves such records to the trash"));
    } else {
      std::vector<std::string> unused;
      for (const auto& [digest, seen] : objects_) {
        // An object may be waiting for its record: of a run, or of a transfer, which no file names.
        if (references_.count(digest) == 0 && abandoned(seen.mtime)) unused.push_back(digest);
      }
      for (const std::string& digest : unused) {
        before_drop();
        const std::uint64_t bytes = objects_.at(digest).bytes;
        if (drop_object(digest))
          add({Deletion::What::kLeftover, cat("objects/", digest.substr(0, 2), "/", digest), "", -1, bytes, 0,
               "no record names it"});
      }
    }
    for (const auto& [path, seen] : stray_) {
      if (!abandoned(std::max(seen.mtime, seen.ctime))) continue;
      drop_path(path, seen.bytes, "an unfinished file");
    }
    for (const std::string& name : support::list_folder(store_.root() / "work")) {
      const fs::path folder = store_.root() / "work" / name;
      if (closed_.count(name) != 0) continue;
      if (support::is_sha256(name)) {
        tidy_attempts(name);
        continue;
      }
      const EntryStat seen = measure(folder);
      if (abandoned(seen.mtime) && !of_living_process(name))
        drop_path(folder, seen.bytes, "scratch of an earlier command");
    }
  }

  void drop_path(const fs::path& path, std::uint64_t bytes, const std::string& why,
                 Deletion::What what = Deletion::What::kLeftover, std::string name = {}) {
    if (name.empty()) name = path.lexically_relative(store_.root()).string();
    before_drop();
    if (!dry_ && store_.move_to_trash(path).empty()) return;
    live_bytes_ -= std::min(live_bytes_, bytes);
    add({what, name, "", -1, bytes, 0, why});
  }

  bool in_use(const std::string& plan_key) const {
    if (closed_.count(plan_key) != 0) return true;
    // Leases are looked at again, since a run may have begun since.
    return busy_plans_.count(plan_key) != 0 || look(store_.root() / "leases" / plan_key) ||
           find_orphan(store_.attempts(plan_key)).has_value();
  }

  /// Removes files of attempts that no next attempt will read.
  void tidy_attempts(const std::string& plan_key) {
    const auto attempts = store_.attempts(plan_key);
    if (attempts.empty() || in_use(plan_key)) return;
    const auto keep = find_resumable(attempts);
    for (const fs::path& attempt : attempts) {
      // One that has not ended may just be starting.
      const EntryStat before = measure(attempt);
      if (look(attempt / "exit.json") ? !old(before.mtime) : !abandoned(before.mtime)) continue;
      const std::uint64_t freed = strippable(attempt, keep && *keep == attempt);
      if (freed == 0) continue;
      const std::string name = attempt.lexically_relative(store_.root()).string();
      before_drop();
      if (!dry_) strip_attempt(attempt, keep && *keep == attempt);
      live_bytes_ -= std::min(live_bytes_, freed);
      add({Deletion::What::kLeftover, name, "", -1, freed, 0, "of a finished attempt"});
    }
  }

  static std::uint64_t strippable(const fs::path& attempt, bool keep_own_files) {
    std::uint64_t bytes = 0;
    for (const std::string& name : support::list_folder(attempt)) {
      if (is_kept_of_attempt(name)) continue;
      const bool ours = name == "inputs" || name == "out";
      if (ours || !keep_own_files) bytes += measure(attempt / name).bytes;
    }
    return bytes;
  }

  void measure_all() {
    for (const char* part : {"runs", "memo"}) live_bytes_ += measure(store_.root() / part).bytes;
    for (const std::string& name : support::list_folder(store_.root() / "work")) measure_work(name);
    if (closed_.empty()) return;
    const std::string first = (store_.root() / "work" / *closed_.begin()).string();
    report_.notes.push_back(closed_.size() == 1 ? cat("this user cannot read ", first, ", so it stays")
                                                : cat("this user cannot read ", closed_.size(),
                                                      " folders of work/, such as ", first, ", so they stay"));
  }

  /// Records, runs and pins say which results are needed, and no folder of work/ does. One that another user closed
  /// stays.
  void measure_work(const std::string& name) try {
    live_bytes_ += measure(store_.root() / "work" / name).bytes;
  } catch (const support::IoError& error) {
    if (!is_denied(error)) throw;
    closed_.insert(name);
  }

  // ---- what people read of the past ---------------------------------------------------------------------------------

  void drop_runs() {
    report_.runs = known_runs_.size();
    for (const Run& run : surplus_runs_) {
      drop_path(run.path, run.seen.bytes, "an old run", Deletion::What::kRun, run.name);
    }
  }

  static bool has_metrics(const std::vector<fs::path>& attempts) {
    return std::any_of(attempts.begin(), attempts.end(),
                       [](const fs::path& attempt) { return look(attempt / "metrics.jsonl").has_value(); });
  }

  /// Logs are found by way of the runs that name their tasks. A folder that a stage can continue from stays, and so do
  /// the curves of a training as long as its result does.
  void drop_logs() {
    for (const std::string& plan_key : support::list_folder(store_.root() / "work")) {
      if (!may_drop_results_ || !support::is_sha256(plan_key) || named_plans_.count(plan_key) != 0 || in_use(plan_key))
        continue;
      const auto attempts = store_.attempts(plan_key);
      if (find_resumable(attempts) || (has_metrics(attempts) && finished(plan_key))) continue;
      const fs::path folder = store_.work_folder(plan_key);
      const EntryStat seen = measure(folder);
      if (abandoned(seen.mtime))
        drop_path(folder, seen.bytes, "logs of a task that no kept run names", Deletion::What::kLog);
    }
  }

  void drop_memos() {
    struct Memo {
      double mtime = 0;
      std::uint64_t bytes = 0;
      std::vector<fs::path> files;
    };
    std::map<std::string, Memo> memos;  // a plan's memo is two files: noop-<id> and noop-<id>.mark
    const fs::path folder = store_.root() / "memo";
    for (const std::string& name : support::list_folder(folder)) {
      const auto seen = look(folder / name);
      if (seen && !seen->folder && is_temporary(name) && abandoned(seen->mtime))
        drop_path(folder / name, seen->bytes, "an unfinished file");
      if (!seen || seen->folder || is_temporary(name) || name.rfind("noop-", 0) != 0) continue;
      Memo& memo = memos[name.substr(0, name.find('.'))];
      memo.mtime = std::max(memo.mtime, seen->mtime);
      memo.bytes += seen->bytes;
      memo.files.push_back(folder / name);
    }
    std::vector<const Memo*> newest_first;
    for (const auto& [name, memo] : memos) newest_first.push_back(&memo);
    std::stable_sort(newest_first.begin(), newest_first.end(),
                     [](const Memo* a, const Memo* b) { return a->mtime > b->mtime; });
    for (std::size_t i = options_.keep_memos; i < newest_first.size(); ++i) {
      if (!old(newest_first[i]->mtime)) continue;
      for (const fs::path& file : newest_first[i]->files) {
        if (const auto seen = look(file)) drop_path(file, seen->bytes, "a remembered plan", Deletion::What::kMemo);
      }
    }
  }

  bool full() const { return options_.max_bytes && live_bytes_ > *options_.max_bytes; }

  /// A longer budget of such a training would begin from scratch without these; that is why only a size limit takes
  /// them.
  void drop_checkpoints() {
    struct Candidate {
      std::string plan_key;
      std::uint64_t bytes = 0;
      double mtime = 0;
      bool finished = true;
    };
    std::vector<Candidate> candidates;
    for (const std::string& plan_key : support::list_folder(store_.root() / "work")) {
      if (!support::is_sha256(plan_key) || in_use(plan_key)) continue;
      const bool is_finished = finished(plan_key) && newest_ended(plan_key);
      if (!is_finished && (!may_drop_results_ || named_plans_.count(plan_key) != 0)) continue;
      Candidate candidate;
      candidate.plan_key = plan_key;
      candidate.finished = is_finished;
      for (const fs::path& attempt : store_.attempts(plan_key)) {
        candidate.bytes += strippable(attempt, false);
        candidate.mtime = std::max(candidate.mtime, measure(attempt).mtime);
      }
      if (candidate.bytes > 0 && old(candidate.mtime)) candidates.push_back(candidate);
    }
    std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
      return a.finished != b.finished ? a.finished : a.bytes > b.bytes;
    });
    for (const Candidate& candidate : candidates) {
      if (!full()) return;
      if (in_use(candidate.plan_key)) continue;  // a run has begun since
      before_drop();
      if (!dry_) {
        for (const fs::path& attempt : store_.attempts(candidate.plan_key)) strip_attempt(attempt, false);
      }
      live_bytes_ -= std::min(live_bytes_, candidate.bytes);
      add({Deletion::What::kCheckpoint, cat("work/", candidate.plan_key), "", -1, candidate.bytes, 0,
           candidate.finished ? "checkpoints of a finished training" : "checkpoints of a task that no kept run names"});
    }
  }

  bool finished(const std::string& plan_key) const {
    const auto key = store_.hint(plan_key);
    if (!key) return false;
    return store_.find({*key, -1}, true).has_value() || !store_.steps(*key).empty();
  }

  /// Whether the newest attempt came to an end. One that was interrupted may have published snapshots before.
  bool newest_ended(const std::string& plan_key) const {
    const std::vector<fs::path> attempts = store_.attempts(plan_key);
    if (attempts.empty()) return true;
    const std::string outcome = support::text_in(read_of_attempt(attempts.back(), "exit.json"), "class");
    return outcome == outcome_name(Outcome::kDone) || outcome == outcome_name(Outcome::kDiverged);
  }

  static double hours_of(const StoredResult& result) {
    return result.wall_s / 3600 * static_cast<double>(std::max<std::int64_t>(1, result.gpus));
  }

  void drop_results() {
    if (!may_drop_results_ || (!options_.max_bytes && !options_.keep_last)) return;
    const auto per_gigabyte = [](const StoredResult& result) {
      return hours_of(result) / (static_cast<double>(std::max<std::uint64_t>(1, result.bytes())) / 1e9);
    };
    std::stable_sort(droppable_.begin(), droppable_.end(), [&](const StoredResult* a, const StoredResult* b) {
      if (options_.by_age) return a->ended < b->ended;
      return per_gigabyte(*a) < per_gigabyte(*b);
    });
    for (const StoredResult* result : droppable_) {
      if (!options_.keep_last && !full()) return;
      std::uint64_t freed = 0;
      const std::vector<std::string> digests = digests_of(*result);
      const std::set<std::string> distinct(digests.begin(), digests.end());
      for (const std::string& digest : distinct) {
        const auto count = static_cast<std::size_t>(std::count(digests.begin(), digests.end(), digest));
        const auto object = objects_.find(digest);
        if (object != objects_.end() && references_[digest] <= count) freed += object->second.bytes;
      }
      if (!options_.keep_last && freed == 0) continue;  // dropping it would cost and free nothing
      before_drop();
      if (!dry_) {
        if (look_for_new_runs() || is_wanted(*result)) continue;
        // The record first: one without objects is of no use, objects without a record do no harm.
        store_.forget(result->key);
        dropped_keys_.push_back(result);
      }
      for (const std::string& digest : digests) {
        if (--references_[digest] == 0) drop_object(digest);
      }
      add({Deletion::What::kResult, result->name(), result->key.key, result->key.step, freed, hours_of(*result),
           options_.keep_last ? "no kept run used it" : "the store is over its limit"});
    }
  }

  // ---- runs that begin meanwhile ------------------------------------------------------------------------------------

  bool is_wanted(const StoredResult& result) const {
    return new_keys_.count(result.key.key) != 0 || new_plans_.count(result.plan_key) != 0;
  }

  /// When the folder has last changed; 0 where there is none.
  static double changed(const fs::path& folder) {
    const auto seen = look(folder);
    return seen ? seen->mtime : 0;
  }

  /// Runs that found everything there. True when one of them may want anything.
  bool look_for_new_uses() {
    for (const std::string& name : support::list_folder(uses_folder(store_.root()))) {
      const fs::path path = uses_folder(store_.root()) / name;
      const auto use = look(path / "plan.json");
      if (!use) continue;
      const auto known = known_uses_.find(name);
      if (known != known_uses_.end() && known->second == use->mtime) continue;
      try {
        const RunRoots roots = roots_in(store_, path);
        new_keys_.insert(roots.keys.begin(), roots.keys.end());
        new_plans_.insert(roots.plan_keys.begin(), roots.plan_keys.end());
        known_uses_[name] = use->mtime;
      } catch (const support::ArtifactError&) {
        return true;
      }
    }
    return false;
  }

  /// Reads runs and pins that were not there when roots were marked. True when one of them may want anything.
  bool look_for_new_runs() {
    if (look_for_new_uses()) return true;
    if (const double now = changed(pins_folder(store_)); now != pins_seen_) {
      pins_seen_ = now;
      std::vector<std::string> damaged;
      for (const Pin& pin : read_pins(store_, &damaged)) {
        for (const ResultKey& key : pin.keys) new_keys_.insert(key.key);
      }
      if (!damaged.empty()) {
        pins_seen_ = -1;  // its wishes are unknown
        return true;
      }
    }
    const auto folder = look(store_.runs_folder());
    // A run makes its folder first and writes its plan into it a little later.
    if (folder && (folder->mtime != runs_seen_ || runs_unfinished_)) {
      runs_seen_ = folder->mtime;
      runs_unfinished_ = false;
      for (const std::string& id : support::list_folder(store_.runs_folder())) {
        if (known_runs_.count(id) != 0) continue;
        if (!look(store_.runs_folder() / id / "plan.json")) {
          runs_unfinished_ = true;
          continue;
        }
        try {
          const RunRoots roots = roots_of_run(store_, id);
          new_keys_.insert(roots.keys.begin(), roots.keys.end());
          new_plans_.insert(roots.plan_keys.begin(), roots.plan_keys.end());
          known_runs_.insert(id);
        } catch (const support::ArtifactError&) {
          runs_unfinished_ = true;
          return true;  // its wishes are unknown
        }
      }
    }
    return false;
  }

  void restore_for_new_runs() {
    if (dry_) return;
    const bool all = look_for_new_runs();
    for (const StoredResult* result : dropped_keys_) {
      if (!all && !is_wanted(*result)) continue;
      for (const std::string& digest : digests_of(*result)) {
        for (const FileMove& moved : moved_) {
          if (moved.digest != digest || !look(moved.to)) continue;
          if (::link(moved.to.c_str(), moved.from.c_str()) == 0 || errno == EEXIST) ::unlink(moved.to.c_str());
          if (const auto seen = look(moved.from)) live_bytes_ += seen->bytes;
        }
      }
      // The record is in the trash under its own name and a suffix.
      const fs::path at = store_.record_path(result->key);
      for (const std::string& day : support::list_folder(store_.root() / "trash")) {
        for (const std::string& name : support::list_folder(store_.root() / "trash" / day)) {
          const fs::path from = store_.root() / "trash" / day / name;
          if (name.rfind(at.filename().string() + ".tmp.", 0) != 0 || look(at)) continue;
          const Json json = support::parse_json(support::read_file(from));
          if (!json.is_object() || json.value("key", "") != result->key.key) continue;
          if (::rename(from.c_str(), at.c_str()) != 0) continue;
          ++report_.restored;
          std::erase_if(report_.dropped, [&](const Deletion& dropped) {
            return dropped.what == Deletion::What::kResult && dropped.key == result->key.key &&
                   dropped.step == result->key.step;
          });
        }
      }
    }
  }

  // ---- the trash ----------------------------------------------------------------------------------------------------

  void empty_trash() {
    const fs::path trash = store_.root() / "trash";
    // Just moved there: these count only when there is no grace at all.
    const double cut = support::file_time(store_.root()) - options_.grace_s;
    for (const std::string& day : support::list_folder(trash)) {
      const auto folder = look(trash / day);
      if (!folder || !folder->folder) continue;
      for (const std::string& name : support::list_folder(trash / day)) {
        const fs::path path = trash / day / name;
        const auto seen = look(path);
        // A rename sets ctime: that is the time of its move here. Where it does not, the folder's time shows it.
        if (!seen || seen->ctime > cut || folder->mtime > cut) continue;
        const std::uint64_t bytes = measure(path).bytes;
        if (!dry_) support::remove_tree(path);
        add({Deletion::What::kTrash, cat("trash/", day, "/", name), "", -1, bytes, 0, "its grace period has ended"});
      }
      if (!dry_) ::rmdir((trash / day).c_str());  // only when it is empty
    }
  }

  struct FileMove {
    fs::path from, to;
    std::string digest;
  };

  Store& store_;
  const GarbageOptions& options_;
  double now_;
  GarbageReport report_;
  std::shared_ptr<const Inventory> inventory_;
  std::map<std::string, EntryStat> objects_;
  std::vector<std::pair<fs::path, EntryStat>> stray_;
  std::unordered_map<std::string, std::size_t> references_;
  std::set<std::string> live_, known_runs_;
  std::map<std::string, double> known_uses_;  // the time of each note
  std::set<std::string> closed_;  // folders of work/ that this user cannot read
  std::set<std::string> run_keys_, run_plans_, new_keys_, new_plans_, busy_plans_;
  std::set<std::string> named_plans_;  // by the runs that stay
  std::vector<Run> surplus_runs_;
  std::set<std::pair<std::string, std::int64_t>> pinned_;
  std::vector<const StoredResult*> droppable_, dropped_keys_;
  std::vector<FileMove> moved_;
  double runs_seen_ = -1, pins_seen_ = -1;
  bool runs_unfinished_ = false;
  std::uint64_t live_bytes_ = 0;
  bool may_drop_results_ = true;
  bool dry_ = false;
};

}  // namespace

std::string_view what_name(Deletion::What what) {
  switch (what) {
    case Deletion::What::kTrash:
      return "trash";
    case Deletion::What::kLeftover:
      return "leftover";
    case Deletion::What::kRun:
      return "run";
    case Deletion::What::kLog:
      return "log";
    case Deletion::What::kMemo:
      return "memo";
    case Deletion::What::kCheckpoint:
      return "checkpoint";
    case Deletion::What::kResult:
      return "result";
  }
  return "";
}

GarbageReport collect_garbage(Store& store, const GarbageOptions& options) try {
  return Collector(store, options).collect();
} catch (const fs::filesystem_error& error) {
  throw support::IoError(error.what());
}

}  // namespace pe::pipeline

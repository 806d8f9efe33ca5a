#include "pipeline/maintenance/health.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>

#include "pipeline/cluster/site.h"
#include "pipeline/cluster/slurm.h"
#include "pipeline/maintenance/garbage.h"
#include "pipeline/maintenance/inventory.h"
#include "pipeline/maintenance/mount.h"
#include "pipeline/maintenance/pin.h"
#include "pipeline/plan/capacity.h"
#include "pipeline/run/run_status.h"
#include "pipeline/store/attempt.h"
#include "pipeline/store/lease.h"
#include "support/capture_within.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::quote;

namespace {

using Level = Finding::Level;

constexpr double kLittleSpace = 1.0 * (1ULL << 30);
constexpr double kSomeSpace = 10.0 * (1ULL << 30);

class Examination {
 public:
  Examination(fs::path root, const HealthOptions& options) : root_(std::move(root)), options_(options) {}

  std::vector<Finding> examine() {
    machine();
    std::error_code error;
    const bool exists = fs::exists(root_ / "VERSION", error);
    try {
      if (exists) {
        store();
      } else {
        const Store other(root_, {.create = false});  // rejects a folder of something else
        add(Level::kNote, "store", cat("no store at ", quote(root_.string()), " yet"), "the first run creates it");
      }
    } catch (const support::IoError& failure) {
      add(Level::kBad, "store", failure.diagnostics().front().message,
          exists ? "its owner, or the file system under it" : "");
    }
    file_system();
    gpus();
    slurm();
    return std::move(findings_);
  }

 private:
  void add(Level level, std::string topic, std::string text, std::string advice = {}, bool fixed = false) {
    findings_.push_back({level, std::move(topic), std::move(text), std::move(advice), fixed});
  }

  /// The nearest folder at or above the store that is there.
  fs::path nearest_folder() const {
    std::error_code error;
    fs::path folder = root_;
    while (!fs::is_directory(folder, error) && folder.has_parent_path() && folder != folder.parent_path())
      folder = folder.parent_path();
    return folder;
  }

  void machine() {
    const Capacity capacity = detect_capacity();
    add(Level::kGood, "machine", describe(capacity));
  }

  // ---- what the store holds -----------------------------------------------------------------------------------------

  void store() {
    std::optional<Store> opened;
    try {
      StoreOptions how;
      how.create = options_.fix;
      opened.emplace(root_, how);
    } catch (const support::Error& error) {
      add(Level::kBad, "store", error.diagnostics().front().message, error.diagnostics().front().hint);
      return;
    }
    Store& store = *opened;
    const Inventory inventory = read_inventory(store);
    std::size_t without_objects = 0, known = 0;
    for (const StoredResult& result : inventory.results) {
      Result found;
      found.outputs = result.outputs;
      const Presence presence = store.presence(found, true);
      without_objects += presence == Presence::kGone;
      known += presence == Presence::kKnown;
      store.find(result.key);
    }
    const std::vector<std::string> warnings = store.take_warnings();
    add(Level::kGood, "store",
        cat(root_.string(), ": ", inventory.results.size(), inventory.results.size() == 1 ? " result" : " results"));
    if (known > 0) {
      add(Level::kNote, "store",
          cat(known, " of them are known and not here: their checkpoints or data stayed where they were made"));
    }
    if (without_objects > 0) {
      add(Level::kNote, "store",
          cat(without_objects, " of them have no objects here; they run again when they are needed"));
    }
    for (const ResultKey& key : inventory.unreadable) {
      const fs::path path = store.record_path(key);
      if (options_.fix) store.forget(key);
      add(Level::kWarning, "store", cat("the record ", path.string(), " is corrupt"),
          "--fix moves it to the trash; its task runs again", options_.fix);
    }
    std::vector<std::string> pins;
    read_pins(store, &pins);
    for (const std::string& pin : pins)
      add(Level::kBad, "store", cat("the pin ", pin, " cannot be read"), "remove it, or pin again");
    runs(store);
    leases(store);
  }

  void runs(const Store& store) {
    const std::vector<std::string> live = live_runs(store);
    for (const std::string& id : live) add(Level::kNote, "store", cat("run ", id, " is in progress"));
    std::size_t died = 0;
    for (const std::string& id : store.runs()) {
      std::error_code error;
      const bool over = fs::exists(store.runs_folder() / id / "summary.json", error);
      if (!over && std::find(live.begin(), live.end(), id) == live.end()) ++died;
    }
    if (died > 0)
      add(Level::kNote, "store",
          cat(died, died == 1 ? " run" : " runs", " ended without a summary (killed, or the machine went down)"),
          "nothing to do: the same command resumes it");
  }

  void leases(const Store& store) {
    std::size_t held = 0, stale = 0, damaged = 0;
    for (const auto& [key, owner] : Leases::list(store.leases_folder())) {
      ++held;
      damaged += !owner;
      stale += owner && Leases::owner_is_gone(*owner, this_host());
    }
    if (damaged > 0)
      add(Level::kWarning, "leases", cat(damaged, damaged == 1 ? " lease" : " leases", " cannot be read"),
          "the next run that wants one of these tasks waits two minutes for a sign of life, then breaks it");
    if (held > 0)
      add(Level::kNote, "leases",
          cat(held, " held", stale > 0 ? cat(", ", stale, " by processes that are gone") : std::string()),
          stale > 0 ? "the next run breaks them immediately" : "");
    else
      add(Level::kGood, "leases", "none is held");
    std::size_t orphans = 0;
    for (const std::string& name : support::list_folder(root_ / "work")) {
      try {
        if (name.size() == 64 && find_orphan(store.attempts(name))) ++orphans;
      } catch (const support::IoError& error) {
        if (!is_denied(error)) throw;  // else another user's, who may see it
      }
    }
    if (orphans > 0)
      add(Level::kNote, "leases", cat(orphans, " stage process(es) of earlier runs still live"),
          "they end by themselves; a run waits for them");
  }

  // ---- the file system under it -------------------------------------------------------------------------------------

  void file_system() {
    const fs::path folder = nearest_folder();
    std::error_code unknown;
    const fs::path real = fs::canonical(folder, unknown);
    std::string mounts;
    try {
      mounts = support::read_file("/proc/self/mountinfo", 16u << 20);
    } catch (const support::IoError&) {
      // Then its name is not known.
    }
    const auto mount = mount_of(mounts, unknown ? folder : real);
    const std::string name = mount ? mount->type : "a file system of an unknown kind";
    if (mount) sharing(*mount);
    if (const auto proc = mount_of(mounts, "/proc"); proc && hides_processes(*proc)) {
      add(Level::kNote, "leases", "/proc hides processes of other users (hidepid)",
          "their leases count until they give no sign for two minutes");
    }
    space(folder);
    const fs::path probe = support::unique_sibling(folder / ".pe-doctor");
    if (::mkdir(probe.c_str(), 0777) != 0) {
      add(Level::kBad, "file system", cat("cannot write into ", quote(folder.string()), ": ", std::strerror(errno)),
          "another --store, or other permissions");
      return;
    }
    try {
      semantics(probe, name);
      if (support::is_there(root_ / "VERSION")) links_into_objects();
    } catch (const support::Error& error) {
      add(Level::kBad, "file system", error.diagnostics().front().message);
    }
    std::error_code ignored;
    fs::remove_all(probe, ignored);
  }

  /// Outputs get from work/ to objects/ by a link where that can be.
  void links_into_objects() {
    const fs::path from = support::unique_sibling(root_ / "work/.pe-doctor");
    const fs::path to = support::unique_sibling(root_ / "objects/.pe-doctor");
    support::write_file_atomically(from, "\n", false);
    if (::link(from.c_str(), to.c_str()) != 0) {
      add(Level::kWarning, "file system",
          cat("'work' and 'objects' of the store: ", std::strerror(errno), " for a link between them"),
          "every output is copied when it is published; keep both on one file system");
    }
    ::unlink(from.c_str());
    ::unlink(to.c_str());
  }

  /// The meaning of locks where several machines share the store. Results never depend on locks. When two processes
  /// break one stale lease, a lock excludes the second; without a lock the second finds out after its rename.
  void sharing(const Mount& mount) {
    const MountSharing sharing = sharing_of(mount);
    if (!sharing.network) return;
    add(Level::kNote, "file system",
        cat(mount.type,
            ": several machines may share this store; heartbeats decide about leases of other machines, and a lock "
            "excludes ",
            sharing.locks),
        sharing.advice);
  }

  void space(const fs::path& folder) {
    struct statvfs status {};
    if (::statvfs(folder.c_str(), &status) != 0) return;
    const double free = static_cast<double>(status.f_bavail) * static_cast<double>(status.f_frsize);
    const std::string text = cat(support::short_bytes(free), " free");
    if (free < kLittleSpace)
      add(Level::kBad, "space", text, "'pe-pipeline gc' or another --store");
    else if (free < kSomeSpace)
      add(Level::kWarning, "space", text, "'pe-pipeline gc --max-size SIZE' makes room");
    else
      add(Level::kGood, "space", text);
    if (status.f_files > 0 && status.f_favail < 10000) {
      add(Level::kWarning, "space", cat("only ", status.f_favail, " more files fit (inodes)"),
          "'pe-pipeline gc', or another file system");
    }
  }

  void semantics(const fs::path& probe, const std::string& name) {
    const fs::path a = probe / "a";
    const double began = support::steady_s();
    support::write_file_atomically(a, "first\n", true);
    const double sync_s = support::steady_s() - began;
    bool good = links_and_renames(probe, name);
    folder_sync(probe, name);
    locks(a, name);
    if (::symlink("a", (probe / "s").c_str()) != 0)
      good = reject(name, "symbolic links cannot be made", "stages see collections as links; put the store elsewhere");
    if (::chmod(a.c_str(), 0444) != 0) good = reject(name, "files cannot be protected", "put the store elsewhere");
    file_clock(probe);
    if (!good) return;
    add(Level::kGood, "file system",
        cat(name, ": links, renames and syncs as they must; a synced write takes ",
            fmt::format("{:.1f} ms", sync_s * 1e3)));
    if (name == "tmpfs")
      add(Level::kWarning, "file system", "tmpfs forgets everything when the machine restarts",
          "another --store for results that matter");
    if (name == "overlay")
      add(Level::kNote, "file system", "overlayfs: what is written goes with the container",
          "mount a volume for results that matter");
  }

  /// Adds a finding that makes the file system useless for a store. @returns false
  bool reject(const std::string& name, const std::string& text, const std::string& advice) {
    add(Level::kBad, "file system", cat(name, ": ", text), advice);
    return false;
  }

  /// True if links and renames in `probe`, which has a file "a", have the meaning that a store needs.
  bool links_and_renames(const fs::path& probe, const std::string& name) {
    const fs::path a = probe / "a", b = probe / "b", c = probe / "c";
    bool good = true;
    // link(2) must make a second name, and refuse one that exists: publishing and leases rest on it.
    if (::link(a.c_str(), b.c_str()) != 0) {
      good = reject(name, cat("files cannot be linked: ", std::strerror(errno)),
                    "put the store on a file system with hard links");
    } else {
      struct stat status {};
      if (::stat(a.c_str(), &status) != 0 || status.st_nlink != 2)
        good = reject(name, "a linked file does not have two names", "put the store elsewhere");
      if (::link(a.c_str(), b.c_str()) == 0 || errno != EEXIST)
        good = reject(name, "a link over an existing name is not rejected", "put the store elsewhere");
    }
    // rename(2) must replace in one step.
    support::write_file_atomically(c, "second\n", false);
    if (::rename(c.c_str(), b.c_str()) != 0 || support::read_file(b) != "second\n")
      good = reject(name, "renaming over a file does not replace it", "put the store elsewhere");
    return good;
  }

  void folder_sync(const fs::path& probe, const std::string& name) {
    const int folder = ::open(probe.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || ::fsync(folder) != 0) {
      add(Level::kNote, "file system", cat(name, ": a folder cannot be synced"),
          "after a power failure the newest results may have to be made again");
    }
    if (folder >= 0) ::close(folder);
  }

  void locks(const fs::path& a, const std::string& name) {
    const int lock = ::open(a.c_str(), O_RDWR | O_CLOEXEC), other = ::open(a.c_str(), O_RDWR | O_CLOEXEC);
    if (lock < 0 || ::flock(lock, LOCK_EX | LOCK_NB) != 0) {
      add(Level::kNote, "file system", cat(name, ": files cannot be locked"), "results do not depend on locks");
    } else if (other >= 0 && ::flock(other, LOCK_EX | LOCK_NB) == 0) {
      add(Level::kNote, "file system", cat(name, ": a lock does not keep a second one out"),
          "results do not depend on locks");
    }
    if (lock >= 0) ::close(lock);
    if (other >= 0) ::close(other);
  }

  void file_clock(const fs::path& probe) {
    // The clock of the file server against ours: grace and staleness are counted in it.
    struct stat status {};
    support::write_file_atomically(probe / "clock", "\n", false);
    if (::stat((probe / "clock").c_str(), &status) == 0) {
      const double file_time =
          static_cast<double>(status.st_mtim.tv_sec) + static_cast<double>(status.st_mtim.tv_nsec) * 1e-9;
      const double apart = file_time - support::unix_time();
      if (std::abs(apart) > 5)
        add(Level::kWarning, "clock",
            cat("the file system's clock is ", support::short_duration(std::abs(apart)),
                apart > 0 ? " ahead" : " behind"),
            "set the clocks (NTP)");
      else
        add(Level::kGood, "clock", "the file system's clock agrees with this host's");
    }
  }

  // ---- machines -----------------------------------------------------------------------------------------------------

  void gpus() {
    const auto program = support::find_program("nvidia-smi");
    if (!program) {
      add(Level::kGood, "gpu", "no nvidia-smi here: CPU only");
      return;
    }
    try {
      const auto answer =
          support::capture_within({program->string(), "--query-gpu=index,name,memory.total,memory.used,driver_version",
                                   "--format=csv,noheader"},
                                  {.timeout_s = 10, .limit = 1u << 20});
      if (answer.status.code != 0 || answer.overlong) {
        add(Level::kWarning, "gpu",
            answer.timed_out ? std::string("nvidia-smi does not answer within 10 s")
            : answer.overlong
                ? std::string("nvidia-smi prints without end")
                : cat("nvidia-smi ends with ", answer.status.code, ": ", support::trim(answer.out + answer.err)),
            "driver and devices");
        return;
      }
      for (const std::string& line : support::split(std::string(support::trim(answer.out)), '\n')) {
        if (!support::trim(line).empty()) add(Level::kGood, "gpu", std::string(support::trim(line)));
      }
    } catch (const support::Error& error) {
      add(Level::kWarning, "gpu", error.diagnostics().front().message);
    }
  }

  void slurm() {
    if (!support::find_program("scontrol")) return;
    Slurm slurm(call_slurm, 5);
    const auto config = slurm.config();
    if (!config) {
      add(Level::kWarning, "slurm", slurm.trouble(), "is slurmctld running?");
      return;
    }
    const auto partitions = slurm.partitions();
    const auto associations = keeps_account_limits(*config) ? slurm.associations() : std::nullopt;
    for (SiteFinding& finding :
         judge_site(*config, partitions.value_or(SiteRecords()), associations.value_or(SiteRecords()))) {
      add(finding.warns ? Level::kWarning : Level::kGood, "slurm", std::move(finding.text), std::move(finding.advice));
    }
  }

  fs::path root_;
  const HealthOptions& options_;
  std::vector<Finding> findings_;
};

}  // namespace

std::string_view level_name(Finding::Level level) {
  switch (level) {
    case Level::kGood:
      return "good";
    case Level::kNote:
      return "note";
    case Level::kWarning:
      return "warning";
    case Level::kBad:
      return "bad";
  }
  return "";
}

std::vector<Finding> examine(const fs::path& store, const HealthOptions& options) {
  return Examination(fs::absolute(store), options).examine();
}

}  // namespace pe::pipeline

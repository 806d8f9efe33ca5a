/// @file
/// A small world for `run`: processes on several hosts that share one store, a clock that jumps, and a disk that fails,
/// crashes and forgets. Exactly one process moves at a time, and one source decides every choice. A seed (or a list of
/// choices) therefore replays a schedule to the last call. They are contexts of one thread, since the kernel's own
/// switching would cost more than everything else.
///
/// The disk is a folder in memory behind the system's own calls (disk.cpp replaces them in this program). A crashed
/// process continues to run, since its stack has to be unwound. But from then on each of its calls fails and changes
/// nothing, and no process waits for it.
#pragma once

#include <ucontext.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pe::test {

/// Where every choice of a schedule comes from.
class Choices {
 public:
  virtual ~Choices() = default;
  /// 0 … n-1
  virtual std::size_t pick(std::size_t n) = 0;
  /// True with this probability; a source that tries everything never says yes.
  virtual bool chance(double probability) = 0;
};

/// Chance, from a seed.
class RandomChoices : public Choices {
 public:
  explicit RandomChoices(std::uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 1) {}
  std::size_t pick(std::size_t n) override { return n < 2 ? 0 : static_cast<std::size_t>(next() % n); }
  bool chance(double probability) override {
    return probability > 0 && static_cast<double>(next() >> 11) * 0x1p-53 < probability;
  }

 private:
  std::uint64_t next();
  std::uint64_t state_;
};

/// Every list of choices there is, one after the other.
class AllChoices : public Choices {
 public:
  std::size_t pick(std::size_t n) override;
  bool chance(double) override { return false; }
  /// To the next list; false when that was the last.
  bool advance();
  std::string str() const;  ///< "0 2 1"

 private:
  std::vector<std::pair<std::size_t, std::size_t>> path_;  ///< choice, of how many
  std::size_t at_ = 0;
};

/// How often things go wrong, per call.
struct Faults {
  double fail = 0;            ///< A call fails and has done nothing.
  double crash = 0;           ///< The calling process dies.
  double power_cut = 0;       ///< All processes die, and changes that were not synced may be lost.
  double late = 0;            ///< A name that was missed stays missed for a while, for that process.
  double unread = 0;          ///< A folder cannot be listed, or not to its end.
  bool unread_files = false;  ///< As often a file cannot be opened for reading, or a name cannot be looked at.
  double pause = 0;           ///< Per wait: the process is stopped for longer than a lease lives.
  double change = 0.2;        ///< another process runs instead
  int most_deaths = 3;
};

/// Errors in a schedule, so that a test can see that any occurred.
struct Happened {
  std::uint64_t calls = 0, crashes = 0, power_cuts = 0, failures = 0, late_names = 0, pauses = 0, unread = 0;
};

/// Thrown in a crashed process's own code, between calls.
struct Crashed {};

class World;

class Process {
 public:
  Process(World& world, std::string name, std::function<void()> body)
      : world(world), name(std::move(name)), body(std::move(body)) {}
  World& world;
  std::string name;
  std::function<void()> body;
  ucontext_t context{};
  std::unique_ptr<char[]> stack;
  double wakes_s = 0;
  bool ended = false;
  bool dead = false;
  int quiet = 0;                                 ///< above 0: a stage or a check is at work; no faults, no changes
  std::map<std::string, double> missed;          ///< names that were not there → when
  std::map<std::string, std::string> variables;  ///< SLURM_… in its environment
};

class World {
 public:
  World(std::filesystem::path disk, Choices& choices, Faults faults);
  ~World();

  /// Also while the world runs; the process begins now.
  Process& add(std::string name, std::function<void()> body);
  /// Until every process has ended or crashed.
  void run();

  double now() const { return now_s_; }
  Choices& choices() { return choices_; }
  const Faults& faults() const { return faults_; }
  void set_faults(const Faults& faults) { faults_ = faults; }
  const std::filesystem::path& disk() const { return disk_; }
  bool was_cut() const { return cut_; }
  Happened happened;

  // ---- for the process that is moving
  static Process* moving();
  /// Before a call that changes the disk. False: the process is dead, and the call must do nothing.
  bool step();
  /// errno that the call shall fail with, or 0.
  int failure();
  /// The same of a call that only looks.
  int read_failure();
  void sleep_until(double when_s);

 private:
  /// Gives the turn to a process that is awake; when all sleep, it is then as late as the first of them wanted.
  void hand_over(Process* from);
  static void begin();
  void die(Process& process) { process.dead = true; }

  std::filesystem::path disk_;
  Choices& choices_;
  Faults faults_;
  std::vector<std::unique_ptr<Process>> processes_;
  double now_s_ = 1'000'000;
  int deaths_ = 0;
  bool cut_ = false;
  ucontext_t rest_{};  ///< `run` continues here when all have ended
};

/// For a while, calls of this process neither fail nor crash nor switch: calls of a stage, or of a check.
class Quiet {
 public:
  Quiet() : process_(World::moving()) {
    if (process_) ++process_->quiet;
  }
  ~Quiet() {
    if (process_) --process_->quiet;
  }
  Quiet(const Quiet&) = delete;

 private:
  Process* process_;
};

// ---- the disk (disk.cpp)

/// Begins to note unsynced changes below the folder; forgets earlier notes.
void note_unsynced(const std::filesystem::path& disk);
/// Undoes unsynced changes, from the newest back to a chosen one; and cuts files to their synced length.
void lose_unsynced(Choices& choices);

}  // namespace pe::test

// Thousands of schedules of `run`: several runs and hosts, crashes, power cuts, calls that fail, names that come late,
// owners that sleep, and folders that cannot be listed. `gc` runs between and during runs. In every schedule no result
// is lost, none is made twice, and none is wrong. A last run without trouble makes exactly the missing results.
//
// PE_TEST_SEED=N runs that schedule alone, PE_TEST_SCHEDULES=N that many; both, so many from that one on.
#include <stdlib.h>
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "pipeline/maintenance/garbage.h"
#include "pipeline/plan/plan.h"
#include "pipeline/run/run.h"
#include "pipeline/simulation/stages.h"
#include "pipeline/simulation/world.h"
#include "pipeline/store/store.h"
#include "support/error.h"
#include "support/files.h"
#include "support/odd_events.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using namespace pe::test;      // NOLINT
namespace fs = std::filesystem;

namespace {

// ---- pipelines
// --------------------------------------------------------------------------------------------------------

/// Every way in which up to four tasks can need each other, one of each kind up to the tasks' names.
std::vector<Shape> all_shapes(std::size_t most) {
  std::vector<Shape> out;
  for (std::size_t n = 1; n <= most; ++n) {
    std::set<std::vector<unsigned>> known;
    const std::size_t pairs = n * (n - 1) / 2;
    for (unsigned bits = 0; bits < 1u << pairs; ++bits) {
      Shape shape(n);
      unsigned at = 0;
      for (std::size_t i = 1; i < n; ++i) {
        for (std::size_t j = 0; j < i; ++j) shape[i] |= (bits >> at++ & 1u) << j;
      }
      // The least of its names in any order.
      std::vector<std::size_t> order(n);
      for (std::size_t i = 0; i < n; ++i) order[i] = i;
      std::vector<unsigned> least;
      do {
        std::vector<unsigned> renamed(n);
        for (std::size_t i = 0; i < n; ++i) {
          for (std::size_t j = 0; j < n; ++j) renamed[order[i]] |= (shape[i] >> j & 1u) << order[j];
        }
        if (least.empty() || renamed < least) least = renamed;
      } while (std::next_permutation(order.begin(), order.end()));
      if (known.insert(least).second) out.push_back(shape);
    }
  }
  return out;
}

// ---- runs
// -------------------------------------------------------------------------------------------------------------

struct Scene {
  Shape shape;
  bool durable = true;
  Endings endings = Endings::kByChance;
  double failing = 0;       ///< of stages
  bool odd_events = false;  ///< stages send events that no stage should send
  bool long_names = false;  ///< of tasks
};

class Play {
 public:
  Play(Scene scene, Choices& choices, const Faults& faults)
      : scene_(std::move(scene)), root_(scene_folder() / "root"), world_(scene_folder() / "disk", choices, faults) {
    fs::remove_all(scene_folder());
    fs::create_directories(root_);
    fs::create_directories(world_.disk());
    note_unsynced(world_.disk());
    ledger_.strict = faults.late == 0 && faults.pause == 0;
    if (scene_.odd_events) ledger_.talk = [events = std::make_shared<OddEvents>(1)] { return events->next(); };
  }

  /// A run that begins now. `host` names the machine, `boot` when it started.
  void add_run(const std::string& host, int boot, const std::string& salt = "") {
    const int number = ++runs_;
    world_.add(host, [this, host, boot, number, salt] { codes_[number] = run_once(host, boot, number, salt); });
  }

  /// A `gc` that begins then.
  void add_gc(double after_s, const GarbageOptions& options) {
    world_.add("gc", [this, after_s, options] {
      if (after_s > 0) world_.sleep_until(world_.now() + after_s);
      collect(options);
    });
  }

  void wait(double seconds) {
    world_.add("clock", [this, seconds] { world_.sleep_until(world_.now() + seconds); });
    world_.run();
  }

  /// In peace: results of an earlier edition of the pipeline, which nothing needs.
  void make_older() {
    const Faults faults = world_.faults();
    Faults peace;
    peace.change = 0;
    world_.set_faults(peace);
    const auto announced = std::exchange(ledger_.announced, {});
    const Endings endings = std::exchange(scene_.endings, Endings::kCalmly);
    add_run("earlier", 1, "earlier");
    world_.run();
    older_.insert(ledger_.announced.begin(), ledger_.announced.end());
    ledger_.announced = announced;
    scene_.endings = endings;
    world_.set_faults(faults);
  }

  /// How often `gc` ended well, how often with an error, and the number of dropped objects.
  std::size_t collected = 0, refused = 0, dropped_results = 0, dropped_leftovers = 0;

  World& world() { return world_; }
  Ledger& ledger() { return ledger_; }
  const std::map<int, int>& codes() const { return codes_; }
  fs::path store() const { return world_.disk() / "store"; }

  /// After all have stopped: stored results must be whole, and results that a durable run reported must be stored.
  void check_store() {
    ledger_.at_work.clear();
    if (world_.was_cut() && !scene_.durable) {  // such a store is thrown away
      fs::remove_all(store());
      note_unsynced(world_.disk());
      ledger_.announced.clear();
      return;
    }
    if (!fs::exists(store() / "VERSION")) {
      if (scene_.durable && !ledger_.announced.empty()) ledger_.wrong("the store is gone");
      return;
    }
    StoreOptions options;
    options.create = false;
    const Store opened(store(), options);
    for (const ResultKey& key : opened.keys()) {
      const auto record = opened.read(key);
      if (!record) {
        ledger_.wrong("a record that cannot be read: " + key.key);
        continue;
      }
      for (const OutputRecord& output : record->outputs) {
        if (!opened.damaged(output).empty()) ledger_.wrong("a record whose objects are not whole: " + key.key);
      }
    }
    for (const std::string& key : ledger_.announced) {
      if (!opened.read({key, -1})) ledger_.wrong("a result that was told of is lost: " + key);
    }
  }

  /// In peace: everything that is missing is made, once, and then there is nothing to do.
  std::map<std::string, std::string> finish() {
    Faults peace;
    peace.change = 0;
    world_.set_faults(peace);
    ledger_.strict = true;
    scene_.failing = 0;
    scene_.endings = Endings::kCalmly;
    ledger_.started.clear();
    add_run("last", 1);
    world_.run();
    if (codes_[runs_] != kRunDone) ledger_.wrong("the last run ended with " + std::to_string(codes_[runs_]));
    for (const auto& [key, times] : ledger_.started) {
      if (times != 1) ledger_.wrong("the last run started a task " + std::to_string(times) + " times: " + key);
    }
    ledger_.started.clear();
    add_run("after the last", 1);
    world_.run();
    if (!ledger_.started.empty()) ledger_.wrong("there was something to do after the last run");
    check_store();
    std::map<std::string, std::string> contents;
    const Store opened(store(), {.create = false});
    for (const ResultKey& key : opened.keys()) {
      if (older_.count(key.key) != 0) continue;
      if (const auto record = opened.read(key)) contents[key.key] = record->outputs.at(0).content;
    }
    return contents;
  }

  /// How many results that the pipeline needs are not there whole.
  std::size_t count_lost() {
    const Quiet quiet;
    const Store opened(store(), {.create = false});
    const Plan plan = make_plan(graph_of(scene_.shape, root_), StoreReader(opened), {});
    return scene_.shape.size() - plan.count(TaskState::kReuse);
  }

 private:
  void collect(const GarbageOptions& options) {
    try {
      StoreOptions store_options;
      store_options.durable = scene_.durable;
      Store opened(store(), store_options);
      const GarbageReport report = collect_garbage(opened, options);
      ++collected;
      for (const Deletion& dropped : report.dropped) {
        dropped_results += dropped.what == Deletion::What::kResult;
        dropped_leftovers += dropped.what == Deletion::What::kLeftover;
      }
    } catch (const Crashed&) {
    } catch (const support::Error& error) {
      ++refused;
      if (!World::moving()->dead && error.exit_code() != support::kExitIo &&
          error.exit_code() != support::kExitCannotCreate)
        ledger_.wrong(std::string("gc: an error that is not the store's: ") + error.what());
    } catch (const std::exception& error) {
      if (!World::moving()->dead) ledger_.wrong(std::string("gc: a mistake: ") + error.what());
    }
  }

  struct Listener : RunListener {
    explicit Listener(Ledger& ledger) : ledger(ledger) {}
    void on_event(const RunEvent& event, const RunState&) override {
      if (event.name == "publish") ledger.announced.insert(event.detail.at("key").get<std::string>());
      if (event.name == "conflict") ledger.wrong("a conflict");
    }
    Ledger& ledger;
  };

  /// Its exit code; -1 when it crashed, kRunStore when the store could not even be opened.
  int run_once(const std::string& host, int boot, int number, const std::string& salt) {
    try {
      StoreOptions store_options;
      store_options.durable = scene_.durable;
      Store opened(store(), store_options);
      const Graph graph = graph_of(scene_.shape, root_, salt, scene_.long_names);
      const Plan plan = make_plan(graph, StoreReader(opened), {});
      SimulatedRunner runner(world_, ledger_, store(), scene_.endings, scene_.failing);
      Listener listener(ledger_);
      RunOptions options;
      options.capacity.cpus = 4;
      options.capacity.mem_bytes = 64LL << 30;
      options.command = {"pe-pipeline", "run", "small.yml"};
      options.check_configs = false;
      options.run_id = "20260101-000000-" + std::to_string(number);
      options.lease.where = {host, host, std::to_string(boot), "pids"};
      options.lease.now = [this] { return world_.now(); };
      return run(graph, plan, opened, runner, listener, options).exit_code;
    } catch (const Crashed&) {
      return -1;
    } catch (const support::Error& error) {
      if (World::moving()->dead) return -1;
      if (error.exit_code() != support::kExitIo && error.exit_code() != support::kExitCannotCreate)
        ledger_.wrong(std::string("an error that is not the store's: ") + error.what());
      return kRunStore;
    } catch (const std::exception& error) {
      if (!World::moving()->dead) ledger_.wrong(std::string("a mistake: ") + error.what());
      return -1;
    }
  }

  Scene scene_;
  fs::path root_;
  World world_;
  Ledger ledger_;
  int runs_ = 0;
  std::map<int, int> codes_;
  std::set<std::string> older_;  // keys of an earlier edition
};

/// Results of an undisturbed run of a shape.
const std::map<std::string, std::string>& expected(const Shape& shape, bool long_names = false) {
  static std::map<std::pair<Shape, bool>, std::map<std::string, std::string>> known;  // labels are in the keys
  auto [found, fresh] = known.try_emplace({shape, long_names});
  if (fresh) {
    RandomChoices choices(1);
    Faults peace;
    peace.change = 0;
    Play play({.shape = shape, .durable = false, .endings = Endings::kCalmly, .long_names = long_names}, choices,
              peace);
    found->second = play.finish();
    BOOST_REQUIRE(found->second.size() == shape.size());
    BOOST_REQUIRE(play.ledger().wrongs.empty());
  }
  return found->second;
}

void require_right(Play& play, const Shape& shape, const std::map<std::string, std::string>& contents,
                   const std::string& which, bool long_names = false) {
  if (contents != expected(shape, long_names)) play.ledger().wrong("other results than those of an undisturbed run");
  std::string all;
  for (const std::string& wrong : play.ledger().wrongs) all += "\n  " + wrong;
  BOOST_REQUIRE_MESSAGE(play.ledger().wrongs.empty(), which << ", tasks " << text_of(shape) << ":" << all);
}

/// Of `gc` in all schedules so far.
struct Collections {
  std::size_t collected = 0, refused = 0, results = 0, leftovers = 0;
};
Collections collections;

/// One schedule, of a seed alone.
Happened play_schedule(std::uint64_t seed) {
  RandomChoices choices(seed);
  Scene scene;
  const std::size_t tasks = 1 + choices.pick(4);
  for (std::size_t i = 0; i < tasks; ++i) scene.shape.push_back(static_cast<unsigned>(choices.pick(1u << i)));
  scene.durable = choices.pick(2) == 0;
  scene.failing = choices.pick(3) == 0 ? 0.2 : 0;
  scene.odd_events = choices.pick(3) == 0;
  scene.long_names = choices.pick(4) == 0;
  Faults faults;
  if (choices.pick(3) == 0) faults.fail = 0.01;
  if (choices.pick(2) == 0) faults.crash = 0.005;
  if (choices.pick(4) == 0) faults.power_cut = 0.003;
  if (choices.pick(4) == 0) faults.late = 0.2;
  if (choices.pick(4) == 0) faults.pause = 0.05;
  if (choices.pick(4) == 0) faults.unread = 0.01;
  const bool collects = choices.pick(2) == 0;
  expected(scene.shape, scene.long_names);
  Play play(scene, choices, faults);
  GarbageOptions garbage;
  garbage.grace_s = choices.pick(2) == 0 ? 1000 : 24 * 3600;  // an owner sleeps for 300 s at most
  garbage.keep_runs = 1 + choices.pick(2);
  if (choices.pick(2) == 0) garbage.keep_last = 1;
  if (choices.pick(2) == 0) garbage.max_bytes = 1;
  if (collects) play.make_older();
  // Hosts come one after the other and together; one that crashed starts again, as itself.
  const std::size_t rounds = 1 + choices.pick(2);
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::size_t runs = 1 + choices.pick(3);
    for (std::size_t i = 0; i < runs; ++i) play.add_run("host" + std::to_string(i), static_cast<int>(round));
    if (collects) play.add_gc(static_cast<double>(choices.pick(20)), garbage);
    play.world().run();
    play.check_store();
    if (!collects || choices.pick(2) == 0) continue;
    play.add_gc(3 * 24 * 3600, garbage);  // when all of it is old
    play.world().run();
    play.check_store();
  }
  const auto contents = play.finish();
  require_right(play, scene.shape, contents, "PE_TEST_SEED=" + std::to_string(seed), scene.long_names);
  collections.collected += play.collected;
  collections.refused += play.refused;
  collections.results += play.dropped_results;
  collections.leftovers += play.dropped_leftovers;
  return play.world().happened;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(simulation)

BOOST_AUTO_TEST_CASE(a_seed_replays_its_schedule) {
  for (const std::uint64_t seed : {3u, 17u, 100u, 101u}) {
    const Happened first = play_schedule(seed), again = play_schedule(seed);
    BOOST_TEST(first.calls > 0u);
    BOOST_TEST(first.calls == again.calls, "seed " << seed);
    BOOST_TEST(first.failures == again.failures, "seed " << seed);
  }
}

BOOST_AUTO_TEST_CASE(the_disk_forgets_what_was_not_synced) {
  std::size_t lost = 0, kept = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RandomChoices choices(seed);
    Faults peace;
    peace.change = 0;
    Play play({{0}, true, Endings::kCalmly, 0}, choices, peace);
    const fs::path disk = play.world().disk();
    play.world().add("writer", [&] {
      support::append_file(disk / "plain", "not synced");
      support::write_file_atomically(disk / "whole", "synced", true);
    });
    play.world().run();
    lose_unsynced(choices);
    BOOST_REQUIRE(fs::exists(disk / "whole"));
    BOOST_TEST(support::read_file(disk / "whole") == "synced");
    const bool there = fs::exists(disk / "plain") && support::read_file(disk / "plain") == "not synced";
    kept += there;
    lost += !there;
  }
  BOOST_TEST(lost > 0u);
  BOOST_TEST(kept > 0u);
}

// The other process died before it synced the name, or has not come to it yet.
BOOST_AUTO_TEST_CASE(a_folder_that_another_process_made_is_synced_before_a_record_in_it_is_told_of) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    RandomChoices choices(seed);
    Faults peace;
    peace.change = 0;
    Play play({{0}, true, Endings::kCalmly, 0}, choices, peace);
    Record record;
    record.key = {std::string(64, 'a'), -1};
    record.plan_key = std::string(64, 'b');
    record.stage = record.task = "toy";
    record.preimage = record.config = Json::object();
    play.world().add("other", [&] {
      for (const char* folder : {"tasks", "tasks/aa"}) support::make_folders(play.store() / folder);
      support::write_file_atomically(play.store() / "VERSION", std::to_string(kStoreVersion) + "\n", true);
    });
    play.world().run();
    play.world().add("ours", [&] { Store(play.store()).commit(record); });
    play.world().run();
    lose_unsynced(choices);
    const Store opened(play.store(), {.create = false});
    BOOST_TEST(opened.read(record.key).has_value(), "seed " << seed);
  }
}

BOOST_AUTO_TEST_CASE(whatever_happens_nothing_is_lost_made_twice_or_wrong) {
  const std::uint64_t first = number_from("PE_TEST_SEED", 1);
  if (::getenv("PE_TEST_SEED") && !::getenv("PE_TEST_SCHEDULES")) {
    play_schedule(first);
    return;
  }
  const std::uint64_t schedules = number_from("PE_TEST_SCHEDULES", 2000);
  Happened all;
  for (std::uint64_t seed = first; seed < first + schedules; ++seed) {
    const Happened happened = play_schedule(seed);
    all.crashes += happened.crashes;
    all.power_cuts += happened.power_cuts;
    all.failures += happened.failures;
    all.late_names += happened.late_names;
    all.pauses += happened.pauses;
    all.unread += happened.unread;
  }
  BOOST_TEST_MESSAGE(schedules << " schedules: " << all.crashes << " crashes, " << all.power_cuts << " power cuts, "
                               << all.failures << " failed calls, " << all.late_names << " late names, " << all.pauses
                               << " owners asleep, " << all.unread << " folders that could not be listed; "
                               << collections.collected << " collections, " << collections.refused
                               << " refused, which dropped " << collections.results << " results and "
                               << collections.leftovers << " leftovers");
  // A world in which nothing goes wrong would prove nothing.
  for (const std::uint64_t count : {all.crashes, all.power_cuts, all.failures, all.late_names, all.pauses, all.unread,
                                    collections.collected, collections.results})
    BOOST_TEST(count > schedules / 100);
  BOOST_TEST(collections.leftovers > 0u);
}

BOOST_AUTO_TEST_CASE(no_read_error_makes_gc_drop_what_a_plan_needs) {
  const std::uint64_t errors = number_from("PE_TEST_READ_ERRORS", 1000);
  const Shape shape = {0, 1, 1, 6};
  RandomChoices choices(1);
  Faults peace;
  peace.change = 0;
  Play play({shape, false, Endings::kCalmly, 0}, choices, peace);
  GarbageOptions garbage;
  garbage.grace_s = 0;
  garbage.keep_last = 1;
  garbage.max_bytes = 1;
  Faults faults = peace;
  faults.unread_files = true;
  std::size_t lost = 0;
  while (play.world().happened.unread < errors) {
    play.make_older();
    play.wait(1);  // two runs of one moment are in no order
    play.add_run("host", 1);
    play.world().run();
    // From many errors in one collection to none in most.
    faults.unread = 0.2 / static_cast<double>(1u << choices.pick(14));
    play.world().set_faults(faults);
    play.add_gc(1, garbage);
    play.world().run();
    play.world().set_faults(peace);
    if (const std::size_t now = play.count_lost(); now > 0) {
      lost += now;
      play.add_run("again", 1);
      play.world().run();
    }
    if (!play.ledger().wrongs.empty()) break;
  }
  BOOST_TEST_MESSAGE(play.world().happened.unread
                     << " read errors in " << play.collected + play.refused << " collections: " << play.refused
                     << " refused, " << play.dropped_results << " results dropped that nothing needs, " << lost
                     << " that a plan needs");
  BOOST_TEST(lost == 0u);
  BOOST_TEST(play.collected > 10u);
  BOOST_TEST(play.refused > 100u);
  BOOST_TEST(play.dropped_results > 0u);
  BOOST_TEST(play.ledger().wrongs.empty(), (play.ledger().wrongs.empty() ? "" : play.ledger().wrongs.front()));
}

BOOST_AUTO_TEST_CASE(every_order_of_ends_failures_and_crashes_of_small_pipelines) {
  const std::size_t most = number_from("PE_TEST_TASKS", 3);
  std::size_t schedules = 0;
  for (const Shape& shape : all_shapes(most)) {
    expected(shape);
    AllChoices choices;
    do {
      Faults peace;
      peace.change = 0;
      Play play({shape, false, Endings::kInEveryOrder, 0}, choices, peace);
      play.add_run("first", 1);
      play.world().run();
      play.check_store();
      const auto contents = play.finish();
      require_right(play, shape, contents, "choices " + choices.str());
      ++schedules;
    } while (choices.advance());
  }
  BOOST_TEST_MESSAGE(schedules << " schedules");
  BOOST_TEST(schedules > 50u);
}

BOOST_AUTO_TEST_SUITE_END()

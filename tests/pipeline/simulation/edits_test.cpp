// Programs that people edit, rebuild and take away between a plan, the starts of its stages and their ends. In
// every case the result under a key was made by the program that the key names.
//
// PE_TEST_SEED=N plays that schedule alone, PE_TEST_SCHEDULES=N that many.
#include <boost/test/unit_test.hpp>

#include <map>
#include <string>

#include "pipeline/file/stage_description.h"
#include "pipeline/plan/plan.h"
#include "pipeline/run/run.h"
#include "pipeline/simulation/stages.h"
#include "pipeline/simulation/world.h"
#include "pipeline/store/store.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using namespace pe::test;      // NOLINT
namespace fs = std::filesystem;

namespace {

/// One program and its description, which is next to it so that nothing has to be started.
class Program {
 public:
  explicit Program(fs::path path) : path_(std::move(path)) { write(1, "first"); }
  const fs::path& path() const { return path_; }

  /// One of the things that people do.
  void edit(Choices& choices) {
    ++edits;
    switch (choices.pick(5)) {
      case 0:
        return write(version_ + 1, "raised");
      case 1:
        return write(version_, "comment " + std::to_string(edits));
      case 2:
        return write(1, "first");  // put back
      case 3:
        fs::remove(path_);  // a linker is at work
        return;
      default:
        return write(version_, text_);
    }
  }
  void write(int version, const std::string& text) {
    version_ = version;
    text_ = text;
    const std::string bytes = "#!/bin/sh\n# " + std::to_string(version) + " " + text + "\n";
    Json described = fake_description(version);
    described["build_id"] = support::sha256_hex(bytes);
    support::write_file_atomically(path_.string() + ".describe.json", described.dump(), false);
    support::write_file_atomically(path_, bytes, false);
    fs::permissions(path_, fs::perms::owner_all);
  }
  /// The part of a task's key for the present program: its version, or its very bytes. Empty: no program.
  std::string name(bool exact) const {
    if (!fs::exists(path_)) return "";
    return exact ? support::sha256_hex(support::read_file(path_)) : "version " + std::to_string(version_);
  }
  int edits = 0;

 private:
  fs::path path_;
  int version_ = 1;
  std::string text_;
};

class EditPlay {
 public:
  EditPlay(Shape shape, bool exact, Choices& choices, const Faults& faults)
      : shape_(std::move(shape)),
        exact_(exact),
        root_(scene_folder() / "root"),
        world_((fs::remove_all(scene_folder()), scene_folder() / "disk"), choices, faults),
        program_((fs::create_directories(root_), root_ / "pe-edited")) {
    fs::create_directories(world_.disk());
    note_unsynced(world_.disk());
    ledger_.strict = false;
    ledger_.begun = [this](const FakeAttempt& attempt) {
      ran_[attempt.task.at("key")] = program_.name(exact_);
      tainted_.erase(attempt.task.at("key").get<std::string>());
    };
    ledger_.write = [this](const FakeAttempt& attempt) {
      const std::string key = attempt.task.at("key");
      write_all_outputs(attempt, ran_[key]);
      if (exact_ && program_.name(true) != ran_[key]) tainted_.insert(key);
    };
  }

  void add_run(const std::string& host) {
    world_.add(host, [this, host] { code_ = run_once(host); });
  }
  void add_editor(std::size_t edits) {
    world_.add("editor", [this, edits] {
      for (std::size_t i = 0; i < edits; ++i) {
        world_.sleep_until(world_.now() + 1.0 + static_cast<double>(world_.choices().pick(60)));
        program_.edit(world_.choices());
      }
    });
  }
  /// After the last edit: everything is made, and then there is nothing to do.
  void finish() {
    program_.write(2, "in the end");
    Faults peace;
    peace.change = 0;
    world_.set_faults(peace);
    add_run("last");
    world_.run();
    if (code_ != kRunDone) ledger_.wrong("the last run ended with " + std::to_string(code_));
    ledger_.started.clear();
    add_run("after the last");
    world_.run();
    if (!ledger_.started.empty()) ledger_.wrong("there was something to do after the last run");
  }

  World& world() { return world_; }
  Ledger& ledger() { return ledger_; }
  std::size_t refused = 0;  ///< tasks that failed since their program was another

 private:
  struct Listener : RunListener {
    Listener(EditPlay& play, std::string planned) : play(play), planned(std::move(planned)) {}
    void on_event(const RunEvent& event, const RunState&) override {
      if (event.name == "fail" && event.detail.at("class") == "other-program") ++play.refused;
      if (event.name != "publish" || event.detail.at("same") == true) return;
      const std::string key = event.detail.at("key");
      if (play.ran_[key] != planned) play.ledger_.wrong("planned with " + planned + ", made by " + play.ran_[key]);
      if (play.tainted_.count(key)) play.ledger_.wrong("published, though its program changed meanwhile");
    }
    EditPlay& play;
    std::string planned;
  };

  int run_once(const std::string& host) {
    try {
      Store opened(world_.disk() / "store", {.durable = false});
      StageCatalog catalog;
      Graph graph;
      std::string planned;
      try {
        const auto stage = catalog.find(program_.path().string(), root_, {});
        planned = program_.name(exact_);
        graph = graph_of(shape_, root_, "", false, stage);
      } catch (const support::ConfigError&) {
        return kRunUsage;  // it is gone just now
      }
      for (Task& task : graph.tasks) task.hash_build = exact_;
      compute_plan_keys(graph);
      const Plan plan = make_plan(graph, StoreReader(opened), {});
      SimulatedRunner runner(world_, ledger_, world_.disk() / "store", Endings::kByChance, 0);
      Listener listener(*this, planned);
      RunOptions options;
      options.capacity.cpus = 2;
      options.capacity.mem_bytes = 64LL << 30;
      options.check_configs = false;
      options.run_id = "20260101-000000-" + std::to_string(++runs_);
      options.lease.where = {host, host, "1", "pids"};
      options.lease.now = [this] { return world_.now(); };
      return run(graph, plan, opened, runner, listener, options).exit_code;
    } catch (const Crashed&) {
      return -1;
    } catch (const std::exception& error) {
      if (!World::moving()->dead) ledger_.wrong(std::string("a mistake: ") + error.what());
      return -1;
    }
  }

  Shape shape_;
  bool exact_;
  fs::path root_;
  World world_;
  Program program_;
  Ledger ledger_;
  std::map<std::string, std::string> ran_;  // task key → its latest stage
  std::set<std::string> tainted_;           // task keys whose latest stage ended as another
  int runs_ = 0, code_ = 0;
};

std::size_t play_edits(std::uint64_t seed) {
  RandomChoices choices(seed);
  Shape shape;
  const std::size_t tasks = 2 + choices.pick(4);
  for (std::size_t i = 0; i < tasks; ++i) shape.push_back(static_cast<unsigned>(choices.pick(1u << i)));
  Faults faults;
  if (choices.pick(3) == 0) faults.crash = 0.003;
  EditPlay play(shape, choices.pick(2) == 0, choices, faults);
  for (int round = 0; round < 2; ++round) {
    play.add_run("host");
    play.add_editor(1 + choices.pick(6));
    play.world().run();
  }
  play.finish();
  std::string all;
  for (const std::string& wrong : play.ledger().wrongs) all += "\n  " + wrong;
  BOOST_REQUIRE_MESSAGE(play.ledger().wrongs.empty(), "PE_TEST_SEED=" << seed << ", tasks " << text_of(shape) << all);
  return play.refused;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(simulation)

BOOST_AUTO_TEST_CASE(no_program_makes_what_was_planned_with_another) {
  const std::uint64_t first = number_from("PE_TEST_SEED", 1);
  const std::uint64_t schedules =
      ::getenv("PE_TEST_SEED") && !::getenv("PE_TEST_SCHEDULES") ? 1 : number_from("PE_TEST_SCHEDULES", 400);
  std::size_t refused = 0;
  for (std::uint64_t seed = first; seed < first + schedules; ++seed) refused += play_edits(seed);
  BOOST_TEST_MESSAGE(schedules << " schedules: " << refused << " tasks refused");
  if (schedules > 100) BOOST_TEST(refused > schedules / 20);
}

BOOST_AUTO_TEST_SUITE_END()

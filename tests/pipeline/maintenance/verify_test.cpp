// Whether damage of every kind is found, and its consequences. Running again is tested with real stages in
// end_to_end/verbs_test.cpp.
#include "pipeline/maintenance/verify.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <optional>
#include <set>

#include "pipeline/maintenance/garbage.h"
#include "pipeline/maintenance/transfer.h"
#include "pipeline/run/local_runner.h"
#include "pipeline/run/run_fixture.h"
#include "support/error.h"
#include "support/fault_point.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/make_old.h"
#include "support/text.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
namespace fs = std::filesystem;

namespace {

struct MadeOnce : test::SmallRun {
  std::size_t a, b;
  MadeOnce() {
    a = add("a");
    b = add("b", {a});
    BOOST_REQUIRE(run().exit_code == 0);
    open();
  }
  Record record(std::size_t i) { return *store->read({*store->hint(graph.tasks[i].plan_key), -1}); }
  fs::path object(std::size_t i) { return store->object_path(record(i).outputs.front().object); }
  std::vector<Problem> check(std::size_t i) {
    open();
    return Verifier(*store).check(record(i));
  }
  static void flip(const fs::path& path, std::uint64_t at, int bit = 0) {
    std::string bytes = support::read_file(path);
    bytes.at(at) = static_cast<char>(bytes.at(at) ^ (1 << bit));
    fs::remove(path);
    support::write_file_atomically(path, bytes, false);
  }
  bool warned(const std::string& part) const {
    return std::any_of(events.begin(), events.end(), [&](const RunEvent& event) {
      return event.name == "warn" && event.detail.value("text", "").find(part) != std::string::npos;
    });
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(verify)

BOOST_FIXTURE_TEST_CASE(a_whole_store_has_no_problems, MadeOnce) {
  BOOST_TEST(check(a).empty());
  BOOST_TEST(check(b).empty());
}

BOOST_FIXTURE_TEST_CASE(an_object_that_only_cannot_be_read_is_not_damaged, MadeOnce) {
  const fs::path path = object(a);
  fs::rename(path, folder / "aside");
  fs::create_symlink("/proc/self/clear_refs", path);  // no user may read it
  BOOST_CHECK_THROW(check(a), support::IoError);
  fs::remove(path);
  fs::create_symlink("/proc/self/mem", path);  // a medium that gives no bytes: EIO
  BOOST_REQUIRE(check(a).size() == 1u);
  BOOST_TEST((check(a)[0].what == Problem::What::kDamaged));
  fs::remove(path);
  fs::rename(folder / "aside", path);
  BOOST_TEST(check(a).empty());
}

BOOST_FIXTURE_TEST_CASE(any_flipped_bit_of_an_object_is_found, MadeOnce) {
  const fs::path path = object(a);
  const std::string whole = support::read_file(path);
  for (std::size_t at = 0; at < whole.size(); at += 97) {
    flip(path, at, static_cast<int>(at % 8));
    const auto problems = check(a);
    BOOST_REQUIRE(problems.size() == 1u);
    BOOST_REQUIRE((problems[0].what == Problem::What::kDamaged));
    fs::remove(path);
    support::write_file_atomically(path, whole, false);
  }
  BOOST_TEST(check(a).empty());
}

BOOST_FIXTURE_TEST_CASE(truncated_missing_and_swapped_objects_are_told_apart, MadeOnce) {
  const fs::path first = object(a), second = object(b);
  const std::string one = support::read_file(first), two = support::read_file(second);
  const auto put = [](const fs::path& path, const std::string& bytes) {
    fs::remove(path);
    support::write_file_atomically(path, bytes, false);
  };
  put(first, one.substr(0, one.size() / 2));
  BOOST_TEST((check(a).at(0).what == Problem::What::kDamaged));
  put(first, two);
  put(second, one);
  BOOST_TEST((check(a).at(0).what == Problem::What::kDamaged));
  BOOST_TEST((check(b).at(0).what == Problem::What::kDamaged));
  put(first, one);
  put(second, two);
  BOOST_TEST(check(a).empty());
  fs::remove(first);
  BOOST_TEST((check(a).at(0).what == Problem::What::kMissing));
}

BOOST_FIXTURE_TEST_CASE(a_record_that_points_at_another_results_object_is_found_by_the_objects_own_header, MadeOnce) {
  Record one = record(a);
  one.outputs = record(b).outputs;
  support::write_file_atomically(store->record_path(one.key), to_json(one).dump(1) + "\n", false);
  const auto problems = check(a);
  BOOST_REQUIRE(problems.size() == 1u);
  BOOST_TEST((problems[0].what == Problem::What::kContent));
  BOOST_TEST(problems[0].text.find("says of itself that it was made for key") != std::string::npos);
  one = record(a);
  one.outputs.front().content = std::string(64, 'a');
  one.preimage["version"] = 77;
  support::write_file_atomically(store->record_path(one.key), to_json(one).dump(1) + "\n", false);
  BOOST_TEST(check(a).size() == 3u);  // key, content, header
}

BOOST_FIXTURE_TEST_CASE(a_record_with_any_flipped_bit_is_no_record_or_says_the_same, MadeOnce) {
  const Record whole = record(a);
  const fs::path path = store->record_path(whole.key);
  const std::string bytes = support::read_file(path);
  std::size_t refused = 0;
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    std::string damaged = bytes;
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << (at % 8)));
    try {
      const Record read = record_from_text(damaged, "here");
      BOOST_REQUIRE(to_json(read) == to_json(whole));  // white space
    } catch (const support::ArtifactError&) {
      ++refused;
    }
  }
  BOOST_TEST(refused > bytes.size() / 2);
}

BOOST_FIXTURE_TEST_CASE(a_damaged_input_is_found_before_a_stage_reads_it_and_made_again, MadeOnce) {
  const std::string before = content(a);
  flip(object(a), 600);  // the size stays: a look at the disk sees nothing
  add("c", {a});
  bool read_damaged = false;
  behaviour["c"] = [&](test::FakeAttempt& attempt) {
    for (const Json& input : attempt.task.at("inputs").at("in")) {
      read_damaged = read_damaged || support::sha256_file(input.at("path").get<std::string>()) !=
                                         fs::path(input.at("path").get<std::string>()).filename().string();
    }
    test::write_all_outputs(attempt);
  };
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == 0);
  BOOST_TEST(summary.executed == 2u);  // a again, then c
  BOOST_TEST(!read_damaged);
  BOOST_TEST(warned("was damaged in the store and is made again"));
  BOOST_TEST(content(a) == before);
  open();
  BOOST_TEST(Verifier(*store).check(record(a)).empty());
}

BOOST_FIXTURE_TEST_CASE(what_is_set_aside_is_made_again_by_the_next_run, MadeOnce) {
  flip(object(a), 600);
  open();
  const Record damaged = record(a);
  const auto problems = Verifier(*store).check(damaged);
  set_aside(*store, damaged, problems);
  BOOST_TEST(run().executed == 1u);
  BOOST_TEST(check(a).empty());
}

BOOST_FIXTURE_TEST_CASE(a_record_that_was_deleted_by_hand_counts_as_missing_although_the_cache_knows_it, MadeOnce) {
  store->refresh_cache();
  fs::remove(store->record_path(record(a).key));
  open();
  const ResultKey key{*store->hint(graph.tasks[a].plan_key), -1};
  BOOST_TEST(!store->find(key));
  BOOST_TEST(run().executed == 1u);
  BOOST_TEST(check(a).empty());
}

BOOST_FIXTURE_TEST_CASE(a_cache_that_was_cut_or_flipped_costs_no_result, MadeOnce) {
  store->refresh_cache();
  const fs::path cache = folder / "store/memo/records";
  const std::string bytes = support::read_file(cache);
  for (std::size_t at = 0; at < bytes.size(); at += 7) {
    for (const bool cut : {true, false}) {
      std::string damaged = bytes;
      if (cut)
        damaged.resize(at);
      else
        damaged[at] = static_cast<char>(damaged[at] ^ 16);
      support::write_file_atomically(cache, damaged, false);
      open();
      const Plan planned = plan();
      BOOST_REQUIRE(planned.nothing_to_do());
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_stage_that_is_run_again_is_stopped_on_request_and_when_its_time_is_over, test::SmallRun) {
  const fs::path script = folder / "sleeper";
  support::write_file_atomically(script, R"sh(#!/bin/sh
case "$1" in
--describe) echo '{"schema": "pe-stage/1", "name": "sleeper", "version": 1, "inputs": [], "fields": [],
  "outputs": [{"name": "out", "kind": "metrics"}]}' ;;
--task) trap '' TERM; while true; do sleep 0.1; done ;;
esac
)sh",
                                 false);
  fs::permissions(script, fs::perms::owner_all);
  Record slow;
  slow.key = {std::string(64, 'a'), -1};
  slow.stage = slow.task = "sleeper";
  slow.version = 1;
  slow.config = slow.preimage = Json::object();
  slow.occasion = {{"executable", script.string()}, {"wall_s", 0.01}};
  StageCatalog catalog({folder.path()});
  LocalRunner runner;
  RerunOptions how;
  how.grace_s = 0.2;
  how.patience_s = 0.3;
  const auto again = [&] { return run_again(*store, read_inventory(*store), catalog, runner, {slow}, how); };
  RerunResult rerun = again();
  BOOST_TEST((rerun.outcome == RerunResult::Outcome::kFailed));
  BOOST_TEST(rerun.why.find("it was stopped after") == 0u, rerun.why);
  how.patience_s = 600;
  how.stop = [] { return 1; };
  rerun = again();
  BOOST_TEST((rerun.outcome == RerunResult::Outcome::kCannot));
  BOOST_TEST(rerun.why == "it was interrupted");
}

BOOST_FIXTURE_TEST_CASE(results_are_chosen_by_id_label_axes_digits_and_relation, MadeOnce) {
  task(a).id = "a[seed=1,size=tiny]";
  task(a).config.edit()["salt"] = "1";
  task(b).id = "b[seed=1]";
  BOOST_REQUIRE(run().exit_code == 0);
  open();
  const Inventory inventory = read_inventory(*store);
  const auto names = [&](const std::vector<std::string>& words) {
    std::multiset<std::string> found;
    for (const std::size_t i : select_results(inventory, words)) found.insert(inventory.results[i].name());
    return support::join({found.begin(), found.end()}, " ");
  };
  BOOST_TEST(names({}) == "a a[seed=1,size=tiny] b b[seed=1]");
  BOOST_TEST(names({"a"}) == "a a[seed=1,size=tiny]");
  BOOST_TEST(names({"a[seed=*]"}) == "a[seed=1,size=tiny]");
  BOOST_TEST(names({"[seed=1]"}) == "a[seed=1,size=tiny] b[seed=1]");
  BOOST_TEST(names({"+b[seed=1]"}) == "a[seed=1,size=tiny] b[seed=1]");
  BOOST_TEST(names({"a[seed=1]+"}) == "a[seed=1,size=tiny] b[seed=1]");
  BOOST_TEST(names({store->keys().front().key.substr(0, 12)}).size() > 0u);
  BOOST_CHECK_THROW(names({"c"}), support::ConfigError);
}

BOOST_FIXTURE_TEST_CASE(a_transfer_brings_results_whole_and_of_their_inputs_the_records, MadeOnce) {
  const Inventory inventory = read_inventory(*store);
  const auto chosen = select_results(inventory, {"b"});
  StoreOptions how;
  how.durable = false;
  Store other(folder / "other", how);
  TransferReport report = transfer(*store, inventory, chosen, other, {.dry_run = true});
  BOOST_TEST(report.objects == 1u);
  BOOST_TEST(other.keys().empty());
  report = transfer(*store, inventory, chosen, other, {});
  BOOST_REQUIRE(report.results.size() == 2u);
  BOOST_TEST(other.complete(*other.find(record(b).key)));
  BOOST_TEST(!other.complete(*other.find(record(a).key)));
  // Over there, b is reused although its input is not there.
  PlanOptions only;
  only.selected = {false, true};
  const Plan there = make_plan(graph, StoreReader(other), only);
  BOOST_TEST((there.tasks[b].state == TaskState::kReuse));
  BOOST_TEST((there.tasks[a].state == TaskState::kNotNeeded));
  BOOST_TEST(transfer(*store, inventory, chosen, other, {}).objects == 0u);
  // One that was cut over there is replaced.
  const fs::path cut = other.object_path(record(b).outputs.front().object);
  fs::permissions(cut, fs::perms::owner_write, fs::perm_options::add);
  fs::resize_file(cut, 100);
  BOOST_TEST(transfer(*store, inventory, chosen, other, {}).objects == 1u);
  BOOST_TEST(Verifier(other).check(*other.read(record(b).key)).empty());
  // A `gc` over there takes no object whose record is about to come, though it lay there for long.
  Store fourth(folder / "fourth", how);
  for (int time = 0; time < 2; ++time) {
    std::optional<support::FaultHook> hook([&](std::string_view step) {
      if (step == "commit record") collect_garbage(fourth, {.grace_s = 0});
    });
    transfer(*store, inventory, chosen, fourth, {});
    hook.reset();
    BOOST_TEST(fourth.complete(*fourth.find(record(b).key)));
    fourth.forget(record(b).key);
    test::make_old(folder / "fourth");
  }
  // A damaged object does not travel.
  Store third(folder / "third", how);
  flip(object(b), 600);
  report = transfer(*store, inventory, chosen, third, {});
  BOOST_TEST(!report.results.back().problem.empty());
  BOOST_TEST(!third.find(record(b).key));
}

BOOST_AUTO_TEST_SUITE_END()

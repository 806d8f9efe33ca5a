// Results whose contents are known and whose bytes are not here: as a plan sees them, and when something needs the
// bytes.
#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <fstream>
#include <numeric>

#include "pipeline/maintenance/garbage.h"
#include "pipeline/maintenance/inventory.h"
#include "pipeline/maintenance/transfer.h"
#include "pipeline/maintenance/verify.h"
#include "pipeline/run/run_fixture.h"
#include "pipeline/run/view.h"
#include "support/files.h"
#include "support/text.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
namespace fs = std::filesystem;

namespace {

struct KnownRun : test::SmallRun {
  std::size_t a = add("a"), b = add("b", {a});

  KnownRun() {
    BOOST_REQUIRE(run().exit_code == 0);
    open();
  }
  Record record(std::size_t i) { return *store->read({*store->hint(graph.tasks[i].plan_key), -1}); }
  /// As if the record had come without its bytes.
  void take_bytes_away(std::size_t i) {
    open();
    Record one = record(i);
    fs::remove(store->object_path(one.outputs.front().object));
    BOOST_REQUIRE(store->forget(one.key));
    for (OutputRecord& output : one.outputs) output.absent = true;
    one.occasion["imported"] = {{"file", "other.tar.zst"}, {"at", "2026-11-20T10:00:00Z"}};
    store->commit(one);
    open();
  }
  /// Sorted.
  std::vector<std::string> ran() const {
    std::vector<std::string> names;
    for (const RunEvent& event : events) {
      if (event.name == "start") names.push_back(graph.tasks[static_cast<std::size_t>(event.task)].id);
    }
    std::sort(names.begin(), names.end());
    return names;
  }
  void writes(const std::string& name, const std::string& salt) {
    behaviour[name] = [salt](test::FakeAttempt& attempt) { test::write_all_outputs(attempt, salt); };
  }
};

using Names = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_SUITE(known_results)

BOOST_FIXTURE_TEST_CASE(a_known_result_is_reused_while_nothing_needs_its_bytes, KnownRun) {
  take_bytes_away(a);
  const Plan whole = plan();
  BOOST_TEST(whole.nothing_to_do());
  BOOST_TEST(whole.count_known() == 1u);
  BOOST_TEST((whole.tasks[a].reason_kind == ReasonKind::kKnown));
  BOOST_TEST(whole.tasks[a].reason == "its result is known; metrics 'out' is not here, and nothing needs it");
  BOOST_TEST((whole.tasks[b].reason_kind == ReasonKind::kPresent));
  BOOST_TEST(items_of(graph, whole).size() == 1u);  // out/ names only outputs that are here
  BOOST_TEST(run().executed == 0u);
}

BOOST_FIXTURE_TEST_CASE(an_object_that_was_here_and_is_gone_is_made_again_all_the_same, KnownRun) {
  fs::remove(store->object_path(record(a).outputs.front().object));
  open();
  BOOST_TEST((plan().tasks[a].reason_kind == ReasonKind::kObjectGone));
  BOOST_TEST(run().executed == 1u);
}

BOOST_FIXTURE_TEST_CASE(what_runs_and_needs_the_bytes_has_them_made_first, KnownRun) {
  take_bytes_away(a);
  add("c", {a});
  const Plan more = plan();
  BOOST_TEST((more.tasks[a].reason_kind == ReasonKind::kBytesWanted));
  BOOST_TEST(more.tasks[a].reason == "its result is known, but metrics 'out' is not here, and c needs it");
  BOOST_TEST((more.tasks[b].state == TaskState::kReuse));
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == 0);
  BOOST_TEST(ran() == (Names{"a", "c"}));
  open();
  const Record again = record(a);
  BOOST_TEST(!again.outputs.front().absent);
  BOOST_TEST(store->complete(to_result(again)));
  BOOST_TEST(again.occasion.at("confirms").get<std::string>().find("imported from 'other.tar.zst' on 2026-11-20") !=
             std::string::npos);
  BOOST_TEST(plan().count_known() == 0u);
}

BOOST_FIXTURE_TEST_CASE(other_contents_than_the_known_ones_end_the_task_and_keep_the_known_record, KnownRun) {
  const std::string known = content(a);
  take_bytes_away(a);
  add("c", {a});
  writes("a", "another machine");
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == 1);
  BOOST_TEST(summary.conflicts == 1u);
  BOOST_TEST(ran() == (Names{"a"}));
  BOOST_REQUIRE(summary.failures.size() == 1u);
  const std::string reason = summary.failures.front().reason;
  BOOST_TEST(reason.find("differ from the known result (made by run ") != std::string::npos, reason);
  BOOST_TEST(reason.find("imported from 'other.tar.zst'") != std::string::npos, reason);
  open();
  BOOST_TEST(content(a) == known);
  // Asked for, the new contents replace the known ones, and the readers of those run again.
  PlanOptions forced;
  forced.force = true;
  forced.selected = {true, false, false};
  BOOST_TEST(run(forced).exit_code == 0);
  open();
  BOOST_TEST(content(a) != known);
  BOOST_TEST(run().exit_code == 0);
  BOOST_TEST(ran() == (Names{"b", "c"}));
}

BOOST_FIXTURE_TEST_CASE(a_result_that_nothing_reads_is_replaced_and_the_difference_is_told, KnownRun) {
  const std::string known = content(b);
  take_bytes_away(b);
  fs::remove(store->object_path(record(a).outputs.front().object));
  writes("b", "another machine");
  Record one = record(b);
  one.outputs.front().kind = "report";  // people ask for a report to read it
  store->forget(one.key);
  store->commit(one);
  open();
  BOOST_TEST(plan().tasks[b].reason == "its result is known, but report 'out' is not here");
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == 0);
  BOOST_TEST(summary.conflicts == 1u);
  BOOST_TEST(content(b) != known);
}

BOOST_FIXTURE_TEST_CASE(bytes_are_asked_for_when_a_key_comes_out_only_then, KnownRun) {
  const std::size_t c = add("c", {b});
  BOOST_REQUIRE(run().exit_code == 0);
  take_bytes_away(b);
  // Without the record of a, no key behind it is certain before it ran.
  store->forget(record(a).key);
  open();
  BOOST_TEST((plan().tasks[b].state == TaskState::kLikelyReuse));
  BOOST_TEST(run().exit_code == 0);
  BOOST_TEST(ran() == (Names{"a"}));
  // And where the last one is missing too, b comes first although its contents are known.
  open();
  store->forget(record(a).key);
  store->forget(record(c).key);
  open();
  BOOST_TEST(run().exit_code == 0);
  BOOST_TEST(ran() == (Names{"a", "b", "c"}));
  // Without a hint, the plan does not even presume a key of b, which was made by another recipe: the run finds its
  // contents known, and then that c needs it.
  take_bytes_away(b);
  const ResultKey first = record(a).key, last = record(c).key;
  store->forget(first);
  store->forget(last);
  Record other = record(b);
  other.plan_key = support::sha256_hex("another recipe");
  support::write_file_atomically(store->record_path(other.key), record_text(other), false);
  open();
  fs::remove(store->root() / "memo/records");
  open();
  BOOST_TEST((plan().tasks[b].reason_kind == ReasonKind::kFollows));
  BOOST_TEST(run().exit_code == 0);
  BOOST_TEST(ran() == (Names{"a", "b", "c"}));
  BOOST_TEST(std::any_of(events.begin(), events.end(), [](const RunEvent& event) {
    return event.name == "note" && event.detail.value("text", "") == "its result is known and not here, and c needs it";
  }));
}

BOOST_FIXTURE_TEST_CASE(verify_and_gc_take_a_known_result_for_no_damage, KnownRun) {
  take_bytes_away(a);
  const Record one = record(a);
  BOOST_TEST(Verifier(*store).check(one).empty());
  BOOST_TEST(absent_roles(*store, one.outputs).size() == one.outputs.size());
  BOOST_TEST(origin_of(one).find("imported from") != std::string::npos);
  BOOST_TEST(absent_roles(*store, record(b).outputs).empty());
  GarbageOptions options;
  options.max_bytes = 0;
  options.grace_s = 0;
  options.dry_run = true;
  const GarbageReport report = collect_garbage(*store, options);
  BOOST_TEST(report.known == 1u);
  for (const Deletion& dropped : report.dropped) BOOST_TEST(dropped.name != "a");
}

BOOST_FIXTURE_TEST_CASE(a_transfer_brings_missing_bytes_and_names_both_origins_of_a_conflict, KnownRun) {
  const test::TempFolder other;
  StoreOptions quick;
  quick.durable = false;
  Store whole(other / "store", quick);
  const Inventory all = read_inventory(*store);
  transfer(*store, all, {0, 1}, whole, {});
  take_bytes_away(a);
  const TransferReport back = transfer(whole, read_inventory(whole), {0, 1}, *store, {});
  BOOST_TEST(back.objects == 1u);
  open();
  BOOST_TEST(plan().count_known() == 0u);
  // Other contents for the same key.
  Record changed = record(a);
  changed.outputs.front().content = std::string(64, 'b');
  changed.outputs.front().absent = true;
  whole.forget(changed.key);
  whole.commit(changed);
  TransferOptions dry;
  dry.dry_run = true;
  const TransferReport conflict = transfer(whole, read_inventory(whole), {0, 1}, *store, dry);
  const auto found = std::find_if(conflict.results.begin(), conflict.results.end(),
                                  [](const TransferItem& each) { return each.conflict; });
  BOOST_REQUIRE((found != conflict.results.end()));
  BOOST_TEST(found->task == "a");
  BOOST_TEST(found->ours.find("made by run ") == 0u);
  BOOST_TEST(found->theirs.find("made by run ") == 0u);
}

BOOST_FIXTURE_TEST_CASE(a_damaged_object_keeps_every_result_that_has_it_from_going, KnownRun) {
  Record twin = record(a);
  twin.key.key = std::string(64, 'f');
  store->commit(twin);
  std::fstream(store->object_path(twin.outputs.front().object), std::ios::in | std::ios::out | std::ios::binary)
      .put('!');
  const test::TempFolder other;
  StoreOptions quick;
  quick.durable = false;
  Store to(other / "store", quick);
  const Inventory all = read_inventory(*store);
  std::vector<std::size_t> chosen(all.results.size());
  std::iota(chosen.begin(), chosen.end(), 0);
  const TransferReport report = transfer(*store, all, chosen, to, {});
  const auto failed = std::count_if(report.results.begin(), report.results.end(),
                                    [](const TransferItem& each) { return !each.problem.empty(); });
  BOOST_TEST(failed == 2);
  BOOST_TEST(!to.read(record(a).key).has_value());
  BOOST_TEST(!to.read(twin.key).has_value());
}

BOOST_FIXTURE_TEST_CASE(records_and_the_cache_keep_the_mark, KnownRun) {
  take_bytes_away(a);
  const Record one = record(a);
  BOOST_TEST(one.outputs.front().absent);
  BOOST_TEST(record_from_text(record_text(one), "x").outputs.front().absent);
  const auto packed = PackedResult::of_bytes(PackedResult(to_result(one)).bytes());
  BOOST_REQUIRE(packed.has_value());
  BOOST_TEST(packed->unpack().outputs.front().absent);
}

BOOST_AUTO_TEST_SUITE_END()

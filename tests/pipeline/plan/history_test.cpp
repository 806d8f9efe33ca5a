// The history: one file that stands for thousands of records, rebuilt from them whenever it cannot be trusted.
#include "pipeline/plan/history.h"

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "support/files.h"
#include "support/hash.h"
#include "support/temp_folder.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT

namespace {

Record record(int i) {
  Record record;
  record.stage = i % 2 ? "train" : "fetch";
  record.version = 3;
  record.task = "cell[i=" + std::to_string(i) + "]";
  record.preimage = {{"stage", record.stage},
                     {"version", 3},
                     {"config", {{"width", i / 4}}},
                     {"inputs", {{"data", {{{"digest", support::sha256_hex(std::to_string(i))}}}}}}};
  record.key = {support::canonical_hash("pe/task/1", record.preimage), i % 3 == 0 ? i : -1};
  record.plan_key = support::sha256_hex("plan" + std::to_string(i));
  record.config = Json::object();
  record.occasion = {{"ended", "2026-01-01T00:00:" + std::to_string(10 + i)},
                     {"run", "r1"},
                     {"pipeline", i % 2 ? "grid" : "other"},
                     {"wall_s", 2.5 * i},
                     {"expected_s", 2.0 * i},
                     {"gpus", {"0"}}};
  return record;
}

struct Filled {
  test::TempFolder folder;
  fs::path root = folder / "store";
  Filled() {
    Store store(root, {.durable = false});
    for (int i = 0; i < 20; ++i) store.commit(record(i));
  }
};

std::string text_of(const History& history) {
  std::string text;
  for (const auto& [stage, tasks] : history.stages()) {
    for (const PastTask& task : tasks) {
      text += stage + " " + task.key.short_name() + " " + std::string(task.id) + " " + std::string(task.ended) + " " +
              std::string(task.run) + " " + std::string(task.pipeline) + " " + std::to_string(task.wall_s) + " " +
              std::to_string(task.expected_s) + " " + std::to_string(task.gpus) + " " + std::to_string(task.version) +
              " " + Json::from_cbor(task.config).dump() + Json::from_cbor(task.inputs).dump() +
              std::string(task.build) + "\n";
    }
  }
  return text;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(history)

BOOST_FIXTURE_TEST_CASE(records_are_opened_once, Filled) {
  const Store store(root, {.durable = false});
  const History first(store);
  BOOST_TEST(first.opened() == 20u);
  BOOST_TEST(first.of_stage("train").size() == 10u);
  BOOST_TEST(first.of_stage("none").empty());
  const History second(store);
  BOOST_TEST(second.opened() == 0u);
  BOOST_TEST(text_of(second) == text_of(first));
}

BOOST_FIXTURE_TEST_CASE(what_is_added_is_read_and_what_is_forgotten_goes, Filled) {
  { const History first{Store(root, {.durable = false})}; }
  {
    Store store(root, {.durable = false});
    store.commit(record(20));
    store.forget(record(1).key);
  }
  const History then{Store(root, {.durable = false})};
  BOOST_TEST(then.opened() == 1u);
  BOOST_TEST(then.of_stage("train").size() == 9u);
  BOOST_TEST(then.of_stage("fetch").size() == 11u);
  fs::remove(root / "memo/history");
  const History fresh{Store(root, {.durable = false})};
  BOOST_TEST(fresh.opened() == 20u);
  BOOST_TEST(text_of(fresh) == text_of(then));
}

BOOST_FIXTURE_TEST_CASE(a_damaged_history_is_made_anew, Filled) {
  const std::string whole = text_of(History{Store(root, {.durable = false})});
  const std::string bytes = support::read_file(root / "memo/history");
  const auto check = [&](const std::string& damaged) {
    std::ofstream(root / "memo/history", std::ios::binary) << damaged;
    BOOST_TEST(text_of(History{Store(root, {.durable = false})}) == whole);
  };
  for (std::size_t size = 0; size < bytes.size(); size += 211) check(bytes.substr(0, size));
  for (std::size_t at = 0; at < bytes.size(); at += 173) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 16);
    check(flipped);
  }
}

BOOST_AUTO_TEST_CASE(a_store_that_is_not_there_has_none_and_is_not_made) {
  const test::TempFolder folder;
  const Store store(folder / "store", {.durable = false, .create = false});
  BOOST_TEST(History(store).stages().empty());
  BOOST_TEST(!fs::exists(folder / "store"));
}

BOOST_AUTO_TEST_SUITE_END()

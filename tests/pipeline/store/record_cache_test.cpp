// The cache of records: one file that answers for thousands of records, and never against them.
#include "pipeline/store/record_cache.h"

#include <signal.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <functional>

#include "pipeline/store/store.h"
#include "support/bytes_read.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/process.h"
#include "support/temp_folder.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT

namespace {

Record record(int i, const std::string& content = "") {
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
                     {"device", "X"},
                     {"model", {{"parameters", 1e6}, {"flops", 6e6}, {"encoding", "rope"}}},
                     {"tokens", 1000.0 * i},
                     {"gpus", {"0"}}};
  if (!content.empty()) {
    OutputRecord output;
    output.role = "out";
    output.kind = "metrics";
    output.object = output.content = support::sha256_hex(content);
    output.bytes = 7;
    record.outputs.push_back(output);
  }
  return record;
}

struct Filled {
  test::TempFolder folder;
  fs::path root = folder / "store", file = root / "memo/records";
  Filled() {
    const Store store = open();
    for (int i = 0; i < 20; ++i) store.commit(record(i));
  }
  Store open(StoreOptions options = {}) const {
    options.durable = false;
    return Store(root, options);
  }
};

/// Everything that the cache answers.
std::string text_of(const Store& store) {
  std::string text;
  for (const PastTask& task : store.past_tasks()) {
    const auto result = store.find(task.key);
    BOOST_REQUIRE(result.has_value());
    text += std::string(task.stage) + " " + task.key.short_name() + " " + std::string(task.id) + " " +
            std::string(task.ended) + " " + std::string(task.run) + " " + std::string(task.pipeline) + " " +
            std::to_string(task.wall_s) + " " + std::to_string(task.expected_s) + " " + std::to_string(task.gpus) +
            " " + std::to_string(task.version) + " " + std::string(task.device) + " " + std::string(task.encoding) +
            " " + std::to_string(task.parameters) + " " + std::to_string(task.flops) + " " +
            std::to_string(task.tokens) + " " + std::to_string(task.bytes) + Json::from_cbor(task.config).dump() +
            Json::from_cbor(task.inputs).dump() + std::string(task.build) + result->plan_key +
            store.hint(result->plan_key).value_or("none") + std::to_string(result->outputs.size()) + "\n";
  }
  return text;
}

/// How many records are opened by `body`; each has some 700 bytes.
std::int64_t opened_by(const std::function<void()>& body) {
  const std::int64_t before = test::bytes_read();
  body();
  return (test::bytes_read() - before) / 600;
}

Result sample(int i) {
  Result result;
  result.status = i % 2 ? ResultStatus::kDiverged : ResultStatus::kDone;
  result.plan_key = i % 3 ? support::sha256_hex("plan" + std::to_string(i)) : "";
  result.wall_s = i * 0.5;
  for (int k = 0; k < i % 3; ++k) {
    OutputRecord output;
    output.role = "out" + std::to_string(k);
    output.kind = "metrics";
    output.object = support::sha256_hex("o" + std::to_string(i * 10 + k));
    output.content = support::sha256_hex("c" + std::to_string(i * 10 + k));
    output.bytes = 1u << i;
    output.collection = k == 1;
    if (output.collection) output.members = {output.object, output.content};
    output.is_volatile = i % 2;
    result.outputs.push_back(output);
  }
  return result;
}

bool equal(const Result& a, const Result& b) {
  return a.status == b.status && a.plan_key == b.plan_key && a.wall_s == b.wall_s && a.outputs == b.outputs;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(record_cache)

BOOST_FIXTURE_TEST_CASE(records_are_opened_once, Filled) {
  std::string text, again;
  BOOST_TEST(opened_by([&] { text = text_of(open()); }) >= 20);
  BOOST_TEST(opened_by([&] { again = text_of(open()); }) == 0);
  BOOST_TEST(again == text);
  BOOST_TEST(open().past_tasks().size() == 20u);
}

BOOST_FIXTURE_TEST_CASE(a_past_task_is_its_record, Filled) {
  const Record made = record(5, "x");
  open().commit(made);
  open().refresh_cache();
  const Store store = open();
  for (const PastTask& task : store.past_tasks()) {
    if (task.key != made.key) continue;
    BOOST_TEST(task.stage == "train");
    BOOST_TEST(task.id == "cell[i=5]");
    BOOST_TEST(task.ended == "2026-01-01T00:00:15");
    BOOST_TEST(task.run == "r1");
    BOOST_TEST(task.pipeline == "grid");
    BOOST_TEST(task.version == 3);
    BOOST_TEST(task.wall_s == 12.5);
    BOOST_TEST(task.expected_s == 10.0);
    BOOST_TEST(task.gpus == 1);
    BOOST_TEST(task.device == "X");
    BOOST_TEST(task.encoding == "rope");
    BOOST_TEST(task.parameters == 1e6);
    BOOST_TEST(task.flops == 6e6);
    BOOST_TEST(task.tokens == 5000.0);
    BOOST_TEST((Json::from_cbor(task.config) == made.preimage["config"]));
    BOOST_TEST((Json::from_cbor(task.inputs) == made.preimage["inputs"]));
  }
}

BOOST_FIXTURE_TEST_CASE(what_is_added_is_read_and_what_is_forgotten_goes, Filled) {
  open().refresh_cache();
  {
    Store store = open();
    store.commit(record(20));
    BOOST_TEST(store.forget(record(1).key));
  }
  std::string text;
  BOOST_TEST(opened_by([&] { text = text_of(open()); }) == 1);
  BOOST_TEST(open().past_tasks().size() == 20u);
  BOOST_TEST(!open().find(record(1).key));
  fs::remove(file);
  BOOST_TEST(text_of(open()) == text);
}

BOOST_FIXTURE_TEST_CASE(a_damaged_file_counts_as_empty, Filled) {
  const std::string whole = text_of(open());
  const std::string bytes = support::read_file(file);
  const auto check = [&](const std::string& damaged) {
    std::ofstream(file, std::ios::binary) << damaged;
    BOOST_REQUIRE(text_of(open()) == whole);
  };
  for (std::size_t size = 0; size < bytes.size(); size += 211) check(bytes.substr(0, size));
  for (std::size_t at = 0; at < bytes.size(); at += 173) {
    std::string flipped = bytes;
    flipped[at] = static_cast<char>(flipped[at] ^ 16);
    check(flipped);
  }
}

// Any process may change a record, and without a word to the cache.
BOOST_FIXTURE_TEST_CASE(a_row_never_answers_for_another_record, Filled) {
  const ResultKey key = record(4).key;
  const Store reader = open();
  reader.refresh_cache();  // knows it in memory and in the file
  const auto content = [&](const Store& store) {
    const auto found = store.find(key);
    return !found ? "none" : found->outputs.empty() ? "empty" : found->outputs.front().content;
  };
  const auto all_say = [&](const std::string& expected) {
    BOOST_TEST(content(reader) == expected);
    BOOST_TEST(content(open()) == expected);
  };
  all_say("empty");
  // Replaced by another process that dies immediately; contents of equal length.
  for (const std::string text : {"x", "y", "z"}) {
    support::write_file_atomically(reader.record_path(key), record_text(record(4, text)), false);
    all_say(support::sha256_hex(text));
  }
  // Written in place, with the time put back.
  const fs::path path = reader.record_path(key);
  const auto time = fs::last_write_time(path);
  std::ofstream(path) << record_text(record(4, "w"));
  fs::last_write_time(path, time);
  all_say(support::sha256_hex("w"));
  // Taken away and brought back.
  fs::rename(path, folder / "aside");
  all_say("none");
  fs::rename(folder / "aside", path);
  all_say(support::sha256_hex("w"));
  const std::string text = support::read_file(path);
  std::ofstream(path) << text.substr(0, text.size() / 2);
  all_say("none");
}

BOOST_FIXTURE_TEST_CASE(several_writers_lose_nothing, Filled) {
  {
    const Store a = open(), b = open();
    for (int i = 0; i < 12; ++i) BOOST_REQUIRE(a.find(record(i).key).has_value());
    for (int i = 8; i < 20; ++i) BOOST_REQUIRE(b.find(record(i).key).has_value());
  }
  const auto find_all = [&] {
    const Store next = open();
    for (int i = 0; i < 20; ++i) BOOST_REQUIRE(next.find(record(i).key).has_value());
  };
  BOOST_TEST(opened_by(find_all) == 0);
}

// An element of an array knows a few new records of very many.
BOOST_FIXTURE_TEST_CASE(a_few_new_rows_are_not_worth_a_write, Filled) {
  for (int i = 20; i < 120; ++i) open().commit(record(i));
  open().refresh_cache();
  const auto before = support::stamp_of(file);
  open().commit(record(120));
  {
    const Store store = open();
    BOOST_REQUIRE(store.find(record(120).key).has_value());
  }
  BOOST_TEST((support::stamp_of(file) == before));
  open().refresh_cache();
  BOOST_TEST(!(support::stamp_of(file) == before));
  const auto written = support::stamp_of(file);
  open().refresh_cache();
  BOOST_TEST((support::stamp_of(file) == written));  // nothing is new
}

BOOST_FIXTURE_TEST_CASE(a_hint_is_the_newest_record_of_its_plan_key, Filled) {
  const std::string plan_key = record(4).plan_key, theirs = support::sha256_hex("another recipe");
  BOOST_TEST(open().hint(plan_key).value() == record(4).key.key);
  Record newer = record(40);
  newer.plan_key = plan_key;
  ::usleep(20'000);  // a file's time moves in ticks of some milliseconds
  open().commit(newer);
  fs::remove(file);
  BOOST_TEST(open().hint(plan_key).value() == newer.key.key);
  // Set by a run that took a result which another recipe had made.
  {
    Store store = open();
    BOOST_TEST(!store.hint(theirs));
    store.set_hint(theirs, record(4).key.key);
    store.set_hint(plan_key, record(4).key.key);
    store.set_hint(support::sha256_hex("lost"), record(7).key.key);
    store.refresh_cache();
  }
  BOOST_TEST(open().hint(theirs).value() == record(4).key.key);
  BOOST_TEST(open().hint(plan_key).value() == record(4).key.key);
  // Of no record: dropped.
  open().forget(record(7).key);
  open().refresh_cache();
  BOOST_TEST(!open().hint(support::sha256_hex("lost")));
  BOOST_TEST(!open().hint("no key"));
}

BOOST_FIXTURE_TEST_CASE(an_element_of_an_array_takes_hints_as_they_were_written, Filled) {
  const StoreOptions element{.lists_records = false};
  const std::string plan_key = record(4).plan_key;
  BOOST_TEST(!open(element).hint(plan_key));
  open().refresh_cache();
  BOOST_TEST(open(element).hint(plan_key).value() == record(4).key.key);
}

BOOST_FIXTURE_TEST_CASE(a_folder_that_cannot_be_listed_is_not_an_empty_one, Filled) {
  open().refresh_cache();
  const std::string bytes = support::read_file(file);
  for (const char* part : {"tasks", "tracks"}) {
    fs::rename(root / part, root / "aside");
    fs::create_symlink(part, root / part);  // to itself
    const Store store = open({.create = false});
    BOOST_CHECK_THROW(store.refresh_cache(), support::IoError);
    BOOST_CHECK_THROW(store.past_tasks(), support::IoError);
    BOOST_CHECK_THROW(store.hint(support::sha256_hex("unknown")), support::IoError);
    fs::remove(root / part);
    fs::rename(root / "aside", root / part);
  }
  BOOST_TEST(support::read_file(file) == bytes);
}

BOOST_FIXTURE_TEST_CASE(a_cache_that_cannot_be_written_costs_time_only, Filled) {
  std::ofstream(root / "memo") << "in the way";
  for (int i = 0; i < 2; ++i) {
    const Store store = open();
    BOOST_TEST(store.past_tasks().size() == 20u);
  }
}

BOOST_FIXTURE_TEST_CASE(a_writer_that_is_killed_leaves_a_whole_file, Filled) {
  const std::string whole = text_of(open());
  for (int i = 0; i < 30; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      for (;;) {
        fs::remove(file);
        const Store store = open();
        store.refresh_cache();
      }
    }
    ::usleep(static_cast<useconds_t>(1000 + 700 * i));
    ::kill(child, SIGKILL);
    support::wait_for(child);
    BOOST_REQUIRE(text_of(open()) == whole);
  }
}

BOOST_AUTO_TEST_CASE(a_store_that_is_not_there_has_none_and_is_not_made) {
  const test::TempFolder folder;
  {
    const Store store(folder / "store", {.durable = false, .create = false});
    BOOST_TEST(store.past_tasks().empty());
  }
  BOOST_TEST(!fs::exists(folder / "store"));
}

BOOST_AUTO_TEST_CASE(a_packed_result_is_unpacked_as_it_was_and_no_other_bytes_are_one) {
  for (int i = 0; i < 12; ++i) {
    const PackedResult packed(sample(i));
    BOOST_TEST(equal(packed.unpack(), sample(i)));
    const ResultKey key{support::sha256_hex(std::to_string(i)), i % 4 == 0 ? i : -1};
    BOOST_TEST((PackedKey(key).unpack() == key));
    const std::string bytes(packed.bytes());
    BOOST_TEST(PackedResult::of_bytes(bytes)->bytes() == bytes);
    for (std::size_t length = 0; length < bytes.size(); ++length)
      BOOST_REQUIRE(!PackedResult::of_bytes(bytes.substr(0, length)));
    BOOST_TEST(!PackedResult::of_bytes(bytes + '\0'));
  }
  BOOST_TEST(!PackedResult());
  Result many = sample(0);  // more than sixteen bits count
  many.outputs.assign(70'001, sample(1).outputs.at(0));
  many.outputs.back().role = "last";
  BOOST_TEST(equal(PackedResult(many).unpack(), many));
}

BOOST_AUTO_TEST_SUITE_END()

// Result versions kept honest: every stage runs once on tiny, fixed input, and the digests of its results are committed
// in golden/stages.json. If bytes change while the recipe (config, inputs, result version) stays, every user who
// upgrades has a stale cache, so they fail here.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/files.h"
#include "support/json.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

namespace fs = std::filesystem;
using pe::Json;

namespace {

/// Results in the records of a store: "trunk@8" → stage, version, key, and the content digest of each output that must
/// be the same every time.
Json results_of(const fs::path& store) {
  Json results = Json::object();
  for (const char* folder : {"tasks", "tracks"}) {
    for (const auto& entry : fs::recursive_directory_iterator(store / folder)) {
      if (!entry.is_regular_file() || entry.path().extension() != ".json") continue;
      const Json record = Json::parse(pe::support::read_file(entry.path()));
      std::string name = record.at("task");
      if (record.contains("step")) name += "@" + std::to_string(record.at("step").get<std::int64_t>());
      Json outputs = Json::object();
      for (const Json& output : record.at("outputs")) {
        if (!output.value("volatile", false)) outputs[output.at("role").get<std::string>()] = output.at("content");
      }
      results[name] = {{"stage", record.at("stage")},
                       {"version", record.at("version")},
                       {"key", record.at("key")},
                       {"outputs", std::move(outputs)}};
    }
  }
  return results;
}

/// The mistake in one result, with a way out; empty without one.
std::string verdict(const std::string& name, const Json& before, const Json& now) {
  if (before == now) return "";
  const std::string stage = "pe-" + now.at("stage").get<std::string>();
  const std::string accept = "then accept with PE_TEST_ACCEPT=1";
  if (before.at("key") == now.at("key")) {
    std::string roles;
    for (const auto& [role, digest] : now.at("outputs").items()) {
      if (before.at("outputs").value(role, Json()) != digest) roles += (roles.empty() ? "" : ", ") + role;
    }
    return name + ": the bytes of " + stage + " moved (" + roles + ") and its result version did not.\n" +
           "  If that is meant, raise .version in stages/ of " + stage + ", so that cached results are made again, " +
           accept + "; if not, find what changed.";
  }
  if (before.at("version") != now.at("version")) {
    return name + ": the result version of " + stage + " is " + now.at("version").dump() +
           ", the digests are of version " + before.at("version").dump() + "; " + accept + ".";
  }
  return name + ": the recipe of " + stage +
         " differs (config, or what it reads), so every cached result of it would be made " +
         "again.\n  A new option needs a neutral value; a default that is meant to change, or an earlier stage that "
         "did, is "
         "fine; " +
         accept + ".";
}

/// Runs the golden pipeline in so many threads and compares it with the committed digests.
void compare_with(const std::string& digests, int threads) {
  const pe::test::TempFolder folder;
  const fs::path golden = pe::test::source_root() / "tests/end_to_end/golden";
  std::string pipeline = pe::support::read_file(golden / "stages.yml");
  const std::string one = "threads: 1", wanted = "threads: " + std::to_string(threads);
  for (auto at = pipeline.find(one); at != std::string::npos; at = pipeline.find(one, at + one.size()))
    pipeline.replace(at, one.size(), wanted);
  pe::support::write_file_atomically(folder / "stages.yml", pipeline, false);
  const auto run = pe::support::capture({(pe::test::build_root() / "stages/pe-pipeline").string(), "run",
                                         (folder / "stages.yml").string(), "--store", (folder / "store").string(),
                                         "--durability", "off", "--progress", "plain"});
  BOOST_REQUIRE_MESSAGE(run.status.code == 0, run.out << run.err);
  const Json now = results_of(folder / "store");
  BOOST_TEST(now.size() == 16u);  // thirteen stages; the trunk makes two snapshots, and two models are evaluated
  const fs::path file = golden / digests;
  if (std::getenv("PE_TEST_ACCEPT")) {
    pe::support::write_file_atomically(file, now.dump(1) + "\n", false);
    BOOST_ERROR("the golden digests were rewritten; run again without PE_TEST_ACCEPT");
  }
  const Json before = Json::parse(pe::support::read_file(file));
  for (const auto& [name, result] : now.items()) {
    if (!before.contains(name)) {
      BOOST_ERROR(name << " has no golden digests; accept with PE_TEST_ACCEPT=1");
      continue;
    }
    const std::string wrong = verdict(name, before.at(name), result);
    if (!wrong.empty()) BOOST_ERROR(wrong);
  }
  for (const auto& [name, result] : before.items()) BOOST_TEST(now.contains(name), name + " is made no more");
}

}  // namespace

BOOST_AUTO_TEST_SUITE(golden_runs)

BOOST_AUTO_TEST_CASE(bytes_move_only_with_the_result_version_of_their_stage) { compare_with("stages.json", 1); }

// Sums are split otherwise than in one thread, so these are other bytes; but always the same.
BOOST_AUTO_TEST_CASE(and_so_do_those_of_two_threads) { compare_with("stages-two-threads.json", 2); }

BOOST_AUTO_TEST_CASE(the_message_names_the_stage_and_what_to_do) {
  const Json before{{"stage", "train"}, {"version", 1}, {"key", "k"}, {"outputs", {{"model", "a"}, {"metrics", "m"}}}};
  Json now = before;
  BOOST_TEST(verdict("trunk@8", before, now) == "");
  now["outputs"]["model"] = "b";
  BOOST_TEST(
      verdict("trunk@8", before, now).find("the bytes of pe-train moved (model) and its result version did not") !=
      std::string::npos);
  now["version"] = 2;
  now["key"] = "l";
  BOOST_TEST(verdict("trunk@8", before, now).find("the result version of pe-train is 2") != std::string::npos);
  now["version"] = 1;
  BOOST_TEST(verdict("trunk@8", before, now).find("the recipe of pe-train differs") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

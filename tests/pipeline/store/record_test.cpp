#include "pipeline/store/record.h"

#include <fmt/format.h>
#include <boost/test/unit_test.hpp>

#include <string>
#include <string_view>

#include "support/error.h"
#include "support/hash.h"
#include "support/json_text.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT

namespace {

InputRecord input(int i) {
  InputRecord input;
  input.role = "in";
  input.digest = i % 7 ? support::sha256_hex("content " + std::to_string(i)) : "";
  input.producer = "toy[a=" + std::to_string(i) + "]@\"b\n\"";
  input.labels = {{"a", std::to_string(i)}, {"stage", "toy"}};
  if (i % 5 == 0) input.labels.clear();
  if (input.digest.empty()) input.missing = "failed";
  if (i == 3) input.digest = std::string(64, '0');
  return input;
}

Record record_of(int inputs) {
  Record record;
  record.key = {support::sha256_hex("key"), -1};
  record.plan_key = support::sha256_hex("plan");
  record.stage = "gather";
  record.version = 3;
  record.task = "gather";
  record.outputs.push_back({"out", "metrics", support::sha256_hex("o"), support::sha256_hex("c"), 12, false, true, {}});
  record.preimage = {{"inputs", {{"in", Json::array({{{"digest", support::sha256_hex("d")}}})}}}};
  record.config = {{"x", 1.5}, {"inputs", {1, 2}}};
  for (int i = 0; i < inputs; ++i) record.inputs.push_back(input(i));
  return record;
}

/// The text with the check of what it says.
std::string checked(Json json) {
  json.erase("check");
  const std::string text = support::json_text(json);
  json["check"] = fmt::format("{:08x}", support::crc32c(text.data(), text.size()));
  return json.dump(1);
}

/// A file as versions before 24 November 2026 wrote it, from one tree.
constexpr std::string_view kEarlierRecord = R"json({
 "check": "0ac25a57",
 "config": {
  "value": 0
 },
 "inputs": [
  {
   "digest": "73247d1e0ce7c5cea4ed50ecd63f8f9343b93ef587d584e0848fd2c4b1cb36ee",
   "labels": {
    "a": "x",
    "stage": "toy"
   },
   "producer": "toy[a=x]",
   "role": "in"
  },
  {
   "digest": "73247d1e0ce7c5cea4ed50ecd63f8f9343b93ef587d584e0848fd2c4b1cb36ee",
   "labels": {
    "a": "y",
    "stage": "toy"
   },
   "producer": "toy[a=y]",
   "role": "in"
  }
 ],
 "key": "966556cffd191a51e9c1c5155204d5f1379cfc4cd4f5877343f8efa1b96ad391",
 "occasion": {
  "attempts": 1,
  "build_id": "09ef6125a9b9b32fb4dfa99ba043386a42522169",
  "cpu_s": 0.000932,
  "cpus": 1,
  "ended": "2026-11-24T17:12:38.261Z",
  "executable": "/tmp/toys/stages/pe-plain-gather",
  "host": "vm",
  "peak_rss_bytes": 21397504,
  "pipeline": "toys",
  "program": "09ef6125a9b9b32fb4dfa99ba043386a42522169",
  "resumed": false,
  "run": "20261124-171238-207a8",
  "started": "2026-11-24T17:12:38Z",
  "wall_s": 0.024,
  "work": "/tmp/toys/store/work/f7789df3c6a4ebe4c1dcfc6ce201b41b14b85459b74362f4675ca92c6e9f9544/a01"
 },
 "outputs": [
  {
   "bytes": 4663,
   "content": "73247d1e0ce7c5cea4ed50ecd63f8f9343b93ef587d584e0848fd2c4b1cb36ee",
   "kind": "metrics",
   "object": "2120fab2ac99acfb79b549ae54c40a58b1829f465a7e2038c030a959ca9bc686",
   "role": "out"
  }
 ],
 "plan_key": "f7789df3c6a4ebe4c1dcfc6ce201b41b14b85459b74362f4675ca92c6e9f9544",
 "preimage": {
  "config": {
   "value": 0
  },
  "inputs": {
   "in": [
    {
     "digest": "73247d1e0ce7c5cea4ed50ecd63f8f9343b93ef587d584e0848fd2c4b1cb36ee"
    },
    {
     "digest": "73247d1e0ce7c5cea4ed50ecd63f8f9343b93ef587d584e0848fd2c4b1cb36ee"
    }
   ]
  },
  "stage": "plain-gather",
  "version": 1
 },
 "schema": "pe-record/1",
 "stage": "plain-gather",
 "status": "done",
 "task": "gather",
 "version": 1
}
)json";

}  // namespace

BOOST_AUTO_TEST_SUITE(record)

BOOST_AUTO_TEST_CASE(a_record_is_read_back_with_its_inputs_and_its_text_is_that_of_its_tree) {
  for (const int inputs : {0, 1, 50}) {
    const Record made = record_of(inputs);
    const std::string text = record_text(made);
    BOOST_TEST(text == Json::parse(text).dump(1) + "\n");
    const Record read = record_from_text(text, "here");
    BOOST_TEST(record_text(read) == text);
    BOOST_TEST(read.inputs.size() == static_cast<std::size_t>(inputs));
    BOOST_TEST((to_json(read) == Json::parse(text)));
    // Written by a version that laid it out otherwise.
    BOOST_TEST(record_text(record_from_text(Json::parse(text).dump(), "here")) == text);
    Json unchecked = Json::parse(text);
    unchecked.erase("check");
    BOOST_CHECK_THROW(record_from_text(unchecked.dump(1), "here"), support::ArtifactError);
  }
}

BOOST_AUTO_TEST_CASE(a_record_of_an_earlier_version_is_read_and_written_the_same) {
  const Record read = record_from_text(kEarlierRecord, "here");
  BOOST_TEST(read.task == "gather");
  BOOST_REQUIRE(read.inputs.size() == 2u);
  BOOST_TEST(read.inputs.begin()->producer == "toy[a=x]");
  BOOST_TEST(read.inputs.begin()->labels.at("a") == "x");
  BOOST_TEST(record_text(read) == kEarlierRecord);
}

BOOST_AUTO_TEST_CASE(what_is_no_list_of_inputs_is_refused_with_its_place) {
  const Json good = Json::parse(record_text(record_of(3)));
  const auto why = [&](const Json& inputs) -> std::string {
    Json json = good;
    json["inputs"] = inputs;
    try {
      record_from_text(checked(json), "here.json");
    } catch (const support::ArtifactError& error) {
      return error.diagnostics().front().message;
    }
    return "";
  };
  BOOST_TEST(why(good["inputs"]) == "");
  BOOST_TEST(why(Json::array({7})).find("here.json") == 0u);
  BOOST_TEST(why({{"role", "in"}}).find("here.json: 'inputs' is object") == 0u);
  BOOST_TEST(why(Json::array({{{"role", "in"}}})).find("'digest' is missing") != std::string::npos);
  // With a check, damage is reported as damage.
  Json json = good;
  json["inputs"][0].erase("digest");
  BOOST_CHECK_EXCEPTION(record_from_text(json.dump(), "here.json"), support::ArtifactError, [](const auto& error) {
    return error.diagnostics().front().message.find("its checksum does not fit") != std::string::npos;
  });
  BOOST_CHECK_THROW(record_from_text("{", "here.json"), support::ArtifactError);
  BOOST_CHECK_THROW(record_from_text("[]", "here.json"), support::ArtifactError);
}

BOOST_AUTO_TEST_SUITE_END()

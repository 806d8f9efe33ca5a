#include "pipeline/store/record.h"

#include <boost/test/unit_test.hpp>

#include <string>
#include <vector>

#include "support/error.h"
#include "support/hash.h"

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

/// The text without its check, as a record of a store of format 1 had it.
std::string unchecked(const Json& json) {
  Json rest = json;
  rest.erase("check");
  return rest.dump(1);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(record)

BOOST_AUTO_TEST_CASE(inputs_are_unpacked_in_order_as_they_were) {
  RecordInputs inputs;
  BOOST_TEST(inputs.empty());
  BOOST_TEST((inputs.begin() == inputs.end()));
  for (int i = 0; i < 100; ++i) inputs.push_back(input(i));
  BOOST_TEST(inputs.size() == 100u);
  int i = 0;
  for (const InputRecord& found : inputs) {
    const InputRecord expected = input(i++);
    BOOST_TEST(found.role == expected.role);
    BOOST_TEST(found.digest == expected.digest);
    BOOST_TEST(found.producer == expected.producer);
    BOOST_TEST((found.labels == expected.labels));
    BOOST_TEST(found.missing == expected.missing);
  }
  BOOST_TEST(i == 100);
}

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
    BOOST_TEST(record_text(record_from_text(unchecked(Json::parse(text)), "here")) == text);
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_list_of_inputs_is_refused_with_its_place) {
  const Json good = Json::parse(record_text(record_of(3)));
  const auto why = [&](const Json& inputs) -> std::string {
    Json json = good;
    json["inputs"] = inputs;
    try {
      record_from_text(unchecked(json), "here.json");
    } catch (const support::ArtifactError& error) {
      return error.diagnostics().front().message;
    }
    return "";
  };
  BOOST_TEST(why(good["inputs"]) == "");
  BOOST_TEST(why(Json::array({7})).find("here.json") == 0u);
  BOOST_TEST(why({{"role", "in"}}).find("here.json: 'inputs' is object") == 0u);
  BOOST_TEST(why(Json::array({{{"role", "in"}}})).find("'digest' is missing") != std::string::npos);
  // With a check, damage is told of as damage.
  Json json = good;
  json["inputs"][0].erase("digest");
  BOOST_CHECK_EXCEPTION(record_from_text(json.dump(), "here.json"), support::ArtifactError, [](const auto& error) {
    return error.diagnostics().front().message.find("its checksum does not fit") != std::string::npos;
  });
  BOOST_CHECK_THROW(record_from_text("{", "here.json"), support::ArtifactError);
  BOOST_CHECK_THROW(record_from_text("[]", "here.json"), support::ArtifactError);
}

BOOST_AUTO_TEST_SUITE_END()

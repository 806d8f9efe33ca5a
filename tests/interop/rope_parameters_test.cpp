// Rotary frequencies of Hugging Face configs. The encodings' own tests compare ours with transformers.
#include "interop/rope_parameters.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "support/error.h"

using namespace pe;
using namespace pe::interop;

namespace {

std::string refusal(const Json& config) {
  try {
    rope_frequencies(rope_parameters_of(config, "config.json"), 16, 2048, "config.json");
  } catch (const support::ArtifactError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(rope_parameters)

BOOST_AUTO_TEST_CASE(both_spellings_are_read) {
  const Json old = {{"rope_theta", 50000}, {"rope_scaling", {{"type", "linear"}, {"factor", 2.0}}}};
  const Json made = rope_parameters_of(old, "c");
  BOOST_TEST(made.at("rope_type") == "linear");
  BOOST_TEST(made.at("rope_theta") == 50000);
  BOOST_TEST(rope_parameters_of({{"rope_parameters", {{"rope_type", "default"}, {"rope_theta", 7.0}}}}, "c")
                 .at("rope_theta") == 7.0);
  // A rule that was added in the old place replaces what version 5 has written.
  Json both = old;
  both["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 7.0}};
  BOOST_TEST(rope_parameters_of(both, "c") == made);
  BOOST_TEST(rope_parameters_of(Json::object(), "c") == Json({{"rope_type", "default"}, {"rope_theta", 10000.0}}));
  BOOST_TEST(rope_frequencies(made, 4, 100, "c").theta[1] == std::pow(50000, -0.5) / 2,
             boost::test_tools::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(absent_values_are_those_of_transformers) {
  BOOST_TEST(rope_parameters_of({{"model_type", "smollm3"}}, "c").at("rope_theta") == 2e6);
  BOOST_TEST(rope_parameters_of({{"model_type", "qwen3"}}, "c").at("rope_theta") == 1e4);
  // The factor is the model's length over that of its first training, and the attention factor follows from it.
  Json parameters = {{"rope_type", "longrope"},
                     {"rope_theta", 10000.0},
                     {"original_max_position_embeddings", 512},
                     {"short_factor", Json::array({1, 2})},
                     {"long_factor", Json::array({1, 2})}};
  const auto factor = [&] {
    const Json encoding = encoding_of_rope(parameters, 2048, "c");
    const double made = rope_frequencies(parameters, 4, 2048, "c").attention_factor;
    BOOST_TEST(encoding.at("attention_factor") == made);
    return made;
  };
  const auto near = boost::test_tools::tolerance(1e-12);
  BOOST_TEST(factor() == std::sqrt(1 + std::log(4.0) / std::log(512.0)), near);
  parameters["factor"] = 8.0;
  BOOST_TEST(factor() == std::sqrt(1 + std::log(8.0) / std::log(512.0)), near);
  parameters["attention_factor"] = 1.5;
  BOOST_TEST(factor() == 1.5);
}

BOOST_AUTO_TEST_CASE(turns_of_yarn_that_are_0_are_absent) {
  Json yarn = {{"rope_type", "yarn"}, {"rope_theta", 1e4}, {"factor", 4.0}, {"original_max_position_embeddings", 512}};
  const auto usual = rope_frequencies(yarn, 16, 2048, "c").theta;
  yarn["beta_slow"] = 0.0;
  BOOST_TEST(rope_frequencies(yarn, 16, 2048, "c").theta == usual, boost::test_tools::per_element());
  BOOST_TEST(!encoding_of_rope(yarn, 2048, "c").contains("beta_slow"));
}

BOOST_AUTO_TEST_CASE(truncate_of_yarn_counts_as_in_transformers) {
  Json yarn = {{"rope_type", "yarn"}, {"rope_theta", 1e4}, {"factor", 4.0}, {"original_max_position_embeddings", 512}};
  const auto theta = [&](const Json& truncate) {
    yarn["truncate"] = truncate;
    return rope_frequencies(yarn, 32, 2048, "c").theta;
  };
  const auto absent = rope_frequencies(yarn, 32, 2048, "c").theta, off = theta(false);
  BOOST_TEST(absent == theta(true), boost::test_tools::per_element());
  BOOST_TEST((absent != off));
  BOOST_TEST(theta(nullptr) == off, boost::test_tools::per_element());
  BOOST_TEST(theta(0) == off, boost::test_tools::per_element());
  BOOST_TEST(has(refusal({{"rope_scaling", {{"rope_type", "yarn"}, {"factor", 4.0}, {"truncate", "yes"}}}}),
                 "truncate is \"yes\", expected true or false"));
}

BOOST_AUTO_TEST_CASE(what_would_be_read_otherwise_is_refused) {
  const auto scaling = [](Json parameters) { return Json{{"rope_scaling", std::move(parameters)}}; };
  BOOST_TEST(refusal(Json::object()) == "");
  BOOST_TEST(has(refusal(scaling({{"rope_type", "dynamic"}, {"factor", 2}})), "rope_type 'dynamic' is not supported"));
  BOOST_TEST(has(refusal(scaling({{"rope_type", "linear"}})), "factor is missing for rope_type 'linear'"));
  BOOST_TEST(has(refusal(scaling({{"rope_type", "linear"}, {"factor", "2"}})), "factor is \"2\", expected a number"));
  BOOST_TEST(has(refusal(scaling({{"rope_type", "linear"}, {"factor", 0}})), "factor is 0, expected more than 0"));
  BOOST_TEST(has(refusal(scaling({{"rope_type", 3}})), "rope_type is no text"));
  BOOST_TEST(has(refusal({{"rope_scaling", 3}}), "rope_scaling is no object"));
  BOOST_TEST(has(refusal({{"rope_theta", 0.5}}), "rope_theta is 0.5, expected more than 1"));
  BOOST_TEST(has(refusal({{"rope_interleaved", true}}), "rope_interleaved is true"));
  BOOST_TEST(has(refusal({{"partial_rotary_factor", 0.25}}), "partial_rotary_factor 0.25 is not supported"));
  Json lists = {{"rope_type", "longrope"}, {"short_factor", Json::array({1, 1})}, {"long_factor", Json::array({1, 2})}};
  BOOST_TEST(has(refusal(scaling(lists)), "depend on the text's length"));
  lists["long_factor"] = lists["short_factor"];
  BOOST_TEST(has(refusal(scaling(lists)), "short_factor holds 2 numbers, and a head has 8 pairs"));
}

BOOST_AUTO_TEST_CASE(the_plainest_type_is_taken_that_turns_alike) {
  const auto type_of = [](const RopeFrequencies& wanted, const Json& hint = nullptr) {
    const Json made = rope_parameters_for(wanted, 10000, 512, hint);
    BOOST_TEST(same_frequencies(wanted, rope_frequencies(made, 16, 512, "c")));
    return made.at("rope_type").get<std::string>();
  };
  const RopeFrequencies plain = rope_frequencies(rope_parameters_of(Json::object(), "c"), 16, 512, "c");
  RopeFrequencies slow = plain, odd = plain, none = plain;
  for (double& theta : slow.theta) theta /= 4;
  odd.theta[3] *= 1.01;
  odd.theta[7] = 0;
  odd.attention_factor = 1.25;
  none.theta.assign(8, 0);
  BOOST_TEST(type_of(plain) == "default");
  BOOST_TEST(type_of(slow) == "linear");
  BOOST_TEST(type_of(odd) == "longrope");
  BOOST_TEST(type_of(none) == "longrope");
  const Json yarn = {
      {"rope_type", "yarn"}, {"rope_theta", 10000.0}, {"factor", 4.0}, {"original_max_position_embeddings", 128}};
  BOOST_TEST(type_of(rope_frequencies(yarn, 16, 512, "c"), yarn) == "yarn");
  BOOST_TEST(type_of(odd, yarn) == "longrope");  // a hint that does not fit
}

BOOST_AUTO_TEST_SUITE_END()

// Our frequencies and attention factors compared with the transformers package, where a Python on this machine has it.
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <fstream>

#include "spot_values.h"
#include "support/installed.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

struct Case {
  Json theirs, ours;
};

/// Each with the base, head width, training length and current length for both.
const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> made;
    const auto add = [&](double base, int width, int train_length, int length, Json theirs, Json ours) {
      theirs.update({{"base", base}, {"width", width}, {"train_length", train_length}, {"length", length}});
      ours["base"] = base;
      made.push_back({theirs, ours});
    };
    add(10000, 64, 512, 512, {{"rope_type", "linear"}, {"factor", 8.0}}, {{"kind", "pi"}, {"factor", 8}});
    for (const int length : {400, 513, 4096}) {
      add(10000, 64, 512, length, {{"rope_type", "dynamic"}, {"factor", 8.0}}, {{"kind", "dyn_ntk"}, {"factor", 8}});
    }
    add(10000, 64, 512, 512, {{"rope_type", "yarn"}, {"factor", 8.0}}, {{"kind", "yarn"}, {"factor", 8}});
    add(500000, 128, 8192, 512,
        {{"rope_type", "yarn"}, {"factor", 4.0}, {"beta_fast", 64}, {"beta_slow", 2}, {"truncate", false}},
        {{"kind", "yarn"}, {"factor", 4}, {"beta_fast", 64}, {"beta_slow", 2}, {"truncate", false}});
    add(10000, 64, 4096, 512, {{"rope_type", "yarn"}, {"factor", 40.0}, {"mscale", 1.0}, {"mscale_all_dim", 0.707}},
        {{"kind", "yarn"}, {"factor", 40}, {"mscale", 1}, {"mscale_all_dim", 0.707}});
    add(500000, 128, 8192, 512,
        {{"rope_type", "llama3"}, {"factor", 8.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}},
        {{"kind", "llama3"}, {"factor", 8}});
    const Json longer = {1, 2, 3, 4, 5, 6, 7, 8}, shorter = {1, 1, 1, 1.5, 1.5, 2, 2, 2};
    for (const int length : {512, 4096}) {
      add(10000, 16, 512, length,
          {{"rope_type", "longrope"}, {"factor", 8.0}, {"long_factor", longer}, {"short_factor", shorter}},
          {{"kind", "longrope"}, {"factor", 8}, {"long_factors", longer}, {"short_factors", shorter}});
    }
    return made;
  }();
  return all;
}

void compare(const Json& results) {
  BOOST_TEST_REQUIRE(results.size() == cases().size());
  for (std::size_t n = 0; n < cases().size(); ++n) {
    const auto& [theirs, ours] = cases()[n];
    Score s = score(ours.dump(), theirs.at("width"), theirs.at("train_length"));
    s.pe_len = theirs.at("length").get<std::int64_t>();
    const auto expected = results[n].at("inverse_frequencies").get<std::vector<double>>();
    const std::vector<double> found = frequencies(s);
    BOOST_TEST_REQUIRE(found.size() == expected.size(), theirs);
    // Theirs are float32.
    for (std::size_t i = 0; i < found.size(); ++i) {
      BOOST_TEST(std::abs(found[i] - expected[i]) <= 1e-6 * found[i], theirs << ", pair " << i);
    }
    check_near(attention_factor(s), results[n].at("attention_factor").get<double>(), 1e-6);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(transformers_oracle)

BOOST_AUTO_TEST_CASE(frequencies_are_those_that_the_package_gave_when_they_were_recorded) {
  std::ifstream file(source_root() / "tests/encodings/oracles/transformers_frequencies.json");
  compare(Json::parse(file).at("results"));
}

BOOST_AUTO_TEST_CASE(frequencies_are_those_that_the_package_gives_here,
                     *boost::unit_test::precondition(PythonHas{"torch, transformers", chosen_python()})) {
  const TempFolder folder;
  Json input = Json::array();
  for (const Case& c : cases()) input.push_back(c.theirs);
  std::ofstream(folder / "cases.json") << input;
  const std::string command = chosen_python() + " \"" +
                              (source_root() / "tests/encodings/oracles/transformers_frequencies.py").string() +
                              "\" < \"" + (folder / "cases.json").string() + "\" > \"" +
                              (folder / "results.json").string() + "\" 2> \"" + (folder / "log").string() + "\"";
  const int status = std::system(command.c_str());
  std::ifstream log(folder / "log");
  BOOST_TEST_REQUIRE(status == 0, std::string(std::istreambuf_iterator<char>(log), {}));
  std::ifstream results(folder / "results.json");
  compare(Json::parse(results).at("results"));
}

BOOST_AUTO_TEST_SUITE_END()

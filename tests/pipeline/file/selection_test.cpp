// Selections: labels, axes, ancestors, descendants, and the message when nothing matches.
#include "pipeline/file/selection.h"

#include <boost/test/unit_test.hpp>

#include "pipeline/grid_fixture.h"
#include "support/error.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT

namespace {

struct Grid {
  static const Graph& graph() {
    static const test::GridFolder folder;
    static const Graph graph = folder.expand(test::kGrid);
    return graph;
  }
  static std::size_t count(const std::vector<std::string>& selectors) {
    const auto selected = select(graph(), selectors);
    return static_cast<std::size_t>(std::count(selected.begin(), selected.end(), true));
  }
  static std::string refusal(const std::string& selector) {
    try {
      select(graph(), {selector});
    } catch (const support::ConfigError& error) {
      return error.what();
    }
    return {};
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(selection, Grid)

BOOST_AUTO_TEST_CASE(labels_and_axes_select) {
  BOOST_TEST(count({}) == 900u);
  BOOST_TEST(count({"*"}) == 900u);
  BOOST_TEST(count({"trunk"}) == 45u);
  BOOST_TEST(count({"trunk[seed=42]"}) == 15u);
  BOOST_TEST(count({"trunk[seed=*]"}) == 45u);
  BOOST_TEST(count({"trunk[*]"}) == 45u);  // as `plan` writes them
  BOOST_TEST(count({"trunk[seed=42,seed=43]"}) == 30u);
  BOOST_TEST(count({"trunk[ seed=42 , size=tiny ]"}) == 8u);
  BOOST_TEST(count({"evaluate[suite=needle]"}) == 213u);
  BOOST_TEST(count({"evaluate[from=droppe]"}) == 234u);
  BOOST_TEST(count({"[branch=b25]"}) == 45u + 135u);
  BOOST_TEST(count({"*[seed=*]"}) == 897u);
  BOOST_TEST(count({"tr*"}) == 45u);
  BOOST_TEST(count({"t*k*"}) == count({"trunk", "tokenize"}));
  BOOST_TEST(count({"d*[size=t*y,seed=4*]"}) == count({"decay[size=tiny]", "droppe[size=tiny]"}));
  BOOST_TEST(count({"trunk[encoding=*al*]"}) ==
             count({"trunk[encoding=alibi]", "trunk[encoding=decimal]", "trunk[encoding=sinusoidal]"}));
}

BOOST_AUTO_TEST_CASE(several_are_a_union) {
  BOOST_TEST(count({"trunk[seed=42]", "trunk[seed=43]", "trunk[seed=42]", "fetch"}) == 31u);
}

BOOST_AUTO_TEST_CASE(plus_before_takes_ancestors_and_plus_after_descendants) {
  BOOST_TEST(count({"+tokenize"}) == 2u);
  BOOST_TEST(count({"+decay[encoding=rope,size=tiny,seed=42,branch=b25]"}) == 4u);
  BOOST_TEST(count({"fetch+"}) == 900u);
  // One trunk, its three decays and two drops, three suites of each, and the report.
  BOOST_TEST(count({"trunk[encoding=rope,size=tiny,seed=42]+"}) == 1u + 5u + 15u + 1u);
  BOOST_TEST(count({"+trunk[encoding=rope,size=tiny,seed=42]+"}) == 24u);
  BOOST_TEST(count({"+report"}) == 900u);
}

BOOST_AUTO_TEST_CASE(a_selection_of_nothing_says_what_there_is) {
  BOOST_TEST(refusal("trnk") == "selection 'trnk': no stage 'trnk'\n  did you mean 'trunk'?");
  BOOST_TEST(refusal("tru*x") ==
             "selection 'tru*x': no stage 'tru*x'\n"
             "  expected one of fetch, tokenize, trunk, decay, droppe, evaluate, report");
  BOOST_TEST(refusal("bench") ==
             "selection 'bench': no stage 'bench'\n"
             "  expected one of fetch, tokenize, trunk, decay, droppe, evaluate, report");
  BOOST_TEST(refusal("trunk[branch=b25]") ==
             "selection 'trunk[branch=b25]': stage 'trunk' has no axis 'branch'\n"
             "  expected one of encoding, seed, size");
  BOOST_TEST(refusal("fetch[seed=42]") ==
             "selection 'fetch[seed=42]': stage 'fetch' has no axis 'seed'\n  it has one instance");
  BOOST_TEST(refusal("trunk[seed=45]") ==
             "selection 'trunk[seed=45]': axis 'seed' of stage 'trunk' has no label '45'\n"
             "  did you mean '42'?");
  BOOST_TEST(refusal("[encoding=ropes]").find("did you mean 'rope'?") != std::string::npos);
  BOOST_TEST(refusal("trunk[encoding=learned,size=small]").find("nothing matches") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_malformed_selection_is_refused) {
  BOOST_TEST(refusal("trunk[seed").find("']' is missing at the end") != std::string::npos);
  BOOST_TEST(refusal("trunk[seed]").find("expected axis=label, found 'seed'") != std::string::npos);
  BOOST_TEST(refusal("").find("an empty selection") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

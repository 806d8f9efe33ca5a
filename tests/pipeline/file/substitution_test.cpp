// $(…): labels, values, vars, typed where they are alone, rendered inside a longer text.
#include "pipeline/file/substitution.h"

#include <boost/test/unit_test.hpp>

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using support::Node;

namespace {

struct Fixture {
  support::Node vars =
      support::parse_yaml("tokens: {tiny: 2.4e9, small: 6.6e9}\ndeep: {tiny: {s1: 7}}\nlist: [1, 2]\n", "vars");
  AxisValue size{"tiny", support::parse_yaml("{width: 64, kind: small}", "axis")};
  AxisValue seed{"s1", support::parse_yaml("42", "axis")};
  std::vector<Binding> bindings{{"size", &size}, {"seed", &seed}};
  std::vector<std::string> axes{"size", "seed", "branch"};
  Scope scope{&bindings, &vars, &axes, "stage 'a'"};

  Node value(const std::string& yaml) {
    support::Diagnostics diagnostics;
    const auto node = substitute(support::parse_yaml(yaml, "a.yml"), scope, diagnostics);
    diagnostics.throw_if_any();
    return *node;
  }
  std::string mistake(const std::string& yaml) {
    support::Diagnostics diagnostics;
    BOOST_TEST(!substitute(support::parse_yaml(yaml, "a.yml"), scope, diagnostics).has_value());
    return diagnostics.empty() ? "" : diagnostics.items().front().message;
  }
};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(substitution, Fixture)

BOOST_AUTO_TEST_CASE(an_axis_gives_its_label_and_its_value) {
  BOOST_TEST(value("$(seed)").text == "s1");
  BOOST_TEST(value("$(seed.value)").text == "42");
  BOOST_TEST(value("$(seed.value)").plain);
  BOOST_TEST(value("$(size.value)").is_map());
  BOOST_TEST(value("$(size.value.width)").text == "64");
}

BOOST_AUTO_TEST_CASE(a_var_is_indexed_by_keys_and_by_labels) {
  BOOST_TEST(value("$(tokens.small)").text == "6.6e9");
  BOOST_TEST(value("$(tokens.$size)").text == "2.4e9");
  BOOST_TEST(value("$(deep.$size.$seed)").text == "7");
  BOOST_TEST(value("$(list)").is_list());
}

BOOST_AUTO_TEST_CASE(inside_a_text_values_are_rendered) {
  BOOST_TEST(value("configs/$(size)/$(seed).yml").text == "configs/tiny/s1.yml");
  BOOST_TEST(value("[a, $(seed)-$(tokens.$size)]").items[1].text == "s1-2.4e9");
  BOOST_TEST(value("$$(seed)").text == "$(seed)");
  BOOST_TEST(value("$5 and $(seed)").text == "$5 and s1");
  BOOST_TEST(mistake("x$(size.value)") == "$(size.value) is a map; inside a longer text it must be a scalar");
}

BOOST_AUTO_TEST_CASE(nothing_is_substituted_twice) {
  seed.label = "$(size)";
  BOOST_TEST(value("$(seed)").text == "$(size)");
}

BOOST_AUTO_TEST_CASE(mistakes_name_what_there_is) {
  BOOST_TEST(mistake("$(sed)") == "unknown name 'sed' in $(sed)");
  BOOST_TEST(mistake("$(branch)") == "stage 'a' has no axis 'branch' in $(branch)");
  BOOST_TEST(mistake("$(tokens.$branch)") == "stage 'a' has no axis 'branch' in $(tokens.$branch)");
  BOOST_TEST(mistake("$(tokens.$sized)") == "unknown axis 'sized' in $(tokens.$sized)");
  BOOST_TEST(mistake("$(seed.valu)") == "an axis has no 'valu' in $(seed.valu)");
  BOOST_TEST(mistake("$(seed.value.x)") == "'seed.value' is '42' and has no 'x' in $(seed.value.x)");
  BOOST_TEST(mistake("$(tokens.huge)") == "'tokens' has no 'huge' in $(tokens.huge)");
  BOOST_TEST(mistake("$()") == "a name is missing in $()");
  BOOST_TEST(mistake("'$(seed'") == "'$(' without ')' in '$(seed'");
}

BOOST_AUTO_TEST_CASE(names_are_collected_for_the_check_of_unused_ones) {
  std::set<std::string> names;
  collect_names(support::parse_yaml("{a: $(tokens.$size), b: [$(seed)-$$(no)]}", "a.yml"), names);
  BOOST_TEST((names == std::set<std::string>{"tokens", "size", "seed"}));
}

BOOST_AUTO_TEST_SUITE_END()

// Encodings written as formulas: they equal their source files, where one exists, and mistakes are reported with their
// place.
#include <ATen/ops/tensor.h>

#include <boost/test/unit_test.hpp>

#include "encoding_docs/battery/passes.h"
#include "encodings/bias/expression.h"
#include "fixture.h"
#include "support/error.h"

using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

Json formula(const std::string& bias, const std::string& frequencies = "",
             const std::vector<std::string>& parameters = {}) {
  return {{"kind", "formula"}, {"bias", bias}, {"frequencies", frequencies}, {"parameters", parameters}};
}

/// Output of attention from a position on.
Tensor output(const Json& config, std::int64_t first = 0, const Shape& shape = small_shape(4, 2)) {
  const auto encoding = make_encoding(config, shape);
  Span span = whole(2, 9);
  span.first_position = first;
  at::NoGradGuard no_grad;
  return Toy(shape, 2, 9).run(*encoding, span);
}

double number(const std::string& text, const FormulaNames& names = {},
              const std::map<std::string, Tensor>& values = {}) {
  return Expression(text, names, "test").evaluate(values).item<double>();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(formula_encoding)

BOOST_AUTO_TEST_CASE(expressions_have_the_values_of_arithmetic) {
  const std::vector<std::pair<const char*, double>> cases = {{"1 + 2*3", 7},
                                                             {"(1 + 2)*3", 9},
                                                             {"2^3^2", 512},
                                                             {"-2^2", -4},
                                                             {"2^-1", 0.5},
                                                             {"7 - 2 - 1", 4},
                                                             {"8/4/2", 1},
                                                             {"--3", 3},
                                                             {"1e-3*1000", 1},
                                                             {".5", 0.5},
                                                             {"pi", M_PI},
                                                             {"log(e)", 1},
                                                             {"log1p(0)", 0},
                                                             {"expm1(0)", 0},
                                                             {"sqrt(9)", 3},
                                                             {"abs(-4)", 4},
                                                             {"sin(pi/2)", 1},
                                                             {"cos(0)", 1},
                                                             {"tanh(0)", 0},
                                                             {"sigmoid(0)", 0.5},
                                                             {"softplus(0)", M_LN2},
                                                             {"softplus(1000)", 1000},
                                                             {"relu(-2) + relu(3)", 3},
                                                             {"floor(-1.5)", -2},
                                                             {"step(0) + step(-1)", 1},
                                                             {"min(2, 3)", 2},
                                                             {"max(2, 1 + 4)", 5}};
  for (const auto& [text, expected] : cases)
    BOOST_TEST(std::abs(number(text) - expected) < 1e-12, text << " is " << number(text));
  const FormulaNames names{{"d", {}}, {"a", {"l", "h"}}};
  const std::map<std::string, Tensor> values{{"d", numbers({3}, {})}, {"a", numbers({0.5}, {})}};
  BOOST_TEST(std::abs(number("-a[l,h]*d", names, values) + 1.5) < 1e-12);
  BOOST_TEST(std::abs(number("-a[ l , h ] * d", names, values) + 1.5) < 1e-12);
}

BOOST_AUTO_TEST_CASE(a_formula_gives_what_the_encoding_of_that_formula_gives) {
  BOOST_TEST(largest_difference(output(formula("-2^(-8*(h+1)/H)*d")), output("alibi")) < 1e-12);
  // As a bias of each pair, too, and from a position on.
  BOOST_TEST(largest_difference(output(formula("-2^(-8*(h+1)/H)*(i - j)"), 1000), output("alibi", 1000)) < 1e-9);
  for (const std::int64_t first : {0, 1000}) {
    BOOST_TEST(largest_difference(output(formula("", "10000^(-c/P)"), first), output("rope", first)) < 1e-10);
  }
  BOOST_TEST(largest_difference(output(formula("-2^(-8*(h+1)/H)*d", "10000^(-c/P)")),
                                output(Json::parse(R"({"stack": ["rope", "alibi"]})"))) < 1e-11);
  BOOST_TEST(largest_difference(output("formula"), output(formula("-exp(a[h])*log1p(d)", "", {"a[h] = 0"}))) == 0);
}

BOOST_AUTO_TEST_CASE(parameters_start_where_they_say_and_have_the_shapes_of_their_indices) {
  const auto encoding = make_encoding(
      formula("b*a[l,h]*d", "exp(f[g,c])", {"a[l,h] = l + h/4", "b = -1/L", "f[g,c] = -c*log(10000)/P + 0*g"}),
      small_shape(4, 2));
  std::vector<std::string> names;
  for (const Parameter& parameter : encoding->parameters()) names.push_back(parameter.name);
  BOOST_TEST(names == (std::vector<std::string>{"formula.0.a", "formula.1.a", "formula.b", "formula.f"}),
             boost::test_tools::per_element());
  const auto& parameters = encoding->parameters();
  BOOST_TEST(largest_difference(parameters[1].value, numbers({1, 1.25, 1.5, 1.75}, {4})) < 1e-12);
  BOOST_TEST(std::abs(value(parameters[2].value) + 1.0 / 16) < 1e-12);
  BOOST_TEST((parameters[3].value.sizes() == at::IntArrayRef({2, 2})));
  for (const Parameter& parameter : parameters) BOOST_TEST(!parameter.weight_decay);
  const Facts facts = encoding->facts();
  BOOST_TEST(facts.rotates);
  BOOST_TEST(facts.learned);
  BOOST_TEST((facts.shift_invariant == ShiftInvariance::kAlways));
  BOOST_TEST(
      (make_encoding(formula("sin(i)*cos(j)"), small_shape())->facts().shift_invariant == ShiftInvariance::kNever));
}

BOOST_AUTO_TEST_CASE(mistakes_are_told_with_their_column_and_the_nearest_word) {
  check_says(refusal_of(formula("-exp(a[h])*log1(d)", "", {"a[h] = 0"})),
             {"bias:1:12", "unknown name 'log1'", "did you mean 'log1p'?", "-exp(a[h])*log1(d)"});
  check_says(refusal_of(formula("lgo(1 + d)")), {"bias:1:1", "unknown name 'lgo'", "did you mean 'log'?"});
  check_says(refusal_of(formula("-a*d", "", {"a[h] = 0"})), {"bias:1:2", "'a' has other indices", "write a[h]"});
  check_says(refusal_of(formula("-d*(1 + 2", "", {})), {"bias:1:10", "expected ')'", "the end"});
  check_says(refusal_of(formula("d d")), {"bias:1:3", "expected an operator or the end, found 'd'"});
  check_says(refusal_of(formula("min(d)")), {"bias:1:1", "min takes 2 arguments, found 1"});
  check_says(refusal_of(formula("d +")), {"bias:1:4", "found the end"});
  check_says(refusal_of(formula("$d")), {"bias:1:1", "found '$'"});
  check_says(refusal_of(formula("", "10000^(-d/P)")), {"frequencies:1:9", "unknown name 'd'"});
  check_says(refusal_of(formula(std::string(1001, '1'))), {"1001 characters", "at most 1000"});
  check_says(refusal_of(formula(std::string(400, '(') + "d" + std::string(400, ')'))), {"nested more than 64 deep"});
  check_says(refusal_of(formula(std::string(400, '-') + "d")), {"nested more than 64 deep"});
  check_says(refusal_of(formula("1e999*d")), {"bias:1:1", "no number"});
  check_says(refusal_of(formula("log(d)")), {"bias is -inf at d = 0, h = 0", "log1p(d)"});
  check_says(refusal_of(formula("", "1/c")), {"frequencies is inf at c = 0", "1/(1 + c)"});
  check_says(refusal_of(formula("1/d")), {"bias is inf at d = 0, h = 0", "1/max(d,1)"});
  check_says(refusal_of(formula("exp(1000*(1 + d))")), {"bias is inf at d = 0, h = 0"});
  check_says(refusal_of(formula("-d/i")), {"nan at i = 0, j = 0, h = 0", "1/max(i,1)"});
  check_says(refusal_of(formula("1/(i - j)")), {"bias is inf at i = 0, j = 0"});
  check_says(refusal_of(formula("d/(1 - l)")), {"at d = 0, h = 0, l = 1"});
  BOOST_TEST(refusal_of(formula("-log1p(d)/(1 + j)")) == "accepted");
  for (const char* text : {"1/d", "exp(1000*(1 + d))"})
    BOOST_TEST(refusal_of(formula(text)).find("log") == std::string::npos, text);
  Shape odd = small_shape();
  odd.head_width = 5;
  check_says(refusal_of(formula("", "1"), odd), {"head width 5", "not even"});
}

BOOST_AUTO_TEST_CASE(parameters_that_make_no_sense_are_refused) {
  check_says(refusal_of(formula("-d", "", {"a = 0"})), {"parameter 'a' is in no formula"});
  check_says(refusal_of(formula("-a*d", "", {"a"})), {"parameter 'a': where does it start?", "such as a = 0"});
  check_says(refusal_of(formula("-a*d", "", {"a = 0", "a = 1"})), {"it is in the list twice"});
  check_says(refusal_of(formula("-d*d", "", {"d = 0"})), {"'d' has a meaning already"});
  check_says(refusal_of(formula("-exp*d", "", {"exp = 0"})), {"'exp' is no name"});
  check_says(refusal_of(formula("-a[q]*d", "", {"a[q] = 0"})), {"unknown index 'q'", "indices are h (head)"});
  check_says(refusal_of(formula("-a[h]*d", "", {"a[h] = hh"})),
             {"start of a:1:1", "unknown name 'hh'", "did you mean 'h'?"});
  check_says(refusal_of(formula("", "", {"a = 0"})), {"`parameters` are in no formula"});
  // Frequencies count key/value heads, a bias counts heads.
  check_says(refusal_of(formula("", "exp(a[h])", {"a[h] = 0"})), {"frequencies:1:5", "unknown name 'a'"});
}

BOOST_AUTO_TEST_SUITE_END()

// reports/golden/encodings.json equals the output of the present code.
#include <boost/test/unit_test.hpp>

#include <cmath>

#include "encoding_docs/golden.h"
#include "support/files.h"
#include "support/test_data.h"

using namespace pe;

namespace {

/// Equal but for the last digits of numbers: mathematical functions differ from machine to machine.
bool same(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    const double x = a.get<double>(), y = b.get<double>();
    return std::abs(x - y) <= 1e-11 * std::max({1.0, std::abs(x), std::abs(y)});
  }
  if (a.type() != b.type()) return false;
  if (a.is_array()) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (!same(a[i], b[i])) return false;
    }
    return true;
  }
  if (a.is_object()) {
    if (a.size() != b.size()) return false;
    for (const auto& [key, value] : a.items()) {
      if (!b.contains(key) || !same(value, b[key])) return false;
    }
    return true;
  }
  return a == b;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(golden)

BOOST_AUTO_TEST_CASE(the_published_vectors_are_what_the_code_computes) {
  const Json published = Json::parse(support::read_file(test::source_root() / "reports/golden/encodings.json"));
  BOOST_TEST(published.at("schema") == "pe-golden/1");
  std::map<std::string, Json> cases;
  for (const Json& one : published.at("cases")) cases[one.at("name").get<std::string>()] = one;
  for (const encodings::EncodingEntry& entry : encodings::encodings()) {
    BOOST_TEST_CONTEXT("to bring them up to date: pe-encodings golden --out reports/golden/encodings.json") {
      BOOST_TEST(cases.count(entry.name) == 1, entry.name << " is not in reports/golden/encodings.json");
      if (cases.count(entry.name))
        BOOST_TEST(same(cases[entry.name], encoding_docs::golden_case(entry)), entry.name << " has changed");
    }
    cases.erase(entry.name);
  }
  for (const auto& [name, one] : cases) BOOST_TEST(false, name << " is published and no longer registered");
}

BOOST_AUTO_TEST_CASE(weights_are_those_of_the_logits_where_softmax_makes_them) {
  const Json one = encoding_docs::golden_case(*encodings::find_encoding("alibi"));
  const Json& row = one.at("logits").at(1).back();
  double sum = 0;
  for (const Json& logit : row) sum += std::exp(logit.get<double>());
  for (std::size_t j = 0; j < row.size(); ++j) {
    BOOST_TEST(std::abs(std::exp(row[j].get<double>()) / sum - one.at("weights").at(1).back().at(j).get<double>()) <
               1e-14);
  }
  // From the formulas of q and k, by hand: head 1 of 4 has the slope 2^-4, the last query is token 6.
  double product = 0;
  for (int c = 0; c < 8; ++c) {
    product += std::sin(0.1 * ((1 * 7 + 6) * 8 + c + 1)) * std::sin(0.2 * ((1 * 7 + 2) * 8 + c + 1) + 1.5);
  }
  BOOST_TEST(std::abs(product / std::sqrt(8.0) - 4.0 / 16 - row.at(2).get<double>()) < 1e-13);
}

BOOST_AUTO_TEST_SUITE_END()

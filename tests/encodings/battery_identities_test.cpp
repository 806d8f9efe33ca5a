// Encodings that begin as another, or become another where their parameters say so.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "fixture.h"

namespace data = boost::unit_test::data;
using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

struct Identity {
  const char *encoding, *base;
  /// short names of parameters and their values; empty: the initial values
  std::vector<std::pair<std::string, double>> set;
  double allowed = 1e-12;
};

std::ostream& operator<<(std::ostream& out, const Identity& identity) {
  return out << identity.encoding << " is " << identity.base;
}

Json parse(std::string text) {
  std::replace(text.begin(), text.end(), '\'', '"');
  return Json::parse(text);
}

const Identity kIdentities[] = {
    {"'cope'", "'none'", {}},
    {"{'stack': ['rope', 'cope']}", "'rope'", {}},
    {"'tape'", "'rope'", {}},
    {"'head_scale'", "'none'", {}},
    {"'uniform_scale'", "'none'", {}},
    {"{'stack': ['rope', 'head_scale']}", "'rope'", {}},
    {"'dape'", "'kerple_log'", {{"map2_w", 0}, {"map2_b", 0}}},
    {"'dape_v2'", "'kerple_log'", {{"map2_w", 0}, {"map2_b", 0}}},
    {"{'kind': 'dape_v2', 'bias': 'alibi'}", "'alibi'", {{"map2_w", 0}, {"map2_b", 0}}},
    {"{'kind': 'dape', 'bias': 'none'}", "'none'", {{"map2_w", 0}, {"map2_b", 0}}},
    {"'fox'", "'none'", {{"weight", 0}, {"bias", 60}}},
    {"'wall'", "'none'", {{"weight", 0}, {"bias", 60}}},
    {"'cable'", "'none'", {{"step", 0}}},
    {"'cable_nw'", "'none'", {{"step", 0}}},
    {"'k_cable'", "'none'", {{"step", 0}}},
    {"'path'", "'none'", {{"beta_weight", 0}, {"beta_bias", -60}}},
    {"'path_fox'", "'none'", {{"beta_weight", 0}, {"beta_bias", -60}, {"gate_weight", 0}, {"gate_bias", 60}}},
    {"'sink_logit'", "'none'", {{"sink", -800}}},
    {"'sink_logit'", "'sink_off_by_one'", {}},
    {"'sink_bos'", "'none'", {}},
    {"{'kind': 'sink_bos', 'window': 1000}", "'none'", {}},
    {"{'kind': 'sink_bos', 'window': 1, 'keep': 1000}", "'none'", {}},
    {"{'kind': 'sink_kv', 'value': 'learned'}", "'sink_kv'", {}},
    {"'sink_kv'", "'sink_off_by_one'", {{"key", 0}}},
    {"'repo'", "'none'", {{"position", 0}}},
    {"'cope_guide'", "'none'", {{"query", 0}}},
    {"'bam'", "'alibi'", {}, 1e-5},
    {"{'kind': 'kerple_power'}", "'none'", {{"a", 0}}},
    {"'asentmax_scale'", "'none'", {{"beta", 0}}},
    {"{'stack': ['nape', {'kind': 'ssmax', 'initial': 'one'}]}",
     "{'stack': [{'kind': 'ssmax', 'initial': 'one'}, 'nape']}",
     {}},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(battery_identities)

BOOST_DATA_TEST_CASE(an_encoding_is_what_it_begins_as, data::make(kIdentities), identity) {
  const auto encoding = make_encoding(parse(identity.encoding), small_shape()),
             base = make_encoding(parse(identity.base), small_shape());
  {
    at::NoGradGuard no_grad;
    for (const auto& [name, filled] : identity.set) {
      bool found = false;
      for (const Parameter& p : encoding->parameters()) {
        if (p.short_name != name) continue;
        Tensor(p.value).fill_(filled);
        found = true;
      }
      BOOST_TEST(found, "no parameter " << name);
    }
  }
  const Toy toy(small_shape(), 2, 12);
  at::NoGradGuard no_grad;
  for (const AttendOptions& options : {AttendOptions{.route = Route::kReference}, AttendOptions{}}) {
    BOOST_TEST(largest_difference(toy.run(*encoding, Span::whole(2, 12), options),
                                  toy.run(*base, Span::whole(2, 12), options)) <= identity.allowed);
  }
}

// A gate of GRAPE-A that is 1 everywhere leaves ALiBi: without content, softplus(0) times ω makes it so.
BOOST_AUTO_TEST_CASE(grape_a_without_content_is_alibi) {
  for (const char* form : {"k", "q", "qk"}) {
    const auto grape = make_encoding(Json{{"kind", "grape_a"}, {"form", form}}, small_shape());
    const auto alibi = make_encoding("alibi", small_shape());
    at::NoGradGuard no_grad;
    const double gates = std::string(form) == "qk" ? 2 * std::log(2.0) : std::log(2.0);
    for (const Parameter& p : grape->parameters()) {
      if (p.short_name == "omega") Tensor(p.value).fill_(std::log(std::expm1(1 / gates)));
    }
    Toy toy(small_shape(), 2, 12);
    toy.q = at::zeros_like(toy.q);
    toy.k = at::zeros_like(toy.k);
    toy.wq.zero_();
    toy.wk.zero_();
    BOOST_TEST(largest_difference(toy.run(*grape, Span::whole(2, 12)), toy.run(*alibi, Span::whole(2, 12))) <= 1e-12);
  }
}

// A sink makes a constant of a row felt, so a bias in the same stack must be whole: the channels of ALiBi alone would
// not be.
BOOST_AUTO_TEST_CASE(a_sink_feels_the_constant_of_a_row) {
  const auto both = make_encoding(parse("{'stack': ['alibi', 'sink_off_by_one']}"), small_shape());
  const Toy toy(small_shape(), 1, 12);
  AttentionMatrices matrices;
  const Tensor out = toy.run(*both, Span::whole(1, 12), {.matrices = &matrices});
  const Tensor logits = matrices.logits;
  const Tensor total = at::exp(logits).sum(-1);
  BOOST_TEST(largest_difference(matrices.weights.sum(-1), total / (1 + total)) <= 1e-12);
  BOOST_TEST(largest_difference(out, toy.run(*both, Span::whole(1, 12))) <= 1e-12);
}

// The selection of a text is made in one pass where no other member changes the logits, and row after row with another
// bias.
BOOST_AUTO_TEST_CASE(selection_at_once_is_selection_row_after_row) {
  const auto at_once = make_encoding("selective", small_shape());
  const auto by_row = make_encoding(parse("{'stack': ['selective', 't5']}"), small_shape());
  {
    at::NoGradGuard no_grad;
    for (const Parameter& table : by_row->parameters()) Tensor(table.value).zero_();
  }
  Span span = Span::whole(2, 12);
  for (const bool packed : {false, true}) {
    if (packed) span.doc_start = at::tensor({0, 0, 0, 0, 0, 5, 5, 5, 5, 5, 5, 5}, at::kLong);
    BOOST_TEST(at_once->traits(span).rewrites_logits == false);
    BOOST_TEST(by_row->traits(span).rewrites_logits == true);
    const Toy toy(small_shape(), 2, 12);
    const ToyGradients expected = evaluate(*by_row, toy, span, {}), found = evaluate(*at_once, toy, span, {});
    BOOST_TEST(largest_difference(found.out, expected.out) <= 1e-12);
    for (std::size_t i = 0; i < 4; ++i)
      BOOST_TEST(largest_difference(found.gradients[i], expected.gradients[i]) <= 1e-11);
  }
}

BOOST_AUTO_TEST_CASE(passes_that_lack_earlier_queries_are_refused_where_these_count) {
  const Span last{.batch = 1, .queries = 2, .keys = 6};
  for (const char* name : {"selective", "tape"}) {
    const auto encoding = make_encoding(name, small_shape());
    BOOST_CHECK_THROW(Toy(small_shape(), 1, 6).run(*encoding, last), support::ConfigError);
  }
  BOOST_CHECK_THROW(make_encoding("repo", small_shape(2, 1)), support::ConfigError);
}

BOOST_AUTO_TEST_SUITE_END()

// Biases, temperatures and sinks: numbers worked out elsewhere from the formulas of the papers, in double precision;
// each passes within one unit of its last printed digit.
#include "encodings/bias/slopes.h"
#include "spot.h"

using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

std::unique_ptr<PositionalEncoding> make(const std::string& config, std::int64_t heads = 1,
                                         std::int64_t train_length = 1024) {
  return make_encoding(Json::parse(config), {.width = 2 * heads,
                                             .query_heads = heads,
                                             .key_value_heads = heads,
                                             .head_width = 2,
                                             .train_length = train_length,
                                             .dtype = at::kDouble});
}

/// The bias at each distance 0 .. n, [H, n + 1].
Tensor by_distance(PositionalEncoding& encoding, std::int64_t n) { return bias_row(encoding, n).flip(1); }

/// The factor of the query at a row and position.
double temperature(PositionalEncoding& encoding, std::int64_t row, std::int64_t first_position = 0) {
  const Span span{.batch = 1, .queries = 1, .keys = row + 1, .first_position = first_position};
  State state = begin_pass(encoding, span);
  LayerContext context = layer_context(encoding, state, 0);
  Heads heads{.q = at::ones({1, 1, 1, 2}, at::kDouble), .k = at::ones({1, 1, row + 1, 2}, at::kDouble)};
  encoding.transform(context, heads);
  return heads.q.flatten()[0].item<double>();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bias_spot_values)

BOOST_AUTO_TEST_CASE(kerple_at_some_distances) {
  const auto log = make("\"kerple_log\"");
  set(*log, "p", numbers({1}, {1}));
  set(*log, "a", numbers({1}, {1}));
  Tensor row = by_distance(*log, 4095)[0];
  check(row.index_select(0, at::tensor({0, 1, 7, 100, 1023, 4095})),
        {0, -.693147, -2.079442, -4.615121, -6.931472, -8.317766});
  set(*log, "p", numbers({2}, {1}));
  set(*log, "a", numbers({.5}, {1}));
  row = by_distance(*log, 1023)[0];
  check(row.index_select(0, at::tensor({1, 7, 1023})), {-.810930, -3.008155, -12.478601});
  const auto power = make("\"kerple_power\"");
  set(*power, "a", numbers({.25}, {1}));
  set(*power, "p", numbers({.5}, {1}));
  row = by_distance(*power, 4096)[0];
  check(row.index_select(0, at::tensor({0, 1, 4, 100, 1024, 4096})), {0, -.25, -.5, -2.5, -8, -16});
  set(*power, "p", numbers({1}, {1}));  // ALiBi with slope a
  check(by_distance(*power, 3)[0], {0, -.25, -.5, -.75}, 1e-12);
}

BOOST_AUTO_TEST_CASE(kerple_starts_in_its_range_and_is_kept_there) {
  for (const char* config : {"\"kerple_log\"", "\"kerple_power\"", R"({"kind": "kerple_power", "shared": false})"}) {
    const auto kerple = make_encoding(Json::parse(config), small_shape(64, 64));
    for (const Parameter& p : kerple->parameters()) {
      const double top = p.short_name == "a" ? 1 : 2;
      BOOST_TEST(value(p.value.min()) >= 0.01);
      BOOST_TEST(value(p.value.max()) <= top);
      BOOST_TEST(value(p.value.max()) > 0.9 * top);
      at::NoGradGuard no_grad;
      Tensor(p.value).sub_(1);
    }
    kerple->after_step();
    for (const Parameter& p : kerple->parameters()) BOOST_TEST(value(p.value.min()) == 0.01);
  }
}

BOOST_AUTO_TEST_CASE(sandwich_at_some_distances) {
  const Tensor eight = by_distance(*make("\"sandwich\"", 8), 8192);
  const auto at_distance = [](const Tensor& t, std::int64_t d) { return t.select(1, d); };
  BOOST_TEST(value(eight.select(1, 0).abs().max()) == 0);
  check(at_distance(eight, 1).index_select(0, at::tensor({0, 1, 7})), {-1.446619, -.723309, -.180827});
  check_near(value(at_distance(eight, 10)[0]), -19.340906);
  check(at_distance(eight, 100).index_select(0, at::tensor({0, 1, 7})), {-33.318914, -16.659457, -4.164864});
  check_near(value(at_distance(eight, 512)[0]), -47.961317);
  check_near(value(at_distance(eight, 8192)[0]), 1.984198 - 64);
  const Tensor twelve = by_distance(*make("\"sandwich\"", 12), 100).select(1, 100);
  check(twelve.index_select(0, at::tensor({0, 11})), {-49.978371, -4.164864});
}

BOOST_AUTO_TEST_CASE(bam_at_some_distances) {
  const auto bam = make(R"({"kind": "bam", "location": true})");
  set(*bam, "log_scale", numbers({std::log(.0625)}, {1}));
  check(by_distance(*bam, 100)[0].index_select(0, at::tensor({0, 1, 10, 100})), {-6e-7, -.062501, -.625001, -6.250001});
  set(*bam, "shape", numbers({.5}, {1}));
  check(by_distance(*bam, 100)[0].index_select(0, at::tensor({1, 10, 100})), {-.0625, -.197642, -.625});
  set(*bam, "shape", numbers({2}, {1}));
  check_near(value(by_distance(*bam, 10)[0][10]), -6.250013);
  set(*bam, "shape", numbers({1}, {1}));
  set(*bam, "location", numbers({.5}, {1}));
  check_near(value(by_distance(*bam, 3)[0][3]), -.252638);
  set(*bam, "location", numbers({-.5}, {1}));
  check_near(value(by_distance(*bam, 3)[0][3]), -.122364);
  // At the start it is ALiBi, but for the 1e-5 that keeps it smooth at distance 0.
  check(
      by_distance(*make("\"bam\"", 8), 50),
      [&] {
        std::vector<double> expected;
        for (const double slope : alibi_slopes(8))
          for (int d = 0; d <= 50; ++d) expected.push_back(-slope * (d + 1e-5));
        return expected;
      }(),
      1e-12);
}

BOOST_AUTO_TEST_CASE(bam_under_scalable_softmax_scales_its_prior_too) {
  FourTokens f;
  f.run("\"bam\"");
  const Tensor plain = f.logits(3).clone();
  f.run("\"bam_ssmax\"");
  BOOST_TEST(largest_difference(f.logits(3), plain * std::log(4.0)) <= 1e-14);
  f.run("\"none\"");
  const Tensor bare = f.logits(3).clone();
  f.run(R"({"kind": "bam_ssmax", "scale_prior": false})");
  BOOST_TEST(largest_difference(f.logits(3), bare * std::log(4.0) + (plain - bare)) <= 1e-14);
}

BOOST_AUTO_TEST_CASE(nape_leaves_half_of_the_heads_alone) {
  const Tensor linear = by_distance(*make("\"nape\"", 8), 1).select(1, 1);
  check(linear, {-1, -.5, -1. / 3, -.25, 0, 0, 0, 0}, 1e-12);
  check(by_distance(*make(R"({"kind": "nape", "slopes": "exp"})", 5), 1).select(1, 1), {-1, -.5, 0, 0, 0}, 1e-12);
}

BOOST_AUTO_TEST_CASE(fire_of_each_head_normalises_log_distance) {
  const auto fire = make("\"fire_per_head\"", 2);
  Tensor first = at::zeros({2, 32}, at::kDouble);
  first.select(1, 0).fill_(1);
  set(*fire, "w1", first);
  set(*fire, "b1", at::zeros({2, 32}, at::kDouble));
  set(*fire, "w2", first);
  set(*fire, "b2", at::zeros({2}, at::kDouble));
  check(bias_row(*fire, 5).select(1, 0), {.10251746, .10251746}, 1e-8);
  check(bias_row(*fire, 1023).select(1, 512), {.85240906, .85240906}, 1e-8);
  set(*fire, "c", numbers({.1, .2}, {2}));
  set(*fire, "length_multiplier", numbers({1, 2}, {2}));
  const double other = std::log1p(.2 * 511) / (std::log1p(.2 * 1024) + 1e-6);
  check(bias_row(*fire, 1023).select(1, 512), {.85240906, other}, 1e-8);
}

BOOST_AUTO_TEST_CASE(the_guides_fire_saturates_at_its_length) {
  const auto fire = make("\"fire_guide\"");
  Tensor first = at::zeros({32}, at::kDouble);
  first[0] = 1;
  set(*fire, "w1", first);
  set(*fire, "b1", first * 10);  // where GELU hands its input through
  set(*fire, "w2", first);
  set(*fire, "b2", numbers({-10}, {1}));
  const Tensor row = by_distance(*fire, 9000)[0];
  check(row.index_select(0, at::tensor({0, 1, 100, 8192, 9000})), {0, .076922, .512163, 1, 1});
}

BOOST_AUTO_TEST_CASE(temperatures_on_four_tokens) {
  FourTokens f;
  f.run(R"({"kind": "head_scale", "scale": 1.6})");
  check(f.weights(3), {.090612, .029231, .00943, .870728});
  f.run(R"({"kind": "uniform_scale", "scale": 1.6})");
  check(f.weights(3), {.090612, .029231, .00943, .870728});
  f.run(R"({"kind": "uniform_scale", "scale": 1.6, "learned": true})");
  check(f.weights(3), {.090612, .029231, .00943, .870728});
}

BOOST_AUTO_TEST_CASE(temperatures_at_some_places) {
  const auto llama = make(R"({"kind": "llama4_temp", "floor_scale": 8192})");
  check_near(temperature(*llama, 0, 8190), 1);
  check_near(temperature(*llama, 0, 8191), 1.069315);
  check_near(temperature(*llama, 0, 16383), 1.109861);
  check_near(temperature(*llama, 0, 131071), 1.283321);
  const auto asentmax = make("\"asentmax_scale\"");
  set(*asentmax, "beta", numbers({.5}, {1}));
  set(*asentmax, "gamma", numbers({.1}, {1}));
  for (const auto& [row, tau] : {std::pair{0, 1.482006}, {1, 1.504725}, {62, 1.576591}, {1022, 1.606810}})
    check_near(temperature(*asentmax, row), tau);
  // 1/mean ln n is the initial value of ssmax.
  const auto logn = make("\"logn\"");
  check_near(temperature(*logn, 99), std::log(100.0) * .168471, 5e-6);
  const auto clipped = make(R"({"kind": "logn", "form": "clipped", "train_length": 64})");
  check_near(temperature(*clipped, 63), 1, 1e-15);
  check_near(temperature(*clipped, 255), std::log(256.0) / std::log(64.0), 1e-15);
}

BOOST_AUTO_TEST_CASE(asentmax_read_off_the_tokens) {
  FourTokens f;
  f.x = normals("asentmax", {1, 4, 2});
  const auto encoding = make_encoding(Json::parse(R"({"kind": "asentmax_scale", "form": "reported"})"), f.shape);
  const Tensor b = numbers({.3, -.4}, {1, 2}), g = numbers({.7, .2}, {1, 2});
  set(*encoding, "beta_weight", b);
  set(*encoding, "gamma_weight", g);
  f.run("\"none\"");
  const Tensor plain = f.logits(3).clone();
  f.run(*encoding);
  const double beta = std::log1p(std::exp(value((f.x[0][3] * b[0]).sum())));
  const double gamma = 2 * std::tanh(value((f.x[0][3] * g[0]).sum()));
  BOOST_TEST(largest_difference(f.logits(3), plain * (1 + beta * std::pow(std::log(5.0), gamma))) <= 1e-14);
}

BOOST_AUTO_TEST_CASE(temperatures_for_heads_without_position_leave_the_others_alone) {
  const Shape shape{
      .width = 8, .query_heads = 4, .key_value_heads = 4, .head_width = 2, .train_length = 16, .dtype = at::kDouble};
  const auto both = make_encoding(Json::parse(R"({"stack": ["nape", "asentmax_scale"]})"), shape);
  const auto alone = make_encoding("asentmax_scale", shape);
  const auto factors = [&](PositionalEncoding& encoding) {
    State state = begin_pass(encoding, Span::whole(1, 3));
    LayerContext context = layer_context(encoding, state, 0);
    Heads heads{.q = at::ones({1, 4, 3, 2}, at::kDouble), .k = at::ones({1, 4, 3, 2}, at::kDouble)};
    encoding.transform(context, heads);
    return heads.q;
  };
  const Tensor beside = factors(*both), everywhere = factors(*alone);
  BOOST_TEST(all_equal(beside.narrow(1, 0, 2)));
  BOOST_TEST(at::equal(beside.narrow(1, 2, 2), everywhere.narrow(1, 2, 2)));
  BOOST_TEST(!at::equal(everywhere.narrow(1, 0, 2), beside.narrow(1, 0, 2)));
}

BOOST_AUTO_TEST_CASE(temperatures_for_layers_without_position_leave_the_others_alone) {
  const Shape shape{.width = 8,
                    .layers = 4,
                    .query_heads = 2,
                    .key_value_heads = 2,
                    .head_width = 4,
                    .train_length = 4,
                    .dtype = at::kDouble};
  const auto both = make_encoding(Json::parse(R"({"stack": ["inope", "llama4_temp"]})"), shape);
  const auto alone = make_encoding("inope", shape), everywhere = make_encoding("llama4_temp", shape);
  const Tensor q = normals("inope q", {1, 2, 9, 4});
  const auto turned = [&](PositionalEncoding& encoding, int layer) {
    State state = begin_pass(encoding, Span::whole(1, 9));
    LayerContext context = layer_context(encoding, state, layer);
    Heads heads{.q = q, .k = q, .v = q};
    encoding.transform(context, heads);
    return heads.q;
  };
  for (int layer = 0; layer < 3; ++layer) BOOST_TEST(at::equal(turned(*both, layer), turned(*alone, layer)));
  BOOST_TEST(at::equal(turned(*both, 3), turned(*everywhere, 3)));
  BOOST_TEST(!at::equal(turned(*both, 3), q));
}

BOOST_AUTO_TEST_CASE(sinks_on_four_tokens) {
  FourTokens f;
  for (const char* config : {"\"sink_off_by_one\"", "\"sink_logit\""}) {
    f.run(config);
    check(f.out, {.669762, 0, .401112, .401112, .628058, .371942, 1.38254, -.493043});
    check(1 - f.matrices.weights[0][0].sum(-1), {.330238, .197776, .12283, .145997});
  }
  const auto sink = make_encoding("sink_logit", f.shape);
  set(*sink, "sink", numbers({1}, {1}));
  f.run(*sink);
  check(f.out[0][0][3], {1.105267, -.394162});
  check_near(1 - value(f.weights(3).sum()), .31727);
}

BOOST_AUTO_TEST_CASE(a_window_keeps_the_first_token_of_the_text) {
  FourTokens f;
  f.run(R"({"kind": "sink_bos", "window": 2})");
  const Tensor windowed = f.out[0][0].clone(), weights = f.weights(3).clone();
  BOOST_TEST(value(weights[1]) == 0.0);
  // The last row equals the row of a text without the token between.
  const auto none = make_encoding("none", f.shape);
  const Tensor left = at::tensor({0, 2, 3}, at::kLong);
  State state = begin_pass(*none, {.batch = 1, .queries = 1, .keys = 3});
  LayerContext context = layer_context(*none, state, 0);
  const Heads heads{.q = f.q.narrow(2, 3, 1),
                    .k = f.k.index_select(2, left),
                    .v = f.v.index_select(2, left),
                    .scale = 1 / std::sqrt(2.0)};
  BOOST_TEST(largest_difference(windowed[3], attend(*none, context, heads)[0][0][0]) <= 1e-14);
  f.run(R"({"kind": "sink_bos", "window": 2, "keep": 0})");
  BOOST_TEST(value(f.weights(3)[0]) == 0.0);
  check_near(value(f.weights(3).sum()), 1);
}

BOOST_AUTO_TEST_CASE(a_key_of_the_sinks_own_is_one_more_key_before_the_text) {
  FourTokens f;
  const auto sink = make_encoding(Json::parse(R"({"kind": "sink_kv", "value": "learned"})"), f.shape);
  const Tensor key = numbers({.4, -.7}, {1, 2}), brought = numbers({2, 3}, {1, 2});
  set(*sink, "key", key);
  set(*sink, "value", brought);
  f.run(*sink);
  const Tensor found = f.out.clone();
  // The same with the key in the text: the rows after it equal the rows of a text without it.
  const auto none = make_encoding("none", f.shape);
  const Tensor k = at::cat({key.view({1, 1, 1, 2}), f.k}, 2), v = at::cat({brought.view({1, 1, 1, 2}), f.v}, 2);
  State state = begin_pass(*none, {.batch = 1, .queries = 4, .keys = 5});
  LayerContext context = layer_context(*none, state, 0);
  const Tensor expected = attend(*none, context, {.q = f.q, .k = k, .v = v, .scale = 1 / std::sqrt(2.0)});
  BOOST_TEST(largest_difference(found, expected) <= 1e-14);
}

BOOST_AUTO_TEST_SUITE_END()

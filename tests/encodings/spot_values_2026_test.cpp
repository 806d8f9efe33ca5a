// The encodings of 2025 and 2026, and their relatives: numbers from two independent programs in double precision, and
// identities for special options.
#include <functional>

#include "encodings/attention/attention_window.h"
#include "encodings/attention/token_reader.h"
#include "encodings/positions/training_windows.h"
#include "encodings/rotary/rotary.h"
#include "spot.h"
#include "spot_values.h"
#include "support/random.h"
#include "support/text.h"

using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

constexpr double kUnit = 1.5e-9;  // values are printed to nine decimals

/// Four tokens of one rotary pair that rotates with one radian per token; x = v.
struct Scene : FourTokens {
  Scene() { x = v[0]; }
  Tensor output(std::int64_t row) const { return out[0][0][row]; }
};

std::unique_ptr<PositionalEncoding> make(const std::string& config, const Shape& shape) {
  return make_encoding(Json::parse(config), shape);
}

/// The logit without a scale of f8's query and key that are `distance` apart, the query at `place`.
double score_at(const std::string& config, std::int64_t place, std::int64_t distance, std::int64_t train_length,
                std::optional<std::int64_t> pe_len = {}) {
  const auto encoding = make(config, {.width = 8, .head_width = 8, .train_length = train_length, .dtype = at::kDouble});
  Tensor q = at::empty({8}, at::kDouble), k = at::empty({8}, at::kDouble);
  for (int j = 0; j < 8; ++j) {
    q[j] = std::sin(0.1 * (j + 1));
    k[j] = std::cos(0.2 * (j + 1));
  }
  Span span{.batch = 1, .queries = 1, .keys = place + 1, .pe_len = pe_len};
  State state = begin_pass(*encoding, span);
  LayerContext context = layer_context(*encoding, state, 0);
  const Tensor keys = k.expand({1, 1, place + 1, 8}).contiguous();
  AttentionMatrices matrices;
  attend(*encoding, context, {.q = q.view({1, 1, 1, 8}), .k = keys, .v = keys, .scale = 1}, {.matrices = &matrices});
  return value(matrices.logits[0][0][0][place - distance]);
}

/// Both encodings, in the toy model, with the same parameters where names are shared.
void check_same(const std::string& a, const std::string& b, double within = 1e-12, const Shape& shape = small_shape(),
                std::optional<std::int64_t> pe_len = {}) {
  const auto one = make(a, shape), other = make(b, shape);
  Span span = Span::whole(2, 12);
  span.pe_len = pe_len;
  const Toy toy(shape, 2, 12);
  BOOST_TEST(largest_difference(toy.run(*one, span), toy.run(*other, span)) <= within, a << " is not " << b);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(spot_values_2026)

BOOST_AUTO_TEST_CASE(rove_on_four_tokens) {
  Scene f;
  f.run(R"("rove")");
  check(f.output(1), {.153956230, .475282768}, kUnit);
  check(f.output(2), {.713345986, .458378686}, kUnit);
  check(f.output(3), {1.195139735, -.657049403}, kUnit);
  check(f.output(0), {1, 0}, 1e-15);
  f.run(R"({"kind": "rove", "undo": false})");
  check(f.output(3), {-1.090456553, .819132108}, kUnit);
  f.run(R"({"kind": "rove", "keys": false})");
  check(f.output(3), {1.371206870, -.774908668}, kUnit);
}

BOOST_AUTO_TEST_CASE(rove_weighs_as_partial_rope_does) {
  Scene f;
  f.shape.head_width = 8;
  f.shape.width = 8;
  for (const char* part : {"0", "0.5", "1"}) {
    const auto rove = make(std::string(R"({"kind": "rove", "fraction": )") + part + "}", small_shape());
    const auto partial = make(std::string(R"({"kind": "partial", "fraction": )") + part + "}", small_shape());
    const Toy toy(small_shape(), 2, 12);
    AttentionMatrices a, b;
    toy.run(*rove, Span::whole(2, 12), {.matrices = &a});
    toy.run(*partial, Span::whole(2, 12), {.matrices = &b});
    BOOST_TEST(largest_difference(a.weights, b.weights) <= 1e-14);
  }
  check_same(R"({"kind": "rove", "fraction": 0})", R"("none")", 0);
  const auto values = make(R"({"kind": "rove", "keys": false})", small_shape()),
             none = make(R"("none")", small_shape());
  const Toy toy(small_shape(), 2, 12);
  AttentionMatrices a, b;
  toy.run(*values, Span::whole(2, 12), {.matrices = &a});
  toy.run(*none, Span::whole(2, 12), {.matrices = &b});
  BOOST_TEST(at::equal(a.weights, b.weights));
}

BOOST_AUTO_TEST_CASE(selective_rope_on_four_tokens) {
  Scene f;
  const auto run = [&](const std::string& more) {
    const auto encoding = make(R"({"kind": "selective_rope", "rank": 1)" + more + "}", f.shape);
    set(*encoding, "down", numbers({.5, -.25}, {1, 2}));
    set(*encoding, "up", numbers({.8}, {1, 1}));
    for (const Parameter& p : encoding->parameters()) {
      if (p.short_name == "conv") set(*encoding, "conv", numbers({.1, .2, .3, .4}, {1, 4}));
    }
    f.run(*encoding);
  };
  run("");
  check(f.logits(3), {.468794827, -.468434339, -1.379721364, 1.414213562}, kUnit);
  check(f.output(3), {1.529260355, -.491067813}, kUnit);
  run(R"(, "values": true)");
  check(f.output(3), {1.550882661, -.584965168}, kUnit);
  run(R"(, "increments": "plain", "values": true)");
  check(f.logits(3), {.535881630, -.195496106, -1.275133599, 1.414213562}, kUnit);
  check(f.output(3), {1.536301275, -.569858354}, kUnit);
  run(R"(, "increments": "own")");
  check(f.logits(3), {.066745523, -.137745359, -1.348606430, 1.414213562}, kUnit);
}

BOOST_AUTO_TEST_CASE(selective_rope_without_a_map_is_rope_or_none) {
  const Shape shape = small_shape();
  const auto rope = make(R"({"kind": "rope", "base": 500000})", shape), none = make(R"("none")", shape);
  const Toy toy(shape, 2, 12);
  for (const bool bias : {false, true}) {
    const auto selective = make(bias ? R"({"kind": "selective_rope", "bias": true})" : R"("selective_rope")", shape);
    for (const char* name : {"down", "up", "conv"}) {
      at::NoGradGuard no_grad;
      for (const Parameter& p : selective->parameters()) {
        if (p.short_name == name) Tensor(p.value).zero_();
      }
    }
    const Tensor expected = toy.run(bias ? *rope : *none, Span::whole(2, 12));
    BOOST_TEST(largest_difference(toy.run(*selective, Span::whole(2, 12)), expected) <= 1e-12);
  }
  const auto conv = make(R"("selective_rope")", shape),
             plain = make(R"({"kind": "selective_rope", "increments": "plain"})", shape);
  stir(*conv);
  for (const Parameter& p : conv->parameters()) {
    at::NoGradGuard no_grad;
    if (p.short_name == "conv") Tensor(p.value).copy_(numbers({0, 0, 0, 1}, {1, 4}).expand(p.value.sizes()));
    for (const Parameter& other : plain->parameters()) {
      if (other.name == p.name) Tensor(other.value).copy_(p.value);
    }
  }
  BOOST_TEST(largest_difference(toy.run(*conv, Span::whole(2, 12)), toy.run(*plain, Span::whole(2, 12))) <= 1e-12);
}

BOOST_AUTO_TEST_CASE(entmax_of_three_logits) {
  const auto weights = [](const char* config, std::vector<double> logits) {
    const auto encoding = make(config, {.width = 1, .head_width = 1, .dtype = at::kDouble});
    const auto n = static_cast<std::int64_t>(logits.size());
    Span span{.batch = 1, .queries = 1, .keys = n};
    State state = begin_pass(*encoding, span);
    LayerContext context = layer_context(*encoding, state, 0);
    AttentionMatrices matrices;
    attend(*encoding, context,
           {.q = at::ones({1, 1, 1, 1}, at::kDouble),
            .k = numbers(logits, {1, 1, n, 1}),
            .v = at::ones({1, 1, n, 1}, at::kDouble)},
           {.matrices = &matrices});
    return matrices.weights.flatten();
  };
  check(weights(R"("entmax")", {1, 0, -1}), {.830718914, .169281086, 0}, kUnit);
  check(weights(R"({"kind": "entmax", "alpha": 1.25})", {1, 0, -1}), {.750700303, .214849512, .034450185}, kUnit);
  check(weights(R"({"kind": "entmax", "alpha": 2})", {.5, .2, -.3}), {.65, .35, 0}, 1e-14);
  check(weights(R"("entmax")", {3, 3, 3, 3}), {.25, .25, .25, .25}, 1e-14);
  const Tensor some = weights(R"("entmax")", {4, 3.5, -2, -9, 1});
  BOOST_TEST(value(some[2]) == 0);                                             // to the bit
  BOOST_TEST(at::equal(some, weights(R"("entmax")", {4, 3.5, -700, -3, 1})));  // below the support nothing counts
  // Against the sorted closed form for alpha = 1.5.
  const Tensor z = normals("entmax", {64}) * 2;
  const Tensor x = std::get<0>(at::sort(z / 2, -1, true));
  double tau = 0;
  for (std::int64_t rho = 1; rho <= 64; ++rho) {
    const Tensor top = x.narrow(0, 0, rho);
    const double mean = value(top.mean()), spread = value((top * top).mean()) - mean * mean;
    const double t = mean - std::sqrt(std::max(0.0, (1 - rho * spread) / static_cast<double>(rho)));
    if (t <= value(x[rho - 1])) tau = t;
  }
  const Tensor expected = (z / 2 - tau).clamp_min(0).square();
  const std::vector<double> list(z.data_ptr<double>(), z.data_ptr<double>() + 64);
  BOOST_TEST(largest_difference(weights(R"("entmax")", list), expected) <= 1e-12);
}

BOOST_AUTO_TEST_CASE(entmax_on_four_tokens) {
  Scene f;
  f.run(R"("entmax")");
  check(f.weights(3), {.066987298, 0, 0, .933012702}, kUnit);
  check(f.output(3), {1.933012702, -.933012702}, kUnit);
  const auto scaled = make(R"({"stack": ["asentmax_scale", "entmax"]})", f.shape);
  set(*scaled, "beta", numbers({.5}, {1}));
  set(*scaled, "gamma", numbers({.1}, {1}));
  Scene plain;
  plain.run(R"("none")");
  f.run(*scaled);
  check(f.logits(3),
        {1.524369505 * value(plain.logits(3)[0]), 1.524369505 * value(plain.logits(3)[1]),
         1.524369505 * value(plain.logits(3)[2]), 1.524369505 * value(plain.logits(3)[3])},
        3e-9);
}

BOOST_AUTO_TEST_CASE(entmax_has_the_gradient_of_its_support) {
  const auto encoding = make(R"("entmax")", {.width = 1, .head_width = 1, .dtype = at::kDouble});
  Span span{.batch = 1, .queries = 1, .keys = 3};
  State state = begin_pass(*encoding, span);
  LayerContext context = layer_context(*encoding, state, 0);
  const Tensor k = numbers({1, 0, -1}, {1, 1, 3, 1}).requires_grad_(true);
  const Tensor out = attend(*encoding, context,
                            {.q = at::ones({1, 1, 1, 1}, at::kDouble), .k = k, .v = numbers({1, 2, 3}, {1, 1, 3, 1})});
  out.sum().backward();
  check(k.grad(), {-.283473355, .283473355, 0}, kUnit);
}

BOOST_AUTO_TEST_CASE(rope_id_turns_at_high_frequencies) {
  const Score eight = score(R"("rope_id")", 8, 64);
  check(at::tensor(frequencies(eight), at::kDouble), {1, .196349541}, kUnit);
  check_near(dynamic_cast<Rotary&>(*eight.encoding).schedule().base, 25.938223012, 2e-9);
  check_near(score_at(R"("rope_id")", 10, 3, 64), .439977291, kUnit);
  const Score wide = score(R"("rope_id")", 64, 512);
  const std::vector<double> theta = frequencies(wide);
  BOOST_REQUIRE_EQUAL(theta.size(), 16u);
  check_near(theta[1], .781020908, kUnit);
  check_near(theta[8], .138452653, kUnit);
  check_near(theta[15], .024543693, kUnit);
  const double base = dynamic_cast<Rotary&>(*wide.encoding).schedule().base;
  check_near(base, 52.167189134, 2e-9);
  const Score partial =
      score(support::cat(R"({"kind": "partial", "fraction": 0.5, "base": )", Json(base).dump(), "}"), 64, 512);
  for (std::size_t i = 0; i < 16; ++i) check_near(theta[i], frequencies(partial)[i], 1e-12);
  check_near(theta[15] * 512 / (2 * M_PI), 2, 1e-12);
  check_same(R"({"kind": "rope_id", "fraction": 0})", R"("none")", 0);
  BOOST_CHECK_THROW(score(R"({"kind": "rope_id", "turns": 11})", 8, 64), support::ConfigError);
}

BOOST_AUTO_TEST_CASE(carope_turns_by_powers_that_tokens_choose) {
  Scene f;
  const auto carope = make(R"("carope")", f.shape);
  set(*carope, "weight", numbers({1, -.5}, {1, 2}));
  const auto turned = [&](PositionalEncoding& encoding, const Tensor& x, std::int64_t width) {
    const std::int64_t rows = x.size(1);
    Span span = Span::whole(1, rows);
    State state = begin_pass(encoding, span);
    LayerContext context = layer_context(encoding, state, 0, x);
    Heads heads{.q = at::ones({1, 1, rows, width}, at::kDouble), .k = at::ones({1, 1, rows, width}, at::kDouble)};
    heads.v = heads.k;
    encoding.transform(context, heads);
    return heads.k[0][0];
  };
  // At weight 0 all tokens have f = 1/(1 + ln 2).
  const auto wide = make(R"("carope")", {.width = 8, .head_width = 8, .dtype = at::kDouble});
  set(*wide, "weight", at::zeros({1, 8}, at::kDouble));
  const Tensor k = turned(*wide, at::zeros({1, 3, 8}, at::kDouble), 8);
  for (int c = 0; c < 4; ++c) {
    const double angle = std::atan2(value(k[2][c + 4] - k[2][c]), value(k[2][c] + k[2][c + 4]));  // from (1, 1)
    check_near(std::remainder(angle - 3 * std::pow(.590616109, c), 2 * M_PI), 0, 1e-8);
  }
  // Tokens that ask for f = .5 and .6 between a key and a query.
  const auto softplus_inverse = [](double f) { return std::log(std::expm1(1 / f - 1)); };
  const auto by_first = make(R"("carope")", {.width = 8, .head_width = 8, .dtype = at::kDouble});
  set(*by_first, "weight", numbers({1, 0, 0, 0, 0, 0, 0, 0}, {1, 8}));
  Tensor x = at::zeros({1, 4, 8}, at::kDouble);
  x[0][2][0] = softplus_inverse(.5);
  x[0][3][0] = softplus_inverse(.6);
  Span span = Span::whole(1, 4);
  State state = begin_pass(*by_first, span);
  LayerContext context = layer_context(*by_first, state, 0, x);
  Tensor q = at::empty({8}, at::kDouble), key = at::empty({8}, at::kDouble);
  for (int j = 0; j < 8; ++j) {
    q[j] = std::sin(0.1 * (j + 1));
    key[j] = std::cos(0.2 * (j + 1));
  }
  Heads heads{.q = q.expand({1, 1, 4, 8}).contiguous(), .k = key.expand({1, 1, 4, 8}).contiguous()};
  heads.v = heads.k;
  by_first->transform(context, heads);
  check_near(value((heads.q[0][0][3] * heads.k[0][0][1]).sum()), -.671392593, kUnit);
}

BOOST_AUTO_TEST_CASE(transformer_xl_on_four_tokens) {
  Scene f;
  const auto xl = make(R"("transformer_xl")", f.shape);
  set(*xl, "relative", numbers({1, .5, -.5, 1}, {2, 2}));
  set(*xl, "u", numbers({.1, .2}, {1, 2}));
  set(*xl, "v", numbers({-.3, .4}, {1, 2}));
  f.run(*xl);
  check(f.logits(3), {.486926551, .150850014, -.844005901, 1.378858223}, kUnit);
  check(f.logits(1), {.801793256, 1.732411614}, kUnit);
  check(f.output(3), {1.390452884, -.330653731}, kUnit);
  Shape odd = f.shape;
  odd.width = 3;
  BOOST_CHECK_THROW(make(R"("transformer_xl")", odd), support::ConfigError);
}

BOOST_AUTO_TEST_CASE(tapa_at_some_distances) {
  check_near(score_at(R"("tapa")", 600, 0, 64), .398021845, kUnit);  // the amplitude
  check_near(score_at(R"("tapa")", 600, 3, 64), -.142219903, kUnit);
  check_near(score_at(R"("tapa")", 600, 512, 64), -.396206024, kUnit);
  BOOST_CHECK_THROW(make(R"({"stack": ["tapa", "ssmax"]})", small_shape()), support::ConfigError);
  for (const char* other : {R"("bam_ssmax")", R"({"kind": "inkling", "floor_scale": 16})"})
    BOOST_CHECK_THROW(make(support::cat(R"({"stack": ["tapa", )", other, "]}"), small_shape()), support::ConfigError);
  BOOST_CHECK_THROW(make(R"({"stack": ["tapa", "rope"]})", small_shape()), support::ConfigError);
  BOOST_CHECK_THROW(make(R"({"kind": "tapa", "amplitude": 1})", small_shape()), support::ConfigError);
}

BOOST_AUTO_TEST_CASE(mapped_distances) {
  const auto rule = [](const std::string& name, const std::string& more) {
    return R"({"kind": "distance_map", "rule": ")" + name + "\"" + more + "}";
  };
  struct Case {
    std::string config;
    std::int64_t query, key;
    double score;  // rope's at the distance in the comment
  };
  const std::vector<Case> cases = {
      {rule("rerope", R"(, "window": 16)"), 94, 0, -.166895048},                    // 16
      {rule("leaky_rerope", R"(, "window": 8, "factor": 4)"), 100, 2, .547462148},  // 30.5
      {rule("self_extend", R"(, "window": 16, "group": 4)"), 101, 7, .610493679},   // 36
      {rule("dca", R"(, "chunk": 40, "cap": 48)"), 95, 50, .565535140},             // 38
      {rule("dca", R"(, "chunk": 40, "cap": 48)"), 95, 5, 1.147915418},             // 43
      {rule("dca", R"(, "chunk": 40, "cap": 48)"), 95, 82, .352716596},             // 13
      {rule("lm_infinite", R"(, "window": 16)"), 94, 0, -.166895048},
  };
  for (const Case& one : cases) check_near(score_at(one.config, one.query, one.query - one.key, 64), one.score, kUnit);
  for (std::int64_t d = 0; d < 16; ++d) {  // near keys keep their distance
    check_near(score_at(cases[0].config, 94, d, 64), score_at(R"("rope")", 94, d, 64), 1e-9);
  }
  // Beyond window and sinks nothing is seen.
  BOOST_TEST(std::isinf(score_at(rule("lm_infinite", R"(, "window": 16, "sinks": 10)"), 94, 94 - 10, 64)));
  BOOST_TEST(std::isfinite(score_at(rule("lm_infinite", R"(, "window": 16, "sinks": 10)"), 94, 94 - 9, 64)));
}

BOOST_AUTO_TEST_CASE(whole_passes_see_mapped_distances) {
  struct Case {
    std::string options;
    std::function<double(std::int64_t i, std::int64_t j)> distance;  // nan: out of sight
  };
  const auto up_to = [](std::int64_t w) {
    return [w](std::int64_t i, std::int64_t j) { return static_cast<double>(std::min(i - j, w)); };
  };
  const std::vector<Case> cases = {
      {R"("rule": "rerope", "window": 9)", up_to(9)},
      {R"("rule": "leaky_rerope", "window": 6, "factor": 4)",
       [](std::int64_t i, std::int64_t j) {
         return i - j < 6 ? static_cast<double>(i - j) : 6 + (static_cast<double>(i - j) - 6) / 4;
       }},
      {R"("rule": "self_extend", "window": 8, "group": 3)",
       [](std::int64_t i, std::int64_t j) {
         return static_cast<double>(i - j < 8 ? i - j : i / 3 - j / 3 + 8 - 8 / 3);
       }},
      {R"("rule": "dca", "chunk": 10, "cap": 12)",
       [](std::int64_t i, std::int64_t j) {
         const std::int64_t back = i / 10 - j / 10;
         return static_cast<double>((back == 0   ? i % 10
                                     : back == 1 ? std::min<std::int64_t>(i % 10 + 10, 12)
                                                 : 12) -
                                    j % 10);
       }},
      {R"("rule": "lm_infinite", "window": 9, "sinks": 3)",
       [&](std::int64_t i, std::int64_t j) { return i - j >= 9 && j >= 3 ? std::nan("") : up_to(9)(i, j); }}};
  const std::int64_t length = 50;
  const Tensor q = normals("queries", {1, 1, length, 4}), k = normals("keys", {1, 1, length, 4});
  const auto turned = [](const Tensor& at, double angle, int pair) {  // half layout: channels pair and pair + 2
    const double c = std::cos(angle), s = std::sin(angle), a = value(at[pair]), b = value(at[pair + 2]);
    return std::pair(a * c - b * s, a * s + b * c);
  };
  for (const Case& one : cases) {
    const auto encoding = make("{\"kind\": \"distance_map\", " + one.options + "}",
                               {.width = 4, .head_width = 4, .train_length = 16, .dtype = at::kDouble});
    Span span = Span::whole(1, length);
    span.pe_len = length;
    State state = begin_pass(*encoding, span);
    LayerContext context = layer_context(*encoding, state, 0);
    double worst = 0;
    std::int64_t seen = 0;
    const RowHook look = [&](const AttentionRows& rows) {
      for (std::int64_t i = rows.rows.begin; i < rows.rows.end; ++i) {
        for (std::int64_t j = 0; j <= i; ++j) {
          const double found = value(rows.logits[0][0][i - rows.rows.begin][j]), distance = one.distance(i, j);
          ++seen;
          if (std::isnan(distance)) {
            BOOST_TEST(std::isinf(found), one.options << ": key " << j << " is in sight of " << i);
            continue;
          }
          double expected = 0;
          for (int pair = 0; pair < 2; ++pair) {
            const auto [a, b] = turned(q[0][0][i], distance * std::pow(10000.0, -0.5 * pair), pair);
            expected += a * value(k[0][0][j][pair]) + b * value(k[0][0][j][pair + 2]);
          }
          worst = std::max(worst, std::abs(found - expected));
        }
      }
    };
    attend(*encoding, context, {.q = q, .k = k, .v = k, .scale = 1},
           {.chunk_rows = 7, .row_hook = &look});  // strips across borders
    BOOST_TEST(seen == length * (length + 1) / 2);
    BOOST_TEST(worst < 1e-11, one.options);
  }
}

BOOST_AUTO_TEST_CASE(distances_within_reach_are_not_mapped) {
  for (const char* config :
       {R"({"kind": "distance_map", "window": 16})", R"({"kind": "distance_map", "rule": "leaky_rerope"})",
        R"({"kind": "distance_map", "rule": "self_extend"})", R"({"kind": "distance_map", "rule": "dca", "chunk": 12})",
        R"({"kind": "distance_map", "rule": "lm_infinite"})"}) {
    check_same(config, R"("rope")", 1e-11, small_shape(), 12);  // the training length is 16
  }
  check_same(
      R"({"kind": "distance_map", "rule": "lm_infinite", "over": {"kind": "partial", "fraction": 0.5}, "base": 100})",
      R"({"kind": "partial", "fraction": 0.5, "base": 100})", 1e-11);
  Span training = Span::whole(1, 4);
  training.training = true;
  BOOST_CHECK_THROW(begin_pass(*make(R"("distance_map")", small_shape()), training), support::ConfigError);
  BOOST_CHECK_THROW(make(R"({"kind": "distance_map", "over": "pope"})", small_shape()), support::ConfigError);
}

BOOST_AUTO_TEST_CASE(members_of_a_stack_leave_each_other_alone) {
  // Vectors that multiply a rotated query have none where each distance has its rotation.
  for (const char* other : {"shaw", "transformer_xl"})
    BOOST_CHECK_THROW(make(support::cat(R"({"stack": ["distance_map", ")", other, R"("]})"), small_shape()),
                      support::ConfigError);
  // A key that one member hides is hidden from a network over logits, too.
  {
    Shape shape = small_shape();
    shape.train_length = 8;
    const auto hides =
        make(R"({"stack": [{"kind": "distance_map", "rule": "lm_infinite", "window": 4}, "dape"]})", shape);
    stir(*hides);
    Span span = Span::whole(2, 20);
    span.pe_len = 20;
    BOOST_TEST(at::isfinite(Toy(shape, 2, 20).run(*hides, span)).all().item<bool>());
  }
  // Two of a kind have a table each.
  {
    const auto both = make(R"({"stack": ["kerple_log", {"kind": "dape", "bias": "kerple_log"}]})", small_shape());
    stir(*both);
    Span span = Span::whole(1, 8);
    span.training = true;
    Toy(small_shape(), 1, 8).run(*both, span).sum().backward();
    for (const Parameter& parameter : both->parameters()) {
      if (parameter.name.find(".map") == std::string::npos)
        BOOST_TEST(parameter.value.grad().defined(), parameter.name << " has no gradient");
    }
  }
  // One member parts the keys that heads share, and the next one finds them so.
  for (const char* other : {"transformer_xl", "path", "path_fox"}) {
    const Shape shape = small_shape(4, 2);
    const auto shared = make(support::cat(R"({"stack": ["tape", ")", other, R"("]})"), shape);
    BOOST_CHECK_NO_THROW(Toy(shape, 1, 8).run(*shared, Span::whole(1, 8)));
  }
}

BOOST_AUTO_TEST_CASE(positions_that_are_drawn) {
  const std::uint64_t key = 0x4326beff96001635;  // whose state is published
  const auto window = [&](const char* config) {
    const auto encoding = make(config, small_shape());
    support::Xoshiro random(key);
    return dynamic_cast<const TrainingWindow&>(*encoding).draw(random, 16, 64);
  };
  const std::vector<std::int64_t> pose = window(R"({"kind": "pose", "target": 64})");
  for (std::int64_t t = 0; t < 16; ++t) BOOST_TEST(pose[static_cast<std::size_t>(t)] == (t < 6 ? t : t + 21));
  // The same law in Python: e 5, r 7, of 22 .. 50 the end 29.
  const std::vector<std::int64_t> cream = window(R"({"kind": "cream", "target": 64, "mean": 5, "spread": 2})");
  const std::vector<std::int64_t> expected = {0, 1, 2, 3, 4, 24, 25, 26, 27, 28, 29, 59, 60, 61, 62, 63};
  BOOST_CHECK_EQUAL_COLLECTIONS(cream.begin(), cream.end(), expected.begin(), expected.end());
  support::Xoshiro random(key);
  std::vector<double> real{random.uniform() * 100, random.uniform() * 100, random.uniform() * 100};
  std::sort(real.begin(), real.end());
  check(at::tensor(real, at::kDouble), {44.102400847, 67.413029484, 95.908399078}, kUnit);
}

BOOST_AUTO_TEST_CASE(training_windows_are_increasing_and_end_below_the_target) {
  for (const char* kind : {"pose", "cream"}) {
    const auto stacked =
        make(std::string(R"({"stack": [{"kind": ")") + kind + R"(", "target": 100}, "rope"]})", small_shape());
    Span span = Span::whole(3, 16);
    for (const bool training : {false, true}) {
      span.training = training;
      for (span.step = 0; span.step < 20; ++span.step) {
        State state = begin_pass(*stacked, span);
        const Tensor p = layer_context(*stacked, state, 1).positions;
        if (!training) {
          BOOST_TEST(at::equal(p, at::arange(16, at::kLong)));
          continue;
        }
        BOOST_TEST((p.narrow(1, 1, 15) - p.narrow(1, 0, 15)).gt(0).all().item<bool>());
        BOOST_TEST(p.max().item<std::int64_t>() < 100);
        BOOST_TEST(at::equal(p, layer_context(*stacked, state, 0).positions));  // one map for all layers
      }
    }
    span.training = true;
    const auto tight =
        make(std::string(R"({"stack": [{"kind": ")") + kind + R"(", "target": 16}, "rope"]})", small_shape());
    State state = begin_pass(*tight, span);
    BOOST_TEST(at::equal(layer_context(*tight, state, 0).positions[0], at::arange(16, at::kLong)));
    span.queries = span.keys = 17;
    State longer = begin_pass(*tight, span);
    BOOST_CHECK_THROW(layer_context(*tight, longer, 0), RangeError);
  }
}

BOOST_AUTO_TEST_CASE(real_positions_have_the_mean_of_their_rank) {
  const auto rfs =
      make(R"({"stack": [{"kind": "rfs", "max_position": 100, "per_sample": true}, "rope"]})", small_shape());
  Span span = Span::whole(4000, 3);
  State state = begin_pass(*rfs, span);
  const Tensor mean = layer_context(*rfs, state, 0).positions.mean(0);
  check(mean, {25, 50, 75}, 1.5);
  for (const char* table :
       {R"({"kind": "learned", "max_positions": 4096})", R"("sininit")", R"({"kind": "decimal"})", R"("t5")"}) {
    const auto both = make(std::string(R"({"stack": ["rfs", )") + table + "]}", wide_shape());
    BOOST_CHECK_THROW(Toy(wide_shape(), 1, 4).run(*both, Span::whole(1, 4)), support::Error);
  }
}

BOOST_AUTO_TEST_CASE(windows_on_four_tokens) {
  Scene f;
  f.run(R"({"kind": "window", "size": 2})");
  check(f.weights(3), {0, 0, .055807219, .944192781}, kUnit);
  check(f.output(3), {1.944192781, -.888385562}, kUnit);
  f.run(R"({"stack": ["rope", {"kind": "window", "size": 2}]})");
  check(f.output(3), {1.898285348, -.796570696}, kUnit);
  f.run(R"({"kind": "window", "size": 1})");
  check(f.out, {1, 0, 0, 1, 1, 1, 2, -1}, 0);
  // A global layer, and a temperature there that grows from two visible keys on.
  f.run(R"({"kind": "local_global", "interval": 1, "scale": "logn", "train_length": 2})");
  check(f.output(3), {1.915189349, -.911945532}, kUnit);
}

BOOST_AUTO_TEST_CASE(windows_as_long_as_the_text_do_nothing) {
  check_same(R"({"kind": "window", "size": 12})", R"("none")", 0);
  check_same(R"({"kind": "window", "size": 0})", R"("none")", 0);
  check_same(R"({"kind": "local_global", "interval": 1})", R"("none")", 0);
  check_same(R"({"stack": ["rope", {"kind": "window", "size": 3}]})", R"({"kind": "local_global", "size": 3})");
  check_same(
      R"({"stack": [{"kind": "inope", "interval": 2}, {"kind": "window", "size": 3, "interval": 2}, {"kind": "logn", "form": "clipped", "train_length": 4}]})",
      R"({"kind": "local_global", "interval": 2, "size": 3, "scale": "logn", "train_length": 4})");
}

// Keys that a chunk's rows do not see are not read: a key and a value that are no numbers do no harm there.
BOOST_AUTO_TEST_CASE(keys_before_the_window_are_not_read) {
  const Shape shape = small_shape();
  const std::int64_t length = 700, queries = 100, window = 5;
  for (const char* config :
       {R"({"kind": "window", "size": 5})", R"({"stack": ["alibi", {"kind": "window", "size": 5}]})",
        R"({"stack": ["sink_logit", {"kind": "window", "size": 5}]})"}) {
    const auto encoding = make(config, shape);
    for (const at::ScalarType type : {at::kDouble, at::kFloat}) {
      Span span{.batch = 1, .queries = queries, .keys = length};
      State state = begin_pass(*encoding, span);
      const std::int64_t heads = shape.query_heads, width = shape.head_width;
      const Heads given{.q = normals("q", {1, heads, span.queries, width}).to(type),
                        .k = normals("k", {1, heads, length, width}).to(type),
                        .v = normals("v", {1, heads, length, width}).to(type),
                        .scale = 0.5};
      LayerContext context = layer_context(*encoding, state, 0);
      const Tensor expected = attend(*encoding, context, given, {.route = Route::kReference});
      Heads spoiled = given;
      spoiled.k = given.k.clone();
      spoiled.v = given.v.clone();
      // The kernels for float32 go by blocks of 256 keys.
      const std::int64_t unseen = type == at::kFloat ? 512 : length - queries - window + 1;
      spoiled.k.narrow(2, 0, unseen).fill_(std::numeric_limits<double>::quiet_NaN());
      spoiled.v.narrow(2, 0, unseen).fill_(std::numeric_limits<double>::quiet_NaN());
      BOOST_TEST(
          largest_difference(attend(*encoding, context, spoiled), expected) <= (type == at::kDouble ? 1e-12 : 1e-5),
          config);
      if (std::string(config).find("sink") != std::string::npos) continue;
      BOOST_TEST(largest_difference(attend(*encoding, context, spoiled, {.route = Route::kChunked, .chunk_rows = 16}),
                                    expected) <= (type == at::kDouble ? 1e-12 : 1e-5),
                 config);
    }
  }
}

BOOST_AUTO_TEST_CASE(layers_may_begin_each_group) {
  const auto inope =
      make(R"({"kind": "inope", "interval": 3, "phase": 0})", {.width = 4, .layers = 6, .head_width = 4});
  for (int layer = 0; layer < 6; ++layer) BOOST_TEST(inope->is_position_free_head(layer, 0) == (layer % 3 == 0));
  BOOST_CHECK_THROW(make(R"({"kind": "inope", "interval": 3, "phase": 3})", {.width = 4, .layers = 6, .head_width = 4}),
                    support::ConfigError);
  const auto window =
      make(R"({"kind": "window", "size": 7, "interval": 3})", {.width = 4, .layers = 6, .head_width = 4});
  for (int layer = 0; layer < 6; ++layer) BOOST_TEST(window_of(*window, layer) == (layer % 3 == 2 ? 0 : 7));
}

BOOST_AUTO_TEST_CASE(shaw_on_four_tokens) {
  Scene f;
  const auto run = [&](const std::string& config) {
    const auto shaw = make(config, f.shape);
    set(*shaw, "key_table", numbers({.1, .2, .3, -.1, -.2, .4}, {3, 2}));
    if (config.find("false") == std::string::npos) set(*shaw, "value_table", numbers({.5, 0, 0, .5, -.5, .5}, {3, 2}));
    f.run(*shaw);
  };
  run(R"({"kind": "shaw", "max_distance": 2})");
  check(f.logits(3), {-.424264069, -1.131370850, -1.131370850, 1.343502884}, kUnit);
  check(f.output(3), {1.962153834, -.494467581}, kUnit);
  check(f.output(1), {.723582487, .776417513}, kUnit);
  run(R"({"kind": "shaw", "max_distance": 2, "values": false})");
  check(f.output(3), {1.683931781, -.621071600}, kUnit);
}

BOOST_AUTO_TEST_CASE(shaw_with_one_vector_adds_it) {
  const Shape shape = small_shape();
  const Toy toy(shape, 2, 12);
  const auto none = make(R"("none")", shape),
             keys = make(R"({"kind": "shaw", "max_distance": 0, "values": false})", shape),
             both = make(R"({"kind": "shaw", "max_distance": 0, "per_head": true})", shape);
  stir(*keys);
  stir(*both);
  const Tensor plain = toy.run(*none, Span::whole(2, 12));
  BOOST_TEST(largest_difference(toy.run(*keys, Span::whole(2, 12)), plain) <= 1e-12);
  Tensor table;
  for (const Parameter& p : both->parameters()) {
    if (p.short_name == "value_table" && p.layer == 1) table = p.value;  // the toy's layer
  }
  BOOST_TEST(largest_difference(toy.run(*both, Span::whole(2, 12)), plain + table.detach().unsqueeze(0)) <= 1e-12);
  // Where positions run the sums by class are bands; the same positions, given, go the general way.
  const auto shaw = make(R"({"kind": "shaw", "max_distance": 3})", shape);
  stir(*shaw);
  Span given = Span::whole(2, 12);
  given.positions = at::arange(12, at::kLong);
  BOOST_TEST(largest_difference(toy.run(*shaw, given), toy.run(*shaw, Span::whole(2, 12))) <= 1e-12);
}

BOOST_AUTO_TEST_CASE(abacus_adds_the_vector_of_the_place) {
  const Shape shape = small_shape();
  const auto abacus = make(R"("abacus")", shape);
  const Tensor table = abacus->parameters().front().value.detach();
  BOOST_TEST((table.sizes() == at::IntArrayRef{1024, 8}));
  BOOST_TEST(std::abs(value(table.std()) - 0.02) < 5e-4);
  const Tensor places = at::tensor({1, 2, 0, 1, 2, 0, 1, 2, 3}, at::kLong);  // 7 5 + 8 6 SEP 5 2 1
  const auto added = [&](bool training, std::int64_t step, const Tensor& numbers) {
    Span span = Span::whole(1, 9);
    span.training = training;
    span.step = step;
    State state = begin_pass(*abacus, span);
    give_numbers(state, numbers.view({1, 9, 1}));
    return add_to_tokens(*abacus, at::zeros({1, 9, 8}, at::kDouble), state)[0].detach();
  };
  BOOST_TEST(at::equal(added(false, 3, places), table.index_select(0, places)));
  std::set<std::int64_t> shifts;
  for (std::int64_t step = 0; step < 40; ++step) {
    const Tensor found = added(true, step, places);
    support::Xoshiro random(draw_key(shape.seed, "abacus", step, 0, 0));
    const auto moved = static_cast<std::int64_t>(random.below(100));
    BOOST_TEST(at::equal(found, table.index_select(0, at::where(places.gt(0), places + moved, places))));  // 0 stays
    shifts.insert(moved);
  }
  BOOST_TEST(shifts.size() > 20u);
  BOOST_CHECK_THROW(added(false, 0, places + 1021), RangeError);
  // Tokens without their numbers are no tokens off digits.
  State silent = begin_pass(*abacus, Span::whole(1, 9));
  BOOST_CHECK_THROW(add_to_tokens(*abacus, at::zeros({1, 9, 8}, at::kDouble), silent), support::ConfigError);
}

BOOST_AUTO_TEST_CASE(coupled_positions_start_anywhere_in_training_and_at_one_in_evaluations) {
  const Shape shape = small_shape();
  const auto coupled = make(R"({"stack": [{"kind": "coupled", "max_position": 9}, "rope"]})", shape);
  const Tensor ids = at::tensor({0, 2, 3, 1, 2, 3, 1, 2, 3, 4, 0}, at::kLong);
  const auto positions = [&](bool training, std::int64_t step, const Tensor& numbers, std::int64_t batch = 1) {
    Span span = Span::whole(batch, 11);
    span.training = training;
    span.step = step;
    State state = begin_pass(*coupled, span);
    give_numbers(state, numbers.view({1, 11, 1}).expand({batch, 11, 1}));
    const Tensor one = layer_context(*coupled, state, 1).positions;
    BOOST_TEST(at::equal(one, layer_context(*coupled, state, 0).positions));  // one map for all layers
    return one;
  };
  BOOST_TEST(at::equal(positions(false, 3, ids), ids));
  std::set<std::int64_t> starts;
  bool apart = false;
  for (std::int64_t step = 0; step < 60; ++step) {
    const Tensor found = positions(true, step, ids, 2);
    BOOST_TEST(at::equal(found.gt(0), ids.gt(0).expand({2, 11})));  // BOS and EOS stay at 0
    for (int row = 0; row < 2; ++row) {
      const std::int64_t start = found[row][3].item<std::int64_t>();
      BOOST_TEST(at::equal(found[row], at::where(ids.gt(0), ids + start - 1, ids)));
      starts.insert(start);
    }
    apart = apart || !at::equal(found[0], found[1]);
  }
  const std::set<std::int64_t> expected = {1, 2, 3, 4, 5, 6};  // 1 .. max_position − 3
  BOOST_TEST(starts == expected, boost::test_tools::per_element());
  BOOST_TEST(apart);
  BOOST_CHECK_THROW(positions(false, 0, ids * 3), RangeError);
  BOOST_CHECK_THROW(make(R"({"stack": ["coupled", "alibi"]})", shape), support::ConfigError);
  for (const char* over : {"learned", "sinusoidal", "rope"})
    make(std::string(R"({"stack": ["coupled", ")") + over + "\"]}", shape);
}

BOOST_AUTO_TEST_CASE(bipe_counts_within_and_between_segments) {
  const Shape shape = small_shape();
  const auto output = [&](PositionalEncoding& encoding, const Toy& toy, const std::vector<std::int64_t>& numbers) {
    const std::int64_t length = toy.x.size(1);
    const Span span = Span::whole(1, length);
    const Tensor given = at::tensor(numbers, at::kLong).view({1, length, -1});
    State state = begin_pass(encoding, span);
    if (reader_of(encoding) != nullptr) give_numbers(state, given);
    const Tensor h = add_to_tokens(encoding, toy.x, state);
    LayerContext context = layer_context(encoding, state, 1, h);
    const auto heads = [&](const Tensor& w, const Tensor& added) {
      return at::matmul(h, w).view({1, length, 2, 4}).transpose(1, 2) + added;
    };
    return attend(encoding, context,
                  {.q = heads(toy.wq, toy.q), .k = heads(toy.wk, toy.k), .v = heads(toy.wv, toy.v), .scale = 0.5});
  };
  const Toy toy(shape, 1, 6);
  const auto bipe = make(R"("bipe")", shape);
  Tensor table = bipe->parameters().front().value;
  BOOST_TEST((table.sizes() == at::IntArrayRef{16, 8}));
  // No separator: one segment, in which the table equals a learned encoding's.
  const auto learned = make(R"("learned")", shape);
  set(*learned, "table", table.detach().clone());
  BOOST_TEST(largest_difference(output(*bipe, toy, {0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0}), output(*learned, toy, {})) <=
             1e-12);
  // Each token ends a segment: rope, and one row for all.
  Toy moved = toy;
  moved.x = toy.x + table.detach()[0];
  const auto rope = make(R"("rope")", shape);
  const std::vector<std::int64_t> alone = {0, 0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5};
  BOOST_TEST(largest_difference(output(*bipe, toy, alone), output(*rope, moved, {})) <= 1e-12);
  const auto sloped = make(R"({"kind": "bipe", "inter": "alibi"})", shape),
             alibi = make(R"({"kind": "alibi", "slopes": [6, 0.375]})", shape);
  set(*sloped, "table", table.detach().clone());
  BOOST_TEST(largest_difference(output(*sloped, toy, alone), output(*alibi, moved, {})) <= 1e-12);
  // Places beyond the table share its last row.
  const auto short_table = make(R"({"kind": "bipe", "intra_positions": 3})", shape);
  BOOST_TEST(largest_difference(output(*short_table, toy, {0, 0, 1, 0, 2, 0, 3, 0, 4, 0, 5, 0}),
                                output(*short_table, toy, {0, 0, 1, 0, 2, 0, 2, 0, 2, 0, 2, 0})) == 0);
  // Two segments apart, whatever the tokens between.
  const auto eight = make(R"("bipe")", {.width = 8, .head_width = 8, .train_length = 8, .dtype = at::kDouble});
  State state = begin_pass(*eight, Span::whole(1, 4));
  give_numbers(state, at::tensor({0, 3, 1, 3, 0, 4, 0, 5}, at::kLong).view({1, 4, 2}));
  LayerContext context = layer_context(*eight, state, 0);
  Tensor q = at::empty({8}, at::kDouble), k = at::empty({8}, at::kDouble);
  for (int j = 0; j < 8; ++j) {
    q[j] = std::sin(0.1 * (j + 1));
    k[j] = std::cos(0.2 * (j + 1));
  }
  AttentionMatrices matrices;
  const auto rows = [](const Tensor& t) { return t.expand({1, 1, 4, 8}).contiguous(); };
  attend(*eight, context, {.q = rows(q), .k = rows(k), .v = rows(k), .scale = 1}, {.matrices = &matrices});
  check(matrices.logits[0][0][3].narrow(0, 0, 2), {.357167561, .357167561}, kUnit);
}

BOOST_AUTO_TEST_SUITE_END()

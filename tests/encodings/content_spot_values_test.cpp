// Encodings that read content: numbers worked out elsewhere from the formulas of the papers, in double precision; each
// passes within one unit of its last printed digit.
#include "encodings/content/path.h"
#include "spot.h"

using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

double logit(double p) { return std::log(p / (1 - p)); }

Tensor rows_of(std::vector<double> values) { return numbers(std::move(values), {1, 4, 2}); }

}  // namespace

BOOST_AUTO_TEST_SUITE(content_spot_values)

BOOST_AUTO_TEST_CASE(fox_on_four_tokens) {
  FourTokens f;
  f.run("\"none\"");
  const Tensor plain = f.logits(3).clone();
  f.x = rows_of({logit(.9), 0, logit(.8), 0, logit(.5), 0, logit(.6), 0});
  const auto fox = make_encoding("fox", f.shape);
  set(*fox, "weight", numbers({1, 0}, {1, 2}));
  f.run(*fox);
  check(f.logits(3) - plain, {-1.427116, -1.203973, -.510826, 0});
  check(f.weights(3), {.051646, .031831, .03139, .885133});
  check(f.out[0][0].narrow(0, 1, 3), {.444444, .555556, .722886, .550386, 1.853302, -.821912});
}

BOOST_AUTO_TEST_CASE(gates_that_read_nothing_remember_what_they_are_told) {
  FourTokens f;
  for (const auto& [tau, bias] : {std::pair{16, 2.741176}, {1024, 6.930983}}) {
    const Json config = {{"kind", "fox"}, {"gate", "bias_only"}, {"shortest", tau}, {"longest", tau}};
    const auto fox = make_encoding(config, f.shape);
    check(fox->parameters()[0].value, {bias});
    check_near(1 / (1 + std::exp(-bias)), std::exp(-1.0 / tau), 1e-6);
  }
  // A gate that is the same everywhere is ALiBi.
  f.run(R"({"stack": [{"kind": "alibi", "slopes": [0.0625]}]})");
  const Tensor expected = f.out.clone();
  f.run(R"({"kind": "fox", "gate": "fixed", "shortest": 16, "longest": 16})");
  BOOST_TEST(largest_difference(f.out, expected) <= 1e-14);
}

BOOST_AUTO_TEST_CASE(cable_on_four_tokens) {
  FourTokens f;
  f.run("\"none\"");
  const Tensor plain = f.logits(3).clone();
  const auto inverse = [](double g) { return std::log(std::expm1(g)); };  // of softplus
  f.x = rows_of({.2, inverse(1), .1, inverse(.5), .7, inverse(2), .3, inverse(1.5)});
  const auto run = [&](const char* kind) {
    const auto cable = make_encoding(kind, f.shape);
    set(*cable, "step", numbers({1, 0}, {1, 2}));
    if (cable->parameters().size() > 1) set(*cable, "slope", numbers({0, 1}, {1, 2}));
    f.run(*cable);
    return f.logits(3) - plain;
  };
  check(run("cable_nw"), {-1.1, -1.0, -.3, 0});
  check(run("cable"), {-1.65, -1.5, -.45, 0});
  check(run("k_cable"), {-.792993, -.693147, -.086178, 0});
}

BOOST_AUTO_TEST_CASE(grape_a_on_four_tokens) {
  FourTokens f;
  f.run("\"none\"");
  const Tensor plain = f.logits(3).clone();
  const auto keyed = make_encoding(Json::parse(R"({"kind": "grape_a", "form": "k"})"), f.shape);
  set(*keyed, "u", numbers({.6, .8}, {1, 2}));
  set(*keyed, "omega", numbers({64}, {1}));  // softplus(64) = 64, times the one head's slope 2^−8
  f.run(*keyed);
  check(f.logits(3) - plain, {-.979443, -.507734, -.191589, 0});
  check(f.weights(3), {.075311, .059515, .040256, .824918});
  const Tensor key_part = f.logits(3) - plain;
  const auto queried = make_encoding(Json::parse(R"({"kind": "grape_a", "form": "q"})"), f.shape);
  const auto both = make_encoding(Json::parse(R"({"kind": "grape_a", "form": "qk"})"), f.shape);
  for (PositionalEncoding* encoding : {queried.get(), both.get()}) {
    set(*encoding, "v", numbers({3, -4}, {1, 2}));
    set(*encoding, "omega", numbers({64}, {1}));
  }
  set(*both, "u", numbers({.6, .8}, {1, 2}));
  f.run(*queried);
  const double gate = std::log1p(std::exp((.6 + .8) / std::sqrt(2.0)));  // q_3 = (1, −1)
  const Tensor query_part = f.logits(3) - plain;
  check(query_part, {-.75 * gate, -.5 * gate, -.25 * gate, 0}, 1e-12);
  f.run(*both);
  BOOST_TEST(largest_difference(f.logits(3) - plain, key_part + query_part) <= 1e-12);
}

BOOST_AUTO_TEST_CASE(grape_ap_on_four_tokens) {
  FourTokens f;
  f.run("\"none\"");
  const AttentionMatrices plain = f.matrices;
  f.x = rows_of({1, 0, 0, 1, 1, 1, 1, -1});
  const auto grape = make_encoding(Json::parse(R"({"kind": "grape_ap", "hidden": 2})"), f.shape);
  set(*grape, "weight", numbers({1, 0, 0, 1}, {2, 2}));
  f.run(*grape);
  // The numbers are for a slope of 1/2; one head has 2^−8.
  const Tensor bias = (f.matrices.logits - plain.logits)[0][0] * 128;
  check(bias[1].narrow(0, 0, 2), {-.260129, 0});
  check(bias[2].narrow(0, 0, 3), {-.621098, -.461357, 0});
  check(bias[3], {-1.118378, -.822215, -.652978, 0});
}

BOOST_AUTO_TEST_CASE(stick_breaking_on_four_tokens) {
  FourTokens f;
  f.run("\"stickbreaking\"");
  check(f.weights(2).narrow(0, 0, 3), {.265654, .669762, 0});
  check(f.weights(3), {.269388, .265654, .19557, 0});
  check(1 - f.matrices.weights[0][0].sum(-1), {1, .330238, .064585, .269388});
  check(f.out[0][0][3], {1.003734, .191836});
  check(f.out[0][0][0], {1, 0}, 0);  // all that is left goes to the token itself
  for (int i = 0; i < 4; ++i) BOOST_TEST(std::isinf(value(f.matrices.logits[0][0][i][i])));
  f.run(R"({"kind": "stickbreaking", "remainder": false})");
  check(f.out[0][0][3], {.464958, .461224});
  f.run(R"({"kind": "stickbreaking", "attend_current": true})");
  check(f.weights(3), {.052684, .051954, .038248, .80443});
  check(f.out[0][0][3], {1.80516, -.766912});
}

BOOST_AUTO_TEST_CASE(selective_attention_on_four_tokens) {
  FourTokens f;
  f.run("\"none\"");
  const Tensor plain = f.logits(3).clone();
  f.run("\"selective\"");
  check(plain - f.logits(3), {0, .707107, 0, 0});
  check(f.weights(3), {.178588, .043418, .043418, .734577});
}

BOOST_AUTO_TEST_CASE(path_on_four_tokens_in_blocks_of_any_size) {
  FourTokens f;
  const Tensor w = numbers({1, 0, .6, .8, 0, 1, .8, -.6}, {1, 1, 4, 2});
  const Tensor beta = numbers({1, .5, 2, 1.5}, {1, 1, 4});
  for (const std::int64_t block : {1, 2, 3, 4, 64}) {
    const Tensor logits = path_logits(path_inputs(f.q, f.k, w, beta, block), 0, 4, 4, block)[0][0] / std::sqrt(2.0);
    check(logits[0].narrow(0, 0, 1), {.707107});
    check(logits[1].narrow(0, 0, 2), {.311127, .707107});
    check(logits[2].narrow(0, 0, 3), {.098995, -.707107, 0});
    check(logits[3], {-.359776, -.183848, .66468, 1.414214});
    const Tensor weights = at::softmax(logits[3], 0);
    check(weights, {.091977, .109669, .25621, .542143});
    check(at::matmul(weights, f.v[0][0]), {1.432474, -.176264});
  }
  // Reflections along one axis flip the sign of its channel at every token.
  const Tensor axis = numbers({1, 0, 1, 0, 1, 0, 1, 0}, {1, 1, 4, 2});
  const Tensor flipped =
      path_logits(path_inputs(f.q, f.k, axis, at::full({1, 1, 4}, 2.0, at::kDouble), 3), 0, 4, 4, 3)[0][0];
  for (int i = 0; i < 4; ++i) {
    for (int j = 0; j <= i; ++j) {
      const double sign = (i - j) % 2 == 0 ? 1 : -1;
      const Tensor q = f.q[0][0][i], k = f.k[0][0][j];
      check_near(value(flipped[i][j]), sign * value(q[0] * k[0]) + value(q[1] * k[1]), 1e-14);
    }
  }
  // Without strength nothing rotates.
  const Tensor still = path_logits(path_inputs(f.q, f.k, w, beta * 0, 2), 0, 4, 4, 2);
  BOOST_TEST(largest_difference(still, at::tril(at::matmul(f.q, f.k.transpose(2, 3)))) <= 1e-15);
}

BOOST_AUTO_TEST_CASE(path_over_many_blocks_is_the_product_of_its_matrices) {
  const std::int64_t length = 150, d = 4;
  const Tensor q = normals("path q", {1, 2, length, d}), k = normals("path k", {1, 1, length, d});
  Tensor w = normals("path w", {1, 1, length, d});
  w = w / w.norm(2, {-1}, true);
  const Tensor beta = at::sigmoid(normals("path beta", {1, 1, length})) * 2;
  const Tensor found = path_logits(path_inputs(q, k, w, beta, 64), 0, length, length, 64);
  Tensor expected = at::zeros({1, 2, length, length}, at::kDouble);
  for (int h = 0; h < 2; ++h) {
    for (std::int64_t i = 0; i < length; ++i) {
      Tensor turned = q[0][h][i].clone();
      for (std::int64_t j = i; j >= 0; --j) {
        expected[0][h][i][j] = at::dot(k[0][0][j], turned);
        const Tensor direction = w[0][0][j];
        turned = turned - beta[0][0][j] * at::dot(direction, turned) * direction;
      }
    }
  }
  BOOST_TEST(largest_difference(found, expected) <= 1e-12);
  const Tensor some = path_logits(path_inputs(q.narrow(2, 100, 50), k, w, beta, 64), 137, 150, 150, 64);
  BOOST_TEST(largest_difference(some, expected.narrow(2, 137, 13)) <= 1e-12);
}

BOOST_AUTO_TEST_CASE(path_fox_subtracts_what_was_forgotten) {
  FourTokens f;
  f.x = normals("path fox", {1, 4, 2});
  const auto path = make_encoding("path", f.shape);
  f.run(*path);
  const Tensor turned = f.logits(3).clone();
  for (const bool scaled : {false, true}) {
    const auto both = make_encoding(Json{{"kind", "path_fox"}, {"path_fox_scale_gate", scaled}}, f.shape);
    for (const Parameter& p : path->parameters()) set(*both, p.short_name, p.value.detach());
    set(*both, "gate_bias", numbers({1}, {1}));
    set(*both, "gate_weight", numbers({.3, -.2}, {1, 2}));
    f.run(*both);
    const Tensor gates = at::log_sigmoid(at::matmul(f.x[0], numbers({.3, -.2}, {2})) + 1);
    Tensor c = gates.cumsum(0);
    c = (c[3] - c) / (scaled ? std::sqrt(2.0) : 1);
    BOOST_TEST(largest_difference(f.logits(3) - turned, c) <= 1e-14);
  }
}

BOOST_AUTO_TEST_CASE(wall_on_four_tokens) {
  FourTokens f;
  f.x = rows_of({logit(.9), logit(.5), logit(.8), logit(.9), logit(.7), logit(.6), logit(.95), logit(.85)});
  const auto wall = make_encoding("wall", f.shape);
  set(*wall, "weight", numbers({1, 0, 0, 1}, {2, 2}));
  set(*wall, "bias", numbers({0, 0}, {2}));
  f.run(*wall);
  check(f.logits(1), {.636396, .707107});
  check(f.logits(2), {.777817, .424264, 0});
  check(f.logits(3), {.051619, -.360624, -1.272792, 1.414214});
}

BOOST_AUTO_TEST_CASE(wall_survives_gates_that_close_at_once) {
  const Shape shape{.width = 4, .query_heads = 2, .key_value_heads = 1, .head_width = 2, .train_length = 16};
  const auto wall = make_encoding("wall", shape);
  set(*wall, "bias", at::full({4}, -30.0));  // 30 nepers a token, 9,000 over the text
  const std::int64_t length = 300;
  State state = begin_pass(*wall, Span::whole(1, length));
  LayerContext context = layer_context(*wall, state, 0, normals("wall", {1, length, 4}).to(at::kFloat));
  const Tensor q = normals("wall q", {1, 2, length, 2}).to(at::kFloat),
               k = normals("wall k", {1, 1, length, 2}).to(at::kFloat);
  const Tensor out = attend(*wall, context, {.q = q, .k = k, .v = k, .scale = 0.5});
  BOOST_TEST(all_finite(out));
}

BOOST_AUTO_TEST_CASE(dape_adds_what_its_network_makes_of_logit_and_bias) {
  const Shape shape{.width = 2, .head_width = 2, .train_length = 4, .dtype = at::kDouble};
  const auto dape = make_encoding(Json::parse(R"({"kind": "dape", "bias": "alibi"})"), shape);
  Tensor in = at::zeros({32, 2}, at::kDouble), out = at::zeros({1, 32}, at::kDouble);
  in[0].fill_(1);
  out[0][0] = 2;
  set(*dape, "map1_w", in);
  set(*dape, "map1_b", at::zeros({32}, at::kDouble));
  set(*dape, "map2_w", out);
  set(*dape, "map2_b", numbers({.1}, {1}));
  // One head's slope is 2^−8, so 256 tokens away the bias is −1; the logit is .5.
  const Span span{.batch = 1, .queries = 1, .keys = 257};
  State state = begin_pass(*dape, span);
  LayerContext context = layer_context(*dape, state, 0);
  AttentionMatrices matrices;
  attend(*dape, context,
         {.q = at::full({1, 1, 1, 2}, .25, at::kDouble),
          .k = at::ones({1, 1, 257, 2}, at::kDouble),
          .v = at::ones({1, 1, 257, 2}, at::kDouble)},
         {.matrices = &matrices});
  check_near(value(matrices.logits.flatten()[0]), -.41, 1e-12);
}

// By loops, with the zero column after the last key that makes a row the same in a longer text.
BOOST_AUTO_TEST_CASE(dape_v2_convolves_along_the_keys) {
  Shape shape = small_shape(2, 1);
  const auto dape = make_encoding(Json::parse(R"({"kind": "dape_v2", "bias": "alibi"})"), shape);
  stir(*dape);
  const auto parameter = [&](const std::string& name) {
    for (const Parameter& p : dape->parameters()) {
      if (p.short_name == name && p.layer == 0) return p.value.detach();
    }
    return Tensor();
  };
  const Tensor w1 = parameter("map1_w").squeeze(2), b1 = parameter("map1_b"), w2 = parameter("map2_w").squeeze(2),
               b2 = parameter("map2_b");
  const std::int64_t length = 5;
  const Tensor q = normals("dape q", {1, 2, length, 4}), k = normals("dape k", {1, 1, length, 4});
  AttentionMatrices matrices;
  State state = begin_pass(*dape, Span::whole(1, length));
  LayerContext context = layer_context(*dape, state, 0);
  attend(*dape, context, {.q = q, .k = k, .v = k, .scale = .5}, {.matrices = &matrices});
  const double slopes[] = {1. / 16, 1. / 256};
  for (std::int64_t i = 0; i < length; ++i) {
    std::vector<std::vector<double>> read(4, std::vector<double>(length + 4));  // columns −1 .. length + 2
    for (int h = 0; h < 2; ++h) {
      for (std::int64_t j = 0; j <= i; ++j) {
        read[h][j + 1] = value(at::dot(q[0][h][i], k[0][0][j])) * .5;
        read[2 + h][j + 1] = -slopes[h] * static_cast<double>(i - j);
      }
    }
    std::vector<std::vector<double>> hidden(32, std::vector<double>(length + 4));
    for (int n = 0; n < 32; ++n) {
      for (std::int64_t j = 0; j <= length; ++j) {
        double sum = value(b1[n]);
        for (int c = 0; c < 4; ++c)
          for (int tap = 0; tap < 3; ++tap) sum += value(w1[n][c][tap]) * read[c][j + tap];
        hidden[n][j + 1] = sum > 0 ? sum : .01 * sum;
      }
    }
    for (int h = 0; h < 2; ++h) {
      for (std::int64_t j = 0; j <= i; ++j) {
        double sum = value(b2[h]) + read[h][j + 1] + read[2 + h][j + 1];
        for (int n = 0; n < 32; ++n)
          for (int tap = 0; tap < 3; ++tap) sum += value(w2[h][n][tap]) * hidden[n][j + tap];
        check_near(value(matrices.logits[0][h][i][j]), sum, 1e-12);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(tape_mixes_its_angles_as_attention_says) {
  FourTokens f;
  f.q = at::zeros_like(f.q);  // all keys weigh alike
  const auto tape = make_encoding("tape", f.shape);
  set(*tape, "rho", numbers({.5}, {1, 1}));
  State state = begin_pass(*tape, Span::whole(1, 4));
  LayerContext context = layer_context(*tape, state, 0);
  attend(*tape, context, {.q = f.q, .k = f.k, .v = f.v});
  check_near(value(state.tensors.at("tape.cos")[0][0][1][0]), .925378);
  check_near(value(state.tensors.at("tape.sin")[0][0][1][0]), 1.051839);
}

BOOST_AUTO_TEST_CASE(repo_turns_by_what_it_reads) {
  Shape shape = small_shape();
  shape.layers = 3;
  const auto repo = make_encoding("repo", shape);
  BOOST_TEST(repo->parameters().front().layer == 1);  // a third of the layers uses ordinary positions
  const Tensor q = normals("repo q", {1, 2, 5, 4}), k = normals("repo k", {1, 2, 5, 4}),
               x = normals("repo x", {1, 5, 8});
  const auto rope = make_encoding("rope", shape);
  const auto turn = [&](PositionalEncoding& encoding, int layer) {
    State state = begin_pass(encoding, Span::whole(1, 5));
    LayerContext context = layer_context(encoding, state, layer, x);
    Heads heads{.q = q, .k = k, .v = k};
    encoding.transform(context, heads);
    return heads;
  };
  BOOST_TEST(at::equal(turn(*repo, 0).q, turn(*rope, 0).q));
  stir(*repo);
  const Heads heads = turn(*repo, 2);
  const auto parameter = [&](const std::string& name) {
    for (const Parameter& p : repo->parameters()) {
      if (p.short_name == name && p.layer == 2) return p.value.detach();
    }
    return Tensor();
  };
  for (int t = 0; t < 5; ++t) {
    const Tensor gate = at::matmul(parameter("gate"), x[0][t]);
    const Tensor r = gate * at::sigmoid(gate) * at::matmul(parameter("content"), x[0][t]);
    const Tensor z = at::matmul(parameter("position"), r);
    for (int h = 0; h < 2; ++h) {
      for (int pair = 0; pair < 2; ++pair) {
        const double angle = value(z[h]) * (pair == 0 ? 1 : .01);
        const double a = value(k[0][h][t][pair]), b = value(k[0][h][t][pair + 2]);
        check_near(value(heads.k[0][h][t][pair]), a * std::cos(angle) - b * std::sin(angle), 1e-12);
        check_near(value(heads.k[0][h][t][pair + 2]), a * std::sin(angle) + b * std::cos(angle), 1e-12);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_guides_cope_counts_gates_from_the_start) {
  const auto cope = make_encoding(Json::parse(R"({"kind": "cope_guide", "positions": 4})"), small_shape());
  stir(*cope);
  const auto parameter = [&](const std::string& name) {
    for (const Parameter& p : cope->parameters()) {
      if (p.short_name == name && p.layer == 0) return p.value.detach();
    }
    return Tensor();
  };
  const Tensor q = normals("guide q", {1, 2, 9, 4}), k = normals("guide k", {1, 2, 9, 4}),
               x = normals("guide x", {1, 9, 8});
  State state = begin_pass(*cope, Span::whole(1, 9));
  LayerContext context = layer_context(*cope, state, 0, x);
  AttentionMatrices matrices;
  attend(*cope, context, {.q = q, .k = k, .v = k, .scale = .5}, {.matrices = &matrices});
  for (int h = 0; h < 2; ++h) {
    double count = 0;
    for (int j = 0; j < 9; ++j) {
      count += 1 / (1 + std::exp(-value(at::dot(parameter("gate_weight")[h], x[0][j]) + parameter("gate_bias")[h])));
      const double p = std::min(count, 4 - 1.001);
      const int low = static_cast<int>(p);
      const Tensor e = parameter("table")[low] * (1 - (p - low)) + parameter("table")[low + 1] * (p - low);
      for (int i = j; i < 9; ++i) {
        const double bias = value(at::dot(at::matmul(parameter("query"), q[0][h][i]), e)) * .5;
        check_near(value(matrices.logits[0][h][i][j]), value(at::dot(q[0][h][i], k[0][h][j])) * .5 + bias, 1e-12);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

// Numbers computed elsewhere from the formulas of the papers, in double precision; each passes within one unit of its
// last printed digit.
#include <boost/test/unit_test.hpp>

#include "encodings/bias/slopes.h"
#include "spot_values.h"

using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

BOOST_AUTO_TEST_SUITE(encoding_spot_values)

BOOST_AUTO_TEST_CASE(none_is_plain_softmax) {
  FourTokens f;
  const auto none = make_encoding("none", f.shape);
  f.run(*none);
  check(f.logits(2), {1.414214, .707107, 0});
  check(f.weights(3), {.170957, .084293, .041562, .703188});
  check(f.out, {1, 0, .5, .5, .716005, .424025, 1.618894, -.577332});
}

BOOST_AUTO_TEST_CASE(equal_tokens_share_attention_evenly_without_an_encoding) {
  FourTokens f;
  f.q = at::ones_like(f.q);
  f.k = at::ones_like(f.k);
  f.run(*make_encoding("none", f.shape));
  for (int row = 0; row < 4; ++row) {
    for (int j = 0; j <= row; ++j) check_near(f.weights(row)[j].item<double>(), 1.0 / (row + 1), 1e-15);
  }
}

BOOST_AUTO_TEST_CASE(alibi_slopes_are_those_of_the_released_code) {
  const auto slopes = [](std::int64_t heads) { return numbers(alibi_slopes(heads), {heads}); };
  check(slopes(4), {1. / 4, 1. / 16, 1. / 64, 1. / 256}, 0);
  check(slopes(6), {.25, .0625, .015625, .00390625, .5, .125}, 0);
  check(slopes(8), {1. / 2, 1. / 4, 1. / 8, 1. / 16, 1. / 32, 1. / 64, 1. / 128, 1. / 256}, 0);
  check(slopes(12),
        {.5, .25, .125, .0625, .03125, .015625, .0078125, .00390625, .70710678, .35355339, .1767767, .088388348}, 1e-8);
  const Tensor sixteen = slopes(16), twenty = slopes(20);
  check(sixteen.narrow(0, 0, 4), {.70710678, .5, .35355339, .25}, 1e-8);
  check(sixteen.narrow(0, 14, 2), {.0055242717, .00390625}, 1e-10);
  BOOST_TEST(at::equal(twenty.narrow(0, 0, 16), sixteen));
  check(twenty.narrow(0, 16, 4), {.84089642, .59460356, .42044821, .29730178}, 1e-8);
  // m_h · m_{H−1−h} is the same for all heads.
  for (int h = 0; h < 8; ++h) check_near(alibi_slopes(8)[h] * alibi_slopes(8)[7 - h], std::exp2(-9), 1e-18);
}

BOOST_AUTO_TEST_CASE(alibi_on_four_tokens) {
  FourTokens f;
  f.run(*make_encoding(Json::parse(R"({"kind": "alibi", "slopes": [0.5]})"), f.shape));
  check(f.weights(3), {.047828, .038881, .031608, .881683});
  check(f.out[0][0].narrow(0, 1, 3), {.377541, .622459, .671382, .595762, 1.842801, -.811194});
}

BOOST_AUTO_TEST_CASE(t5_buckets) {
  const auto t5 = make_encoding("t5", {.width = 2, .head_width = 2, .dtype = at::kDouble});
  set(*t5, "table", at::arange(32, at::kDouble));  // each bucket holds its own number
  const Tensor row = bias_row(*t5, 4999).flip(1)[0];
  const auto bucket = [&](std::int64_t d) { return row[d].item<double>(); };
  for (int d = 0; d < 16; ++d) BOOST_TEST(bucket(d) == d);
  const int first[] = {16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113};
  for (int b = 0; b < 16; ++b) {
    BOOST_TEST(bucket(first[b]) == 16 + b);
    BOOST_TEST(bucket(first[b] - 1) == 15 + b);
  }
  BOOST_TEST(bucket(18) == 16);
  BOOST_TEST(bucket(20) == 17);
  BOOST_TEST(bucket(32) == 21);
  BOOST_TEST(bucket(64) == 26);
  BOOST_TEST(bucket(100) == 30);
  BOOST_TEST(bucket(127) == 31);
  BOOST_TEST(bucket(1000) == 31);
  for (int d = 1; d < 5000; ++d) BOOST_REQUIRE(bucket(d) >= bucket(d - 1));
}

BOOST_AUTO_TEST_CASE(t5_sums_the_gradient_of_its_last_bucket_over_all_far_distances) {
  const auto t5 = make_encoding("t5", {.width = 2, .head_width = 2, .dtype = at::kDouble});
  const std::int64_t length = 150;
  State state = begin_pass(*t5, Span::whole(1, length));
  LayerContext context = layer_context(*t5, state, 0);
  const Tensor table = t5->table(context, length);
  const Tensor upstream = normals("upstream", {1, length});
  (table * upstream).sum().backward();
  const Tensor gradient = t5->parameters()[0].value.grad();
  check_near(gradient[31][0].item<double>(), upstream.narrow(1, 113, length - 113).sum().item<double>(), 1e-12);
}

BOOST_AUTO_TEST_CASE(fire_normalises_log_distance) {
  const Shape shape{.width = 2, .query_heads = 1, .head_width = 2, .dtype = at::kDouble};
  const auto fire = make_encoding("fire", shape);
  // A network that hands its input through.
  Tensor first = at::zeros({32}, at::kDouble);
  first[0] = 1;
  set(*fire, "w1", first);
  set(*fire, "b1", at::zeros({32}, at::kDouble));
  set(*fire, "w2", first);
  set(*fire, "b2", at::zeros({1}, at::kDouble));
  const auto x = [&](std::int64_t i, std::int64_t j) { return bias_row(*fire, i)[0][j].item<double>(); };
  check_near(x(5, 0), .10251746, 1e-8);
  check_near(x(5, 4), .02409815, 1e-8);
  check_near(x(100, 0), .60628183, 1e-8);
  check_near(x(511, 0), .99951492, 1e-8);
  check_near(x(512, 0), .99999975, 1e-8);
  check_near(x(1023, 0), .99999978, 1e-8);
  check_near(x(1023, 512), .85240906, 1e-8);
  check_near(x(4095, 3583), .65727684, 1e-8);
  check_near(x(4095, 4094), .01583916, 1e-8);
  check_near(x(700, 700), x(3, 3), 1e-15);
}

BOOST_AUTO_TEST_CASE(fire_with_two_hidden_units) {
  const Shape shape{.width = 4, .query_heads = 2, .key_value_heads = 2, .head_width = 2, .dtype = at::kDouble};
  const auto fire = make_encoding("fire", shape);
  Tensor w1 = at::zeros({32}, at::kDouble), b1 = at::zeros({32}, at::kDouble), w2 = at::zeros({2, 32}, at::kDouble);
  w1[0] = 1;
  w1[1] = -1;
  b1[1] = 0.5;
  w2[0][0] = 2;
  w2[1][1] = 4;
  set(*fire, "w1", w1);
  set(*fire, "b1", b1);
  set(*fire, "w2", w2);
  set(*fire, "b2", numbers({0, -1}, {2}));
  check(bias_row(*fire, 5).select(1, 4), {.048196, .903607});
  check(bias_row(*fire, 511).select(1, 0), {1.99903, -1}, 1e-5);
  check(bias_row(*fire, 1023).select(1, 1000), {.514884, -.029768});
}

BOOST_AUTO_TEST_CASE(ssmax_on_four_tokens) {
  FourTokens f;
  const auto ssmax = make_encoding(Json::parse(R"({"kind": "ssmax", "initial": "one"})"), f.shape);
  f.run(*ssmax);
  check(f.weights(3), {.116023, .043533, .016334, .824109});
  set(*ssmax, "s", numbers({.43}, {1}));
  f.run(*ssmax);
  check(f.weights(3), {.226766, .148771, .097602, .526862});
}

BOOST_AUTO_TEST_CASE(ssmax_starts_with_the_mean_temperature_of_plain_attention) {
  for (const auto& [length, s] :
       {std::pair{256, .219318}, {512, .190614}, {1024, .168471}, {2048, .150899}, {4096, .136631}}) {
    const auto ssmax =
        make_encoding("ssmax", {.width = 2, .head_width = 2, .train_length = length, .dtype = at::kDouble});
    check(ssmax->parameters()[0].value, {s});
  }
}

BOOST_AUTO_TEST_CASE(cope_on_four_tokens) {
  FourTokens f;
  const Tensor table = numbers({0, .5, 1, -1, 1, 0, -.5, .25}, {2, 4});
  const auto cope = make_encoding(Json::parse(R"({"kind": "cope", "positions": 4})"), f.shape);
  const auto none = make_encoding("none", f.shape);
  f.run(*none);
  const Tensor plain = f.logits(3).clone();
  const Tensor plain_out = f.out;
  f.run(*cope);
  BOOST_TEST(at::equal(f.out, plain_out));  // a table of zeros adds nothing
  set(*cope, "table", table);
  f.run(*cope);
  check(f.logits(3) - plain, {1.330238, .830238, .5, .206645});
  check(f.weights(3), {.364657, .109055, .038648, .48764});
  check(f.out[0][0].narrow(0, 1, 3), {.377541, .622459, .726868, .446056, 1.378585, -.339937});

  const auto divided = make_encoding(Json::parse(R"({"kind": "cope", "positions": 4, "cope_div": true})"), f.shape);
  set(*divided, "table", table);
  f.run(*divided);
  check(f.weights(3), {.299421, .103668, .04047, .556442});
  check(f.out[0][0][3], {1.452774, -.412304});

  const auto two = make_encoding(Json::parse(R"({"kind": "cope", "positions": 2})"), f.shape);
  set(*two, "table", table.narrow(1, 0, 2).contiguous());
  f.run(*two);
  check(f.logits(3) - plain, {.5, .5, .5, .206645});
  check(f.weights(3), {.208174, .102644, .050611, .638571});

  // The same logit for every count is a constant of the row.
  set(*cope, "table", numbers({.7, .7, .7, .7, -.2, -.2, -.2, -.2}, {2, 4}));
  f.run(*cope);
  BOOST_TEST(largest_difference(f.out, plain_out) <= 1e-14);
}

BOOST_AUTO_TEST_CASE(cope_beside_a_rotation_in_its_three_readings) {
  FourTokens f;
  const Tensor table = numbers({0, .5, 1, -1, 1, 0, -.5, .25}, {2, 4});
  const auto rope = make_encoding("rope", f.shape);
  f.run(*rope);
  check(f.logits(3), {.199574, .937231, -.764103, 1.414214});
  const Tensor rotated = f.logits(3).clone();
  const auto run = [&](const char* gates, const char* z) {
    const auto both =
        make_encoding({{"stack", {"rope", {{"kind", "cope"}, {"positions", 4}, {"gates", gates}, {"z", z}}}}}, f.shape);
    set(*both, "table", table);
    f.run(*both);
  };
  run("raw", "raw");
  check(f.weights(3), {.283294, .359294, .047114, .310297});
  run("rot", "raw");
  check(f.weights(3), {.106531, .555887, .049437, .288146});
  check(f.logits(3) - rotated, {.426251, 1.340726, .622186, .206645});
  run("rot", "rot");
  check(f.weights(3), {.14726, .133407, .049572, .669761});
}

BOOST_AUTO_TEST_CASE(rope_beside_alibi) {
  FourTokens f;
  f.run(*make_encoding("rope", f.shape));
  check(f.weights(3), {.146165, .305635, .05576, .492441});
  f.run(*make_encoding(Json::parse(R"({"stack": ["rope", {"kind": "alibi", "slopes": [0.5]}]})"), f.shape));
  check(f.weights(3), {.048582, .167488, .050379, .73355});
}

BOOST_AUTO_TEST_CASE(rope_in_both_layouts) {
  const Tensor q = f8(true), k = f8(false);
  Score interleaved = score(R"({"kind": "rope", "layout": "interleaved"})", 8, 64);
  check_near(interleaved(q, k, 5, 2), 0.713161820802, 1e-11);
  check(interleaved.last_q,
        {.218827809079, -.039377710087, .072646281549, .483426680737, .450606019766, .587898107480, .640622869024,
         .720568198982},
        1e-11);
  check(interleaved.last_k,
        {-1.245369997771, .507875398428, .670469595969, .846787834684, .532947577053, .373090611070, .170025201972,
         -.028859529843},
        1e-11);
  check_near(interleaved(q, k, 103, 100), 0.713161820802, 1e-11);
  check_near(interleaved(q, k, 2, 5), 0.819159334750, 1e-11);
  Score half = score(R"("rope")", 8, 64);
  check_near(half(q, k, 5, 2), 0.413486254130, 1e-11);
  check(half.last_q,
        {.488051752009, -.096355281638, .262953418517, .385826709080, .040262209402, .590767539275, .658182437311,
         .719294207566},
        1e-11);
  check(half.last_k,
        {-.899147102408, .830711723785, .821771437049, .696763714940, .666326921983, .538121295684, .186438762477,
         -.027806051413},
        1e-11);
  check_near(half(q, k, 103, 100), 0.413486254130, 1e-11);
  check_near(half(q, k, 2, 5), 0.827662468477, 1e-11);
  check_near(half(q, k, 9, 9), 1.348230376893, 1e-11);
  check_near(half(q, k, 40, 17), .042304745370, 1e-11);  // as a draw of positions may give them
}

BOOST_AUTO_TEST_CASE(interleaved_rope_is_half_rope_of_permuted_channels) {
  Score interleaved = score(R"({"kind": "rope", "layout": "interleaved"})", 8, 64);
  Score half = score(R"("rope")", 8, 64);
  const Tensor order = at::tensor({0, 2, 4, 6, 1, 3, 5, 7}, at::TensorOptions(at::kLong));
  const Tensor q = f8(true), k = f8(false);
  check_near(interleaved(q, k, 7, 1), half(q.index_select(0, order), k.index_select(0, order), 7, 1), 1e-14);
}

BOOST_AUTO_TEST_CASE(yarn_frequencies_for_heads_of_64) {
  const auto at_probes = [](const std::vector<double>& all) {
    Tensor some = at::empty({9}, at::kDouble);
    int n = 0;
    for (const int i : {0, 4, 8, 12, 16, 20, 24, 28, 31}) some[n++] = all.at(i);
    return some;
  };
  check(at_probes(frequencies(score(R"({"kind": "yarn", "factor": 8})", 64, 512))),
        {1, .29494320484, .066346153846, .012466671545, .00125, 3.9528470752e-4, 1.25e-4, 3.9528470752e-5,
         1.6669017902e-5},
        1e-11);
  check(at_probes(frequencies(score(R"({"kind": "yarn", "factor": 8, "truncate": false})", 64, 512))),
        {1, .29893626387, .065465076074, .011510123131, .00125, 3.9528470752e-4, 1.25e-4, 3.9528470752e-5,
         1.6669017902e-5},
        1e-11);
  check(at_probes(frequencies(score(R"({"kind": "yarn", "factor": 8, "ramp": "rotations"})", 64, 512))),
        {1, .26060724995, .032677875647, .0053603143326, .00125, 3.9528470752e-4, 1.25e-4, 3.9528470752e-5,
         1.6669017902e-5},
        1e-11);
  check(at_probes(frequencies(score(R"("rope")", 64, 512))),
        {1, .31622776602, .1, .031622776602, .01, .0031622776602, .001, 3.1622776602e-4, 1.3335214322e-4}, 1e-11);
}

BOOST_AUTO_TEST_CASE(yarn_frequencies_for_heads_of_128) {
  const auto yarn = frequencies(score(R"({"kind": "yarn", "factor": 8})", 128, 4096));
  const auto rope = frequencies(score(R"("rope")", 128, 4096));
  Tensor ratio = at::empty({7}, at::kDouble);
  int n = 0;
  for (const int i : {16, 20, 21, 30, 40, 45, 46}) ratio[n++] = yarn[i] / rope[i];
  check(ratio, {1, 1, .9663461538, .6634615385, .3269230769, .1586538462, .125}, 1e-10);
}

BOOST_AUTO_TEST_CASE(yarn_scores_and_attention_factors) {
  const Tensor q = f8(true), k = f8(false);
  Score yarn = score(R"({"kind": "yarn", "factor": 4})", 8, 64);
  check(numbers(frequencies(yarn), {4}), {1, .0625, .0025, .00025}, 1e-15);
  check_near(yarn(q, k, 5, 2), .628828287104, 1e-11);
  check_near(attention_factor(yarn), 1.138629436112, 1e-12);
  Score parts = score(R"({"kind": "yarn", "factor": 4, "ramp": "rotations", "attention_factor": 1})", 8, 64);
  check(numbers(frequencies(parts), {4}), {.47223991188, .025044979764, .0025, .00025}, 1e-11);
  check_near(parts(q, k, 5, 2), .596387320616, 1e-11);
  for (const auto& [factor, a] : {std::pair{2, 1.069314718056}, {8, 1.207944154168}, {32, 1.346573590280}}) {
    check_near(attention_factor(score(R"({"kind": "yarn", "factor": )" + std::to_string(factor) + "}", 8, 64)), a,
               1e-12);
  }
  check_near(
      attention_factor(score(R"({"kind": "yarn", "factor": 40, "mscale": 0.707, "mscale_all_dim": 0.707})", 8, 64)), 1,
      1e-15);
}

BOOST_AUTO_TEST_CASE(yarn_that_extends_nothing_is_rope) {
  const Tensor q = f8(true), k = f8(false);
  Score rope = score(R"("rope")", 8, 64);
  Score one = score(R"({"kind": "yarn", "factor": 1})", 8, 64);
  BOOST_TEST(one(q, k, 5, 2) == rope(q, k, 5, 2));
  Score dynamic = score(R"({"kind": "yarn", "dynamic": true})", 8, 64);
  dynamic.pe_len = 64;
  BOOST_TEST(dynamic(q, k, 5, 2) == rope(q, k, 5, 2));
  dynamic.pe_len = 256;
  check_near(dynamic(q, k, 5, 2), .628828287104, 1e-11);  // as the factor 4
}

BOOST_AUTO_TEST_CASE(turning_keeps_lengths_but_for_the_attention_factor) {
  const Tensor q = f8(true), k = f8(false);
  for (const auto& [config, a] : {std::pair{R"("rope")", 1.0}, {R"({"kind": "yarn", "factor": 4})", 1.138629436112}}) {
    Score s = score(config, 8, 64);
    s(q, k, 77, 3);
    check_near(s.last_q.norm().item<double>(), a * q.norm().item<double>(), 1e-11);
  }
}

BOOST_AUTO_TEST_CASE(sinusoids) {
  const char* const kind = R"("sinusoidal")";
  check(embedding(kind, 8, 0), {0, 1, 0, 1, 0, 1, 0, 1}, 0);
  check(embedding(kind, 8, 1),
        {.841470984808, .540302305868, .099833416647, .995004165278, .009999833334, .999950000417, .000999999833,
         .999999500000},
        1e-12);
  check(embedding(kind, 8, 7),
        {.656986598719, .753902254343, .644217687238, .764842187284, .069942847338, .997551000253, .006999942833,
         .999975500100},
        1e-12);
  check(embedding(kind, 8, 1023),
        {-.916485372272, .400068197201, .980414962295, -.196942889460, -.720984523114, -.692951165256, .853674282965,
         .520807275875},
        1e-12);
  check_near(at::dot(embedding(kind, 8, 7), embedding(kind, 8, 4)).item<double>(), 1.964889526278, 1e-12);
  const Tensor wide = embedding(kind, 512, 100);
  const Tensor some = wide.index_select(0, at::tensor({0, 1, 2, 3, 256, 257, 510, 511}, at::TensorOptions(at::kLong)));
  check(some,
        {-.506365641110, .862318872288, .797542363403, -.603262943149, .841470984808, .540302305868, .010366143623,
         .999946270090},
        1e-12);
  check_near(at::dot(wide, wide).item<double>(), 256, 1e-9);
  const Tensor apart = embedding(R"({"kind": "sinusoidal", "layout": "concatenated"})", 8, 7);
  check(apart,
        {.656986598719, .644217687238, .069942847338, .006999942833, .753902254343, .764842187284, .997551000253,
         .999975500100},
        1e-12);
  // As large as token embeddings: .02 rather than √½.
  check_near(embedding(R"({"kind": "sinusoidal", "pe_scale": "matched"})", 8, 7).norm().item<double>(),
             .02 * std::sqrt(8.0), 1e-12);
  check_near(embedding(R"({"kind": "sinusoidal", "pe_scale": "learned"})", 8, 7).norm().item<double>(),
             2 / std::sqrt(8.0), 1e-12);
  check_near(embedding(R"({"kind": "sinusoidal", "pe_scale": "3"})", 8, 7).norm().item<double>(), 6, 1e-12);
}

BOOST_AUTO_TEST_CASE(learned_rows_and_what_lies_beyond_them) {
  const auto row = [](const std::string& more, std::int64_t position, std::int64_t pe_len = 64) {
    Json config = Json::parse(R"({"kind": "learned", "max_positions": 8)" + more + "}");
    const auto encoding =
        make_encoding(config, {.width = 4, .head_width = 2, .train_length = 8, .seed = 3, .dtype = at::kDouble});
    Span span = Span::whole(1, 1);
    span.first_position = position;
    span.pe_len = pe_len;
    State state = begin_pass(*encoding, span);
    return add_to_tokens(*encoding, at::zeros({1, 1, 4}, at::kDouble), state)[0][0].detach();
  };
  BOOST_CHECK_THROW(row("", 8), RangeError);
  BOOST_CHECK_THROW(row("", -1), RangeError);
  BOOST_TEST(at::equal(row(R"(, "overflow": "clamp")", 30), row("", 7)));
  // Rows of noise equal the initial rows of a longer table.
  const auto longer = make_encoding(Json::parse(R"({"kind": "learned", "max_positions": 32})"),
                                    {.width = 4, .head_width = 2, .train_length = 8, .seed = 3, .dtype = at::kDouble});
  BOOST_TEST(at::equal(row(R"(, "overflow": "untrained")", 30), longer->parameters()[0].value[30].detach()));
  BOOST_TEST(at::equal(row("", 7), longer->parameters()[0].value[7].detach()));
  // Stretched over 15 places, every second is a row, the others are between.
  const std::string stretch = R"(, "overflow": "interpolate")";
  BOOST_TEST(largest_difference(row(stretch, 14, 15), row("", 7)) <= 1e-15);
  BOOST_TEST(largest_difference(row(stretch, 6, 15), row("", 3)) <= 1e-15);
  BOOST_TEST(largest_difference(row(stretch, 7, 15), (row("", 3) + row("", 4)) / 2) <= 1e-15);
  BOOST_TEST(at::equal(row(stretch, 3, 8), row("", 3)));
}

BOOST_AUTO_TEST_CASE(only_rows_that_were_used_get_a_gradient) {
  const auto encoding = make_encoding("learned", small_shape());
  State state = begin_pass(*encoding, Span::whole(2, 5));
  add_to_tokens(*encoding, normals("x", {2, 5, 8}), state).pow(2).sum().backward();
  const Tensor gradient = encoding->parameters()[0].value.grad();
  BOOST_TEST(gradient.narrow(0, 0, 5).ne(0).all().item<bool>());
  BOOST_TEST(gradient.narrow(0, 5, 11).eq(0).all().item<bool>());
}

BOOST_AUTO_TEST_CASE(randomised_positions) {
  const auto make = [](const std::string& more) {
    return make_encoding(Json::parse(R"({"kind": "randomised", "max_random_position": 2048)" + more + "}"),
                         small_shape());
  };
  const auto draw = [](PositionalEncoding& encoding, std::int64_t length, std::int64_t step, int layer = 0,
                       bool training = true) {
    Span span = Span::whole(3, length);
    span.training = training;
    span.step = step;
    return encoding.positions(layer, span);
  };
  const auto encoding = make("");
  // E[x_(r)] = r(P+1)/(T+1) − 1; a mean of 400 draws is within four standard errors.
  Tensor sum = at::zeros({40}, at::kDouble);
  for (std::int64_t step = 0; step < 400; ++step) {
    const Tensor ids = draw(*encoding, 40, step);
    BOOST_REQUIRE((ids.diff().ge(1).all().item<bool>()));
    BOOST_REQUIRE((ids[0].item<std::int64_t>() >= 0 && ids[39].item<std::int64_t>() < 2048));
    sum += ids.to(at::kDouble) / 400;
  }
  check_near(sum[0].item<double>(), 48.975609756, 4 * 48 / 20.0);
  check_near(sum[19].item<double>(), 998.512195122, 4 * 158 / 20.0);
  check_near(sum[39].item<double>(), 1998.024390244, 4 * 48 / 20.0);

  BOOST_TEST(at::equal(draw(*encoding, 9, 5), draw(*encoding, 9, 5)));
  BOOST_TEST(!at::equal(draw(*encoding, 9, 5), draw(*encoding, 9, 6)));
  BOOST_TEST(!at::equal(draw(*encoding, 9, 5, 0), draw(*encoding, 9, 5, 1)));
  BOOST_TEST(!at::equal(draw(*encoding, 9, 5, 0, true), draw(*encoding, 9, 5, 0, false)));
  BOOST_TEST(!at::equal(draw(*encoding, 9, 5, 0, false), draw(*encoding, 9, 6, 0, false)));
  const auto model = make(R"(, "scope": "model")");
  BOOST_TEST(at::equal(draw(*model, 9, 5, 0), draw(*model, 9, 5, 1)));
  const auto fixed = make(R"(, "eval": "fixed_seed")");
  BOOST_TEST(at::equal(draw(*fixed, 9, 5, 0, false), draw(*fixed, 9, 6, 0, false)));
  const auto sequential = make(R"(, "eval": "sequential")");
  BOOST_TEST(at::equal(draw(*sequential, 9, 5, 0, false), at::arange(9)));
  const auto each = make(R"(, "per_sample": true)");
  const Tensor rows = draw(*each, 9, 5);
  BOOST_TEST((rows.sizes() == at::IntArrayRef{3, 9}));
  BOOST_TEST(!at::equal(rows[0], rows[1]));
  Span some = Span::whole(1, 9);  // the same sample in another batch has the same draw
  some.training = true;
  some.step = 5;
  some.samples = {1};
  BOOST_TEST(at::equal(each->positions(0, some)[0], rows[1]));

  BOOST_TEST(at::equal(draw(*encoding, 2048, 1), at::arange(2048)));  // as many tokens as positions
  BOOST_CHECK_THROW(draw(*encoding, 2049, 1), RangeError);
}

BOOST_AUTO_TEST_SUITE_END()

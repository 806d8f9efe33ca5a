// Numbers and identities of rotary encodings and of their extensions to longer texts.
#include <boost/test/unit_test.hpp>

#include "encodings/extension/longrope.h"
#include "spot_values.h"

using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

Tensor at_probes(const std::vector<double>& all) {
  Tensor some = at::empty({9}, at::kDouble);
  int n = 0;
  for (const int i : {0, 4, 8, 12, 16, 20, 24, 28, 31}) some[n++] = all.at(i);
  return some;
}

std::vector<double> f64(const std::string& config, std::optional<std::int64_t> pe_len = {}) {
  Score s = score(config, 64, 512);
  s.pe_len = pe_len;
  return frequencies(s);
}

double f8_score(const std::string& config, std::int64_t m, std::int64_t n, std::int64_t train_length = 64,
                std::optional<std::int64_t> pe_len = {}) {
  Score s = score(config, 8, train_length);
  s.pe_len = pe_len;
  return s(f8(true), f8(false), m, n);
}

void check_same(const std::string& a, const std::string& b, std::int64_t train_length = 64,
                std::optional<std::int64_t> pe_len = {}, double unit = 1e-12) {
  for (const auto& [m, n] : {std::pair{5, 2}, {40, 17}, {199, 3}}) {
    const double x = f8_score(a, m, n, train_length, pe_len), y = f8_score(b, m, n, train_length, pe_len);
    BOOST_TEST(std::abs(x - y) <= unit, a << " gives " << x << ", " << b << " gives " << y);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(rotary_values)

BOOST_AUTO_TEST_CASE(a_part_of_the_channels) {
  check_near(f8_score(R"({"kind": "partial", "fraction": 0.5})", 5, 2), .632100795252, 1e-11);
  check_near(f8_score(R"({"kind": "partial", "fraction": 0.5, "layout": "interleaved"})", 5, 2), .771183245776, 1e-11);
  check_near(f8_score(R"({"kind": "p_rope", "fraction": 0.5})", 5, 2), .429621714840, 1e-11);
  check_near(f8_score(R"({"kind": "p_rope", "fraction": 0.5, "layout": "interleaved"})", 5, 2), .717733084217, 1e-11);
  check_near(f8_score(R"({"kind": "p_rope", "fraction": 0.75})", 5, 2), .415020851360, 1e-11);
  BOOST_TEST((frequencies(score(R"({"kind": "p_rope", "fraction": 0.5, "reversed": true})", 8, 64)) ==
              std::vector<double>{0, 0, std::pow(10000, -0.5), std::pow(10000, -0.75)}));
  // Three pairs of eight and a half are two; of an odd number of channels one stays.
  BOOST_TEST(frequencies(score(R"({"kind": "partial", "fraction": 0.7})", 8, 64)).size() == 2);
  BOOST_TEST(frequencies(score(R"({"kind": "partial", "fraction": 0.99})", 8, 64)).size() == 3);
}

BOOST_AUTO_TEST_CASE(the_second_head_of_a_query_sees_the_imaginary_part) {
  for (const char* layout : {"half", "interleaved"}) {
    const Json config = {{"kind", "rope_pp"}, {"layout", layout}};
    const auto encoding = make_encoding(config, {.width = 8,
                                                 .query_heads = 2,
                                                 .key_value_heads = 1,
                                                 .head_width = 8,
                                                 .train_length = 64,
                                                 .dtype = at::kDouble});
    BOOST_TEST(encoding->projected_heads() == 1);
    const Span span = Span::whole(1, 6);
    State state = begin_pass(*encoding, span);
    LayerContext context = layer_context(*encoding, state, 0);
    const Tensor q = f8(true).view({1, 1, 1, 8}).expand({1, 1, 6, 8}).contiguous(),
                 k = f8(false).view({1, 1, 1, 8}).expand({1, 1, 6, 8}).contiguous();
    AttentionMatrices matrices;
    const Tensor out = attend(*encoding, context, {.q = q, .k = k, .v = k}, {.matrices = &matrices});
    BOOST_TEST(out.sizes().vec() == (std::vector<std::int64_t>{1, 2, 6, 8}), boost::test_tools::per_element());
    const auto logit = [&](int head, int i, int j) { return matrices.logits[0][head][i][j].item<double>(); };
    const Json rope = {{"kind", "rope"}, {"layout", layout}};
    check_near(logit(0, 5, 2), f8_score(rope.dump(), 5, 2), 1e-12);
    if (layout == std::string("half")) check_near(logit(1, 5, 2), 1.184961918223, 1e-11);
    // As the naive sum over pairs has it, with a = q·k and b = q×k of each pair.
    const std::int64_t half = 4;
    double real = 0, imaginary = 0;
    for (std::int64_t c = 0; c < half; ++c) {
      const bool split = layout == std::string("half");
      const std::int64_t one = split ? c : 2 * c, two = split ? c + half : 2 * c + 1;
      const auto at = [](const Tensor& t, std::int64_t i) { return t.flatten()[i].item<double>(); };
      const Tensor qs = f8(true), ks = f8(false);
      const double theta = std::pow(10000.0, -2.0 * static_cast<double>(c) / 8.0), d = 3;
      const double a = at(qs, one) * at(ks, one) + at(qs, two) * at(ks, two),
                   b = at(qs, two) * at(ks, one) - at(qs, one) * at(ks, two);
      real += a * std::cos(d * theta) - b * std::sin(d * theta);
      imaginary += a * std::sin(d * theta) + b * std::cos(d * theta);
    }
    check_near(logit(0, 5, 2), real, 1e-12);
    check_near(logit(1, 5, 2), imaginary, 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(pairs_slower_than_the_training_length_are_left_alone) {
  const auto kept = [](std::int64_t length) {
    const auto theta = frequencies(score(R"("hope")", 64, length));
    return std::count_if(theta.begin(), theta.end(), [](double t) { return t > 0; });
  };
  for (const auto& [length, pairs] :
       {std::pair{128, 11}, {256, 13}, {512, 16}, {1024, 18}, {2048, 21}, {4096, 23}, {6, 0}}) {
    BOOST_TEST(kept(length) == pairs);
  }
  check_near(f8_score(R"("hope")", 5, 2), .429621714840, 1e-11);
  check_same(R"({"kind": "hope", "train_length": 100000000})", R"("rope")");
  check_same(R"({"kind": "hope", "train_length": 6})", R"("none")");
}

BOOST_AUTO_TEST_CASE(members_at_the_ends_of_their_options) {
  for (const char* same :
       {R"({"kind": "partial", "fraction": 1})", R"({"kind": "p_rope", "fraction": 1})", R"("pi")", R"("ntk")",
        R"("ntk_parts")", R"("yarn")", R"("longrope")", R"("longrope2")", R"({"kind": "llama3", "factor": 1})"}) {
    check_same(same, R"("rope")");
  }
  for (const char* same : {R"({"kind": "partial", "fraction": 0})", R"({"kind": "p_rope", "fraction": 0})"}) {
    check_same(same, R"("none")");
  }
  for (const std::int64_t length : {2, 63, 64}) {
    check_same(R"("dyn_ntk")", R"("rope")", 64, length, 0);
    check_same(R"({"kind": "dyn_ntk", "factor": 4})", R"("rope")", 64, length, 0);
    check_same(R"({"kind": "pi", "dynamic": true})", R"("rope")", 64, length, 0);
    check_same(R"({"kind": "longrope2", "factor": 4})", R"("rope")", 64, length, 0);
    check_same(R"({"kind": "longrope", "factor": 4, "attention_factor": 1})", R"("rope")", 64, length, 0);
  }
  check_same(R"({"kind": "pi", "dynamic": true})", R"({"kind": "pi", "factor": 2})", 64, 128);
}

BOOST_AUTO_TEST_CASE(frequencies_of_extensions_for_heads_of_64) {
  check(
      at_probes(f64(R"({"kind": "pi", "factor": 8})")),
      {.125, .039528470752, .0125, .0039528470752, .00125, 3.9528470752e-4, 1.25e-4, 3.9528470752e-5, 1.6669017902e-5},
      1e-11);
  check(at_probes(f64(R"({"kind": "ntk", "factor": 8})")),
        {1, .24180888793, .058471538280, .014138937647, .0034189207888, 8.2672543385e-4, 1.9990955778e-4,
         4.8339907852e-5, 1.6669017902e-5},
        1e-11);
  const char* const dynamic = R"({"kind": "dyn_ntk", "factor": 8})";
  check(at_probes(f64(dynamic, 1024)),
        {1, .23816170692, .056720998643, .013508769855, .0032172716871, 7.6623091662e-4, 1.8248686300e-4,
         4.3461382782e-5, 1.4816904802e-5},
        1e-11);
  check(at_probes(f64(dynamic, 4096)),
        {1, .18768756610, .035226622469, .0066115990331, .0012409149305, 2.3290430305e-4, 4.3713241774e-5,
         8.2044319549e-6, 2.3395112845e-6},
        1e-11);
  check(at_probes(f64(R"({"kind": "ntk_parts", "factor": 8})")),
        {1, .26060724995, .032677875647, .0053603143326, .00125, 3.9528470752e-4, 1.25e-4, 3.9528470752e-5,
         1.6669017902e-5},
        1e-11);
  check(at_probes(f64(R"({"kind": "llama3", "factor": 8})")),
        {1, .31622776602, .1, .018496675401, .00125, 3.9528470752e-4, 1.25e-4, 3.9528470752e-5, 1.6669017902e-5},
        1e-11);
}

BOOST_AUTO_TEST_CASE(bases_of_ntk) {
  // b′ from the second pair: θ′_1 = b′^(−2/d)
  const auto base = [](const std::vector<double>& theta) {
    return std::pow(theta.at(1), -static_cast<double>(theta.size()));
  };
  check_near(base(f64(R"({"kind": "ntk", "factor": 8})")), 85550.375885685, 1e-7);
  check_near(base(frequencies(score(R"({"kind": "ntk", "factor": 8})", 128, 4096))), 82684.622640562, 1e-7);
  for (const auto& [length, expected] :
       {std::pair{512, 10000.0}, {513, 10161.330767026}, {1024, 96610.543623389}, {4096, 649405.526287422}}) {
    check_near(base(f64(R"({"kind": "dyn_ntk", "factor": 8})", length)), expected, 1e-6);
  }
  const auto ntk = f64(R"({"kind": "ntk", "factor": 8})"), pi = f64(R"({"kind": "pi", "factor": 8})");
  BOOST_TEST(ntk.front() == 1);
  check_near(ntk.back(), pi.back(), 1e-17);
}

BOOST_AUTO_TEST_CASE(frequencies_and_scores_of_extensions_for_heads_of_8) {
  const auto both = [](const char* config, std::vector<double> theta, double expected,
                       std::optional<std::int64_t> pe_len = {}) {
    Score s = score(config, 8, 64);
    s.pe_len = pe_len;
    check(numbers(frequencies(s), {4}), theta, 1e-10);
    check_near(s(f8(true), f8(false), 5, 2), expected, 1e-11);
  };
  both(R"({"kind": "pi", "factor": 4})", {.25, .025, .0025, .00025}, .930294374175);
  both(R"({"kind": "ntk", "factor": 4})", {1, .0629960525, .0039685026, .00025}, .482129412627);
  const char* const dynamic = R"({"kind": "dyn_ntk", "factor": 4})";
  both(dynamic, {1, .0979994610, .0096038944, .00094117647}, .417413046131, 65);
  both(dynamic, {1, .0584803548, .0034199519, .0002}, .489925951244, 128);
  both(dynamic, {1, .0425290370, .0018087190, 7.6923076923e-5}, .516449305037, 256);
  both(R"({"kind": "ntk_parts", "factor": 4})", {.47223991188, .025044979764, .0025, .00025}, .596387320616);
  both(R"({"kind": "llama3", "factor": 4})", {1, .025464790895, .0025, .00025}, .540017367141);
}

BOOST_AUTO_TEST_CASE(llama3_for_its_own_shape) {
  const auto ratio = [](const char* config, std::int64_t width, std::int64_t length, int first, int last) {
    const auto theta = frequencies(score(config, width, length));
    const auto plain = geometric_frequencies(width == 128 ? 500000 : 10000, width);
    std::vector<double> some;
    for (int i = first; i <= last; ++i) some.push_back(theta[i] / plain[i]);
    return numbers(some, {last - first + 1});
  };
  check(ratio(R"({"kind": "llama3", "base": 500000})", 128, 8192, 28, 35),
        {1, .8281684118, .6437431331, .4935071227, .3711222795, .2714254771, .1902107436, .125}, 1e-10);
  check(ratio(R"("llama3")", 64, 512, 10, 16),
        {1, .8355852395, .5849162341, .3969409984, .2559794577, .1502732146, .125}, 1e-10);
  check_same(R"({"kind": "llama3", "factor": 4, "low_freq_factor": 2, "high_freq_factor": 7})",
             R"({"kind": "ntk_parts", "factor": 4, "alpha": 2, "beta": 7})");
}

BOOST_AUTO_TEST_CASE(interpolation_divides_positions) {
  check_near(f8_score(R"({"kind": "pi", "factor": 3})", 15, 6), f8_score(R"("rope")", 5, 2), 1e-12);
}

BOOST_AUTO_TEST_CASE(longrope_divides_each_frequency) {
  const char* const eight = R"({"kind": "longrope", "long_factors": [1, 2, 4, 8], "attention_factor": 1)";
  check_near(f8_score(std::string(eight) + R"(, "protected": 4})", 5, 2, 64, 512), .560774277141, 1e-11);
  check_near(f8_score(std::string(eight) + "}", 5, 2, 64, 512), .504224558974, 1e-11);
  check_same(std::string(eight) + "}", R"({"kind": "ntk", "factor": 8})", 64, 512);
  check_same(R"({"kind": "longrope", "long_factors": [3, 3, 3, 3]})", R"({"kind": "pi", "factor": 3})", 64, 512);
  // Up to the training length the short list holds, which is 1 throughout.
  check_same(std::string(eight) + "}", R"("rope")", 64, 64);

  for (const auto& [s, length, a] : {std::tuple{2, 1024, 1.048808848},
                                     {4, 1024, 1.095445115},
                                     {8, 512, 1.154700538},
                                     {8, 4096, 1.118033989},
                                     {32, 4096, 1.190238071}}) {
    check_near(longrope_attention_factor(s, length), a, 1e-9);
  }
  std::string list = "[";
  for (int i = 0; i < 32; ++i) list += (i ? ", " : "") + std::to_string(1 + 7.0 * i / 31);
  const std::string config = R"({"kind": "longrope", "factor": 8, "long_factors": )" + list + "]}";
  const auto theta = f64(config, 4096);
  check(numbers({theta[0], theta[16], theta[31]}, {3}), {1, .0021678321678, 1.6669017902e-5}, 1e-9);
  Score s = score(config, 64, 512);
  s.pe_len = 4096;
  check_near(attention_factor(s), 1.154700538, 1e-9);
}

BOOST_AUTO_TEST_CASE(longrope_refuses_lists_that_do_not_fit) {
  BOOST_CHECK_THROW(f8_score(R"({"kind": "longrope", "long_factors": [1, 2, 3]})", 5, 2, 64, 512),
                    support::ConfigError);
  BOOST_CHECK_THROW(f8_score(R"({"kind": "longrope", "long_factors": [1, 0, 2, 4]})", 5, 2, 64, 512),
                    support::ConfigError);
}

BOOST_AUTO_TEST_CASE(longrope2_knows_its_critical_pairs) {
  const auto schedule = [](std::int64_t width, double base) {
    return FrequencySchedule{.theta = geometric_frequencies(base, width), .base = base, .width = width};
  };
  BOOST_TEST(critical_pair(schedule(96, 1e4), 2048, 1) == 31);
  BOOST_TEST(critical_pair(schedule(128, 5e5), 8192, 1) == 35);
  BOOST_TEST(critical_pair(schedule(64, 1e4), 256, 1) == 13);
  BOOST_TEST(critical_pair(schedule(64, 1e4), 512, 1) == 16);
  BOOST_TEST(critical_pair(schedule(64, 1e4), 1024, 1) == 18);
  BOOST_TEST(critical_pair(schedule(96, 1e4), 2048, 10) == 19);
  BOOST_TEST(critical_pair(schedule(128, 5e5), 8192, 10) == 24);
  BOOST_TEST(critical_pair(schedule(64, 1e4), 512, 10) == 8);
  const auto theta = f64(R"({"kind": "longrope2", "factor": 8})", 4096), plain = f64(R"("rope")");
  BOOST_TEST(theta[0] == plain[0]);
  for (int i = 0; i < 32; ++i) {
    if (i >= 16) check_near(plain[i] / theta[i], 8, 1e-12);
    if (i > 0) BOOST_TEST(plain[i] / theta[i] >= plain[i - 1] / theta[i - 1] - 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(resonance_rounds_wavelengths) {
  Score s = score(R"("resonance")", 8, 64);
  check(numbers(frequencies(s), {4}), {1.047197551197, .099733100114, .010005072145, .001000029493}, 1e-12);
  check_near(s(f8(true), f8(false), 5, 2), .469037520180, 1e-11);
  const int expected[] = {6,    8,    11,   15,   20,    26,    35,    47,    63,    84,   112,
                          149,  199,  265,  353,  471,   628,   838,   1117,  1490,  1987, 2650,
                          3533, 4712, 6283, 8379, 11173, 14900, 19869, 26496, 35333, 47117};
  const auto periods = dynamic_cast<Rotary&>(*score(R"("resonance")", 64, 512).encoding).frequencies({}).periods;
  for (int i = 0; i < 32; ++i) BOOST_TEST(periods[i] == expected[i]);

  Score with_yarn = score(R"({"kind": "yarn_resonance", "factor": 4})", 8, 64);
  check(numbers(frequencies(with_yarn), {4}), {1.0471975512, .062209755517, .0025002727048, .00024999742598}, 1e-10);
  check_near(attention_factor(with_yarn), 1.138629436112, 1e-12);
  check_near(with_yarn(f8(true), f8(false), 5, 2), .700873682284, 1e-11);

  // Half a wavelength goes to the even one; LongRoPE's divisors come first.
  Score after = score(R"({"kind": "longrope_resonance", "long_factors": [1, 2, 4, 8], "attention_factor": 1})", 8, 64);
  after.pe_len = 512;
  const auto whole = dynamic_cast<Rotary&>(*after.encoding).frequencies({.pe_len = 512}).periods;
  BOOST_TEST((whole == std::vector<double>{6, 126, 2513, 50265}));
}

BOOST_AUTO_TEST_CASE(resonance_repeats_to_the_bit) {
  RotaryCache table(dynamic_cast<Rotary&>(*score(R"("resonance")", 16, 64).encoding).frequencies({}));
  const auto none = make_encoding("none", small_shape());
  State state = begin_pass(*none, Span::whole(1, 4096));
  LayerContext context = layer_context(*none, state, 0);
  const RotaryCache::Values all = table(context, 0, 4096, at::kFloat);
  int pair = 0;
  for (const std::int64_t period : {6, 20, 63, 199, 628, 1987}) {
    const std::int64_t rows = 4096 - period;
    BOOST_TEST(at::equal(all.cos.select(1, pair).narrow(0, 0, rows), all.cos.select(1, pair).narrow(0, period, rows)));
    BOOST_TEST(at::equal(all.sin.select(1, pair).narrow(0, 0, rows), all.sin.select(1, pair).narrow(0, period, rows)));
    ++pair;
  }
}

BOOST_AUTO_TEST_CASE(rules_stand_over_any_member_of_the_family) {
  const auto theta = [](const std::string& config) { return frequencies(score(config, 8, 64)); };
  // Pairs that are not rotated stay so.
  BOOST_TEST((theta(R"({"kind": "pi", "factor": 2, "over": {"kind": "p_rope", "fraction": 0.5}})") ==
              std::vector<double>{.5, std::pow(10000, -.25) / 2, 0, 0}));
  BOOST_TEST((theta(R"({"kind": "yarn", "factor": 4, "over": "hope"})") == std::vector<double>{1, .0625, 0, 0}));
  BOOST_TEST(theta(R"({"kind": "resonance", "over": "hope"})")[3] == 0);
  BOOST_TEST((theta(R"({"kind": "ntk", "factor": 4, "over": {"kind": "partial", "fraction": 0.5}})") ==
              std::vector<double>{1, .01 / 4}));
  const auto refusal = [](const std::string& config) {
    try {
      score(config, 8, 64);
    } catch (const support::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  const std::string option = refusal(R"({"kind": "yarn", "over": {"kind": "p_rope", "fracton": 0.5}})");
  BOOST_TEST(option.find("did you mean 'fraction'?") != std::string::npos, option);
  const std::string name = refusal(R"({"kind": "yarn", "over": "p_rop"})");
  BOOST_TEST(name.find("did you mean 'p_rope'?") != std::string::npos, name);
  BOOST_TEST(refusal(R"({"kind": "yarn", "over": "alibi"})").find("'alibi'") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(clipped_frequencies) {
  const auto theta = frequencies(score(R"("cope_clip")", 128, 1024)), plain = geometric_frequencies(10000, 128);
  BOOST_TEST(theta[43] == plain[43]);
  check_near(theta[44] / plain[44], 1, 1e-15);
  check_near(theta[45] / plain[45], .993180652, 1e-9);
  check_near(theta[54] / plain[54], .458710327, 1e-9);
  BOOST_TEST(theta[63] == 0);
  const auto narrow = frequencies(score(R"({"kind": "cope_clip", "mode": "hard"})", 64, 1024));
  BOOST_TEST(std::count(narrow.begin(), narrow.end(), 0.0) == 10);
  BOOST_TEST(narrow[21] > 0);
}

BOOST_AUTO_TEST_CASE(a_base_for_each_head) {
  const auto bases = [](std::int64_t heads) {
    // The second of four pairs has the frequency base^(−1/4).
    const auto encoding = make_encoding("multiscale_rope", {.width = 8,
                                                            .query_heads = heads,
                                                            .key_value_heads = heads,
                                                            .head_width = 8,
                                                            .train_length = 64,
                                                            .dtype = at::kDouble});
    Span span = Span::whole(1, 2);
    State state = begin_pass(*encoding, span);
    LayerContext context = layer_context(*encoding, state, 0);
    Tensor q = at::zeros({1, heads, 2, 8}, at::kDouble);
    q.select(-1, 1).fill_(1);
    Heads in{.q = q, .k = q, .v = q};
    encoding->transform(context, in);
    std::vector<double> found;
    for (std::int64_t h = 0; h < heads; ++h) {
      found.push_back(std::pow(std::atan2(value(in.q[0][h][1][5]), value(in.q[0][h][1][1])), -4));
    }
    return numbers(found, {heads});
  };
  check(bases(4), {1000, 4641.588833613, 21544.346900319, 100000}, 1e-6);
  check(
      bases(8),
      {1000, 1930.697728883, 3727.593720315, 7196.856730012, 13894.954943731, 26826.957952797, 51794.746792312, 100000},
      1e-6);
  check(bases(1), {10000}, 1e-6);
  for (const auto& [base, expected] : {std::pair{"1000", .241770158798},
                                       {"4641.588833612779", .370465934087},
                                       {"21544.346900318843", .446927240279},
                                       {"100000", .493756902839}}) {
    const std::string b = base;
    check_near(f8_score(R"({"kind": "multiscale_rope", "base_min": )" + b + R"(, "base_max": )" + b + "}", 5, 2),
               expected, 1e-10);
    check_same(R"({"kind": "multiscale_rope", "base_min": )" + b + R"(, "base_max": )" + b + "}",
               R"({"kind": "rope", "base": )" + b + "}", 64, {}, 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(xpos_rejects_positions_that_are_too_far_apart_for_its_scales) {
  const auto logits = [](std::int64_t length) {
    const auto encoding = make_encoding({{"kind", "xpos"}, {"scale_base", 1.0}},
                                        {.width = 8, .head_width = 8, .train_length = 64, .dtype = at::kFloat});
    State state = begin_pass(*encoding, Span::whole(1, length));
    LayerContext context = layer_context(*encoding, state, 0);
    const Tensor ones = at::ones({1, 1, length, 8});
    Heads heads{.q = ones, .k = ones.clone(), .v = ones.clone(), .scale = 1};
    encoding->transform(context, heads);
    return at::matmul(heads.q, heads.k.transpose(-1, -2)).tril();
  };
  BOOST_TEST(at::isfinite(logits(130)).all().item<bool>());
  BOOST_CHECK_THROW(logits(140), RangeError);
}

BOOST_AUTO_TEST_CASE(xpos_fades_with_distance) {
  check_near(f8_score(R"("xpos")", 5, 2), .711956968026, 1e-11);
  check_near(f8_score(R"("xpos")", 100, 97), .711956968026, 1e-11);
  check_near(f8_score(R"("xpos")", 1000, 488), .219133913872, 1e-11);
  check_near(f8_score(R"("xpos")", 1023, 0), -.173137651637, 1e-11);
  check_near(f8_score(R"("xpos")", 2, 5), .820903563580, 1e-11);
  check_same(R"({"kind": "xpos", "scale_base": 1e15})", R"({"kind": "rope", "layout": "interleaved"})");
  // Scales are counted from another place far out; in float32 those from 0 would overflow.
  const auto encoding = make_encoding("xpos", {.width = 8, .head_width = 8, .train_length = 64});
  Span span = Span::whole(1, 4);
  span.first_position = 1000000;
  State state = begin_pass(*encoding, span);
  LayerContext context = layer_context(*encoding, state, 0);
  const Tensor q = f8(true).to(at::kFloat).view({1, 1, 1, 8}).expand({1, 1, 4, 8}),
               k = f8(false).to(at::kFloat).view({1, 1, 1, 8}).expand({1, 1, 4, 8});
  Heads heads{.q = q, .k = k, .v = k};
  encoding->transform(context, heads);
  check_near(at::dot(heads.q[0][0][3], heads.k[0][0][0]).item<double>(), .711956968026, 1e-5);
}

BOOST_AUTO_TEST_CASE(fope_mixes_frequencies) {
  const auto mixed = [](double pad_sin, std::int64_t m, std::int64_t n) {
    Score s = score(R"({"kind": "fope", "learnable": true, "pad_sin": )" + std::to_string(pad_sin) + "}", 8, 64);
    set(*s.encoding, "cos", numbers({1, .1, .2, 1}, {1, 2, 2}));
    set(*s.encoding, "sin", numbers({1, -.1, .05, 1}, {1, 2, 2}));
    const double found = s(f8(true), f8(false), m, n);
    return std::pair(found, std::move(s));
  };
  check_near(mixed(0, 5, 2).first, .506292662360, 1e-11);
  check_near(mixed(1, 5, 2).first, 1.110055770204, 1e-11);
  check_near(mixed(0, 103, 100).first, .547482935980, 1e-11);
  check_near(mixed(1, 103, 100).first, 1.151246043824, 1e-11);
  const Tensor turned = mixed(0, 5, 2).second.last_q, q = f8(true);
  check_near(value(turned[0]), value(q[0]) * .459178697841 + value(q[4]) * .934952997733, 1e-11);
  check_near(value(turned[5]), value(q[5]) * .905948780437 + value(q[1]) * .575317966071, 1e-11);
  // Plain coefficients make hope of it.
  check_same(R"({"kind": "fope", "gain": 0})", R"("hope")");
}

BOOST_AUTO_TEST_CASE(fope_starts_as_steps_and_noise) {
  const auto encoding = make_encoding(Json::parse(R"({"kind": "fope", "learnable": true})"), {.width = 512,
                                                                                              .layers = 2,
                                                                                              .query_heads = 8,
                                                                                              .key_value_heads = 8,
                                                                                              .head_width = 64,
                                                                                              .train_length = 1024,
                                                                                              .seed = 5,
                                                                                              .dtype = at::kDouble});
  const Tensor cos = encoding->parameters()[0].value.detach();
  BOOST_TEST((cos.sizes() == at::IntArrayRef{8, 18, 16}));
  Tensor noise = cos.clone();
  int steps = 0;
  for (int j = 0; 2 * j < 18 && j < 16; ++j, ++steps) noise.select(1, 2 * j).select(1, j).sub_(1);
  BOOST_TEST(steps == 9);
  check_near(value(noise.std()), .020801257, .020801257 * .05);
  check_near(value(noise.mean()), 0, .002);
  const auto frozen = make_encoding(Json("fope"), small_shape());
  BOOST_TEST(frozen->parameters().empty());
}

BOOST_AUTO_TEST_CASE(fope_refuses_shared_heads) {
  try {
    make_encoding(Json("fope"), small_shape(4, 2));
    BOOST_FAIL("accepted");
  } catch (const support::ConfigError& error) {
    BOOST_TEST(std::string(error.what()).find("4 query heads share 2 key/value heads") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(pope_keeps_what_and_where_apart) {
  check_near(f8_score(R"("pope")", 5, 2), 5.041939228104, 1e-11);
  check_near(f8_score(R"("pope")", 103, 100), 5.041939228104, 1e-11);
  check_near(f8_score(R"("pope")", 2, 5), 5.041939228104, 1e-11);
  check_near(f8_score(R"("pope")", 5, 5), 7.433710795048, 1e-11);
  const auto shifted = [](double sign, std::int64_t m, std::int64_t n) {
    Score s = score(R"("pope")", 8, 64);
    std::vector<double> delta;
    for (int c = 0; c < 8; ++c) delta.push_back(sign * 0.1 * (c + 1));
    set(*s.encoding, "delta", numbers(delta, {1, 8}));
    return s(f8(true), f8(false), m, n);
  };
  check_near(shifted(-1, 5, 2), 3.891180406721, 1e-11);
  check_near(shifted(-1, 103, 100), 3.891180406721, 1e-11);
  check_near(shifted(-1, 2, 5), 4.533913674778, 1e-11);
  check_near(shifted(-1, 5, 5), 6.583942241045, 1e-11);
  check_near(shifted(1, 5, 2), f8_score(R"("pope")", 5, 2), 1e-14);  // what lies above 0 counts as 0

  Score s = score(R"("pope")", 8, 64);
  std::vector<double> delta;
  for (int c = 0; c < 8; ++c) delta.push_back(-0.1 * (c + 1));
  set(*s.encoding, "delta", numbers(delta, {1, 8}));
  s(f8(true), f8(false), 5, 2);
  at::dot(s.last_q, s.last_k).backward();
  check(s.encoding->parameters()[0].value.grad(),
        {.0401941755, .9137591031, .5716855115, .4740882948, .4856652670, .5173967947, .5388884597, .5432332657},
        1e-10);
  {
    at::NoGradGuard no_grad;
    Tensor(s.encoding->parameters()[0].value).fill_(.3);
  }
  s.encoding->after_step();
  BOOST_TEST(s.encoding->parameters()[0].value.eq(0).all().item<bool>());
}

BOOST_AUTO_TEST_CASE(learned_frequencies_and_their_gradients) {
  Score s = score(R"("lerope")", 8, 64);
  s(f8(true), f8(false), 5, 2);
  at::dot(s.last_q, s.last_k).backward();
  check(s.encoding->parameters()[0].value.grad(), {1.084211011823, -.162782504973, -.014755524522, -.001535719265},
        1e-11);
  set(*s.encoding, "frequency", numbers({.1, -.2, .3, 0}, {4}));
  check_near(s(f8(true), f8(false), 5, 2), .569929142035, 1e-11);
  Score direct = score(R"({"kind": "lrope", "form": "direct"})", 8, 64);
  direct(f8(true), f8(false), 5, 2);
  at::dot(direct.last_q, direct.last_k).backward();
  check(direct.encoding->parameters()[0].value.grad(), {1.084211011823, -1.627825049732, -1.475552452, -1.535719265},
        1e-9);
  for (const char* form : {"scale", "direct", "log", "log_shared"}) {
    check_same(R"({"kind": "lrope", "form": ")" + std::string(form) + R"("})", R"("rope")", 64, {},
               form[2] == 'g' ? 1e-11 : 0);
  }
  // A rule slows learned frequencies as it slows the plain frequencies.
  Score slowed = score(R"({"kind": "pi", "factor": 2, "over": {"kind": "lrope", "form": "direct"}})", 8, 64);
  set(*slowed.encoding, "frequency", numbers({2, .2, .02, .002}, {4}));
  check_near(slowed(f8(true), f8(false), 5, 2), f8_score(R"("rope")", 5, 2), 1e-12);
  // One learned pair's gradient is 0 at distance 0.
  Score own = score(R"("lrope")", 8, 64);
  own(f8(true), f8(false), 7, 7);
  at::dot(own.last_q, own.last_k).backward();
  BOOST_TEST(value(own.encoding->parameters()[0].value.grad().abs().max()) <= 1e-14);
}

BOOST_AUTO_TEST_CASE(layers_without_positions) {
  const auto turned = [](const std::string& config, int layer, std::int64_t position) {
    const auto encoding = make_encoding(
        Json::parse(config), {.width = 8, .layers = 8, .head_width = 8, .train_length = 8192, .dtype = at::kDouble});
    Span span = Span::whole(1, 1);
    span.first_position = position;
    State state = begin_pass(*encoding, span);
    LayerContext context = layer_context(*encoding, state, layer);
    Heads heads{.q = at::ones({1, 1, 1, 8}, at::kDouble),
                .k = at::ones({1, 1, 1, 8}, at::kDouble),
                .v = at::ones({1, 1, 1, 8}, at::kDouble)};
    encoding->transform(context, heads);
    return heads.q.flatten();
  };
  const Tensor one = at::ones({8}, at::kDouble);
  for (int layer = 0; layer < 8; ++layer) {
    BOOST_TEST(at::equal(turned(R"("inope")", layer, 5), one) == (layer == 3 || layer == 7));
    BOOST_TEST(at::equal(turned(R"({"kind": "inope", "interval": 9})", layer, 5), turned(R"("rope")", layer, 5)));
    BOOST_TEST(at::equal(turned(R"({"kind": "inope", "interval": 1})", layer, 5), one));
  }
  for (const auto& [position, tau] : {std::pair{0, 1.0},
                                      {4095, 1.0},
                                      {8190, 1.0},
                                      {8191, 1.069314718056},
                                      {8192, 1.069314718056},
                                      {16383, 1.109861228867},
                                      {65535, 1.219722457734}}) {
    check(turned(R"({"kind": "inope", "temperature": true})", 3, position) / one, std::vector<double>(8, tau), 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(clex_follows_its_equation) {
  const auto theta = [](const std::string& more, std::int64_t pe_len, bool trained) {
    const auto encoding = make_encoding(Json::parse(R"({"kind": "clex")" + more + "}"),
                                        {.width = 8, .head_width = 8, .train_length = 64, .dtype = at::kDouble});
    if (trained) {
      Tensor up = at::empty({4, 8}, at::kDouble), down = at::empty({8, 4}, at::kDouble);
      for (int a = 0; a < 4; ++a) {
        for (int c = 0; c < 8; ++c) {
          up[a][c] = .05 * std::sin(a + 1 + .5 * c);
          down[c][a] = .1 * std::cos(.3 * c + a);
        }
      }
      set(*encoding, "up", up);
      set(*encoding, "down", down);
    }
    Span span = Span::whole(1, 1);
    span.pe_len = pe_len;
    State state = begin_pass(*encoding, span);
    return state.tensors.at("clex.theta").detach();
  };
  BOOST_TEST(at::equal(theta("", 64, true), numbers(geometric_frequencies(10000, 8), {4}).log().exp()));
  check(theta("", 65, false), {1, .069336127435, .0048074985677, 3.3333333333e-4}, 1e-11);
  check(theta("", 256, false), {1, .052275795857, .0027327588325, 1.4285714286e-4}, 1e-11);
  check(theta("", 128, true), {1.3049843144, .069157873480, .0036737179386, 2.4990080004e-4}, 1e-10);
  check(theta("", 256, true), {2.3550504805, .052652663662, .0011694246422, 5.6681325575e-5}, 1e-10);
  check(theta(R"(, "act": "silu")", 128, true), {1.2513806806, .066724275862, .0036856141427, 2.5992175956e-4}, 1e-10);
  check(theta(R"(, "dt": 0.1)", 256, true) / theta("", 256, true), {1, 1, 1, 1}, 4e-6);
  BOOST_TEST(at::equal(theta(R"(, "max_factor": 4)", 100000, true), theta("", 256, true)));  // no further than trained
  // Untrained it is ntk with factor 2t − 1.
  check(theta("", 256, false) - numbers(frequencies(score(R"({"kind": "ntk", "factor": 7})", 8, 64)), {4}),
        {0, 0, 0, 0}, 1e-8);
}

BOOST_AUTO_TEST_CASE(clex_draws_a_length_and_positions_for_each_step) {
  const auto encoding = make_encoding("clex", small_shape());
  Span span = Span::whole(2, 16);
  span.training = true;
  std::set<std::int64_t> ends;
  for (span.step = 0; span.step < 60; ++span.step) {
    const Tensor ids = encoding->positions(0, span);
    BOOST_TEST(at::equal(ids, encoding->positions(1, span)));
    BOOST_TEST(ids.diff().ge(1).all().item<bool>());
    BOOST_TEST(ids[0].item<std::int64_t>() == 0);
    ends.insert((ids[15].item<std::int64_t>() + 1) / 16);
    if (ids[15].item<std::int64_t>() == 15) BOOST_TEST(at::equal(ids, at::arange(16)));
  }
  BOOST_TEST(*ends.begin() == 1);
  BOOST_TEST(*ends.rbegin() == 16);
  BOOST_TEST(ends.size() > 10U);
}

BOOST_AUTO_TEST_SUITE_END()

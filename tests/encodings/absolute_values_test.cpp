// Numbers and properties of encodings that are added to token embeddings.
#include <boost/test/unit_test.hpp>

#include "spot_values.h"

using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

BOOST_AUTO_TEST_SUITE(absolute_values)

BOOST_AUTO_TEST_CASE(sines_without_cosines) {
  const char* const full = R"("sinonly")";
  check(embedding(full, 8, 0), {0, 0, 0, 0, 0, 0, 0, 0}, 0);
  check(embedding(full, 8, 1),
        {8.414709848079e-1, 3.109835929072e-1, 9.983341664683e-2, 3.161750640243e-2, 9.999833334167e-3,
         3.162272389708e-3, 9.999998333333e-4, 3.162277607464e-4},
        1e-13);
  check(embedding(full, 8, 7),
        {.656986598719, .800421646323, .644217687238, .219556091352, .069942847338, .022134135897, .006999942833,
         .002213592554},
        1e-12);
  check(embedding(full, 8, 1023),
        {-.916485372272, .082943286276, .980414962295, .804108266642, -.720984523114, -.093281579409, .853674282965,
         .317887903601},
        1e-12);
  const Tensor sinusoid = embedding(R"("sinusoidal")", 8, 1023);
  const Tensor twice = embedding(R"({"kind": "sinonly", "mode": "dup"})", 8, 1023);
  const Tensor zeros = embedding(R"({"kind": "sinonly", "mode": "zeros"})", 8, 1023);
  for (int i = 0; i < 4; ++i) {
    BOOST_TEST(value(twice[2 * i]) == value(sinusoid[2 * i]));
    BOOST_TEST(value(twice[2 * i + 1]) == value(sinusoid[2 * i]));
    BOOST_TEST(value(zeros[2 * i]) == value(sinusoid[2 * i]));
    BOOST_TEST(value(zeros[2 * i + 1]) == 0);
  }
  BOOST_CHECK_THROW(embedding(R"({"kind": "sinonly", "mode": "dup"})", 7, 1), support::ConfigError);
  BOOST_TEST(embedding(full, 7, 1).numel() == 7);  // a frequency for each channel needs no pairs
}

BOOST_AUTO_TEST_CASE(bits_of_a_position) {
  const auto bits = [](const std::string& kind, std::int64_t position) {
    return embedding(R"({"kind": ")" + kind + R"(", "pe_max_positions": 4096})", 12, position);
  };
  check(bits("binary", 0), {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}, 0);
  check(bits("binary", 13), {1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0}, 0);
  check(bits("binary", 1234), {0, 1, 0, 0, 1, 0, 1, 1, 0, 0, 1, 0}, 0);
  check(bits("binary_norm", 13), {1, -1, 1, 1, -1, -1, -1, -1, -1, -1, -1, -1}, 0);
  // B − 2·popcount(p xor p')
  check_near(value(at::dot(bits("binary_norm", 1023), bits("binary_norm", 1024))), 12 - 2 * 11, 0);
  check_near(value(at::dot(bits("binary_norm", 13), bits("binary_norm", 13 ^ 64))), 12 - 2, 0);
  BOOST_CHECK_THROW(bits("binary", 4096), RangeError);
  BOOST_CHECK_THROW(bits("binary", -1), RangeError);
  BOOST_TEST(value(bits("binary", 4095).sum()) == 12);
}

BOOST_AUTO_TEST_CASE(decimal_digits_of_a_position) {
  check(embedding(R"("decimal")", 5, 13), {3, 1, 0, 0, 0}, 0);
  check(embedding(R"("decimal")", 5, 1234), {4, 3, 2, 1, 0}, 0);
  check(embedding(R"("decimal_norm")", 5, 1234), {-.111111111111, -.333333333333, -.555555555556, -.777777777778, -1},
        1e-12);
  check(embedding(R"("decimal_norm")", 5, 0), {-1, -1, -1, -1, -1}, 0);
  // x(9 − digit) = −x(digit)
  check(embedding(R"("decimal_norm")", 5, 1234) + embedding(R"("decimal_norm")", 5, 99999 - 1234), {0, 0, 0, 0, 0},
        1e-15);
  BOOST_CHECK_THROW(embedding(R"("decimal")", 5, 100000), RangeError);
  double sum = 0;
  const Tensor digits = embedding(R"("decimal")", 8, 65535);
  for (int j = 0; j < 8; ++j) sum += value(digits[j]) * std::pow(10, j);
  BOOST_TEST(sum == 65535);
}

BOOST_AUTO_TEST_CASE(where_digits_go) {
  // Behind the last digit of a narrow code come zeros, also for −1 … 1; or the first digit again.
  check(embedding(R"({"kind": "binary_norm", "pe_max_positions": 8})", 8, 5), {1, -1, 1, 0, 0, 0, 0, 0}, 0);
  const Tensor tiled = embedding(R"({"kind": "binary_norm", "pe_max_positions": 16, "fill": "tile"})", 8, 5);
  check(tiled, {1, -1, 1, -1, 1, -1, 1, -1}, 0);
  check_near(value(tiled.pow(2).sum()), 8, 0);
  check(embedding(R"({"kind": "decimal", "pe_max_positions": 1000, "fill": "tile"})", 8, 321), {1, 2, 3, 1, 2, 3, 1, 2},
        0);
  const auto projected = make_encoding(Json::parse(R"({"kind": "decimal", "fill": "project"})"),
                                       {.width = 4, .head_width = 2, .train_length = 8, .dtype = at::kDouble});
  BOOST_REQUIRE(projected->parameters().size() == 1);
  const Tensor matrix = projected->parameters()[0].value.detach();
  BOOST_TEST((matrix.sizes() == at::IntArrayRef{5, 4}));
  Span span = Span::whole(1, 1);
  span.first_position = 302;
  State state = begin_pass(*projected, span);
  const Tensor found = add_to_tokens(*projected, at::zeros({1, 1, 4}, at::kDouble), state)[0][0].detach();
  BOOST_TEST(largest_difference(found, 2 * matrix[0] + 3 * matrix[2]) <= 1e-15);
}

BOOST_AUTO_TEST_CASE(more_digits_than_channels_are_refused) {
  try {
    embedding(R"("binary")", 8, 1);
    BOOST_FAIL("accepted");
  } catch (const support::ConfigError& error) {
    BOOST_TEST(std::string(error.what()).find("16 digits into 8 channels") != std::string::npos, error.what());
  }
}

BOOST_AUTO_TEST_CASE(a_table_that_starts_as_the_sinusoid) {
  Shape shape = small_shape();
  shape.dtype = at::kFloat;
  const Tensor x = normals("x", {2, 16, 8}).to(at::kFloat);
  const auto added = [&](PositionalEncoding& encoding) {
    State state = begin_pass(encoding, Span::whole(2, 16));
    return add_to_tokens(encoding, x, state);
  };
  const auto sininit = make_encoding("sininit", shape), sinusoidal = make_encoding("sinusoidal", shape);
  BOOST_TEST(at::equal(added(*sininit).detach(), added(*sinusoidal)));  // to the bit
  BOOST_TEST(sininit->parameters()[0].value.numel() == 16 * 8);
  BOOST_TEST(!sininit->parameters()[0].weight_decay);
  // Rows that nothing has trained hold the sinusoid still.
  check(embedding(R"({"kind": "sininit", "overflow": "untrained"})", 8, 1023) - embedding(R"("sinusoidal")", 8, 1023),
        {0, 0, 0, 0, 0, 0, 0, 0}, 1e-12);
  BOOST_CHECK_THROW(embedding(R"("sininit")", 8, 8), RangeError);
}

BOOST_AUTO_TEST_CASE(the_scale_is_matched_to_the_token_embedding) {
  const auto rms = [](const std::string& kind, std::int64_t width, std::int64_t positions) {
    const auto encoding = make_encoding(Json::parse(R"({"kind": ")" + kind + R"(", "pe_max_positions": )" +
                                                    std::to_string(positions) + R"(, "pe_scale": "matched"})"),
                                        {.width = width, .head_width = 2, .train_length = 8, .dtype = at::kDouble});
    State state = begin_pass(*encoding, Span::whole(1, positions));
    return std::sqrt(
        value(add_to_tokens(*encoding, at::zeros({1, positions, width}, at::kDouble), state).pow(2).mean()));
  };
  for (const auto& [kind, positions] :
       {std::pair{"binary", 4096}, {"binary_norm", 4096}, {"decimal", 1000}, {"decimal_norm", 1000}}) {
    check_near(rms(kind, 16, positions), .02, 1e-12);
  }
}

BOOST_AUTO_TEST_SUITE_END()

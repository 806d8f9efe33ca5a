// Encodings that work without a causal mask, and encodings that need one. doc/encodings.md lists the former.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include <set>

#include "fixture.h"

namespace data = boost::unit_test::data;
using namespace pe;
using namespace pe::encodings;
using namespace pe::test;

namespace {

Span both_ways(std::int64_t batch, std::int64_t length) {
  Span span = Span::whole(batch, length);
  span.pe_len = length;
  span.causal = false;
  return span;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bidirectional)

BOOST_AUTO_TEST_CASE(those_that_work_either_way_are_known) {
  const std::set<std::string> expected = {"none",
                                          "sinusoidal",
                                          "sinonly",
                                          "sininit",
                                          "learned",
                                          "binary",
                                          "binary_norm",
                                          "decimal",
                                          "decimal_norm",
                                          "rope",
                                          "pi",
                                          "ntk",
                                          "ntk_parts",
                                          "dyn_ntk",
                                          "yarn",
                                          "yarn_resonance",
                                          "resonance",
                                          "llama3",
                                          "longrope",
                                          "longrope2",
                                          "longrope_resonance",
                                          "clex",
                                          "p_rope",
                                          "partial",
                                          "cope_clip",
                                          "hope",
                                          "inope",
                                          "fope",
                                          "pope",
                                          "lrope",
                                          "lerope",
                                          "multiscale_rope",
                                          "rope_pp",
                                          "rope_id",
                                          "rove",
                                          "rfs",
                                          "pose",
                                          "cream",
                                          "coupled",
                                          "abacus",
                                          "bipe",
                                          "randomised",
                                          "uniform_scale",
                                          "head_scale"};
  std::set<std::string> found;
  for (const EncodingEntry& entry : encodings::encodings()) {
    if (!make_encoding(entry.name, wide_shape())->needs_causal_mask()) found.insert(entry.name);
  }
  for (const std::string& name : found) BOOST_TEST(expected.count(name), name << " works either way and is not listed");
  for (const std::string& name : expected)
    BOOST_TEST(found.count(name), name << " is listed and asks for a causal mask");
}

SUBJECT_TEST_CASE(without_a_mask_all_routes_agree_and_the_last_row_sees_what_it_always_saw, subjects()) {
  const auto encoding = make_encoding(subject.config, small_shape());
  stir(*encoding);
  at::NoGradGuard no_grad;
  const std::int64_t length = 9;
  const Toy toy(small_shape(), 2, length);
  if (encoding->needs_causal_mask()) {
    BOOST_CHECK_THROW(toy.run(*encoding, both_ways(2, length)), support::ConfigError);
    return;
  }
  Span causal = both_ways(2, length);
  causal.causal = true;
  const Tensor reference = toy.run(*encoding, both_ways(2, length), {.route = Route::kReference});
  BOOST_TEST(largest_difference(reference, toy.run(*encoding, both_ways(2, length))) <= 1e-11);
  BOOST_TEST(largest_difference(reference, toy.run(*encoding, both_ways(2, length),
                                                   {.route = Route::kChunked, .chunk_rows = 4})) <= 1e-11);
  const Tensor masked = toy.run(*encoding, causal, {.route = Route::kReference});
  BOOST_TEST(largest_difference(reference.select(2, length - 1), masked.select(2, length - 1)) <= 1e-11);
  BOOST_TEST(largest_difference(reference.select(2, 0), masked.select(2, 0)) > 1e-3);  // the first row sees all now
  if (encoding->facts().stochastic) return;
  // Documents stay apart in both directions.
  Span packed = both_ways(2, length);
  packed.restart_positions = true;
  packed.doc_start = at::tensor({0, 0, 0, 0, 4, 4, 4, 4, 4}, at::TensorOptions(at::kLong));
  for (const AttendOptions& options : {AttendOptions{.route = Route::kReference}, AttendOptions{}}) {
    const Tensor both = toy.run(*encoding, packed, options);
    for (const auto& [begin, count] : {std::pair<std::int64_t, std::int64_t>{0, 4}, {4, 5}}) {
      Span alone = both_ways(2, count);
      alone.pe_len = length;
      BOOST_TEST(largest_difference(both.narrow(2, begin, count), toy.part(begin, count).run(*encoding, alone)) <=
                 1e-11);
    }
  }
}

// A relative encoding sees distances only, those into the future among them.
BOOST_AUTO_TEST_CASE(a_common_shift_moves_no_logit_of_a_rotary_encoding_in_either_triangle) {
  const auto encoding = make_encoding("rope", small_shape());
  at::NoGradGuard no_grad;
  const Toy toy(small_shape(), 1, 6);
  AttentionMatrices matrices;
  toy.run(*encoding, both_ways(1, 6), {.matrices = &matrices});
  const Tensor before = matrices.logits.clone();
  Span moved = both_ways(1, 6);
  moved.first_position = 37;
  toy.run(*encoding, moved, {.matrices = &matrices});
  BOOST_TEST(largest_difference(before, matrices.logits) <= 1e-9);
  BOOST_TEST(all_finite(before));
}

BOOST_AUTO_TEST_SUITE_END()

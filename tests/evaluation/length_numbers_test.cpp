#include "evaluation/language_modelling/length_numbers.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "support/random.h"

using namespace pe::evaluation;
namespace tt = boost::test_tools;

namespace {

const std::vector<std::int64_t> kLengths = {64, 128, 256, 512};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Beginnings of as many bins of a quarter of a training length of 64.
std::vector<std::int64_t> begins(std::size_t bins) {
  std::vector<std::int64_t> result;
  for (std::size_t i = 0; i < bins; ++i) result.push_back(static_cast<std::int64_t>(i) * 16);
  return result;
}

double blowup(const std::vector<double>& losses) { return blowup_position(begins(losses.size()), losses, 64); }

}  // namespace

BOOST_AUTO_TEST_SUITE(length_numbers)

BOOST_AUTO_TEST_CASE(usable_context_ends_where_perplexity_first_rises) {
  // 64 is within 5 % of 128, 256 too, 512 is not.
  BOOST_TEST(usable_context(kLengths, {2.92, 2.9, 2.93, 3.5}, 128, 0.05) == 256.0);
  // A length that fails hides those behind it.
  BOOST_TEST(usable_context(kLengths, {2.92, 2.9, 3.5, 2.9}, 128, 0.05) == 128.0);
  BOOST_TEST(usable_context(kLengths, {2.92, 2.9, kInfinity, 2.9}, 128, 0.05) == 128.0);
  // A shorter length is worse for want of context: it does not make the training length unusable.
  BOOST_TEST(usable_context(kLengths, {3.1, 2.9, 2.9, 2.9}, 128, 0.05) == 512.0);
  BOOST_TEST(usable_context(kLengths, {3.1, 2.9, 3.5, 2.9}, 128, 0.05) == 128.0);
  BOOST_TEST(std::isnan(usable_context(kLengths, {3, 2, 1, 0}, 100, 0.05)));
}

BOOST_AUTO_TEST_CASE(effective_context_is_the_shortest_that_is_almost_best) {
  BOOST_TEST(effective_context(kLengths, {3.0, 2.9, 2.805, 2.8}, 0.01) == 256.0);
  BOOST_TEST(effective_context(kLengths, {2.9, 2.9, 2.9, 2.9}, 0.01) == 64.0);
  BOOST_TEST(effective_context(kLengths, {3.0, 2.9, kInfinity, kInfinity}, 0.01) == 128.0);
  BOOST_TEST(std::isnan(effective_context({64}, {std::nan("")}, 0.01)));
}

BOOST_AUTO_TEST_CASE(degradation_is_the_mean_excess_beyond_training) {
  BOOST_TEST(degradation(kLengths, {3, 2, 2.5, 3}, 128) == 0.75);
  BOOST_TEST(degradation(kLengths, {3, 2, 1, 2.5}, 128) == 0.25);  // gains are no credit
  BOOST_TEST(std::isnan(degradation(kLengths, {3, 2, 1, 1}, 512)));
  BOOST_TEST(perplexity_ratio(kLengths, {3, 2, 2.5, 3}, 128, 2) == std::exp(0.5), tt::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(blow_up_is_against_the_second_half_of_the_training_length) {
  // The reference is the mean of 3.0 and 3.1, at [32, 64).
  BOOST_TEST(blowup({4, 3.5, 3.0, 3.1, 3.1, 3.2, 3.3}) == 80.0);
  BOOST_TEST(blowup({4, 3.5, 3.0, 3.1, 3.2, 3.1, 3.3}) == 96.0);  // it came down again, so the rise at 64 is not it
  BOOST_TEST(blowup({4, 3.5, 3.0, 3.1, 5, 6}) == 64.0);           // everything beyond training is up
  BOOST_TEST(std::isinf(blowup({4, 3.5, 3.0, 3.1, 3.3, 3.1})));
  // One low bin is no reference.
  BOOST_TEST(std::isinf(blowup({4, 2.0, 3.0, 3.1, 3.1, 3.1})));
  BOOST_TEST(std::isnan(blowup({4, 3.5, 3.0, 3.1})));  // nothing beyond training
  BOOST_TEST(std::isnan(blowup_position({}, {}, 64)));
}

BOOST_AUTO_TEST_CASE(a_flat_curve_has_no_blow_up_and_a_rise_has_an_interval) {
  // 32 documents, training length 128, losses of tokens with a standard deviation of 2.3 nats: the sum of a bin of 32
  // tokens has one of 13. Against the least of many narrow bins almost every flat curve rose.
  int found = 0, covered = 0;
  const int curves = 200;
  const auto number = [](const auto& at, const auto& losses) { return blowup_position(at, losses, 128); };
  for (int rises = 0; rises < 2; ++rises) {
    for (int curve_number = 0; curve_number < curves; ++curve_number) {
      pe::support::Xoshiro random(pe::support::make_key({7, static_cast<std::uint64_t>(curve_number)}));
      LengthCurve curve;
      for (std::int64_t bin = 0; bin < 16; ++bin) {
        curve.lengths.push_back(32 * bin);
        curve.nll.emplace_back();
        curve.tokens.emplace_back();
        for (int document = 0; document < 32; ++document) {
          double noise = -6;  // twelve uniform numbers: standard deviation 1
          for (int i = 0; i < 12; ++i) noise += random.uniform();
          curve.nll.back().push_back(32 * (rises != 0 && bin >= 8 ? 5.0 : 4.0) + 13 * noise);
          curve.tokens.back().push_back(32);
        }
      }
      const WithInterval value = with_intervals(curve, {number}, 400)[0];
      const bool established = std::isfinite(value.value) && std::isfinite(value.high);
      if (rises == 0)
        found += established ? 1 : 0;
      else
        covered += established && value.low <= 256 && 256 <= value.high ? 1 : 0;
    }
  }
  BOOST_TEST(found <= curves / 50);
  BOOST_TEST(covered == curves);
}

BOOST_AUTO_TEST_CASE(gain_needs_four_times_the_training_length) {
  // Training length 64: [32, 64) against [128, 256).
  const std::vector<double> losses = {4, 4, 3, 3, 9, 9, 9, 9, 2, 2, 2, 2, 2, 2, 2, 2};
  BOOST_TEST(gain_at_four(begins(16), losses, 64) == 1.0);
  BOOST_TEST(std::isnan(gain_at_four(begins(14), {losses.begin(), losses.begin() + 14}, 64)));
}

BOOST_AUTO_TEST_CASE(intervals_are_over_documents_and_shrink_with_them) {
  LengthCurve curve{kLengths, {}, {}};
  for (std::size_t at = 0; at < kLengths.size(); ++at) {
    curve.nll.emplace_back();
    curve.tokens.emplace_back();
    for (int d = 0; d < 40; ++d) {
      curve.tokens.back().push_back(32);
      // The gain from 256 to 512 tokens is 0.01 on average and up to 0.1 in a document.
      curve.nll.back().push_back(32 * (3 - 0.2 * static_cast<double>(std::min<std::size_t>(at, 2)) -
                                       (at == 3 ? 0.01 + 0.1 * std::sin(d * 2.7) : 0)));
    }
  }
  const auto number = [](const auto& lengths, const auto& losses) { return effective_context(lengths, losses, 0.01); };
  const auto loss = [](const auto&, const auto& losses) { return losses[3]; };
  const auto both = with_intervals(curve, {number, loss}, 2000);
  BOOST_TEST(both[0].low == 256.0);
  BOOST_TEST(both[0].high == 512.0);
  BOOST_TEST((both[0].value == 256.0 || both[0].value == 512.0));
  BOOST_TEST(both[1].low < both[1].value);
  BOOST_TEST(both[1].value < both[1].high);
  // sd of 0.1·sin over 40 documents is 0.0707: standard error 0.0112.
  BOOST_TEST((both[1].high - both[1].low) / (2 * 1.96) == 0.0112, tt::tolerance(0.1));
  const auto again = with_intervals(curve, {number, loss}, 2000);
  BOOST_TEST(again[1].low == both[1].low);
  LengthCurve alone{{64}, {{3}}, {{1}}};
  BOOST_TEST(std::isnan(with_intervals(alone, {[](const auto&, const auto& losses) { return losses[0]; }})[0].low));
}

BOOST_AUTO_TEST_SUITE_END()

#include "evaluation/length_numbers.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

using namespace pe::evaluation;
namespace tt = boost::test_tools;

namespace {

const std::vector<std::int64_t> kLengths = {64, 128, 256, 512};
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<PositionBin> bins(const std::vector<double>& means, std::int64_t width = 16) {
  std::vector<PositionBin> result;
  for (std::size_t i = 0; i < means.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    result.push_back({at * width, (at + 1) * width, means[i]});
  }
  return result;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(length_numbers)

BOOST_AUTO_TEST_CASE(usable_context_ends_where_perplexity_first_rises) {
  // 64 is within 5 % of 128, 256 too, 512 is not.
  BOOST_TEST(usable_context(kLengths, {2.92, 2.9, 2.93, 3.5}, 128, 0.05) == 256.0);
  // A length that fails hides those behind it.
  BOOST_TEST(usable_context(kLengths, {2.92, 2.9, 3.5, 2.9}, 128, 0.05) == 128.0);
  BOOST_TEST(usable_context(kLengths, {2.92, 2.9, kInfinity, 2.9}, 128, 0.05) == 128.0);
  // The shortest length is worse by more than that: none is usable.
  BOOST_TEST(std::isnan(usable_context(kLengths, {3.1, 2.9, 2.9, 2.9}, 128, 0.05)));
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
  BOOST_TEST(degradation(kLengths, {3, 2, 1, 2.5}, 128) == 0.25);   // gains are no credit
  BOOST_TEST(std::isnan(degradation(kLengths, {3, 2, 1, 1}, 512)));
  BOOST_TEST(perplexity_ratio(kLengths, {3, 2, 2.5, 3}, 128, 2) == std::exp(0.5), tt::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(blow_up_begins_where_the_curve_stays_up) {
  BOOST_TEST(blowup_position(bins({4, 3, 3, 3.05, 3.2, 3.3}), 32) == 64.0);
  // It came down again, so the rise at 48 is not it.
  BOOST_TEST(blowup_position(bins({4, 3, 3, 3.5, 3.05, 3.3}), 32) == 80.0);
  BOOST_TEST(std::isnan(blowup_position(bins({4, 3, 3, 3.05, 3.2, 3.05}), 32)));
  // Everything beyond training is up.
  BOOST_TEST(blowup_position(bins({4, 3, 5, 6}), 32) == 32.0);
}

BOOST_AUTO_TEST_CASE(gain_needs_four_times_the_training_length) {
  // Training length 32: [16, 32) against [64, 128).
  BOOST_TEST(gain_at_four(bins({4, 3, 9, 9, 2, 2, 2, 2}), 32) == 1.0);
  BOOST_TEST(std::isnan(gain_at_four(bins({4, 3, 9, 9, 2, 2, 2}), 32)));
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

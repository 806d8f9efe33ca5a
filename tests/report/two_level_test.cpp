// Intervals over seeds and items together: exact cases, and simulated studies whose truth is known.
#include "statistics/two_level.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "report/results/comparison.h"
#include "support/random.h"
#include "support/text.h"

using namespace pe;
using namespace pe::report;
using namespace pe::statistics;
namespace tt = boost::test_tools;

namespace {

/// The same normal deviates for the same key.
class Noise {
 public:
  explicit Noise(std::uint64_t key) : key_(key) {}
  double operator()(double sd) {
    if (next_ == values_.size()) {
      values_.resize(4096);
      support::philox_normal(support::make_key({key_, block_++}), values_.data(), values_.size());
      next_ = 0;
    }
    return sd * values_[next_++];
  }

 private:
  std::uint64_t key_, block_ = 0;
  std::vector<double> values_;
  std::size_t next_ = 0;
};

/// How two arms differ in a study.
struct Study {
  std::size_t seeds = 3, documents = 60;
  double effect = 0;       ///< Nats per token.
  double seed = 0.02;      ///< sd of one arm's seeds
  double document = 0.05;  ///< Sd of a document's effect on the difference of the arms.
  double rest = 0.05;      ///< sd of one seed's one document
};

/// Two arms as a report reads them.
struct Arms {
  std::vector<LmCell> cells;
  ArmScore a, b;
};

Arms simulate(const Study& study, Noise& noise) {
  Arms arms;
  std::vector<double> tokens, level, document;
  for (std::size_t d = 0; d < study.documents; ++d) {
    tokens.push_back(std::round(400 * std::exp(noise(0.5))));
    level.push_back(3 + noise(0.4));
    document.push_back(noise(study.document));
  }
  const double balance = std::sqrt(0.5);
  for (const bool first : {true, false}) {
    for (std::size_t s = 0; s < study.seeds; ++s) {
      LmCell cell{.run = arms.cells.size(), .protocol = "sliding", .length = 512};
      const double own = noise(study.seed);
      double nll = 0, all = 0;
      for (std::size_t d = 0; d < study.documents; ++d) {
        const double mean = level[d] + own + (first ? study.effect + document[d] : 0) + noise(study.rest * balance);
        const auto count = static_cast<std::int64_t>(tokens[d]);
        cell.scores.push_back({static_cast<std::int64_t>(1000 + d), count, 3 * count, mean * tokens[d]});
        nll += mean * tokens[d];
        all += tokens[d];
      }
      cell.nll = nll / all;
      cell.documents = static_cast<double>(study.documents);
      arms.cells.push_back(std::move(cell));
    }
  }
  for (std::size_t s = 0; s < study.seeds; ++s) {
    for (ArmScore* arm : {&arms.a, &arms.b}) arm->seeds.push_back(support::cat(40 + s));
    arms.a.cells.push_back(&arms.cells[s]);
    arms.b.cells.push_back(&arms.cells[study.seeds + s]);
  }
  return arms;
}

struct Rates {
  double found = 0, covered = 0;  ///< shares of the studies
};

Rates rates_of(const Study& study, int studies, std::uint64_t key) {
  Noise noise(key);
  Rates rates;
  for (int i = 0; i < studies; ++i) {
    const Arms arms = simulate(study, noise);
    const auto difference = compare(arms.a, arms.b);
    BOOST_TEST_REQUIRE(difference.has_value());
    rates.found += difference->p < 0.05;
    rates.covered += difference->interval.low <= study.effect && study.effect <= difference->interval.high;
    BOOST_TEST_REQUIRE((difference->p < 0.05) == (difference->interval.low > 0 || difference->interval.high < 0));
  }
  rates.found /= studies;
  rates.covered /= studies;
  return rates;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(two_levels)

BOOST_AUTO_TEST_CASE(a_model_does_not_differ_from_itself) {
  const std::vector<SeedItems> one{{{300, 500, 320, 410}, {100, 200, 100, 130}}};
  const TwoLevel same = two_level_difference(one, one);
  BOOST_TEST(same.estimate == 0.0);
  BOOST_TEST(same.interval.low == 0.0);
  BOOST_TEST(same.interval.high == 0.0);
  BOOST_TEST(same.p == 1.0);
  BOOST_TEST((same.interval.low <= 0 && same.interval.high >= 0));
}

BOOST_AUTO_TEST_CASE(a_constant_shift_has_an_interval_of_no_width) {
  SeedItems model{{300, 500, 320, 410}, {100, 200, 100, 130}}, worse = model;
  for (std::size_t i = 0; i < model.y.size(); ++i) worse.y[i] += 0.01 * model.x[i];
  const TwoLevel shift = two_level_difference({worse}, {model});
  BOOST_TEST(shift.estimate == 0.01, tt::tolerance(1e-9));
  BOOST_TEST(shift.interval.low == 0.01, tt::tolerance(1e-6));
  BOOST_TEST(shift.interval.high == 0.01, tt::tolerance(1e-6));
  BOOST_TEST(shift.p < 1e-12);
}

BOOST_AUTO_TEST_CASE(the_error_over_documents_is_that_of_the_ratio) {
  const SeedItems items{{300, 500, 320}, {100, 200, 100}};
  const TwoLevel one = two_level({linearised(items)});
  BOOST_TEST(one.estimate == 2.8, tt::tolerance(1e-12));
  BOOST_TEST(one.error() == ratio_of_sums(items.y, items.x).se, tt::tolerance(1e-12));
  BOOST_TEST(!one.knows_seeds());
}

BOOST_AUTO_TEST_CASE(summaries_of_seeds_give_the_paired_t_test) {
  const TwoLevel summaries = two_level({{1}, {2}, {3}});
  const SeedPairs pairs = paired_seeds({1, 2, 3}, {0, 0, 0});
  BOOST_TEST(summaries.interval.low == pairs.interval.low, tt::tolerance(1e-12));
  BOOST_TEST(summaries.p == 0.0741799, tt::tolerance(1e-5));
  BOOST_TEST(std::isnan(two_level({{1}, {2}}).p));
  BOOST_TEST(std::isnan(two_level({}).estimate));
}

BOOST_AUTO_TEST_CASE(the_critical_value_is_cochrans) {
  // Seed means 1, 2, 3 (variance 1) and item means 1, 3 (variance 2), nothing else: V1 = 1/3, V2 = 2/2.
  const TwoLevel both = two_level({{0, 2}, {1, 3}, {2, 4}});
  BOOST_TEST(both.seed_variance == 1.0 / 3, tt::tolerance(1e-12));
  BOOST_TEST(both.item_variance == 1.0, tt::tolerance(1e-12));
  const double t2 = 4.302652729911275, t1 = 12.706204736432095;  // two-sided 5 %, 2 and 1 degrees of freedom
  const double half = (t2 / 3 + t1) / (1.0 / 3 + 1) * std::sqrt(1.0 / 3 + 1);
  BOOST_TEST(both.interval.high - both.estimate == half, tt::tolerance(1e-9));
  BOOST_TEST(both.p > 0.05);
}

BOOST_AUTO_TEST_CASE(p_has_no_floor_and_agrees_with_the_interval) {
  std::vector<std::vector<double>> values;
  Noise noise(5);
  for (int s = 0; s < 5; ++s) {
    values.emplace_back();
    for (int i = 0; i < 100; ++i) values.back().push_back(1 + noise(0.01));
  }
  BOOST_TEST(two_level(values).p < 1e-6);  // of 251 tests the smallest bootstrap p of 10,000 resamples was no finding
  // Shifted so that the interval just touches zero, p is the level.
  const TwoLevel before = two_level(values);
  const double half = before.interval.high - before.estimate;
  for (auto& seed : values) {
    for (double& value : seed) value += half - before.estimate;
  }
  BOOST_TEST(two_level(values).p == 0.05, tt::tolerance(1e-4));
}

BOOST_AUTO_TEST_CASE(seeds_that_agree_on_the_same_items_are_no_more_items) {
  const std::vector<double> right(20, 1.0);
  const TwoLevel one = two_level_share({right});
  BOOST_TEST(one.interval.low == wilson(20, 20).low);
  const TwoLevel five = two_level_share({right, right, right, right, right});
  BOOST_TEST(five.interval.low == wilson(20, 20).low);  // 100 pooled trials would say 0.963
  BOOST_TEST(std::isnan(two_level_share({right, right}).interval.low));
  // All or nothing by seed: the scatter of seeds decides.
  const std::vector<double> wrong(20, 0.0);
  const TwoLevel bimodal = two_level_share({right, wrong, right, wrong});
  BOOST_TEST(bimodal.estimate == 0.5);
  BOOST_TEST(bimodal.interval.low == 0.0);
  BOOST_TEST(bimodal.interval.high == 1.0);
}

BOOST_AUTO_TEST_CASE(null_studies_give_no_more_findings_than_the_level) {
  // 1,000 comparisons each without a difference: seeds dominate the noise, documents do, and neither does.
  for (const std::size_t seeds : {3u, 5u, 10u}) {
    for (const double seed : {0.02, 0.004, 0.0}) {
      const Rates rates = rates_of({.seeds = seeds, .seed = seed}, 1000, 100 + seeds);
      BOOST_TEST(rates.found <= 0.06, seeds << " seeds, sd " << seed << ": " << rates.found);
    }
  }
}

BOOST_AUTO_TEST_CASE(known_effects_are_covered_as_often_as_said) {
  for (const std::size_t seeds : {3u, 5u, 10u}) {
    const Rates rates = rates_of({.seeds = seeds, .effect = 0.03}, 1000, 200 + seeds);
    BOOST_TEST(rates.covered >= 0.93, seeds << " seeds: " << rates.covered);
    BOOST_TEST(rates.covered <= 0.97, seeds << " seeds: " << rates.covered);
  }
}

BOOST_AUTO_TEST_CASE(an_interval_over_documents_alone_misses_the_noise_of_training) {
  // An earlier rule of pages: with seeds pooled, most comparisons of equal arms were found to differ.
  Noise noise(7);
  int found = 0;
  for (int i = 0; i < 200; ++i) {
    Arms arms = simulate({.seeds = 2, .document = 0.01, .rest = 0.01}, noise);
    const auto difference = compare(arms.a, arms.b);
    BOOST_TEST_REQUIRE(!difference->knows_seeds());
    found += difference->p < 0.05;
    BOOST_TEST_REQUIRE(certainty(*difference, difference->p).rfind("not shown: two seeds, ", 0) == 0u);
  }
  BOOST_TEST(found > 100);
}

BOOST_AUTO_TEST_CASE(power_is_what_simulated_studies_show) {
  const Study study{.seeds = 5};
  // The standard deviation of a difference of two arms is √2 times one arm's over seeds.
  const NoiseLevels noise{std::sqrt(2.0) * study.seed, study.document};
  Study effective = study;
  effective.effect = detectable_difference(noise, study.seeds, study.documents);
  const Rates rates = rates_of(effective, 1000, 300);
  BOOST_TEST(rates.found >= 0.74, rates.found);
  BOOST_TEST(rates.found <= 0.86, rates.found);
  BOOST_TEST(seeds_to_detect(effective.effect, noise, study.documents) == study.seeds);
  BOOST_TEST(seeds_to_detect(effective.effect / 2, noise, study.documents) > study.seeds);
  BOOST_TEST(std::isnan(detectable_difference(noise, 2, 100)));
  // Items alone never help beyond the noise of seeds.
  BOOST_TEST(detectable_difference(noise, 3, 100000) > 0.9 * detectable_difference({noise.seed, 0}, 3, 100));
  BOOST_TEST(seeds_to_detect(1e-9, noise, 10) == 0u);
}

BOOST_AUTO_TEST_CASE(a_detectable_difference_is_known_for_any_noise) {
  for (const std::size_t seeds : {3u, 4u, 5u, 10u, 16u, 200u}) {
    for (const std::size_t items : {2u, 8u, 40u, 200u, 100000u}) {
      for (int part = 0; part <= 300; ++part) {
        const double ratio = std::exp(0.1 * (part - 150));
        const double difference = detectable_difference({ratio, 1}, seeds, items);
        const double error = std::sqrt(ratio * ratio / static_cast<double>(seeds) + 1.0 / static_cast<double>(items));
        BOOST_REQUIRE(std::isfinite(difference));
        // At least the difference with a known error, and at most the difference with one degree of freedom.
        BOOST_REQUIRE_GE(difference, 2.79 * error);
        BOOST_REQUIRE_LE(difference, 64 * error);
      }
    }
  }
  // The first of many looks has a level so small that no difference is known to be enough.
  BOOST_TEST(std::isnan(detectable_difference({1, 0}, 3, 100, 0.8, 1.4e-8)));
  const double first_of_eight = detectable_difference({1, 0}, 3, 100, 0.8, 5e-4);
  BOOST_TEST(first_of_eight > 44.7 / std::sqrt(3.0));  // the threshold of t with two degrees of freedom
}

BOOST_AUTO_TEST_CASE(a_pilot_plans_with_the_upper_limit_of_its_sd) {
  BOOST_TEST(upper_limit({0.1, 0.3}, 3).seed == 0.1 * 2.1170,
             boost::test_tools::tolerance(1e-3));  // chi-square, 2 degrees of freedom
  BOOST_TEST(upper_limit({0.1, 0.3}, 3).item == 0.3);
  BOOST_TEST(std::isnan(upper_limit({0.1, 0.3}, 1).seed));
  // Four pilots of five know an sd that is large enough; planned by their results, half of the studies would be too
  // small.
  Noise noise(5);
  int enough = 0, shown = 0;
  for (int pilot = 0; pilot < 2000; ++pilot) {
    const double a = noise(1), b = noise(1), c = noise(1), mean = (a + b + c) / 3;
    const double sd = std::sqrt(((a - mean) * (a - mean) + (b - mean) * (b - mean) + (c - mean) * (c - mean)) / 2);
    enough += upper_limit({sd, 0}, 3).seed >= 1;
    shown += sd >= 1;
  }
  BOOST_TEST(std::abs(enough / 2000.0 - 0.8) < 0.03);
  BOOST_TEST(shown / 2000.0 < 0.45);
}

BOOST_AUTO_TEST_CASE(skewed_items_need_more_of_them) {
  const auto of = [](std::size_t items, double outlier, double seed_shift) {
    std::vector<std::vector<double>> values(3, std::vector<double>(items));
    for (std::size_t s = 0; s < 3; ++s) {
      for (std::size_t i = 0; i < items; ++i)
        values[s][i] = (i == 0  ? outlier
                        : i % 2 ? 1
                                : -1) +
                       seed_shift * static_cast<double>(s) + 0.01 * static_cast<double>((i + s) % 3);
    }
    return two_level(values);
  };
  BOOST_TEST(of(29, 1, 0).few());
  BOOST_TEST(!of(40, 1, 0).few());
  BOOST_TEST(of(40, 12, 0).few());
  BOOST_TEST(of(40, 12, 0).skew > 3);
  BOOST_TEST(!of(40, 12, 30).few());  // where seeds make the noise, items do not matter
}

BOOST_AUTO_TEST_CASE(only_seeds_and_documents_that_both_arms_have_are_compared) {
  Noise noise(9);
  Arms arms = simulate({.seeds = 4, .effect = 0.1, .seed = 0}, noise);
  const auto all = compare(arms.a, arms.b);
  BOOST_TEST(all->seeds == 4u);
  arms.b.seeds[3] = "77";  // a seed that the other arm lacks
  const auto three = compare(arms.a, arms.b);
  BOOST_TEST(three->seeds == 3u);
  arms.cells[0].scores.erase(arms.cells[0].scores.begin());
  BOOST_TEST(compare(arms.a, arms.b)->items == 59u);
  arms.b.seeds = {"1", "2", "3", "4"};
  BOOST_TEST(!compare(arms.a, arms.b).has_value());
  // One more seed of one arm changes nothing.
  Arms shifted = simulate({.seeds = 4, .effect = 0.1, .seed = 0}, noise);
  shifted.b.seeds[3] = "77";
  const double before = compare(shifted.a, shifted.b)->estimate;
  for (schema::DocumentScore& score : shifted.cells[7].scores) score.nll += 1000;
  BOOST_TEST(compare(shifted.a, shifted.b)->estimate == before);
}

BOOST_AUTO_TEST_CASE(sentences_say_how_sure_they_are) {
  TwoLevel difference{.seeds = 3, .items = 200};
  BOOST_TEST(certainty(difference, 0.004) == "significant: p = 0.004, 3 seeds");
  BOOST_TEST(certainty(difference, 0.2) == "not significant: p = 0.20, 3 seeds");
  BOOST_TEST(certainty(difference, 0.04996) == "significant: p = 0.04996, 3 seeds");
  BOOST_TEST(certainty(difference, 0.0502) == "not significant: p = 0.050, 3 seeds");
  difference.seeds = 1;
  BOOST_TEST(certainty(difference, 1e-9) == "not shown: one seed, beyond the noise of the documents");
  difference.seeds = 2;
  difference.items = 8;
  BOOST_TEST(certainty(difference, 0.5) == "not shown: two seeds, within the noise of the documents; only 8 documents");
}

BOOST_AUTO_TEST_SUITE_END()

// The structured rows: exact floors (item 19 of the specification's acceptance list) by counting, held-out values,
// keys.
#include "studies/dummy_rows.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "support/hash.h"

using namespace pe::studies;

namespace {

using Ids = std::vector<std::int32_t>;

/// Mean over rows of Σ −ln p(label | what `context` shows of the row at that position), p by counting the rows.
double entropy(const std::vector<DummyRow>& rows, const std::function<Ids(const DummyRow&, std::size_t)>& context) {
  std::map<Ids, std::map<std::int32_t, double>> counts;
  for (const DummyRow& row : rows)
    for (std::size_t i = 0; i < row.ids.size(); ++i) {
      if (row.labels[i] >= 0) counts[context(row, i)][row.labels[i]] += 1;
    }
  double nats = 0;
  for (const auto& [seen, labels] : counts) {
    double all = 0;
    for (const auto& [label, count] : labels) all += count;
    for (const auto& [label, count] : labels) nats -= count * std::log(count / all);
  }
  return nats / static_cast<double>(rows.size());
}

Ids nothing(const DummyRow&, std::size_t) { return {}; }
Ids token_and_position(const DummyRow& row, std::size_t i) { return {static_cast<std::int32_t>(i), row.ids[i]}; }
Ids everything_before(const DummyRow& row, std::size_t i) {
  return {row.ids.begin(), row.ids.begin() + static_cast<std::ptrdiff_t>(i) + 1};
}
Ids the_whole_row(const DummyRow& row, std::size_t i) {
  Ids all = row.ids;
  all.push_back(static_cast<std::int32_t>(i));
  return all;
}

std::vector<DummyRow> all_seed_rows() {
  std::vector<DummyRow> rows;
  for (std::int64_t a = 10; a <= 80; ++a) rows.push_back(DummyData::seed_row(a, true));
  return rows;
}

std::vector<DummyRow> all_hard_rows() {
  std::vector<DummyRow> rows;
  for (std::int64_t a = 0; a < 100; ++a)
    for (std::int64_t d = 1; d <= 5; ++d)
      for (std::int64_t before = 3; before <= 5; ++before)
        for (std::int64_t after = 3; after <= 8; ++after) rows.push_back(DummyData::hard_row(a, d, before, after));
  return rows;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(dummy_rows)

BOOST_AUTO_TEST_CASE(floors_of_mode_seed_are_the_entropies_of_its_71_rows) {
  const auto rows = all_seed_rows();
  BOOST_TEST(rows.size() == 71u);
  BOOST_TEST(std::abs(entropy(rows, nothing) / 64 - 0.846567) <= 5e-7);
  BOOST_TEST(std::abs(entropy(rows, token_and_position) / 64 - 0.133209) <= 5e-7);
  BOOST_TEST(std::abs(entropy(rows, everything_before) / 64 - 0.066604) <= 5e-7);
  BOOST_TEST(entropy(rows, the_whole_row) == 0);  // who sees the answer needs no floor
  BOOST_TEST(std::abs(2 * DummyFloors::base() / 64 - entropy(rows, token_and_position) / 64) <= 1e-12);
  BOOST_TEST(std::abs(DummyFloors::causal() - entropy(rows, everything_before) / 64) <= 1e-12);
}

BOOST_AUTO_TEST_CASE(the_floor_of_mode_hard_is_the_entropy_of_its_rows_and_splits_by_target) {
  std::vector<DummyRow> rows = all_hard_rows();
  BOOST_TEST(std::abs(entropy(rows, everything_before) - 9.104980) <= 5e-7);
  BOOST_TEST(std::abs(DummyFloors::hard_row() - entropy(rows, everything_before)) <= 1e-9);
  const std::map<DummyTarget, double> expected = {{DummyTarget::kFirst, std::log(100.0)},
                                                  {DummyTarget::kStep, std::log(5.0)},
                                                  {DummyTarget::kDetermined, 0.0},
                                                  {DummyTarget::kLength, std::log(18.0)}};
  for (const auto& [target, nats] : expected) {
    std::vector<DummyRow> asked = rows;
    for (DummyRow& row : asked)
      for (std::size_t i = 0; i < row.ids.size(); ++i) {
        if (row.targets[i] != target) row.labels[i] = -1;
      }
    BOOST_TEST(std::abs(entropy(asked, everything_before) - nats) <= 1e-9, dummy_target_name(target));
  }
}

BOOST_AUTO_TEST_CASE(rows_read_as_they_are_defined) {
  const DummyRow seed = DummyData::seed_row(37, true);
  BOOST_TEST(seed.ids.size() == 64u);
  BOOST_TEST((Ids(seed.ids.begin(), seed.ids.begin() + 9) == Ids{1, 37, 38, 39, 2, 40, 41, 3, 0}));
  BOOST_TEST((Ids(seed.labels.begin(), seed.labels.begin() + 8) == Ids{37, 38, 39, 2, 40, 41, 3, 0}));
  BOOST_TEST(seed.labels[63] == 1);  // rotated: the wrap-around target is START
  BOOST_TEST(DummyData::seed_row(37, false).labels[63] == -1);
  std::map<DummyTarget, int> counts;
  for (const DummyTarget target : seed.targets) ++counts[target];
  BOOST_TEST((counts == std::map<DummyTarget, int>{{DummyTarget::kFirst, 1},
                                                   {DummyTarget::kDetermined, 6},
                                                   {DummyTarget::kPadding, 56},
                                                   {DummyTarget::kWrap, 1}}));
  const DummyRow hard = DummyData::hard_row(7, 3, 4, 3);
  BOOST_TEST((Ids(hard.ids.begin(), hard.ids.begin() + 11) == Ids{1, 11, 14, 17, 20, 2, 23, 26, 29, 3, 0}));
  BOOST_TEST((Ids(hard.labels.begin(), hard.labels.begin() + 10) == Ids{11, 14, 17, 20, 2, 23, 26, 29, 3, -1}));
  using T = DummyTarget;
  BOOST_TEST((std::vector<T>(hard.targets.begin(), hard.targets.begin() + 10) ==
              std::vector<T>{T::kFirst, T::kStep, T::kDetermined, T::kLength, T::kLength, T::kDetermined,
                             T::kDetermined, T::kDetermined, T::kLength, T::kNone}));
  const DummyRow echo = DummyData::hard_row(7, 3, 3, 3, {50, 51, 52});
  BOOST_TEST((Ids(echo.ids.begin(), echo.ids.begin() + 14) == Ids{1, 11, 14, 17, 2, 54, 55, 56, 2, 20, 23, 26, 3, 0}));
  BOOST_TEST((echo.targets[8] == T::kDetermined));  // what follows the second MIDDLE continues the first progression
}

BOOST_AUTO_TEST_CASE(what_tests_hold_out_is_what_the_specification_lists) {
  std::set<std::int64_t> bases;
  for (std::int64_t a = 10; a <= 80; ++a) {
    if (DummyData::is_test_base(a)) bases.insert(a);
  }
  BOOST_TEST((bases == std::set<std::int64_t>{11, 17, 29, 33, 40, 44, 51, 66}));
  int pairs = 0;
  for (std::int64_t a = 0; a < 100; ++a)
    for (std::int64_t d = 1; d <= 5; ++d) pairs += DummyData::is_test_pair(a, d) ? 1 : 0;
  BOOST_TEST(pairs >= 80);  // about 100
  BOOST_TEST(pairs <= 120);
}

BOOST_AUTO_TEST_CASE(splits_keep_what_they_promise) {
  const DummyData by_base({.mode = DummyMode::kFixed, .by_base = true}, 42), hard({.mode = DummyMode::kHard}, 42);
  for (std::int64_t i = 0; i < 200; ++i) {
    BOOST_TEST(DummyData::is_test_base(by_base.row(Split::kTest, i).ids[1]));
    BOOST_TEST(!DummyData::is_test_base(by_base.row(Split::kTrain, i).ids[1]));
  }
  std::map<std::int64_t, int> befores, afters;
  for (std::int64_t i = 0; i < 2000; ++i) {
    for (const auto& [split, test] :
         {std::pair{Split::kTrain, false}, {Split::kValidation, false}, {Split::kTest, true}}) {
      const DummyRow row = hard.row(split, i);
      const std::int64_t a = row.ids[1] - 4, d = row.ids[2] - row.ids[1];
      BOOST_TEST((d >= 1 && d <= 5));
      BOOST_TEST(DummyData::is_test_pair(a, d) == test);
      if (!test) continue;
      const auto middle = std::find(row.ids.begin(), row.ids.end(), 2),
                 end = std::find(row.ids.begin(), row.ids.end(), 3);
      ++befores[middle - row.ids.begin() - 1];
      ++afters[end - middle - 1];
    }
  }
  // Uniform within four standard deviations.
  BOOST_TEST(befores.size() == 3u);
  BOOST_TEST(afters.size() == 6u);
  for (const auto& [m, count] : befores) BOOST_TEST(std::abs(count - 2000.0 / 3) <= 4 * std::sqrt(2000.0 * 2 / 9));
  for (const auto& [m, count] : afters) BOOST_TEST(std::abs(count - 2000.0 / 6) <= 4 * std::sqrt(2000.0 * 5 / 36));
}

BOOST_AUTO_TEST_CASE(a_row_depends_on_its_key_alone) {
  const DummyData one({.mode = DummyMode::kSeed}, 42), other({.mode = DummyMode::kSeed}, 43),
      fixed({.mode = DummyMode::kFixed}, 42);
  int same = 0;
  for (std::int64_t i = 0; i < 200; ++i) {
    BOOST_TEST((one.row(Split::kTest, i).ids == other.row(Split::kTest, i).ids));    // tests are shared by all seeds
    BOOST_TEST((one.row(Split::kTrain, i).ids == fixed.row(Split::kTrain, i).ids));  // and rows by both modes
    same += one.row(Split::kTrain, i).ids == other.row(Split::kTrain, i).ids ? 1 : 0;
  }
  BOOST_TEST(same < 15);  // of 71 values
}

BOOST_AUTO_TEST_CASE(every_id_fits_the_vocabulary_and_every_row_its_length) {
  const DummyData hard({.mode = DummyMode::kHard}, 1), with_long({.mode = DummyMode::kHard, .room_for_long = true}, 1);
  const DummyData echo({.mode = DummyMode::kHard, .echo = true}, 1);
  BOOST_TEST(hard.vocabulary() == 164);
  BOOST_TEST(with_long.vocabulary() == 204);
  std::int32_t largest = 0, largest_long = 0;
  for (std::int64_t i = 0; i < 2000; ++i) {
    for (const auto& [data, long_rows] : {std::pair{&hard, false}, {&with_long, true}, {&echo, false}}) {
      const DummyRow row = data->row(Split::kTest, i, long_rows);
      BOOST_TEST(row.ids.size() == 32u);
      const std::int32_t most = *std::max_element(row.ids.begin(), row.ids.end());
      BOOST_TEST(most < data->vocabulary());
      (long_rows ? largest_long : largest) = std::max(long_rows ? largest_long : largest, most);
      if (data != &echo) continue;
      BOOST_TEST(std::count(row.ids.begin(), row.ids.end(), 2) == 2);
      const auto middle = std::find(row.ids.begin(), row.ids.end(), 2);
      BOOST_TEST(*(middle + 2) - *(middle + 1) != row.ids[2] - row.ids[1]);  // the distractor has another step
    }
  }
  BOOST_TEST(largest_long > 164);  // long rows do need the larger vocabulary
}

BOOST_AUTO_TEST_SUITE_END()

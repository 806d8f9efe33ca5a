#include "studies/dummy_rows.h"

#include <algorithm>
#include <cmath>

#include "support/hash.h"

namespace pe::studies {
namespace {

constexpr std::int64_t kFirstBase = 10, kBases = 71;
constexpr std::uint64_t kTestSeed = 20260101;  // of all tests, whatever the seed of a training is
constexpr std::int64_t kHardFirsts = 100, kHardSteps = 5;
constexpr std::int64_t kFewestBefore = 3, kBeforeChoices = 3, kFewestAfter = 3, kAfterChoices = 6;
constexpr std::int64_t kFewestLongAfter = 9, kLongAfterChoices = 8;
constexpr std::int64_t kLargestNumber = 99 + 5 * 12, kLargestLongNumber = 99 + 5 * 20;
constexpr std::int32_t kUnasked = -1;

std::int64_t drawn(support::Xoshiro& random, std::int64_t low, std::int64_t choices) {
  return low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(choices)));
}

/// Pads to `length`; labels are the next tokens.
DummyRow padded(std::vector<std::int32_t> ids, std::vector<DummyTarget> targets, std::size_t length) {
  DummyRow row;
  row.ids = std::move(ids);
  row.ids.resize(length, kDummyPad);
  row.targets = std::move(targets);
  row.targets.resize(length, DummyTarget::kNone);
  row.labels.assign(row.ids.begin() + 1, row.ids.end());
  row.labels.push_back(kUnasked);
  for (std::size_t i = 0; i < length; ++i) {
    if (row.targets[i] == DummyTarget::kNone) row.labels[i] = kUnasked;
  }
  return row;
}

}  // namespace

std::string_view dummy_target_name(DummyTarget target) {
  switch (target) {
    case DummyTarget::kNone:
      return "none";
    case DummyTarget::kFirst:
      return "first";
    case DummyTarget::kStep:
      return "step";
    case DummyTarget::kDetermined:
      return "det";
    case DummyTarget::kLength:
      return "len";
    case DummyTarget::kEcho:
      return "echo";
    case DummyTarget::kPadding:
      return "pad";
    case DummyTarget::kWrap:
      return "wrap";
  }
  return "";
}

std::int64_t DummyData::vocabulary() const {
  if (options_.mode != DummyMode::kHard) return 100;
  return kDummyNumber + (options_.room_for_long ? kLargestLongNumber : kLargestNumber) + 1;
}

std::int64_t DummyData::rows(Split split) const {
  const bool hard = options_.mode == DummyMode::kHard;
  switch (split) {
    case Split::kTrain:
      return hard ? 7200 : 800;
    case Split::kValidation:
      return hard ? 800 : 0;
    case Split::kTest:
      break;
  }
  return hard ? 2000 : 200;
}

bool DummyData::is_test_base(std::int64_t a) {
  return support::make_key({support::fnv1a64("dummy_fixed"), static_cast<std::uint64_t>(a)}) % 5 == 0;
}

bool DummyData::is_test_pair(std::int64_t a, std::int64_t d) {
  return support::make_key(
             {support::fnv1a64("dummy_hard"), static_cast<std::uint64_t>(a), static_cast<std::uint64_t>(d)}) %
             5 ==
         0;
}

DummyRow DummyData::seed_row(std::int64_t a, bool wraps) {
  const auto term = [&](std::int64_t i) { return static_cast<std::int32_t>(a + i); };
  std::vector<DummyTarget> targets(63, DummyTarget::kPadding);
  targets[0] = DummyTarget::kFirst;
  std::fill(targets.begin() + 1, targets.begin() + 7, DummyTarget::kDetermined);
  DummyRow row =
      padded({kDummyStart, term(0), term(1), term(2), kDummyMiddle, term(3), term(4), kDummyEnd}, targets, 64);
  if (wraps) {
    row.labels.back() = row.ids.front();
    row.targets.back() = DummyTarget::kWrap;
  }
  return row;
}

DummyRow DummyData::hard_row(std::int64_t a, std::int64_t d, std::int64_t before, std::int64_t after,
                             const std::vector<std::int64_t>& echo) {
  std::vector<std::int32_t> ids{kDummyStart};
  std::vector<DummyTarget> targets;  // of the token that follows
  const auto add = [&](std::int32_t id, DummyTarget asked) {
    ids.push_back(id);
    targets.push_back(asked);
  };
  const auto number = [](std::int64_t value) { return static_cast<std::int32_t>(kDummyNumber + value); };
  for (std::int64_t i = 0; i < before; ++i) {
    add(number(a + i * d), i == 0   ? DummyTarget::kFirst
                           : i == 1 ? DummyTarget::kStep
                           : i == 2 ? DummyTarget::kDetermined
                                    : DummyTarget::kLength);
  }
  add(kDummyMiddle, DummyTarget::kLength);
  for (const std::int64_t value : echo) add(number(value), DummyTarget::kEcho);
  if (!echo.empty()) add(kDummyMiddle, DummyTarget::kEcho);
  for (std::int64_t i = 0; i < after; ++i) {
    add(number(a + (before + i) * d), i < 3 ? DummyTarget::kDetermined : DummyTarget::kLength);
  }
  add(kDummyEnd, DummyTarget::kLength);
  return padded(std::move(ids), std::move(targets), 32);
}

DummyRow DummyData::row(Split split, std::int64_t index, bool long_rows) const {
  const bool hard = options_.mode == DummyMode::kHard;
  const char* task = hard               ? (long_rows       ? "dummy_hard_long"
                                           : options_.echo ? "dummy_hard_echo"
                                                           : "dummy_hard")
                     : options_.by_base ? "dummy_fixed"
                                        : "dummy_seed";  // modes seed and fixed have the same rows
  support::Xoshiro random(support::make_key({split == Split::kTest ? kTestSeed : seed_, support::fnv1a64(task),
                                             static_cast<std::uint64_t>(split), static_cast<std::uint64_t>(length()),
                                             static_cast<std::uint64_t>(index)}));
  const bool test = split == Split::kTest;
  if (!hard) {
    std::int64_t a = 0;
    do {
      a = drawn(random, kFirstBase, kBases);
    } while (options_.by_base && is_test_base(a) != test);
    return seed_row(a, options_.mode == DummyMode::kSeed);
  }
  std::int64_t a = 0, d = 0;
  do {
    a = drawn(random, 0, kHardFirsts);
    d = drawn(random, 1, kHardSteps);
  } while (is_test_pair(a, d) != test);
  const std::int64_t before = drawn(random, kFewestBefore, kBeforeChoices);
  const std::int64_t after =
      long_rows ? drawn(random, kFewestLongAfter, kLongAfterChoices) : drawn(random, kFewestAfter, kAfterChoices);
  std::vector<std::int64_t> echo;
  if (options_.echo) {
    const std::int64_t first = drawn(random, 0, kHardFirsts), other = drawn(random, 1, kHardSteps - 1);
    const std::int64_t terms = drawn(random, kFewestBefore, kBeforeChoices), step = other >= d ? other + 1 : other;
    for (std::int64_t i = 0; i < terms; ++i) echo.push_back(first + i * step);
  }
  return hard_row(a, d, before, after, echo);
}

double DummyFloors::base() { return std::log(static_cast<double>(kBases)); }
double DummyFloors::causal() { return base() / 64; }
double DummyFloors::hard_row() {
  return std::log(static_cast<double>(kHardFirsts * kHardSteps * kBeforeChoices * kAfterChoices));
}

}  // namespace pe::studies

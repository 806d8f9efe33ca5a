/// @file
/// The structured rows of a notebook that compares learnable encodings (RanMo1990/PositionalEncodingExample), in its
/// form and in the form of a fair comparison; doc/studies/dummy.md gives the reasons for both. A row depends on its key
/// alone, so every model of a comparison meets the same ones.
///
///     seed, fixed   START a a+1 a+2 MIDDLE a+3 a+4 END PAD …          64 tokens; ids are the numbers, a of 10 … 80
///     hard          START a a+d … MIDDLE a+m·d … END PAD …            32 tokens; ids are numbers + 4
///
/// A model predicts the next token. In mode `seed` the last target is the first token, as rotating a row makes it, and
/// padding counts. In `fixed` the last position has no target; in `hard` there is none after END.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "artifact/split.h"
#include "support/random.h"

namespace pe::studies {

enum class DummyMode { kSeed, kFixed, kHard };
using artifact::Split;

/// Ids that all modes share.
constexpr std::int32_t kDummyPad = 0, kDummyStart = 1, kDummyMiddle = 2, kDummyEnd = 3;
/// Of `hard`: the id of the number v is kDummyNumber + v.
constexpr std::int32_t kDummyNumber = 4;

/// Kind of a target.
enum class DummyTarget {
  kNone,        ///< Without a target.
  kFirst,       ///< START → a: nothing determines it.
  kStep,        ///< Hard: the second term, which determines d.
  kDetermined,  ///< Determined by earlier tokens; of `hard` the third term and the first three after MIDDLE.
  kLength,      ///< Hard: another number, or a marker?
  kEcho,        ///< hard with distractors: the terms between the two MIDDLEs, and the second MIDDLE
  kPadding,     ///< PAD
  kWrap,        ///< seed: the first token, asked of the last position
};
std::string_view dummy_target_name(DummyTarget target);  ///< "first", "step", "det", "len", "echo", "pad", "wrap"

struct DummyRow {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> labels;  ///< as many; negative where nothing is asked
  std::vector<DummyTarget> targets;  ///< as many
};

struct DummyOptions {
  DummyMode mode = DummyMode::kSeed;
  bool by_base = false;        ///< fixed: test rows have values of a that training never shows
  bool echo = false;           ///< hard: another progression and a second MIDDLE before the continuation
  bool room_for_long = false;  ///< hard: the vocabulary has the numbers of `long_rows` too
};

class DummyData {
 public:
  /// @param seed of the training rows; test rows are the same for every seed.
  DummyData(const DummyOptions& options, std::uint64_t seed) : options_(options), seed_(seed) {}

  std::int64_t length() const { return options_.mode == DummyMode::kHard ? 32 : 64; }
  std::int64_t vocabulary() const;
  /// Rows of a split as the definition has them: 800, 0, 200; hard: 7,200, 800, 2,000.
  std::int64_t rows(Split split) const;
  /// @param long_rows hard: 9 to 16 terms after MIDDLE where training has 3 to 8.
  DummyRow row(Split split, std::int64_t index, bool long_rows = false) const;

  /// Which values of a, and which progressions, are for tests only.
  static bool is_test_base(std::int64_t a);
  static bool is_test_pair(std::int64_t a, std::int64_t d);

  /// Rows by their values rather than by key. @param wraps whether the last target is the first token.
  static DummyRow seed_row(std::int64_t a, bool wraps);
  /// @param echo the distractor's terms; empty: none.
  static DummyRow hard_row(std::int64_t a, std::int64_t d, std::int64_t before, std::int64_t after,
                           const std::vector<std::int64_t>& echo = {});

 private:
  DummyOptions options_;
  std::uint64_t seed_;
};

/// Nats that no predictor of a mode's population can beat.
struct DummyFloors {
  /// Loss in mode seed, per target of a row (64), for one who sees all tokens so far.
  static double causal();
  /// Loss in mode hard, all targets of a row together, for a reader who does not know which progressions are held out.
  static double hard_row();
  /// ln 71: START → a, and MIDDLE → a+3 for one who sees no other token.
  static double base();
};

}  // namespace pe::studies

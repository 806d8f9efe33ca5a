/// @file
/// Interface of a model for protocols and tasks: for chosen positions of given sequences, its loss and whether its
/// first guess is right. Tasks see this and no tensors, so tests drive them with models that can be solved by hand.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

namespace pe::evaluation {

/// Properties of a model that decide how it may be evaluated.
struct Capabilities {
  std::int64_t vocabulary = 0;    ///< V
  std::int64_t train_length = 0;  ///< L_tr, tokens
  /// Longest sequence that the encoding has positions for; absent when there is no limit.
  std::optional<std::int64_t> max_positions;
  bool length_dependent = false;  ///< its constants follow the given length: no prefix sums
  bool content_dependent = false;
  bool stochastic = false;  ///< draws at evaluation too: results are means over draws
};

/// A sequence that starts at position 0. Scored are the targets ids[first .. last), each predicted from all ids before
/// it; 1 <= first <= last <= ids.size().
struct Sequence {
  std::vector<std::int32_t> ids;
  std::int64_t first = 1;
  std::int64_t last = 1;
  bool guesses = true;  ///< Whether `correct` is wanted; it is the dearer half of scoring.
  /// For targets that are not the next token: the target after each id, -1 where there is none. Where given, as many as
  /// ids, and scored instead of [first, last).
  std::vector<std::int32_t> labels = {};
  /// With labels: as many, true for labels that are scored but do not count in `exact`; or empty.
  std::vector<std::uint8_t> unjudged = {};
  /// Ids to choose from where a guess is confined, such as digits; empty: no such guess is wanted.
  std::vector<std::int32_t> among = {};
};

/// Targets of a sequence: (row of the hidden states that predicts it, its id), in order.
std::vector<std::pair<std::int64_t, std::int32_t>> targets_of(const Sequence& sequence);

/// One entry per target, in order.
struct Score {
  std::vector<float> nll;             ///< Nats, from float32 log-softmax.
  std::vector<std::uint8_t> among;    ///< The most probable of `Sequence::among` is the target; or empty.
  std::vector<float> among_share;     ///< The target's share of the probability of all of `among`; or empty.
  std::vector<std::uint8_t> correct;  ///< the most probable token (the lowest id on a tie) is the target; or empty
};

class Scorer {
 public:
  virtual ~Scorer() = default;

  virtual const Capabilities& capabilities() const = 0;

  /// Scores sequences of one common length. Draws of a stochastic encoding depend on `draw` and on the sequence's
  /// number, which is first_sample + its place in the batch; other models ignore both.
  virtual std::vector<Score> score(const std::vector<const Sequence*>& batch, std::int64_t draw,
                                   std::int64_t first_sample) = 0;

  /// Tokens that a batch should hold: bounds memory, and keeps short sequences from being scored one by one.
  virtual std::int64_t batch_tokens() const { return 8192; }
};

/// The mean score of a sequence over the draws of a stochastic model; one draw else.
struct MeanScore {
  std::vector<double> nll;          ///< Mean over draws.
  std::vector<double> correct;      ///< Share of draws that are correct; empty without guesses.
  std::vector<double> among;        ///< The same of confined guesses; empty without them.
  std::vector<double> among_share;  ///< Mean over draws; empty without `among`.
  double exact = 0;                 ///< share of draws in which every target is correct; 0 without guesses
};

/// Gets the share of all tokens that is scored, in (0, 1], after each batch.
using ScoringWatch = std::function<void(double share)>;

/// Scores any sequences: groups them by length, cuts batches of about `batch_tokens`, averages `draws` draws when the
/// model is stochastic. Results are in the order of `sequences`. A sequence's number for draws is `first_sample` plus
/// its place among the sequences of its length, so results do not depend on how batches are cut.
/// @throws support::StopRequest between two batches.
std::vector<MeanScore> score_all(Scorer& scorer, const std::vector<Sequence>& sequences, std::int64_t draws,
                                 std::int64_t first_sample = 0, const ScoringWatch& watch = {});

}  // namespace pe::evaluation

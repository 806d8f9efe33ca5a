// Position coupling: tokens that belong together in a task, as digits of one weight, have one position.
#include "encodings/attention/token_reader.h"
#include "encodings/positions/position_draws.h"
#include "encodings/registry.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

using support::cat;

struct CoupledOptions {
  std::int64_t max_position = 512;
  void describe(support::FieldVisitor& v) {
    v.field("max_position", max_position,
            "Largest position; in training each sequence has a random first position that keeps all its positions "
            "within this limit.",
            {.unit = "positions", .min = 2});
  }
};

class CoupledPositions : public PositionalEncoding, public ReadsTokens {
 public:
  CoupledPositions(const CoupledOptions& options, const Shape& shape) : PositionalEncoding(shape), options_(options) {}

  Facts facts() const override {
    return {.shift_invariant = ShiftInvariance::kNever, .max_positions = options_.max_position + 1, .stochastic = true};
  }
  Traits traits(const Span& span) const override { return {.maps_positions = true}; }
  bool needs_causal_mask() const override { return false; }
  void enter_stack(const std::vector<const PositionalEncoding*>& others) override {
    for (const PositionalEncoding* other : others) {
      if (!other->needs_causal_mask()) continue;
      throw support::ConfigError(
          "positions of encoding 'coupled' rise and fall, and another member of the stack is defined for "
          "distances to earlier tokens only",
          {}, "stack it with learned, sinusoidal or rope");
    }
  }

  Json reads() const override { return {{"reads", "coupled"}}; }
  Tensor positions_by(const Tensor& numbers, int layer, const Span& span) const override {
    const Tensor ids = numbers.select(-1, 0);  // for a start of 1; 0 off the task's tokens
    const Tensor largest = at::amax(ids, {-1}).to(at::kCPU).contiguous();
    std::vector<std::int64_t> moved;
    for (std::int64_t b = 0; b < ids.size(0); ++b) {
      const std::int64_t room =
          options_.max_position - largest.const_data_ptr<std::int64_t>()[b] + 1;  // starts 1 .. room
      if (room < 1) {
        throw RangeError(cat("position ", options_.max_position - room + 1, " lies beyond ", options_.max_position,
                             ", the largest of encoding 'coupled' (max_position)"),
                         "raise max_position before training");
      }
      if (!span.training) {
        moved.push_back(0);
        continue;
      }
      support::Xoshiro random(draw_key(shape_.seed, "coupled", span.step, 0, sample_id(span, b)));
      moved.push_back(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(room))));
    }
    const Tensor positions =
        at::where(ids.gt(0), ids + at::tensor(moved, at::kLong).to(ids.device()).unsqueeze(-1), ids);
    return positions.size(0) == 1 ? positions.squeeze(0) : positions;
  }

 private:
  CoupledOptions options_;
};

}  // namespace

EncodingEntry coupled_entry() {
  return with_options<CoupledPositions, CoupledOptions>(
      {.name = "coupled",
       .aliases = {"position_coupling"},
       .summary = "Gives tokens that belong together in an algorithmic task one position; for a stack.",
       .reference = "Cho et al. 2024, arXiv:2405.20671",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .max_positions = 0, .stochastic = true},
       .family = Family::kPositionMap,
       .acts_on = "positions",
       .formula =
           "s ~ U{1 .. max_position − n} for each sequence in training, n the largest offset below; 1 in evaluations\n"
           "BOS and EOS 0, whatever the task\n"
           "sums: digit k of each number s + 1 + k, k = 0 the least significant; + and SEP s; where the most "
           "significant digit\n"
           "comes first, SEP s + 1 + digits of the sum\n"
           "copies: symbol k and its copy s + 1 + k, SEP s; reversal: s + k, SEP s + symbols; parity: bits and answer "
           "s, SEP s + 1",
       .known_for = "Its paper reports addition of numbers six times as long as in training: related tokens have the "
                    "same position at any length.",
       .errata = {"It needs the task: only add_rev, add_pad, copy_repeat, copy_multi, reverse, parity and parity_check "
                  "of pe-generate have such positions. Other data is an error."}});
}

}  // namespace pe::encodings

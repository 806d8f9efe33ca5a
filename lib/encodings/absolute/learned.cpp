// A trained vector for each position, added to the token embeddings.
#include "encodings/absolute/learned_table.h"
#include "encodings/registry.h"
#include "support/hash.h"
#include "support/random.h"

namespace pe::encodings {
namespace {

struct LearnedOptions : LearnedTableOptions {
  double init_std = 0.02;
  void describe(support::FieldVisitor& v) {
    v.field("init_std", init_std, "Standard deviation of the initial table.", {.min = 0});
    LearnedTableOptions::describe(v);
  }
};

class Learned : public LearnedTable {
 public:
  Learned(const LearnedOptions& options, const Shape& shape)
      : LearnedTable("learned", options, shape), init_std_(options.init_std) {
    add_table();
  }

 protected:
  // Drawn by name and place, rows are the same however long the table is.
  Tensor initial_rows(std::int64_t begin, std::int64_t count) const override {
    const std::int64_t width = shape_.width;
    Tensor noise = at::empty({count, width}, at::kDouble);
    support::philox_normal(support::make_key({shape_.seed, support::fnv1a64("encoding.learned.table")}),
                           noise.mutable_data_ptr<double>(), static_cast<std::size_t>(count * width),
                           static_cast<std::size_t>(begin * width));
    return noise * init_std_;
  }
  double root_mean_square() const override { return init_std_; }

 private:
  double init_std_;
};

}  // namespace

EncodingEntry learned_entry() {
  return with_options<Learned, LearnedOptions>(
      {.name = "learned",
       .aliases = {"learned_ape", "gpt2"},
       .summary = "Adds a trained vector for each position to the token embeddings.",
       .reference = "Radford et al. 2019 (GPT-2)",
       .facts = {.shift_invariant = ShiftInvariance::kNever, .learned = true, .max_positions = 0},
       .family = Family::kAbsolute,
       .acts_on = "token embeddings",
       .parameters = "train_length*width",
       .formula = "x_p += scale·P[p], P a trained table [max_positions, d_m], P ~ N(0, init_std²)",
       .known_for = "The encoding of GPT-2 and BERT. It is flexible within the table and undefined beyond it: rows "
                    "beyond the training length are untrained.",
       .errata = {"A toy study claims that learned positions always win, but its models differ in more than the "
                  "encoding: some had no residuals and no causal mask."}});
}

}  // namespace pe::encodings

#include "encodings/positions/training_windows.h"

#include "encodings/positions/position_draws.h"
#include "support/text.h"

namespace pe::encodings {

void TrainingWindowOptions::describe_target(support::FieldVisitor& v) {
  v.field("target", target, "Length of the text whose positions occur in training; auto: 8 times the training length.",
          {.unit = "tokens", .min = 1});
}

TrainingWindow::TrainingWindow(const std::string& kind, const TrainingWindowOptions& options, const Shape& shape)
    : PositionalEncoding(shape), kind_(kind), target_(options.target.value_or(8 * shape.train_length)) {
  if (target_ < 1) throw support::ConfigError(support::cat("encoding '", kind, "' needs target, the length to reach"));
}

Tensor TrainingWindow::positions(int layer, const Span& span) const {
  if (!span.training) return default_positions(span);
  if (span.keys > target_) {
    throw RangeError(support::cat("a training window of ", span.keys, " tokens is longer than the target of encoding '",
                                  kind_, "', ", target_, " tokens"),
                     "raise target");
  }
  Tensor ids = at::empty({span.batch, span.keys}, at::kLong);
  for (std::int64_t b = 0; b < span.batch; ++b) {
    support::Xoshiro random(draw_key(shape_.seed, kind_, span.step, 0, sample_id(span, b)));
    const std::vector<std::int64_t> drawn = draw(random, span.keys, target_);
    std::copy(drawn.begin(), drawn.end(), ids.mutable_data_ptr<std::int64_t>() + b * span.keys);
  }
  return ids.to(span.device);
}

}  // namespace pe::encodings

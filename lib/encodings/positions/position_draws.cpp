#include "encodings/positions/position_draws.h"

namespace pe::encodings {

void DrawOptions::describe_draws(support::FieldVisitor& v) {
  v.choice("scope", scope, {{"layer", Scope::kLayer}, {"model", Scope::kModel}},
           "One draw for each layer, as in the reference for rotary encodings; otherwise one for the model.");
  v.field("per_sample", per_sample, "One draw for each sequence; otherwise one for the batch.");
  v.choice("eval", eval,
           {{"sample", Evaluation::kSample},
            {"sequential", Evaluation::kSequential},
            {"fixed_seed", Evaluation::kFixedSeed}},
           "Positions in evaluations: draws, 0, 1, 2, …, or always the same draw.");
}

std::uint64_t DrawOptions::key(const std::string& kind, std::uint64_t seed, int layer, const Span& span,
                               std::int64_t sample) const {
  const std::int64_t which = scope == Scope::kLayer ? layer : 0;
  if (span.training) return draw_key(seed, kind, span.step, which, sample);
  return draw_key(seed, kind + ".evaluation", eval == Evaluation::kSample ? span.step : 0, which, sample);
}

std::int64_t sample_id(const Span& span, std::int64_t b) {
  return span.samples.empty() ? b : span.samples.at(static_cast<std::size_t>(b));
}

}  // namespace pe::encodings

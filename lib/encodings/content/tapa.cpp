// TAPA: a part of the channels gives a logit's amplitude, the rest a phase that grows with distance.
#include <numbers>

#include "encodings/registry.h"
#include "support/text.h"

namespace pe::encodings {
namespace {

using support::cat;

struct TapaOptions {
  double amplitude = 0.5;
  double exponent = 0.1;
  void describe(support::FieldVisitor& v) {
    v.field("amplitude", amplitude,
            "Share of the channels of a head for the amplitude, rounded down; the others are for the phase.",
            {.min = 0, .max = 1});
    v.field("exponent", exponent, "The phase grows with this power of the distance.", {.min = 1e-3, .max = 1});
  }
};

class Tapa : public PositionalEncoding {
 public:
  Tapa(const TapaOptions& options, const Shape& shape)
      : PositionalEncoding(shape),
        options_(options),
        width_(static_cast<std::int64_t>(std::floor(options.amplitude * static_cast<double>(shape.head_width)))) {
    if (width_ >= 1 && width_ < shape.head_width) return;
    throw support::ConfigError(cat("encoding 'tapa': an amplitude of ", options.amplitude, " of ", shape.head_width,
                                   " channels leaves none on one of the sides"));
  }

  Facts facts() const override { return {.content_dependent = true}; }
  Traits traits(const Span& span) const override { return {.own_logits = true}; }

  void enter_stack(const std::vector<const PositionalEncoding*>& others) override {
    for (const PositionalEncoding* other : others) {
      if (other->traits(Span::whole(1, 1)).scales_queries) {
        throw support::ConfigError(
            "encoding 'tapa' computes a phase from queries too, which a temperature in the same stack would change", {},
            "leave the temperature out");
      }
      if (other->facts().rotates) {
        throw support::ConfigError(
            "encoding 'tapa' splits the channels of a head, which a rotation in the same stack would mix", {},
            "leave the rotation out");
      }
    }
  }

  Tensor logits(const Rows& rows) override {
    const at::ScalarType type = table_type(rows.q.scalar_type());
    const Tensor q = rows.q.to(type);
    const std::int64_t rest = shape_.head_width - width_;
    Rows part = rows;
    const auto product = [&](std::int64_t first, std::int64_t count) {
      part.q = q.narrow(-1, first, count);
      part.k = rows.k.narrow(-1, first, count);
      part.scale = 1 / std::sqrt(static_cast<double>(count));
      return PositionalEncoding::logits(part);
    };
    const Tensor far = at::pow(rows.distances().abs().to(at::kDouble), options_.exponent) * (2 * std::numbers::pi);
    return product(0, width_) * at::cos(far.to(type) * product(width_, rest));
  }

 private:
  TapaOptions options_;
  std::int64_t width_;  // channels of the amplitude
};

}  // namespace

EncodingEntry tapa_entry() {
  return with_options<Tapa, TapaOptions>(
      {.name = "tapa",
       .summary = "Multiplies a product of some channels by the cosine of a phase, which other channels and the "
                  "distance determine.",
       .reference = "Yu et al. 2025, arXiv:2509.12635",
       .facts = {.content_dependent = true},
       .family = Family::kContent,
       .acts_on = "product of q and k",
       .formula = "a = ⌊amplitude·d_h⌋ channels A, the others P\n"
                  "logit(i,j) = (q_A·k_A/√a)·cos(2π·|i − j|^exponent·(q_P·k_P/√(d_h − a)))",
       .known_for = "The phase depends on the tokens, so distance need not cause decay. Its paper reports stable "
                    "perplexity at many times the tuned length.",
       .errata = {"The split and the exponent of the paper were not available; the defaults are from this project.",
                  "1/√d_h is not applied again: each product has a separate factor."}});
}

}  // namespace pe::encodings

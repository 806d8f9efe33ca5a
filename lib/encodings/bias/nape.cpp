// NAPE: the first half of the heads has a linear bias, far steeper than ALiBi's, the other half no position at all.
#include "encodings/bias/slopes.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

enum class NapeSlopes { kLinear, kExponential };

struct NapeOptions {
  NapeSlopes slopes = NapeSlopes::kLinear;
  void describe(support::FieldVisitor& v) {
    v.choice("slopes", slopes, {{"linear", NapeSlopes::kLinear}, {"exp", NapeSlopes::kExponential}},
             "Slope of head h = 0, 1, … of the first half: 1/(h + 1), or 2^−h.");
  }
};

std::vector<double> nape_slopes(NapeSlopes kind, std::int64_t heads) {
  std::vector<double> slopes(heads, 0.0);
  for (std::int64_t h = 0; h < heads / 2; ++h) {
    slopes[h] = kind == NapeSlopes::kLinear ? 1 / static_cast<double>(h + 1) : std::exp2(-static_cast<double>(h));
  }
  return slopes;
}

class Nape : public SlopeBias {
 public:
  Nape(const NapeOptions& options, const Shape& shape)
      : SlopeBias("nape", nape_slopes(options.slopes, shape.query_heads), shape) {}

  bool is_position_free_head(int layer, int head) const override { return slopes()[head] == 0; }
};

}  // namespace

EncodingEntry nape_entry() {
  return with_options<Nape, NapeOptions>(
      {.name = "nape",
       .summary = "Gives half of the heads a steep linear penalty on distance and no position to the others.",
       .reference = "Vasylenko et al. 2025, arXiv:2506.16640",
       .family = Family::kBias,
       .acts_on = "logits",
       .formula = "logit(i,j) += −m_h·(i − j) for the first ⌊H/2⌋ heads, m_h = 1/(h + 1) or 2^−h; 0 for the others",
       .known_for = "A strong, cheap baseline: half of the heads are much more local than with ALiBi, the others see "
                    "the whole text equally. It is the base for asentmax_scale.",
       .errata = {"The slopes differ from ALiBi: the first head discounts by a factor of e per token."}});
}

}  // namespace pe::encodings

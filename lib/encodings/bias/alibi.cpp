// ALiBi: a penalty proportional to distance, with a fixed slope for each head.
#include "encodings/bias/slopes.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

struct AlibiOptions {
  std::vector<double> slopes;
  void describe(support::FieldVisitor& v) {
    v.field("slopes", slopes, "One slope for each query head; empty: the geometric slopes of the paper.");
  }
};

class Alibi : public SlopeBias {
 public:
  Alibi(const AlibiOptions& options, const Shape& shape)
      : SlopeBias("alibi", options.slopes.empty() ? alibi_slopes(shape.query_heads) : options.slopes, shape) {}
};

}  // namespace

EncodingEntry alibi_entry() {
  return with_options<Alibi, AlibiOptions>(
      {.name = "alibi",
       .aliases = {"linear_bias"},
       .summary = "Subtracts from each logit its distance times a slope of the head.",
       .reference = "Press et al. 2021, arXiv:2108.12409",
       .family = Family::kBias,
       .acts_on = "logits",
       .formula = "logit(i,j) += −m_h·(i − j)\n"
                  "m_h = 2^(−8(h+1)/H) for H = 2^a heads; otherwise the slopes of the largest power of two P ≤ H, then "
                  "every other slope of 2P heads",
       .known_for = "Perplexity stays flat far beyond the training length. Retrieval of one distant fact fails, since "
                    "steep heads cannot see it.",
       .errata = {"If the number of heads is not a power of two, the paper appends slopes, so they do not fall from "
                  "head to head. Many copies use the plain formula instead.",
                  "The penalty is not divided by √d_h.",
                  "In bfloat16 biases above 256 lose whole distances; here the bias is float32, or three bfloat16 "
                  "channels."}});
}

}  // namespace pe::encodings

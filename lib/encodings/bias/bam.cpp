// BAM: a generalised Gaussian prior over distance, which starts as ALiBi.
#include "encodings/bias/bam.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class Bam : public BamPrior {
 public:
  Bam(const BamOptions& options, const Shape& shape) : BamPrior("bam", options, shape) {}
};

}  // namespace

EncodingEntry bam_entry() {
  return with_options<Bam, BamOptions>(
      {.name = "bam",
       .summary = "Adds a trained generalised Gaussian prior over distance.",
       .reference = "Bianchessi et al. 2025, arXiv:2505.22842",
       .facts = {.learned = true},
       .family = Family::kBias,
       .acts_on = "logits",
       .parameters = "2*heads",
       .formula = "logit(i,j) += −(|j − i − μ_h| + 1e−5)^α_h·e^ς_h, μ_h = 2·sinh(location_h)",
       .known_for = "Each head learns the slope and the shape of its decay; it starts as ALiBi.",
       .errata = {"The exponent has no bound: a negative exponent gives an unbounded peak at distance 0, so watch "
                  "`shape`."}});
}

}  // namespace pe::encodings

// KERPLE's power kernel: a learned penalty −a·d^p with 0 < p ≤ 2; p = 1 is ALiBi with slope a.
#include "encodings/bias/kerple.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class KerplePower : public Kerple {
 public:
  KerplePower(const KerpleOptions& options, const Shape& shape) : Kerple("kerple_power", shape, options, 2) {}

 protected:
  // pow, not exp(p·ln d): its gradient at distance 0 is 0, not NaN.
  Tensor kernel(const Tensor& d, const Tensor& p, const Tensor& a) const override { return -a * at::pow(d, p); }
};

}  // namespace

EncodingEntry kerple_power_entry() {
  return with_options<KerplePower, KerpleOptions>(
      {.name = "kerple_power",
       .summary = "Adds a trained penalty on a power of distance.",
       .reference = "Chi et al. 2022, arXiv:2205.09921",
       .facts = {.learned = true},
       .family = Family::kBias,
       .acts_on = "logits",
       .parameters = "2*heads",
       .formula = "logit(i,j) += −a_h·d^p_h, a_h ≥ 0.01, 0.01 ≤ p_h ≤ 2",
       .known_for = "Learns the shape of the decay; with p = 1 it is ALiBi with trained slopes. Its paper prefers the "
                    "logarithmic kernel.",
       .errata = {"Some copies compute exp(p·ln d), whose gradient at distance 0 is NaN."}});
}

}  // namespace pe::encodings

// KERPLE's logarithmic kernel: a learned penalty that grows with the logarithm of distance, −p·ln(1 + a·d).
#include "encodings/bias/kerple.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class KerpleLog : public Kerple {
 public:
  KerpleLog(const KerpleOptions& options, const Shape& shape)
      : Kerple("kerple_log", shape, options, std::numeric_limits<double>::infinity()) {}

 protected:
  Tensor kernel(const Tensor& d, const Tensor& p, const Tensor& a) const override { return -p * at::log1p(a * d); }
};

}  // namespace

EncodingEntry kerple_log_entry() {
  return with_options<KerpleLog, KerpleOptions>(
      {.name = "kerple_log",
       .aliases = {"kerple"},
       .summary = "Adds a trained penalty on the logarithm of distance.",
       .reference = "Chi et al. 2022, arXiv:2205.09921",
       .facts = {.learned = true},
       .family = Family::kBias,
       .acts_on = "logits",
       .parameters = "2*heads",
       .formula = "logit(i,j) += −p_h·ln(1 + a_h·d), p_h ≥ 0.01, a_h ≥ 0.01",
       .known_for = "A penalty that grows slowly with distance. Perplexity is flat to about eight times the training "
                    "length in its paper and in other tables, then rises mildly.",
       .errata = {"The reference stores distances in the type of the activations, where bfloat16 is wrong above 256; "
                  "here they are float32.",
                  "The reference clamps before every forward pass, this project after every optimizer step. Values are "
                  "equal, and the gradient is exact."}});
}

}  // namespace pe::encodings

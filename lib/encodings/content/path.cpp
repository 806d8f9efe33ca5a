// PaTH: each token between a key and a query transforms the query by a separate Householder-like matrix.
#include "encodings/content/path.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class PlainPath : public Path {
 public:
  explicit PlainPath(const Shape& shape) : Path("path", shape) {}
};

}  // namespace

EncodingEntry path_entry() {
  return without_options<PlainPath>(
      {.name = "path",
       .summary = "Multiplies each query by a product of matrices, one for each token between query and key.",
       .reference = "Yang et al. 2025, arXiv:2505.16381",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "product of q and k",
       .parameters = "layers*(32*width + kv_heads*head_width*(32 + 3) + kv_heads*(width + 1))",
       .formula = "H_t = I − β_t w_t w_tᵀ, β_t = 2σ(W_β x_t), w_t = normalised silu(conv₃(up·down·x))_t\n"
                  "a_ij = k_jᵀ H_{j+1} … H_i q_i/√d_h",
       .known_for = "Tracks states that rotations cannot; its paper reports near zero error on flip-flop language. It "
                    "is 1.5 to 2 times as slow as fused attention.",
       .errata = {"The order matters: H_i is applied to the query first. The reverse order looks the same on short "
                  "texts.",
                  "At its initial values β is 1, a projection, so long products lose rank."}});
}

}  // namespace pe::encodings

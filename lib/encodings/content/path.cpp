// PaTH: the tokens between a key and a query turn the query, each by a Householder-like matrix of its own.
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
       .summary = "Multiplies each query by a product of matrices, one of each token between it and the key.",
       .reference = "Yang et al. 2025, arXiv:2505.16381",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "product of q and k",
       .parameters = "layers*(32*width + kv_heads*head_width*(32 + 3) + kv_heads*(width + 1))",
       .formula = "H_t = I − β_t w_t w_tᵀ, β_t = 2σ(W_β x_t), w_t = normalised silu(conv₃(up·down·x))_t\n"
                  "a_ij = k_jᵀ H_{j+1} … H_i q_i/√d_h",
       .known_for = "Tracks state that rotations cannot: near zero error on flip-flop language in its paper. One and "
                    "a half to two times as slow as fused attention.",
       .errata = {"The order matters: H_i meets the query first. The reverse order looks alike on short texts.",
                  "At its initial values β is 1, a projection, so long products lose rank."}});
}

}  // namespace pe::encodings

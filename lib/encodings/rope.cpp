// RoPE: q and k are turned by angles proportional to their positions, so that their product sees the distance alone.
#include "encodings/registry.h"
#include "encodings/rotary.h"

namespace pe::encodings {
namespace {

class Rope : public Rotary {
 public:
  Rope(const RotaryOptions& options, const Shape& shape) : Rotary("rope", shape, options) {}
};

}  // namespace

EncodingEntry rope_entry() {
  return with_options<Rope, RotaryOptions>({.name = "rope",
                                            .aliases = {"rotary"},
                                            .summary = "Turns pairs of query and key channels by angles proportional "
                                                       "to position.",
                                            .reference = "Su et al. 2021, arXiv:2104.09864",
                                            .facts = {.rotates = true}});
}

}  // namespace pe::encodings

// No encoding: the causal mask alone tells order.
#include "encodings/registry.h"

namespace pe::encodings {

EncodingEntry none_entry() {
  return without_options<PositionalEncoding>({.name = "none",
                                              .aliases = {"nope"},
                                              .summary = "No positional encoding; the causal mask alone tells order.",
                                              .reference = "Haviv et al. 2022, arXiv:2203.16634; Kazemnejad et al. "
                                                           "2023, arXiv:2305.19466"});
}

}  // namespace pe::encodings

/// @file
/// The figure of an encoding's page, drawn from what the code computes: score against distance, and against absolute
/// position where that matters, at initial values.
#pragma once

#include <string>

#include "encodings/registry.h"
#include "report/figures/figure.h"

namespace pe::handbook {

/// Set-up of all figures: 4 heads of width 64, training length 128, a text of 512 tokens, q = k = one vector whose
/// product gives the logit 1, so that what is drawn is the encoding's doing.
report::Figure encoding_figure(const encodings::EncodingEntry& entry);

/// What the figure shows, for the line below it.
std::string figure_caption(const encodings::EncodingEntry& entry);

}  // namespace pe::handbook

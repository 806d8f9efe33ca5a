/// @file
/// The figure of an encoding's page, computed by the code: score against distance, and against absolute position where
/// that matters, at initial values.
#pragma once

#include <string>

#include "encodings/registry.h"
#include "report/figures/figure.h"

namespace pe::encoding_docs {

/// Set-up of all figures: 4 heads of width 64, training length 128, a text of 512 tokens. Both q and k are one vector
/// whose product gives the logit 1, so that the figure shows only the encoding.
report::Figure encoding_figure(const encodings::EncodingEntry& entry);

/// Caption of the figure.
std::string figure_caption(const encodings::EncodingEntry& entry);

}  // namespace pe::encoding_docs

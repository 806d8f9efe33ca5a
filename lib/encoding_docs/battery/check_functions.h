/// @file
/// The functions behind the list in checks.h.
#pragma once

#include "encoding_docs/battery/checks.h"

namespace pe::encoding_docs::battery {

void check_table(const Subject& subject, Findings& findings);
void check_repetition(const Subject& subject, Findings& findings);
void check_causality(const Subject& subject, Findings& findings);
void check_routes(const Subject& subject, Findings& findings);
void check_gradients(const Subject& subject, Findings& findings);
void check_row_by_row(const Subject& subject, Findings& findings);
void check_shift(const Subject& subject, Findings& findings);
void check_given_positions(const Subject& subject, Findings& findings);
void check_far(const Subject& subject, Findings& findings);
void check_packed(const Subject& subject, Findings& findings);
void check_facts(const Subject& subject, Findings& findings);
void check_pairs(const Subject& subject, Findings& findings);
void check_row_hook(const Subject& subject, Findings& findings);
void check_inference(const Subject& subject, Findings& findings);
void check_seed(const Subject& subject, Findings& findings);
void check_frozen(const Subject& subject, Findings& findings);
void check_float32(const Subject& subject, Findings& findings);
void check_bfloat16(const Subject& subject, Findings& findings);
void check_far_bfloat16(const Subject& subject, Findings& findings);

}  // namespace pe::encoding_docs::battery

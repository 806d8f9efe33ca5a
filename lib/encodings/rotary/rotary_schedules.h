/// @file
/// The members of the rotary family that an extension rule can extend: one function a source file.
#pragma once

#include <vector>

#include "encodings/rotary/rescaling.h"

namespace pe::encodings {

RotarySchedule rope_schedule();
RotarySchedule partial_schedule();
RotarySchedule p_rope_schedule();
RotarySchedule hope_schedule();
RotarySchedule cope_clip_schedule();
RotarySchedule multiscale_rope_schedule();
RotarySchedule xpos_schedule();
RotarySchedule pope_schedule();
RotarySchedule lrope_schedule();
RotarySchedule lerope_schedule();
RotarySchedule inope_schedule();

const std::vector<RotarySchedule>& rotary_schedules();

}  // namespace pe::encodings

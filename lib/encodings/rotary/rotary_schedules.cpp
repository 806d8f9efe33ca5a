#include "encodings/rotary/rotary_schedules.h"

namespace pe::encodings {

const std::vector<RotarySchedule>& rotary_schedules() {
  static const std::vector<RotarySchedule> all = {
      rope_schedule(),      partial_schedule(),         p_rope_schedule(), hope_schedule(),
      cope_clip_schedule(), multiscale_rope_schedule(), xpos_schedule(),   pope_schedule(),
      lrope_schedule(),     lerope_schedule(),          inope_schedule(),
  };
  return all;
}

}  // namespace pe::encodings

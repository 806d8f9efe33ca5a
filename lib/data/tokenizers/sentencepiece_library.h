/// @file
/// libsentencepiece, loaded when it is first needed. Its symbols stay private (sentencepiece/plugin.h says why).
#pragma once

#include "sentencepiece/plugin.h"

namespace pe::data {

/// Loads the plug-in at the first call.
/// @throws support::ConfigError when the plug-in is absent, does not load, or is of another build
const sentencepiece_plugin::Table& sentencepiece_library();

}  // namespace pe::data

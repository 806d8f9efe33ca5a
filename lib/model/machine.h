/// @file
/// Machine and libraries of a learning stage, for records.
#pragma once

#include "support/json.h"

namespace pe::model {

/// For StageInfo::machine, after `prepare`: {"libtorch": "2.8.0", "device": "NVIDIA H200"}. Opens the device that the
/// group `compute` of the config names. @throws ConfigError as open_device (device.h).
Json machine(const Json& config);

}  // namespace pe::model

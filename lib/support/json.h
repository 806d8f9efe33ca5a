/// @file
/// JSON values: configs after they were read, descriptions, records, events. Objects are kept sorted by key.
#pragma once

#include <nlohmann/json.hpp>

namespace pe {
using Json = nlohmann::json;
}

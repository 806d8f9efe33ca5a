/// @file
/// Named figures of a running stage, as passed to `Progress::advance`, in a form for people.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/json.h"

namespace pe::support {

/// The end of a name says the unit: {"tokens_per_second": 31000} is "31.0k tokens/s", {"memory_bytes": …} "memory 1.2
/// GiB",
/// {"mfu": 0.381} "mfu 38.1%"; anything else is "name value".
std::string format_metric(std::string_view name, const Json& value);

/// Its members in the order in which they matter to people, should the line be cut: loss, speed, then the others by
/// name.
std::vector<std::pair<std::string, Json>> figures_in_order(const Json& detail);

}  // namespace pe::support

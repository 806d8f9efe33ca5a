#pragma once

#include <string>

namespace pe::support {

/// Changes with every start of the kernel; empty when nobody says.
const std::string& boot_id();

}  // namespace pe::support

#pragma once

#include <string>

namespace pe::support {

/// An id that changes with each start of the kernel; empty where it cannot be read.
const std::string& boot_id();

}  // namespace pe::support

#pragma once

#include <string>

namespace pe::support {

/// An id that each start of the kernel draws anew; empty where it cannot be read.
const std::string& boot_id();

}  // namespace pe::support

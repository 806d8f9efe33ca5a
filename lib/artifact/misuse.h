#pragma once

#include <string>

#include "support/error.h"

namespace pe::artifact {

/// Ends a call that no correct caller makes.
[[noreturn]] inline void bug(const std::string& what) {
  throw support::Error(support::kExitBug, support::Diagnostic{what});
}

}  // namespace pe::artifact

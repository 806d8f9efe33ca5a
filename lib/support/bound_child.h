/// @file
/// Child processes that do not outlive the thread that started them.
#pragma once

#include "support/process.h"

namespace pe::support {

/// As `spawn`. The kernel sends the child `signal` when the calling thread ends, however that comes; 0: none.
pid_t spawn_bound(const SpawnOptions& options, int signal);

}  // namespace pe::support

/// @file
/// Who prints what a stage reports: JSON lines for `pe-pipeline`, one redrawn line on a terminal, plain lines
/// elsewhere.
#pragma once

#include <memory>
#include <string>

#include "support/progress.h"

namespace pe::stage {

/// `how`: "auto" (a line on a terminal, plain lines elsewhere), "plain", "none". Events are dropped.
std::unique_ptr<support::Progress> make_human_reporter(const std::string& how);

/// JSON lines on `fd`: {"event": "note"|"warn"|"progress"|…}; notes and warnings also go to standard error, which
/// `pe-pipeline` keeps as the stage's log.
std::unique_ptr<support::Progress> make_event_reporter(int fd);

}  // namespace pe::stage

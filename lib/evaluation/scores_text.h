/// @file
/// The scores of an evaluation for people: the last lines of a `pe-evaluate` by hand.
#pragma once

#include <string>

#include "artifact/workspace.h"

namespace pe::evaluation {

/// A line per task and protocol, "perplexity, sliding: 3.34 at 128, 4.178 at 256 tokens", from the output `scores`. A
/// length without a score has its status. The last line names the file and its tables.
std::string scores_text(const artifact::Workspace& workspace);

}  // namespace pe::evaluation

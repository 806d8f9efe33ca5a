/// @file
/// Trainings that drop an encoding, and their controls: branches off the same checkpoint under the same new schedule.
#pragma once

#include <string>

#include "report/results/results.h"

namespace pe::report {

/// "drop", "nodrop", or empty for a training that is neither.
std::string drop_arm(const Curve& curve);

/// The labels that tell models apart, without the stages that made or evaluated them.
Labels without_makers(Labels labels);

/// Whether both branched off one checkpoint: by its digest where both know it, else by encoding, seed and step.
bool same_fork(const Curve& a, const Curve& b);

/// Gives a drop without an axis `encoding` the name of its control, which is the encoding that it had. The run of the
/// scores with the same labels, except for the stage, gets the same name.
void name_drops(Results& results);

}  // namespace pe::report

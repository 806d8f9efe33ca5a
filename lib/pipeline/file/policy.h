/// @file
/// Policy in a pipeline file: resources, retry, checkpoint. None of it is in a key.
#pragma once

#include "pipeline/file/graph.h"
#include "support/yaml.h"

namespace pe::pipeline {

/// Lays the members of a map over `resources`. Mistakes go to `diagnostics`.
void read_resources(const support::Node& map, Resources& resources, support::Diagnostics& diagnostics);

void read_retry(const support::Node& map, RetryPolicy& retry, support::Diagnostics& diagnostics);

/// {every: 10m, keep: 2} → {"every_s": 600, "keep": 2}.
void read_checkpoint(const support::Node& map, Json& checkpoint, support::Diagnostics& diagnostics);

}  // namespace pe::pipeline

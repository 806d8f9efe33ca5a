/// @file
/// A graph and its keys as one document. Whoever starts its tasks hours later, in other processes and on other
/// machines, then starts what was planned, whatever has become of the pipeline file, its configs and the programs
/// since.
#pragma once

#include <string>
#include <vector>

#include "pipeline/file/graph.h"
#include "support/json.h"

namespace pe::pipeline {

/// Schema "pe-graph/1". External inputs must have been hashed and plan keys computed. Stages, configs and
/// listings that tasks share stand there once. Places in files (Graph::origins_of) do not come along.
Json freeze(const Graph& graph);

/// @throws ArtifactError when the document is none, of a newer schema, or when this program would give its tasks other
/// keys than the one that froze it.
Graph thaw(const Json& document);

}  // namespace pe::pipeline

/// @file
/// A graph and its keys as one document. Tasks that start hours later, in other processes and on other machines, then
/// run as planned. Changes of the pipeline file, its configs and the programs since have no effect.
#pragma once

#include "pipeline/file/graph.h"
#include "support/json.h"

namespace pe::pipeline {

/// Schema "pe-graph/1". External inputs must have been hashed and plan keys computed. Stages, configs and
/// listings that tasks share are written once. Places in files (Graph::origins_of) are not included.
Json freeze(const Graph& graph);

/// @throws ArtifactError when the document is none, of a newer schema, or when this program would give its tasks other
/// keys than the one that froze it.
Graph thaw(const Json& document);

}  // namespace pe::pipeline

/// @file
/// A part of a graph that is complete: some tasks with all their direct and indirect producers.
#pragma once

#include <map>
#include <vector>

#include "pipeline/file/graph.h"

namespace pe::pipeline {

struct Subgraph {
  Graph graph;
  std::map<std::size_t, std::size_t> place;  ///< task of the whole → task of the part
};

/// The wanted tasks and their producers, theirs and so on. Keys do not change.
Subgraph subgraph(const Graph& graph, std::vector<bool> wanted);

}  // namespace pe::pipeline

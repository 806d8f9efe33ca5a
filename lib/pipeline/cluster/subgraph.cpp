#include "pipeline/cluster/subgraph.h"

namespace pe::pipeline {

Subgraph subgraph(const Graph& graph, std::vector<bool> wanted) {
  for (std::size_t i = graph.tasks.size(); i-- > 0;) {
    if (!wanted[i]) continue;
    for (const Edge& edge : graph.tasks[i].inputs) wanted[edge.producer] = true;
  }
  Subgraph part;
  part.graph.name = graph.name;
  part.graph.title = graph.title;
  part.graph.file = graph.file;
  part.graph.root = graph.root;
  part.graph.stage_labels = graph.stage_labels;
  part.graph.environment = graph.environment;
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (!wanted[i]) continue;
    part.place[i] = part.graph.tasks.size();
    part.graph.tasks.push_back(graph.tasks[i]);
    for (Edge& edge : part.graph.tasks.back().inputs) edge.producer = part.place.at(edge.producer);
  }
  return part;
}

}  // namespace pe::pipeline

#include "pipeline/file/graph.h"

namespace pe::pipeline {

std::map<std::string, std::string> labels_of(const Task& producer, const std::string& snapshot) {
  std::map<std::string, std::string> labels(producer.axes.begin(), producer.axes.end());
  labels.emplace("stage", producer.label);
  if (!snapshot.empty()) labels.emplace("snapshot", snapshot);
  return labels;
}

std::map<std::string, std::string> labels_of(const Graph& graph, const Edge& edge) {
  return labels_of(graph.tasks[edge.producer], edge.snapshot);
}

std::string producer_id(const Graph& graph, const Edge& edge) {
  return graph.tasks[edge.producer].id + (edge.snapshot.empty() ? "" : "@" + edge.snapshot);
}

}  // namespace pe::pipeline

/// @file
/// Costs in `plan`: hours and their sources, bytes on disk, memory of a GPU, epochs over the data.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "pipeline/orchestrator.h"

namespace pe::commands {

/// With `--device`: the slots of a machine with such GPUs (one, unless --gpus names others) and room for the rest.
pipeline::Capacity capacity_on_device(pipeline::Capacity capacity, bool gpus_named, const pipeline::Graph& graph);

/// How often trainings read their data, most first.
struct Epochs {
  std::string label;           ///< of the stage
  double tokens = 0;           ///< of the longest training
  std::optional<double> data;  ///< tokens that there are to train on; empty while the data is not in the store
};
std::vector<Epochs> epochs_of(const pipeline::Graph& graph, const pipeline::Plan& plan, const pipeline::Store& store);

/// Models of a size, as far as a device's memory is concerned.
struct MemoryNeed {
  double parameters = 0;
  std::size_t tasks = 0;
  const pipeline::MeasuredTraining* measured = nullptr;  ///< of nearly this size; null: none
};
std::vector<MemoryNeed> memory_of(const pipeline::Graph& graph, const pipeline::Plan& plan,
                                  const pipeline::DeviceTable& table);

/// The lines "cost", "from", "unknown", "disk", "memory" and "epochs". `table` may be null.
std::string cost_lines(const pipeline::Graph& graph, const pipeline::Plan& plan, const pipeline::Store& store,
                       const pipeline::Estimate& cost, const pipeline::Capacity& capacity,
                       const pipeline::DeviceTable* table);

}  // namespace pe::commands

/// @file
/// Measured speeds of trainings on one device (`pe-device/1`, data/devices/*.yml), and estimates of other trainings.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/file/graph.h"
#include "pipeline/plan/rates.h"

namespace pe::pipeline {

struct MeasuredTraining {
  std::string size;                        ///< "small"
  double parameters = 0, flops = 0;        ///< of the model; of forward and backward for a token
  std::int64_t length = 0, sequences = 0;  ///< of one pass
  double tokens_per_s = 0, memory_gib = 0;
};

struct MeasuredEncoding {
  std::string name;
  double factor = 1;  ///< time of a step over that with rope
  std::string at;     ///< size at which that was measured; empty: every one
};

struct DeviceTable {
  std::string device;  ///< as programs report it: "NVIDIA H100 80GB HBM3"
  double memory_gib = 0;
  std::string measured;  ///< date
  std::string dtype, deterministic;
  std::vector<MeasuredTraining> trainings;
  std::vector<MeasuredEncoding> encodings;
  std::vector<std::string> as_none;  ///< encodings with the cost of `none`, since they act before the first block

  const MeasuredTraining* find(std::string_view size) const;
  /// The training that is nearest in parameters, if it is near.
  const MeasuredTraining* nearest(double parameters) const;

  struct Lookup {
    double seconds = 0;
    std::string source;   ///< the measurement; empty: none is near, and `why_not` says which is lacking
    std::string why_not;  ///< "encoding fox was not measured on NVIDIA H100 80GB HBM3"
  };
  Lookup find(const Task& task, const Work& work) const;
};

/// Names of the tables that the program carries: "h100".
std::vector<std::string> device_tables();
/// The table of this name, or of a file (a word that holds '/' or ends in .yml).
/// @throws ConfigError when there is none, or the file is none
DeviceTable read_device_table(const std::string& name);

}  // namespace pe::pipeline

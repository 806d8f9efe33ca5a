/// @file
/// Input of sbatch for an array: its options as an argument list, and the batch script. No value passes through a shell
/// except the lines of `slurm.setup`, which the user writes.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pipeline/cluster/array_layout.h"

namespace pe::pipeline {

/// Name and folder of an array.
struct BatchPlace {
  std::string run;
  std::string token;                 ///< distinguishes this array from every other, of this and other runs
  std::string folder;                ///< of the run; jobs write their logs below it
  std::vector<std::string> command;  ///< of an element, without its index
};

/// "trunk.3f9ac2d10b44": the name that a job is found by.
std::string job_name(const std::string& label, const std::string& token);

/// "afterok:12:13_4,aftercorr:15"; empty without dependencies. `jobs` gives the job of each array that still counts.
/// Ended arrays are not in it and must not be named, since Slurm treats an unknown id as a job that ended well.
std::string dependency(const std::vector<ArrayNeed>& needs, const std::map<std::size_t, std::string>& jobs);

std::vector<std::string> sbatch_options(const JobArray& array, const BatchPlace& place);

std::string batch_script(const JobArray& array, const BatchPlace& place);

}  // namespace pe::pipeline

/// @file
/// Where a record of this build was measured: lines of recorded_*.inc begin with it.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace pe::cuda {

/// A record belongs to a version of a library, and its time to a model of device.
struct Place {
  int capability = 0, multiprocessors = 0;
  std::size_t version = 0;
  bool operator==(const Place&) const = default;
};

/// The current device, with the version of the library that computes.
inline Place current_place(std::size_t version) {
  int device = 0, major = 0, minor = 0;
  Place place{.version = version};
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  cudaDeviceGetAttribute(&place.multiprocessors, cudaDevAttrMultiProcessorCount, device);
  place.capability = 10 * major + minor;
  return place;
}

}  // namespace pe::cuda

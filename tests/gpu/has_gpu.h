/// @file
/// A precondition of suites: skipped, with the reason, where no GPU can be used.
#pragma once

#include <boost/test/unit_test.hpp>
#include <exception>

#include "model/device.h"

namespace pe::test {

inline model::ComputeConfig on_gpu() {
  model::ComputeConfig compute;
  compute.device = model::DeviceKind::kCuda;
  return compute;
}

struct HasGpu {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    try {
      return model::open_device(model::resolve(on_gpu())).is_cuda();
    } catch (const std::exception& error) {
      boost::test_tools::assertion_result result(false);
      result.message() << error.what();
      return result;
    }
  }
};

}  // namespace pe::test

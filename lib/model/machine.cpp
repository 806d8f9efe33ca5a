#include "model/machine.h"

#include <torch/version.h>

#include "model/device.h"

namespace pe::model {

Json machine(const Json& config) {
  const auto group = config.find("compute");
  const ComputeConfig compute =
      group == config.end() ? ComputeConfig() : support::make_config<ComputeConfig>(*group, "compute");
  return {{"libtorch", TORCH_VERSION}, {"device", device_name(open_device(compute))}};
}

}  // namespace pe::model

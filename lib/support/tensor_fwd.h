/// @file
/// Names a tensor without LibTorch's headers, which cost seconds in every source that sees them.
#pragma once

namespace at {
class Tensor;
}

namespace pe {
using Tensor = at::Tensor;
}

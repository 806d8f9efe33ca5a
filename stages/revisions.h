/// @file
/// Changes of contents that some configs alone have met, for StageInfo::revisions.
#pragma once

#include "stage/stage_main.h"

namespace pe::stages {

/// 2: causal attention by products in bf16, too.
inline const stage::Revision kBf16OnCpu{
    .name = "compute.bf16_on_cpu", .when = {{"compute.device", "cpu"}, {"compute.dtype", "bf16"}}, .number = 2};

/// 2: the loss's factor before its gradients; fused stick-breaking, counts and edges. 3: fused networks of pairs.
inline const stage::Revision kOnCuda{.name = "compute.on_cuda", .when = {{"compute.device", "cuda"}}, .number = 3};

}  // namespace pe::stages

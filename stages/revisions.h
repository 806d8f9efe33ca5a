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

/// 2: a factor that is given stays, and leaky_rerope takes its own from the length of the text.
inline const stage::Revision kEvaluatedFactor{
    .name = "eval.rule_factor", .when = {{"eval.encoding.kind", {"llama3", "distance_map"}}}, .number = 2};

/// 2: the control of a retrieval keeps the lines that do not decide.
inline const stage::Revision kKeptLines{
    .name = "eval.kept_lines", .when = {{"eval.tasks", {"needle", "ruler"}}}, .number = 2};
/// 2: no solved example is the item that is asked.
inline const stage::Revision kOtherShots{
    .name = "eval.other_shots", .when = {{"eval.algorithmic.in_context", nullptr}}, .number = 2};
/// 2: lengths that the task has.
inline const stage::Revision kTaskLengths{
    .name = "eval.task_lengths",
    .when = {{"eval.tasks", "algorithmic"}, {"eval.algorithmic.lengths", Json::array()}},
    .number = 2};
/// 2: a rule over an extended checkpoint takes its factor and length into account.
inline const stage::Revision kExtendedRules{
    .name = "eval.extended_rules",
    .when = {{"eval.tasks", "extension"},
             {"eval.extension.variants",
              {"pi", "ntk", "dyn_ntk", "ntk_parts", "llama3", "yarn", "resonance", "yarn_resonance", "longrope"}}},
    .number = 2};
inline const stage::Revision kExtendedRulesByDefault{
    .name = "eval.extended_rules_by_default",
    .when = {{"eval.tasks", "extension"}, {"eval.extension.variants", Json::array()}},
    .number = 2};

inline const stage::Revision kExtendedFactor{
    .name = "extend.rule_factor", .when = {{"extend.encoding.kind", "llama3"}}, .number = 2};

/// 2: the checkpoint's own encoding has its factor and window at the new length, too.
inline const stage::Revision kExtendedOwn{
    .name = "extend.own", .when = {{"extend.encoding_of", "checkpoint"}}, .number = 2};

}  // namespace pe::stages

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

/// 2: lines of .jsonl, too.
inline const stage::Revision kInvalidUtf8{
    .name = "fetch.invalid_utf8", .when = {{"invalid_utf8", {"replace", "keep"}}}, .number = 2};

/// 2: a factor that is given stays, and leaky_rerope takes its own from the length of the text.
inline const stage::Revision kEvaluatedFactor{
    .name = "eval.rule_factor", .when = {{"eval.encoding.kind", {"llama3", "distance_map"}}}, .number = 2};

/// 2: the control of a retrieval keeps the lines that do not decide.
inline const stage::Revision kKeptLines{
    .name = "eval.kept_lines", .when = {{"eval.tasks", {"needle", "ruler"}}}, .number = 2};
/// 2: the control of babi keeps no line that tells the answer again.
inline const stage::Revision kBabiControl{.name = "eval.babi_control", .when = {{"eval.tasks", "babi"}}, .number = 2};
/// 2: moved positions are none where the encoding sets positions itself.
inline const stage::Revision kSetPositions{
    .name = "eval.set_positions", .when = {{"eval.tasks", {"position_loss", "frequencies"}}}, .number = 2};
inline const stage::Revision kReliesOnPositions{
    .name = "eval.relies_on_positions",
    .when = {{"eval.tasks", "reliance"}, {"eval.reliance.tests", {"constant_position", "translation"}}},
    .number = 2};
inline const stage::Revision kReliesByDefault{
    .name = "eval.relies_by_default",
    .when = {{"eval.tasks", "reliance"}, {"eval.reliance.tests", Json::array()}},
    .number = 2};
/// 2: a rule in place of a rule begins from its factor and training length.
inline const stage::Revision kEvaluatedRule{
    .name = "eval.rule_over_rule",
    .when = {{"eval.encoding.kind",
              {"pi", "ntk", "dyn_ntk", "ntk_parts", "llama3", "yarn", "resonance", "yarn_resonance", "longrope",
               "longrope2", "longrope_resonance", "clex"}}},
    .number = 2};
inline const stage::Revision kExtendedRule{
    .name = "extend.rule_over_rule",
    .when = {{"extend.encoding.kind", kEvaluatedRule.when["eval.encoding.kind"]}},
    .number = 2};
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
/// 3: and the factor of dyn_ntk, too.
inline const stage::Revision kExtendedRulesByDefault{
    .name = "eval.extended_rules_by_default",
    .when = {{"eval.tasks", "extension"}, {"eval.extension.variants", Json::array()}},
    .number = 3};

/// 2: dyn_ntk takes its factor from the text's length alone.
inline const stage::Revision kDynamicFactor{
    .name = "eval.dynamic_factor",
    .when = {{"eval.tasks", "extension"}, {"eval.extension.variants", "dyn_ntk"}},
    .number = 2};
/// 2: a perplexity of key tokens above the limit is an overflow.
inline const stage::Revision kLongPplLimit{
    .name = "eval.longppl_limit", .when = {{"eval.tasks", "longppl"}}, .number = 2};

inline const stage::Revision kExtendedFactor{
    .name = "extend.rule_factor", .when = {{"extend.encoding.kind", "llama3"}}, .number = 2};

/// 2: blocks of attention alone drop, too.
inline const stage::Revision kBareDropout{
    .name = "model.bare_dropout", .when = {{"model.bare_attention", true}, {"model.dropout", nullptr}}, .number = 2};

/// 2: members of a stack that stay keep their parameters.
inline const stage::Revision kKeptMembers{
    .name = "drop.kept_members", .when = {{"drop.arm", "drop"}, {"drop.encoding.stack", nullptr}}, .number = 2};

/// 2: it begins as the checkpoint's rope.
inline const stage::Revision kExtendedClex{
    .name = "extend.clex_base", .when = {{"extend.encoding.kind", "clex"}}, .number = 2};

inline const stage::Revision kExtendedClexInStack{
    .name = "extend.clex_in_stack", .when = {{"extend.encoding.stack", nullptr}}, .number = 2};

/// 2: metrics name the slope that was fitted, as the model does.
inline const stage::Revision kFittedSlope{
    .name = "drop.fitted_slope", .when = {{"drop.logit_scale", "fitted"}}, .number = 2};

/// 2: the checkpoint's own encoding has its factor and window at the new length, too. 3: and its target.
inline const stage::Revision kExtendedOwn{
    .name = "extend.own", .when = {{"extend.encoding_of", "checkpoint"}}, .number = 3};

}  // namespace pe::stages

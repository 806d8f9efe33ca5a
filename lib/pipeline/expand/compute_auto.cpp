#include "pipeline/expand/compute_auto.h"

#include <algorithm>

#include "pipeline/file/config_value.h"
#include "support/ranks.h"

namespace pe::pipeline {

namespace {

bool is_auto(const Json& value) { return value.is_null() || (value.is_string() && value == "auto"); }

/// Sequences of a step, or tokens of one, where the stage's own config says: a factor of its trajectory, else a field
/// of that name. 0: it does not say.
std::int64_t factor_of(const StageDescription& stage, const Json& config, std::size_t which, const std::string& name) {
  std::string key;
  if (stage.trajectory && stage.trajectory->tokens_per_step.size() > which)
    key = stage.trajectory->tokens_per_step[which];
  for (const std::string& candidate : {key, "train." + name, name}) {
    if (candidate.empty()) continue;
    const Json* value = find_value(config, candidate);
    if (value && value->is_number_integer()) return value->get<std::int64_t>();
  }
  return 0;
}

bool accepts(const support::Field& field, const std::string& word) {
  return field.type != support::FieldType::kChoice ||
         std::find(field.choices.begin(), field.choices.end(), word) != field.choices.end();
}

}  // namespace

void resolve_compute(const StageDescription& stage, const Resources& resources, const InstructionSets& isa,
                     Json& config) {
  const support::Field* group = support::find_field(stage.fields, "compute");
  if (!group || group->type != support::FieldType::kGroup || !config.contains("compute")) return;
  Json& compute = config["compute"];
  const auto resolve = [&](const char* name, auto&& value) {
    const support::Field* field = support::find_field(group->fields, name);
    if (!field) return;
    const auto it = compute.find(name);
    if (it != compute.end() && !is_auto(*it)) return;
    const Json found = value(*field);
    if (!found.is_null()) compute[name] = found;
  };
  resolve("device", [&](const auto&) -> Json { return resources.gpus > 0 ? "cuda" : "cpu"; });
  const bool cuda = compute.contains("device") && compute["device"] == "cuda";
  resolve("ranks",
          [&](const auto&) -> Json { return std::max<std::int64_t>(1, static_cast<std::int64_t>(resources.gpus)); });
  const auto found = compute.find("ranks");
  const std::int64_t ranks =
      found != compute.end() && found->is_number_integer() ? std::max<std::int64_t>(1, found->get<std::int64_t>()) : 1;
  resolve("threads", [&](const auto&) -> Json { return std::max<std::int64_t>(1, resources.cpus / ranks); });
  resolve("dtype", [&](const auto&) -> Json { return cuda ? "bf16" : "fp32"; });
  resolve("deterministic", [&](const auto&) -> Json { return "on"; });
  resolve("micro_batch", [&](const auto&) -> Json {
    const std::int64_t whole = factor_of(stage, config, 0, "batch"), length = factor_of(stage, config, 1, "length"),
                       batch = whole % ranks == 0 ? whole / ranks : whole;  // of a rank
    if (batch <= 0 || (cuda && length <= 0)) return Json();  // the stage asks the model that it continues
    return Json(cuda ? support::gpu_micro_batch(batch, length) : batch);
  });
  resolve("isa", [&](const support::Field& field) -> Json {
    static const std::vector<std::string> kFallingOrder{"amx", "avx512", "avx2", "portable"};
    const bool bf16_on_cpu = !cuda && compute.contains("dtype") && compute["dtype"] == "bf16";
    auto at = std::find(kFallingOrder.begin(), kFallingOrder.end(), bf16_on_cpu ? isa.bf16 : isa.fp32);
    // Nothing else uses AMX, and keys of the rest must not distinguish such machines.
    if (at == kFallingOrder.begin() && !bf16_on_cpu) ++at;
    for (; at != kFallingOrder.end(); ++at) {
      if (accepts(field, *at)) return *at;
    }
    return {};
  });
}

}  // namespace pe::pipeline

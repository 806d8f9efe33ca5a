#include "pipeline/expand/compute_auto.h"

#include <algorithm>

#include "pipeline/file/config_value.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

bool is_auto(const Json& value) { return value.is_null() || (value.is_string() && value == "auto"); }

/// Sequences of a step, where the stage's own config says: the first factor of a trajectory, else a field `batch`.
std::int64_t batch_of(const StageDescription& stage, const Json& config) {
  std::string key;
  if (stage.trajectory && !stage.trajectory->tokens_per_step.empty()) key = stage.trajectory->tokens_per_step.front();
  for (const std::string& candidate : {key, std::string("train.batch"), std::string("batch")}) {
    if (candidate.empty()) continue;
    const Json* value = find_value(config, candidate);
    if (value && value->is_number_integer()) return value->get<std::int64_t>();
  }
  return 0;
}

/// Micro-batches must divide the batch.
std::int64_t largest_divisor(std::int64_t of, std::int64_t at_most) {
  for (std::int64_t divisor = std::min(of, at_most); divisor > 1; --divisor) {
    if (of % divisor == 0) return divisor;
  }
  return 1;
}

bool accepts(const support::Field& field, const std::string& word) {
  return field.type != support::FieldType::kChoice ||
         std::find(field.choices.begin(), field.choices.end(), word) != field.choices.end();
}

}  // namespace

void resolve_compute(const StageDescription& stage, const Resources& resources, const std::string& isa, Json& config) {
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
  resolve("ranks", [&](const auto&) -> Json { return std::max<std::int64_t>(1, static_cast<std::int64_t>(resources.gpus)); });
  const auto found = compute.find("ranks");
  const std::int64_t ranks =
      found != compute.end() && found->is_number_integer() ? std::max<std::int64_t>(1, found->get<std::int64_t>()) : 1;
  resolve("threads", [&](const auto&) -> Json { return std::max<std::int64_t>(1, resources.cpus / ranks); });
  resolve("dtype", [&](const auto&) -> Json { return cuda ? "bf16" : "fp32"; });
  resolve("deterministic", [&](const auto&) -> Json { return "on"; });
  resolve("micro_batch", [&](const auto&) -> Json {
    const std::int64_t whole = batch_of(stage, config),
                       batch = whole % ranks == 0 ? whole / ranks : whole;  // of a rank
    if (cuda) return Json(batch > 0 ? largest_divisor(batch, 64) : 64);
    return batch > 0 ? Json(batch) : Json();   // the stage takes the whole batch of the model that it continues
  });
  resolve("isa", [&](const support::Field& field) -> Json {
    static const std::vector<std::string> kFallingOrder{"amx", "avx512", "avx2", "portable"};
    auto at = std::find(kFallingOrder.begin(), kFallingOrder.end(), isa);
    // Nothing else uses AMX, and keys of the rest must not tell such machines apart.
    const bool uses_amx = !cuda && compute.contains("dtype") && compute["dtype"] == "bf16";
    if (isa == "amx" && !uses_amx) ++at;
    for (; at != kFallingOrder.end(); ++at) {
      if (accepts(field, *at)) return *at;
    }
    return {};
  });
}

}  // namespace pe::pipeline

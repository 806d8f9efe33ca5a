#include "training/identity.h"

#include "model/device.h"

namespace pe::training {

Json identity_of(const Run& run) {
  const Schedule& schedule = run.schedule;
  Json json = {{"kind", word_of(schedule.kind)},
               {"begin", schedule.begin},
               {"warmup", schedule.warmup},
               {"peak", schedule.peak},
               {"log_every", run.watch.log_every},
               {"validate_every", run.watch.validate_every},
               {"validate_windows", run.watch.validate_windows}};
  if (!schedule.free_of_horizon(schedule.end)) {
    json["shape"] = word_of(schedule.shape);
    json["final_share"] = schedule.final_share;
    json["decay_begin"] = schedule.decay_begin;
    json["end"] = schedule.end;
  }
  return json;
}

Json fingerprint_of(const Run& run) {
  Json json = model::fingerprint(run.compute, run.model.device());
  json["micro_batch"] = run.compute.micro_batch.value_or(run.batch);
  if (run.communicator != nullptr && run.communicator->count() > 1) json["ranks"] = run.communicator->count();
  return json;
}

std::pair<Json, Json> differences(const Json& a, const Json& b) {
  const auto only = [](const Json& of, const Json& without) {
    Json left = Json::object();
    for (const auto& [name, value] : of.items()) {
      if (!without.contains(name) || without[name] != value) left[name] = value;
    }
    return left;
  };
  return {only(a, b), only(b, a)};
}

}  // namespace pe::training

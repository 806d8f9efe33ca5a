#include "pipeline/file/policy.h"

#include <algorithm>
#include <cmath>

#include "pipeline/file/policy_values.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::Diagnostics;
using support::Node;
using support::quote;
using support::Suffixes;

void read_resources(const Node& map, Resources& resources, Diagnostics& diagnostics) {
  if (!is_map(map, "resources", diagnostics)) return;
  for (const auto& member : map.members) {
    if (member.key == "cpus") {
      if (auto value = integer(member, Suffixes::kNone, 1, diagnostics, "4")) resources.cpus = *value;
    } else if (member.key == "mem") {
      if (auto value = integer(member, Suffixes::kBytes, 1, diagnostics, "512M or 4G")) resources.mem_bytes = *value;
    } else if (member.key == "gpus") {
      if (auto value = real(member, Suffixes::kNone, 0, diagnostics, "1, or 0.25 for a share")) {
        if (*value > 1 && *value != std::floor(*value))
          diagnostics.add(cat("expected a whole number of GPUs, or a share below 1, found ", *value),
                          member.value.place());
        resources.gpus = *value;
      }
    } else if (member.key == "time") {
      if (auto value = time_limit(member, diagnostics)) resources.time_s = *value;
    } else if (member.key == "pools") {
      resources.pools = words_of(member, diagnostics);
    } else if (member.key == "pack") {
      if (auto value = integer(member, Suffixes::kNone, 1, diagnostics, "8")) resources.pack = *value;
    } else {
      refuse_key(member, "resources", {"cpus", "mem", "gpus", "time", "pools", "pack"}, diagnostics);
    }
  }
}

void read_retry(const Node& map, RetryPolicy& retry, Diagnostics& diagnostics) {
  if (!is_map(map, "'retry'", diagnostics)) return;
  static const std::vector<std::string> kClasses{"oom", "node", "transient", "network"};
  for (const auto& member : map.members) {
    if (member.key == "max") {
      if (auto value = integer(member, Suffixes::kNone, 0, diagnostics, "2")) {
        retry.max = static_cast<int>(std::min<std::int64_t>(*value, 1000));
      }
    } else if (member.key == "on") {
      retry.on = words_of(member, diagnostics);
      for (const std::string& word : retry.on) {
        if (std::find(kClasses.begin(), kClasses.end(), word) != kClasses.end()) continue;
        std::string hint = support::suggestion(word, kClasses);
        if (hint.empty()) hint = cat("expected one of ", support::join(kClasses, ", "));
        diagnostics.add(cat("unknown class of failure ", quote(word)), member.value.place(), hint);
      }
    } else if (member.key == "backoff") {
      if (auto value = real(member, Suffixes::kSeconds, 0, diagnostics, "30s")) retry.backoff_s = *value;
    } else if (member.key == "oom_mem") {
      if (auto value = real(member, Suffixes::kNone, 1, diagnostics, "1.5")) retry.oom_mem = *value;
    } else {
      refuse_key(member, "'retry'", {"max", "on", "backoff", "oom_mem"}, diagnostics);
    }
  }
}

void read_checkpoint(const Node& map, Json& checkpoint, Diagnostics& diagnostics) {
  if (!is_map(map, "'checkpoint'", diagnostics)) return;
  for (const auto& member : map.members) {
    if (member.key == "every") {
      if (auto value = real(member, Suffixes::kSeconds, 0, diagnostics, "10m")) checkpoint["every_s"] = *value;
    } else if (member.key == "keep") {
      if (auto value = integer(member, Suffixes::kNone, 1, diagnostics, "2")) checkpoint["keep"] = *value;
    } else {
      refuse_key(member, "'checkpoint'", {"every", "keep"}, diagnostics);
    }
  }
}

}  // namespace pe::pipeline

#include "pipeline/file/policy.h"

#include <algorithm>
#include <cmath>

#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::Diagnostics;
using support::Node;
using support::quote;
using support::Suffixes;

namespace {

bool is_map(const Node& node, std::string_view what, Diagnostics& diagnostics) {
  if (node.is_map()) return true;
  diagnostics.add(cat("expected a map for ", what, ", found ", node.found()), node.place());
  return false;
}

void refuse_key(const Node::Member& member, std::string_view what, const std::vector<std::string>& known,
                Diagnostics& diagnostics) {
  std::string hint = support::suggestion(member.key, known);
  if (hint.empty()) hint = cat("expected one of ", support::join(known, ", "));
  diagnostics.add(cat("unknown key ", quote(member.key), " in ", what), member.key_mark.place(), hint);
}

std::optional<std::int64_t> integer(const Node::Member& member, Suffixes suffixes, std::int64_t least,
                                    Diagnostics& diagnostics, std::string_view example) {
  std::string why;
  const auto value = member.value.is_scalar() ? support::parse_integer(member.value.text, suffixes, &why) : std::nullopt;
  if (!value || *value < least) {
    diagnostics.add(cat(quote(member.key), " must be an integer from ", least, ", found ", member.value.found(),
                        why.empty() ? "" : cat(", which ", why)),
                    member.value.place(), cat("such as ", example));
    return std::nullopt;
  }
  return value;
}

std::optional<double> real(const Node::Member& member, Suffixes suffixes, double least, Diagnostics& diagnostics,
                           std::string_view example) {
  const auto value = member.value.is_scalar() ? support::parse_real(member.value.text, suffixes) : std::nullopt;
  if (!value || !(*value >= least) || *value > 1e15) {
    diagnostics.add(cat(quote(member.key), " must be a number from ", least, ", found ", member.value.found()),
                    member.value.place(), cat("such as ", example));
    return std::nullopt;
  }
  return value;
}

std::vector<std::string> words(const Node::Member& member, Diagnostics& diagnostics) {
  std::vector<std::string> found;
  if (member.value.is_scalar()) return {member.value.text};
  if (!member.value.is_list()) {
    diagnostics.add(cat("expected a list of names for ", quote(member.key), ", found ", member.value.found()),
                    member.value.place());
    return found;
  }
  for (const Node& item : member.value.items) {
    if (item.is_scalar()) found.push_back(item.text);
    else diagnostics.add(cat("expected a name in ", quote(member.key), ", found ", item.found()), item.place());
  }
  return found;
}

}  // namespace

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
      if (auto value = real(member, Suffixes::kSeconds, 0, diagnostics, "30m or 6h")) resources.time_s = *value;
    } else if (member.key == "pools") {
      resources.pools = words(member, diagnostics);
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
      retry.on = words(member, diagnostics);
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

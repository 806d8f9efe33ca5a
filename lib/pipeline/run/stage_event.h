/// @file
/// Events of a stage at work: one JSON object a line on its events descriptor. Any bytes that a program writes there
/// become such an event or are left out. None can pass for an event of the run itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "support/json.h"

namespace pe::pipeline {

inline constexpr std::size_t kLongestStageEvent = 64 * 1024;  ///< bytes of a line; a longer one is left out whole
inline constexpr int kDeepestStageEvent = 16;                 ///< objects and lists in each other

struct StageEvent {
  enum class Kind { kProgress, kMachine, kMemory, kSnapshot, kCheckpoint, kText };
  Kind kind = Kind::kProgress;
  /// Its name in the journal: "note", "warn", "checkpoint", and "stage:NAME" for every name that stages may not use.
  std::string name;
  Json detail = Json::object();  ///< its members, except "event" and "key", which are the journal's

  /// A member that is a whole number of 64 bits.
  std::optional<std::int64_t> integer(const char* member) const;
};

/// Nothing for a line that is no JSON object, or is longer or deeper than an event may be. Never throws.
std::optional<Json> parse_stage_event(std::string_view line);

/// Any JSON value; one that is no object is progress without members. Never throws.
StageEvent read_stage_event(Json message);

}  // namespace pe::pipeline

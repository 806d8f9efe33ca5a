#include "pipeline/run/stage_event.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "support/parse_json.h"

namespace pe::pipeline {

namespace {

using Kind = StageEvent::Kind;

constexpr std::size_t kLongestName = 64;

/// A name that a stage made up, in a form that journals and terminals can take.
std::string foreign_name(const std::string& name) {
  const bool plain = !name.empty() && name.size() <= kLongestName &&
                     std::all_of(name.begin(), name.end(), [](char c) { return c > ' ' && c < 0x7f && c != '"'; });
  return "stage:" + (plain ? name : std::string("other"));
}

}  // namespace

std::optional<std::int64_t> StageEvent::integer(const char* member) const {
  const auto at = detail.find(member);
  if (at == detail.end() || !at->is_number_integer()) return std::nullopt;
  if (at->is_number_unsigned() &&
      at->get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return std::nullopt;
  return at->get<std::int64_t>();
}

std::optional<Json> parse_stage_event(std::string_view line) {
  constexpr support::JsonBounds kBounds{
      .depth = kDeepestStageEvent, .values = kLongestStageEvent, .bytes = kLongestStageEvent};
  Json message = support::parse_json(line, kBounds);
  if (!message.is_object()) return std::nullopt;
  return message;
}

StageEvent read_stage_event(Json message) {
  StageEvent event;
  if (message.is_object()) event.detail = std::move(message);
  const auto kind = event.detail.find("event");
  event.name = kind != event.detail.end() && kind->is_string() ? kind->get<std::string>() : "progress";
  static constexpr std::pair<std::string_view, Kind> kKinds[] = {
      {"progress", Kind::kProgress}, {"machine", Kind::kMachine},       {"memory", Kind::kMemory},
      {"snapshot", Kind::kSnapshot}, {"checkpoint", Kind::kCheckpoint}, {"note", Kind::kText},
      {"warn", Kind::kText}};
  const auto known =
      std::find_if(std::begin(kKinds), std::end(kKinds), [&](const auto& entry) { return entry.first == event.name; });
  event.kind = known == std::end(kKinds) ? Kind::kText : known->second;
  if (known == std::end(kKinds)) event.name = foreign_name(event.name);
  if (event.kind != Kind::kProgress && event.kind != Kind::kMachine) event.detail.erase("event");
  event.detail.erase("key");
  return event;
}

}  // namespace pe::pipeline

#include "pipeline/file/policy_values.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::Diagnostics;
using support::Node;
using support::quote;
using support::Suffixes;

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

namespace {

/// The units of Slurm, of shells and of other pipelines, and ours.
constexpr std::pair<std::string_view, std::string_view> kUnits[] = {
    {"sec", "s"},    {"secs", "s"},    {"second", "s"}, {"seconds", "s"}, {"min", "m"},  {"mins", "m"},
    {"minute", "m"}, {"minutes", "m"}, {"hr", "h"},     {"hrs", "h"},     {"hour", "h"}, {"hours", "h"},
    {"day", "d"},    {"days", "d"},    {"H", "h"},      {"M", "m"},       {"S", "s"},    {"D", "d"}};

/// The ways out for a time or a size without a known unit: "90s, 90m or 90h". Empty when the unit is known, or for 0.
std::string unit_hint(std::string_view text, Suffixes suffixes) {
  if (suffixes != Suffixes::kSeconds && suffixes != Suffixes::kBytes) return {};
  std::size_t end = std::min(text.find_first_not_of("0123456789._"), text.size());
  if (support::parse_real(text)) end = text.size();  // 4e9 has no unit either
  const std::string_view number = text.substr(0, end), unit = support::trim(text.substr(end));
  if (number.empty() || number.find_first_not_of("0._") == std::string_view::npos) return {};
  if (suffixes == Suffixes::kSeconds) {
    if (unit.empty()) return cat("a time needs a unit: ", number, "s, ", number, "m or ", number, "h");
    for (const auto& [theirs, ours] : kUnits) {
      if (unit == theirs) return cat("did you mean ", number, ours, "?");
    }
    return {};
  }
  if (unit.empty()) return cat("a size needs a unit: ", number, "M or ", number, "G");
  const std::string_view rest = unit.substr(1);
  const char letter = static_cast<char>(std::toupper(static_cast<unsigned char>(unit.front())));
  if (std::string_view("KMGT").find(letter) == std::string_view::npos) return {};
  const bool theirs = rest == "B" || rest == "b" || rest == "iB" || (rest.empty() && letter != unit.front());
  return theirs ? cat("did you mean ", number, letter, "?") : std::string();
}

std::string_view kind_of(Suffixes suffixes) {
  return suffixes == Suffixes::kSeconds ? "a time" : suffixes == Suffixes::kBytes ? "a size" : "a number";
}

/// Adds the mistake and returns true when a time or a size is wrong or has no unit.
bool lacks_unit(const Node::Member& member, Suffixes suffixes, Diagnostics& diagnostics) {
  const std::string hint = member.value.is_scalar() ? unit_hint(member.value.text, suffixes) : std::string();
  if (hint.empty()) return false;
  diagnostics.add(cat(quote(member.key), " must be ", kind_of(suffixes), " with a unit, found ", member.value.found()),
                  member.value.place(), hint);
  return true;
}

}  // namespace

std::optional<std::int64_t> integer(const Node::Member& member, Suffixes suffixes, std::int64_t least,
                                    Diagnostics& diagnostics, std::string_view example) {
  if (lacks_unit(member, suffixes, diagnostics)) return std::nullopt;
  std::string why;
  const auto value =
      member.value.is_scalar() ? support::parse_integer(member.value.text, suffixes, &why) : std::nullopt;
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
  if (lacks_unit(member, suffixes, diagnostics)) return std::nullopt;
  const auto value = member.value.is_scalar() ? support::parse_real(member.value.text, suffixes) : std::nullopt;
  if (!value || !(*value >= least) || *value > 1e15) {
    diagnostics.add(
        cat(quote(member.key), " must be ", kind_of(suffixes), " from ", least, ", found ", member.value.found()),
        member.value.place(), cat("such as ", example));
    return std::nullopt;
  }
  return value;
}

std::optional<double> time_limit(const Node::Member& member, Diagnostics& diagnostics) {
  const auto value = real(member, Suffixes::kSeconds, 0, diagnostics, "30m or 6h");
  if (!value || *value > 0) return value;
  diagnostics.add(cat(quote(member.key), " leaves no time, found ", member.value.found()), member.value.place(),
                  "leave it out for no limit");
  return std::nullopt;
}

std::vector<std::string> words_of(const Node::Member& member, Diagnostics& diagnostics) {
  std::vector<std::string> found;
  if (member.value.is_scalar()) return {member.value.text};
  if (!member.value.is_list()) {
    diagnostics.add(cat("expected a list of names for ", quote(member.key), ", found ", member.value.found()),
                    member.value.place());
    return found;
  }
  for (const Node& item : member.value.items) {
    if (item.is_scalar())
      found.push_back(item.text);
    else
      diagnostics.add(cat("expected a name in ", quote(member.key), ", found ", item.found()), item.place());
  }
  return found;
}

}  // namespace pe::pipeline

#include "pipeline/file/policy_values.h"

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

std::vector<std::string> words_of(const Node::Member& member, Diagnostics& diagnostics) {
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

}  // namespace pe::pipeline

#include "artifact/workspace.h"

#include "support/error.h"
#include "support/text.h"

namespace pe::artifact {

using support::cat;
using support::quote;

const Input& Workspace::input(const std::string& role) const {
  const std::vector<Input>& all = all_inputs(role);
  if (all.size() != 1) {
    throw support::ArtifactError(cat("input ", quote(role), ": expected one artifact, found ",
                                     all.empty() ? "none" : std::to_string(all.size())),
                                 all.empty() ? cat("give it with --input ", role, "=PATH") : "");
  }
  return all.front();
}

bool Workspace::has_input(const std::string& role) const { return !all_inputs(role).empty(); }

const std::vector<Input>& Workspace::all_inputs(const std::string& role) const {
  static const std::vector<Input> none;
  const auto found = inputs.find(role);
  return found == inputs.end() ? none : found->second;
}

const std::filesystem::path& Workspace::output(const std::string& role) const {
  const auto found = outputs.find(role);
  if (found == outputs.end()) {
    throw support::Error(support::kExitBug,
                         support::Diagnostic{cat("the stage was not told where output ", quote(role), " goes")});
  }
  return found->second;
}

}  // namespace pe::artifact

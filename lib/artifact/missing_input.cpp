#include "artifact/missing_input.h"

#include "support/error.h"
#include "support/files.h"
#include "support/parse_json.h"

namespace pe::artifact {

MissingInputs missing_inputs(const Json& task) {
  MissingInputs missing;
  if (!task.contains("missing")) return missing;
  for (const auto& [role, list] : task.at("missing").items()) {
    for (const Json& item : list) {
      missing[role].push_back(
          {item.value("labels", std::map<std::string, std::string>()), item.at("reason").get<std::string>()});
    }
  }
  return missing;
}

MissingInputs missing_inputs(const std::filesystem::path& work) {
  const std::filesystem::path file = work / "task.json";
  if (work.empty() || !std::filesystem::exists(file)) return {};
  try {
    return missing_inputs(support::require_json(support::read_file(file)));
  } catch (const Json::exception& error) {
    throw support::ConfigError(std::string("not a task file: ") + error.what(), {file.string(), 0, 0, "", 1});
  }
}

}  // namespace pe::artifact

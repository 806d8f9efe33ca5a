#include "pipeline/maintenance/uses.h"

#include <fcntl.h>
#include <sys/stat.h>

#include "support/clock.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/json.h"
#include "support/json_text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;

namespace {

fs::path folder_of(const fs::path& store, const std::string& pipeline, const std::string& root,
                   const std::string& variant, const std::vector<std::string>& selectors) {
  const Json identity{{"pipeline", pipeline}, {"root", root}, {"variant", variant}, {"selectors", selectors}};
  return uses_folder(store) / support::canonical_hash("pe/use/1", identity).substr(0, 32);
}

}  // namespace

fs::path uses_folder(const fs::path& store) { return store / "used"; }

void note_use(const fs::path& store, const Graph& graph, const Plan& plan, const std::vector<std::string>& selectors) {
  Json tasks = Json::array();
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (plan.tasks[i].state == TaskState::kNotNeeded) continue;
    tasks.push_back({{"plan_key", graph.tasks[i].plan_key}, {"task_key", plan.tasks[i].task_key}});
  }
  const Json json{{"schema", "pe-run/1"},
                  {"pipeline", graph.name},
                  {"root", graph.root},
                  {"variant", graph.variant},
                  {"whole", selectors.empty()},
                  {"selectors", selectors},
                  {"started", support::unix_time()},
                  {"tasks", std::move(tasks)}};
  const fs::path folder = folder_of(store, graph.name, graph.root, graph.variant, selectors);
  support::make_folders(folder);
  support::write_file_atomically(folder / "plan.json", support::json_text(json) + "\n", false);
}

void renew_use(const fs::path& store, const std::string& pipeline, const fs::path& root, const std::string& variant) {
  const fs::path file = folder_of(store, pipeline, root.string(), variant, {}) / "plan.json";
  ::utimensat(AT_FDCWD, file.c_str(), nullptr, 0);
}

}  // namespace pe::pipeline

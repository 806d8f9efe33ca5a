#include "fuzz/targets.h"

#include <unistd.h>

#include <stdexcept>
#include <string>

#include "artifact/artifact_check.h"
#include "artifact/collection.h"
#include "commands/display_text.h"
#include "fuzz/answers.h"
#include "pipeline/cluster/slurm_answers.h"
#include "pipeline/expand/expand.h"
#include "pipeline/file/pipeline_file.h"
#include "pipeline/grid_fixture.h"
#include "pipeline/maintenance/results_file.h"
#include "pipeline/plan/key.h"
#include "pipeline/run/stage_event.h"
#include "pipeline/store/journal.h"
#include "stage/task_file.h"
#include "support/error.h"
#include "support/folders.h"
#include "support/text.h"
#include "support/yaml.h"

namespace pe::fuzz {

namespace {

void visit(const support::Node& node) {
  node.place().str();
  node.found();
  for (const auto& item : node.items) visit(item);
  for (const auto& member : node.members) visit(member.value);
}

}  // namespace

void read_yaml(std::string_view bytes) {
  expect_answer([&] {
    const support::Node root = support::parse_yaml(bytes, "fuzz.yml");
    visit(root);
    support::to_json(root);
  });
  support::parse_integer(bytes, support::Suffixes::kCount);
  support::parse_real(bytes, support::Suffixes::kSeconds);
}

void read_pipeline_file(std::string_view bytes) {
  expect_answer([&] { pipeline::parse_pipeline_file(bytes, "fuzz.yml", "/nonexistent"); });
}

void expand_pipeline(std::string_view bytes) {
  static const test::GridFolder folder;
  static pipeline::StageCatalog catalog = test::stage_catalog();
  expect_answer([&] {
    auto graph = pipeline::expand(pipeline::parse_pipeline_file(bytes, "fuzz.yml", folder.root()), catalog,
                                  test::GridFolder::plain_options());
    if (graph.tasks.size() > 5000) return;  // more would only be slow
    pipeline::compute_plan_keys(graph);
  });
}

void read_manifest(std::string_view bytes) {
  expect_answer([&] { artifact::Manifest::parse(bytes, "manifest.json"); });
}

void read_artifact(std::string_view bytes) {
  const std::string path = put(bytes, ".h5");
  for (const artifact::Kind kind : artifact::all_kinds()) {
    if (!artifact::is_collection(kind)) expect_answer([&] { artifact::check_artifact(path, kind); });
  }
  ::unlink(path.c_str());
}

void read_results_file(std::string_view bytes) {
  const std::string path = put(bytes, ".tar.zst");
  expect_answer([&] {
    const support::ScratchFolder folder = support::ScratchFolder::temporary("fuzz-results");
    pipeline::StoreOptions options;
    options.durable = false;
    pipeline::Store into(folder.path(), options);
    pipeline::unpack_results(path, into);
  });
  ::unlink(path.c_str());
}

void read_task(std::string_view bytes) {
  struct Config {
    std::int64_t steps = 10;
    std::string path;
    void describe(support::FieldVisitor& v) {
      v.field("steps", steps, "Steps.", {.unit = "steps", .min = 1});
      v.path("path", path, "A file.");
    }
  };
  static const support::Schema schema = support::schema_of<Config>();
  static const stage::StageInfo info = {
      .name = "toy",
      .summary = "A toy.",
      .inputs = {{"data", artifact::Kind::kTokenShards},
                 {.name = "scores", .kind = artifact::Kind::kEvalTable, .many = true}},
      .outputs = {{"model", artifact::Kind::kCheckpoint}, {"raw", artifact::Kind::kRawText}}};
  const std::string path = put(bytes, ".json");
  expect_answer([&] { stage::read_task(path, info, schema); });
  ::unlink(path.c_str());
}

void read_slurm_answer(std::string_view bytes) {
  for (const pipeline::JobRow& row : pipeline::parse_queue(bytes).rows) pipeline::is_final(row.state);
  pipeline::parse_accounts(bytes);
  pipeline::parse_submitted(bytes);
  pipeline::parse_config(bytes);
  pipeline::parse_records(bytes);
  pipeline::parse_table(bytes);
  pipeline::parse_elapsed(bytes);
  pipeline::classify_refusal(bytes);
}

void read_stage_events(std::string_view bytes) {
  pipeline::Graph graph;
  graph.tasks.emplace_back().id = "task";
  pipeline::RunState state;
  state.graph = &graph;
  for (const std::string& line : support::split(bytes, '\n')) {
    auto message = pipeline::parse_stage_event(line);
    if (!message) continue;
    const pipeline::StageEvent said = pipeline::read_stage_event(*std::move(message));
    const pipeline::RunEvent event{said.name, 0, 1, said.detail};
    commands::event_line(event, state, cli::Style(false));
    commands::render_progress(said.detail);
    commands::render_failure(graph, event, false);
    Json kept = said.detail;
    kept["event"] = said.name;
    kept["seq"] = 1;
    kept["time"] = 0.5;
    if (pipeline::parse_journal(pipeline::journal_line(kept)).size() != 1)
      throw std::logic_error("the journal lost the event " + line);
  }
}

}  // namespace pe::fuzz

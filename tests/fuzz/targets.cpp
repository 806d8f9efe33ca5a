#include "fuzz/targets.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "artifact/artifact_check.h"
#include "artifact/collection.h"
#include "pipeline/expand/expand.h"
#include "pipeline/file/pipeline_file.h"
#include "pipeline/grid_fixture.h"
#include "pipeline/plan/key.h"
#include "support/error.h"
#include "support/text.h"
#include "support/yaml.h"

namespace pe::fuzz {

namespace {

/// An Error is an answer; anything else that leaves a reader is a mistake and ends the fuzzer.
template <typename Body>
void expect_answer(Body&& body) {
  try {
    body();
  } catch (const support::Error& error) {
    if (error.exit_code() == support::kExitBug) throw;
  }
}

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
    if (graph.tasks.size() > 5000) return;   // more would only be slow
    pipeline::compute_plan_keys(graph);
  });
}

void read_manifest(std::string_view bytes) {
  expect_answer([&] { artifact::Manifest::parse(bytes, "manifest.json"); });
}

void read_artifact(std::string_view bytes) {
  static const std::string path =
      (std::filesystem::temp_directory_path() / ("pe-fuzz-" + std::to_string(::getpid()) + ".h5")).string();
  std::ofstream(path, std::ios::binary | std::ios::trunc)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  for (const artifact::Kind kind : artifact::all_kinds()) {
    if (!artifact::is_collection(kind)) expect_answer([&] { artifact::check_artifact(path, kind); });
  }
  ::unlink(path.c_str());
}

}  // namespace pe::fuzz

#include "stage/task_file.h"

#include <boost/test/unit_test.hpp>
#include <fstream>

#include "support/error.h"
#include "support/temp_folder.h"

using namespace pe::stage;
using pe::Json;
using pe::artifact::Kind;
using pe::support::ConfigError;

namespace {

struct Config {
  std::int64_t steps = 10;
  std::string path;
  void describe(pe::support::FieldVisitor& v) {
    v.field("steps", steps, "Steps.", {.unit = "steps", .min = 1});
    v.path("path", path, "A file.");
  }
};

const StageInfo kInfo = {.name = "toy",
                         .version = 4,
                         .summary = "A toy.",
                         .inputs = {{"data", Kind::kTokenShards}, {"scores", Kind::kEvalTable, true}},
                         .outputs = {{"model", Kind::kCheckpoint}, {"raw", Kind::kRawText}}};

Json task() {
  return Json::parse(R"({"schema": "pe-task/1", "stage": "toy", "key": "abc", "config": {"steps": 7},
    "inputs": {"data": [{"path": "d", "kind": "token-shards", "digest": "x", "labels": {"seed": "42"}}]},
    "outputs": {"model": "m.h5"}, "snapshots": [{"label": "b", "step": 9, "outputs": {"model": "b.h5"}},
    {"label": "a", "step": 3, "outputs": {"model": "a.h5"}}], "work": "w", "resume": null, "events_fd": 3})");
}

WorkOrder read(const Json& json) {
  pe::test::TempFolder folder;
  std::ofstream(folder / "task.json") << json.dump();
  return read_task(folder / "task.json", kInfo, pe::support::schema_of<Config>());
}

std::string mistake(const Json& json) {
  try {
    read(json);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(task_file)

BOOST_AUTO_TEST_CASE(a_task_file_fills_the_workspace) {
  const WorkOrder order = read(task());
  BOOST_TEST(order.config.at("steps") == 7);
  BOOST_TEST(order.config.at("path") == "");  // left out: the default
  BOOST_TEST(order.workspace.input("data").labels.at("seed") == "42");
  BOOST_TEST(order.workspace.snapshots.front().label == "a");  // by step, whatever the file's order
  BOOST_TEST(order.workspace.recipe.task_key == "abc");
  BOOST_TEST(order.workspace.recipe.version == 4);
  BOOST_TEST(!order.workspace.resume);
  BOOST_TEST(order.events_fd.value() == 3);
}

BOOST_AUTO_TEST_CASE(a_task_says_which_version_and_build_it_was_planned_for) {
  Json json = task();
  BOOST_TEST(!read(json).version.has_value());  // written by hand
  json["version"] = 4;
  json["build_id"] = "for people";
  BOOST_TEST(read(json).version.value() == 4);
  BOOST_TEST(read(json).build.empty());
  json["build"] = "digest";
  BOOST_TEST(read(json).build == "digest");
  BOOST_TEST(read(json).revisions.empty());
  json["revisions"] = {{"compute.rounding", 2}};
  BOOST_TEST(read(json).revisions.at("compute.rounding") == 2);
  // Another version's config may have fields that this one lacks; the fault is then the version.
  json["version"] = 5;
  json["config"]["field_of_version_5"] = true;
  BOOST_TEST(read(json).version.value() == 5);
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_the_stage_is_refused) {
  Json json = task();
  json["inputs"]["data"][0]["kind"] = "checkpoint";
  BOOST_TEST(contains(mistake(json), "input 'data' must be token-shards, found 'checkpoint'"));
  json = task();
  json["inputs"]["dato"] = json["inputs"]["data"];
  BOOST_TEST(contains(mistake(json), "did you mean 'data'?"));
  json = task();
  json["outputs"]["modl"] = "x";
  BOOST_TEST(contains(mistake(json), "did you mean 'model'?"));
  json = task();
  json["stage"] = "train";
  BOOST_TEST(contains(mistake(json), "this task is for pe-train, not for pe-toy"));
  json = task();
  json["inputs"].erase("data");
  BOOST_TEST(contains(mistake(json), "input 'data' (token-shards) is not given"));
  json = task();
  json["config"]["step"] = 3;
  BOOST_TEST(contains(mistake(json), "did you mean 'steps'?"));
  json = task();
  json.erase("work");
  BOOST_TEST(contains(mistake(json), "not a task file"));
  json = task();
  json["missing"]["scores"] = {{{"producer", "trunk[seed=7]"}, {"labels", {{"seed", "7"}}}, {"reason", "failed"}}};
  BOOST_TEST(mistake(json) == "");
  json["missing"]["score"] = json["missing"]["scores"];
  BOOST_TEST(contains(mistake(json), "did you mean 'scores'?"));
  json = task();
  json["missing"]["scores"] = {{{"producer", "trunk[seed=7]"}}};
  BOOST_TEST(contains(mistake(json), "not a task file"));
}

BOOST_AUTO_TEST_CASE(a_task_that_is_nested_without_end_is_refused) {
  const pe::test::TempFolder folder;
  std::string text = task().dump();
  text.insert(1, "\"x\":" + std::string(300'000, '[') + std::string(300'000, ']') + ",");
  std::ofstream(folder / "task.json") << text;
  BOOST_CHECK_EXCEPTION(read_task(folder / "task.json", kInfo, pe::support::schema_of<Config>()), ConfigError,
                        [](const ConfigError& error) { return contains(error.what(), "not a task file"); });
}

BOOST_AUTO_TEST_CASE(flags_make_the_same_order) {
  pe::cli::StageFlags flags;
  flags.sets = {"steps=1k", "path=[not a list"};
  flags.inputs = {"data=a=b c"};
  flags.outputs = {"model=out.h5"};
  // A path is not changed unless it begins with a bracket.
  BOOST_CHECK_THROW(order_from_flags(flags, kInfo, pe::support::schema_of<Config>()), ConfigError);
  flags.sets = {"steps=1k", "path=no: $(x)"};
  const WorkOrder order = order_from_flags(flags, kInfo, pe::support::schema_of<Config>());
  BOOST_TEST(order.config.at("steps") == 1000);
  BOOST_TEST(order.config.at("path") == "no: $(x)");
  BOOST_TEST(order.workspace.input("data").path == "a=b c");
  BOOST_TEST(order.workspace.output("model") == "out.h5");
  BOOST_TEST(order.workspace.output("raw") == "raw");  // a folder
  BOOST_TEST(order.workspace.resume.value() == order.workspace.work);
}

BOOST_AUTO_TEST_CASE(outputs_are_apart_from_inputs_and_from_each_other) {
  const pe::test::TempFolder folder;
  const std::string root = folder.path().string();
  std::filesystem::create_directories(folder / "data");
  std::ofstream(folder / "data/dataset.h5") << "x";
  std::ofstream(folder / "scores.h5") << "x";
  std::filesystem::create_directory_symlink("data", folder / "alias");
  const auto refusal = [&](const std::vector<std::string>& outputs) -> std::string {
    pe::cli::StageFlags flags;
    flags.inputs = {"data=" + root + "/data", "scores=" + root + "/scores.h5"};
    for (const std::string& output : outputs) {
      const auto equals = output.find('=');
      flags.outputs.push_back(output.substr(0, equals + 1) + root + "/" + output.substr(equals + 1));
    }
    try {
      order_from_flags(flags, kInfo, pe::support::schema_of<Config>());
    } catch (const ConfigError& error) {
      return error.what();
    }
    return "";
  };
  BOOST_TEST(refusal({"model=m.h5", "raw=raw"}) == "");
  BOOST_TEST(refusal({"model=data2", "raw=dat"}) == "");  // no folder of the other
  BOOST_TEST(contains(refusal({"model=data/dataset.h5", "raw=raw"}), "is inside input 'data'"));
  BOOST_TEST(contains(refusal({"model=alias/dataset.h5", "raw=raw"}), "is inside input 'data'"));
  BOOST_TEST(contains(refusal({"model=./none/../scores.h5", "raw=raw"}), "is the same as input 'scores'"));
  BOOST_TEST(contains(refusal({"model=same", "raw=same/"}), "is the same as output 'model'"));
  BOOST_TEST(contains(refusal({"model=raw/m.h5", "raw=raw"}), "output 'raw'"));
  std::filesystem::create_hard_link(folder / "scores.h5", folder / "another name.h5");
  BOOST_TEST(contains(refusal({"model=another name.h5", "raw=raw"}), "is the same as input 'scores'"));
  // A task file is read, too.
  Json json = task();
  json["outputs"]["raw"] = "m.h5";
  BOOST_TEST(contains(mistake(json), "output 'raw' ('m.h5') is the same as output 'model'"));
}

BOOST_AUTO_TEST_CASE(a_missing_input_names_the_flag) {
  BOOST_CHECK_EXCEPTION(order_from_flags({}, kInfo, pe::support::schema_of<Config>()), ConfigError,
                        [](const ConfigError& error) { return contains(error.what(), "add --input data=PATH"); });
}

BOOST_AUTO_TEST_SUITE_END()

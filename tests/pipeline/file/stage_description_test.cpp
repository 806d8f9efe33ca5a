// Descriptions of stages: reading, rejecting, finding executables and trusting the files next to them.
#include "pipeline/file/stage_description.h"

#include "pipeline/file/ask_to_describe.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <fstream>

#include "pipeline/grid_fixture.h"
#include "support/error.h"
#include "support/process.h"
#include "support/temp_folder.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT

namespace {

Json train() { return test::stage_documents().at(2); }

std::string refusal(const Json& document) {
  try {
    parse_description(document, "pe-train");
  } catch (const support::ConfigError& error) {
    return error.diagnostics().front().message;
  }
  return {};
}

void write_script(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
}

std::string quoted_for_shell(const std::string& text) {
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stage_description)

BOOST_AUTO_TEST_CASE(a_description_reads_whole) {
  const StageDescription stage = parse_description(train(), "pe-train");
  BOOST_TEST(stage.name == "train");
  BOOST_TEST(stage.program == "pe-train");
  BOOST_TEST(stage.version == 3);
  BOOST_TEST(stage.resumes);
  BOOST_TEST((stage.find_input("data")->kind == artifact::Kind::kTokenShards));
  BOOST_TEST((stage.find_output("metrics")->kind == artifact::Kind::kMetrics));
  BOOST_TEST(stage.trajectory->horizon == "train.tokens");
  BOOST_TEST((support::find_field(stage.fields, "model.encoding") != nullptr));
}

BOOST_AUTO_TEST_CASE(the_digest_moves_with_the_description_but_not_with_a_rebuild) {
  Json document = train();
  const std::string digest = parse_description(document, "x").digest;
  document["build_id"] = "abcd";
  BOOST_TEST(parse_description(document, "x").digest == digest);
  BOOST_TEST((parse_description(document, "x").document == document));
  document["version"] = 4;
  BOOST_TEST(parse_description(document, "x").digest != digest);
}

BOOST_AUTO_TEST_CASE(what_is_no_description_is_refused) {
  BOOST_TEST(refusal(Json::array()) == "pe-train: this is not a stage description");
  Json document = train();
  document["schema"] = "pe-stage/2";
  BOOST_TEST(refusal(document) == "pe-train speaks pe-stage/2; this pe-pipeline knows pe-stage/1");
  document["schema"] = "other";
  BOOST_TEST(refusal(document) == "pe-train: expected schema 'pe-stage/1', found 'other'");
  for (const char* key : {"name", "version", "inputs", "outputs", "fields"}) {
    document = train();
    document.erase(key);
    BOOST_TEST(refusal(document) == std::string("pe-train: the description lacks '") + key + "'");
  }
  document = train();
  document["inputs"][0]["kind"] = "shards";
  BOOST_TEST(refusal(document) == "pe-train: unknown artifact kind 'shards'");
  document = train();
  document["trajectory"]["horizon"] = "train.tokns";
  BOOST_TEST(refusal(document) == "pe-train: its trajectory names the field 'train.tokns', which it lacks");
  document = train();
  document["branch"] = {{"horizon", "train.tokens"}, {"end", "train.lr"}, {"share", "train.sharre"}};
  BOOST_TEST(refusal(document) == "pe-train: its branch names the field 'train.sharre', which it lacks");
  document = train();
  for (const Json& code : {Json("lib/*.py"), Json::array({1})}) {
    document = train();
    document["code"] = code;
    BOOST_TEST(refusal(document) == "pe-train: 'code' in the description is not a list of strings");
  }
  document["code"] = {""};
  BOOST_TEST(refusal(document).starts_with("pe-train: 'code' in the description has an empty path"));
  document = train();
  document["summary"] = 5;  // only shown to people
  BOOST_TEST(refusal(document).empty());
  document = train();
  document["revisions"] = {{{"name", "train.rounding"}, {"when", {{"train.lrr", 1}}}, {"number", 2}}};
  BOOST_TEST(refusal(document) ==
             "pe-train: its revision 'train.rounding' names the field 'train.lrr', which it lacks");
  document["revisions"][0] = {{"name", "train.lr"}, {"when", {{"train.lr", 1}}}, {"number", 2}};
  BOOST_TEST(refusal(document) == "pe-train: its revision 'train.lr' has the name of a field");
  document["revisions"][0] = {{"name", "train.rounding"}, {"when", {{"train.lr", 1}}}, {"number", "two"}};
  BOOST_TEST(refusal(document) ==
             "pe-train: its revision 'train.rounding' lacks an object 'when' or an integer 'number'");
}

BOOST_AUTO_TEST_CASE(a_stage_without_a_description_beside_it_is_asked_once) {
  const test::TempFolder folder;
  std::ofstream(folder / "answer.json") << train().dump();
  write_script(folder / "pe-train", "#!/bin/sh\necho asked >> " + quoted_for_shell((folder / "count").string()) +
                                        "\ncat " + quoted_for_shell((folder / "answer.json").string()) + "\n");
  StageCatalog catalog({folder.path()});
  BOOST_TEST(catalog.find("pe-train", "/", {})->version == 3);
  BOOST_TEST(catalog.find("pe-train", "/", {})->executable == (folder / "pe-train").string());
  std::ifstream count(folder / "count");
  std::string text((std::istreambuf_iterator<char>(count)), {});
  BOOST_TEST(text == "asked\n");
}

BOOST_AUTO_TEST_CASE(a_description_beside_is_believed_when_its_build_id_is_the_files) {
  const test::TempFolder folder;
  // This test program has a build id and does not answer --describe.
  const auto own = support::own_executable();
  const std::string build_id = support::elf_build_id(own);
  if (build_id.empty()) {
    BOOST_TEST_MESSAGE("this program was linked without a build id");
    return;
  }
  std::filesystem::create_symlink(own, folder / "pe-train");
  Json document = train();
  document["build_id"] = build_id;
  std::ofstream(folder / "pe-train.describe.json") << document.dump();
  StageCatalog catalog({folder.path()});
  const auto stage = catalog.find("pe-train", "/", {});
  BOOST_TEST(stage->build_id == build_id);
}

BOOST_AUTO_TEST_CASE(a_script_may_not_take_the_name_of_a_stage_of_the_project) {
  const test::TempFolder folder;
  std::ofstream(folder / "answer.json") << train().dump();
  const std::string script = "#!/bin/sh\ncat " + quoted_for_shell((folder / "answer.json").string()) + "\n";
  std::filesystem::create_directories(folder / "ours");
  std::filesystem::create_directories(folder / "theirs");
  write_script(folder / "theirs/mine", script);
  BOOST_TEST(StageCatalog({folder / "ours"}).find("theirs/mine", folder.path(), {})->is_script);
  std::ofstream(folder / "ours/pe-train.describe.json") << "{}";
  try {
    StageCatalog({folder / "ours"}).find("theirs/mine", folder.path(), {});
    BOOST_TEST(false);
  } catch (const support::ConfigError& error) {
    const std::string text = error.diagnostics().front().message;
    BOOST_TEST(text.find("calls itself 'train', which is the name of pe-train") != std::string::npos, text);
  }
  write_script(folder / "ours/pe-train", script);  // our own may be a script
  BOOST_TEST(StageCatalog({folder / "ours"}).find("pe-train", folder.path(), {})->is_script);
}

BOOST_AUTO_TEST_CASE(places_where_a_program_was_looked_for_in_vain_are_noted) {
  const test::TempFolder folder;
  std::ofstream(folder / "answer.json") << train().dump();
  std::filesystem::create_directories(folder / "first");
  std::filesystem::create_directories(folder / "second");
  write_script(folder / "second/pe-train",
               "#!/bin/sh\ncat " + quoted_for_shell((folder / "answer.json").string()) + "\n");
  StageCatalog catalog({folder / "first", folder / "second"});
  catalog.find("pe-train", "/", {});
  const auto& files = catalog.files();
  const auto noted = std::find_if(files.begin(), files.end(), [&](const support::FileRead& file) {
    return file.path == (folder / "first/pe-train").string();
  });
  BOOST_REQUIRE(noted != files.end());
  BOOST_TEST(!noted->stamp.exists);
}

BOOST_AUTO_TEST_CASE(a_stage_that_never_answers_is_given_up) {
  const test::TempFolder folder;
  write_script(folder / "pe-slow", "#!/bin/sh\nsleep 600\n");
  std::string message;
  try {
    ask_to_describe(folder / "pe-slow", 0.2, support::Place{"a.yml", 3, 10});
  } catch (const support::ConfigError& error) {
    message = error.what();
  }
  BOOST_TEST(message.find("pe-slow' did not answer --describe within 0.2 s") != std::string::npos, message);
  BOOST_TEST(message.find("a.yml:3:10: ") == 0u);
}

BOOST_AUTO_TEST_CASE(what_cannot_be_found_or_does_not_answer_is_told_with_its_place) {
  const test::TempFolder folder;
  write_script(folder / "pe-mute", "#!/bin/sh\nexit 3\n");
  write_script(folder / "pe-chatty", "#!/bin/sh\necho hello\n");
  std::ofstream(folder / "pe-train.describe.json") << "{}";
  StageCatalog catalog({folder.path()});
  const auto refused = [&](const std::string& run) {
    try {
      catalog.find(run, folder.path(), support::Place{"a.yml", 3, 10});
    } catch (const support::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  BOOST_TEST(refused("pe-trian") ==
             "a.yml:3:10: the program 'pe-trian' is neither in the folder of pe-pipeline nor on the PATH\n"
             "  did you mean 'pe-train'?");
  BOOST_TEST(refused("./pe-none").find("a.yml:3:10: no file ") == 0u);
  BOOST_TEST(refused("pe-mute").find("does not describe itself: `--describe` ended with 3") != std::string::npos);
  BOOST_TEST(
      refused("pe-chatty").find("does not describe itself: `--describe` ended with 0, and its answer is not JSON") !=
      std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_type_that_is_none_is_answered_with_those_that_there_are) {
  Json document = train();
  document["fields"] = {{{"name", "mode"}, {"type", "string"}, {"default", ""}, {"help", "x"}}};
  try {
    parse_description(document, "pe-train");
    BOOST_FAIL("accepted");
  } catch (const support::Error& error) {
    BOOST_TEST(error.diagnostics().front().message.find("field 'mode' has the unknown type 'string'") !=
               std::string::npos);
    BOOST_TEST(error.diagnostics().front().hint.find("text, path, list of paths") != std::string::npos);
  }
}

BOOST_AUTO_TEST_CASE(modules_that_a_description_names_are_a_part_of_the_program) {
  const test::TempFolder folder;
  std::filesystem::create_directories(folder / "lib");
  Json document = train();
  document["code"] = {"lib/*.py", "tables.txt"};
  write_script(folder / "own", "#!/bin/sh\nexec echo " + quoted_for_shell(document.dump()) + "\n");
  const auto find = [&] {
    StageCatalog catalog;
    return *catalog.find((folder / "own").string(), folder.path(), {});
  };
  try {
    find();
    BOOST_FAIL("accepted");
  } catch (const support::ConfigError& error) {
    BOOST_TEST(error.diagnostics().front().message.find("'code' of the description names 'lib/*.py'") !=
               std::string::npos);
  }
  write_script(folder / "lib/one.py", "x = 1\n");
  write_script(folder / "tables.txt", "t\n");
  const StageDescription first = find();
  BOOST_TEST(first.program_digest != first.build_id);
  BOOST_TEST(find().program_digest == first.program_digest);
  write_script(folder / "lib/one.py", "x = 2\n");
  const StageDescription second = find();
  BOOST_TEST(second.program_digest != first.program_digest);
  write_script(folder / "lib/two.py", "y = 1\n");
  BOOST_TEST(find().program_digest != second.program_digest);
  BOOST_TEST(find().build_id == first.build_id);
  // A memo that depends on these files can see that one more was added.
  const auto& files = second.files;
  const auto named = [&](const std::string& end) {
    return std::any_of(files.begin(), files.end(), [&](const auto& file) { return file.path.ends_with(end); });
  };
  BOOST_TEST(named("/own"));
  BOOST_TEST(named("/lib/one.py"));
  BOOST_TEST(named("/lib"));
}

BOOST_AUTO_TEST_CASE(folders_that_a_new_module_may_come_into_are_watched) {
  const test::TempFolder folder;
  for (const char* name : {"lib/deep/er", "lib/empty", "mods/a", ".git"})
    std::filesystem::create_directories(folder / name);
  write_script(folder / "lib/deep/er/one.py", "x = 1\n");
  write_script(folder / "mods/a/two.py", "x = 1\n");
  StageDescription stage;
  stage.executable = (folder / "own").string();
  stage.code = {"lib", "mods/*/*.py"};
  std::vector<std::string> names;
  for (const support::FileRead& file : program_files(stage))
    names.push_back(std::filesystem::path(file.path).lexically_relative(folder.path()).string());
  std::sort(names.begin(), names.end());
  const std::vector<std::string> expected{
      "lib", "lib/deep", "lib/deep/er", "lib/deep/er/one.py", "lib/empty", "mods", "mods/a", "mods/a/two.py", "own"};
  BOOST_TEST(names == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

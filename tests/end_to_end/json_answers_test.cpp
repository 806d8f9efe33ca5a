// Every command that reads answers in JSON; help, manual and doc/json.md name the same commands; and whatever is
// misspelt is answered with the nearest word. All of it goes by the command table, so a new command is under test once
// it is there.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <optional>

#include "commands/command_table.h"
#include "project.h"
#include "support/json.h"
#include "support/text.h"

using namespace pe;  // NOLINT
using test::has;
using test::Project;

namespace {

bool has_flag(const cli::Command& command, const std::string& name) {
  for (const cli::Flag& flag : command.flags) {
    for (const std::string& each : support::split(flag.names, ',')) {
      if (each == name) return true;
    }
  }
  return false;
}

/// Words for the places of a usage line, by their kinds. Nothing is made up: an unknown place is reported.
std::optional<std::vector<std::string>> words_for(const Project& project, const cli::Command& command) {
  std::vector<std::string> words;
  const auto places = cli::usage_places(command.usage);
  // Where everything may be left out it is: --store says which store.
  if (std::all_of(places.begin(), places.end(), [](const cli::UsagePlace& where) { return where.optional; }))
    return words;
  for (const cli::UsagePlace& where : places) {
    const std::string& place = where.kind;
    const std::string artifact = (project.root() / "out/toy/data/data.h5").string();
    if (place == "FILE") {
      words.push_back(project.file().string());
    } else if (where.optional) {
      continue;
    } else if (place == "SELECT") {
      words.push_back("data");
    } else if (place.rfind("stages|", 0) == 0) {
      words.push_back("tasks");
    } else if (has(place, "PATH") || place == "A" || place == "B" || place == "ARTIFACT") {
      words.push_back(artifact);
    } else if (place == "REPORT") {
      static const test::TempFolder folder;
      support::write_file_atomically(folder.path() / "report.json", R"({"schema":"pe-report/1","sections":[]})", false);
      words.push_back(folder.path().string());
    } else if (place == "PACKED") {
      static const std::string file = (project.root() / "packed.tar.zst").string();
      static const bool packed = project.call("export", {"-o", file}).code == 0;
      BOOST_TEST(packed);
      words.push_back(file);
    } else if (place == "DIR" || place == "STORE") {
      static const Project other;  // a store to push to and pull from
      static const bool there = other.call("run").code == 0;
      BOOST_TEST(there);
      words.push_back(other.root().string());
    } else if (place == "NAME") {
      words.push_back("toy");
    } else if (place == "RUN") {
      words.push_back(project.store().runs().back());
    } else {
      return std::nullopt;
    }
  }
  return words;
}

const Project& project_that_ran() {
  static const Project project;
  static const bool ran = project.call("run").code == 0;
  BOOST_REQUIRE(ran);
  return project;
}

std::string read_doc(const std::string& name) { return support::read_file(test::source_root() / "doc" / name); }

}  // namespace

BOOST_AUTO_TEST_SUITE(json_answers)

BOOST_AUTO_TEST_CASE(every_command_with_json_prints_one_object_with_schema_and_version) {
  const Project& project = project_that_ran();
  std::size_t tried = 0;
  for (const cli::Command& command : commands::command_table()) {
    if (!has_flag(command, "--json")) continue;
    const auto words = words_for(project, command);
    BOOST_REQUIRE_MESSAGE(words, command.name << ": what may stand in '" << command.usage << "' is not known here");
    std::vector<std::string> call = {Project::program(), command.name};
    call.insert(call.end(), words->begin(), words->end());
    call.push_back("--json");
    if (has_flag(command, "--dry-run")) call.push_back("--dry-run");
    if (has_flag(command, "--store") &&
        std::find(words->begin(), words->end(), project.file().string()) == words->end())
      call.insert(call.end(), {"--store", (project.root() / "store").string()});
    const auto answer = project.call_words(call);
    BOOST_TEST((answer.code == 0 || answer.code == 5),
               command.name << " ended with " << answer.code << ": " << answer.err);
    const Json json = Json::parse(answer.out, nullptr, false);
    BOOST_REQUIRE_MESSAGE(json.is_object(), command.name << ": " << answer.out);
    BOOST_TEST(json.value("schema_version", 0) >= 1, command.name);
    BOOST_TEST(json.value("schema", "").rfind("pe-", 0) == 0u, command.name);
    ++tried;
    // doc/json.md knows the schema and every field at the top.
    const std::string page = read_doc("json.md");
    const std::string schema = json.value("schema", "");
    BOOST_TEST(has(page, "`" + schema + "`"), "doc/json.md does not name " << schema << " of " << command.name);
    const auto begin = page.find("\n## `" + schema + "`");
    BOOST_TEST((begin != std::string::npos), "doc/json.md has no section of " << schema);
    if (begin == std::string::npos) continue;
    const std::string section = page.substr(begin, page.find("\n## ", begin + 1) - begin);
    for (const auto& [field, value] : json.items()) {
      if (field == "schema" || field == "schema_version") continue;
      BOOST_TEST(has(section, "`" + field + "`"),
                 "doc/json.md: the section of " << schema << " lacks `" << field << "`");
    }
  }
  BOOST_TEST(tried >= 9u);
}

BOOST_AUTO_TEST_CASE(help_manual_and_documentation_name_the_same_commands) {
  const Project& project = project_that_ran();
  const std::string help = project.call_words({Project::program(), "--help"}).out;
  const std::string manual = project.call_words({Project::program(), "man"}).out;
  const std::string page = read_doc("json.md");
  for (const cli::Command& command : commands::command_table()) {
    BOOST_TEST(has(help, "\n  " + command.name + " "), command.name);
    BOOST_TEST(has(manual, "pe-pipeline-" + command.name + " (1)"), command.name);
    if (has_flag(command, "--json"))
      BOOST_TEST(has(page, "`pe-pipeline " + command.name), "doc/json.md lacks " << command.name);
  }
}

BOOST_AUTO_TEST_CASE(whatever_is_misspelt_is_answered_with_the_nearest_word) {
  const Project& project = project_that_ran();
  const std::string file = project.file().string();
  const std::vector<std::pair<std::vector<std::string>, std::string>> slips = {
      {{"rnu", file}, "run"},
      {{"help", "stauts"}, "status"},
      {{"man", "grpah"}, "graph"},
      {{"completion", "bsah"}, "bash"},
      {{"run", file, "--fail-fats"}, "--fail-fast"},
      {{"run", file, "--progress", "jsno"}, "json"},
      {{"run", file, "trnuk"}, "trunk"},
      {{"run", file, "trunk[sed=1]"}, "seed"},
      {{"run", file, "decay[branch=s100]"}, "s10"},
      {{"plan", file, "--axis", "sede=1"}, "seed"},
      {{"plan", file, "--axis", "branch=s11"}, "s10"},
      {{"plan", file, "--set", "trnuk.value=1"}, "trunk"},
      {{"plan", file, "--set", "trunk.vlaue=1"}, "value"},
      {{"plan", file, "--set", "trunk.shape=fre"}, "free"},
      {{"explain", file, "dcay"}, "decay"},
      {{"graph", file, "--collapse", "brnach"}, "branch"},
      {{"graph", file, "--format", "svgg"}, "svg"},
      {{"list", "taks", file}, "tasks"},
      {{"logs", file, "trunkk"}, "trunk"},
      {{"show", "decya[seed=1,branch=s10]", "--store", (project.root() / "store").string()}, "decay"},
      {{"forget", file, "reprot"}, "report"},
      {{"run", file, "--force", "--pool", "netwrok=2"}, "network"},
      {{"logs", file, "trunk[seed=3]"}, "trunk[seed="},
      {{"config", file, "tunk"}, "trunk"}};
  for (const auto& [words, expected] : slips) {
    std::vector<std::string> call = {Project::program()};
    call.insert(call.end(), words.begin(), words.end());
    const auto answer = project.call_words(call);
    BOOST_TEST(answer.code == 2, words[0] << " ended with " << answer.code << ": " << answer.out << answer.err);
    BOOST_TEST(has(answer.err, "did you mean '" + expected), words[0] << " " << words.back() << ": " << answer.err);
  }
}

BOOST_AUTO_TEST_SUITE_END()

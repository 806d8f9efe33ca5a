// The page that shows how a run went, and the drawings of a graph.
#include <boost/test/unit_test.hpp>
#include <regex>

#include "project.h"
#include "support/installed.h"
#include "support/json.h"
#include "support/text.h"

using namespace pe;  // NOLINT
namespace fs = std::filesystem;
using test::has;
using test::Project;

namespace {

std::string only_run(const Project& project) { return project.store().runs().back(); }

/// The page's data; checks that it is JSON.
Json data_of(const std::string& page) {
  const std::string begin = "<script type=\"application/json\" id=\"data\">";
  const auto at = page.find(begin);
  BOOST_REQUIRE(at != std::string::npos);
  const auto end = page.find("</script>", at);
  return Json::parse(page.substr(at + begin.size(), end - at - begin.size()), nullptr, false);
}

/// Nothing is loaded from anywhere: the only addresses are namespaces.
void check_self_contained(const std::string& page) {
  static const std::regex loads(R"((src|href)\s*=\s*["']?(https?:|//)|@import|url\(|fetch\(|XMLHttpRequest|import\()");
  BOOST_TEST(!std::regex_search(page, loads));
  for (const char* tag : {"<link", "<iframe", "<object", "<embed"}) BOOST_TEST(!has(page, tag), tag);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(pictures)

BOOST_AUTO_TEST_CASE(a_run_leaves_its_timeline_beside_its_report_and_it_can_be_written_again) {
  const Project project;
  const auto answer = project.call("run");
  BOOST_TEST(answer.code == 0);
  CHECK_HAS(answer.out, "timeline: reports/toy/" + only_run(project) + "/timeline.html");
  const fs::path page = project.root() / "reports/toy" / only_run(project) / "timeline.html";
  BOOST_REQUIRE(fs::exists(page));
  const std::string text = support::read_file(page);
  check_self_contained(text);
  const Json data = data_of(text);
  BOOST_REQUIRE(data.is_object());
  BOOST_TEST(data.at("tasks").size() == 8u);
  for (const char* part : {"Critical path", "Peak memory", "Waiting for a slot", "From the store",
                           "prefers-color-scheme: dark", "width=device-width"})
    BOOST_TEST(has(text, part), part);
  // The journal alone makes it again, byte for byte.
  fs::remove(page);
  const auto again = project.call("timeline");
  BOOST_TEST(again.code == 0, again.err);
  BOOST_TEST((support::read_file(page) == text));
  BOOST_TEST((project.call("timeline", {only_run(project), "--out", "-"}).out == text));
  // Nothing to do: no run, no page.
  BOOST_TEST(!has(project.call("run").out, "timeline:"));
}

BOOST_AUTO_TEST_CASE(a_run_that_failed_has_a_timeline_that_names_the_failure) {
  const Project project(
      "schema: pe-pipeline/1\nname: toy\ntitle: '</script><b>'\nstages:\n  good: {run: pe-toy}\n  bad:\n    run: "
      "pe-toy\n"
      "    config: {set: {value: 2, fail: exit, fail_code: 65}}\n  behind:\n    run: pe-toy\n    needs: {init: bad}\n");
  BOOST_TEST(project.call("run").code == 1);
  const auto answer = project.call("timeline", {"--out", "-"});
  BOOST_TEST(answer.code == 0, answer.err);
  const Json data = data_of(answer.out);
  std::map<std::string, std::string> states;
  for (const Json& task : data.at("tasks")) states[task.at(0)] = task.at(2);
  BOOST_TEST(states["good"] == "done");
  BOOST_TEST(states["bad"] == "failed");
  BOOST_TEST(states["behind"] == "blocked");
  BOOST_TEST(!has(answer.out, "</script><b>"));  // a title is text, not a way to write into the page
}

BOOST_AUTO_TEST_CASE(an_unknown_run_is_answered_with_those_that_there_are) {
  const Project project;
  project.call("run", {"data"});
  const auto answer = project.call("timeline", {"1999"});
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, only_run(project));
}

BOOST_AUTO_TEST_CASE(a_graph_is_drawn_as_dot_mermaid_and_json) {
  const Project project;
  project.call("run", {"trunk[seed=1]"});
  const std::string dot = project.call("graph", {"--cached"}).out;
  CHECK_HAS(dot, "digraph \"toy\"");
  CHECK_HAS(dot, "decay[seed=1,branch=s10]");
  CHECK_HAS(dot, "reuse");  // not by colour alone
  const std::string mermaid = project.call("graph", {"--format", "mermaid", "--collapse", "seed", "--cached"}).out;
  CHECK_HAS(mermaid, "flowchart LR");
  CHECK_HAS(mermaid, "trunk[seed=*]<br>2 tasks, 1 reuse, 1 run");
  const Json json = Json::parse(project.call("graph", {"--json", "--collapse", "all", "--cached"}).out);
  BOOST_TEST(json.at("nodes").size() == 4u);
  for (const Json& node : json.at("nodes")) {
    if (node.at("stage") == "trunk") BOOST_TEST(node.at("states").at("run") == 1);
  }
}

BOOST_AUTO_TEST_CASE(a_graph_is_drawn_as_svg, *boost::unit_test::precondition(pe::test::Installed{"dot"})) {
  const Project project;
  project.call("run", {"trunk[seed=1]"});
  const auto svg = project.call("graph", {"--format", "svg", "--cached"});
  BOOST_TEST(svg.code == 0, svg.err);
  CHECK_HAS(svg.out, "<svg");
  CHECK_HAS(svg.out, "decay[seed=1,branch=s10]");
  CHECK_HAS(svg.out, "</svg>");
}

BOOST_AUTO_TEST_CASE(without_graphviz_it_is_said_how_to_get_it) {
  const Project project;
  std::vector<std::string> words = project.command("graph", {"--format", "svg"});
  words.insert(words.begin(), {"/usr/bin/env", "PATH=" + std::string(PE_TOY_FOLDER)});
  const auto answer = project.call_words(words);
  BOOST_TEST(answer.code == 2);
  CHECK_HAS(answer.err, "apt-get install graphviz");
  CHECK_HAS(answer.err, "mermaid");
}

BOOST_AUTO_TEST_SUITE_END()

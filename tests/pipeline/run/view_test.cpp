// Names for people in out/ and reports/: their targets, files that they leave alone, and that they decide nothing.
#include "pipeline/run/view.h"

#include <sys/stat.h>
#include <boost/test/unit_test.hpp>

#include "artifact/kind.h"
#include "pipeline/run/run_fixture.h"
#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
namespace fs = std::filesystem;

namespace {

ino_t inode(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
}

/// Tasks whose output is a report that says their salt.
struct SomeReports : test::SmallRun {
  SomeReports() {
    stage->outputs[0].kind = artifact::Kind::kReport;
    options.run_id = "20260101-000000-0001";
  }
  std::size_t add_report(const std::string& name) {
    behaviour[name] = [](test::FakeAttempt& attempt) {
      const fs::path out = attempt.task.at("outputs").at("out").get<std::string>();
      fs::create_directories(out);
      support::write_file_atomically(out / "report.md", attempt.config().dump(), false);
    };
    return add(name);
  }
  fs::path root(const std::string& path) const { return folder / "root" / path; }
  void write(const std::string& path, const std::string& text) const {
    fs::create_directories(root(path).parent_path());
    support::write_file_atomically(root(path), text, false);
  }
  std::string read(const std::string& path) const {
    return fs::exists(root(path)) ? support::read_file(root(path)) : "(nothing)";
  }
  /// Texts of all warnings of the last run.
  std::string warnings() const {
    std::string all;
    for (const RunEvent& event : events) {
      if (event.name == "warn") all += event.detail.at("text").get<std::string>() + "\n";
    }
    return all;
  }
  bool stands(std::vector<std::string>* reports = nullptr) {
    return view_stands(root(""), "small", view_id(graph, plan(), *store), reports);
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(view)

BOOST_FIXTURE_TEST_CASE(what_people_put_there_is_moved_and_never_deleted, SomeReports) {
  const std::size_t a = add_report("a");
  write("out/small/a/a/notes.txt", "mine");
  write("reports/small/latest/annotations.txt", "mine too");
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST(read("out/small/a/a.old-20260101-000000-0001/notes.txt") == "mine");
  BOOST_TEST(read("reports/small/latest.old-20260101-000000-0001/annotations.txt") == "mine too");
  BOOST_TEST(has(warnings(), "out/small/a/a' was not made by pe-pipeline; it is now '"), warnings());
  BOOST_TEST(has(warnings(), "latest.old-20260101-000000-0001"), warnings());
  BOOST_TEST(has(read("reports/small/latest/report.md"), "salt"));
  BOOST_TEST(has(read("out/small/a/a/report.md"), "salt"));
  // Notes next to the links stay there.
  write("out/small/a/a/notes.txt", "of the first");
  task(a).config.edit()["salt"] = "2";
  options.run_id = "20260102-000000-0002";
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST(read("out/small/a/a.old-20260102-000000-0002/notes.txt") == "of the first");
  BOOST_TEST(!fs::exists(root("out/small/a/a/notes.txt")));
  // A folder of links alone is ours, and gives way without a word.
  task(a).config.edit()["salt"] = "3";
  options.run_id = "20260103-000000-0003";
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST(warnings() == "");
  BOOST_TEST(has(read("out/small/a/a/report.md"), "\"3\""));
  BOOST_TEST(has(read("reports/small/latest/report.md"), "\"3\""));
  BOOST_TEST(has(read("reports/small/20260102-000000-0002/report.md"), "\"2\""));
}

BOOST_FIXTURE_TEST_CASE(a_file_of_the_user_that_has_the_name_of_an_artifact_is_moved, SomeReports) {
  stage->outputs[0].kind = artifact::Kind::kMetrics;
  add("a");
  write("out/small/a/a.h5", "mine");
  BOOST_TEST(run().exit_code == kRunDone);
  BOOST_TEST(read("out/small/a/a.h5.old-20260101-000000-0001") == "mine");
  BOOST_TEST(fs::is_symlink(root("out/small/a/a.h5")));
  BOOST_TEST(has(warnings(), "a.h5.old-"), warnings());
}

BOOST_FIXTURE_TEST_CASE(names_that_cannot_be_written_are_a_warning, SomeReports) {
  add_report("a");
  write("out", "a file");
  write("reports", "a file");
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST(summary.executed == 1u);
  BOOST_TEST(has(warnings(), "could not be written"), warnings());
  const ViewChange shown = show_all(graph, plan(), *store, root(""), "20260102-000000-0002", true);
  BOOST_REQUIRE(shown.odd.size() == 1u);
  BOOST_TEST(has(shown.odd[0], "root/out"), shown.odd[0]);
  BOOST_TEST(read("out") == "a file");
  // Where only one of them fails, the other is written.
  fs::remove(root("reports"));
  options.run_id = "20260103-000000-0003";
  BOOST_TEST(show_all(graph, plan(), *store, root(""), options.run_id, true).reports.size() == 1u);
}

BOOST_FIXTURE_TEST_CASE(a_report_is_copied_once_and_latest_turns_at_the_end, SomeReports) {
  constexpr std::size_t kReports = 12;
  std::set<ino_t> seen;
  bool turned = false;
  for (std::size_t i = 0; i < kReports; ++i) {
    const std::string name = support::cat("r", i);
    add_report(name);
    const auto make = behaviour.at(name);
    behaviour[name] = [this, make, &seen, &turned](test::FakeAttempt& attempt) {
      make(attempt);
      seen.insert(inode(root("reports/small/20260101-000000-0001/r0/report.md")));
      turned = turned || fs::exists(root("reports/small/latest"));
    };
    if (i > 0) task(i).inputs.push_back({"in", i - 1, "out", ""});
  }
  stage->inputs[0].kind = artifact::Kind::kReport;
  const RunSummary summary = run();
  BOOST_REQUIRE(summary.exit_code == kRunDone);
  BOOST_TEST(!turned);
  BOOST_TEST(summary.reports.size() == kReports);
  seen.erase(0);
  BOOST_REQUIRE(seen.size() == 1u);
  BOOST_TEST(*seen.begin() == inode(root("reports/small/latest/r0/report.md")));
  // Another run that changes one shows the others as well; one that changes nothing makes no folder.
  task(kReports - 1).config.edit()["salt"] = "2";
  options.run_id = "20260102-000000-0002";
  BOOST_TEST(run().executed == 1u);
  BOOST_TEST(fs::read_symlink(root("reports/small/latest")).string() == "20260102-000000-0002");
  BOOST_TEST(has(read("reports/small/latest/r0/report.md"), "r0"));
  BOOST_TEST(has(read("reports/small/latest/r11/report.md"), "\"2\""));
  PlanOptions force;
  force.force = true;
  options.run_id = "20260103-000000-0003";
  BOOST_TEST(run(force).executed == kReports);
  BOOST_TEST(fs::read_symlink(root("reports/small/latest")).string() == "20260102-000000-0002");
  BOOST_TEST(!fs::exists(root("reports/small/20260103-000000-0003")));
}

BOOST_FIXTURE_TEST_CASE(bytes_that_were_damaged_are_not_handed_out_as_a_report, SomeReports) {
  add_report("a");
  run();
  open();
  const Result result = *store->find({*store->hint(graph.tasks[0].plan_key), -1});
  const fs::path member = store->object_path(result.outputs[0].members[0]);
  fs::permissions(member, fs::perms::owner_write, fs::perm_options::add);
  std::string bytes = support::read_file(member);
  bytes[0] ^= 1;
  support::write_file_atomically(member, bytes, false);
  fs::remove_all(root("reports"));
  const ViewChange shown = show_all(graph, plan(), *store, root(""), "20260102-000000-0002", true);
  BOOST_TEST(shown.reports.empty());
  BOOST_REQUIRE(shown.odd.size() == 1u);
  BOOST_TEST(has(shown.odd[0], "is damaged"), shown.odd[0]);
  BOOST_TEST(!fs::exists(root("reports/small/latest")));
}

BOOST_FIXTURE_TEST_CASE(names_too_long_for_the_system_end_with_a_digest, SomeReports) {
  for (const char* last : {"x", "y"}) {
    const std::size_t i = add_report("a");
    task(i).id = support::cat("a", last);
    task(i).axes = {
        {"one", std::string(64, 'p')}, {"two", std::string(64, 'q')}, {"three", std::string(64, 'r') + last}};
    task(i).config.edit()["salt"] = last;
  }
  const RunSummary summary = run();
  BOOST_TEST(summary.exit_code == kRunDone);
  BOOST_TEST(warnings() == "");
  std::size_t shown = 0;
  for (const auto& entry : fs::directory_iterator(root("out/small/a"))) {
    ++shown;
    BOOST_TEST(entry.path().filename().string().size() == 200u);
    BOOST_TEST(fs::exists(entry.path() / "report.md"));
  }
  BOOST_TEST(shown == 2u);
  BOOST_TEST(summary.reports.size() == 2u);
  for (const std::string& report : summary.reports) BOOST_TEST(fs::exists(fs::path(report) / "report.md"));
}

BOOST_FIXTURE_TEST_CASE(a_name_that_was_removed_is_missed, SomeReports) {
  add_report("a");
  run();
  BOOST_TEST(stands());
  std::vector<std::string> reports;
  BOOST_TEST(stands(&reports));
  BOOST_TEST(reports.size() == 1u);
  fs::remove_all(root("out/small/a/a"));
  BOOST_TEST(!stands());
  open();
  show_all(graph, plan(), *store, root(""), "20260102-000000-0002", true);
  BOOST_TEST(stands());
  fs::remove_all(root("reports"));
  BOOST_TEST(!stands());
}

BOOST_FIXTURE_TEST_CASE(another_plan_of_the_same_pipeline_shows_its_own_report, SomeReports) {
  const std::size_t a = add_report("a");
  run();
  task(a).config.edit()["salt"] = "2";
  options.run_id = "20260102-000000-0002";
  run();
  BOOST_TEST(stands());
  // Back to the first: everything is in the store, and `latest` must not keep the second.
  task(a).config.edit()["salt"] = "";
  open();
  BOOST_TEST(!stands());
  const ViewChange shown = show_all(graph, plan(), *store, root(""), "20260103-000000-0003", true);
  BOOST_TEST(shown.relinked == "1 link in out/small replaced, reports/small/latest turned");
  BOOST_REQUIRE(shown.reports.size() == 1u);
  BOOST_TEST(fs::path(shown.reports[0]).filename() == "20260101-000000-0001");
  BOOST_TEST(fs::read_symlink(root("reports/small/latest")).string() == "20260101-000000-0001");
  BOOST_TEST(!fs::exists(root("reports/small/20260103-000000-0003")));
  BOOST_TEST(!has(read("out/small/a/a/report.md"), "\"2\""));
  BOOST_TEST(stands());
  BOOST_TEST(show_all(graph, plan(), *store, root(""), "20260104-000000-0004", true).relinked == "");
  // A user, or a run of a part, changes `latest`.
  fs::remove(root("reports/small/latest"));
  fs::create_directory_symlink("20260102-000000-0002", root("reports/small/latest"));
  BOOST_TEST(!stands());
}

BOOST_FIXTURE_TEST_CASE(results_of_other_settings_do_not_stay_beside_those_of_the_plan, SomeReports) {
  stage->outputs[0].kind = artifact::Kind::kMetrics;
  add("a");
  add("b");
  graph.settings = "--set a.lr=1";
  run();
  write("out/small/b/notes.txt", "mine");
  fs::create_symlink("notes.txt", root("out/small/b/mine.txt"));
  BOOST_REQUIRE(fs::is_symlink(root("out/small/b/b.h5")));
  // A slice of the same settings leaves the rest; `settings` says nothing of axes.
  Graph both = graph;
  graph.tasks.pop_back();
  open();
  BOOST_TEST(show_all(graph, plan(), *store, root(""), "20260102-000000-0002", true).relinked == "");
  BOOST_TEST(fs::is_symlink(root("out/small/b/b.h5")));
  // The slice of other settings does not; files of the user there stay.
  graph.settings = "--set a.lr=2";
  BOOST_TEST(show_all(graph, plan(), *store, root(""), "20260103-000000-0003", true).relinked ==
             "1 link to results of other settings removed from out/small");
  BOOST_TEST(!fs::exists(root("out/small/b/b.h5")));
  BOOST_TEST(fs::is_symlink(root("out/small/a/a.h5")));
  BOOST_TEST(read("out/small/b/notes.txt") == "mine");
  BOOST_TEST(fs::is_symlink(root("out/small/b/mine.txt")));
  // So it is for a part of the pipeline, and after an edit of a file.
  graph = both;
  graph.files.push_back({"pipelines/small.yml", {}, "aa"});
  show_all(graph, plan(), *store, root(""), "20260104-000000-0004", true);
  BOOST_TEST(fs::is_symlink(root("out/small/b/b.h5")));
  graph.tasks.pop_back();
  graph.files.back().sha256 = "bb";
  BOOST_TEST(show_all(graph, plan(), *store, root(""), "20260105-000000-0005", false).relinked ==
             "1 link to results of other settings removed from out/small");
  BOOST_TEST(!fs::exists(root("out/small/b/b.h5")));
}

BOOST_AUTO_TEST_SUITE_END()

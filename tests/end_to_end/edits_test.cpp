// Files are edited and stages rebuilt during a run: the planned versions run, are published and are remembered.
#include <signal.h>
#include <sys/wait.h>
#include <boost/test/unit_test.hpp>

#include <chrono>
#include <functional>
#include <thread>

#include "end_to_end/project.h"
#include "support/files.h"
#include "support/process.h"

using namespace pe;        // NOLINT
using namespace pe::test;  // NOLINT

namespace {

constexpr const char* kOneConfig = R"(schema: pe-pipeline/1
name: toy
stages:
  t:
    run: pe-toy
    config: {file: configs/toy.yml, set: {tokens: 30, step_s: 0.03}}
)";

/// As if the file had been written an hour ago, so that its stat is believed.
void age(const fs::path& file) { fs::last_write_time(file, fs::file_time_type::clock::now() - std::chrono::hours(1)); }

void write_old(const fs::path& file, const std::string& text) {
  support::write_file_atomically(file, text, false);
  age(file);
}

bool stage_started(const Project& project) {
  std::error_code error;
  for (fs::recursive_directory_iterator it(project.root() / "store" / "work", error), end; !error && it != end;
       it.increment(error)) {
    if (it->path().filename() == "stage.log") return true;
  }
  return false;
}

/// Runs in the background, and calls `edit` once the first stage is at work. The exit code.
int run_and_edit(const Project& project, const std::function<void()>& edit) {
  const pid_t pid = project.start();
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (!stage_started(project) && std::chrono::steady_clock::now() < patience) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  BOOST_REQUIRE(stage_started(project));
  edit();
  return support::wait_for(pid).code;
}

std::string output_of(const Project& project) { return support::read_file(project.root() / "run.out"); }

}  // namespace

BOOST_AUTO_TEST_SUITE(edits)

BOOST_AUTO_TEST_CASE(a_config_edited_while_a_run_works_is_work_for_the_next_run) {
  const Project project(kOneConfig);
  const fs::path config = project.root() / "configs/toy.yml";
  write_old(config, "value: 1\n");
  age(project.file());
  BOOST_TEST(run_and_edit(project, [&] { write_old(config, "value: 2\n"); }) == 0);
  CHECK_HAS(output_of(project), "toy: 1 made");
  CHECK_HAS(project.call("plan").out, "1 run");
  CHECK_HAS(project.call("run").out, "toy: 1 made");
  CHECK_HAS(project.call("run").out, "nothing to do");
  write_old(config, "value: 1\n");  // and back: the first result is still known
  CHECK_HAS(project.call("run").out, "nothing to do");
}

BOOST_AUTO_TEST_CASE(a_pipeline_file_edited_while_a_run_works_is_work_for_the_next_run) {
  const Project project(kOneConfig);
  write_old(project.root() / "configs/toy.yml", "value: 1\n");
  age(project.file());
  std::string edited = kOneConfig;
  edited.replace(edited.find("tokens: 30"), 10, "tokens: 20");
  BOOST_TEST(run_and_edit(project, [&] { write_old(project.file(), edited); }) == 0);
  CHECK_HAS(project.call("run").out, "toy: 1 made");
}

BOOST_AUTO_TEST_CASE(an_input_edited_while_its_stage_works_is_not_published_under_the_old_key) {
  const Project project(R"(schema: pe-pipeline/1
name: toy
stages:
  t:
    run: pe-toy
    config: {set: {tokens: 30, step_s: 0.03, path: text.txt}}
)");
  const fs::path text = project.root() / "text.txt";
  write_old(text, "one");
  BOOST_TEST(run_and_edit(project, [&] { write_old(text, "two"); }) == 1);
  CHECK_HAS(output_of(project), "text.txt' changed after the run was planned");
  BOOST_TEST(project.contents().empty());
  CHECK_HAS(project.call("run").out, "toy: 1 made");
  const auto two = project.contents();
  write_old(text, "one");
  CHECK_HAS(project.call("run").out, "toy: 1 made");  // no result of "two" passes for one of "one"
  BOOST_TEST(project.contents().size() == 2u);
  write_old(text, "two");
  CHECK_HAS(project.call("run").out, "nothing to do");
}

BOOST_AUTO_TEST_CASE(an_input_that_is_only_touched_while_its_stage_works_is_published) {
  const Project project(R"(schema: pe-pipeline/1
name: toy
stages:
  t:
    run: pe-toy
    config: {set: {tokens: 20, step_s: 0.03, path: text.txt}}
)");
  write_old(project.root() / "text.txt", "one");
  BOOST_TEST(run_and_edit(project, [&] { write_old(project.root() / "text.txt", "one"); }) == 0);
  CHECK_HAS(output_of(project), "toy: 1 made");
}

BOOST_AUTO_TEST_CASE(a_stage_rebuilt_with_another_version_while_a_run_works_refuses) {
  // Two tasks in a row, so that the second starts after the rebuild.
  const Project project(R"(schema: pe-pipeline/1
name: toy
stages:
  a:
    run: ./pe-toy
    config: {set: {tokens: 30, step_s: 0.03}}
  b:
    run: ./pe-toy
    needs: {init: a}
    config: {set: {value: 2}}
)");
  const auto install = [&](const char* program) {
    for (const char* ending : {"", ".describe.json"}) {
      const fs::path from = fs::path(PE_TOY_FOLDER) / (std::string(program) + ending);
      const fs::path to = project.root() / (std::string("pe-toy") + ending);
      fs::remove(to);  // a running program keeps the old file
      fs::copy_file(from, to);
    }
  };
  install("pe-toy");
  BOOST_TEST(run_and_edit(project, [&] { install("pe-toy-next"); }) == 1);
  const std::string output = output_of(project);
  CHECK_HAS(output, "other-program");
  CHECK_HAS(output, "pe-toy: result version 2 now, planned with 1 (class other-program)");
  for (const auto& key : project.store().keys()) BOOST_TEST(project.store().read(key)->version == 1);
  const Answer again = project.call("run");
  CHECK_HAS(again.out, "toy: 2 made");  // of version 2, both
  CHECK_HAS(project.call("run").out, "nothing to do");
}

BOOST_AUTO_TEST_SUITE_END()

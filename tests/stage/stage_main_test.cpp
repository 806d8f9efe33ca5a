// Stages in this process: the files that they leave, and the exit codes and words of their ends.
#include "stage/stage_main.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio_ext.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <iostream>
#include <new>

#include "artifact/task_protocol.h"
#include "support/error.h"
#include "support/explain.h"
#include "support/files.h"
#include "support/temp_folder.h"
#include "support/text.h"

using namespace pe;  // NOLINT
using artifact::Workspace;
namespace fs = std::filesystem;

namespace {

struct Config {
  std::int64_t steps = 10;
  void describe(support::FieldVisitor& v) { v.field("steps", steps, "Steps.", {.unit = "steps", .min = 1}); }
};

struct Unknown : std::runtime_error {
  using std::runtime_error::runtime_error;
};

stage::StageInfo toy() {
  return {.name = "toy", .summary = "A toy.", .inputs = {}, .outputs = {{"model", artifact::Kind::kCheckpoint}}};
}

/// A stream of this process is another file while it lives.
class Redirected {
 public:
  Redirected(int fd, const fs::path& path, int flags) : fd_(fd), before_(::dup(fd)) {
    std::fflush(stdout);
    const int other = ::open(path.c_str(), flags, 0600);
    ::dup2(other, fd);
    ::close(other);
  }
  ~Redirected() {
    std::fflush(stdout);
    ::__fpurge(stdout);  // of a stream that takes nothing
    std::clearerr(stdout);
    ::dup2(before_, fd_);
    ::close(before_);
  }

 private:
  int fd_, before_;
};

struct Place {
  Place() : before(fs::current_path()) { fs::current_path(folder.path()); }
  ~Place() {
    fs::current_path(before);
    support::request_stop(0);
  }
  test::TempFolder folder;
  fs::path before;

  /// The exit code and the text on standard error.
  std::pair<int, std::string> run(std::vector<std::string> words, const std::function<void(Workspace&)>& body,
                                  const stage::StageInfo& info = toy(), const std::string& standard_output = "out") {
    words.insert(words.begin(), "pe-toy");
    std::vector<char*> arguments;
    for (std::string& word : words) arguments.push_back(word.data());
    int code = 0;
    {
      const Redirected err(2, folder / "err", O_WRONLY | O_CREAT | O_TRUNC),
          out(1, standard_output, O_WRONLY | O_CREAT);
      code = stage::run_stage(
          static_cast<int>(arguments.size()), arguments.data(), info, support::schema_of<Config>(), [](const Json&) {},
          [&](const Json&, Workspace& workspace) { body(workspace); });
    }
    return {code, support::read_file(folder / "err")};
  }
};

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const std::function<void(Workspace&)> kNothing = [](Workspace&) {};

}  // namespace

BOOST_FIXTURE_TEST_SUITE(stage_main, Place)

BOOST_AUTO_TEST_CASE(the_work_folder_of_a_stage_by_hand_goes_when_it_is_done) {
  const auto leave = [](const std::string& name) {
    return [name](Workspace& workspace) {
      support::make_folders(workspace.work / fs::path(name).parent_path());
      std::ofstream(workspace.work / name) << "x";
    };
  };
  BOOST_TEST(run({}, leave("checkpoints/step-1.h5")).first == 0);
  BOOST_TEST(!fs::exists("pe-toy.work"));
  BOOST_TEST(run({"--work", "mine"}, leave("checkpoints/step-1.h5")).first == 0);
  BOOST_TEST(fs::exists("mine/checkpoints/step-1.h5"));  // it was named, so it is somebody's
  // Files from which a failed stage continues, and the files that are read.
  const auto fails = [&](Workspace& workspace) {
    leave("checkpoints/step-1.h5")(workspace);
    throw support::IoError("broken");
  };
  BOOST_TEST(run({}, fails).first == support::kExitIo);
  BOOST_TEST(fs::exists("pe-toy.work/checkpoints/step-1.h5"));
  BOOST_TEST(run({}, leave(support::cat(artifact::kChartFolder, "/events"))).first == 0);
  BOOST_TEST(fs::exists("pe-toy.work/tensorboard/events"));
  BOOST_TEST(!fs::exists("pe-toy.work/checkpoints"));
}

BOOST_AUTO_TEST_CASE(a_work_folder_that_another_stage_uses_stays) {
  support::Descriptor other;  // as of a stage that was started in the same folder
  const auto beside = [&](Workspace& workspace) {
    other = support::Descriptor(::open(workspace.work.c_str(), O_RDONLY | O_DIRECTORY));
    BOOST_TEST(::flock(other.get(), LOCK_SH | LOCK_NB) == 0);
  };
  BOOST_TEST(run({}, beside).first == 0);
  BOOST_TEST(fs::exists("pe-toy.work"));
}

BOOST_AUTO_TEST_CASE(outputs_that_would_destroy_something_are_refused_before_the_work) {
  const auto never = [](Workspace&) { BOOST_ERROR("the stage began"); };
  BOOST_REQUIRE(::mkfifo("fifo", 0600) == 0);
  const auto [code, text] = run({"--output", "model=fifo"}, never);
  BOOST_TEST(code == support::kExitCannotCreate);
  BOOST_TEST(has(text, "output 'model' as 'fifo': it is a FIFO"), text);
  BOOST_TEST(run({"--output", "model=pe-toy.work/model.h5"}, never).first == support::kExitConfig);
  const auto [replaces, why] = run({"--work", "mine", "--output", "model=mine"}, never);
  BOOST_TEST(replaces == support::kExitConfig);
  BOOST_TEST(has(why, "output 'model' ('mine') would replace the work folder, 'mine'"), why);
  std::ofstream("config.yml") << "steps: 3\n";
  BOOST_TEST(run({"--config", "config.yml", "--output", "model=./config.yml"}, never).first == support::kExitConfig);
}

BOOST_AUTO_TEST_CASE(folders_of_outputs_are_there_before_the_work) {
  bool there = false;
  run({"--output", "model=new/folder/model.h5"}, [&](Workspace&) { there = fs::is_directory("new/folder"); });
  BOOST_TEST(there);
}

BOOST_AUTO_TEST_CASE(memory_that_ran_out_has_an_exit_code_of_its_own) {
  const auto [code, text] = run({}, [](Workspace&) { throw std::bad_alloc(); });
  BOOST_TEST(code == support::kExitOutOfMemory);
  BOOST_TEST(text == "pe-toy: out of memory\n", text);
}

BOOST_AUTO_TEST_CASE(a_stage_explains_what_its_libraries_throw) {
  stage::StageInfo info = toy();
  info.explain = [](const std::exception& error, const Json& config) -> std::optional<support::Error> {
    if (dynamic_cast<const Unknown*>(&error) == nullptr) return std::nullopt;
    return support::Error(support::kExitDevice,
                          support::Diagnostic{error.what(), {}, "steps: " + config.at("steps").dump(), {}});
  };
  const auto [code, text] = run(
      {"--set", "steps=7"}, [](Workspace&) { throw Unknown("the device is gone"); }, info);
  BOOST_TEST(code == support::kExitDevice);
  BOOST_TEST(text == "pe-toy: the device is gone\n  steps: 7\n", text);
  const auto [other, mistake] = run(
      {}, [](Workspace&) { throw std::logic_error("?"); }, info);
  BOOST_TEST(other == support::kExitBug);
  BOOST_TEST(has(mistake, "This is a mistake of pe-toy"), mistake);
}

BOOST_AUTO_TEST_CASE(results_are_printed_where_a_person_runs_the_stage) {
  stage::StageInfo info = toy();
  info.results = [](const Workspace& workspace) {
    return "made " + support::read_file(workspace.output("model")) + "\n";
  };
  const auto write = [](Workspace& workspace) { std::ofstream(workspace.output("model")) << "a model"; };
  const auto printed = [&](const std::vector<std::string>& words, const std::function<void(Workspace&)>& body) {
    fs::remove("out");
    const int code = run(words, body, info).first;
    return std::pair{code, support::read_file("out")};
  };
  BOOST_TEST((printed({"--progress", "none"}, write) == std::pair{0, std::string("made a model\n")}));
  BOOST_TEST((printed({}, [](Workspace&) { throw support::IoError("broken"); }) ==
              std::pair{static_cast<int>(support::kExitIo), std::string()}));
  // Standard output of a task is a log.
  std::ofstream("task.json") << Json{
      {"schema", "pe-task/1"},
      {"stage", "toy"},
      {"config", {{"steps", 3}}},
      {"inputs", Json::object()},
      {"outputs", {{"model", (folder / "model.h5").string()}}},
      {"work",
       (folder / "work").string()}}.dump();
  BOOST_TEST((printed({"--task", "task.json"}, write) == std::pair{0, std::string()}));
  BOOST_TEST(fs::exists("model.h5"));
}

BOOST_AUTO_TEST_CASE(every_line_that_is_to_be_checked_has_an_answer) {
  std::ofstream("lines") << "{\"steps\": 3}\n\n{\"steps\":" << std::string(300'000, '[') << std::string(300'000, ']')
                         << "}\n{\"steps\": 0}\n{}\n";
  const Redirected in(0, "lines", O_RDONLY);
  BOOST_TEST(run({"--check"}, kNothing).first == support::kExitConfig);
  std::vector<bool> accepted;
  for (const std::string& line : support::split(std::string(support::trim(support::read_file("out"))), '\n')) {
    accepted.push_back(Json::parse(line).at("ok").get<bool>());
  }
  BOOST_TEST(accepted == (std::vector<bool>{true, false, false, false, true}));
  std::cin.clear();
}

BOOST_AUTO_TEST_CASE(standard_output_that_takes_nothing_is_an_error) {
  for (const char* flag : {"--describe", "--help", "--version"}) {
    const auto [code, text] = run({flag}, kNothing, toy(), "/dev/full");
    BOOST_TEST(code == support::kExitIo, flag);
    BOOST_TEST(has(text, "cannot write to standard output: No space left on device"), text);
    BOOST_TEST(run({flag}, kNothing).first == 0, flag);
  }
}

BOOST_AUTO_TEST_CASE(what_the_file_system_refuses_ends_a_stage_with_74) {
  const auto [code, err] = run({}, [](Workspace& workspace) { fs::resize_file(workspace.work / "nowhere", 1); });
  BOOST_TEST(code == support::kExitIo);
  BOOST_TEST(has(err, "nowhere': No such file or directory"), err);
  BOOST_TEST(!has(err, "mistake"), err);
}

BOOST_AUTO_TEST_SUITE_END()

// How soon a run sees an interrupt while it reads its inputs through: a report of so many gigabytes in the store, which
// a task of another run wants. Its file is one hole, so that reading it is hashing alone. The benchmark is its own
// stages.
//
//     interrupt PE-PIPELINE [GIGABYTES [TIMES]]      default: 10 5
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

#include "support/config.h"
#include "support/files.h"
#include "support/json.h"
#include "support/process.h"
#include "support/temp_folder.h"

namespace {

namespace fs = std::filesystem;
using namespace pe;  // NOLINT
using support::FieldVisitor;
using Clock = std::chrono::steady_clock;

constexpr double kGoalMs = 100;

struct Config {
  double gigabytes = 1;
  void describe(FieldVisitor& v) { v.field("gigabytes", gigabytes, "How much the report holds."); }
};

double ms_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

/// The work of both stages: a report with one file of that size.
int work(const fs::path& description) {
  const Json task = Json::parse(support::read_file(description));
  const fs::path out = task.at("outputs").at("out").get<std::string>();
  fs::create_directories(out);
  std::ofstream(out / "hole");
  fs::resize_file(out / "hole", static_cast<std::uintmax_t>(task.at("config").at("gigabytes").get<double>() * 1e9));
  return 0;
}

void write_stage(const fs::path& folder, const std::string& name, const Json& inputs) {
  const fs::path own = support::own_executable();
  fs::create_symlink(own, folder / ("pe-" + name));
  Json output = Json::object();
  output["name"] = "out";
  output["kind"] = "report";
  Json document = Json::object();
  document["schema"] = "pe-stage/1";
  document["name"] = name;
  document["program"] = "pe-" + name;
  document["version"] = 1;
  document["summary"] = "Fills a report with a hole.";
  document["build_id"] = support::elf_build_id(own);
  document["inputs"] = inputs;
  document["outputs"] = Json::array({output});
  document["fields"] = support::schema_to_json(support::schema_of<Config>());
  std::ofstream(folder / ("pe-" + name + ".describe.json")) << document.dump();
}

void write_project(const fs::path& folder, double gigabytes) {
  fs::create_directories(folder / "stages");
  write_stage(folder / "stages", "bench-hole", Json::array());
  Json input = Json::object();
  input["name"] = "in";
  input["kind"] = "report";
  write_stage(folder / "stages", "bench-reader", Json::array({input}));
  std::ofstream(folder / "hole.yml") << fmt::format(
      "schema: pe-pipeline/1\nname: hole\nstages:\n"
      "  hole: {{run: stages/pe-bench-hole, config: {{set: {{gigabytes: {}}}}}}}\n"
      "  reader: {{run: stages/pe-bench-reader, needs: {{in: hole}}, config: {{set: {{gigabytes: 0}}}}}}\n",
      gigabytes);
}

struct Interrupted {
  double seen_ms = -1;   // until it got the signal
  double ended_ms = -1;  // until the run had ended
};

/// Runs the reader, and interrupts it once its input is being read.
Interrupted interrupt(const std::string& program, const fs::path& folder) {
  fs::remove_all(folder / "store" / "memo");  // what was read before counts as read
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return {};
  const support::Descriptor ours(ends[0]);
  support::Descriptor theirs(ends[1]);
  support::SpawnOptions options;
  options.arguments = {program, "run", "hole.yml", "--progress", "json", "-j", "1"};
  options.directory = folder;
  options.stdout_fd = theirs.get();
  const pid_t pid = support::spawn(options);
  theirs.close();
  Interrupted times;
  Clock::time_point sent;
  bool interrupted = false;
  std::string line;
  char c = 0;
  while (::read(ours.get(), &c, 1) == 1) {
    if (c != '\n') {
      line += c;
      continue;
    }
    const Json event = Json::parse(line, nullptr, false);
    line.clear();
    if (!event.is_object()) continue;
    const std::string name = event.value("event", "");
    if (!interrupted && name == "state" && event.contains("counts") && event["counts"].value("verifying", 0) > 0) {
      // At any time between two waits of the loop, and not where it has just sent an event.
      ::usleep(static_cast<useconds_t>(std::rand() % 300'000));
      sent = Clock::now();
      ::kill(pid, SIGINT);
      interrupted = true;
    }
    if (interrupted && name == "stop" && times.seen_ms < 0) times.seen_ms = ms_since(sent);
  }
  support::wait_for(pid);
  if (interrupted) times.ended_ms = ms_since(sent);
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && std::string(argv[1]) == "--task") return work(argv[2]);
  if (argc == 2 && std::string(argv[1]) == "--check") {
    for (std::string line; std::getline(std::cin, line);) fmt::print("{{\"ok\":true}}\n");
    return 0;
  }
  if (argc < 2) {
    fmt::print(stderr, "usage: interrupt PE-PIPELINE [GIGABYTES [TIMES]]\n");
    return 2;
  }
  const double gigabytes = argc > 2 ? std::atof(argv[2]) : 10;
  const int times = argc > 3 ? std::atoi(argv[3]) : 5;
  const test::TempFolder folder;
  write_project(folder.path(), gigabytes);
  const auto made =
      support::capture({argv[1], "run", "hole.yml", "hole", "--progress", "none"}, "", 1 << 20, folder.path());
  if (made.status.code != 0) {
    fmt::print(stderr, "{}{}", made.out, made.err);
    return 1;
  }
  double seen_ms = 0, ended_ms = 0;
  for (int i = 0; i < times; ++i) {
    const Interrupted one = interrupt(argv[1], folder.path());
    if (one.seen_ms < 0) {
      fmt::print(stderr, "the run ended before it could be interrupted: more gigabytes are needed\n");
      return 1;
    }
    seen_ms = std::max(seen_ms, one.seen_ms);
    ended_ms = std::max(ended_ms, one.ended_ms);
  }
  fmt::print(
      "{} interrupts while {:g} GB of inputs were read: seen after {:.1f} ms at the latest (goal {:.0f}), ended after "
      "{:.1f} ms\n",
      times, gigabytes, seen_ms, kGoalMs, ended_ms);
  return 0;
}

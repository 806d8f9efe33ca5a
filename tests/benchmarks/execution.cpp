// Cost of running a task: a grid of toys that only copy a small file, and one report that gathers them all, on two
// slots. It is compared with ninja starting the same program for the same copies. The folder is empty before; the wall
// time of the whole process is divided by the tasks. The peak of memory is the whole run's.
//
//     execution PE-PIPELINE PLAIN-TOY [TASKS...] [--durable] [--no-gather]     default: 1000 10000
//     execution PE-PIPELINE PLAIN-TOY [TASKS...] --reports [--durable]         default: 50 200 900
//
// The whole figure is `execution PE-PIPELINE PLAIN-TOY 1000 10000 100000 --durable`. With --reports the output of each
// task is a report of one page, which a run also copies into reports/: its time must not grow with the number of
// reports.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "artifact/metrics.h"
#include "support/config.h"
#include "support/files.h"
#include "support/json.h"
#include "support/process.h"
#include "support/temp_folder.h"

namespace {

namespace fs = std::filesystem;
using namespace pe;  // NOLINT
using support::FieldVisitor;

struct Config {
  std::int64_t value = 0;
  void describe(FieldVisitor& v) { v.field("value", value, "A number."); }
};

void write_description(const fs::path& folder, const std::string& name, const Json& inputs,
                       const std::string& kind = "metrics") {
  const Json document = {{"schema", "pe-stage/1"},
                         {"name", name},
                         {"program", "pe-" + name},
                         {"version", 1},
                         {"summary", "Copies a small file."},
                         {"build_id", support::elf_build_id(folder / ("pe-" + name))},
                         {"inputs", inputs},
                         {"outputs", {{{"name", "out"}, {"kind", kind}}}},
                         {"fields", support::schema_to_json(support::schema_of<Config>())}};
  std::ofstream(folder / ("pe-" + name + ".describe.json")) << document.dump();
}

void write_stages(const fs::path& folder, const fs::path& toy) {
  fs::create_directories(folder);
  for (const char* name : {"pe-plain-toy", "pe-plain-gather", "pe-plain-report"}) fs::copy_file(toy, folder / name);
  artifact::Tables tables;
  tables.facts = {{"state", "toy"}};
  artifact::Table table("toy", {{"x", artifact::ColumnType::kInteger, ""}});
  table.add_row({1});
  tables.tables.push_back(std::move(table));
  artifact::Recipe recipe;
  recipe.stage = "plain-toy";
  recipe.config = recipe.inputs = Json::object();
  artifact::write_metrics(folder / "template.h5", recipe, tables);
  write_description(folder, "plain-toy", Json::array());
  write_description(folder, "plain-report", Json::array(), "report");
  write_description(folder, "plain-gather",
                    {{{"name", "in"}, {"kind", "metrics"}, {"many", true}, {"optional", false}}});
}

std::string pipeline_text(int tasks, bool gather, const std::string& program = "pe-plain-toy") {
  const int width = static_cast<int>(std::ceil(std::sqrt(tasks)));
  // Side by side two labels make a number that no other pair makes.
  const auto labels = [](int count) {
    std::string text;
    for (int i = 0; i < count; ++i) text += (i ? ", " : "") + std::to_string(1000 + i);
    return text;
  };
  return fmt::format(
      "schema: pe-pipeline/1\nname: toys\naxes: {{a: [{}], b: [{}]}}\nstages:\n"
      "  toy: {{run: stages/{}, over: [a, b], config: {{set: {{value: $(a)$(b)}}}}}}\n{}",
      labels((tasks + width - 1) / width), labels(width), program,
      gather ? "  gather: {run: stages/pe-plain-gather, gather: {in: toy}}\n" : "");
}

struct Cost {
  double seconds = 0;
  double peak_mb = 0;
};

Cost cost_of(const std::vector<std::string>& command, const fs::path& folder) {
  const fs::path told = folder / "told.txt";
  const support::Descriptor out(::open(told.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  support::SpawnOptions options;
  options.arguments = command;
  options.directory = folder;
  options.stdout_fd = options.stderr_fd = out.get();
  const auto start = std::chrono::steady_clock::now();
  const pid_t pid = support::spawn(options);
  rusage usage{};
  int status = 0;
  ::wait4(pid, &status, 0, &usage);
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (const auto ended = support::decode_status(status); ended.code != 0) {
    fmt::print(stderr, "{} ended with {}:\n{}", command[0], ended.code, support::read_file(told));
    std::exit(1);
  }
  return {seconds, static_cast<double>(usage.ru_maxrss) / 1024};
}

void measure(const std::string& program, const fs::path& toy, int tasks, bool durable, bool gather) {
  const test::TempFolder folder;
  write_stages(folder / "stages", toy);
  std::ofstream(folder / "toys.yml") << pipeline_text(tasks, gather);
  std::string graph = "rule copy\n  command = stages/pe-plain-toy --copy $out\n";
  for (int i = 0; i < tasks; ++i) graph += fmt::format("build made/{}/{}.h5: copy\n", i % 256, i);
  if (gather) {
    graph += "build gathered.h5: copy";
    for (int i = 0; i < tasks; ++i) graph += fmt::format(" made/{}/{}.h5", i % 256, i);
    graph += "\n";
  }
  std::ofstream(folder / "build.ninja") << graph;
  const Cost ours = cost_of({program, "run", (folder / "toys.yml").string(), "-j", "2", "--progress", "none",
                             "--durability", durable ? "on" : "off"},
                            folder.path());
  const Cost ninja = cost_of({"ninja", "-j2", "--quiet"}, folder.path());
  fmt::print("{:>7} tasks{}{}: {:.2f} ms a task; ninja {:.2f} ms, ratio {:.2f}; peak {:.0f} MB\n", tasks,
             gather ? " and a report" : "", durable ? ", durable" : "", 1e3 * ours.seconds / tasks,
             1e3 * ninja.seconds / tasks, ours.seconds / ninja.seconds, ours.peak_mb);
}

/// Milliseconds per task. The grid may hold a few more tasks than asked for, so its tasks are counted.
double measure_reports(const std::string& program, const fs::path& toy, int tasks, bool durable) {
  const test::TempFolder folder;
  write_stages(folder / "stages", toy);
  std::ofstream(folder / "toys.yml") << pipeline_text(tasks, false, "pe-plain-report");
  const Cost ours = cost_of({program, "run", (folder / "toys.yml").string(), "-j", "2", "--progress", "none",
                             "--durability", durable ? "on" : "off"},
                            folder.path());
  const auto made =
      std::distance(fs::directory_iterator(folder / "reports/toys/latest/"), fs::directory_iterator()) - 1;
  const double each_ms = 1e3 * ours.seconds / static_cast<double>(made);
  fmt::print("{:>7} reports{}: {:.2f} ms a task; peak {:.0f} MB\n", made, durable ? ", durable" : "", each_ms,
             ours.peak_mb);
  return each_ms;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(stderr, "usage: execution PE-PIPELINE PLAIN-TOY [TASKS...] [--durable] [--no-gather | --reports]\n");
    return 2;
  }
  std::vector<int> sizes;
  bool durable = false, gather = true, reports = false;
  for (int i = 3; i < argc; ++i) {
    if (std::strcmp(argv[i], "--durable") == 0)
      durable = true;
    else if (std::strcmp(argv[i], "--no-gather") == 0)
      gather = false;
    else if (std::strcmp(argv[i], "--reports") == 0)
      reports = true;
    else
      sizes.push_back(std::atoi(argv[i]));
  }
  if (sizes.empty()) sizes = reports ? std::vector<int>{50, 200, 900} : std::vector<int>{1000, 10000};
  if (reports) {
    double first_ms = 0, last_ms = 0;
    for (const int tasks : sizes) {
      last_ms = measure_reports(argv[1], argv[2], tasks, durable);
      if (first_ms == 0) first_ms = last_ms;
    }
    fmt::print("a task of the largest run takes {:.2f} times as long as one of the first\n", last_ms / first_ms);
    return 0;
  }
  for (const int tasks : sizes) measure(argv[1], argv[2], tasks, durable, gather);
  return 0;
}

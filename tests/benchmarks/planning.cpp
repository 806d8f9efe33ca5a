// Cost of planning: a generated grid of 10,012 tasks (1 tokenize, 1,430 trunks, 4,290 decays, 4,290 evaluations, 1
// report and its input). It is compared with ninja, make and snakemake on a graph of the same shape with nothing to do.
//
//     planning [PE-PIPELINE] [--seeds N]      with the program, the whole process is timed too; 14300 seeds give
//     100,102 tasks
//
// snakemake is taken from PE_SNAKEMAKE or the PATH, and left out where there is none:
//     python3 -m venv /tmp/peers && /tmp/peers/bin/pip install snakemake && export
//     PE_SNAKEMAKE=/tmp/peers/bin/snakemake
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <string>
#include <vector>

#include "pipeline/expand/expand.h"
#include "pipeline/plan/explain.h"
#include "pipeline/plan/key.h"
#include "pipeline/plan/plan.h"
#include "pipeline/plan/up_to_date_cache.h"
#include "pipeline/store/store.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/process.h"
#include "support/temp_folder.h"

namespace {

namespace fs = std::filesystem;
using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using support::FieldVisitor;

int seeds_in_grid = 1430;

struct Recipe {
  std::int64_t seed = 0, width = 64, layers = 4, heads = 4, batch = 8, length = 128, tokens = 1024 * 100;
  double rate = 3e-3, decay = 0.1, beta1 = 0.9, beta2 = 0.98, clip = 1;
  std::string encoding = "rope", kind = "plain";
  void describe(FieldVisitor& v) {
    for (auto [name, value] : {std::pair{"seed", &seed},
                               {"width", &width},
                               {"layers", &layers},
                               {"heads", &heads},
                               {"batch", &batch},
                               {"length", &length},
                               {"tokens", &tokens}}) {
      v.field(name, *value, "A number.");
    }
    for (auto [name, value] :
         {std::pair{"rate", &rate}, {"decay", &decay}, {"beta1", &beta1}, {"beta2", &beta2}, {"clip", &clip}}) {
      v.field(name, *value, "A number.");
    }
    v.field("encoding", encoding, "A word.");
    v.field("kind", kind, "A word.");
  }
};

struct Config {
  Recipe recipe;
  std::string title;
  std::vector<std::string> labels;
  void describe(FieldVisitor& v) {
    v.group("recipe", recipe, "What is made.");
    v.field("title", title, "Heading.");
    v.field("labels", labels, "What is what.");
  }
};

Json role(const char* name, const char* kind, bool many = false) {
  return {{"name", name}, {"kind", kind}, {"many", many}};
}

/// A stage that is this very program under another name: it has a build id, so its description is believed.
void write_stage(const fs::path& folder, const std::string& name, Json inputs, Json outputs,
                 Json extra = Json::object()) {
  const fs::path own = support::own_executable();
  Json document = {{"schema", "pe-stage/1"},
                   {"name", name},
                   {"program", "pe-" + name},
                   {"version", 1},
                   {"summary", ""},
                   {"build_id", support::elf_build_id(own)},
                   {"inputs", inputs},
                   {"outputs", outputs},
                   {"fields", support::schema_to_json(support::schema_of<Config>())}};
  document.update(extra);
  fs::create_symlink(own, folder / ("pe-" + name));
  std::ofstream(folder / ("pe-" + name + ".describe.json")) << document.dump();
}

std::string pipeline_text() {
  std::string seeds;
  for (int i = 0; i < seeds_in_grid; ++i) seeds += (i ? ", " : "") + std::to_string(i);
  const std::string run = "run: stages/pe-";
  return "schema: pe-pipeline/1\nname: ten_thousand\ndefaults: {config: [configs/all.yml]}\naxes: {seed: [" + seeds +
         "]}\n"
         "stages:\n"
         "  tokenize: {" +
         run +
         "bench-tokenize}\n"
         "  trunk: {" +
         run +
         "bench-train, over: [seed], needs: {data: tokenize}, config: {set: {recipe.seed: $(seed)}},\n"
         "          snapshots: {b25: 0.2, b50: 0.4, b100: 0.8}}\n"
         "  decay: {" +
         run +
         "bench-decay, over: [seed, branch], axes: {branch: {b25: 0.25, b50: 0.5, b100: 1.0}},\n"
         "          needs: {data: tokenize, init: 'trunk@$(branch)'}, config: {set: {recipe.decay: $(branch.value)}}}\n"
         "  evaluate: {" +
         run +
         "bench-evaluate, each: {model: decay}, needs: {data: tokenize}}\n"
         "  report: {" +
         run + "bench-report, gather: {scores: evaluate}}\n";
}

/// Milliseconds by the clock on the wall, and of processors (children's too), which other work does not change.
struct Time {
  double wall = 1e9, cpu = 1e9;
  std::string text() const { return fmt::format("{:8.1f} ms ({:.1f} of CPU)", wall, cpu); }
};

double cpu_ms() {
  double total = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    ::getrusage(who, &usage);
    for (const timeval& time : {usage.ru_utime, usage.ru_stime}) {
      total += static_cast<double>(time.tv_sec) * 1e3 + static_cast<double>(time.tv_usec) / 1e3;
    }
  }
  return total;
}

/// @param before is not timed, such as releasing the last result: a program does that once, at its end
Time best_of(
    int times, const std::function<void()>& body, const std::function<void()>& before = [] {}) {
  Time best;
  for (int i = 0; i < times; ++i) {
    before();
    const auto start = std::chrono::steady_clock::now();
    const double cpu = cpu_ms();
    body();
    best.cpu = std::min(best.cpu, cpu_ms() - cpu);
    best.wall = std::min(best.wall,
                         std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  return best;
}

/// As if every task had run, an hour ago: objects, records and their cache.
void fill(const Graph& graph, Store& store) {
  std::vector<std::string> keys(graph.tasks.size());
  const auto content = [&](std::size_t task, std::int64_t step, const std::string& output) {
    return support::sha256_hex(keys[task] + std::to_string(step) + output);
  };
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    const Task& task = graph.tasks[i];
    std::vector<InputDigest> inputs;
    for (const Edge& edge : task.inputs) {
      std::int64_t step = -1;
      for (const SnapshotPoint& point : graph.tasks[edge.producer].snapshots) {
        if (point.label == edge.snapshot) step = point.step;
      }
      inputs.push_back({edge.role, content(edge.producer, step, edge.output), step});
    }
    Record record;
    record.preimage = task_preimage(graph, task, inputs);
    keys[i] = task_key_of(record.preimage);
    record.plan_key = task.plan_key;
    record.stage = task.stage->name;
    record.version = task.stage->version;
    record.task = task.id;
    record.config = *task.config;
    std::vector<std::int64_t> steps{-1};
    if (task.is_trajectory()) {
      steps.clear();
      for (const SnapshotPoint& point : task.snapshots) steps.push_back(point.step);
    }
    for (std::int64_t step : steps) {
      record.key = {keys[i], step};
      record.outputs.clear();
      for (const artifact::OutputRole& output : task.stage->outputs) {
        OutputRecord made;
        made.role = output.name;
        made.kind = artifact::kind_name(output.kind);
        made.object = made.content = content(i, step, output.name);
        made.bytes = 1;
        const fs::path object = store.object_path(made.object);
        fs::create_directories(object.parent_path());
        std::ofstream(object) << "x";
        record.outputs.push_back(std::move(made));
      }
      store.commit(record);
    }
  }
  store.refresh_cache();
  for (const char* part : {"tasks", "tracks"}) {
    for (const auto& folder : fs::directory_iterator(store.root() / part))
      fs::last_write_time(folder, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }
}

/// The same shape for ninja and make: a file a task, made from the files of its producers. The files are there already,
/// of one age, so the command that lets ninja write its log has nothing to make: a hundred thousand of them take a
/// minute.
void write_peers(const Graph& graph, const fs::path& folder) {
  fs::create_directories(folder / "f");
  std::ofstream ninja(folder / "build.ninja"), make(folder / "Makefile"), snake(folder / "Snakefile");
  Json edges = Json::array();
  const auto made = fs::file_time_type::clock::now() - std::chrono::hours(1);
  ninja << "rule t\n  command = :\n";
  make << "all: f/" << graph.tasks.size() - 1 << "\n";
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    std::string inputs;
    Json files = Json::array();
    for (const Edge& edge : graph.tasks[i].inputs) {
      inputs += " f/" + std::to_string(edge.producer);
      files.push_back("f/" + std::to_string(edge.producer));
    }
    edges.push_back(std::move(files));
    const fs::path file = folder / "f" / std::to_string(i);
    std::ofstream{file};
    fs::last_write_time(file, made);
    ninja << "build f/" << i << ": t" << inputs << "\n";
    make << "f/" << i << ":" << inputs << "\n\ttouch $@\n";
  }
  std::ofstream(folder / "edges.json") << edges.dump();
  snake << "import json\nedges = json.load(open('edges.json'))\nrule all:\n    input: 'f/" << graph.tasks.size() - 1
        << "'\nrule t:\n    input: lambda w: edges[int(w.i)]\n    output: 'f/{i}'\n    shell: 'touch {output}'\n";
}

/// `planning --peak COMMAND…` runs the command and prints its peak of memory in KiB. Linux counts the memory of the
/// parent process into a process's peak, so a process that is still small has to start it.
int print_peak(std::vector<std::string> command) {
  support::SpawnOptions options;
  options.arguments = std::move(command);
  const support::Descriptor nowhere(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  options.stdout_fd = options.stderr_fd = nowhere.get();
  const pid_t pid = support::spawn(options);
  rusage usage{};
  int status = 0;
  ::wait4(pid, &status, 0, &usage);
  fmt::print("{}\n", usage.ru_maxrss);
  return 0;
}

/// Most memory that one run of a command needs.
double peak_mb(std::vector<std::string> command, const fs::path& folder) {
  command.insert(command.begin(), {support::own_executable().string(), "--peak"});
  return std::stod(support::capture(command, {}, 1 << 20, folder).out) / 1024;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]) == "--peak") return print_peak({argv + 2, argv + argc});
  if (argc > 1 && std::string(argv[1]) == "--check") {  // asked as one of its stages
    for (std::string config; std::getline(std::cin, config);) fmt::print("{{\"ok\": true}}\n");
    return 0;
  }
  std::string program;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--seeds" && i + 1 < argc)
      seeds_in_grid = std::max(1, std::atoi(argv[++i]));
    else
      program = argv[i];
  }
  const test::TempFolder folder;
  const fs::path stages = folder / "stages";
  fs::create_directories(stages);
  fs::create_directories(folder / "configs");
  std::ofstream(folder / "configs/all.yml") << "recipe: {width: 128, rate: 1e-3}\n";
  const Json model = Json::array({role("model", "checkpoint")});
  write_stage(stages, "bench-tokenize", Json::array(), Json::array({role("data", "token-shards")}));
  write_stage(stages, "bench-train", Json::array({role("data", "token-shards")}), model,
              {{"trajectory",
                {{"horizon", "recipe.tokens"},
                 {"tokens_per_step", {"recipe.batch", "recipe.length"}},
                 {"free_when", {{"recipe.kind", "plain"}}}}}});
  write_stage(stages, "bench-decay", {role("data", "token-shards"), role("init", "checkpoint")}, model);
  write_stage(stages, "bench-evaluate", {role("data", "token-shards"), role("model", "checkpoint")},
              Json::array({role("scores", "eval-table")}));
  write_stage(stages, "bench-report", Json::array({role("scores", "eval-table", true)}),
              Json::array({role("page", "metrics")}), {{"takes_labels", true}, {"reads_labels", false}});
  const fs::path file = folder / "grid.yml";
  std::ofstream(file) << pipeline_text();
  // As if they were an hour old: a stat of young files is not trusted.
  for (const auto& entry : fs::recursive_directory_iterator(folder.path())) {
    if (entry.is_regular_file()) fs::last_write_time(entry, fs::file_time_type::clock::now() - std::chrono::hours(1));
  }

  Graph graph;
  StageCatalog catalog;
  const ExpandOptions options{.folder = folder.path()};
  const Time expand_ms = best_of(
      5, [&] { graph = expand(read_pipeline_file(file), catalog, options); },
      [&] {
        graph = Graph();
        catalog = StageCatalog();
      });
  const Time keys_ms = best_of(3, [&] { compute_plan_keys(graph); });
  fmt::print("{} tasks\n", graph.tasks.size());
  fmt::print("  read and expand           {}\n", expand_ms.text());
  fmt::print("  plan keys                 {}\n", keys_ms.text());

  const fs::path store_path = folder / "store";
  {
    Store store(store_path, {.durable = false});
    fill(graph, store);
  }
  Plan plan;
  const Time plan_ms = best_of(3, [&] {
    Store store(store_path, {.durable = false});
    plan = make_plan(graph, StoreReader(store));
  });
  fmt::print("  plan, all there           {}\n", plan_ms.text());
  if (!plan.nothing_to_do()) {
    fmt::print(stderr, "the filled store does not hold what the plan looks for\n");
    return 1;
  }
  UpToDateCache::remember(store_path, file, options, graph, plan, catalog);
  bool found = false;
  const Time memo_ms = best_of(5, [&] {
    const auto memo = UpToDateCache::find(store_path, file, options);
    found = memo && memo->objects_stand();
    if (memo && !found) {  // the first time
      Store store(store_path, {.durable = false});
      found = memo->everything_present(StoreReader(store));
      if (found) memo->renew();
    }
  });
  if (!found) {
    fmt::print(stderr, "the remembered plan was not found again\n");
    return 1;
  }
  fmt::print("  nothing to do, by memo    {}\n", memo_ms.text());
  std::string first_cause;
  Graph other;
  const auto explain_changed = [&] {
    ExpandOptions changed = options;
    changed.set = {"trunk.recipe.rate=0.5"};
    StageCatalog own;
    other = expand(read_pipeline_file(file), own, changed);
    compute_plan_keys(other);
    Store store(store_path, {.durable = false});
    const StoreReader reader(store);
    const auto groups = group_causes(other, make_plan(other, reader), reader);
    first_cause = fmt::format("{} causes, the first: {}: {}", groups.size(), groups.at(0).stage,
                              groups.at(0).causes.front().str());
  };
  const auto let_go = [&] { other = Graph(); };
  fs::remove(store_path / "memo/records");
  const Time cold_ms = best_of(1, explain_changed, let_go);
  const Time explain_ms = best_of(3, explain_changed, let_go);
  fmt::print("  explain one changed value {}; {} when every record has to be opened once\n    {}\n", explain_ms.text(),
             cold_ms.text(), first_cause);

  Time whole_ms{0, 0};
  if (!program.empty()) {
    const std::vector<std::string> command{program, "run", file.string(), "--store", store_path.string()};
    const auto first = support::capture(command, {}, 1 << 20, folder.path());
    if (first.status.code != 0) {
      fmt::print(stderr, "{}{}", first.out, first.err);
      return 1;
    }
    whole_ms = best_of(5, [&] { support::capture(command, {}, 1 << 20, folder.path()); });
    fmt::print("  pe-pipeline run, nothing to do {}, peak {:.0f} MB\n", whole_ms.text(),
               peak_mb(command, folder.path()));
    const std::vector<std::string> what_if{
        program, "plan", file.string(), "--store", store_path.string(), "--set", "trunk.recipe.rate=0.5"};
    const Time plan_if_ms = best_of(3, [&] { support::capture(what_if, {}, 1 << 20, folder.path()); });
    fmt::print("  pe-pipeline plan --set, with causes and costs {}, peak {:.0f} MB\n", plan_if_ms.text(),
               peak_mb(what_if, folder.path()));
  }

  write_peers(graph, folder / "peers");
  const auto peer = [&](const std::string& name, const std::vector<std::string>& command, bool build_first) {
    if (!support::find_program(command[0])) {
      fmt::print("  {} is not on this machine\n", name);
      return;
    }
    if (build_first) support::capture(command, {}, 1 << 20, folder / "peers");
    const Time ms = best_of(5, [&] { support::capture(command, {}, 1 << 20, folder / "peers"); });
    const double own = whole_ms.wall > 0 ? whole_ms.wall : memo_ms.wall;
    fmt::print("  {:<8} nothing to do    {}; pe-pipeline takes {:.2f} times that\n", name, ms.text(), own / ms.wall);
  };
  peer("ninja", {"ninja"}, true);
  peer("make", {"make", "-s"}, true);  // the files that ninja made
  const char* named = std::getenv("PE_SNAKEMAKE");
  const std::string snakemake = named && *named ? named : "snakemake";
  if (!support::find_program(snakemake)) {
    fmt::print("  snakemake is not on this machine (PE_SNAKEMAKE names one)\n");
  } else {
    const std::vector<std::string> command{snakemake,          "--cores", "1",       "--quiet",
                                           "--rerun-triggers", "mtime",   "--nolock"};
    const Time ms = best_of(2, [&] { support::capture(command, {}, 1 << 20, folder / "peers"); });
    fmt::print("  snakemake nothing to do   {}\n", ms.text());
  }
  return 0;
}

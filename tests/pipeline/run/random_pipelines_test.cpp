// Random pipelines, edited at random, also during a run, and run again and again on the path of the `run` command
// (remembered plan, planner, store and loop). A model that knows neither keys nor hashes checks them. Exactly the
// necessary tasks run, results equal a clean build, and explain names the cause. PE_TEST_SEQUENCES sets the number;
// PE_TEST_SEED starts at another one.
#include <boost/test/unit_test.hpp>

#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <numeric>

#include "artifact/metrics.h"
#include "artifact/task_protocol.h"
#include "pipeline/expand/expand.h"
#include "pipeline/plan/explain.h"
#include "pipeline/plan/externals.h"
#include "pipeline/plan/key.h"
#include "pipeline/plan/plan.h"
#include "pipeline/plan/up_to_date_cache.h"
#include "pipeline/run/naive_model.h"
#include "pipeline/run/run.h"
#include "pipeline/store/store.h"
#include "support/fake_runner.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/temp_folder.h"
#include "support/text.h"

using namespace pe;            // NOLINT
using namespace pe::pipeline;  // NOLINT
using namespace pe::test;      // NOLINT
using support::cat;

namespace {

namespace fs = std::filesystem;

struct ToyConfig {
  std::int64_t value = 0, workers = 1, extra = 0, tokens = 4;
  bool fails = false;
  std::string text, shape = "free";
  std::vector<std::string> path;
  void describe(support::FieldVisitor& v) {
    v.field("value", value, "A number.");
    v.field("text", text, "A text.");
    v.field("extra", extra, "Came later.", {.neutral = Json(0), .since = 2});
    v.paths("path", path, "Files whose content counts.");
    v.field("tokens", tokens, "Horizon.", {.unit = "tokens", .min = 1});
    v.field("shape", shape, "Frees the horizon.");
    v.field("workers", workers, "Changes nothing.", {.hashed = false});
    v.field("fails", fails, "Whether it fails.", {.hashed = false});
  }
};

/// Description of a program in addition to the program itself.
std::string description(const std::string& name, int version, const std::string& build_id) {
  static const Json fields = support::schema_to_json(support::schema_of<ToyConfig>());
  const char* const kind = "metrics";
  const Json document{
      {"schema", "pe-stage/1"},
      {"name", name},
      {"version", version},
      {"build_id", build_id},
      {"inputs", Json::array({Json{{"name", "in"}, {"kind", kind}, {"many", true}, {"optional", true}},
                              Json{{"name", "init"}, {"kind", kind}, {"optional", true}}})},
      {"outputs", Json::array({Json{{"name", "out"}, {"kind", kind}}})},
      {"fields", fields},
      {"resumes", true},
      {"reads_labels", false},
      {"trajectory",
       Json{{"horizon", "tokens"}, {"tokens_per_step", Json::array()}, {"free_when", Json{{"shape", "free"}}}}}};
  return document.dump() + "\n";
}

/// Events during a run, once some of its stages have started.
struct Meanwhile {
  int stop_after = -1;  ///< starts; then it is interrupted
  int edit_after = -1;  ///< starts; then `edit` is called, the next stage already knowing its task
  std::function<void()> edit;
  bool make_inputs = true;  ///< false: --from-store
};

/// A folder with a pipeline, its store, and the model of both.
class World {
 public:
  explicit World(std::uint64_t seed)
      : chance(seed), pipeline(ModelPipeline::random(chance)), durable_(chance.one_in(6)) {
    fs::create_directories(folder_ / "root" / "configs");
    fs::create_directories(folder_ / "programs");
    write();
  }

  /// Files, programs and pipeline as they should be now.
  void write() {
    for (const auto& [name, content] : pipeline.files) write_old(folder_ / "root" / name, content);
    for (const auto& [name, version] : pipeline.versions) {
      const std::string program = cat("#!/bin/sh\n# result version ", version, "\n");
      write_old(folder_ / "programs" / cat("pe-", name), program);
      write_old(folder_ / "programs" / cat("pe-", name, ".describe.json"),
                description(name, version, support::sha256_hex(program)));
    }
    write_old(folder_ / "root" / "model.yml", pipeline.yaml());
    tasks = NaiveModel::expand(pipeline);
  }

  Store open() const {
    StoreOptions options;
    options.durable = durable_;
    return Store(folder_ / "store", options);
  }

  ExpandOptions expand_options() const {
    ExpandOptions options;
    options.isa = "portable";
    options.folder = folder_ / "root";
    return options;
  }

  Graph graph() {
    StageCatalog catalog({folder_ / "programs"});
    return graph(catalog);
  }

  Graph graph(StageCatalog& catalog) {
    Graph made = expand(read_pipeline_file(file()), catalog, expand_options());
    StampMemo memo = StampMemo::of_inputs(folder_ / "store");
    hash_externals(made, memo);
    memo.save();
    compute_plan_keys(made);
    BOOST_REQUIRE_EQUAL(made.tasks.size(), tasks.size());
    return made;
  }

  /// Index of a task of the model in a graph.
  static std::map<std::string, std::size_t> by_id(const Graph& graph) {
    std::map<std::string, std::size_t> found;
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) found[graph.tasks[i].id] = i;
    return found;
  }

  struct Ran {
    RunSummary summary;
    std::multiset<std::string> executed;
  };
  /// Runs as the command does: asks the memory first, then runs for real, and remembers.
  Ran run(const std::vector<bool>& selected, bool force, const Meanwhile& meanwhile = {}) {
    const bool whole = std::all_of(selected.begin(), selected.end(), [](bool one) { return one; });
    if (whole && !force) {
      if (const auto memo = UpToDateCache::find(store_folder(), file(), expand_options())) {
        if (memo->objects_stand()) return remembered();
        const Store store = open();
        if (memo->everything_present(StoreReader(store))) {
          memo->renew();
          return remembered();
        }
      }
    }
    Store store = open();
    StageCatalog catalog({folder_ / "programs"});
    const Graph made = graph(catalog);
    PlanOptions plan_options;
    const auto places = by_id(made);
    plan_options.selected.assign(tasks.size(), false);
    for (std::size_t i = 0; i < tasks.size(); ++i) plan_options.selected[places.at(tasks[i].id)] = selected[i];
    plan_options.force = force;
    plan_options.make_inputs = meanwhile.make_inputs;
    const Plan plan = make_plan(made, StoreReader(store), plan_options);
    Ran ran;
    int starts = 0;
    keys_before_ = store.keys();
    played_.clear();
    FakeRunner runner([&](FakeAttempt& attempt) {
      if (starts++ == meanwhile.edit_after) meanwhile.edit();
      play(attempt, ran.executed);
      attempt.seconds = 1 + chance.below(5);
    });
    RunOptions options;
    options.capacity.cpus = 3;
    options.capacity.mem_bytes = 64LL << 30;
    options.check_configs = false;
    options.publish_threads = durable_ ? 2 : 0;
    options.whole = whole;
    options.command = {"pe-pipeline", "run", "model.yml"};
    Quiet quiet;
    ran.summary = pipeline::run(made, plan, store, runner, quiet, options,
                                [&] { return meanwhile.stop_after >= 0 && starts > meanwhile.stop_after ? 1 : 0; });
    if (whole && ran.summary.exit_code == kRunDone)
      UpToDateCache::remember(store_folder(), file(), expand_options(), made, make_plan(made, StoreReader(store)),
                              catalog);
    learn_recipes(store);
    return ran;
  }

  /// Where every task of a run ended.
  std::string phases(const RunSummary& summary) {
    if (summary.phases.empty()) return "\n    answered from memory";
    const Graph made = graph();
    std::string all;
    for (std::size_t i = 0; i < made.tasks.size(); ++i)
      all += cat("\n    ", made.tasks[i].id, " ", phase_name(summary.phases[i]));
    for (const TaskFailure& failure : summary.failures)
      all += cat("\n    ", made.tasks[failure.task].id, ": ", failure.reason);
    return all;
  }

  /// Reads the state from the store, recipe by recipe: for use after an interruption.
  void learn_from_store() {
    const Store store = open();
    std::map<ModelResult, NaiveModel::Held> now;
    for (const ResultKey& key : store.keys()) {
      const auto it = recipes.find(key.key);
      if (it == recipes.end()) continue;
      const auto result = store.find(key);
      if (!result) continue;
      const ModelResult made{it->second, static_cast<int>(key.step)};
      const auto before = model.held.find(made);
      if (before != model.held.end() && before->second == NaiveModel::Held::kDamaged && store.complete(*result)) {
        now[made] = NaiveModel::Held::kDamaged;
      } else {
        now[made] = store.complete(*result) ? NaiveModel::Held::kWhole : NaiveModel::Held::kObjectGone;
      }
    }
    model.held = std::move(now);
  }

  /// The real key of a result of the model.
  std::optional<ResultKey> key_of(const ModelResult& result) const {
    for (const auto& [key, recipe] : recipes) {
      if (recipe == result.first) return ResultKey{key, result.second};
    }
    return std::nullopt;
  }
  fs::path object_of(const ModelResult& result) const {
    const Store store = open();
    return store.object_path(store.find(*key_of(result))->output("out")->object);
  }

  /// Every result of the present pipeline is in the store, with the content of a clean build.
  void check_contents(const NaiveModel::Outcome& outcome) {
    const Store store = open();
    for (std::size_t i = 0; i < tasks.size(); ++i) {
      const std::string recipe = NaiveModel::recipe(pipeline, tasks, i);
      for (const int step : tasks[i].steps.empty() ? std::vector<int>{-1} : tasks[i].steps) {
        const auto held = model.held.find({recipe, step});
        if (held == model.held.end() || held->second != NaiveModel::Held::kWhole) continue;
        const auto key = key_of({recipe, step});
        BOOST_REQUIRE(key);
        const auto result = store.find(*key);
        BOOST_REQUIRE_MESSAGE(result && store.complete(*result),
                              tasks[i].id << " at " << step << " is not in the store, key " << key->key
                                          << (result ? ": its object is gone" : ": no record"));
        const fs::path object = store.object_path(result->output("out")->object);
        BOOST_REQUIRE_EQUAL(artifact::read_metrics(object).facts.value("state", ""),
                            NaiveModel::content(pipeline, tasks, i, step));
      }
    }
    (void)outcome;
  }

  fs::path store_folder() const { return folder_ / "store"; }
  fs::path file() const { return folder_ / "root" / "model.yml"; }

  std::size_t answers_from_memory = 0;
  Chance chance;
  ModelPipeline pipeline;
  std::vector<ModelTask> tasks;
  NaiveModel model;
  std::map<std::string, std::string> recipes;  ///< task or trajectory key → recipe

 private:
  struct Quiet : RunListener {
    void on_event(const RunEvent&, const RunState&) override {}
  };

  /// The stage itself: reads its inputs, and writes the output of such a task in the model.
  void play(FakeAttempt& attempt, std::multiset<std::string>& executed) {
    const Json& config = attempt.config();
    const std::string kind = attempt.task.at("stage");
    std::vector<std::string> inputs;
    for (const char* role : {"in", "init"}) {
      if (!attempt.task.at("inputs").contains(role)) continue;
      for (const Json& input : attempt.task.at("inputs").at(role)) {
        try {
          const auto tables = artifact::read_metrics(input.at("path").get<std::string>());
          inputs.push_back(cat(role, ":", tables.facts.value("state", "?")));
        } catch (const std::exception&) {
          attempt.code = 3;
          return;
        }
      }
    }
    std::string file;
    for (const Json& path : config.at("path")) {
      const fs::path at = path.get<std::string>();
      file += at.filename().string() + "=" + support::read_file(at);
    }
    const bool points = attempt.task.contains("snapshots");
    const int version = pipeline.versions.at(kind);
    if (attempt.task.at("version") != version) {  // rebuilt while the run worked
      attempt.code = artifact::kExitOtherProgram;
      return;
    }
    const std::string recipe =
        recipe_text(kind, version, config.at("value"), config.at("extra"), config.at("text"), file, points, inputs);
    played_[attempt.task.at("key")] = recipe;
    if (config.at("fails").get<bool>()) {
      attempt.code = 70;
      return;
    }
    const auto write = [&](const std::string& path, int step) {
      write_fake_output(path, content_text(kind, version, config.at("value"), config.at("text"), file, inputs, step),
                        attempt.task.at("key"));
    };
    if (points) {
      for (const Json& snapshot : attempt.task.at("snapshots"))
        write(snapshot.at("outputs").at("out"), snapshot.at("step"));
    } else {
      write(attempt.task.at("outputs").at("out"), -1);
    }
    executed.insert(recipe);
  }

  /// As if it had been written an hour ago, each at another moment, so that a stat is trusted. A file with that content
  /// already stays unchanged.
  void write_old(const fs::path& path, const std::string& content) {
    std::error_code error;
    if (fs::is_regular_file(path, error) && support::read_file(path) == content) return;
    support::write_file_atomically(path, content, false);
    fs::permissions(path, fs::perms::owner_exec, fs::perm_options::add);
    fs::last_write_time(path, hour_ago_ + std::chrono::milliseconds(++writes_));
  }

  Ran remembered() {
    ++answers_from_memory;
    Ran ran;
    ran.summary.exit_code = kRunDone;
    return ran;
  }

  /// A stage that read an edited file knows another recipe than its key was made from; such a result must not exist. So
  /// a recipe is known by its key once its record exists, from any writer.
  void learn_recipes(const Store& store) {
    const auto now = store.keys();
    const std::set<ResultKey> before(keys_before_.begin(), keys_before_.end());
    for (const auto& [key, recipe] : played_) {
      const bool is_new = std::any_of(now.begin(), now.end(), [&, &name = key](const ResultKey& one) {
        return one.key == name && before.count(one) == 0;
      });
      if (is_new) recipes[key] = recipe;
    }
  }

  TempFolder folder_;
  bool durable_;  ///< then results are synced, on threads, as users have it
  std::vector<ResultKey> keys_before_;
  std::map<std::string, std::string> played_;  ///< key → recipe, of stages that this run started
  fs::file_time_type hour_ago_ = fs::file_time_type::clock::now() - std::chrono::hours(1);
  int writes_ = 0;
};

/// An edit before a run, with the answer that explain must give.
struct Edit {
  std::string what;
  std::optional<ReasonKind> cause;   ///< of the tasks of `stage` that run, when this edit alone is between two runs
  std::string leaf;                  ///< the leaf of the cause
  std::optional<std::size_t> stage;  ///< whose tasks it concerns; all of the kind for a version
};

Edit edit(World& world) {
  auto& pipeline = world.pipeline;
  Chance& chance = world.chance;
  const auto any_stage = [&] {
    return static_cast<std::size_t>(chance.below(static_cast<int>(pipeline.stages.size())));
  };
  const auto held = [&]() -> std::optional<ModelResult> {
    std::vector<ModelResult> whole;
    for (const auto& [result, state] : world.model.held) {
      if (state == NaiveModel::Held::kWhole) whole.push_back(result);
    }
    if (whole.empty()) return std::nullopt;
    return chance.of(whole);
  };
  switch (chance.below(16)) {
    case 0:
    case 1: {
      const std::size_t s = any_stage();
      const int before = pipeline.stages[s].value;
      pipeline.stages[s].value = (before + 1 + chance.below(7)) % 8;
      return {cat("value of ", pipeline.stages[s].label), ReasonKind::kConfig, "value", s};
    }
    case 2: {
      pipeline.style += 1 + static_cast<std::uint64_t>(chance.below(100));
      return {"written in another way", {}, "", {}};
    }
    case 3: {
      const std::size_t s = any_stage();
      pipeline.stages[s].workers += 1;
      return {"an unhashed field", {}, "", {}};
    }
    case 4: {
      const std::string kind = chance.one_in(2) ? "kit" : "toy";
      ++pipeline.versions[kind];
      return {cat("version of ", kind), {}, "", {}};
    }
    case 5: {
      const std::string name = chance.one_in(2) ? "f0.txt" : "f1.txt";
      pipeline.files[name] += "+";
      return {cat("file ", name), {}, "", {}};
    }
    case 6: {
      auto& [axis, labels] = chance.of(pipeline.axes);
      if (labels.size() > 1 && chance.one_in(2)) {
        labels.erase(labels.begin() + chance.below(static_cast<int>(labels.size())));
        return {"a label less", {}, "", {}};
      }
      labels.push_back(cat(axis, "n", labels.size(), chance.below(1000)));
      return {"a label more", {}, "", {}};
    }
    case 7: {
      const auto result = held();
      if (!result) return {"nothing to delete", {}, "", {}};
      fs::remove(world.object_of(*result));
      world.model.held[*result] = NaiveModel::Held::kObjectGone;
      return {"an object deleted", {}, "", {}};
    }
    case 8: {
      const auto result = held();
      if (!result) return {"nothing to forget", {}, "", {}};
      Store store = world.open();
      BOOST_REQUIRE(store.forget(*world.key_of(*result)));
      world.model.held.erase(*result);
      return {"a record forgotten", {}, "", {}};
    }
    case 9: {
      const auto result = held();
      if (!result) return {"nothing to damage", {}, "", {}};
      const fs::path object = world.object_of(*result);
      const auto size = fs::file_size(object);
      fs::permissions(object, fs::perms::owner_write, fs::perm_options::add);
      std::ofstream(object, std::ios::binary) << std::string(size, 'x');
      world.model.held[*result] = NaiveModel::Held::kDamaged;
      return {"an object damaged", {}, "", {}};
    }
    case 10:
      for (const char* name : {"memo", "work"}) {
        if (chance.one_in(2)) fs::remove_all(world.store_folder() / name);
      }
      return {"memo or work deleted", {}, "", {}};
    case 11: {
      const std::size_t s = any_stage();
      pipeline.stages[s].label = cat("renamed", chance.below(1000), "_", s);
      return {"a stage renamed", {}, "", {}};
    }
    case 12: {
      pipeline.stages.push_back(
          pipeline.random_stage(chance, pipeline.stages.size() + static_cast<std::size_t>(chance.below(1000))));
      pipeline.stages.back().label = cat("more", chance.below(1000000));
      return {"a stage more", {}, "", {}};
    }
    case 13: {
      auto& stage = pipeline.stages[any_stage()];
      stage.fails = !stage.fails;
      return {stage.fails ? "a stage that fails" : "a stage mended", {}, "", {}};
    }
    case 14: {
      const std::size_t s = any_stage();
      auto& stage = pipeline.stages[s];
      if (stage.tokens > 0) {
        stage.tokens += 2;
        return {"a longer horizon", {}, "", {}};
      }
      stage.extra = stage.extra == 0 ? 1 : 0;
      return {"a neutral value", ReasonKind::kConfig, "extra", s};
    }
    default:
      return {"nothing", {}, "", {}};
  }
}

/// Changes that a user makes during a run: to files, programs or configs. The tasks stay the same.
std::string edit_meanwhile(World& world) {
  auto& pipeline = world.pipeline;
  std::string what;
  switch (world.chance.below(3)) {
    case 0: {
      const std::string name = world.chance.one_in(2) ? "f0.txt" : "f1.txt";
      // Sometimes as long as before, and sometimes back to its earlier content.
      std::string& content = pipeline.files[name];
      if (content.empty() || world.chance.one_in(3))
        content += "*";
      else
        content.back() = content.back() == '-' ? '+' : '-';
      what = cat("file ", name);
      break;
    }
    case 1: {
      const std::string kind = world.chance.one_in(2) ? "kit" : "toy";
      ++pipeline.versions[kind];
      what = cat("version of ", kind);
      break;
    }
    default: {
      auto& stage = world.chance.of(pipeline.stages);
      stage.value = (stage.value + 1 + world.chance.below(7)) % 8;
      what = cat("value of ", stage.label);
    }
  }
  world.write();
  return what;
}

std::string joined(const std::multiset<std::string>& texts) {
  std::string all;
  for (const std::string& text : texts) all += "\n    " + text;
  return all;
}

/// Trajectories of one recipe under two names with other steps may be continued once for each.
std::multiset<std::string> once(const std::multiset<std::string>& executed) {
  const std::set<std::string> unique(executed.begin(), executed.end());
  return {unique.begin(), unique.end()};
}

/// How often a run may carry a recipe out: once; a trajectory once for each name that it has.
std::size_t most_times(World& world, const std::string& recipe) {
  std::size_t names = 0;
  for (std::size_t i = 0; i < world.tasks.size(); ++i)
    names += !world.tasks[i].steps.empty() && world.model.recipe(world.pipeline, world.tasks, i) == recipe;
  return std::max<std::size_t>(1, names);
}

/// Whether the store once held the result of a task, and an object of it is gone.
bool lost_its_object(const World& world, const std::string& id) {
  const auto task =
      std::find_if(world.tasks.begin(), world.tasks.end(), [&](const ModelTask& one) { return one.id == id; });
  const std::string recipe =
      NaiveModel::recipe(world.pipeline, world.tasks, static_cast<std::size_t>(task - world.tasks.begin()));
  const std::vector<int> steps = task->steps.empty() ? std::vector<int>{-1} : task->steps;
  return std::any_of(steps.begin(), steps.end(), [&](int step) {
    const auto held = world.model.held.find({recipe, step});
    return held != world.model.held.end() && held->second == NaiveModel::Held::kObjectGone;
  });
}

/// The root causes that explain gives for the tasks of a stage.
void check_explanations(World& world, const Edit& edited) {
  const Store store = world.open();
  const Graph graph = world.graph();
  const StoreReader reader(store);
  const Plan plan = make_plan(graph, reader);
  std::set<std::string> names;
  for (const ResultKey& key : store.keys()) names.insert(store.read(key)->task);
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (plan.tasks[i].state != TaskState::kRun) continue;
    const Explanation answer = explain_all(graph, plan, reader, {i}).front();
    BOOST_REQUIRE(!answer.causes.empty());
    // Two stages that did the same work share one record, under the name of the first. The other is compared with it,
    // or with another result that differs least at the same point of the axes.
    if (names.count(graph.tasks[i].id) == 0) {
      if (answer.against.empty()) continue;
      const auto axes = [](const std::string& id) { return id.substr(std::min(id.find('['), id.size())); };
      BOOST_REQUIRE_EQUAL(names.count(answer.against_id), 1);
      BOOST_REQUIRE_EQUAL(axes(answer.against_id), axes(graph.tasks[i].id));
      BOOST_REQUIRE(answer.causes.front().kind == ReasonKind::kNew);
      BOOST_REQUIRE_NE(answer.causes.front().what.find("no result by this name yet"), std::string::npos);
      continue;
    }
    // The edit may lead back to an earlier state, whose result lacks only its object; which is known once its inputs
    // are.
    if (lost_its_object(world, graph.tasks[i].id)) {
      BOOST_REQUIRE_MESSAGE(!answer.follows.empty() ||
                                std::any_of(answer.causes.begin(), answer.causes.end(),
                                            [](const Cause& cause) { return cause.kind == ReasonKind::kObjectGone; }),
                            graph.tasks[i].id << " lacks an object, after: " << edited.what);
      continue;
    }
    const bool own = graph.tasks[i].label == world.pipeline.stages[*edited.stage].label;
    std::string all;
    bool named = false;
    for (const Cause& cause : answer.causes) {
      all += cause.str() + "; ";
      named = named || (cause.kind == *edited.cause && cause.what == edited.leaf && !cause.before.empty() &&
                        !cause.after.empty());
    }
    // A task is compared with its newest result. Where it came back to an older one in between without a run, that
    // difference is named in addition to the edit.
    if (own)
      BOOST_REQUIRE_MESSAGE(named, graph.tasks[i].id << " runs for '" << all << "', after: " << edited.what);
    else
      BOOST_REQUIRE_MESSAGE(!answer.follows.empty() || answer.causes.front().kind == ReasonKind::kInput,
                            graph.tasks[i].id << " runs for '" << all << "', after: " << edited.what);
  }
}

/// Runs some tasks with --from-store: only they are made, and each whose inputs are there is not blocked.
/// @return the fault, or nothing
std::string run_from_store(World& world, const std::vector<bool>& selected) {
  const auto recorded = [&](const ModelTask::Input& input) {
    const auto held = world.model.held.find({NaiveModel::recipe(world.pipeline, world.tasks, input.task), input.step});
    return held != world.model.held.end() && held->second == NaiveModel::Held::kWhole;
  };
  std::set<std::string> may;
  std::vector<bool> known(world.tasks.size());
  std::set<std::string> ready;
  for (std::size_t i = 0; i < world.tasks.size(); ++i) {
    const ModelTask& task = world.tasks[i];
    known[i] = std::all_of(task.inputs.begin(), task.inputs.end(),
                           [&](const auto& input) { return known[input.task] && recorded(input); });
    if (!selected[i]) continue;
    may.insert(NaiveModel::recipe(world.pipeline, world.tasks, i));
    if (known[i]) ready.insert(task.id);
  }
  const auto ran = world.run(selected, false, {.make_inputs = false});
  for (const std::string& recipe : ran.executed) {
    if (may.count(recipe) == 0) return cat("--from-store executed ", recipe, world.phases(ran.summary));
  }
  const Graph graph = world.graph();
  for (std::size_t i = 0; i < ran.summary.phases.size(); ++i) {
    if (ran.summary.phases[i] == TaskPhase::kBlocked && ready.count(graph.tasks[i].id) > 0)
      return cat("--from-store blocked ", graph.tasks[i].id, world.phases(ran.summary));
  }
  world.learn_from_store();
  return "";
}

/// @return how often a run was answered from memory.
std::size_t sequence(std::uint64_t seed) {
  World world(seed);
  Chance& chance = world.chance;
  std::string story;
  const bool tell = std::getenv("PE_TEST_STORY") != nullptr;  // for a crash, which leaves no message
  bool renamed = false;
  bool settled = false;  // the last run was of everything and left nothing open
  const auto fail = [&](const std::string& why) {
    BOOST_FAIL("seed " << seed << ": " << why << "\nafter:" << story << "\npipeline:\n" << world.pipeline.yaml());
  };
  for (int round = 0; round < 8; ++round) {
    Edit edited{"first run", {}, "", {}};
    int edits = 0;
    if (round > 0) {
      do {
        edited = edit(world);
        renamed = renamed || edited.what == "a stage renamed";
        story += "\n  " + edited.what;
        ++edits;
      } while (chance.one_in(3));
    }
    world.write();
    // Earlier results are found by a task's name, so tasks of a renamed stage have no earlier ones.
    if (settled && !renamed && edits == 1 && edited.cause && edited.stage) check_explanations(world, edited);
    std::vector<bool> selected(world.tasks.size(), true);
    const bool damaged = std::any_of(world.model.held.begin(), world.model.held.end(),
                                     [](const auto& one) { return one.second == NaiveModel::Held::kDamaged; });
    // A damaged object sends its producer to work unplanned; with everything selected, that one's inputs are there.
    const bool whole = damaged || !chance.one_in(4);
    if (!whole) {
      for (std::size_t i = 0; i < selected.size(); ++i) selected[i] = chance.one_in(3);
      if (std::none_of(selected.begin(), selected.end(), [](bool one) { return one; })) selected[0] = true;
    }
    const bool force = !damaged && chance.one_in(6);
    story += cat("\n  run", whole ? "" : " of some", force ? " --force" : "");
    if (!force && !damaged && chance.one_in(6)) {
      story += ", interrupted";
      world.run(selected, false, {.stop_after = chance.below(4)});
      world.learn_from_store();
    }
    if (!force && !damaged && chance.one_in(5)) {
      std::string what;
      world.run(selected, false, {.edit_after = chance.below(4), .edit = [&] { what = edit_meanwhile(world); }});
      story += cat("; meanwhile ", what.empty() ? "nothing" : what, "; run again");
      world.learn_from_store();
    }
    if (!force && !whole && chance.one_in(2)) {
      story += ", --from-store first";
      if (const std::string wrong = run_from_store(world, selected); !wrong.empty()) fail(wrong);
    }
    if (tell)
      std::fprintf(stderr, "seed %llu:%s\n%s\n", static_cast<unsigned long long>(seed), story.c_str(),
                   world.pipeline.yaml().c_str());
    const auto expected = world.model.run(world.pipeline, world.tasks, selected, force);
    const auto ran = world.run(selected, force);
    if (once(ran.executed) != once(expected.executed))
      fail(cat("executed", joined(ran.executed), "\n  and not", joined(expected.executed), world.phases(ran.summary)));
    // A reader of a damaged object makes its producer run again.
    for (const std::string& recipe : once(ran.executed)) {
      if (!damaged && ran.executed.count(recipe) > most_times(world, recipe))
        fail(cat("executed ", ran.executed.count(recipe), " times: ", recipe, world.phases(ran.summary)));
    }
    if ((ran.summary.exit_code == kRunDone) != (expected.failed.empty() && expected.blocked.empty()))
      fail(cat("exit code ", ran.summary.exit_code));
    if (ran.summary.blocked != expected.blocked.size())
      fail(cat(
          ran.summary.blocked, " blocked and not ", expected.blocked.size(), ":", world.phases(ran.summary),
          "\n  and not",
          std::accumulate(expected.blocked.begin(), expected.blocked.end(), std::string(),
                          [&](const std::string& all, std::size_t i) { return cat(all, " ", world.tasks[i].id); })));
    if (ran.summary.conflicts != 0) fail("a conflict");
    // Damage that was never read is still there; such an object is removed for the next round.
    for (auto& [result, state] : world.model.held) {
      if (state != NaiveModel::Held::kDamaged) continue;
      fs::remove(world.object_of(result));
      state = NaiveModel::Held::kObjectGone;
    }
    world.check_contents(expected);
    settled = whole && expected.failed.empty() && expected.blocked.empty();
    if (settled && chance.one_in(3)) {
      const auto again = world.run(selected, false);
      const auto nothing = world.model.run(world.pipeline, world.tasks, selected, false);
      if (once(again.executed) != once(nothing.executed)) fail(cat("a second run executed", joined(again.executed)));
    }
  }
  return world.answers_from_memory;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(random_pipelines)

BOOST_AUTO_TEST_CASE(what_runs_is_what_must_and_results_equal_a_clean_build) {
  const char* wanted = std::getenv("PE_TEST_SEQUENCES");
  const char* first = std::getenv("PE_TEST_SEED");
  const std::uint64_t begin = first ? std::strtoull(first, nullptr, 10) : 1;
  std::size_t from_memory = 0;
  const std::uint64_t count = wanted ? std::strtoull(wanted, nullptr, 10) : 60;
  for (std::uint64_t seed = begin; seed < begin + count; ++seed) {
    BOOST_TEST_CONTEXT("seed " << seed) from_memory += sequence(seed);
  }
  BOOST_TEST_MESSAGE(count << " sequences, " << from_memory << " runs answered from memory");
  BOOST_TEST((from_memory > 0 || count < 20));
}

BOOST_AUTO_TEST_SUITE_END()

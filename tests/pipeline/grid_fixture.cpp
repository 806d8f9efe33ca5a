#include "pipeline/grid_fixture.h"

#include <algorithm>
#include <stdexcept>

#include "support/error.h"

namespace pe::test {

using namespace pipeline;  // NOLINT: the fixture speaks of nothing else
using support::FieldVisitor;
using support::VariantKind;
using support::VariantValue;

namespace {

struct Compute {
  enum class Device { kAuto, kCpu, kCuda } device = Device::kAuto;
  enum class Isa { kAuto, kAvx512, kAvx2, kPortable } isa = Isa::kAuto;
  enum class Type { kAuto, kFp32, kBf16 } dtype = Type::kAuto;
  std::optional<std::int64_t> threads, ranks, micro_batch;
  void describe(FieldVisitor& v) {
    v.choice("device", device, {{"auto", Device::kAuto}, {"cpu", Device::kCpu}, {"cuda", Device::kCuda}}, "Device.");
    v.choice("isa", isa,
             {{"auto", Isa::kAuto}, {"avx512", Isa::kAvx512}, {"avx2", Isa::kAvx2}, {"portable", Isa::kPortable}},
             "Instruction set.");
    v.choice("dtype", dtype, {{"auto", Type::kAuto}, {"fp32", Type::kFp32}, {"bf16", Type::kBf16}}, "Precision.");
    v.field("threads", threads, "Threads.", {.min = 1});
    v.field("ranks", ranks, "Ranks.", {.min = 1});
    v.field("micro_batch", micro_batch, "Sequences.", {.unit = "sequences", .min = 1});
  }
};

struct Fetch {
  enum class Bad { kError, kSkip } on_bad = Bad::kError;
  std::vector<std::string> path;
  std::int64_t words = 1000;
  void describe(FieldVisitor& v) {
    v.paths("path", path, "Files, folders, globs.");
    v.choice("on_bad", on_bad, {{"error", Bad::kError}, {"skip", Bad::kSkip}}, "What a bad line does.");
    v.field("words", words, "Words to generate.", {.unit = "words", .min = 0});
  }
};

struct Tokenize {
  std::string tokenizer = "bpe";
  std::int64_t vocabulary = 2048, workers = 1;
  void describe(FieldVisitor& v) {
    v.field("tokenizer", tokenizer, "Kind of tokenizer.");
    v.field("vocabulary", vocabulary, "Pieces.", {.min = 256, .max = 1 << 20});
    v.field("workers", workers, "Threads.", {.min = 1, .hashed = false});
  }
};

std::vector<VariantKind> encodings() {
  std::vector<VariantKind> kinds;
  for (const char* name : {"none", "sinusoidal", "learned", "binary", "decimal", "rope", "alibi", "pope"}) {
    kinds.push_back({name, {}, "An encoding.", {}});
  }
  double factor = 1;
  kinds.push_back({"yarn", {}, "RoPE, stretched.", support::schema_of([&](FieldVisitor& v) {
                     v.field("factor", factor, "Stretch.", {.min = 1});
                   })});
  return kinds;
}

struct Model {
  VariantValue encoding{"rope"};
  std::int64_t width = 64, layers = 4;
  bool qk_norm = false;
  void describe(FieldVisitor& v) {
    v.variant("encoding", encoding, encodings(), "How it learns where a token stands.", true);
    v.field("width", width, "Width.", {.min = 1});
    v.field("layers", layers, "Layers.", {.min = 1});
    v.field("qk_norm", qk_norm, "Norm per head.", {.neutral = Json(false), .since = 2});
  }
};

struct Train {
  enum class Schedule { kWsd, kCosine } schedule = Schedule::kWsd;
  std::int64_t seed = 0, batch = 512, length = 1024, tokens = 1'000'000;
  double lr = 3e-3, decay_share = 0.2;
  void describe(FieldVisitor& v) {
    v.field("seed", seed, "Seed.");
    v.choice("schedule", schedule, {{"wsd", Schedule::kWsd}, {"cosine", Schedule::kCosine}},
             "Learning rate over time.");
    v.field("batch", batch, "Sequences a step.", {.min = 1});
    v.field("length", length, "Tokens a sequence.", {.unit = "tokens", .min = 1});
    v.field("tokens", tokens, "Horizon.", {.unit = "tokens", .min = 1});
    v.field("lr", lr, "Peak.", {.min = 0, .max = 1});
    v.field("decay_share", decay_share, "Part of the horizon that decays.", {.min = 0, .max = 1});
  }
};

struct Checkpoint {
  double every = 300;
  std::int64_t keep = 1;
  void describe(FieldVisitor& v) {
    v.field("every", every, "Time between checkpoints.", {.unit = "s", .min = 0, .hashed = false});
    v.field("keep", keep, "How many are kept.", {.min = 1, .hashed = false});
  }
};

struct TrainStage {
  Model model;
  Train train;
  Compute compute;
  Checkpoint checkpoint;
  void describe(FieldVisitor& v) {
    v.group("model", model, "The model.");
    v.group("train", train, "The training.");
    v.group("compute", compute, "What changes bits.");
    v.group("checkpoint", checkpoint, "What a killed run loses.");
  }
};

struct Branch {
  std::int64_t horizon_tokens = 1;
  double end = 1, share = 0.2;
  void describe(FieldVisitor& v) {
    v.field("horizon_tokens", horizon_tokens, "Horizon.", {.unit = "tokens", .min = 1});
    v.field("end", end, "Where it ends.", {.min = 0, .max = 1});
    v.field("share", share, "Part that decays.", {.min = 0, .max = 1});
  }
};

struct DecayStage {
  Branch decay;
  Compute compute;
  void describe(FieldVisitor& v) {
    v.group("decay", decay, "The decay.");
    v.group("compute", compute, "What changes bits.");
  }
};

struct DropStage {
  Branch drop;
  Compute compute;
  void describe(FieldVisitor& v) {
    v.group("drop", drop, "The drop.");
    v.group("compute", compute, "What changes bits.");
  }
};

struct Eval {
  std::vector<std::int64_t> context{1024};
  std::string task = "perplexity";
  void describe(FieldVisitor& v) {
    v.field("context", context, "Lengths.", {.unit = "tokens", .min = 1});
    v.field("task", task, "What is asked.");
  }
};

struct EvaluateStage {
  Eval eval;
  Compute compute;
  void describe(FieldVisitor& v) {
    v.group("eval", eval, "The evaluation.");
    v.group("compute", compute, "What changes bits.");
  }
};

struct Sequential {
  std::string claim;
  std::int64_t from = 3, most = 3;
  double alpha = 0.05;
  void describe(FieldVisitor& v) {
    v.field("claim", claim, "What is decided.", {.neutral = Json("")});
    v.field("from", from, "Seeds of the first look.", {.neutral = Json(3)});
    v.field("most", most, "Seeds of the last look.", {.neutral = Json(3)});
    v.field("alpha", alpha, "Error of all looks.", {.neutral = Json(0.05)});
  }
};

struct Report {
  std::string title, claims, style = "plain";
  std::vector<std::string> labels, left_out;
  Sequential sequential;
  void describe(FieldVisitor& v) {
    v.field("title", title, "Heading.");
    v.field("labels", labels, "What is what.");
    v.field("left_out", left_out, "What is not there.", {.neutral = Json::array()});
    v.field("style", style, "Looks.");
    v.path("claims", claims, "Claims to check.");
    v.group("sequential", sequential, "Seeds are added.");
  }
};

Json role(const char* name, const char* kind, bool many = false, bool optional = false) {
  return {{"name", name}, {"kind", kind}, {"many", many}, {"optional", optional}};
}
Json output(const char* name, const char* kind, bool is_volatile = false) {
  return {{"name", name}, {"kind", kind}, {"volatile", is_volatile}};
}

Json document(const char* name, int version, Json inputs, Json outputs, const support::Schema& fields) {
  return {{"schema", "pe-stage/1"},
          {"name", name},
          {"program", std::string("pe-") + name},
          {"version", version},
          {"summary", "A stage of the tests."},
          {"build_id", "00"},
          {"release", "0"},
          {"inputs", std::move(inputs)},
          {"outputs", std::move(outputs)},
          {"fields", support::schema_to_json(fields)},
          {"resumes", false},
          {"takes_labels", false},
          {"reads_labels", false},
          {"trajectory", nullptr},
          {"costs", Json::object()}};
}

}  // namespace

std::vector<Json> stage_documents() {
  const Json model_and_curves = {output("model", "checkpoint"), output("metrics", "metrics")};
  std::vector<Json> all;
  all.push_back(
      document("fetch", 1, Json::array(), Json::array({output("raw", "raw-text")}), support::schema_of<Fetch>()));
  all.push_back(document("tokenize", 1, Json::array({role("raw", "raw-text")}),
                         Json::array({output("data", "token-shards")}), support::schema_of<Tokenize>()));
  Json train = document("train", 3, Json::array({role("data", "token-shards")}), model_and_curves,
                        support::schema_of<TrainStage>());
  train["resumes"] = true;
  train["trajectory"] = {{"horizon", "train.tokens"},
                         {"tokens_per_step", {"train.batch", "train.length"}},
                         {"free_when", {{"train.schedule", "wsd"}, {"train.decay_share", 0}}}};
  train["costs"] = {{"tokens", "train.tokens"}};
  all.push_back(train);
  const Json from_snapshot = {role("data", "token-shards"), role("init", "checkpoint")};
  Json decay = document("branch-decay", 1, from_snapshot, model_and_curves, support::schema_of<DecayStage>());
  decay["branch"] = {{"horizon", "decay.horizon_tokens"}, {"end", "decay.end"}, {"share", "decay.share"}};
  decay["costs"] = {{"tokens", "decay.horizon_tokens * decay.end * decay.share"}};
  all.push_back(decay);
  Json drop = document("drop-pe", 1, from_snapshot, model_and_curves, support::schema_of<DropStage>());
  drop["costs"] = {{"tokens", "drop.horizon_tokens - inputs.init.tokens"}};
  all.push_back(drop);
  all.push_back(document("evaluate", 2, {role("data", "token-shards"), role("model", "checkpoint")},
                         Json::array({output("scores", "eval-table")}), support::schema_of<EvaluateStage>()));
  Json report = document("report", 4, {role("scores", "eval-table", true), role("curves", "metrics", true, true)},
                         Json::array({output("report", "report")}), support::schema_of<Report>());
  report["takes_labels"] = true;
  all.push_back(report);
  return all;
}

StageCatalog stage_catalog() {
  StageCatalog catalog;
  for (const Json& document : stage_documents()) catalog.add(parse_description(document, "the tests"));
  return catalog;
}

const char* const kGrid = R"(schema: pe-pipeline/1
name: fineweb_grid
title: FineWeb-Edu grid, one trunk per cell, branches share it

defaults:
  config: [configs/data.yml, configs/model.yml, configs/train.yml]
  numerics: exact
  code: result-version
  retry: {max: 2, on: [oom, node, transient], backoff: 30s, oom_mem: 1.5}
  on_diverge: record

axes:
  encoding: [none, sinusoidal, learned, binary, decimal, rope, alibi, pope]
  size: [tiny, small]
  seed: [42, 43, 44]

vars:
  tokens: {tiny: 2.4e9, small: 6.6e9, medium: 18.8e9, large: 48.4e9}
  train_on: {tiny: gpu1, small: gpu4, medium: gpu4, large: gpu4}

resources:
  net:  {cpus: 2, mem: 4G, time: 2h, pools: [net]}
  cpu:  {cpus: 16, mem: 32G, time: 4h}
  gpu1: {cpus: 8, mem: 48G, gpus: 1, time: 6h}
  gpu4: {cpus: 16, mem: 96G, gpus: 4, time: 24h}
  eval: {cpus: 4, mem: 24G, gpus: 1, time: 1h, pack: 8}

slurm:
  partition: {net: transfer, cpu: cpu, default: gpu}

stages:
  fetch:
    run: pe-fetch
    resources: net
    config: {file: configs/fetch.yml, set: {path: data/fineweb-edu}}

  tokenize:
    run: pe-tokenize
    needs: {raw: fetch}
    resources: cpu
    config: {file: configs/tokenize.yml, set: {tokenizer: bpe, vocabulary: 65536}}

  trunk:
    run: pe-train
    over: [encoding, size, seed]
    exclude: [{encoding: learned, size: small}]
    needs: {data: tokenize}
    resources: $(train_on.$size)
    config:
      file: configs/model/$(size).yml
      set:
        model.encoding: $(encoding.value)
        train.seed: $(seed)
        train.schedule: wsd
        train.decay_share: 0
        train.tokens: $(tokens.$size)
    snapshots: {b25: 0.20, b50: 0.40, b100: 0.80, d10: 0.625, d15: 0.9375}
    checkpoint: {every: 10m, keep: 2}

  decay:
    run: pe-branch-decay
    over: [encoding, size, seed, branch]
    axes: {branch: {b25: 0.25, b50: 0.50, b100: 1.00}}
    needs: {data: tokenize, init: 'trunk@$(branch)'}
    resources: $(train_on.$size)
    config: {file: configs/decay.yml, set: {decay.horizon_tokens: $(tokens.$size), decay.end: $(branch.value), decay.share: 0.2}}

  droppe:
    run: pe-drop-pe
    over: [encoding, size, seed, drop]
    axes: {drop: {d10: 0.625, d15: 0.9375}}
    exclude: [{encoding: none}]
    needs: {data: tokenize, init: 'trunk@$(drop)'}
    resources: $(train_on.$size)
    config: {file: configs/droppe.yml, set: {drop.horizon_tokens: $(tokens.$size)}}

  evaluate:
    run: pe-evaluate
    each: {model: [decay, droppe]}
    over: [suite]
    axes: {suite: [perplexity, needle, passkey]}
    needs: {data: tokenize}
    resources: eval
    config: {file: configs/eval/$(suite).yml, set: {eval.context: [1024, 2048, 4096, 8192, 16384]}}

  report:
    run: pe-report
    gather: {scores: evaluate, curves: ['trunk.metrics@d15', decay, droppe]}
    allow_partial: true
    resources: cpu
    config: {file: configs/report.yml}
)";

GridFolder::GridFolder() {
  write("configs/data.yml", "");
  write("configs/model.yml", "model: {width: 512, layers: 6}\n");
  write("configs/train.yml", "# the training\ntrain:\n  lr: 3e-3\n  batch: 512\n  length: 1024\n");
  write("configs/fetch.yml", "on_bad: error\n");
  write("configs/tokenize.yml", "workers: 4\n");
  write("configs/model/tiny.yml", "model.width: 512\n");
  write("configs/model/small.yml", "model: {width: 768, layers: 12}\n");
  write("configs/decay.yml", "decay: {share: 0.1}\n");
  write("configs/droppe.yml", "drop: {end: 1.0}\n");
  for (const char* suite : {"perplexity", "needle", "passkey"}) {
    write(std::string("configs/eval/") + suite + ".yml", std::string("eval: {task: ") + suite + "}\n");
  }
  write("configs/report.yml", "style: plain\n");
  write("data/fineweb-edu/a.txt", "Once there was a text.\n");
  write("data/fineweb-edu/deeper/b.txt", "And another.\n");
}

void GridFolder::write(const std::string& name, const std::string& text) const {
  std::filesystem::create_directories(path(name).parent_path());
  std::ofstream(path(name), std::ios::binary) << text;
}

ExpandOptions GridFolder::plain_options() {
  ExpandOptions options;
  options.isa = "avx2";
  return options;
}

Graph GridFolder::expand(const std::string& text, const ExpandOptions& options) const {
  write("pipelines/test.yml", text);
  StageCatalog catalog = stage_catalog();
  const PipelineFile file = parse_pipeline_file(text, "pipelines/test.yml", root());
  return pipeline::expand(file, catalog, options);
}

Graph GridFolder::keyed(const std::string& text, const ExpandOptions& options) const {
  Graph graph = expand(text, options);
  StampMemo memo = StampMemo::of_inputs(path("store"));
  hash_externals(graph, memo);
  compute_plan_keys(graph);
  return graph;
}

std::string GridFolder::refusal(const std::string& text, const ExpandOptions& options) const {
  std::string message;
  try {
    expand(text, options);
  } catch (const support::ConfigError& error) {
    message = error.what();
  }
  const std::string root_name = root().string();
  for (std::size_t at = message.find(root_name); at != std::string::npos; at = message.find(root_name)) {
    message.replace(at, root_name.size(), "ROOT");
  }
  return message;
}

std::size_t index_of(const Graph& graph, const std::string& id) {
  for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
    if (graph.tasks[i].id == id) return i;
  }
  throw std::out_of_range("no task " + id);
}

ExpandOptions few(std::vector<std::string> set) {
  ExpandOptions options = GridFolder::plain_options();
  options.axis = {"encoding=none,rope", "size=tiny", "seed=42"};
  options.set = std::move(set);
  return options;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  if (at == std::string::npos) throw std::logic_error("the text has no " + from);
  return text.replace(at, from.size(), to);
}

const Task& find_task(const Graph& graph, const std::string& id) { return graph.tasks[index_of(graph, id)]; }

std::size_t count_label(const Graph& graph, const std::string& label) {
  return static_cast<std::size_t>(
      std::count_if(graph.tasks.begin(), graph.tasks.end(), [&](const Task& task) { return task.label == label; }));
}

std::size_t count_edges(const Graph& graph) {
  std::size_t edges = 0;
  for (const Task& task : graph.tasks) edges += task.inputs.size();
  return edges;
}

std::optional<Result> FakeStore::find(const ResultKey& key) const {
  const auto it = results.find(key);
  return it == results.end() ? std::nullopt : std::optional(it->second);
}

bool FakeStore::complete(const Result& result) const {
  return std::all_of(result.outputs.begin(), result.outputs.end(),
                     [&](const OutputRecord& output) { return has_object(output.object); });
}

std::optional<std::string> FakeStore::hint(const std::string& plan_key) const {
  const auto it = hints.find(plan_key);
  return it == hints.end() ? std::nullopt : std::optional(it->second);
}

bool FakeStore::has_object(const std::string& digest) const {
  const auto it = objects.find(digest);
  return it != objects.end() && it->second;
}

const std::vector<PastTask>& FakeStore::past_tasks(const std::string& stage) const {
  static const std::vector<PastTask> none;
  const auto it = past.find(stage);
  return it == past.end() ? none : it->second;
}

std::vector<std::string> FakeStore::run(const Graph& graph, const PlanOptions& options) {
  std::vector<std::string> done;
  // As `run` does: after each result the rest is planned again, since keys become known only then.
  std::vector<bool> made(graph.tasks.size());
  for (;;) {
    const Plan plan = make_plan(graph, *this, options);
    bool moved = false;
    for (std::size_t i = 0; i < graph.tasks.size(); ++i) {
      const PlannedTask& planned = plan.tasks[i];
      if (planned.state != TaskState::kRun || made[i]) continue;
      const auto inputs = known_inputs(graph, plan, i);
      if (!inputs) continue;
      const Task& task = graph.tasks[i];
      const Json preimage = task_preimage(graph, task, *inputs);
      const std::string key = task_key_of(preimage);
      std::vector<std::int64_t> steps;
      for (const PlannedSnapshot& snapshot : planned.snapshots) {
        if (snapshot.needed && !snapshot.present) steps.push_back(snapshot.step);
      }
      if (planned.snapshots.empty()) steps.push_back(-1);
      for (std::int64_t step : steps) {
        Result result;
        for (const artifact::OutputRole& output : task.stage->outputs) {
          const auto fixed = fixed_content.find(task.stage->name);
          const std::string content =
              support::sha256_hex(support::cat(fixed == fixed_content.end() ? key : fixed->second, step, output.name));
          OutputRecord record;
          record.role = output.name;
          record.object = content;
          record.content = content;
          result.outputs.push_back(std::move(record));
          objects[content] = true;
        }
        results[{key, step}] = std::move(result);
        past[task.stage->name].push_back(
            make_past_task({key, step}, task.stage->name, task.id, support::cat(100000 + ++clock), preimage));
        past[task.stage->name].back().pipeline = *pipelines_.insert(graph.name).first;
      }
      hints[task.plan_key] = key;
      made[i] = true;
      moved = true;
      done.push_back(task.id);
    }
    if (!moved) return done;
  }
}

}  // namespace pe::test

// Costs of an evaluation beyond the necessary forward passes, compared with the same model in PyTorch with a plain loop
// over lengths (evaluation_peer.py). Also the speed of making examples of tasks, and the memory of a long context.
//
//     evaluation [perplexity] [passkey] [generators] [memory]   all but memory by default
//         --documents N    of perplexity, 4,096 tokens each; 40
//         --trials N       of passkey; 1,000
//         --seconds S      for each generator; 0.5
//         --encoding A,B   of memory; all that are registered
//         --layers N       of memory; 6, as the size tiny has
//         --threads N      2
//
// Forward passes are timed before and after the evaluation that they are compared with, in the same process.
// PE_TEST_PYTHON names a Python with torch. Memory is the peak of a process that holds a model of the size tiny (58.7M
// parameters, vocabulary 65,536) and evaluates one text of 16,384 tokens; goal: below 4 GB.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "artifact/checkpoint.h"
#include "artifact/eval_table.h"
#include "benchmarks/peer_environment.h"
#include "data/sources/fetch.h"
#include "data/tasks/algorithmic_task.h"
#include "data/token_shards/token_dataset.h"
#include "data/token_shards/tokenize.h"
#include "encodings/attention/token_reader.h"
#include "encodings/registry.h"
#include "evaluation/evaluate.h"
#include "evaluation/model_scorer.h"
#include "model/checkpoint_io.h"
#include "model/compute.h"
#include "model/language_model.h"
#include "support/files.h"
#include "support/process.h"
#include "support/progress.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "support/text.h"

namespace {

using namespace pe;  // NOLINT
namespace fs = std::filesystem;

constexpr std::int64_t kLongest = 4096, kVocabulary = 2048, kPasskeyTokens = 512, kBatchTokens = 8192, kFar = 16384;
const std::vector<std::int64_t> kLengths = {256, 512, 1024, 2048, kLongest};

double seconds_of(const std::function<void()>& body) {
  const auto start = std::chrono::steady_clock::now();
  body();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// An untrained model, text that a tokenizer was trained on, and evaluations of the one on the other.
class Bench {
 public:
  explicit Bench(std::int64_t documents) {
    artifact::Workspace workspace;
    workspace.progress = &support::silent_progress();
    workspace.work = folder_.path();
    data::FetchConfig fetch;
    fetch.source = data::FetchConfig::Source::kGenerated;
    fetch.generated.min_words = 4500;  // 4,096 tokens and more
    fetch.generated.max_words = 4700;
    fetch.generated.words = documents * 4700;
    workspace.outputs["raw"] = folder_ / "raw";
    data::fetch(fetch, workspace);
    data::TokenizeConfig tokenize;
    tokenize.vocabulary = kVocabulary;
    tokenize.bpe.train_bytes = 1 << 20;
    tokenize.split = {.train = 1, .validation = 0, .test = 0};
    tokenize.workers = 2;
    workspace.inputs["raw"] = {{folder_ / "raw", artifact::Kind::kRawText, "", {}}};
    workspace.outputs["data"] = folder_ / "data";
    data::tokenize(tokenize, workspace);
    data_.emplace(folder_ / "data");

    model::ModelConfig config;
    config.width = 128;
    config.layers = 4;
    config.heads = 4;
    config.length = 1024;
    config.encoding.json = "rope";
    model_.emplace(model::LanguageModel::make(config, kVocabulary, 42));
    artifact::CheckpointMeta meta;
    meta.tokenizer_digest = data_->tokenizer_digest();
    model::describe_model(*model_, meta);
    artifact::CheckpointWriter writer(folder_ / "model.h5", {}, meta);
    model::write_weights(*model_, writer);
    writer.finish();
  }

  std::int64_t parameters() const { return model_->parameter_count(); }

  /// The first tokens of documents, [rows, length].
  at::Tensor ids(std::int64_t first, std::int64_t rows, std::int64_t length) const {
    std::vector<std::uint64_t> begins;
    for (std::uint64_t i = 0; i < data_->documents(data::Split::kTrain); ++i) {
      const data::TokenDataset::Document document = data_->document(data::Split::kTrain, i);
      if (document.tokens >= static_cast<std::uint64_t>(length)) begins.push_back(document.first);
    }
    at::Tensor ids = at::empty({rows, length}, at::kLong);
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::uint64_t begin = begins.at(static_cast<std::size_t>(first + row) % begins.size());
      std::int64_t* to = ids.data_ptr<std::int64_t>() + row * length;
      data_->read(data::Split::kTrain, begin, std::span(to, static_cast<std::size_t>(length)));
    }
    return ids;
  }

  /// One pass over so many sequences with the losses of the last `scored` tokens of each. Reading is not counted.
  double forward(std::int64_t sequences, std::int64_t length, std::int64_t scored) const {
    const c10::InferenceMode inference;
    double seconds = 0;
    const std::int64_t rows = std::max<std::int64_t>(1, kBatchTokens / length);
    for (std::int64_t first = 0; first < sequences; first += rows) {
      const std::int64_t count = std::min(rows, sequences - first);
      const at::Tensor batch = ids(first, count, length);
      seconds += seconds_of([&] {
        const at::Tensor hidden = model_->forward(batch);
        model_->losses(hidden.narrow(1, length - scored - 1, scored).reshape({count * scored, -1}),
                       batch.narrow(1, length - scored, scored).reshape({-1}));
      });
    }
    return seconds;
  }

  /// The stage's body as pe-evaluate runs it, from the checkpoint to the tables.
  double evaluate(Json options, artifact::Tables& tables) const {
    options["split"] = "train";
    options["min_documents"] = 1;
    options["batch_tokens"] = kBatchTokens;
    artifact::Workspace workspace;
    workspace.inputs["model"] = {{folder_ / "model.h5", artifact::Kind::kCheckpoint, "", {}}};
    workspace.inputs["data"] = {{folder_ / "data", artifact::Kind::kTokenShards, "", {}}};
    workspace.outputs["scores"] = folder_ / "scores.h5";
    workspace.work = folder_ / "work";
    workspace.progress = &support::silent_progress();
    support::make_folders(workspace.work);
    const auto config = support::make_config<evaluation::EvaluateConfig>(Json{{"eval", options}});
    const double seconds = seconds_of([&] { evaluation::evaluate(config, workspace); });
    tables = artifact::read_eval_tables(folder_ / "scores.h5");
    fs::remove_all(workspace.work);  // whose journal would spare the next one its work
    return seconds;
  }

 private:
  test::TempFolder folder_;
  std::optional<data::TokenDataset> data_;
  std::optional<model::LanguageModel> model_;
};

/// The pass before and after the evaluation that it is compared with.
struct Compared {
  double before = 0, evaluation = 0, after = 0;
  double ratio() const { return 2 * evaluation / (before + after); }
};

Compared compare(const std::function<double()>& forward, const std::function<double()>& evaluation) {
  Compared all;
  all.before = forward();
  all.evaluation = evaluation();
  all.after = forward();
  return all;
}

void measure_perplexity(const Bench& bench, std::int64_t documents, std::int64_t threads) {
  artifact::Tables tables;
  const Json options = {{"tasks", {"perplexity"}},
                        {"context", kLengths},
                        {"documents", documents},
                        {"perplexity", {{"protocols", {"prefix"}}}}};
  bench.forward(2, kLongest, kLongest - 1);  // first allocations
  const Compared own = compare([&] { return bench.forward(documents, kLongest, kLongest - 1); },
                               [&] { return bench.evaluate(options, tables); });
  std::string tokens;
  const artifact::Table& summary = tables.at("lm_summary");
  for (std::size_t row = 0; row < summary.rows(); ++row)
    tokens += fmt::format(" {}", summary.integers("tokens_scored")[row]);
  fmt::print(
      "perplexity of {} documents of {} tokens at {} lengths (scored:{}), {} parameters: {:.2f} s; one forward pass "
      "over them "
      "{:.2f} and {:.2f} s: ratio {:.3f} (goal 1.15)\n",
      documents, kLongest, kLengths.size(), tokens, support::with_commas(bench.parameters()), own.evaluation,
      own.before, own.after, own.ratio());

  const char* chosen = std::getenv("PE_TEST_PYTHON");
  const std::string python = chosen ? chosen : "python3";
  std::vector<std::string> command = test::peer_environment();
  command.insert(command.end(), {python, PE_PEER, std::to_string(threads), std::to_string(documents)});
  for (const std::int64_t length : kLengths) command.push_back(std::to_string(length));
  const auto peer = support::capture(command);
  const Json found = Json::parse(peer.out, nullptr, false);
  if (peer.status.code == 77) {
    fmt::print("  no peer: {} has no torch (PE_TEST_PYTHON names another): {}", python, peer.err);
  } else if (peer.status.code != 0 || !found.is_object()) {
    fmt::print("  the peer failed:\n{}\n", peer.err);
  } else {
    const double loop = found["loop_seconds"], forward = found["forward_seconds"];
    fmt::print(
        "  PyTorch {} with a loop over lengths: {:.2f} s; ours takes {:.2f} of that. Its own forward pass: {:.2f} s, "
        "loop over it {:.3f}\n",
        found["torch"].get<std::string>(), loop, own.evaluation / loop, forward, loop / forward);
  }
}

void measure_passkey(const Bench& bench, std::int64_t trials) {
  constexpr std::int64_t kAnswer = 6, kDepths = 10;  // five digits, each a token, and the space
  const std::int64_t of_each = std::max<std::int64_t>(1, trials / kDepths);
  trials = of_each * kDepths;
  artifact::Tables tables;
  std::vector<double> depths;
  for (std::int64_t i = 0; i < kDepths; ++i) depths.push_back(static_cast<double>(i) / (kDepths - 1));
  const Json options = {
      {"tasks", {"passkey"}}, {"context", {kPasskeyTokens}}, {"passkey", {{"depths", depths}, {"trials", of_each}}}};
  bench.forward(32, kPasskeyTokens, kAnswer);
  // A trial is two passes: the prompt, and its control without the fact.
  const Compared own = compare([&] { return bench.forward(2 * trials, kPasskeyTokens, kAnswer); },
                               [&] { return bench.evaluate(options, tables); });
  fmt::print(
      "passkey: {} trials of {} tokens, teacher-forced: {:.2f} s; their {} forward passes {:.2f} and {:.2f} s: ratio "
      "{:.3f} "
      "(goal 1.1)\n",
      tables.at("retrieval_trial").rows(), kPasskeyTokens, own.evaluation, 2 * trials, own.before, own.after,
      own.ratio());
}

void measure_generators(double seconds) {
  fmt::print("generators, one thread, lengths of their training:\n");
  int fast = 0;
  for (const data::TaskGenerator& generator : data::task_generators()) {
    const auto task = generator.make(Json::object());
    std::vector<std::int64_t> lengths;
    for (std::int64_t length = generator.train.low; length <= generator.train.high; ++length) {
      if (task->weight(length) > 0) lengths.push_back(length);
    }
    std::int64_t made = 0, tokens = 0;
    const auto start = std::chrono::steady_clock::now();
    double passed = 0;
    while (passed < seconds) {
      for (int i = 0; i < 16; ++i, ++made) {
        const std::int64_t length = lengths[static_cast<std::size_t>(made) % lengths.size()];
        tokens += static_cast<std::int64_t>(
            data::make_example(*task, generator.name, 1, data::Split::kTrain, length, made).ids.size());
      }
      passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    }
    const double a_minute = static_cast<double>(made) / passed * 60;
    fast += a_minute >= 1e6 ? 1 : 0;
    fmt::print("  {:<22} {:>12} a minute, {:>8.1f} tokens each\n", generator.name,
               support::with_commas(static_cast<std::int64_t>(a_minute)),
               static_cast<double>(tokens) / static_cast<double>(made));
  }
  fmt::print("  {} of {} make a million a minute\n", fast, data::task_generators().size());
}

// ---------------------------------------------------------------- memory

/// One text of drawn tokens.
class FarDocument final : public evaluation::DocumentSource {
 public:
  explicit FarDocument(std::int64_t vocabulary) : vocabulary_(vocabulary) {}
  std::string split() const override { return "test"; }
  std::int64_t count() const override { return 1; }
  std::int64_t tokens(std::int64_t) const override { return kFar; }
  std::uint64_t hash(std::int64_t) const override { return 0; }
  evaluation::Document read(std::int64_t id, std::int64_t limit) const override {
    evaluation::Document document{.id = id, .ids = {}, .bytes = {}};
    support::Xoshiro random(7);
    for (std::int64_t i = 0; i < std::min(limit, kFar); ++i) {
      document.ids.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary_))));
      document.bytes.push_back(4);
    }
    return document;
  }

 private:
  std::int64_t vocabulary_;
};

class NoCodec final : public evaluation::TextCodec {
 public:
  std::vector<std::int32_t> encode_inside(std::string_view) const override { return {}; }
  std::optional<std::int32_t> bos() const override { return std::nullopt; }
  std::vector<std::int32_t> ordinary_pieces() const override { return {}; }
};

class KeptRows final : public evaluation::Results {
 public:
  const schema::Rows& item(const std::string& name, const std::function<schema::Rows()>& work) override {
    return items_[name] = work();
  }
  void add(const schema::Rows& more) override { rows.append(more); }
  schema::Rows rows;

 private:
  std::map<std::string, schema::Rows> items_;
};

/// Options under which an encoding does its work, where the defaults make it another.
Json config_of(const std::string& name) {
  const encodings::EncodingEntry* entry = encodings::find_encoding(name);
  Json config = {{"kind", name}};
  const support::Field* factor = entry == nullptr ? nullptr : support::find_field(entry->fields, "factor");
  if (factor != nullptr && factor->default_value.is_number() && factor->default_value.get<double>() <= 1)
    config["factor"] = 16.0;
  for (const char* bound :
       {"rows", "max_position", "max_random_position"}) {  // bounds of their own, not by the training length
    if (entry != nullptr && support::find_field(entry->fields, bound) != nullptr) config[bound] = kFar;
  }
  if (entry != nullptr && entry->family == encodings::Family::kPositionMap) return {{"stack", {config, "rope"}}};
  return config;
}

/// Evaluates one long text in a separate process, and prints the training length at which that was possible.
int evaluate_far(const std::string& encoding, std::int64_t layers) {
  for (const std::int64_t train : {std::int64_t{1024}, kFar}) {
    model::ModelConfig config;  // width 512, 6 layers, 8 heads: the defaults are tiny
    config.vocabulary = 65536;
    config.layers = layers;
    config.length = train;
    config.encoding.json = config_of(encoding);
    const model::LanguageModel model = model::LanguageModel::make(config, 0, 42);
    encodings::read_examples(model.encoding());
    const auto scorer = evaluation::make_model_scorer(model, kBatchTokens);
    const auto group =
        support::make_config<evaluation::EvaluateConfig>(Json{{"eval",
                                                               {{"tasks", {"perplexity"}},
                                                                {"context", {kFar}},
                                                                {"documents", 1},
                                                                {"min_documents", 1},
                                                                {"draws", 1},
                                                                {"perplexity", {{"protocols", {"prefix"}}}}}}})
            .eval;
    KeptRows results;
    const double seconds = seconds_of([&] {
      evaluation::run_tasks(group, *scorer, NoCodec(), FarDocument(config.vocabulary), results,
                            support::silent_progress());
    });
    const std::string& status = results.rows.of<schema::LmSummary>().at(0).status;
    if (status == schema::status::kPositions) continue;  // a bounded table: as long as the text, then
    fmt::print("{{\"train\": {}, \"seconds\": {}, \"status\": \"{}\"}}\n", train, seconds, status);
    return 0;
  }
  return 1;
}

/// Runs the command and prints its peak of memory in KiB after its output. Linux counts the memory of the parent
/// process into a process's peak, so a process that is still small has to start it.
int print_peak(std::vector<std::string> command) {
  support::SpawnOptions options;
  options.arguments = std::move(command);
  const pid_t pid = support::spawn(options);
  rusage usage{};
  int status = 0;
  ::wait4(pid, &status, 0, &usage);
  fmt::print("{}\n", usage.ru_maxrss);
  return support::decode_status(status).code;
}

void measure_memory(std::vector<std::string> names, std::int64_t layers, std::int64_t threads) {
  if (names.empty()) {
    for (const encodings::EncodingEntry& entry : encodings::encodings()) names.push_back(entry.name);
  }
  fmt::print("memory of an evaluation at {} tokens, {} layers:\n", support::with_commas(kFar), layers);
  const std::string own = support::own_executable().string();
  double most = 0;
  std::string hungriest;
  for (const std::string& name : names) {
    const auto found = support::capture(
        {own, "--peak", own, "--far", name, "--layers", std::to_string(layers), "--threads", std::to_string(threads)});
    const std::vector<std::string> lines = support::split(found.out, '\n');
    const Json said = Json::parse(lines.at(0), nullptr, false);
    if (found.status.code != 0 || !said.is_object()) {
      fmt::print("  {:<20} failed: {}\n", name, found.err.substr(0, found.err.find('\n')));
    } else {
      const double gigabytes = std::stod(lines.at(1)) * 1024 / 1e9;
      if (gigabytes > most) {
        most = gigabytes;
        hungriest = name;
      }
      fmt::print("  {:<20} {:5.2f} GB, {:6.1f} s, {}{}\n", name, gigabytes, said["seconds"].get<double>(),
                 said["status"].get<std::string>(), said["train"] == kFar ? ", table as long as the text" : "");
    }
    std::fflush(stdout);
  }
  if (most > 0) fmt::print("  the most: {:.2f} GB, {} (goal: below 4)\n", most, hungriest);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 2 && std::string(argv[1]) == "--peak") return print_peak({argv + 2, argv + argc});
  std::vector<std::string> parts, names;
  std::string far;
  std::int64_t documents = 40, trials = 1000, layers = 6, threads = 2;
  double seconds = 0.5;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const auto next = [&]() -> std::string { return i + 1 < argc ? argv[++i] : "0"; };
    if (flag == "--documents")
      documents = std::max(1LL, std::atoll(next().c_str()));
    else if (flag == "--trials")
      trials = std::max(10LL, std::atoll(next().c_str()));
    else if (flag == "--seconds")
      seconds = std::atof(next().c_str());
    else if (flag == "--layers")
      layers = std::max(1LL, std::atoll(next().c_str()));
    else if (flag == "--threads")
      threads = std::max(1LL, std::atoll(next().c_str()));
    else if (flag == "--encoding")
      names = support::split(next(), ',');
    else if (flag == "--far")
      far = next();
    else if (flag == "perplexity" || flag == "passkey" || flag == "generators" || flag == "memory")
      parts.push_back(flag);
    else {
      fmt::print(
          stderr,
          "usage: evaluation [perplexity] [passkey] [generators] [memory] [--documents N] [--trials N] [--seconds S] "
          "[--encoding NAME,NAME] [--layers N] [--threads N]\n");
      return 2;
    }
  }
  model::prepare({{"compute", {{"threads", threads}}}}, argc,
                 argv);  // sets the environment, and starts this program again
  try {
    if (!far.empty()) return evaluate_far(far, layers);
    if (parts.empty()) parts = {"perplexity", "passkey", "generators"};
    const auto wanted = [&](const char* part) { return std::find(parts.begin(), parts.end(), part) != parts.end(); };
    if (wanted("perplexity") || wanted("passkey")) {
      const Bench bench(documents);
      if (wanted("perplexity")) measure_perplexity(bench, documents, threads);
      if (wanted("passkey")) measure_passkey(bench, trials);
    }
    if (wanted("generators")) measure_generators(seconds);
    if (wanted("memory")) measure_memory(names, layers, threads);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "evaluation: {}\n", error.what());
    return 1;
  }
}

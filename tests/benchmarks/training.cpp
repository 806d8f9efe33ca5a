// How fast training is on the CPU, two threads, beside the same model in PyTorch (training_peer.py), eager and compiled;
// what a step waits for data; and how much of the CPU's own product peak it reaches. One run, ours before and after theirs.
//
//     training [SECONDS] [--dtype fp32|bf16] [--size NAME] [--beside] [--alone]
//
// SECONDS of each measurement, 15 by default. --beside: while one other process is busy. --alone: without the peer, whose
// Python, with torch, PE_TEST_PYTHON names.
#include <ATen/ops/rand.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "artifact/token_shards.h"
#include "kernels/product.h"
#include "model/compute.h"
#include "model/device.h"
#include "model/model_config.h"
#include "support/files.h"
#include "support/process.h"
#include "support/progress.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "support/text.h"
#include "training/train.h"

namespace {

using namespace pe;
using Clock = std::chrono::steady_clock;

struct Size {
  const char* name;
  std::int64_t width, layers, heads, vocabulary, batch, length;
};
constexpr Size kSizes[] = {{"1.3M", 128, 4, 4, 2048, 16, 128}, {"7.3M", 256, 6, 8, 4096, 8, 256},
                           {"42M", 512, 6, 8, 32768, 4, 512}};

struct Options {
  double seconds = 15;
  std::string dtype = "fp32", size;
  bool beside = false, alone = false;
};

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--beside") options.beside = true;
    else if (word == "--alone") options.alone = true;
    else if (word == "--dtype" && i + 1 < argc) options.dtype = argv[++i];
    else if (word == "--size" && i + 1 < argc) options.size = argv[++i];
    else options.seconds = std::atof(argv[i]);
  }
  return options;
}

/// Another process that does nothing but work, while this lives.
class BusyProcess {
 public:
  explicit BusyProcess(bool wanted) {
    if (!wanted) return;
    child_ = ::fork();
    if (child_ != 0) return;
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (volatile unsigned work = 0;;) work = work + 1;
  }
  ~BusyProcess() {
    if (child_ <= 0) return;
    ::kill(child_, SIGKILL);
    ::waitpid(child_, nullptr, 0);
  }

 private:
  ::pid_t child_ = -1;
};

/// FLOP a second of our own product at a shape that suits it, the best of many.
double product_peak() {
  const at::Tensor a = at::rand({1024, 1024}), b = at::rand({1024, 1024});
  double best = 1e9;
  for (int i = 0; i < 30; ++i) {
    const auto begin = Clock::now();
    kernels::product(a, b);
    best = std::min(best, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  return 2.0 * 1024 * 1024 * 1024 / best;
}

/// Random tokens: speed does not depend on them.
std::filesystem::path write_shards(const std::filesystem::path& folder, std::int64_t vocabulary) {
  artifact::TokenizerRecord record;
  record.kind = "bytes";
  record.vocabulary = vocabulary;
  record.bos_id = 0;
  record.token_bytes.assign(static_cast<std::size_t>(vocabulary), 4);
  record.content_hash = record.library = "benchmark";
  artifact::TokenShardsWriter writer(folder, {}, record, 64 << 20);
  support::Xoshiro random(1);
  std::vector<std::int32_t> ids(1 << 16);
  for (std::uint64_t document = 0; document < 16; ++document) {
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary)));
    writer.add(document == 15 ? artifact::Split::kValidation : artifact::Split::kTrain, ids.data(), ids.size(), 4 << 16, document);
  }
  artifact::DatasetTotals totals;
  writer.finish(totals);
  return folder;
}

/// Times every step, and stops when enough are seen.
class Stopwatch : public support::Progress {
 public:
  explicit Stopwatch(double seconds) : seconds_(seconds) {}
  void note(std::string_view) override {}
  void warn(std::string_view line) override { fmt::print(stderr, "{}\n", line); }
  void advance(std::string_view, std::int64_t, std::int64_t, const Json&) override {
    const auto now = Clock::now();
    if (++steps_ > 3) times.push_back(std::chrono::duration<double>(now - last_).count());
    if (steps_ == 3) begin_ = now;
    if (steps_ >= 8 && std::chrono::duration<double>(now - begin_).count() >= seconds_) support::request_stop(15);
    last_ = now;
  }
  void event(const Json&) override {}
  std::vector<double> times;

 private:
  double seconds_;
  int steps_ = 0;
  Clock::time_point begin_, last_;
};

struct Speed {
  double tokens_per_second = 0;
  double data_share = 0;   ///< of the time, spent on waiting for data
  double flops = 0;        ///< of a token
};

Speed measure(const Size& size, const Options& options, const model::ComputeConfig& compute) {
  const test::TempFolder folder;
  training::TrainConfig config;
  config.model.width = size.width;
  config.model.layers = size.layers;
  config.model.heads = size.heads;
  config.model.encoding.json = "rope";
  config.train.batch = size.batch;
  config.train.length = size.length;
  config.train.tokens = 1'000'000'000;
  config.train.validate_every = 0;
  config.train.log_every = 10;
  config.train.optimizer.peak_lr = 1e-3;
  config.checkpoint.every = 1e6;
  config.compute = compute;
  artifact::Workspace workspace;
  workspace.work = folder / "work";
  support::make_folders(workspace.work);
  workspace.inputs["data"] = {{write_shards(folder / "data", size.vocabulary), artifact::Kind::kTokenShards, "", {}}};
  workspace.outputs = {{"model", folder / "model.h5"}, {"metrics", folder / "metrics.h5"}};
  Stopwatch watch(options.seconds);
  workspace.progress = &watch;
  support::request_stop(0);
  try {
    training::train(config, workspace);
  } catch (const support::Stopped&) {
  }
  Speed speed;
  std::vector<double> shares;
  for (const std::string& line : support::split(support::read_file(workspace.work / "metrics.jsonl"), '\n')) {
    const Json record = Json::parse(line, nullptr, false);
    if (record.is_object() && record["phase"] == "train") shares.push_back(record["data_share"].get<double>());
  }
  const auto median = [](std::vector<double>& values) {
    std::sort(values.begin(), values.end());
    return values.empty() ? 0 : values[values.size() / 2];
  };
  speed.tokens_per_second = static_cast<double>(size.batch * size.length) / median(watch.times);
  speed.data_share = median(shares);
  config.model.vocabulary = size.vocabulary;
  speed.flops = model::flops_per_token(config.model, size.length);
  return speed;
}

}  // namespace

int main(int argc, char** argv) {
  const Options options = options_of(argc, argv);
  const Json group = {{"threads", 2}, {"dtype", options.dtype}};
  model::prepare({{"compute", group}}, argc, argv);   // sets the environment, and starts this program anew
  const auto compute = support::make_config<model::ComputeConfig>(group, "compute");
  const at::Device device = model::open_device(model::resolve(compute));
  const double peak = product_peak();
  fmt::print("{}; a product of 1,024 x 1,024 x 1,024: {:.0f} GFLOP/s\n", model::device_summary(compute, device), peak / 1e9);
  const BusyProcess busy(options.beside);
  std::vector<Size> sizes;
  for (const Size& size : kSizes) {
    if (options.size.empty() || options.size == size.name) sizes.push_back(size);
  }
  std::map<std::string, Speed> ours;
  for (const Size& size : sizes) ours[size.name] = measure(size, options, compute);

  std::map<std::string, std::map<std::string, double>> theirs;
  if (!options.alone) {
    const char* chosen = std::getenv("PE_TEST_PYTHON");
    const std::string python = chosen ? chosen : "python3";
    const std::string only = options.size.empty() ? "all" : options.size;
    const auto peer = support::capture({python, PE_PEER, "2", std::to_string(options.seconds), options.dtype, only});
    for (const std::string& line : support::split(peer.out, '\n')) {
      const Json record = Json::parse(line, nullptr, false);
      if (!record.is_object()) continue;
      if (record.contains("problem")) {
        fmt::print("{} {}: {}\n", record["size"].get<std::string>(), record["mode"].get<std::string>(),
                   record["problem"].get<std::string>());
      } else {
        theirs[record["size"]][record["mode"]] = record["tokens_per_second"];
      }
    }
    if (peer.status.code == 77) fmt::print("no peer: {} has no torch (PE_TEST_PYTHON names another): {}", python, peer.err);
    if (peer.status.code != 0 && peer.status.code != 77) fmt::print("the peer failed:\n{}\n", peer.err);
  }
  for (const Size& size : sizes) {
    // Before and after the peer; the slower one counts, so that a machine that woke up late does not flatter us.
    const Speed again = measure(size, options, compute);
    const double own = std::min(ours[size.name].tokens_per_second, again.tokens_per_second);
    fmt::print("{}: {:.0f} tokens/s ({:.0f}, {:.0f}), {:.0f} % of the product's speed, {:.3f} % of it waiting for data", size.name,
               own, ours[size.name].tokens_per_second, again.tokens_per_second, 100 * own * again.flops / peak,
               100 * again.data_share);
    for (const auto& [mode, speed] : theirs[size.name]) fmt::print("; {} {:.0f}, ratio {:.2f}", mode, speed, own / speed);
    fmt::print("\n");
  }
  return 0;
}

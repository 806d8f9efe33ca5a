// How fast training is on the CPU, two threads, beside the same model in PyTorch (training_peer.py), eager and compiled;
// and what a step waits for data. One run, ours before and after theirs.
//
//     training [SECONDS]      of each measurement, 15 by default; PE_TEST_PYTHON names a Python with torch
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "artifact/token_shards.h"
#include "model/compute.h"
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
constexpr Size kSizes[] = {{"1.3M", 128, 4, 4, 2048, 16, 128}, {"7.3M", 256, 6, 8, 4096, 8, 256}};

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
};

Speed measure(const Size& size, double seconds) {
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
  config.compute.threads = 2;
  artifact::Workspace workspace;
  workspace.work = folder / "work";
  support::make_folders(workspace.work);
  workspace.inputs["data"] = {{write_shards(folder / "data", size.vocabulary), artifact::Kind::kTokenShards, "", {}}};
  workspace.outputs = {{"model", folder / "model.h5"}, {"metrics", folder / "metrics.h5"}};
  Stopwatch watch(seconds);
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
  return speed;
}

}  // namespace

int main(int argc, char** argv) {
  model::prepare({{"compute", {{"threads", 2}}}}, argc, argv);   // sets the environment, and starts this program anew
  const double seconds = argc > 1 ? std::atof(argv[1]) : 15;
  std::map<std::string, Speed> ours;
  for (const Size& size : kSizes) ours[size.name] = measure(size, seconds);

  const char* chosen = std::getenv("PE_TEST_PYTHON");
  const std::string python = chosen ? chosen : "python3";
  const auto peer = support::capture({python, PE_PEER, "2", std::to_string(seconds)});
  std::map<std::string, std::map<std::string, double>> theirs;
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
  for (const Size& size : kSizes) {
    // Before and after the peer; the slower one counts, so that a machine that woke up late does not flatter us.
    const Speed again = measure(size, seconds);
    const double own = std::min(ours[size.name].tokens_per_second, again.tokens_per_second);
    fmt::print("{}: {:.0f} tokens/s ({:.0f}, {:.0f}), {:.3f} % of it waiting for data", size.name, own,
               ours[size.name].tokens_per_second, again.tokens_per_second, 100 * again.data_share);
    for (const auto& [mode, speed] : theirs[size.name]) fmt::print("; {} {:.0f}, ratio {:.2f}", mode, speed, own / speed);
    fmt::print("\n");
  }
  return 0;
}

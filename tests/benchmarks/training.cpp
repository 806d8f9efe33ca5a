// How fast training is on the CPU, two threads, compared with the same model in PyTorch (training_peer.py), eager and
// compiled. Also the time that a step waits for data, and its share of the machine's own product peak. One run, ours
// before and after theirs.
//
//     training [SECONDS] [--dtype fp32|bf16] [--size NAME] [--beside] [--alone] [--preload FILE]
//     training [SECONDS] [--dtype fp32|bf16] [--size NAME] --forms [--device cpu|cuda] [--encoding NAME,NAME] [--ours]
//     [--profile]
//
// SECONDS of each measurement, 15 by default. --beside: while one other process is busy. --alone: without the peer,
// whose Python, with torch, PE_TEST_PYTHON names. --preload: a library that the peer loads first, such as tcmalloc's.
// The product peak is the best of several shapes, by our product, by LibTorch's and, in fp32, by oneDNN's micro-kernel,
// taken before and after each size.
//
// --forms, which --device cuda implies: without the peer. Each size runs with our kernels and with plain ones, on a GPU
// deterministic and not, then other encodings with our kernels. Each result is printed immediately, and one that fails
// gives its reason and ends no other. --ours: without plain kernels. --profile: after each line the kernels (on a CPU
// the operations) that took most of five more steps.
#include <ATen/Parallel.h>
#include <ATen/native/CPUBlas.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/rand.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <torch/csrc/autograd/profiler_kineto.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "artifact/token_shards.h"
#include "benchmarks/peer_environment.h"
#include "kernels/product.h"
#include "model/compute.h"
#include "model/device.h"
#include "model/model_config.h"
#include "support/error.h"
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
using support::cat;

struct Size {
  const char* name;
  std::int64_t width, layers, heads, vocabulary, batch, length;
};
constexpr Size kSizes[] = {
    {"1.3M", 128, 4, 4, 2048, 16, 128}, {"7.3M", 256, 6, 8, 4096, 8, 256}, {"42M", 512, 6, 8, 32768, 4, 512}};
/// Of a GPU, the most telling first: 163.6M, 58.7M and 469.8M parameters.
constexpr Size kGpuSizes[] = {{"small", 768, 12, 12, 65536, 32, 1024},
                              {"tiny", 512, 6, 8, 65536, 64, 1024},
                              {"medium", 1024, 24, 16, 65536, 16, 1024}};

struct Options {
  double seconds = 15;
  std::string dtype = "auto", size, device = "cpu", encodings, preload;
  bool beside = false, alone = false, forms = false, ours = false, profile = false;
};

Options options_of(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--beside")
      options.beside = true;
    else if (word == "--alone")
      options.alone = true;
    else if (word == "--preload" && i + 1 < argc)
      options.preload = argv[++i];
    else if (word == "--dtype" && i + 1 < argc)
      options.dtype = argv[++i];
    else if (word == "--size" && i + 1 < argc)
      options.size = argv[++i];
    else if (word == "--device" && i + 1 < argc)
      options.device = argv[++i];
    else if (word == "--encoding" && i + 1 < argc)
      options.encodings = argv[++i];
    else if (word == "--forms")
      options.forms = true;
    else if (word == "--ours")
      options.ours = true;
    else if (word == "--profile")
      options.profile = true;
    else
      options.seconds = std::atof(argv[i]);
  }
  if (options.device == "cuda") options.forms = true;
  if (options.encodings.empty())
    options.encodings = options.device == "cuda" ? "rope,none,t5,alibi,kerple_log" : "rope";
  return options;
}

std::vector<Size> sizes_of(const Options& options) {
  std::vector<Size> sizes;
  const auto add = [&](const auto& known, bool by_name_alone) {
    for (const Size& size : known) {
      if (options.size.empty() ? !by_name_alone : options.size == size.name) sizes.push_back(size);
    }
  };
  add(kSizes, options.device == "cuda");
  add(kGpuSizes, options.device != "cuda");
  return sizes;
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

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

constexpr std::int64_t kPanel = 64;  // columns

/// b's columns in panels, [n/64, k, 64].
at::Tensor pack_for_brgemm(const at::Tensor& b) { return b.unflatten(1, {-1, kPanel}).transpose(0, 1).contiguous(); }

/// The third way to an fp32 product: oneDNN's micro-kernel, which LibTorch exports. @param packed by `pack_for_brgemm`.
/// Rows come by 64.
at::Tensor product_by_brgemm(const at::Tensor& a, const at::Tensor& packed) {
  constexpr std::int64_t kRows = 64, kDepth = 256;
  const std::int64_t rows = a.size(0), depth = a.size(1), panels = packed.size(0), columns = panels * kPanel,
                     blocks = rows / kRows;
  const at::Tensor c = at::empty({rows, columns}, a.options());
  const float *from_a = a.const_data_ptr<float>(), *from_b = packed.const_data_ptr<float>();
  float* to = c.data_ptr<float>();
  at::parallel_for(0, panels * blocks, 1, [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t at = first; at < last; ++at) {
      const std::int64_t panel = at / blocks, row = at % blocks * kRows;
      for (std::int64_t k = 0; k < depth; k += kDepth) {
        at::native::cpublas::brgemm(kRows, kPanel, std::min(kDepth, depth - k), depth, kPanel, columns, k > 0,
                                    from_a + row * depth + k, from_b + (panel * depth + k) * kPanel,
                                    to + row * columns + panel * kPanel);
      }
    }
    at::native::cpublas::brgemm_release();
  });
  return c;
}

/// The fastest product that was seen, in FLOP a second: of several shapes, by each way that this program has.
class ProductPeak {
 public:
  ProductPeak(at::Device device, at::ScalarType type) : device_(device), type_(type) { measure(); }

  void measure() {
    if (device_.is_cuda()) return try_shape(8192, 8192, 8192);
    try_shape(2048, 256, 256);  // small enough for a core to keep
    try_shape(1024, 1024, 1024);
    try_shape(2048, 2048, 2048);
  }
  double flops() const { return best_; }
  const std::string& what() const { return what_; }
  const std::map<std::string, double>& of_each_way() const { return of_way_; }

 private:
  void try_shape(std::int64_t rows, std::int64_t depth, std::int64_t columns) {
    const auto operand = [&](std::int64_t m, std::int64_t n) {
      return at::rand({m, n}, at::TensorOptions(at::kFloat).device(device_)).to(type_);
    };
    const at::Tensor a = operand(rows, depth), b = operand(depth, columns);
    std::vector<std::pair<const char*, std::function<at::Tensor()>>> ways{
        {"our product", [&] { return kernels::product(a, b); }}, {"LibTorch", [&] { return at::mm(a, b); }}};
    if (device_.is_cpu() && type_ == at::kFloat) {
      ways.emplace_back("oneDNN's brgemm", [&] { return product_by_brgemm(a, pack_for_brgemm(b)); });
      ways.emplace_back("oneDNN's brgemm, packed before",
                        [&, packed = pack_for_brgemm(b)] { return product_by_brgemm(a, packed); });
    }
    const std::string shape = fmt::format("{} x {} x {}", rows, depth, columns);
    for (const auto& [name, multiply] : ways) {
      double fastest = 0;
      const auto start = Clock::now();
      for (int i = 0; i < 4 || seconds_since(start) < 0.3; ++i) {
        const auto begin = Clock::now();
        const at::Tensor c = multiply();
        if (c.is_cuda()) c[0][0].item<double>();  // waits for it
        fastest = std::max(fastest, 2.0 * static_cast<double>(rows * depth * columns) / seconds_since(begin));
      }
      double& known = of_way_[cat(shape, " by ", name)];
      known = std::max(known, fastest);
      if (fastest <= best_) continue;
      best_ = fastest;
      what_ = cat(shape, " by ", name);
    }
  }

  at::Device device_;
  at::ScalarType type_;
  double best_ = 0;
  std::string what_;
  std::map<std::string, double> of_way_;  // "1024 x 1024 x 1024 by LibTorch" → FLOP a second
};

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
    writer.add(document == 15 ? artifact::Split::kValidation : artifact::Split::kTrain, ids.data(), ids.size(), 4 << 16,
               document);
  }
  artifact::DatasetTotals totals;
  writer.finish(totals);
  return folder;
}

/// Work of the device (on a CPU, of LibTorch) between start and stop, by name.
class Profile {
 public:
  explicit Profile(at::Device device) : device_(device) {}

  void start() {
    const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO);
    const std::set<torch::profiler::impl::ActivityType> activities{
        device_.is_cuda() ? torch::profiler::impl::ActivityType::CUDA : torch::profiler::impl::ActivityType::CPU};
    torch::autograd::profiler::prepareProfiler(config, activities);
    torch::autograd::profiler::enableProfiler(config, activities);
    begin_ = Clock::now();
  }
  /// @param steps  between start and stop
  void stop(int steps) {
    if (device_.is_cuda()) at::empty({1}, at::TensorOptions(device_)).zero_().item<float>();  // waits for all
    const double wall = seconds_since(begin_);
    const auto result = torch::autograd::profiler::disableProfiler();
    std::map<std::string, std::pair<double, int>> of_name;
    double busy = 0;
    for (const auto& event : result->events()) {
      if (event.deviceType() != device_.type()) continue;
      auto& [seconds, count] = of_name[event.name()];
      seconds += 1e-9 * static_cast<double>(event.durationNs());
      busy += 1e-9 * static_cast<double>(event.durationNs());
      ++count;
    }
    std::vector<std::pair<double, std::string>> lines;
    for (const auto& [name, of] : of_name) {
      lines.emplace_back(of.first, fmt::format("{:9.3f} ms {:5.1f} % {:7.1f} times  {:.150}", 1e3 * of.first / steps,
                                               100 * of.first / wall, static_cast<double>(of.second) / steps, name));
    }
    std::sort(lines.rbegin(), lines.rend());
    // On a CPU operations hold others, so that their sum says nothing.
    const std::string share = device_.is_cuda() ? fmt::format(", of which {:.3f} ms are busy", 1e3 * busy / steps) : "";
    text_ = fmt::format("  a step of {:.3f} ms{}:\n", 1e3 * wall / steps, share);
    for (std::size_t i = 0; i < std::min<std::size_t>(lines.size(), 30); ++i) text_ += cat("  ", lines[i].second, "\n");
  }
  const std::string& text() const { return text_; }

 private:
  at::Device device_;
  Clock::time_point begin_;
  std::string text_;
};

/// Times every step, and stops when enough are seen and, if that is wanted, five more have been profiled.
class Stopwatch : public support::Progress {
 public:
  Stopwatch(double seconds, Profile* profile) : seconds_(seconds), profile_(profile) {}
  void note(std::string_view line) override {
    constexpr std::string_view kRoute = "attention route: ";
    if (const auto at = line.find(kRoute); at != line.npos) route = line.substr(at + kRoute.size());
  }
  void warn(std::string_view line) override { fmt::print(stderr, "{}\n", line); }
  void advance(std::string_view, std::int64_t, std::int64_t, const Json&) override {
    const auto now = Clock::now();
    ++steps_;
    if (timed_until_ > 0) {
      if (steps_ == timed_until_ + kProfiled) {
        profile_->stop(kProfiled);
        support::request_stop(15);
      }
      return;
    }
    if (steps_ > 3) times.push_back(std::chrono::duration<double>(now - last_).count());
    if (steps_ == 3) begin_ = now;
    last_ = now;
    if (steps_ < 8 || std::chrono::duration<double>(now - begin_).count() < seconds_) return;
    timed_until_ = steps_;
    if (profile_ == nullptr)
      support::request_stop(15);
    else
      profile_->start();
  }
  void event(const Json&) override {}
  std::vector<double> times;
  std::string route;

 private:
  static constexpr int kProfiled = 5;  // steps

  double seconds_;
  Profile* profile_;
  int steps_ = 0, timed_until_ = 0;
  Clock::time_point begin_, last_;
};

struct Speed {
  double tokens_per_second = 0;
  double data_share = 0;  ///< of the time, spent on waiting for data
  double flops = 0;       ///< of a token
  double bytes = 0;       ///< the most that tensors held on a GPU
  std::string route;      ///< of attention
  std::string profile;
};

Speed measure(const Size& size, const Options& options, const model::ComputeConfig& compute, at::Device device,
              const std::string& encoding = "rope") {
  const test::TempFolder folder;
  training::TrainConfig config;
  config.model.width = size.width;
  config.model.layers = size.layers;
  config.model.heads = size.heads;
  config.model.encoding.json = encoding;
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
  Profile profile(device);
  Stopwatch watch(options.seconds, options.profile ? &profile : nullptr);
  workspace.progress = &watch;
  support::request_stop(0);
  if (device.is_cuda()) c10::getDeviceAllocator(device.type())->resetPeakStats(device.has_index() ? device.index() : 0);
  try {
    training::train(config, workspace);
  } catch (const support::StopRequest&) {
  }
  Speed speed;
  speed.bytes = model::memory_in_use(device);
  speed.route = watch.route;
  speed.profile = profile.text();
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

struct Form {
  std::string encoding;
  model::Kernels kernels = model::Kernels::kFused;
  model::Determinism deterministic = model::Determinism::kOn;
};

/// Our kernels and plain ones under the first encoding, then the others.
std::vector<Form> forms_of(const Options& options) {
  std::vector<Form> forms;
  const auto encodings = support::split(options.encodings, ',');
  const auto add = [&](const std::string& encoding, model::Kernels kernels) {
    forms.push_back({encoding, kernels, model::Determinism::kOn});
    if (options.device == "cuda") forms.push_back({encoding, kernels, model::Determinism::kOff});
  };
  add(encodings.front(), model::Kernels::kFused);
  if (!options.ours) add(encodings.front(), model::Kernels::kPlain);
  for (std::size_t i = 1; i < encodings.size(); ++i) add(encodings[i], model::Kernels::kFused);
  return forms;
}

/// @param peak that shares are of: the vendor's for a GPU, else the peak of products
void print_forms(const Options& options, const model::ComputeConfig& compute, at::Device device, double peak) {
  for (const Size& size : sizes_of(options)) {
    for (const Form& form : forms_of(options)) {
      model::ComputeConfig with = compute;
      with.kernels = form.kernels;
      with.deterministic = form.deterministic;
      fmt::print("{} ({}/{}/{}, vocabulary {}, {} x {}), {}, {} kernels, {}: ", size.name, size.width, size.layers,
                 size.heads, size.vocabulary, size.batch, size.length, form.encoding,
                 form.kernels == model::Kernels::kFused ? "our" : "plain",
                 form.deterministic == model::Determinism::kOn ? "deterministic" : "not deterministic");
      try {
        const Speed speed = measure(size, options, with, device, form.encoding);
        fmt::print("{:.0f} tokens/s, {:.1f} % of {:.4g} TFLOP/s, ", speed.tokens_per_second,
                   100 * speed.tokens_per_second * speed.flops / peak, peak / 1e12);
        if (device.is_cuda()) fmt::print("peak memory {:.2f} GiB, ", speed.bytes / (1 << 30));
        fmt::print("{:.3f} % waiting for data, attention {}\n", 100 * speed.data_share, speed.route);
        fmt::print("{}", speed.profile);
      } catch (const std::exception& error) {
        fmt::print("failed: {}\n", support::split(error.what(), '\n').front());
      }
      std::fflush(stdout);
    }
  }
}

void print_beside_peer(const Options& options, const model::ComputeConfig& compute, at::Device device,
                       ProductPeak& peak) {
  const BusyProcess busy(options.beside);
  const std::vector<Size> sizes = sizes_of(options);
  std::map<std::string, Speed> ours;
  for (const Size& size : sizes) {
    ours[size.name] = measure(size, options, compute, device);
    peak.measure();
  }
  std::map<std::string, std::map<std::string, double>> theirs;
  if (!options.alone) {
    const char* chosen = std::getenv("PE_TEST_PYTHON");
    const std::string python = chosen ? chosen : "python3";
    const std::string only = options.size.empty() ? "all" : options.size;
    const std::string dtype = compute.dtype == model::Precision::kBf16 ? "bf16" : "fp32";
    std::vector<std::string> command = test::peer_environment();
    if (!options.preload.empty()) command.push_back("LD_PRELOAD=" + options.preload);
    command.insert(command.end(), {python, PE_PEER, "2", std::to_string(options.seconds), dtype, only});
    const auto peer = support::capture(command);
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
    if (peer.status.code == 77)
      fmt::print("no peer: {} has no torch (PE_TEST_PYTHON names another): {}", python, peer.err);
    if (peer.status.code != 0 && peer.status.code != 77) fmt::print("the peer failed:\n{}\n", peer.err);
  }
  for (const Size& size : sizes) {
    // Before and after the peer; the slower one counts, so that a machine that woke up late does not flatter us.
    const Speed again = measure(size, options, compute, device);
    peak.measure();
    const double own = std::min(ours[size.name].tokens_per_second, again.tokens_per_second);
    fmt::print("{}: {:.0f} tokens/s ({:.0f}, {:.0f}), {:.0f} % of {:.0f} GFLOP/s ({}), {:.3f} % of it waiting for data",
               size.name, own, ours[size.name].tokens_per_second, again.tokens_per_second,
               100 * own * again.flops / peak.flops(), peak.flops() / 1e9, peak.what(), 100 * again.data_share);
    for (const auto& [mode, speed] : theirs[size.name])
      fmt::print("; {} {:.0f}, ratio {:.2f}", mode, speed, own / speed);
    fmt::print("\n");
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = options_of(argc, argv);
  const Json group = {{"device", options.device}, {"threads", 2}, {"dtype", options.dtype}};
  model::prepare({{"compute", group}}, argc, argv);  // sets the environment, and starts this program anew
  const auto compute = model::resolve(support::make_config<model::ComputeConfig>(group, "compute"));
  const at::Device device = model::open_device(compute);
  if (sizes_of(options).empty()) throw support::ConfigError(support::cat("there is no size '", options.size, "'"));
  ProductPeak peak(device, model::compute_type(compute));
  const std::string name = model::device_name(device);
  fmt::print("{}; a product of {}: {:.0f} GFLOP/s\n", model::device_summary(compute, device), peak.what(),
             peak.flops() / 1e9);
  std::fflush(stdout);
  model::ComputeConfig of_each = compute;
  of_each.micro_batch.reset();  // by the size's own batch
  if (options.forms)
    print_forms(options, of_each, device, model::peak_flops(device, name).value_or(peak.flops()));
  else
    print_beside_peer(options, of_each, device, peak);
  for (const auto& [way, rate] : peak.of_each_way()) fmt::print("{}: {:.0f} GFLOP/s at best\n", way, rate / 1e9);
  return 0;
} catch (const pe::support::Error& error) {
  fmt::print(stderr, "training: {}\n", error.what());
  return error.exit_code();
}

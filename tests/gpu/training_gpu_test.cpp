// Training on a GPU: against the CPU, byte for byte from run to run, stopped and resumed, and sums by NCCL; skipped
// where there is none.
#include <ATen/ops/arange.h>
#include <algorithm>
#include <cmath>

#include "cuda/plugin.h"
#include "gpu/has_gpu.h"
#include "kernels/dispatch.h"
#include "training/small_run.h"
#include "training/watching.h"

using namespace pe;        // NOLINT
using namespace pe::test;  // NOLINT

namespace {

/// Heads of width 64, which the kernels are for, and a dozen steps.
training::TrainConfig config_of(const Json& encoding, model::DeviceKind device,
                                model::Precision dtype = model::Precision::kAuto) {
  training::TrainConfig config = small_config();
  config.model.width = 128;
  config.model.heads = 2;
  config.model.encoding.json = encoding;
  config.train.batch = 8;
  config.train.length = 32;
  config.train.tokens = 12 * 8 * 32;
  config.train.validate_every = 0;
  config.train.optimizer.peak_lr = 3e-3;
  config.compute.device = device;
  config.compute.dtype = dtype;
  return config;
}

std::vector<double> losses_of(const std::filesystem::path& folder) {
  return artifact::read_metrics(folder / "metrics.h5").at("steps").reals("loss");
}

const std::vector<Json>& encodings() {
  static const std::vector<Json> all = {
      "none", "rope", "alibi", "t5", "fire", "cope", Json({{"stack", {"rope", "logn"}}}), "xpos"};
  return all;
}

/// The CPU again for tests that come after.
struct CpuAgain {
  ~CpuAgain() { model::open_device(model::resolve({})); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(training_gpu, *boost::unit_test::precondition(HasGpu{}) * boost::unit_test::fixture<CpuAgain>())

BOOST_AUTO_TEST_CASE(losses_are_the_cpus_in_fp32_and_near_them_in_bf16) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  for (std::size_t i = 0; i < encodings().size(); ++i) {
    const auto run = [&](const std::string& name, model::DeviceKind device, model::Precision dtype) {
      artifact::Workspace workspace = workspace_in(folder / (name + std::to_string(i)), data);
      training::train(config_of(encodings()[i], device, dtype), workspace);
      return losses_of(folder / (name + std::to_string(i)));
    };
    const auto cpu = run("cpu", model::DeviceKind::kCpu, model::Precision::kFp32),
               fp32 = run("fp32", model::DeviceKind::kCuda, model::Precision::kFp32),
               bf16 = run("bf16", model::DeviceKind::kCuda, model::Precision::kBf16);
    BOOST_REQUIRE(fp32.size() == cpu.size());
    for (std::size_t step = 0; step < cpu.size(); ++step) {
      BOOST_TEST(std::abs(fp32[step] - cpu[step]) <= 2e-3,
                 encodings()[i].dump() << ", step " << step << ": " << fp32[step] << ", CPU " << cpu[step]);
      BOOST_TEST(std::abs(bf16[step] - cpu[step]) <= 3e-2,
                 encodings()[i].dump() << ", step " << step << ": " << bf16[step] << ", CPU " << cpu[step]);
    }
    BOOST_TEST(cpu.back() < cpu.front() - 0.2);
  }
}

BOOST_AUTO_TEST_CASE(two_runs_give_the_same_bytes_and_so_does_one_that_was_stopped) {
  const NoStop no_stop;
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  for (std::size_t i = 0; i < encodings().size(); ++i) {
    training::TrainConfig config = config_of(encodings()[i], model::DeviceKind::kCuda);
    config.model.dropout = i == 1 ? 0.1 : 0;
    config.train.optimizer.z_loss = i == 2 ? 1e-3 : 0;
    const auto place = [&](const char* name) { return folder / (name + std::to_string(i)); };
    for (const char* name : {"once", "again"}) {
      artifact::Workspace workspace = workspace_in(place(name), data);
      training::train(config, workspace);
    }
    artifact::Workspace parts = workspace_in(place("parts"), data);
    Watching stop(5);
    parts.progress = &stop;
    BOOST_CHECK_THROW(training::train(config, parts), support::StopRequest);
    support::request_stop(0);
    Watching rest(-1);
    parts.progress = &rest;
    training::train(config, parts);
    BOOST_TEST(rest.warnings.empty());
    // Steps are read one step late, so the step after the stop may be done too.
    BOOST_TEST(rest.advances == 12 - stop.advances);
    for (const char* name : {"again", "parts"}) {
      for (const char* file : {"model.h5", "metrics.h5"}) {
        BOOST_TEST((support::read_file(place(name) / file) == support::read_file(place("once") / file)),
                   encodings()[i].dump() << " " << name << " " << file);
      }
    }
  }
}

/// State of a process before it opens NCCL.
struct Nccl {
  at::Device device = model::open_device(model::resolve(on_gpu()));
  const PeCudaTable& plugin = *kernels::plugin();
  char id[128] = {}, problem[256] = {};
  void* communicator = nullptr;

  Nccl() {
    BOOST_TEST_REQUIRE((plugin.nccl_open != nullptr), "the build found no nccl.h");
    BOOST_TEST_REQUIRE(plugin.nccl_unique_id(id) == 0);
  }
};

// One rank: the start, a sum and the end of NCCL, without another.
BOOST_FIXTURE_TEST_CASE(nccl_sums_with_one_rank, Nccl) {
  BOOST_TEST_REQUIRE(plugin.nccl_open(id, 1, 0, device.index(), 60, &communicator, problem, sizeof problem) == 0,
                     problem);
  const at::Tensor data = at::arange(1000, at::TensorOptions(at::kFloat).device(device)), before = data.clone();
  void* stream = plugin.current_stream(device.index());
  BOOST_TEST(plugin.nccl_start_sum(communicator, data.data_ptr(), data.numel(), false, stream) == 0);
  BOOST_TEST(plugin.nccl_start_broadcast(communicator, data.data_ptr(), static_cast<std::int64_t>(data.nbytes()), 0,
                                         stream) == 0);
  BOOST_TEST(plugin.nccl_join(communicator, stream) == 0);
  BOOST_TEST(data.equal(before));  // waits for the stream
  int done = 0;
  BOOST_TEST(plugin.nccl_done(communicator, &done, problem, sizeof problem) == 0);
  BOOST_TEST(done == 1);
  plugin.nccl_close(communicator, true);
}

// No other rank comes: the wait ends at its limit.
BOOST_FIXTURE_TEST_CASE(nccl_gives_up_on_ranks_that_do_not_come, Nccl) {
  BOOST_TEST(plugin.nccl_open(id, 2, 0, device.index(), 1, &communicator, problem, sizeof problem) != 0);
  BOOST_TEST(std::string(problem).find("compute.rank_timeout") != std::string::npos, problem);
}

BOOST_AUTO_TEST_SUITE_END()

// Stopped, killed and preempted at random steps, once or many times, in the same work folder or in new ones: the same
// bytes as undisturbed. PE_TEST_ROUNDS says how many interrupted runs of each kind (soak: dozens).
#include <gnu/libc-version.h>
#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <functional>

#include "model/device.h"
#include "small_run.h"
#include "support/error.h"
#include "support/random.h"
#include "training/branch_decay.h"
#include "training/drop_pe.h"
#include "training/extend.h"
#include "watching.h"

using namespace pe;
using namespace pe::test;
using training::TrainConfig;
namespace fs = std::filesystem;

namespace {

struct Killed {};

/// Stops, or dies without saving, after so many steps of an attempt.
class Interrupting : public Watching {
 public:
  Interrupting(std::int64_t steps, bool kills) : Watching(kills ? -1 : steps), steps_(kills ? steps : -1) {}
  void advance(std::string_view what, std::int64_t done, std::int64_t total, const Json& detail) override {
    Watching::advance(what, done, total, detail);
    if (++count_ == steps_) throw Killed();
  }

 private:
  std::int64_t steps_, count_ = 0;
};

int rounds() {
  const char* text = std::getenv("PE_TEST_ROUNDS");
  return text ? std::atoi(text) : 2;
}

struct Kind {
  const char* name;
  std::function<void(TrainConfig&)> change;
};

const std::vector<Kind>& kinds() {
  static const std::vector<Kind> all = {
      {"plain", [](TrainConfig&) {}},
      {"accumulated", [](TrainConfig& c) { c.compute.micro_batch = 1; }},
      {"cosine, draws per sample, parameters in the encoding",
       [](TrainConfig& c) {
         c.train.schedule = training::ScheduleKind::kCosine;
         c.model.encoding.json = Json::parse(
             R"({"stack": [{"kind": "randomised", "max_random_position": 64, "per_sample": true}, "rope", "ssmax"]})");
       }},
      {"decay, learned bias, averages",
       [](TrainConfig& c) {
         c.train.decay_share = 0.5;
         c.model.encoding.json = "t5";
         c.train.optimizer.ema = 0.9;
       }},
      {"Muon, clipped in every step",
       [](TrainConfig& c) {
         c.train.optimizer.kind = training::OptimizerKind::kMuon;
         c.train.optimizer.clip = 1e-3;
       }},
      // Wide enough that LibTorch's products do the work, and that threads share it.
      {"wide",
       [](TrainConfig& c) {
         c.model.width = 320;
         c.model.heads = 5;
         c.model.layers = 1;
         c.train.length = 128;
         c.train.tokens = 12 * 4 * 128;
       }},
      {"past the first logit sample and an epoch", [](TrainConfig& c) { c.train.tokens = 120 * 4 * 8; }},
      {"products in bf16",
       [](TrainConfig& c) {
         c.model.width = 64;
         c.compute.dtype = model::Precision::kBf16;
       }},
  };
  return all;
}

/// One attempt of a stage, with its checkpoint settings.
using Attempt = std::function<void(artifact::Workspace&, const training::CheckpointConfig&)>;

/// Interrupted until it is done. @param init the snapshot that it branches off, or empty. @return attempts
int finish(const Attempt& attempt_at, const fs::path& folder, const fs::path& data, const fs::path& init,
           support::Xoshiro& random, std::int64_t steps, int most) {
  fs::path earlier;
  for (int attempt = 0;; ++attempt) {
    training::CheckpointConfig now;
    // How often checkpoints are written, and which stay, is no part of a result.
    now.every = random.below(3) == 0 ? 0 : 1e6;
    now.keep = static_cast<std::int64_t>(1 + random.below(3));
    now.pin_every = static_cast<std::int64_t>(random.below(5));
    now.best = random.below(2) == 0;
    artifact::Workspace workspace = workspace_in(folder, data);
    if (!init.empty()) workspace.inputs["init"] = {{init, artifact::Kind::kCheckpoint, "", {}}};
    if (random.below(2) == 0) {  // a new attempt's folder, as the orchestrator makes one
      workspace.work = folder / ("attempt" + std::to_string(attempt));
      support::make_folders(workspace.work);
    }
    if (!earlier.empty()) workspace.resume = earlier;
    earlier = workspace.work;
    const bool last = attempt >= most;
    Interrupting interrupting(
        last ? -1 : static_cast<std::int64_t>(1 + random.below(static_cast<std::uint64_t>(steps))),
        random.below(2) == 0);
    workspace.progress = &interrupting;
    support::request_stop(!last && random.below(6) == 0 ? 15 : 0);  // preempted before the first step
    try {
      attempt_at(workspace, now);
      support::request_stop(0);  // at the last step it came too late
      BOOST_TEST(interrupting.warnings.empty());
      return attempt + 1;
    } catch (const support::StopRequest&) {
    } catch (const Killed&) {
    }
    support::request_stop(0);
    BOOST_TEST(interrupting.warnings.empty());
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(exactness, *boost::unit_test::fixture<NoStop>() * boost::unit_test::fixture<NoBf16After>())

BOOST_AUTO_TEST_CASE(interrupted_at_random_steps_gives_the_bytes_of_the_undisturbed_run) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  support::Xoshiro random(6);
  int attempts = 0, runs = 0;
  for (std::size_t k = 0; k < kinds().size(); ++k) {
    const Kind& kind = kinds()[k];
    TrainConfig config = small_config();
    kind.change(config);
    const std::int64_t steps = config.train.tokens / (config.train.batch * config.train.length);
    const fs::path whole = folder / ("whole" + std::to_string(k));
    artifact::Workspace undisturbed = workspace_in(whole, data);
    training::train(config, undisturbed);
    for (int round = 0; round < rounds(); ++round) {
      const fs::path parts = folder / (std::to_string(k) + "." + std::to_string(round));
      const Attempt attempt = [&](artifact::Workspace& workspace, const training::CheckpointConfig& checkpoint) {
        TrainConfig now = config;
        now.checkpoint = checkpoint;
        training::train(now, workspace);
      };
      attempts += finish(attempt, parts, data, {}, random, steps, round % 2 == 0 ? 3 : 50);
      ++runs;
      BOOST_TEST((support::read_file(parts / "model.h5") == support::read_file(whole / "model.h5")), kind.name);
      BOOST_TEST((support::read_file(parts / "metrics.h5") == support::read_file(whole / "metrics.h5")), kind.name);
    }
  }
  BOOST_TEST_MESSAGE(runs << " runs of " << kinds().size() << " kinds in " << attempts << " attempts");
}

// The store may hold data that a work folder no longer holds.
BOOST_AUTO_TEST_CASE(going_on_from_a_snapshot_gives_the_bytes_of_the_undisturbed_run) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  for (std::size_t k = 0; k < kinds().size(); ++k) {
    TrainConfig config = small_config();
    kinds()[k].change(config);
    const std::int64_t end = config.train.tokens / (config.train.batch * config.train.length);
    // Between two validations, and at one.
    for (const std::int64_t step : {end > 100 ? std::int64_t{107} : std::int64_t{7}, std::int64_t{10}}) {
      const fs::path place = folder / (std::to_string(k) + "-" + std::to_string(step));
      artifact::Workspace whole = workspace_in(place / "whole", data, {{"early", step}, {"end", end}});
      training::train(config, whole);
      artifact::Workspace longer = workspace_in(place / "longer", data, {{"end", end}});
      longer.earlier = whole.snapshots.front();
      Watching watch(-1);
      longer.progress = &watch;
      training::train(config, longer);
      BOOST_TEST(watch.warnings.empty());
      BOOST_TEST(watch.advances == end - step);
      for (const char* name : {"end-model.h5", "end-metrics.h5"}) {
        BOOST_TEST((support::read_file(place / "longer" / name) == support::read_file(place / "whole" / name)),
                   kinds()[k].name << " " << step << " " << name);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_snapshot_that_cannot_be_gone_on_from_is_passed_over) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace whole = workspace_in(folder / "whole", data, {{"early", 10}, {"end", 20}});
  training::train(small_config(), whole);
  for (const char* role : {"model", "metrics"}) {
    artifact::Workspace longer = workspace_in(folder / role, data, {{"end", 20}});
    longer.earlier = whole.snapshots.front();
    const fs::path damaged = folder / (std::string(role) + ".h5");
    std::string bytes = support::read_file(longer.earlier->outputs.at(role));
    bytes.resize(bytes.size() / 2);
    support::write_file_atomically(damaged, bytes, false);
    longer.earlier->outputs[role] = damaged;
    Watching watch(-1);
    longer.progress = &watch;
    training::train(small_config(), longer);
    BOOST_TEST(watch.warnings.size() == 1U);
    BOOST_TEST(
        (support::read_file(folder / role / "end-model.h5") == support::read_file(folder / "whole/end-model.h5")));
  }
  TrainConfig other = small_config();
  other.model.encoding.json = "alibi";
  artifact::Workspace longer = workspace_in(folder / "other", data, {{"end", 20}});
  longer.earlier = whole.snapshots.front();
  Watching watch(-1);
  longer.progress = &watch;
  training::train(other, longer);
  BOOST_TEST_REQUIRE(watch.warnings.size() == 1U);
  BOOST_TEST(watch.warnings[0].find("of another run (encoding") != std::string::npos, watch.warnings[0]);
}

BOOST_AUTO_TEST_CASE(branches_are_as_exact_as_their_trunk) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace trunk = workspace_in(folder / "trunk", data, {{"s10", 10}, {"s16", 16}});
  training::train(small_config(), trunk);

  struct Branch {
    const char* name;
    const char* snapshot;
    std::int64_t steps;
    Attempt attempt;
  };
  const auto decay = [](artifact::Workspace& workspace, const training::CheckpointConfig& checkpoint) {
    training::BranchDecayConfig config;
    config.decay.horizon_tokens = 20 * 4 * 8;
    config.decay.share = 0.2;
    config.decay.watch = {2, 3, 4};
    config.checkpoint = checkpoint;
    training::branch_decay(config, workspace);
  };
  const auto drop = [](const std::function<void(training::DropConfig&)>& change) {
    return [change](artifact::Workspace& workspace, const training::CheckpointConfig& checkpoint) {
      training::DropPeConfig config;
      config.drop.horizon_tokens = 20 * 4 * 8;
      config.drop.watch = {2, 3, 4};
      config.checkpoint = checkpoint;
      change(config.drop);
      training::drop_pe(config, workspace);
    };
  };
  const auto extend = [](const std::function<void(training::ExtendConfig&)>& change) {
    return [change](artifact::Workspace& workspace, const training::CheckpointConfig& checkpoint) {
      training::ExtendPeConfig config;
      config.extend.length = 32;
      config.extend.tokens = 8 * 32;  // 8 steps of one sequence
      config.extend.warmup_steps = 2;
      config.extend.watch = {2, 3, 4};
      config.checkpoint = checkpoint;
      change(config.extend);
      training::extend(config, workspace);
    };
  };
  const std::vector<Branch> branches = {
      {"decay", "s16", 4, decay},
      {"drop", "s10", 10, drop([](training::DropConfig&) {})},
      {"drop, moments kept, the control", "s10", 10, drop([](training::DropConfig& c) {
         c.arm = training::DropConfig::Arm::kNoDrop;
         c.optimizer = training::DropConfig::Optimizer::kKeep;
       })},
      {"drop, another norm, a scale fitted at the end", "s10", 10, drop([](training::DropConfig& c) {
         c.qk_norm = training::DropConfig::QkNorm::kWidth;
         c.logit_scale = training::DropConfig::LogitScale::kFitted;
       })},
      {"extend", "s16", 8, extend([](training::ExtendConfig&) {})},
      {"extend, an encoding with parameters of its own, cosine", "s16", 8, extend([](training::ExtendConfig& c) {
         c.encoding.json = Json::parse(R"({"stack": ["rope", "ssmax"]})");
         c.schedule = training::ScheduleKind::kCosine;
       })},
  };
  support::Xoshiro random(7);
  int attempts = 0, runs = 0;
  for (std::size_t k = 0; k < branches.size(); ++k) {
    const Branch& branch = branches[k];
    const fs::path init = folder / "trunk" / (std::string(branch.snapshot) + "-model.h5");
    const fs::path whole = folder / ("whole" + std::to_string(k));
    artifact::Workspace undisturbed = workspace_in(whole, data);
    undisturbed.inputs["init"] = {{init, artifact::Kind::kCheckpoint, "", {}}};
    training::CheckpointConfig rarely;
    rarely.every = 1e6;
    branch.attempt(undisturbed, rarely);
    for (int round = 0; round < rounds(); ++round) {
      const fs::path parts = folder / ("parts" + std::to_string(k) + "." + std::to_string(round));
      attempts += finish(branch.attempt, parts, data, init, random, branch.steps, round % 2 == 0 ? 3 : 50);
      ++runs;
      BOOST_TEST((support::read_file(parts / "model.h5") == support::read_file(whole / "model.h5")), branch.name);
      BOOST_TEST((support::read_file(parts / "metrics.h5") == support::read_file(whole / "metrics.h5")), branch.name);
    }
  }
  BOOST_TEST_MESSAGE(runs << " runs of " << branches.size() << " kinds in " << attempts << " attempts");
}

namespace {

/// A stopped training whose checkpoint says that another thread count wrote it.
artifact::Workspace of_another_machine(const TempFolder& folder, const fs::path& data) {
  artifact::Workspace workspace = workspace_in(folder / "run", data);
  TrainConfig config = small_config();
  config.compute.threads = 3;  // only stated, never set: the fingerprint holds it
  stop_after(9, workspace, [&] { training::train(config, workspace); });
  return workspace;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_resume_that_cannot_be_exact_marks_its_results) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace workspace = of_another_machine(folder, data);
  Watching stop(4);  // and the mark survives another stop
  workspace.progress = &stop;
  BOOST_CHECK_THROW(training::train(small_config(), workspace), support::StopRequest);
  BOOST_TEST_REQUIRE(stop.warnings.size() == 1U);
  BOOST_TEST(stop.warnings[0].find("not be bit-exact") != std::string::npos);
  support::request_stop(0);
  Watching rest(-1);
  workspace.progress = &rest;
  training::train(small_config(), workspace);
  BOOST_TEST(rest.warnings.empty());
  const artifact::CheckpointReader model(folder / "run/model.h5");
  const Json& mark = model.meta().extra.at("inexact");
  BOOST_TEST_REQUIRE(mark.size() == 1U);
  BOOST_TEST(mark[0]["step"] == 9);
  BOOST_TEST(mark[0]["there"] == Json({{"threads", 3}}));  // what differs, and no more
  BOOST_TEST(mark[0]["here"] == Json({{"threads", 1}}));
  BOOST_TEST(artifact::read_metrics(folder / "run/metrics.h5").facts["inexact"] == mark);
}

BOOST_AUTO_TEST_CASE(a_fingerprint_names_all_that_decides_bits) {
  model::ComputeConfig compute = model::resolve({});
  const Json here = model::fingerprint(compute, at::kCPU);
  for (const char* name : {"build", "torch", "mkl", "onednn", "device", "dtype", "isa", "threads"})
    BOOST_TEST(here.contains(name), name);
  BOOST_TEST(here["dtype"] == "fp32");
  compute.dtype = model::Precision::kBf16;
  BOOST_TEST(model::fingerprint(compute, at::kCPU)["dtype"] == "bf16");
  BOOST_TEST(here["libc"] == gnu_get_libc_version());
  compute.kernels = model::Kernels::kPlain;
  BOOST_TEST(model::fingerprint(compute, at::kCPU)["kernels"] == "plain");
  BOOST_TEST(!model::fingerprint(compute, at::kCPU).contains("deterministic"));
  compute.deterministic = model::Determinism::kOff;
  BOOST_TEST(model::fingerprint(compute, at::kCPU)["deterministic"] == false);
}

// The place of a word among its enumerators may move from build to build.
BOOST_AUTO_TEST_CASE(a_checkpoint_holds_words_and_no_numbers_of_enumerators) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace workspace = workspace_in(folder / "run", data);
  TrainConfig config = small_config();
  config.train.decay_share = 0.5;
  stop_after(9, workspace, [&] { training::train(config, workspace); });
  const artifact::CheckpointReader checkpoint(folder / "run/work/checkpoints/step-9.h5");
  BOOST_TEST(checkpoint.meta().extra["run"]["kind"] == "wsd");
  BOOST_TEST(checkpoint.meta().extra["run"]["shape"] == "1-sqrt");
}

BOOST_AUTO_TEST_CASE(or_refuses_where_that_is_asked_for) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace workspace = of_another_machine(folder, data);
  TrainConfig config = small_config();
  config.checkpoint.inexact = training::CheckpointConfig::Inexact::kRefuse;
  BOOST_CHECK_EXCEPTION(training::train(config, workspace), support::ConfigError, [](const auto& error) {
    return says(error, {"step-9.h5", "\"threads\":3", "\"threads\":1", "not be bit-exact", "checkpoint.inexact: mark"});
  });
  BOOST_TEST(!fs::exists(folder / "run/model.h5"));
  config.compute.threads = 3;
  training::train(config, workspace);
  BOOST_TEST(fs::exists(folder / "run/model.h5"));
}

BOOST_AUTO_TEST_SUITE_END()

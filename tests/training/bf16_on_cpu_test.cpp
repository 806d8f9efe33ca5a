// Training with products in bf16 on a CPU: as far from fp32 as seeds are from each other, or less.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>

#include "artifact/eval_table.h"
#include "artifact/metrics.h"
#include "evaluated_run.h"
#include "model/device.h"
#include "small_run.h"
#include "support/error.h"
#include "watching.h"

using namespace pe;
using namespace pe::test;
using training::TrainConfig;

namespace {

TrainConfig config_of(model::Precision dtype, std::int64_t seed) {
  TrainConfig config = small_config();
  config.model.width = 32;
  config.train.batch = 8;
  config.train.length = 32;
  config.train.tokens = 120 * 8 * 32;
  config.train.decay_share = 0.2;
  config.train.seed = seed;
  config.train.log_every = 10;
  config.train.validate_every = 0;
  config.train.validate_windows = 8;
  config.compute.dtype = dtype;
  return config;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(bf16_on_cpu, *boost::unit_test::fixture<NoBf16After>())

BOOST_AUTO_TEST_CASE(losses_differ_from_fp32_by_less_than_seeds_differ) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data", 80);
  std::map<model::Precision, std::vector<double>> losses;
  const auto run = [&](model::Precision dtype, std::int64_t seed, const std::string& name) {
    artifact::Workspace workspace = workspace_in(folder / name, data);
    training::train(config_of(dtype, seed), workspace);
    return artifact::read_metrics(folder / name / "metrics.h5").at("validation").reals("loss").back();
  };
  for (const std::int64_t seed : {1, 2, 3}) {
    losses[model::Precision::kFp32].push_back(run(model::Precision::kFp32, seed, "fp32-" + std::to_string(seed)));
    losses[model::Precision::kBf16].push_back(run(model::Precision::kBf16, seed, "bf16-" + std::to_string(seed)));
  }
  const std::vector<double>&fp32 = losses[model::Precision::kFp32], &bf16 = losses[model::Precision::kBf16];
  const auto [least, most] = std::minmax_element(fp32.begin(), fp32.end());
  BOOST_TEST(*most < 2.9);  // learned: a uniform guess has log(23) = 3.14
  double sum = 0;
  for (std::size_t i = 0; i < fp32.size(); ++i) {
    BOOST_TEST_MESSAGE("seed " << i + 1 << ": fp32 " << fp32[i] << ", bf16 " << bf16[i]);
    BOOST_TEST(fp32[i] != bf16[i]);  // products were rounded
    sum += bf16[i] - fp32[i];
  }
  BOOST_TEST(std::abs(sum / 3) < *most - *least);
  BOOST_TEST(run(model::Precision::kBf16, 1, "again") == bf16[0]);
  BOOST_TEST((support::read_file(folder / "again/model.h5") == support::read_file(folder / "bf16-1/model.h5")));
}

BOOST_AUTO_TEST_CASE(an_evaluation_is_that_in_fp32_but_for_rounded_products) {
  const TempFolder folder;
  const auto data = write_letters(folder / "data");
  TrainConfig config = config_of(model::Precision::kFp32, 1);
  config.train.tokens = 10 * 8 * 32;
  artifact::Workspace workspace = workspace_in(folder.path(), data);
  training::train(config, workspace);
  const auto nats = [&](const std::string& name, model::Precision dtype) {
    evaluate_perplexity(folder.path(), data, name, dtype);
    return std::log(artifact::read_eval_tables(folder / name).at("lm_summary").reals("ppl").front());
  };
  const double fp32 = nats("fp32.h5", model::Precision::kFp32), bf16 = nats("bf16.h5", model::Precision::kBf16);
  BOOST_TEST(bf16 != fp32);  // products were rounded
  BOOST_TEST(std::abs(bf16 - fp32) < 0.01);
  nats("again.h5", model::Precision::kBf16);
  BOOST_TEST((support::read_file(folder / "again.h5") == support::read_file(folder / "bf16.h5")));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_another_dtype_is_marked) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  artifact::Workspace workspace = workspace_in(folder / "run", data);
  TrainConfig config = small_config();
  config.compute.dtype = model::Precision::kBf16;
  stop_after(9, workspace, [&] { training::train(config, workspace); });
  Watching rest(-1);
  workspace.progress = &rest;
  training::train(small_config(), workspace);
  BOOST_TEST_REQUIRE(rest.warnings.size() == 1U);
  BOOST_TEST(rest.warnings[0].find("\"dtype\":\"bf16\"") != std::string::npos, rest.warnings[0]);
}

BOOST_AUTO_TEST_SUITE_END()

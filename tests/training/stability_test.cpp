#include "training/stability.h"

#include <ATen/ops/arange.h>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "model/language_model.h"
#include "small_run.h"
#include "support/random.h"

using namespace pe;
using namespace pe::test;
using training::spikes;
using training::stability_facts;
using training::StepFact;

namespace {

/// A loss of 3 with a little noise.
std::vector<StepFact> calm(std::size_t steps) {
  support::Xoshiro random(3);
  std::vector<StepFact> facts;
  for (std::size_t i = 0; i < steps; ++i) {
    facts.push_back({3 + 0.01 * (static_cast<double>(random.below(1000)) / 1000 - 0.5), 1.0});
  }
  return facts;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(stability)

BOOST_AUTO_TEST_CASE(a_calm_run_has_no_spikes) {
  BOOST_TEST(spikes(calm(400), 0, 0).empty());
  const Json facts = stability_facts(calm(400), {}, 0, 0, 2.0);
  BOOST_TEST(facts["spikes"] == 0);
  BOOST_TEST(facts["steps_judged"] == 272);
  BOOST_TEST(facts["diverged"] == false);
  BOOST_TEST(facts["clipped_share"] == 0.0);
  BOOST_TEST(facts["largest_logit"].is_null());
}

BOOST_AUTO_TEST_CASE(item_24_one_step_above_is_one_spike_and_a_smooth_decay_is_none) {
  std::vector<StepFact> steps(400, StepFact{2.0, 1.0});
  steps[250].loss = 3.0;
  const auto found = spikes(steps, 0, 0);
  BOOST_TEST_REQUIRE(found.size() == 1U);
  BOOST_TEST(found[0].mass == 1.0);
  std::vector<StepFact> smooth;
  for (int t = 1; t <= 2000; ++t) smooth.push_back({10 * std::pow(t, -0.3), 1.0});
  BOOST_TEST(spikes(smooth, 0, 0).empty());
}

BOOST_AUTO_TEST_CASE(steps_near_each_other_are_one_spike_and_its_mass_is_what_exceeds_the_median) {
  auto steps = calm(400);
  for (const std::size_t t : {200, 201, 205, 221}) steps[t].loss = 4;  // 205 to 221: sixteen apart
  steps[238].loss = 3.5;                                               // seventeen on: another
  const auto found = spikes(steps, 1000, 0);
  BOOST_TEST_REQUIRE(found.size() == 2U);
  BOOST_TEST(found[0].first == 1201);
  BOOST_TEST(found[0].last == 1222);
  BOOST_TEST(std::abs(found[0].mass - 4) < 0.02);
  BOOST_TEST(found[1].first == 1239);
  BOOST_TEST(std::abs(found[1].mass - 0.5) < 0.01);
}

BOOST_AUTO_TEST_CASE(warm_up_and_the_first_128_steps_are_not_judged) {
  auto steps = calm(400);
  steps[100].loss = steps[180].loss = 9;
  BOOST_TEST(spikes(steps, 0, 0).size() == 1U);
  BOOST_TEST(spikes(steps, 0, 181).empty());
  BOOST_TEST(spikes(steps, 0, 180).size() == 1U);
}

// Below 6 · 1.4826 · MAD where the loss is noisy, below 0.1 nats where it is not.
BOOST_AUTO_TEST_CASE(what_counts_depends_on_the_noise_before) {
  auto steps = calm(200);
  steps[150].loss = 3.09;
  BOOST_TEST(spikes(steps, 0, 0).empty());
  steps[150].loss = 3.12;
  BOOST_TEST(spikes(steps, 0, 0).size() == 1U);
  for (std::size_t t = 0; t < 150; ++t) steps[t].loss = 3 + (t % 2 == 0 ? 0.2 : -0.2);  // MAD 0.2: 1.78 nats
  steps[150].loss = 4.7;
  BOOST_TEST(spikes(steps, 0, 0).empty());
  steps[150].loss = 4.9;
  BOOST_TEST(spikes(steps, 0, 0).size() == 1U);
}

BOOST_AUTO_TEST_CASE(gradients_and_logits_are_summed_up) {
  auto steps = calm(200);
  for (std::size_t t = 0; t < 200; ++t) steps[t].grad_norm = static_cast<double>(t + 1);
  const Json facts = stability_facts(steps, {{0, 2.5}, {100, 7.0}, {200, 6.0}}, 0, 0, 150);
  BOOST_TEST(facts["grad_norm"]["median"] == 100.0);
  BOOST_TEST(facts["grad_norm"]["p99"] == 198.0);
  BOOST_TEST(facts["grad_norm"]["max"] == 200.0);
  BOOST_TEST(facts["noise_ratio"] == 1.98);
  BOOST_TEST(facts["clipped_share"] == 0.25);
  BOOST_TEST(facts["largest_logit"] == 7.0);
}

BOOST_AUTO_TEST_CASE(a_loss_that_rises_and_stays_is_divergence) {
  auto steps = calm(200);
  for (std::size_t t = 100; t < 200; ++t) steps[t].loss += 0.6;
  const Json facts = stability_facts(steps, {}, 0, 0, 0);
  BOOST_TEST(facts["diverged"] == true);
  BOOST_TEST(std::abs(facts["loss_rise"].get<double>() - 0.6) < 0.01);
  steps = calm(200);
  steps.back().loss = std::nan("");
  BOOST_TEST(stability_facts(steps, {}, 0, 0, 0)["diverged"] == true);
  BOOST_TEST(stability_facts(steps, {}, 0, 0, 0)["nonfinite_steps"] == 1);
}

// Logits are linear in the queries: none without them, three times as large with three times as large ones.
BOOST_AUTO_TEST_CASE(the_largest_logit_is_that_of_queries_and_keys) {
  const at::NoGradGuard no_gradients;
  model::ModelConfig config = small_config().model;
  config.layers = 1;
  config.qk_norm = false;  // which would undo the scale
  config.length = 8;
  const auto model = model::LanguageModel::make(config, kVocabulary, 5);
  const at::Tensor ids = at::arange(1, 9).view({1, 8});
  const auto largest = [&](double scale) {
    double found = -1;
    for (const auto& parameter : model.parameters()) {
      if (parameter.name == "layers.0.attention.query") at::Tensor(parameter.tensor.detach()).mul_(scale);
    }
    model::ForwardOptions options;
    options.largest_logit = &found;
    model.forward(ids, options);
    return found;
  };
  const double one = largest(1);
  BOOST_TEST(one > 0);
  BOOST_TEST(std::abs(largest(3) - 3 * one) <= 1e-5 * one);
  BOOST_TEST(largest(0) == 0);
}

BOOST_AUTO_TEST_CASE(every_training_records_its_facts) {
  const TempFolder folder;
  const auto data = write_shards(folder / "data");
  training::TrainConfig config = small_config();
  config.train.tokens = 230 * 4 * 8;
  config.train.optimizer.clip = 0.5;
  artifact::Workspace workspace = workspace_in(folder.path(), data);
  training::train(config, workspace);
  const artifact::Tables metrics = artifact::read_metrics(folder / "metrics.h5");
  const auto steps = metrics.at("attention").integers("step");
  BOOST_TEST(steps == (std::vector<std::int64_t>{0, 100, 200}), boost::test_tools::per_element());
  const auto logits = metrics.at("attention").reals("largest_logit");
  const Json& facts = metrics.facts["stability"];
  BOOST_TEST(facts["largest_logit"] == *std::max_element(logits.begin(), logits.end()));
  BOOST_TEST(facts["steps_judged"] == 102);
  BOOST_TEST(facts["clipped_share"].get<double>() > 0);
  BOOST_TEST(facts["grad_norm"]["max"].get<double>() >= facts["grad_norm"]["p99"].get<double>());
  BOOST_TEST(logits[0] < logits[2]);  // weights of 0.02 give logits near 0, and training makes them
}

BOOST_AUTO_TEST_SUITE_END()

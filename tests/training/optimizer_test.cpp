#include <boost/test/unit_test.hpp>
#include <torch/types.h>

#include "support/random.h"
#include "training/optimizer.h"

namespace {

using pe::model::LanguageModel;
using namespace pe::training;

LanguageModel tiny_model() {
  pe::model::ModelConfig config;
  config.width = 8;
  config.layers = 1;
  config.heads = 2;
  config.length = 4;
  config.encoding.json = "none";
  return LanguageModel::make(config, 11, 5);
}

void fill_gradients(const LanguageModel& model, std::uint64_t key, double scale) {
  model.zero_gradients();
  for (const auto& parameter : model.parameters()) {
    at::Tensor gradient = parameter.tensor.grad();
    std::vector<double> values(static_cast<std::size_t>(gradient.numel()));
    pe::support::philox_normal(key++, values.data(), values.size());
    const at::NoGradGuard guard;
    gradient.copy_(at::from_blob(values.data(), gradient.sizes(), at::TensorOptions(at::kDouble)) * scale);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(optimizer)

// Loshchilov and Hutter 2019, algorithm 2, in float64 loops; clipping by the norm of all gradients together.
BOOST_AUTO_TEST_CASE(a_step_is_adamw_by_a_naive_loop) {
  const OptimizerSettings settings{.peak_lr = 1, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-8, .weight_decay = 0.1, .clip = 1.0};
  const LanguageModel model = tiny_model();
  AdamW optimizer(model, settings, 3);

  struct Naive {
    std::vector<double> value, first, second;
    bool decay = false;
  };
  std::vector<Naive> naive;
  for (const auto& parameter : model.parameters()) {
    const at::Tensor t = parameter.tensor.detach().to(at::kDouble).contiguous();
    Naive entry{{t.data_ptr<double>(), t.data_ptr<double>() + t.numel()}, {}, {}, parameter.decay};
    entry.first.resize(entry.value.size());
    entry.second.resize(entry.value.size());
    naive.push_back(entry);
  }
  for (int i = 0; i < 3; ++i) {
    const double lr = 0.01 * (i + 1);
    fill_gradients(model, 100 + 50 * static_cast<std::uint64_t>(i), i == 1 ? 1e-3 : 1.0);
    double squares = 0;
    for (const auto& parameter : model.parameters()) squares += parameter.tensor.grad().to(at::kDouble).pow(2).sum().item<double>();
    const double norm = std::sqrt(squares), scale = norm > 1 ? 1 / norm : 1;
    for (std::size_t p = 0; p < naive.size(); ++p) {
      const at::Tensor g = model.parameters()[p].tensor.grad().to(at::kDouble).contiguous();
      for (std::size_t j = 0; j < naive[p].value.size(); ++j) {
        const double gradient = g.data_ptr<double>()[j] * scale;
        Naive& n = naive[p];
        n.first[j] = 0.9 * n.first[j] + 0.1 * gradient;
        n.second[j] = 0.98 * n.second[j] + 0.02 * gradient * gradient;
        const double m = n.first[j] / (1 - std::pow(0.9, i + 1)), v = n.second[j] / (1 - std::pow(0.98, i + 1));
        n.value[j] -= lr * (m / (std::sqrt(v) + 1e-8) + (n.decay ? 0.1 * n.value[j] : 0.0));
      }
    }
    const auto result = optimizer.step(3 + i, lr);
    BOOST_TEST(result.grad_norm == norm, boost::test_tools::tolerance(1e-5));
    BOOST_TEST(result.clipped == (norm > 1));
  }
  for (std::size_t p = 0; p < naive.size(); ++p) {
    const at::Tensor t = model.parameters()[p].tensor.detach().to(at::kDouble).contiguous();
    double worst = 0;
    for (std::size_t j = 0; j < naive[p].value.size(); ++j) worst = std::max(worst, std::abs(t.data_ptr<double>()[j] - naive[p].value[j]));
    BOOST_TEST_CONTEXT(model.parameters()[p].name) BOOST_TEST(worst <= 2e-6);
  }
}

BOOST_AUTO_TEST_CASE(gradients_that_are_not_finite_change_nothing) {
  const LanguageModel model = tiny_model();
  AdamW optimizer(model, {}, 0);
  fill_gradients(model, 1, 1);
  model.parameters()[2].tensor.grad().fill_(std::numeric_limits<float>::infinity());
  const at::Tensor before = model.groups()[0].values.clone();
  BOOST_TEST(!optimizer.step(0, 0.1).finite);
  BOOST_TEST(model.groups()[0].values.equal(before));
  BOOST_TEST(optimizer.first_moments()[0].eq(0).all().item<bool>());
}

BOOST_AUTO_TEST_SUITE_END()

#include <ATen/ops/diag.h>
#include <ATen/ops/diagonal.h>
#include <ATen/ops/linalg_svd.h>
#include <ATen/ops/matmul.h>
#include <torch/types.h>
#include <boost/test/unit_test.hpp>

#include "cuda/host_plugin.h"
#include "support/error.h"
#include "support/random.h"
#include "training/optimizer.h"
#include "training/step.h"

namespace {

using pe::model::LanguageModel;
using namespace pe::training;

LanguageModel tiny_model(const std::string& encoding = "none") {
  pe::model::ModelConfig config;
  config.width = 8;
  config.layers = 1;
  config.heads = 2;
  config.length = 4;
  config.encoding.json = encoding;
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

/// Row-major float64 matrix.
struct Matrix {
  std::int64_t rows = 0, columns = 0;
  std::vector<double> values;
  double& at(std::int64_t i, std::int64_t j) { return values[static_cast<std::size_t>(i * columns + j)]; }
  double at(std::int64_t i, std::int64_t j) const { return values[static_cast<std::size_t>(i * columns + j)]; }
};

Matrix naive_transposed(const Matrix& m) {
  Matrix t{m.columns, m.rows, std::vector<double>(m.values.size())};
  for (std::int64_t i = 0; i < m.rows; ++i) {
    for (std::int64_t j = 0; j < m.columns; ++j) t.at(j, i) = m.at(i, j);
  }
  return t;
}

Matrix naive_product(const Matrix& a, const Matrix& b) {
  Matrix c{a.rows, b.columns, std::vector<double>(static_cast<std::size_t>(a.rows * b.columns))};
  for (std::int64_t i = 0; i < a.rows; ++i) {
    for (std::int64_t j = 0; j < b.columns; ++j) {
      for (std::int64_t k = 0; k < a.columns; ++k) c.at(i, j) += a.at(i, k) * b.at(k, j);
    }
  }
  return c;
}

/// Jordan's listing, along the shorter side.
Matrix naive_newton_schulz(Matrix g) {
  const bool tall = g.rows > g.columns;
  if (tall) g = naive_transposed(g);
  double squares = 0;
  for (const double x : g.values) squares += x * x;
  for (double& x : g.values) x /= std::sqrt(squares) + 1e-7;
  for (int step = 0; step < 5; ++step) {
    const Matrix a = naive_product(g, naive_transposed(g)), aa = naive_product(a, a);
    Matrix b = a;
    for (std::size_t i = 0; i < b.values.size(); ++i) b.values[i] = -4.7750 * a.values[i] + 2.0315 * aa.values[i];
    const Matrix bx = naive_product(b, g);
    for (std::size_t i = 0; i < g.values.size(); ++i) g.values[i] = 3.4445 * g.values[i] + bx.values[i];
  }
  return tall ? naive_transposed(g) : g;
}

/// Three steps, the middle one unclipped, of the optimizer and of naive float64 loops.
void compare_with_naive_loops(const OptimizerSettings& settings, const std::string& encoding = "none") {
  const LanguageModel model = tiny_model(encoding);
  Optimizer optimizer(model, settings, 3);
  struct Naive {
    std::string name;
    Matrix value;
    std::vector<double> first, second;
    bool decay = false, muon = false;
    double rate = 1;
  };
  std::vector<Naive> naive;
  int muons = 0;
  for (const auto& parameter : model.parameters()) {
    const at::Tensor t = parameter.tensor.detach().to(at::kDouble).contiguous();
    Naive n{parameter.name,
            {t.size(0), t.numel() / t.size(0), {t.data_ptr<double>(), t.data_ptr<double>() + t.numel()}},
            {},
            {}};
    n.first.resize(n.value.values.size());
    n.second.resize(n.value.values.size());
    const bool block = n.name.find("layers.") == 0 && t.dim() == 2, encodings = n.name.find("encoding.") == 0;
    n.muon = settings.kind == OptimizerKind::kMuon && block;
    n.decay = block || settings.decay_on == DecayOn::kAll ||
              (settings.decay_on == DecayOn::kMatricesAndEmbeddings && n.name == "embedding");
    if (encodings) n.rate = settings.encoding_lr_scale;
    muons += n.muon ? 1 : 0;
    naive.push_back(n);
  }
  BOOST_TEST(muons == (settings.kind == OptimizerKind::kMuon ? 7 : 0));  // q, k, v, o, gate, up, down
  for (int i = 0; i < 3; ++i) {
    const double lr = 0.01 * (i + 1);
    fill_gradients(model, 100 + 50 * static_cast<std::uint64_t>(i), i == 1 ? 1e-3 : 1.0);
    double squares = 0;
    for (const auto& parameter : model.parameters())
      squares += parameter.tensor.grad().to(at::kDouble).pow(2).sum().item<double>();
    const double norm = std::sqrt(squares), scale = norm > settings.clip ? settings.clip / norm : 1;
    for (std::size_t p = 0; p < naive.size(); ++p) {
      const at::Tensor g = model.parameters()[p].tensor.grad().to(at::kDouble).contiguous();
      Naive& n = naive[p];
      std::vector<double>& w = n.value.values;
      const double decay = n.decay ? settings.weight_decay : 0, rate = lr * n.rate;
      if (n.muon) {
        Matrix u{n.value.rows, n.value.columns, std::vector<double>(w.size())};
        for (std::size_t j = 0; j < w.size(); ++j) {
          const double gradient = g.data_ptr<double>()[j] * scale;
          n.first[j] = settings.momentum * n.first[j] + gradient;
          u.values[j] = gradient + settings.momentum * n.first[j];
        }
        u = naive_newton_schulz(u);
        const double size = 0.2 * std::sqrt(static_cast<double>(std::max(u.rows, u.columns)));
        for (std::size_t j = 0; j < w.size(); ++j) w[j] -= rate * (decay * w[j] + size * u.values[j]);
        continue;
      }
      for (std::size_t j = 0; j < w.size(); ++j) {
        double gradient = g.data_ptr<double>()[j] * scale;
        if (settings.kind == OptimizerKind::kAdam) gradient += decay * w[j];
        n.first[j] = 0.9 * n.first[j] + 0.1 * gradient;
        n.second[j] = 0.98 * n.second[j] + 0.02 * gradient * gradient;
        const double m = n.first[j] / (1 - std::pow(0.9, i + 1)), v = n.second[j] / (1 - std::pow(0.98, i + 1));
        w[j] -= rate * (m / (std::sqrt(v) + 1e-8) + (settings.kind == OptimizerKind::kAdam ? 0 : decay * w[j]));
      }
    }
    const auto result = optimizer.step(3 + i, lr);
    BOOST_TEST(result.grad_norm == norm, boost::test_tools::tolerance(1e-12));
    BOOST_TEST(result.clipped == (norm > settings.clip));
  }
  for (std::size_t p = 0; p < naive.size(); ++p) {
    const at::Tensor t = model.parameters()[p].tensor.detach().to(at::kDouble).contiguous();
    double worst = 0;
    for (std::size_t j = 0; j < naive[p].value.values.size(); ++j) {
      worst = std::max(worst, std::abs(t.data_ptr<double>()[j] - naive[p].value.values[j]));
    }
    BOOST_TEST_CONTEXT(naive[p].name) BOOST_TEST(worst <= 2e-6);
  }
}

constexpr OptimizerSettings kAdamW{
    .peak_lr = 1, .beta1 = 0.9, .beta2 = 0.98, .eps = 1e-8, .weight_decay = 0.1, .clip = 1.0};

}  // namespace

BOOST_AUTO_TEST_SUITE(optimizer)

// Loshchilov and Hutter 2019, algorithm 2; clipping by the norm of all gradients together.
BOOST_AUTO_TEST_CASE(a_step_is_adamw_by_a_naive_loop) { compare_with_naive_loops(kAdamW); }

// Kingma and Ba 2015, algorithm 1, with weight decay as part of the gradient.
BOOST_AUTO_TEST_CASE(a_step_is_adam_by_a_naive_loop) {
  OptimizerSettings settings = kAdamW;
  settings.kind = OptimizerKind::kAdam;
  compare_with_naive_loops(settings);
}

BOOST_AUTO_TEST_CASE(a_step_is_muon_on_matrices_of_blocks_and_adamw_elsewhere_by_a_naive_loop) {
  OptimizerSettings settings = kAdamW;
  settings.kind = OptimizerKind::kMuon;
  compare_with_naive_loops(settings, "t5");
}

BOOST_AUTO_TEST_CASE(weight_decay_acts_on_what_is_named_and_encodings_have_a_rate_of_their_own) {
  for (const DecayOn decay_on : {DecayOn::kMatricesAndEmbeddings, DecayOn::kAll}) {
    OptimizerSettings settings = kAdamW;
    settings.decay_on = decay_on;
    settings.encoding_lr_scale = 3;
    compare_with_naive_loops(settings, "t5");
  }
}

// Taps of a convolution are numbers for each channel, side by side, and no map of vectors.
BOOST_AUTO_TEST_CASE(muon_takes_the_matrices_of_blocks_and_no_taps) {
  pe::model::ModelConfig config;
  config.width = 8;
  config.layers = 2;
  config.heads = 2;
  config.length = 4;
  config.canon.set = "ABCD";
  const LanguageModel model = LanguageModel::make(config, 11, 5);
  OptimizerSettings settings = kAdamW;
  settings.kind = OptimizerKind::kMuon;
  settings.decay_on = DecayOn::kAll;
  const Optimizer optimizer(model, settings, 0);
  const auto state = optimizer.state();
  const std::vector<std::string>& by_muon = state.back().absent;  // they have no second moments
  BOOST_TEST(by_muon.size() == 14U);
  int taps = 0;
  for (const auto& parameter : model.parameters()) {
    if (parameter.name.find("canon_") == std::string::npos) continue;
    ++taps;
    BOOST_TEST((std::find(by_muon.begin(), by_muon.end(), parameter.name) == by_muon.end()), parameter.name);
  }
  BOOST_TEST(taps == 8);
}

// The published polynomial takes singular values from 0.01 up near 1, and leaves singular vectors alone.
BOOST_AUTO_TEST_CASE(newton_schulz_moves_singular_values_near_one) {
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{6, 9}, {9, 6}}) {
    std::vector<double> values(static_cast<std::size_t>(rows * columns));
    pe::support::philox_normal(8, values.data(), values.size());
    const at::Tensor g = at::from_blob(values.data(), {rows, columns}, at::TensorOptions(at::kDouble)).clone();
    const auto [u, s, v] = at::linalg_svd(g, false);
    const at::Tensor made = at::matmul(at::matmul(u.t(), orthogonalised(g)), v.t());
    const at::Tensor values_now = at::diagonal(made);
    BOOST_TEST(values_now.min().item<double>() > 0.65);
    BOOST_TEST(values_now.max().item<double>() < 1.25);
    BOOST_TEST((made - at::diag(values_now)).abs().max().item<double>() < 1e-9);
  }
}

BOOST_AUTO_TEST_CASE(many_matrices_at_once_in_bf16_are_orthogonalised_as_each_alone) {
  for (const auto& [rows, columns] : {std::pair<std::int64_t, std::int64_t>{24, 40}, {40, 24}}) {
    std::vector<double> values(static_cast<std::size_t>(3 * rows * columns));
    pe::support::philox_normal(9, values.data(), values.size());
    const at::Tensor g = at::from_blob(values.data(), {3, rows, columns}, at::TensorOptions(at::kDouble)).clone();
    const at::Tensor found = orthogonalised_in_bf16(g.to(at::kFloat)).to(at::kDouble);
    for (std::int64_t i = 0; i < 3; ++i) {
      const at::Tensor alone = orthogonalised(g[i]);
      BOOST_TEST((found[i] - alone).norm().item<double>() < 0.02 * alone.norm().item<double>());
    }
  }
}

// With the plug-in, Muon takes all matrices of a shape in one call: its effect on weights is the same up to bf16's
// rounding.
BOOST_AUTO_TEST_CASE(muon_by_shape_moves_weights_as_muon_by_matrix) {
  OptimizerSettings settings = kAdamW;
  settings.kind = OptimizerKind::kMuon;
  const auto moved = [&] {
    const LanguageModel model = tiny_model("t5");
    Optimizer optimizer(model, settings, 0);
    std::vector<at::Tensor> before, after;
    for (const auto& parameter : model.parameters()) before.push_back(parameter.tensor.detach().clone());
    for (int step = 0; step < 2; ++step) {
      fill_gradients(model, 77 + 50 * static_cast<std::uint64_t>(step), 1.0);
      optimizer.step(step, 0.01);
    }
    for (std::size_t i = 0; i < before.size(); ++i) after.push_back(model.parameters()[i].tensor.detach() - before[i]);
    return after;
  };
  const auto alone = moved();
  const pe::test::StandIn plugin;
  const auto at_once = moved();
  BOOST_REQUIRE(alone.size() == at_once.size());
  for (std::size_t i = 0; i < alone.size(); ++i) {
    BOOST_TEST((at_once[i] - alone[i]).norm().item<double>() <= 0.03 * alone[i].norm().item<double>() + 1e-6);
  }
}

// As on a GPU: clipped steps, others, some without finite numbers, and more of those in a row than are allowed.
BOOST_AUTO_TEST_CASE(an_unread_step_does_what_a_step_does_and_changes_nothing_after_too_many_skips) {
  OptimizerSettings settings = kAdamW;
  settings.clip = 1;
  settings.skip_nonfinite = 1;
  const pe::test::StandIn plugin;
  const LanguageModel waits = tiny_model(), goes_on = tiny_model();
  Optimizer one(waits, settings, 0), other(goes_on, settings, 0);
  BOOST_REQUIRE(other.has_unread_steps());
  const auto require_equal = [&](std::int64_t step) {
    for (std::size_t i = 0; i < waits.groups().size(); ++i) {
      BOOST_TEST(waits.groups()[i].values.equal(goes_on.groups()[i].values), "values after step " << step);
      for (std::size_t part = 0; part < 2; ++part)
        BOOST_TEST(one.state()[part].flat[i].equal(other.state()[part].flat[i]), "moments after step " << step);
    }
  };
  const double infinity = std::numeric_limits<double>::infinity();
  const double losses[] = {3, 3, infinity, 2, 2, 2}, sizes[] = {1e-4, 1, 1, 1e22, 1e-3, 1};
  for (std::int64_t step = 0; step < 6; ++step) {
    for (const LanguageModel& model : {waits, goes_on})
      fill_gradients(model, 9 + static_cast<std::uint64_t>(step), sizes[step]);
    const bool too_many = step > 3;  // the third and the fourth step are skipped
    const at::Tensor before = goes_on.groups()[0].values.clone();
    const at::Tensor numbers =
        other.unread_step(step, 0.01, at::full({}, losses[step], at::TensorOptions(at::kDouble)));
    const Optimizer::StepResult found = other.result_of(numbers[0].item<double>(), numbers[1].item<double>());
    BOOST_TEST(before.equal(goes_on.groups()[0].values) == (step >= 2));
    if (too_many) continue;
    const Optimizer::StepResult expected = update(one, step, 0.01, losses[step]);
    BOOST_TEST(found.finite == (step < 2));
    BOOST_TEST(found.finite == expected.finite);
    BOOST_TEST(found.grad_norm == expected.grad_norm);
    BOOST_TEST(found.clipped == expected.clipped);
    BOOST_TEST(found.clipped == (step == 1));
    require_equal(step);
  }
  other.set_skipped(0);
  for (const LanguageModel& model : {waits, goes_on}) fill_gradients(model, 20, 1);
  other.unread_step(6, 0.01, at::ones({}, at::TensorOptions(at::kDouble)));
  update(one, 6, 0.01, 1);
  require_equal(6);
}

BOOST_AUTO_TEST_CASE(settings_survive_a_checkpoint_and_plain_ones_look_as_before) {
  OptimizerSettings settings = kAdamW;
  const pe::Json plain = to_json(settings, 7);
  BOOST_TEST(plain.size() == 7U);
  BOOST_TEST(plain["start"] == 7);
  settings.kind = OptimizerKind::kMuon;
  settings.momentum = 0.9;
  settings.decay_on = DecayOn::kAll;
  settings.encoding_lr_scale = 0.5;
  const OptimizerSettings back = optimizer_from_json(to_json(settings, 7), "a.h5");
  BOOST_TEST((back.kind == OptimizerKind::kMuon && back.decay_on == DecayOn::kAll));
  BOOST_TEST(back.momentum == 0.9);
  BOOST_TEST(back.encoding_lr_scale == 0.5);
  pe::Json odd = plain;
  odd["kind"] = "lion";
  BOOST_CHECK_EXCEPTION(optimizer_from_json(odd, "a.h5"), pe::support::ArtifactError, [](const auto& error) {
    return std::string(error.what()).find("a.h5: optimizer has \"lion\" for 'kind'") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(gradients_that_are_not_finite_change_nothing) {
  const LanguageModel model = tiny_model();
  Optimizer optimizer(model, {}, 0);
  fill_gradients(model, 1, 1);
  model.parameters()[2].tensor.grad().fill_(std::numeric_limits<float>::infinity());
  const at::Tensor before = model.groups()[0].values.clone();
  BOOST_TEST(!optimizer.step(0, 0.1).finite);
  BOOST_TEST(model.groups()[0].values.equal(before));
  BOOST_TEST(optimizer.state()[0].flat[0].eq(0).all().item<bool>());
  model.parameters()[2].tensor.grad().fill_(1e20F);  // its square is no fp32 number, as second moments are
  BOOST_TEST(!optimizer.step(0, 0.1).finite);
  BOOST_TEST(model.groups()[0].values.equal(before));
}

BOOST_AUTO_TEST_SUITE_END()

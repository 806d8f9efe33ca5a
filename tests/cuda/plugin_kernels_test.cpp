// The arithmetic of the CUDA plug-in's row kernels, on the CPU, against the same mathematics in float64 tensor operations.
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <map>

#include "encodings/registry.h"
#include "encodings/rotary.h"
#include "host_plugin.h"
#include "model/functions.h"
#include "model/language_model.h"
#include "support/random.h"
#include "training/optimizer.h"

namespace {

using at::Tensor;
using pe::model::Weight;
using pe::test::OnHost;
using pe::test::StandIn;

Tensor normals(std::uint64_t key, std::vector<std::int64_t> shape, double scale = 1) {
  Tensor t = at::empty(shape, at::kDouble);
  pe::support::philox_normal(key, t.data_ptr<double>(), static_cast<std::size_t>(t.numel()));
  return t * scale;
}

/// Both dtypes begin with values that bf16 holds, so that only arithmetic differs.
Tensor values(std::uint64_t key, std::vector<std::int64_t> shape, at::ScalarType type, double scale = 1) {
  return normals(key, std::move(shape), scale).to(at::kBFloat16).to(type);
}

/// Norms keep fp32 weights, as a model does.
Weight norm_weight(std::uint64_t key, std::int64_t width, at::ScalarType type) {
  const Tensor value = values(key, {width}, type == at::kDouble ? at::kDouble : at::kFloat);
  return {value, at::zeros_like(value)};
}

Weight matrix(std::uint64_t key, std::int64_t rows, std::int64_t columns, at::ScalarType type, double scale) {
  const Tensor value = values(key, {rows, columns}, type, scale);
  return {value, at::zeros(value.sizes(), value.options().dtype(type == at::kDouble ? at::kDouble : at::kFloat))};
}

using Outcome = std::map<std::string, Tensor>;

/// Elements against the largest one of the reference's tensor.
void compare(const Outcome& ours, const Outcome& reference, double allowed) {
  for (const auto& [name, expected] : reference) {
    const Tensor found = ours.at(name).to(at::kDouble);
    const double scale = std::max(1.0, expected.abs().max().item<double>());
    BOOST_TEST_CONTEXT(name) {
      BOOST_REQUIRE((found.sizes() == expected.sizes()));
      BOOST_TEST((found - expected.to(at::kDouble)).abs().max().item<double>() <= allowed * scale);
    }
  }
}

struct Case {
  at::ScalarType type;
  double allowed;
};
constexpr Case kCases[] = {{at::kFloat, 1e-5}, {at::kBFloat16, 2e-2}};

// Rows enough for several parts of the sums over them; widths with and without room for packs.
constexpr std::int64_t kBatch = 3, kLength = 50;

Outcome run_norm(at::ScalarType type, std::int64_t width, bool with_delta) {
  const Tensor x = values(1, {kBatch, kLength, width}, type).requires_grad_(true);
  const Tensor delta = values(4, {kBatch, kLength, width}, type).requires_grad_(true);
  const Weight w = norm_weight(2, width, type);
  const Tensor y = with_delta ? pe::model::add_rms_norm(x, delta, w, 1e-6) : pe::model::rms_norm(x, w, 1e-6);
  (y * values(3, {kBatch, kLength, width}, type)).sum().backward();
  Outcome outcome{{"y", y.detach()}, {"dx", x.grad()}, {"dweight", w.gradient}};
  if (with_delta) outcome["ddelta"] = delta.grad();
  return outcome;
}

Outcome run_feed_forward(at::ScalarType type, std::int64_t inner) {
  const std::int64_t width = 24;
  const Tensor x = values(1, {kBatch, kLength, width}, type).requires_grad_(true);
  const Weight norm = norm_weight(2, width, type), gate_up = matrix(3, 2 * inner, width, type, 0.3);
  const Weight down = matrix(4, width, inner, type, 0.3);
  const Tensor sum = pe::model::feed_forward(x, norm, gate_up, down, 1e-6);
  (sum * values(5, {kBatch, kLength, width}, type)).sum().backward();
  return {{"sum", sum.detach()}, {"dx", x.grad()}, {"dnorm", norm.gradient}, {"dgate_up", gate_up.gradient}, {"ddown", down.gradient}};
}

struct HeadsCase {
  bool qk_norm = true;
  std::int64_t pairs = 4;      ///< of heads with eight channels
  bool half = true;
  bool by_sequence = false;    ///< another table for each sequence
};

/// The reference turns afterwards, by the operators of encodings/rotary.h.
Outcome run_heads(at::ScalarType type, const HeadsCase& of) {
  const std::int64_t width = 20, d = 8;
  const pe::model::AttentionShape shape{4, 2, d, 1e-6};
  const Tensor x = values(1, {kBatch, kLength, width}, type).requires_grad_(true);
  const Weight norm = norm_weight(2, width, type), packed = matrix(3, 64, width, type, 0.3);
  const Weight q_norm = of.qk_norm ? norm_weight(4, d, type) : Weight{}, k_norm = of.qk_norm ? norm_weight(5, d, type) : Weight{};
  std::vector<std::int64_t> table{kLength, of.pairs};
  if (of.by_sequence) table.insert(table.begin(), kBatch);
  const auto table_type = type == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor angles = normals(6, table);
  const Tensor cos = angles.cos().to(at::kFloat).to(table_type), sin = angles.sin().to(at::kFloat).to(table_type);
  pe::model::Projected out;
  if (type == at::kDouble) {
    out = pe::model::norm_project(x, norm, packed, q_norm, k_norm, shape);
    if (of.pairs > 0) {
      const auto layout = of.half ? pe::encodings::PairLayout::kHalf : pe::encodings::PairLayout::kInterleaved;
      out.q = pe::encodings::rotate(out.q, cos, sin, layout);
      out.k = pe::encodings::rotate(out.k, cos, sin, layout);
    }
  } else {
    BOOST_REQUIRE(pe::model::rotates_with_heads(x, q_norm, k_norm, shape));
    out = pe::model::norm_project(x, norm, packed, q_norm, k_norm, shape,
                                  of.pairs > 0 ? pe::kernels::Rotation{cos, sin, of.half} : pe::kernels::Rotation{});
  }
  ((out.q * values(7, {kBatch, 4, kLength, d}, type)).sum() + (out.k * values(8, {kBatch, 2, kLength, d}, type)).sum() +
   (out.v * values(9, {kBatch, 2, kLength, d}, type)).sum())
      .backward();
  Outcome outcome{{"q", out.q.detach()}, {"k", out.k.detach()}, {"v", out.v.detach()}, {"dx", x.grad()},
                  {"dnorm", norm.gradient}, {"dpacked", packed.gradient}};
  if (of.qk_norm) outcome.insert({{"dquery_norm", q_norm.gradient}, {"dkey_norm", k_norm.gradient}});
  return outcome;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(plugin_kernels)

BOOST_AUTO_TEST_CASE(norms_agree_with_float64_and_so_do_those_of_sums) {
  for (const std::int64_t width : {37, 40, 256}) {
    for (const bool with_delta : {false, true}) {
      const Outcome reference = run_norm(at::kDouble, width, with_delta);
      for (const auto& [type, allowed] : kCases) {
        const StandIn plugin;
        BOOST_TEST_CONTEXT(width << " " << with_delta << " " << type) compare(run_norm(type, width, with_delta), reference, allowed);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(swiglu_agrees_with_float64) {
  for (const std::int64_t inner : {21, 32}) {
    const Outcome reference = run_feed_forward(at::kDouble, inner);
    for (const auto& [type, allowed] : kCases) {
      const StandIn plugin;
      BOOST_TEST_CONTEXT(inner << " " << type) compare(run_feed_forward(type, inner), reference, 2 * allowed);
    }
  }
}

BOOST_AUTO_TEST_CASE(heads_that_are_normed_and_turned_at_once_agree_with_float64_in_two_steps) {
  for (const HeadsCase& of : {HeadsCase{}, {.qk_norm = false}, {.pairs = 3}, {.half = false}, {.qk_norm = false, .pairs = 2, .half = false},
                              {.by_sequence = true}, {.pairs = 0}, {.qk_norm = false, .pairs = 0}}) {
    const Outcome reference = run_heads(at::kDouble, of);
    for (const auto& [type, allowed] : kCases) {
      const StandIn plugin;
      BOOST_TEST_CONTEXT(of.qk_norm << of.pairs << of.half << of.by_sequence << " " << type)
      compare(run_heads(type, of), reference, 2 * allowed);
    }
  }
}

BOOST_AUTO_TEST_CASE(two_runs_add_in_the_same_order) {
  const StandIn plugin;
  for (const auto& [type, allowed] : kCases) {
    const Outcome once = run_heads(type, {}), again = run_heads(type, {});
    for (const auto& [name, tensor] : once) BOOST_TEST(tensor.equal(again.at(name)), name);
  }
}

// By a naive loop in float64, and by LibTorch's fused step in fp32.
BOOST_AUTO_TEST_CASE(adam_agrees_with_its_formula_and_with_libtorchs) {
  const StandIn plugin;
  constexpr std::int64_t kCount = 100;
  for (const bool coupled : {false, true}) {
    const pe::kernels::AdamRates rates{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.95, .decay = 0.1, .eps = 1e-8, .step = 7, .divisor = 2.5,
                                     .coupled = coupled};
    const Tensor w = normals(1, {kCount}), g = normals(2, {kCount}), m = normals(3, {kCount}, 0.1), v = normals(4, {kCount}).square_();
    const auto fresh = [](const Tensor& t) { return t.to(at::kFloat).clone(); };
    const pe::kernels::AdamBuffers ours{fresh(w), fresh(g), fresh(m), fresh(v), at::zeros({kCount}, at::kBFloat16)};
    BOOST_TEST_REQUIRE((pe::kernels::operations_for(ours.values).adam != nullptr));
    pe::kernels::operations_for(ours.values).adam(ours, rates);
    const pe::kernels::AdamBuffers theirs{fresh(w), fresh(g), fresh(m), fresh(v), {}};
    Tensor steps = at::zeros({}, at::kFloat), scale = at::zeros({}, at::kFloat);
    steps.fill_(7.0);
    scale.fill_(2.5);
    if (coupled) {
      at::_fused_adam_({theirs.values}, {theirs.gradients}, {theirs.first}, {theirs.second}, {}, {steps}, rates.lr, rates.beta1,
                       rates.beta2, rates.decay, rates.eps, false, false, scale);
    } else {
      at::_fused_adamw_({theirs.values}, {theirs.gradients}, {theirs.first}, {theirs.second}, {}, {steps}, rates.lr, rates.beta1,
                        rates.beta2, rates.decay, rates.eps, false, false, scale);
    }
    double worst = 0;
    for (std::int64_t i = 0; i < kCount; ++i) {
      double value = w[i].item<double>(), gradient = g[i].item<double>() / 2.5;
      if (coupled) gradient += 0.1 * value;
      else value *= 1 - 0.01 * 0.1;
      const double first = 0.9 * m[i].item<double>() + 0.1 * gradient;
      const double second = 0.95 * v[i].item<double>() + 0.05 * gradient * gradient;
      value -= 0.01 * (first / (1 - std::pow(0.9, 7))) / (std::sqrt(second / (1 - std::pow(0.95, 7))) + 1e-8);
      worst = std::max({worst, std::abs(ours.values[i].item<double>() - value), std::abs(ours.first[i].item<double>() - first),
                        std::abs(ours.second[i].item<double>() - second)});
    }
    BOOST_TEST(worst <= 2e-6, coupled);
    BOOST_TEST((ours.values - theirs.values).abs().max().item<float>() <= 1e-6F);
    BOOST_TEST(ours.shadow.equal(ours.values.to(at::kBFloat16)));
  }
}

// Whole models, trained for some steps: the rotation goes with the heads, and the optimizer writes what products read.
BOOST_AUTO_TEST_CASE(a_model_trains_as_it_does_without_the_plugin) {
  const auto train = [](at::ScalarType type, bool with_plugin, const char* encoding, pe::model::NormPlacement placement) {
    std::optional<StandIn> plugin;
    if (with_plugin) plugin.emplace();
    pe::model::ModelConfig config;
    config.width = 32;
    config.layers = 2;
    config.heads = std::string(encoding) == "t5" ? 1 : 4;   // attention has kernels for wide heads
    config.length = 24;
    config.norm_placement = placement;
    config.encoding.json = encoding;
    const auto model = pe::model::LanguageModel::make(config, 60, 3, at::kCPU, type);
    pe::training::OptimizerSettings settings;
    settings.clip = 0.5;
    pe::training::Optimizer optimizer(model, settings, 0);
    Tensor ids = at::empty({4, 24}, at::kLong), targets = at::empty({96}, at::kLong);
    for (std::int64_t i = 0; i < 96; ++i) {
      ids.data_ptr<std::int64_t>()[i] = i * i % 60;
      targets.data_ptr<std::int64_t>()[i] = (i * i + 7) % 60;
    }
    std::vector<double> losses;
    for (std::int64_t step = 0; step < 5; ++step) {
      model.zero_gradients();
      const Tensor hidden = model.forward(ids, {.training = true, .step = step});
      const Tensor loss = model.loss_sum(hidden.reshape({-1, 32}), targets) / 96;
      loss.backward();
      losses.push_back(loss.item<double>());
      optimizer.step(step, 0.01);
      for (const auto& group : model.groups()) {
        if (group.shadow.defined()) BOOST_TEST(group.shadow.equal(group.values.to(type)));
      }
    }
    return losses;
  };
  using pe::model::NormPlacement;
  for (const char* encoding : {"rope", "alibi", "xpos", "t5"}) {
    for (const NormPlacement placement : {NormPlacement::kPre, NormPlacement::kPost}) {
      for (const auto& [type, allowed] : {Case{at::kFloat, 1e-4}, Case{at::kBFloat16, 3e-2}}) {
        BOOST_TEST_CONTEXT(encoding << " " << type << " " << (placement == NormPlacement::kPre)) {
          const std::vector<double> without = train(at::kFloat, false, encoding, placement);
          OnHost::turned = 0;
          const std::vector<double> with = train(type, true, encoding, placement);
          const bool turns = std::string(encoding) == "rope" && placement == NormPlacement::kPre;
          BOOST_TEST((OnHost::turned > 0) == turns);
          for (std::size_t i = 0; i < with.size(); ++i) BOOST_TEST(std::abs(with[i] - without[i]) <= allowed);
          BOOST_TEST(with.back() < with.front() - 0.1);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

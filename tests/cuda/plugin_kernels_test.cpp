// The arithmetic of the CUDA plug-in's row kernels, on the CPU, against the same mathematics in float64 tensor
// operations.
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <torch/csrc/autograd/custom_function.h>
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>
#include <map>

#include "encodings/content/ordered_gather.h"
#include "encodings/registry.h"
#include "encodings/rotary/rotary.h"
#include "host_plugin.h"
#include "kernels/normals.h"
#include "model/functions.h"
#include "model/language_model.h"
#include "support/random.h"
#include "training/optimizer.h"

namespace {

using at::Tensor;
using pe::model::Weight;
using pe::test::normals;
using pe::test::OnHost;
using pe::test::StandIn;

/// Both dtypes begin with values that bf16 holds, so that only arithmetic differs.
Tensor values(std::uint64_t key, std::vector<std::int64_t> shape, at::ScalarType type, double scale = 1) {
  return normals(key, shape, scale).to(at::kBFloat16).to(type);
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
  return {{"sum", sum.detach()},
          {"dx", x.grad()},
          {"dnorm", norm.gradient},
          {"dgate_up", gate_up.gradient},
          {"ddown", down.gradient}};
}

struct HeadsCase {
  bool qk_norm = true;
  std::int64_t pairs = 4;
  bool half = true;
  bool by_sequence = false;  ///< another table for each sequence
  std::int64_t width = 8, heads = 4, kv_heads = 2;
};

std::ostream& operator<<(std::ostream& out, const HeadsCase& of) {
  return out << (of.qk_norm ? "norm, " : "no norm, ") << of.pairs << (of.half ? " half, " : " interleaved, ")
             << of.width << " wide, " << of.heads << "/" << of.kv_heads
             << (of.by_sequence ? ", table by sequence" : "");
}

/// The reference rotates afterwards, by the operators of encodings/rotary/rotary.h.
Outcome run_heads(at::ScalarType type, const HeadsCase& of) {
  const std::int64_t width = 20, d = of.width;
  const pe::model::AttentionShape shape{of.heads, of.kv_heads, d, 1e-6};
  const Tensor x = values(1, {kBatch, kLength, width}, type).requires_grad_(true);
  const Weight norm = norm_weight(2, width, type),
               packed = matrix(3, (of.heads + 2 * of.kv_heads) * d, width, type, 0.3);
  const Weight q_norm = of.qk_norm ? norm_weight(4, d, type) : Weight{},
               k_norm = of.qk_norm ? norm_weight(5, d, type) : Weight{};
  std::vector<std::int64_t> table{kLength, of.pairs};
  if (of.by_sequence) table.insert(table.begin(), kBatch);
  const auto table_type = type == at::kDouble ? at::kDouble : at::kFloat;
  const Tensor angles = normals(6, table);
  const Tensor cos = angles.cos().to(at::kFloat).to(table_type), sin = angles.sin().to(at::kFloat).to(table_type);
  pe::model::ProjectedHeads out;
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
  ((out.q * values(7, {kBatch, of.heads, kLength, d}, type)).sum() +
   (out.k * values(8, {kBatch, of.kv_heads, kLength, d}, type)).sum() +
   (out.v * values(9, {kBatch, of.kv_heads, kLength, d}, type)).sum())
      .backward();
  Outcome outcome{{"q", out.q.detach()}, {"k", out.k.detach()},    {"v", out.v.detach()},
                  {"dx", x.grad()},      {"dnorm", norm.gradient}, {"dpacked", packed.gradient}};
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
        BOOST_TEST_CONTEXT(width << " " << with_delta << " " << type)
        compare(run_norm(type, width, with_delta), reference, allowed);
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
  for (const HeadsCase& of : {HeadsCase{},
                              {.qk_norm = false},
                              {.pairs = 3},
                              {.half = false},
                              {.qk_norm = false, .pairs = 2, .half = false},
                              {.by_sequence = true},
                              {.pairs = 0},
                              {.qk_norm = false, .pairs = 0},
                              // With packs: whole heads, parts of them, more heads than run concurrently, wide ones.
                              {.pairs = 32, .width = 64},
                              {.pairs = 8, .width = 64, .heads = 12, .kv_heads = 3},
                              {.pairs = 16, .half = false, .by_sequence = true, .width = 64},
                              {.qk_norm = false, .pairs = 8, .half = false, .width = 24},
                              {.pairs = 64, .width = 128},
                              {.pairs = 256, .width = 512, .heads = 2, .kv_heads = 1},
                              {.pairs = 0, .width = 512}}) {
    const Outcome reference = run_heads(at::kDouble, of);
    for (const auto& [type, allowed] : kCases) {
      const StandIn plugin;
      BOOST_TEST_CONTEXT(of << " " << type)
      compare(run_heads(type, of), reference, 2 * allowed);
    }
  }
}

BOOST_AUTO_TEST_CASE(two_runs_add_in_the_same_order) {
  const StandIn plugin;
  for (const auto& [type, allowed] : kCases) {
    const HeadsCase of{.pairs = 32, .width = 64, .heads = 12, .kv_heads = 3};
    const Outcome once = run_heads(type, of), again = run_heads(type, of);
    for (const auto& [name, tensor] : once) BOOST_TEST(tensor.equal(again.at(name)), name);
  }
}

BOOST_AUTO_TEST_CASE(a_rotation_alone_takes_any_table_and_goes_back) {
  constexpr std::int64_t kHeads = 4;
  for (const auto& [d, pairs] : {std::pair<std::int64_t, std::int64_t>{64, 32}, {64, 8}, {16, 8}, {10, 5}, {12, 3}}) {
    for (const auto& table :
         std::vector<std::vector<std::int64_t>>{{kLength}, {kBatch, kLength}, {1, 2, kLength}, {kBatch, 4, kLength}}) {
      for (const auto layout : {pe::encodings::PairLayout::kHalf, pe::encodings::PairLayout::kInterleaved}) {
        std::vector<std::int64_t> sizes = table;
        sizes.push_back(pairs);
        // Not all cosines: tables may include a scale, as in xPos.
        const Tensor cos = normals(1, sizes).to(at::kFloat), sin = normals(2, sizes).to(at::kFloat);
        const auto run = [&](at::ScalarType type, const Tensor& c, const Tensor& s) {
          const Tensor leaf = values(3, {kBatch, kLength, kHeads, d}, type).requires_grad_(true);
          const Tensor out =
              pe::encodings::rotate(leaf.transpose(1, 2), c, s, layout);  // heads as a projection has them
          (out * values(4, {kBatch, kHeads, kLength, d}, type)).sum().backward();
          return Outcome{{"out", out.detach()}, {"dx", leaf.grad()}};
        };
        const Outcome reference = run(at::kDouble, cos.to(at::kDouble), sin.to(at::kDouble));
        for (const auto& [type, allowed] : kCases) {
          const StandIn plugin;
          OnHost::rotated_alone = 0;
          BOOST_TEST_CONTEXT(d << " " << pairs << " " << table.size() << " " << type)
          compare(run(type, cos, sin), reference, allowed);
          BOOST_TEST(OnHost::rotated_alone == 2);
        }
      }
    }
  }
}

// Vocabularies with and without room for packs, and larger than the threads of a block hold.
BOOST_AUTO_TEST_CASE(the_cross_entropy_agrees_with_float64_with_a_cap_and_a_z_loss) {
  for (const std::int64_t vocabulary : {1, 37, 40, 4096, 9001, 36868, 70008}) {
    for (const pe::kernels::LogitShape& shape : {pe::kernels::LogitShape{}, {3, 0}, {0, 0.2}, {3, 0.2, 0.25}}) {
      const std::vector<std::int64_t> chosen{vocabulary - 1, -1, 0};
      const Tensor targets = at::tensor(chosen);
      for (const auto& [type, allowed] : kCases) {
        const auto run = [&](at::ScalarType in, const pe::kernels::Operations& by, bool gradient) {
          Tensor logits = values(5, {3, vocabulary}, in, 2),
                 losses = at::empty({3}, at::TensorOptions(in == at::kDouble ? at::kDouble : at::kFloat));
          logits[0][vocabulary / 2] = 30;
          by.cross_entropy(logits, targets, losses, gradient, shape);
          return Outcome{{"losses", losses}, {"gradient", logits}};
        };
        const Outcome reference = run(at::kDouble, pe::kernels::kPlainOperations, true);
        const StandIn plugin;
        const Outcome ours = run(type, pe::kernels::kPluginOperations, true),
                      alone = run(type, pe::kernels::kPluginOperations, false);
        BOOST_TEST_CONTEXT(vocabulary << " " << shape.softcap << " " << shape.z_loss << " " << type) {
          // Losses of up to 30, computed in fp32; gradients of up to 1 + 2 · z · lse, rounded to the type.
          compare({{"losses", ours.at("losses")}}, {{"losses", reference.at("losses")}}, 1e-5);
          compare({{"gradient", ours.at("gradient")}}, {{"gradient", reference.at("gradient")}},
                  type == at::kFloat ? 1e-5 : 4e-3);
          BOOST_TEST(alone.at("losses").equal(ours.at("losses")));
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(logits_that_are_not_numbers_show_in_the_loss) {
  const StandIn plugin;
  Tensor logits = at::zeros({3, 40}, at::kFloat), losses = at::empty({3}, at::kFloat);
  logits[0].fill_(std::numeric_limits<float>::quiet_NaN());
  logits[1][39] = std::numeric_limits<float>::quiet_NaN();
  logits[2].fill_(-std::numeric_limits<float>::infinity());
  logits[2][7] = 1;
  pe::kernels::kPluginOperations.cross_entropy(logits, at::tensor(std::vector<std::int64_t>{0, 1, 7}), losses, false,
                                               {});
  BOOST_TEST(std::isnan(losses[0].item<float>()));
  BOOST_TEST(std::isnan(losses[1].item<float>()));
  BOOST_TEST(losses[2].item<float>() == 0);  // all the weight on one
}

// Runs of equal ids shorter and longer than a piece, beginning and ending at its edges and elsewhere; ids of nothing.
BOOST_AUTO_TEST_CASE(the_embeddings_gradient_agrees_with_float64_however_often_a_token_stands) {
  for (const auto& runs : std::vector<std::vector<std::int64_t>>{
           {1}, {64}, {65}, {1, 63, 1}, {64, 64, 64}, {63, 2, 127, 300, 1, 1, 5}, {700}, {3, 129}}) {
    std::vector<std::int64_t> ids;
    for (std::size_t r = 0; r < runs.size(); ++r)
      ids.insert(ids.end(), static_cast<std::size_t>(runs[r]), static_cast<std::int64_t>(2 * r) - 2);
    for (std::size_t i = 0; i < ids.size(); ++i) std::swap(ids[i], ids[i * 7919 % ids.size()]);  // as a text has them
    const auto count = static_cast<std::int64_t>(ids.size());
    for (const std::int64_t width : {24, 37}) {
      for (const auto& [type, allowed] : kCases) {
        const Tensor rows = values(6, {count, width}, type), table = normals(7, {20, width}).to(at::kFloat);
        Tensor expected = table.to(at::kDouble), sizes = at::zeros({20, width}, at::kDouble);
        for (std::int64_t i = 0; i < count; ++i) {
          if (ids[static_cast<std::size_t>(i)] < 0) continue;
          expected[ids[static_cast<std::size_t>(i)]] += 0.5 * rows[i].to(at::kDouble);
          sizes[ids[static_cast<std::size_t>(i)]] += 0.5 * rows[i].to(at::kDouble).abs();
        }
        const StandIn plugin;
        const auto run = [&] {
          const Tensor gradient = table.clone();
          pe::kernels::kPluginOperations.add_embedding_gradient(rows, at::tensor(ids), gradient, 0.5);
          return gradient;
        };
        const Tensor found = run();
        // Sums in fp32 of at most 700 terms, bounded by the sum of their absolute values.
        BOOST_TEST(((found.to(at::kDouble) - expected).abs() <= 4e-6 * sizes + 1e-6).all().item<bool>(),
                   runs.size() << " runs, " << width);
        BOOST_TEST(found.equal(run()));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(dropout_masks_have_the_bits_that_the_host_draws) {
  const std::vector<std::uint64_t> keys{1, 0xFEDCBA9876543210, ~std::uint64_t{0}};
  for (const double p : {0.1, 0.5, 0.999}) {
    for (const auto& [type, allowed] : kCases) {
      for (const std::int64_t count : {1, 4, 27}) {
        const StandIn plugin;
        const Tensor like = at::empty({3, count}, type);
        const Tensor mask = pe::kernels::operations_for(like).dropout_mask(like, p, keys);
        for (std::int64_t row = 0; row < 3; ++row) {
          std::vector<double> draws(static_cast<std::size_t>(count));
          pe::support::philox_uniform(keys[static_cast<std::size_t>(row)], draws.data(), draws.size());
          for (std::int64_t i = 0; i < count; ++i) {
            const Tensor expected =
                at::full({}, draws[static_cast<std::size_t>(i)] < p ? 0 : static_cast<float>(1 / (1 - p)), type);
            BOOST_TEST(mask[row][i].equal(expected));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_gradient_of_a_gather_is_summed_in_the_order_of_the_keys) {
  constexpr std::int64_t kPositions = 6, kKeys = 40;
  const Tensor index = (normals(1, {2, 3, 5, kKeys}).abs() * 3).to(at::kLong).clamp_max(kPositions - 1);
  const auto run = [&](at::ScalarType type) {
    const Tensor z = values(2, {2, 3, 5, kPositions}, type).requires_grad_(true);
    const Tensor read = pe::encodings::gather_in_order(z, index);
    (read * values(3, {2, 3, 5, kKeys}, type)).sum().backward();
    return Outcome{{"read", read.detach()}, {"dz", z.grad()}};
  };
  const Outcome reference = run(at::kDouble);
  for (const auto& [type, allowed] : kCases) {
    const StandIn plugin;
    BOOST_TEST((pe::kernels::operations_for(at::empty({1}, type)).gather_gradient != nullptr));
    compare(run(type), reference, allowed);
  }
}

// By a naive loop in float64, and by LibTorch's fused step in fp32.
BOOST_AUTO_TEST_CASE(adam_agrees_with_its_formula_and_with_libtorchs) {
  const StandIn plugin;
  for (const auto& [count, coupled] :
       std::vector<std::pair<std::int64_t, bool>>{{100, false}, {100, true}, {101, false}}) {  // 100: in packs
    const pe::kernels::AdamRates rates{.lr = 0.01,
                                       .beta1 = 0.9,
                                       .beta2 = 0.95,
                                       .decay = 0.1,
                                       .eps = 1e-8,
                                       .step = 7,
                                       .divisor = 2.5,
                                       .coupled = coupled};
    const Tensor w = normals(1, {count}), g = normals(2, {count}), m = normals(3, {count}, 0.1),
                 v = normals(4, {count}).square_();
    const auto fresh = [](const Tensor& t) { return t.to(at::kFloat).clone(); };
    const pe::kernels::AdamBuffers ours{fresh(w), fresh(g), fresh(m), fresh(v), at::zeros({count}, at::kBFloat16)};
    BOOST_TEST_REQUIRE((pe::kernels::operations_for(ours.values).adam != nullptr));
    pe::kernels::operations_for(ours.values).adam(ours, rates);
    const pe::kernels::AdamBuffers theirs{fresh(w), fresh(g), fresh(m), fresh(v), {}};
    Tensor steps = at::zeros({}, at::kFloat), scale = at::zeros({}, at::kFloat);
    steps.fill_(7.0);
    scale.fill_(2.5);
    if (coupled) {
      at::_fused_adam_({theirs.values}, {theirs.gradients}, {theirs.first}, {theirs.second}, {}, {steps}, rates.lr,
                       rates.beta1, rates.beta2, rates.decay, rates.eps, false, false, scale);
    } else {
      at::_fused_adamw_({theirs.values}, {theirs.gradients}, {theirs.first}, {theirs.second}, {}, {steps}, rates.lr,
                        rates.beta1, rates.beta2, rates.decay, rates.eps, false, false, scale);
    }
    double worst = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      double value = w[i].item<double>(), gradient = g[i].item<double>() / 2.5;
      if (coupled)
        gradient += 0.1 * value;
      else
        value *= 1 - 0.01 * 0.1;
      const double first = 0.9 * m[i].item<double>() + 0.1 * gradient;
      const double second = 0.95 * v[i].item<double>() + 0.05 * gradient * gradient;
      value -= 0.01 * (first / (1 - std::pow(0.9, 7))) / (std::sqrt(second / (1 - std::pow(0.95, 7))) + 1e-8);
      worst =
          std::max({worst, std::abs(ours.values[i].item<double>() - value),
                    std::abs(ours.first[i].item<double>() - first), std::abs(ours.second[i].item<double>() - second)});
    }
    BOOST_TEST(worst <= 2e-6, coupled);
    BOOST_TEST((ours.values - theirs.values).abs().max().item<float>() <= 1e-6F);
    BOOST_TEST(ours.shadow.equal(ours.values.to(at::kBFloat16)));
  }
}

// Whole models, trained for some steps: the rotation goes with the heads, and the optimizer writes products' inputs.
BOOST_AUTO_TEST_CASE(a_model_trains_as_it_does_without_the_plugin) {
  const auto train = [](at::ScalarType type, bool with_plugin, const pe::Json& encoding,
                        pe::model::NormPlacement placement) {
    std::optional<StandIn> plugin;
    if (with_plugin) plugin.emplace();
    pe::model::ModelConfig config;
    config.width = 32;
    config.layers = 2;
    config.heads = encoding == "t5" ? 1 : 4;  // attention has kernels for wide heads
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
  const pe::Json stack = {{"stack", {"rope", "logn"}}};
  for (const pe::Json& encoding : {pe::Json("rope"), pe::Json("alibi"), pe::Json("xpos"), pe::Json("t5"), stack}) {
    for (const NormPlacement placement : {NormPlacement::kPre, NormPlacement::kPost}) {
      for (const auto& [type, allowed] : {Case{at::kFloat, 1e-4}, Case{at::kBFloat16, 3e-2}}) {
        BOOST_TEST_CONTEXT(encoding << " " << type << " " << (placement == NormPlacement::kPre)) {
          const std::vector<double> without = train(at::kFloat, false, encoding, placement);
          OnHost::rotated_with_heads = OnHost::rotated_alone = 0;
          const std::vector<double> with = train(type, true, encoding, placement);
          const bool turns = encoding == "rope" && placement == NormPlacement::kPre;
          BOOST_TEST((OnHost::rotated_with_heads > 0) == turns);
          BOOST_TEST((OnHost::rotated_alone > 0) ==
                     (!turns && (encoding == "rope" || encoding == "xpos" || encoding == stack)));
          for (std::size_t i = 0; i < with.size(); ++i) BOOST_TEST(std::abs(with[i] - without[i]) <= allowed);
          BOOST_TEST(with.back() < with.front() - 0.1);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

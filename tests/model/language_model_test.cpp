#include <ATen/ops/empty.h>
#include <torch/types.h>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "encodings/registry.h"
#include "model/differences.h"
#include "model/flat_zeros.h"
#include "model/language_model.h"
#include "model/naive_decoder.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/random.h"

namespace {

using at::Tensor;
using pe::model::LanguageModel;
using pe::model::ModelConfig;
using pe::test::Matrix;
using Naive = pe::test::NaiveDecoder;

ModelConfig small(const std::string& encoding = "none") {
  ModelConfig config;
  config.width = 16;
  config.layers = 2;
  config.heads = 4;
  config.key_value_heads = 2;
  config.feed_forward = 24;
  config.length = 8;
  config.encoding.json = encoding;
  return config;
}

Tensor some_ids(std::int64_t batch, std::int64_t length, std::int64_t vocabulary) {
  Tensor ids = at::empty({batch, length}, at::kLong);
  pe::support::Xoshiro random(7);
  for (std::int64_t i = 0; i < ids.numel(); ++i) {
    ids.data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(vocabulary)));
  }
  return ids;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(language_model)

BOOST_AUTO_TEST_CASE(weights_that_are_drawn_later_are_those_of_a_model_that_drew_at_once) {
  using pe::model::Weights;
  ModelConfig config = small("t5");
  for (const auto type : {at::kFloat, at::kBFloat16}) {
    const LanguageModel at_once = LanguageModel::make(config, 19, 3, at::kCPU, type);
    const LanguageModel later = LanguageModel::make(config, 19, 3, at::kCPU, type, Weights::kLater);
    BOOST_TEST(!later.groups()[0].values.equal(at_once.groups()[0].values));
    later.draw();
    for (std::size_t i = 0; i < 2; ++i) {
      BOOST_TEST(later.groups()[i].values.equal(at_once.groups()[i].values));
      if (type == at::kBFloat16) BOOST_TEST(later.groups()[i].shadow.equal(at_once.groups()[i].shadow));
    }
    at::Tensor values = later.groups()[0].values;
    values.fill_(0.25);
    later.draw();  // once
    BOOST_TEST(values.eq(0.25).all().item<bool>());
  }
}

BOOST_AUTO_TEST_CASE(large_buffers_are_zero_aligned_and_ours_to_write) {
  for (const std::int64_t count : {0, 5, 3'000'000}) {
    const at::Tensor zeros = pe::model::flat_zeros(count, at::TensorOptions(at::kFloat));
    BOOST_TEST(zeros.numel() == count);
    BOOST_TEST(reinterpret_cast<std::uintptr_t>(zeros.data_ptr()) % 64 == 0U);
    BOOST_TEST(zeros.eq(0).all().item<bool>());
    const at::Tensor view = zeros.narrow(0, count / 2, count - count / 2);
    zeros.fill_(1.5);
    BOOST_TEST(view.eq(1.5).all().item<bool>());
  }
}

BOOST_AUTO_TEST_CASE(moved_contents_reach_every_view) {
  for (const std::int64_t count : {0, 5, 3'000'000}) {
    const at::Tensor to = pe::model::flat_zeros(count, at::TensorOptions(at::kFloat)),
                     view = to.narrow(0, count / 2, count - count / 2);
    const at::Tensor from = pe::model::flat_zeros(count, at::TensorOptions(at::kFloat));
    from.fill_(1.5);
    pe::model::move_contents(from, to);
    BOOST_TEST(to.eq(1.5).all().item<bool>());
    BOOST_TEST(view.eq(1.5).all().item<bool>());
    to.fill_(2);
    BOOST_TEST(view.eq(2).all().item<bool>());
  }
}

BOOST_AUTO_TEST_CASE(the_forward_pass_is_the_definition_by_naive_loops) {
  ModelConfig config = small();
  config.init_std = 0.3;  // so that every part matters
  using pe::model::QkNormOver;
  for (const auto& [type, allowed, over] : {std::tuple{at::kDouble, 1e-10, QkNormOver::kHead},
                                            {at::kFloat, 2e-4, QkNormOver::kHead},
                                            {at::kDouble, 1e-10, QkNormOver::kWidth},
                                            {at::kFloat, 2e-4, QkNormOver::kWidth}}) {
    config.qk_norm_over = over;
    const LanguageModel model = LanguageModel::make(config, 19, 3, at::kCPU, type);
    const Tensor ids = some_ids(2, 7, 19);
    const at::NoGradGuard guard;
    Tensor others = model.groups()[1].values;  // norms among them, which start at ones
    others.add_(at::arange(others.numel(), others.options()).sin_(), 0.2);
    const Tensor hidden = model.forward(ids).to(at::kDouble);
    const Naive naive(model);
    for (std::int64_t b = 0; b < 2; ++b) {
      const auto* row = ids.data_ptr<std::int64_t>() + b * 7;
      const Matrix expected = naive.hidden({{row, row + 7}})[0];
      for (std::int64_t t = 0; t < 7; ++t)
        for (std::int64_t i = 0; i < 16; ++i) {
          BOOST_TEST(std::abs(hidden[b][t][i].item<double>() -
                              expected[static_cast<std::size_t>(t)][static_cast<std::size_t>(i)]) <= allowed);
        }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_gradient_is_that_of_differences_for_a_parameter_of_each_kind) {
  ModelConfig config = small("rope");
  config.init_std = 0.3;
  config.qk_norm_over = pe::model::QkNormOver::kWidth;
  const LanguageModel model = LanguageModel::make(config, 19, 3, at::kCPU, at::kDouble);
  const Tensor ids = some_ids(2, 6, 19), targets = some_ids(1, 12, 19).reshape({12});
  pe::test::check_gradients(
      model,
      [&] {
        return model.loss_sum(model.forward(ids).reshape({12, 16}), targets);
      },
      "rope");
}

BOOST_AUTO_TEST_CASE(what_two_encodings_share_is_bit_identical_for_a_seed) {
  const LanguageModel base = LanguageModel::make(small("none"), 19, 42);
  for (const auto& entry : pe::encodings::encodings()) {
    ModelConfig config = small(entry.name);
    config.key_value_heads = 0;
    ModelConfig plain = small("none");
    plain.key_value_heads = 0;
    config.length = plain.length = 16;               // rope_id turns twice in it
    if (entry.facts.heads_per_query != 1) continue;  // it has other projections
    const LanguageModel other = LanguageModel::make(config, 19, 42), reference = LanguageModel::make(plain, 19, 42);
    BOOST_TEST_CONTEXT(entry.name) {
      for (std::size_t i = 0; i < reference.parameters().size(); ++i) {
        BOOST_REQUIRE(reference.parameters()[i].name == other.parameters()[i].name);
        BOOST_TEST(reference.parameters()[i].tensor.equal(other.parameters()[i].tensor));
      }
      BOOST_TEST(other.parameter_count() - other.encoding_parameter_count() == reference.parameter_count());
    }
  }
}

// Golden values of the project's random functions: key(42, fnv1a64("embedding")) and its first normals.
BOOST_AUTO_TEST_CASE(initial_weights_come_from_their_name_and_seed) {
  const LanguageModel model = LanguageModel::make(small(), 19, 42);
  const Tensor embedding = model.parameters().front().tensor;
  BOOST_TEST(model.parameters().front().name == "embedding");
  const double expected[] = {1.338102019, -.687162228,  -.080811292, -1.000357242,
                             1.090459951, -1.160227044, .628166204,  -.733905954};
  for (std::int64_t i = 0; i < 8; ++i) {
    BOOST_TEST(embedding[0][i].item<float>() == static_cast<float>(0.02 * expected[i]),
               boost::test_tools::tolerance(1e-6F));
  }
}

BOOST_AUTO_TEST_CASE(output_projections_start_smaller_by_the_root_of_twice_the_layers) {
  ModelConfig config = small();
  config.width = 128;
  const LanguageModel model = LanguageModel::make(config, 19, 42);
  for (const auto& parameter : model.parameters()) {
    const bool residual =
        parameter.name.find("output") != std::string::npos || parameter.name.find("down") != std::string::npos;
    if (parameter.tensor.dim() != 2) {
      BOOST_TEST(parameter.tensor.eq(1).all().item<bool>());
      continue;
    }
    const double expected = residual ? 0.02 / std::sqrt(4.0) : 0.02;
    BOOST_TEST(parameter.tensor.std().item<double>() == expected, boost::test_tools::tolerance(0.06));
  }
}

BOOST_AUTO_TEST_CASE(matrices_decay_and_nothing_else_does) {
  ModelConfig config = small("learned");
  config.tied = false;
  const LanguageModel model = LanguageModel::make(config, 19, 42);
  for (const auto& parameter : model.parameters()) {
    const bool expected =
        parameter.tensor.dim() == 2 && parameter.name != "embedding" && parameter.name.rfind("encoding.", 0) != 0;
    BOOST_TEST_CONTEXT(parameter.name) BOOST_TEST(parameter.decay == expected);
  }
}

BOOST_AUTO_TEST_CASE(the_future_does_not_matter) {
  const LanguageModel model = LanguageModel::make(small("rope"), 19, 42);
  const at::NoGradGuard guard;
  Tensor ids = some_ids(1, 8, 19);
  const Tensor before = model.forward(ids);
  ids[0][5] = (ids[0][5].item<std::int64_t>() + 1) % 19;
  const Tensor after = model.forward(ids);
  BOOST_TEST(before.narrow(1, 0, 5).allclose(after.narrow(1, 0, 5), 0, 1e-6));
  BOOST_TEST(!before.narrow(1, 5, 3).allclose(after.narrow(1, 5, 3), 0, 1e-4));
}

BOOST_AUTO_TEST_CASE(losses_and_logits_agree) {
  const LanguageModel model = LanguageModel::make(small("alibi"), 19, 42);
  const at::NoGradGuard guard;
  const Tensor ids = some_ids(2, 8, 19), targets = some_ids(1, 16, 19).reshape({16});
  const Tensor hidden = model.forward(ids);
  const Tensor logits = model.logits(hidden).reshape({16, 19});
  const Tensor expected = logits.logsumexp(1) - logits.gather(1, targets.unsqueeze(1)).squeeze(1);
  BOOST_TEST(model.losses(hidden, targets).allclose(expected, 1e-5, 1e-5));
  BOOST_TEST(std::abs(model.loss_sum(hidden.reshape({16, 16}), targets).item<double>() -
                      expected.sum().item<double>()) <= 1e-3);
}

// β(s) = 1 + 0.412 · ln s as DroPE publishes it at 2, 4 and 8 times the training length; nothing up to it.
BOOST_AUTO_TEST_CASE(a_length_scale_multiplies_logits_by_its_published_values) {
  ModelConfig config = small();
  config.init_std = 0.5;
  const auto with = [&](const pe::Json& encoding) {
    config.encoding.json = encoding;
    return LanguageModel::make(config, 19, 42, at::kCPU, at::kDouble);
  };
  const at::NoGradGuard guard;
  const LanguageModel scaled = with({{"kind", "length_scale"}, {"slope", 0.412}});
  for (const auto& [length, beta] :
       {std::pair<std::int64_t, double>{5, 1}, {8, 1}, {16, 1.285576638}, {32, 1.571153277}, {64, 1.856729915}}) {
    const Tensor ids = some_ids(1, length, 19);
    const Tensor expected = with({{"kind", "uniform_scale"}, {"scale", beta}}).forward(ids);
    BOOST_TEST((scaled.forward(ids) - expected).abs().max().item<double>() <= 1e-7);
    if (beta > 1) BOOST_TEST((scaled.forward(ids) - with("none").forward(ids)).abs().max().item<double>() >= 1e-3);
  }
}

BOOST_AUTO_TEST_CASE(capped_logits_lie_below_their_cap_and_make_the_loss) {
  ModelConfig config = small("alibi");
  config.init_std = 1;
  const LanguageModel plain = LanguageModel::make(config, 19, 42);
  config.logit_softcap = 2;
  const LanguageModel capped = LanguageModel::make(config, 19, 42);
  const at::NoGradGuard guard;
  const Tensor hidden = plain.forward(some_ids(2, 8, 19)), targets = some_ids(1, 16, 19).reshape({16});
  const Tensor logits = capped.logits(hidden).reshape({16, 19});
  BOOST_TEST(plain.logits(hidden).abs().max().item<double>() > 4);
  BOOST_TEST(logits.allclose(2 * (plain.logits(hidden).reshape({16, 19}) / 2).tanh(), 1e-5, 1e-5));
  const Tensor expected = logits.logsumexp(1) - logits.gather(1, targets.unsqueeze(1)).squeeze(1);
  BOOST_TEST(capped.losses(hidden, targets).allclose(expected, 1e-5, 1e-5));
}

BOOST_AUTO_TEST_CASE(dropout_is_a_function_of_step_and_sample) {
  ModelConfig config = small("rope");
  const LanguageModel plain = LanguageModel::make(config, 19, 42);
  config.dropout = 0.25;
  const LanguageModel model = LanguageModel::make(config, 19, 42);
  const at::NoGradGuard guard;
  const Tensor ids = some_ids(3, 8, 19);
  BOOST_TEST(model.forward(ids).equal(plain.forward(ids)));  // an evaluation drops nothing
  pe::model::ForwardOptions options{.training = true, .step = 5, .first_sample = 40};
  const Tensor whole = model.forward(ids, options);
  BOOST_TEST(!whole.allclose(plain.forward(ids), 0, 1e-2));
  BOOST_TEST(model.forward(ids, options).equal(whole));
  options.first_sample = 42;  // as a separate micro-batch
  BOOST_TEST(model.forward(ids.narrow(0, 2, 1), options).allclose(whole.narrow(0, 2, 1), 0, 1e-5));
  options.step = 6;
  BOOST_TEST(!model.forward(ids.narrow(0, 2, 1), options).allclose(whole.narrow(0, 2, 1), 0, 1e-2));
}

// With one block whose matrices are 0 the output is the norm of the dropped embeddings. Each element is 0 or has the
// size of its row, and a quarter of them is 0.
BOOST_AUTO_TEST_CASE(dropout_leaves_out_its_share) {
  ModelConfig config = small("none");
  config.layers = 1;
  config.dropout = 0.25;
  const LanguageModel model = LanguageModel::make(config, 19, 42);
  const at::NoGradGuard guard;
  model.groups()[0].values.zero_();
  const Tensor ids = some_ids(16, 64, 19);
  const Tensor hidden = model.forward(ids, {.training = true, .step = 1});
  const Tensor embedded = model.parameters().front().tensor.index_select(0, ids.reshape({-1})).reshape(hidden.sizes());
  const Tensor kept = hidden.ne(0);
  BOOST_TEST(std::abs(kept.to(at::kDouble).mean().item<double>() - 0.75) < 0.01);  // 16,384 draws: 3 standard errors
  const Tensor x = embedded * kept / 0.75;
  const Tensor expected = x * (x * x).mean(-1, true).add(config.norm_eps).rsqrt();
  BOOST_TEST(hidden.allclose(expected, 1e-4, 1e-5));
}

BOOST_AUTO_TEST_CASE(low_precision_stays_near_full_precision) {
  ModelConfig config = small("rope");
  config.init_std = 0.1;
  const at::NoGradGuard guard;
  const Tensor ids = some_ids(2, 8, 19);
  const Tensor full = LanguageModel::make(config, 19, 42).forward(ids);
  const Tensor low = LanguageModel::make(config, 19, 42, at::kCPU, at::kBFloat16).forward(ids);
  BOOST_TEST((low.scalar_type() == at::kBFloat16));
  BOOST_TEST((full - low.to(at::kFloat)).abs().max().item<double>() <= 0.1);
}

BOOST_AUTO_TEST_CASE(a_vocabulary_below_the_datas_is_refused) {
  ModelConfig config = small();
  config.vocabulary = 10;
  BOOST_CHECK_EXCEPTION(LanguageModel::make(config, 19, 1), pe::support::ConfigError, [](const auto& error) {
    const std::string text = error.what();
    return text.find("10") != std::string::npos && text.find("19") != std::string::npos;
  });
}

// bf16 holds eight bits of a number: rounded logits tie where they do not, and the lowest id wins.
BOOST_AUTO_TEST_CASE(logits_of_a_bf16_model_are_fp32_sums_in_losses_and_in_guesses) {
  const LanguageModel model = LanguageModel::make(small(), 3000, 3, at::kCPU, at::kBFloat16);
  const at::NoGradGuard no_gradients;
  const Tensor head =
      model.groups()[1].shadow.narrow(0, model.locations()[0].offset, 3000 * 16).view({3000, 16}).to(at::kDouble);
  const Tensor hidden = model.forward(some_ids(4, 8, 3000)).flatten(0, 1) * 40;
  BOOST_REQUIRE((hidden.scalar_type() == at::kBFloat16));
  const Tensor exact = at::matmul(hidden.to(at::kDouble), head.t()), found = model.logits(hidden);
  BOOST_TEST((found.scalar_type() == at::kFloat));
  BOOST_TEST((found - exact).abs().max().item<double>() <= 1e-5 * exact.abs().max().item<double>());
  BOOST_TEST(!found.equal(found.to(at::kBFloat16).to(at::kFloat)));
  BOOST_TEST(found.argmax(-1).equal(exact.argmax(-1)));
  const Tensor targets = some_ids(4, 8, 3000).flatten(), chosen = targets.unsqueeze(1);
  const Tensor expected = exact.logsumexp(1) - exact.gather(1, chosen).squeeze(1);
  BOOST_TEST((model.losses(hidden, targets) - expected).abs().max().item<double>() <= 1e-4);
}

BOOST_AUTO_TEST_CASE(a_largest_logit_that_is_no_number_in_any_layer_is_none_at_the_end) {
  const LanguageModel model = LanguageModel::make(small(), 19, 3);
  const at::NoGradGuard no_gradients;
  const auto largest = [&] {
    double found = 0;
    pe::model::ForwardOptions options;
    options.largest_logit = &found;
    model.forward(some_ids(1, 8, 19), options);
    return found;
  };
  BOOST_TEST(std::isfinite(largest()));
  for (const auto& parameter : model.parameters()) {  // the first layer's attention comes before it
    if (parameter.name == "layers.0.feed_forward.down")
      parameter.tensor.detach().fill_(std::numeric_limits<float>::quiet_NaN());
  }
  BOOST_TEST(std::isnan(largest()));
}

BOOST_AUTO_TEST_SUITE_END()

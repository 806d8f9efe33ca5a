// Structures that studies need besides the LLaMA block: each is its definition, by naive loops and by differences.
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <torch/types.h>

#include <boost/test/unit_test.hpp>

#include "model/canon.h"
#include "model/checkpoint_io.h"
#include "model/differences.h"
#include "model/language_model.h"
#include "model/layout.h"
#include "model/naive_decoder.h"
#include "support/config.h"
#include "support/error.h"
#include "support/random.h"
#include "training/train_config.h"

namespace {

using at::Tensor;
using namespace pe::model;  // NOLINT
namespace encodings = pe::encodings;

struct Structure {
  const char* name;
  void (*set)(ModelConfig&);
};

const Structure kStructures[] = {
    {"post-norm encoder block",
     [](ModelConfig& c) {
       c.norm = NormKind::kLayer;
       c.norm_placement = NormPlacement::kPost;
       c.activation = Activation::kRelu;
       c.biases = c.head_bias = true;
       c.tied = c.qk_norm = false;
       c.mask = Mask::kBidirectional;
       c.init = Init::kGlorot;
     }},
    {"the same over the batch",
     [](ModelConfig& c) {
       c.norm = NormKind::kLayer;
       c.norm_placement = NormPlacement::kPost;
       c.activation = Activation::kRelu;
       c.biases = c.head_bias = true;
       c.tied = c.qk_norm = false;
       c.mask = Mask::kBidirectional;
       c.attend_over_batch = true;
     }},
    {"bare attention",
     [](ModelConfig& c) {
       c.bare_attention = c.biases = c.head_bias = true;
       c.tied = c.qk_norm = false;
       c.init = Init::kFanIn;
       c.mask = Mask::kBidirectional;
     }},
    {"bare causal attention with normed queries", [](ModelConfig& c) { c.bare_attention = true; }},
    {"pre-norm with layer norms and gelu",
     [](ModelConfig& c) {
       c.norm = NormKind::kLayer;
       c.activation = Activation::kGelu;
       c.qk_norm_over = QkNormOver::kWidth;
     }},
    {"LLaMA with biases", [](ModelConfig& c) { c.biases = true; }},
    {"post-norm with RMS norms and SwiGLU", [](ModelConfig& c) { c.norm_placement = NormPlacement::kPost; }},
    {"LLaMA over the batch", [](ModelConfig& c) { c.attend_over_batch = true; }},
    {"bidirectional LLaMA", [](ModelConfig& c) { c.mask = Mask::kBidirectional; }},
    {"a tied head with a bias", [](ModelConfig& c) { c.head_bias = true; }},
    {"LLaMA with convolutions everywhere", [](ModelConfig& c) { c.canon.set = "ABCD"; }},
    {"convolutions of two tokens with biases, without what comes in",
     [](ModelConfig& c) {
       c.canon = {
           .set = "ABD", .kernel = 2, .residual = false, .activation = CanonOptions::Activation::kSilu, .bias = true};
       c.activation = Activation::kGelu;
       c.qk_norm_over = QkNormOver::kWidth;
     }},
    {"convolutions longer than the text", [](ModelConfig& c) { c.canon = {.set = "BC", .kernel = 12}; }},
    {"LLaMA with a gate for each head", [](ModelConfig& c) { c.gate = Gate::kHeadwise; }},
    {"LLaMA with a gate for each channel", [](ModelConfig& c) { c.gate = Gate::kElementwise; }},
    {"post-norm with a gate and a convolution",
     [](ModelConfig& c) {
       c.norm_placement = NormPlacement::kPost;
       c.gate = Gate::kHeadwise;
       c.canon.set = "A";
     }},
    {"GPT-2's block",
     [](ModelConfig& c) {
       c.norm = NormKind::kLayer;
       c.activation = Activation::kGeluTanh;
       c.biases = true;
       c.qk_norm = false;
     }},
};

ModelConfig config_of(const Structure& structure) {
  ModelConfig config;
  config.width = 16;
  config.layers = 2;
  config.heads = 4;
  config.key_value_heads = 2;
  config.feed_forward = 24;
  config.length = 8;
  config.init_std = 0.3;  // so that every part matters
  config.embedding_std = 1;
  config.encoding.json = "none";
  structure.set(config);
  return config;
}

Tensor some_ids(std::int64_t batch, std::int64_t length) {
  Tensor ids = at::empty({batch, length}, at::kLong);
  pe::support::Xoshiro random(7);
  for (std::int64_t i = 0; i < ids.numel(); ++i)
    ids.data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(random.below(19));
  return ids;
}

/// Moves parameters that start at ones or zeros, so that they matter too.
LanguageModel stirred(const ModelConfig& config, at::ScalarType type) {
  const LanguageModel model = LanguageModel::make(config, 19, 3, at::kCPU, type);
  const at::NoGradGuard guard;
  Tensor others = model.groups()[1].values;
  others.add_(at::arange(others.numel(), others.options()).sin_(), 0.2);
  return model;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(structures)

BOOST_AUTO_TEST_CASE(each_structure_is_its_definition_by_naive_loops) {
  for (const Structure& structure : kStructures) {
    for (const auto& [type, allowed] : {std::pair{at::kDouble, 1e-10}, {at::kFloat, 3e-4}}) {
      const LanguageModel model = stirred(config_of(structure), type);
      const Tensor ids = some_ids(3, 7);
      const at::NoGradGuard guard;
      const Tensor hidden = model.forward(ids), logits = model.logits(hidden).to(at::kDouble);
      std::vector<std::vector<std::int64_t>> rows;
      for (std::int64_t b = 0; b < 3; ++b) {
        const auto* row = ids.data_ptr<std::int64_t>() + b * 7;
        rows.emplace_back(row, row + 7);
      }
      const pe::test::NaiveDecoder naive(model);
      const auto expected = naive.hidden(rows);
      double off = 0;
      for (std::size_t b = 0; b < 3; ++b)
        for (std::size_t t = 0; t < 7; ++t) {
          const auto row = naive.logits(expected[b][t]);
          for (std::size_t v = 0; v < row.size(); ++v) {
            const double got =
                logits[static_cast<std::int64_t>(b)][static_cast<std::int64_t>(t)][static_cast<std::int64_t>(v)]
                    .item<double>();
            off = std::max(off, std::abs(got - row[v]));
          }
        }
      BOOST_TEST(off <= allowed, structure.name << ": off by " << off);
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_are_those_of_differences_for_a_parameter_of_each_kind) {
  for (const Structure& structure : kStructures) {
    const LanguageModel model = stirred(config_of(structure), at::kDouble);
    const Tensor ids = some_ids(2, 6), targets = some_ids(1, 12).reshape({12});
    pe::test::check_gradients(
        model,
        [&] {
          return model.loss_sum(model.forward(ids).reshape({12, 16}), targets);
        },
        structure.name);
  }
}

// Reach of a token: an encoder over the batch lets tokens of one row see nothing of each other (item 20 of the
// specification's acceptance list). A block with correct axes does the reverse.
BOOST_AUTO_TEST_CASE(over_the_batch_a_token_reaches_its_column_and_nothing_else) {
  for (const bool over_batch : {true, false}) {
    ModelConfig config = config_of(kStructures[over_batch ? 1 : 0]);
    config.mask = Mask::kBidirectional;
    const LanguageModel model = LanguageModel::make(config, 19, 3);
    const at::NoGradGuard guard;
    Tensor ids = some_ids(4, 7);
    const Tensor before = model.forward(ids);
    ids[1][3] = (ids[1][3].item<std::int64_t>() + 1) % 19;
    const Tensor after = model.forward(ids);
    for (std::int64_t b = 0; b < 4; ++b) {
      for (std::int64_t t = 0; t < 7; ++t) {
        const bool same = before[b][t].equal(after[b][t]);
        const bool reached = over_batch ? t == 3 : b == 1;
        BOOST_TEST(same == !reached, "over_batch " << over_batch << ", row " << b << ", position " << t);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_plan_names_counts_and_starts_what_a_model_holds) {
  for (const Structure& structure : kStructures) {
    const ModelConfig config = config_of(structure);
    const LanguageModel model = LanguageModel::make(config, 19, 3);
    const auto plan = plan_parameters(model.config());
    BOOST_TEST_CONTEXT(structure.name) {
      std::int64_t count = 0;
      BOOST_REQUIRE(plan.size() == model.parameters().size());
      for (std::size_t i = 0; i < plan.size(); ++i) {
        BOOST_TEST(plan[i].name == model.parameters()[i].name);
        count += model.parameters()[i].tensor.numel();
        const bool taps = plan[i].name.find("canon_") != std::string::npos;
        BOOST_TEST(plan[i].decay == (model.parameters()[i].tensor.dim() == 2 && plan[i].name != "embedding" && !taps));
      }
      BOOST_TEST(count == parameter_count(model.config()));
      BOOST_TEST(model.parameter_count() == count);
    }
  }
  // The framework's encoder layer of width 64 with a feed-forward of 128, and head and embedding of 100 tokens, by
  // hand.
  ModelConfig stock = config_of(kStructures[0]);
  stock.width = 64;
  stock.layers = 1;
  stock.key_value_heads = 0;
  stock.feed_forward = 128;
  stock.vocabulary = 100;
  BOOST_TEST(parameter_count(stock) ==
             100 * 64 + (4 * 64 * 64 + 4 * 64) + (2 * 64 * 128 + 128 + 64) + 2 * 2 * 64 + (100 * 64 + 100));
}

BOOST_AUTO_TEST_CASE(convolutions_add_their_last_tokens) {
  const auto run = [](const CanonOptions& options, std::vector<double> taps, const encodings::Span& span) {
    const auto count = static_cast<std::int64_t>(taps.size());
    const Canon canon(options, {.value = at::tensor(taps, at::kDouble).view({1, count}), .gradient = {}}, {});
    return canon(at::tensor({1., 2., 3., 4.}, at::kDouble).view({1, 4, 1}), span).flatten();
  };
  const auto same = [](const Tensor& found, std::vector<double> expected) {
    for (std::size_t i = 0; i < expected.size(); ++i)
      BOOST_TEST(std::abs(found[static_cast<std::int64_t>(i)].item<double>() - expected[i]) < 1e-12);
  };
  encodings::Span span = encodings::Span::whole(1, 4);
  same(run({.set = "A"}, {.1, .2, .3, .4}, span), {1.4, 3.1, 5, 7});
  same(run({.set = "A"}, {0, 0, 0, 0}, span), {1, 2, 3, 4});
  same(run({.set = "A", .residual = false}, {0, 0, 0, 1}, span), {1, 2, 3, 4});  // the last tap is the own token
  // Nothing crosses the start of a document.
  span.doc_start = at::tensor({0, 0, 2, 2}, at::kLong);
  same(run({.set = "A"}, {.1, .2, .3, .4}, span), {1.4, 3.1, 4.2, 6.5});
}

BOOST_AUTO_TEST_CASE(a_gate_of_zeros_halves_what_heads_gather) {
  for (const Gate gate : {Gate::kHeadwise, Gate::kElementwise}) {
    ModelConfig config = config_of({"", [](ModelConfig&) {}});
    config.layers = 1;
    config.bare_attention = true;
    const LanguageModel plain = LanguageModel::make(config, 19, 3, at::kCPU, at::kDouble);
    config.gate = gate;
    const LanguageModel gated = LanguageModel::make(config, 19, 3, at::kCPU, at::kDouble);
    const at::NoGradGuard guard;
    for (const auto& parameter : gated.parameters()) {
      if (parameter.name == "layers.0.attention.gate") Tensor(parameter.tensor).zero_();
    }
    const Tensor ids = some_ids(2, 6);
    BOOST_TEST((gated.forward(ids) - plain.forward(ids) / 2).abs().max().item<double>() < 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(what_lies_before_the_taps_is_not_heard) {
  ModelConfig config = config_of({"", [](ModelConfig&) {}});
  config.layers = 1;
  config.canon.set = "A";
  const LanguageModel model = LanguageModel::make(config, 19, 3, at::kCPU, at::kDouble);
  const at::NoGradGuard guard;
  // Two tokens change places, each behind the same three: without positions the last output stays.
  const Tensor one = at::tensor({1, 2, 3, 7, 1, 2, 3, 9, 1, 2, 3, 4}, at::kLong).view({1, 12});
  const Tensor other = at::tensor({1, 2, 3, 9, 1, 2, 3, 7, 1, 2, 3, 4}, at::kLong).view({1, 12});
  const Tensor a = model.forward(one)[0][11], b = model.forward(other)[0][11];
  BOOST_TEST((a - b).abs().max().item<double>() < 1e-12);
  const Tensor nearer = at::tensor({1, 2, 3, 7, 1, 2, 3, 1, 9, 2, 3, 4}, at::kLong).view({1, 12});
  BOOST_TEST((a - model.forward(nearer)[0][11]).abs().max().item<double>() > 1e-6);
}

BOOST_AUTO_TEST_CASE(initial_weights_lie_where_the_rule_says) {
  ModelConfig config = config_of(kStructures[0]);  // glorot
  config.width = 64;
  config.key_value_heads = 0;
  config.feed_forward = 128;
  const LanguageModel model = LanguageModel::make(config, 100, 5);
  const std::map<std::string, double> bounds = {{"layers.0.attention.query", std::sqrt(6.0 / 256)},
                                                {"layers.0.attention.value", std::sqrt(6.0 / 256)},
                                                {"layers.0.attention.output", 1.0 / 8},
                                                {"layers.0.feed_forward.up", 1.0 / 8},
                                                {"layers.0.feed_forward.up.bias", 1.0 / 8},
                                                {"layers.0.feed_forward.down", 1 / std::sqrt(128.0)},
                                                {"head", 1.0 / 8},
                                                {"head.bias", 1.0 / 8}};
  for (const auto& parameter : model.parameters()) {
    const double largest = parameter.tensor.abs().max().item<double>();
    if (const auto bound = bounds.find(parameter.name); bound != bounds.end()) {
      BOOST_TEST_CONTEXT(parameter.name) {
        BOOST_TEST(largest <= bound->second);
        BOOST_TEST(largest >= 0.9 * bound->second);
        BOOST_TEST(parameter.tensor.min().item<double>() < -0.5 * bound->second);
      }
    }
    if (parameter.name == "layers.0.attention.query.bias" || parameter.name == "layers.1.attention.output.bias")
      BOOST_TEST(largest == 0);
    if (parameter.name == "embedding")
      BOOST_TEST(parameter.tensor.std().item<double>() == 1, boost::test_tools::tolerance(0.05));
  }
}

BOOST_AUTO_TEST_CASE(artifacts_hold_the_structure_and_an_unknown_word_is_told) {
  for (const Structure& structure : kStructures) {
    ModelConfig config = config_of(structure);
    config.vocabulary = 19;
    BOOST_TEST((config_from_json(to_json(config), "model.h5") == config), structure.name);
  }
  ModelConfig plain = config_of({"", [](ModelConfig&) {}});
  plain.vocabulary = 19;
  plain.embedding_std = 0;
  pe::Json json = to_json(plain);
  BOOST_TEST(!json.contains("norm_placement"));  // artifacts of the default structure keep their bytes
  json["norm_placement"] = "sandwich";
  BOOST_CHECK_EXCEPTION(config_from_json(json, "model.h5"), pe::support::ArtifactError, [](const auto& error) {
    return std::string(error.what())
               .find("model.h5: the model config has 'sandwich' for 'norm_placement'; expected pre or post") !=
           std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(a_causal_encoding_without_a_causal_mask_is_one_clear_error) {
  ModelConfig config = config_of(kStructures[8]);
  config.encoding.json = "alibi";
  const auto names_it = [](const auto& error) {
    const std::string text = error.what();
    return text.find("encoding 'alibi' is defined for causal attention only, and model.mask is bidirectional") !=
               std::string::npos &&
           text.find("set model.mask: causal, or take an encoding that works either way") != std::string::npos;
  };
  BOOST_CHECK_EXCEPTION(LanguageModel::make(config, 19, 3), pe::support::ConfigError, names_it);
  // A stage says so before it begins.
  const pe::Json asked = {{"model", {{"mask", "bidirectional"}, {"encoding", "alibi"}}}};
  BOOST_CHECK_EXCEPTION(pe::support::make_config<pe::training::TrainConfig>(asked), pe::support::ConfigError, names_it);
}

BOOST_AUTO_TEST_CASE(attention_over_the_batch_takes_whole_batches_only) {
  const pe::Json asked = {{"model", {{"attend_over_batch", true}}},
                          {"compute", {{"micro_batch", 32}}},
                          {"train", {{"documents", "masked"}}}};
  BOOST_CHECK_EXCEPTION(
      pe::support::make_config<pe::training::TrainConfig>(asked), pe::support::ConfigError, [](const auto& error) {
        const std::string text = error.what();
        return text.find(
                   "model.attend_over_batch makes a batch one piece, and compute.micro_batch is 32 of 128 sequences") !=
                   std::string::npos &&
               text.find("model.attend_over_batch knows no documents: set train.documents: joined") !=
                   std::string::npos;
      });
}

BOOST_AUTO_TEST_SUITE_END()

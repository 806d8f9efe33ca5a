// Evaluation of real, small models: the equivalence of one pass, and the meaning of teacher forcing.
#include "evaluation/model_scorer.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "encodings/attention/positional_encoding.h"
#include "encodings/fixture.h"
#include "encodings/registry.h"
#include "model/language_model.h"
#include "support/progress.h"
#include "support/random.h"

using namespace pe::evaluation;
using pe::Json;
using pe::model::LanguageModel;

namespace {

LanguageModel small_model(const Json& encoding, std::int64_t vocabulary = 48, std::int64_t length = 16) {
  pe::model::ModelConfig config;
  config.width = 32;
  config.layers = 2;
  config.heads = 2;
  config.init_std = 0.3;  // so that positions matter without training
  config.length = length;
  config.encoding.json = encoding;
  return LanguageModel::make(config, vocabulary, 7);
}

std::vector<std::int32_t> keyed_ids(std::uint64_t key, std::int64_t count, std::int64_t vocabulary) {
  pe::support::Xoshiro random(key);
  std::vector<std::int32_t> ids;
  for (std::int64_t i = 0; i < count; ++i) {
    ids.push_back(static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(vocabulary))));
  }
  return ids;
}

/// Losses of ids[1 ..) when the first `length` of them are fed.
std::vector<double> prefix_losses(const LanguageModel& model, const std::vector<std::int32_t>& ids,
                                  std::int64_t length) {
  const auto scorer = make_model_scorer(model, 4096);
  Sequence sequence{std::vector<std::int32_t>(ids.begin(), ids.begin() + length), 1, length};
  return score_all(*scorer, {sequence}, 1)[0].nll;
}

double largest_difference(const LanguageModel& model) {
  const auto ids = keyed_ids(3, 64, 48);
  const std::vector<double> whole = prefix_losses(model, ids, 64);
  double largest = 0;
  for (const std::int64_t length : {8, 16, 24, 48}) {
    const std::vector<double> part = prefix_losses(model, ids, length);
    for (std::size_t i = 0; i < part.size(); ++i) largest = std::max(largest, std::abs(part[i] - whole[i]));
  }
  return largest;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(model_scorer)

BOOST_AUTO_TEST_CASE(one_long_pass_holds_the_losses_of_every_prefix) {
  int tested = 0;
  for (const auto& entry : pe::encodings::encodings()) {
    Json encoding = entry.name;
    // A table is by default as long as the training.
    if (pe::support::find_field(entry.fields, "max_positions") != nullptr) {
      encoding = {{"kind", entry.name}, {"max_positions", 64}};
    }
    const LanguageModel model = small_model(encoding);
    pe::test::read_by_ids(model.encoding());
    const Capabilities capabilities = capabilities_of(model);
    if (capabilities.length_dependent || capabilities.stochastic) continue;
    ++tested;
    BOOST_TEST_CONTEXT(entry.name) BOOST_TEST(largest_difference(model) < 1e-5);
  }
  BOOST_TEST(tested >= 7);
}

BOOST_AUTO_TEST_CASE(a_length_dependent_encoding_would_fail_that_and_says_so) {
  const LanguageModel dynamic = small_model({{"kind", "yarn"}, {"dynamic", true}});
  BOOST_TEST(capabilities_of(dynamic).length_dependent);
  BOOST_TEST(largest_difference(dynamic) > 1e-3);
  BOOST_TEST(largest_difference(small_model("dyn_ntk")) > 1e-3);  // the control that the acceptance list names
  const LanguageModel stretched =
      small_model({{"kind", "learned"}, {"max_positions", 16}, {"init_std", 0.3}, {"overflow", "interpolate"}});
  BOOST_TEST(capabilities_of(stretched).length_dependent);
  BOOST_TEST(largest_difference(stretched) > 1e-3);
}

BOOST_AUTO_TEST_CASE(losses_are_those_of_a_float64_softmax) {
  const LanguageModel model = small_model("rope");
  const auto ids = keyed_ids(5, 20, 48);
  const std::vector<double> losses = prefix_losses(model, ids, 20);
  const Sequence alone{ids, 1, 20, /*guesses=*/false};
  const MeanScore fused = score_all(*make_model_scorer(model, 64), {alone}, 1)[0];
  BOOST_TEST(fused.correct.empty());
  at::Tensor tensor = at::empty({1, 20}, at::kLong);
  for (std::int64_t i = 0; i < 20; ++i) tensor.data_ptr<std::int64_t>()[i] = ids[static_cast<std::size_t>(i)];
  const at::NoGradGuard no_gradients;
  const at::Tensor logits = model.logits(model.forward(tensor)).to(at::kDouble).contiguous();
  for (std::int64_t i = 0; i + 1 < 20; ++i) {
    const double* row = logits.data_ptr<double>() + i * 48;
    double sum = 0;
    for (int v = 0; v < 48; ++v) sum += std::exp(row[v]);
    const double expected = std::log(sum) - row[ids[static_cast<std::size_t>(i + 1)]];
    BOOST_TEST(std::abs(losses[static_cast<std::size_t>(i)] - expected) < 1e-5);
    BOOST_TEST(std::abs(fused.nll[static_cast<std::size_t>(i)] - expected) < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(results_do_not_depend_on_how_batches_are_cut) {
  for (const Json& encoding :
       {Json("alibi"), Json("fire"), Json{{"stack", {{{"kind", "randomised"}, {"per_sample", true}}, "rope"}}}}) {
    const LanguageModel model = small_model(encoding);
    std::vector<Sequence> sequences;
    for (std::uint64_t i = 0; i < 12; ++i) {
      const auto length = static_cast<std::int64_t>(i % 3 == 0 ? 20 : 32);
      sequences.push_back({keyed_ids(i, length, 48), 4, length - 2});
    }
    const auto one = score_all(*make_model_scorer(model, 1), sequences, 3);
    const auto many = score_all(*make_model_scorer(model, 4096), sequences, 3);
    for (std::size_t i = 0; i < sequences.size(); ++i) {
      BOOST_REQUIRE_EQUAL(one[i].nll.size(), static_cast<std::size_t>(sequences[i].last - sequences[i].first));
      for (std::size_t t = 0; t < one[i].nll.size(); ++t) BOOST_TEST(std::abs(one[i].nll[t] - many[i].nll[t]) < 1e-5);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_stop_ends_scoring_between_two_batches) {
  struct Stopped final : Scorer {
    const Capabilities& capabilities() const override { return facts; }
    std::int64_t batch_tokens() const override { return 20; }
    std::vector<Score> score(const std::vector<const Sequence*>& batch, std::int64_t, std::int64_t) override {
      if (++batches == 2) pe::support::request_stop(15);
      return std::vector<Score>(batch.size());
    }
    Capabilities facts;
    int batches = 0;
  } scorer;
  const std::vector<Sequence> sequences(8, Sequence{std::vector<std::int32_t>(10), 1, 1});  // four batches of two
  bool resumable = false;
  try {
    score_all(scorer, sequences, 1);
  } catch (const pe::support::StopRequest& stop) {
    resumable = stop.resumable();
  }
  pe::support::request_stop(0);
  BOOST_TEST(resumable);
  BOOST_TEST(scorer.batches == 2);
  std::vector<double> shares;
  BOOST_TEST(score_all(scorer, sequences, 1, 0, [&](double share) { shares.push_back(share); }).size() == 8u);
  BOOST_TEST(shares == (std::vector<double>{0.25, 0.5, 0.75, 1}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(teacher_forced_exact_match_is_that_of_greedy_decoding) {
  constexpr std::int64_t kVocabulary = 6, kAnswer = 3, kPrompt = 12;
  const LanguageModel model = small_model("rope", kVocabulary);
  const at::NoGradGuard no_gradients;
  std::vector<Sequence> sequences;
  std::vector<bool> greedy;
  for (std::uint64_t trial = 0; trial < 200; ++trial) {
    Sequence sequence{keyed_ids(1000 + trial, kPrompt + kAnswer, kVocabulary), kPrompt, kPrompt + kAnswer};
    std::vector<std::int32_t> decoded(sequence.ids.begin(), sequence.ids.begin() + kPrompt);
    for (std::int64_t step = 0; step < kAnswer; ++step) {
      const auto length = static_cast<std::int64_t>(decoded.size());
      at::Tensor ids = at::empty({1, length}, at::kLong);
      for (std::int64_t i = 0; i < length; ++i) ids.data_ptr<std::int64_t>()[i] = decoded[static_cast<std::size_t>(i)];
      const at::Tensor last = model.forward(ids).select(1, length - 1);
      decoded.push_back(static_cast<std::int32_t>(model.logits(last).argmax(-1).item<std::int64_t>()));
    }
    // Every third prompt asks for the model's own answer, so that both outcomes occur.
    if (trial % 3 == 0) sequence.ids = decoded;
    greedy.push_back(sequence.ids == decoded);
    sequences.push_back(std::move(sequence));
  }
  const auto scores = score_all(*make_model_scorer(model, 512), sequences, 1);
  int exact = 0;
  for (std::size_t i = 0; i < scores.size(); ++i) {
    BOOST_TEST((scores[i].exact == 1) == greedy[i]);
    exact += greedy[i] ? 1 : 0;
  }
  BOOST_TEST(exact >= 67);
  BOOST_TEST(exact < 150);
}

BOOST_AUTO_TEST_CASE(draws_of_a_stochastic_encoding_differ_and_their_mean_is_reported) {
  const LanguageModel model = small_model(Json{{"stack", {"randomised", "rope"}}});
  const auto scorer = make_model_scorer(model, 4096);
  BOOST_TEST(scorer->capabilities().stochastic);
  const Sequence sequence{keyed_ids(9, 24, 48), 1, 24};
  const Score first = scorer->score({&sequence}, 0, 0)[0], second = scorer->score({&sequence}, 1, 0)[0];
  BOOST_CHECK(first.nll != second.nll);
  const MeanScore mean = score_all(*scorer, {sequence}, 2)[0];
  for (std::size_t i = 0; i < mean.nll.size(); ++i) {
    BOOST_TEST(std::abs(mean.nll[i] - (first.nll[i] + second.nll[i]) / 2) < 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(a_bounded_encoding_tells_its_positions) {
  BOOST_TEST(capabilities_of(small_model("learned")).max_positions.value() == 16);
  BOOST_TEST(!capabilities_of(small_model("rope")).max_positions.has_value());
}

BOOST_AUTO_TEST_SUITE_END()

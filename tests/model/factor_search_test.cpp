#include <torch/types.h>

#include <boost/test/unit_test.hpp>

#include "encodings/registry.h"
#include "model/factor_search.h"
#include "support/error.h"
#include "support/random.h"

namespace {

using namespace pe::model;

ModelConfig small(const pe::Json& encoding) {
  ModelConfig config;
  config.width = 16;
  config.layers = 2;
  config.heads = 2;
  config.feed_forward = 24;
  config.length = 8;
  config.encoding.json = encoding;
  return config;
}

SearchTexts some_texts(std::int64_t length) {
  SearchTexts texts{.ids = at::empty({2, length + 1}, at::kLong)};
  pe::support::Xoshiro random(7);
  for (std::int64_t i = 0; i < texts.ids.numel(); ++i) {
    texts.ids.data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(random.below(11));
  }
  return texts;
}

double loss_with(const LanguageModel& model, const SearchTexts& texts, std::int64_t pe_len) {
  at::NoGradGuard no_grad;
  const std::int64_t length = texts.ids.size(1) - 1;
  const at::Tensor hidden = model.forward(texts.ids.narrow(1, 0, length), {.pe_len = pe_len}).flatten(0, 1);
  return std::exp(model.losses(hidden, texts.ids.narrow(1, 1, length).flatten()).to(at::kDouble).mean().item<double>());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(factor_search)

BOOST_AUTO_TEST_CASE(what_is_found_scores_so_in_a_model_built_from_it) {
  for (const FactorMethod method : {FactorMethod::kLongRope, FactorMethod::kLongRope2}) {
    for (const pe::Json& below : {pe::Json("rope"), pe::Json{{"kind", "p_rope"}, {"fraction", 0.5}, {"base", 500}}}) {
      const LanguageModel model = LanguageModel::make(small(below), 11, 3);
      const SearchTexts texts = some_texts(32);
      const double before = loss_with(model, texts, 32);
      const FactorSearchConfig config{.method = method,
                                      .factor = 4,
                                      .options = {.population = 6, .mutations = 3, .crossovers = 3, .generations = 3}};
      std::int64_t generations = 0;
      const FoundFactors found = search_factors(model, texts, config, [&](std::int64_t, double) { ++generations; });
      BOOST_TEST(generations == 4);
      BOOST_TEST(loss_with(model, texts, 32) == before);  // the model is unchanged
      const LanguageModel extended = LanguageModel::make(small(found.encoding), 11, 3);
      BOOST_TEST(std::abs(loss_with(extended, texts, 32) / found.search.score - 1) <= 1e-5);
    }
  }
}

BOOST_AUTO_TEST_CASE(only_predictions_that_count_are_scored) {
  const LanguageModel model = LanguageModel::make(small("rope"), 11, 3);
  SearchTexts texts = some_texts(32);
  const FactorSearchConfig config{
      .method = FactorMethod::kLongRope2, .factor = 4, .options = {.population = 4, .generations = 1}};
  texts.counted = at::zeros({2, 32}, at::kBool);
  BOOST_CHECK_THROW(search_factors(model, texts, config), pe::support::ConfigError);
  texts.counted.select(1, 30).fill_(true);
  const FoundFactors found = search_factors(model, texts, config);
  const LanguageModel extended = LanguageModel::make(small(found.encoding), 11, 3);
  at::NoGradGuard no_grad;
  const at::Tensor hidden = extended.forward(texts.ids.narrow(1, 0, 32), {.pe_len = 32}).select(1, 30);
  const double expected =
      std::exp(extended.losses(hidden, texts.ids.select(1, 31)).to(at::kDouble).mean().item<double>());
  BOOST_TEST(std::abs(found.search.score / expected - 1) <= 1e-5);
}

BOOST_AUTO_TEST_CASE(an_encoding_without_frequencies_is_refused) {
  for (const pe::Json& encoding : {pe::Json("alibi"), pe::Json{{"kind", "yarn"}, {"factor", 2}}, pe::Json("fope")}) {
    const LanguageModel model = LanguageModel::make(small(encoding), 11, 3);
    BOOST_CHECK_THROW(search_factors(model, some_texts(32), {.factor = 4}), pe::support::ConfigError);
  }
}

BOOST_AUTO_TEST_SUITE_END()

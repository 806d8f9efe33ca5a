// Texts that models write: the choice of a token, and the stage on real artifacts.
#include "evaluation/language_modelling/sample.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "artifact/eval_table.h"
#include "evaluation/bench.h"
#include "evaluation/shard_documents.h"
#include "support/text.h"

using namespace pe;
using namespace pe::evaluation;
using test::Bench;

namespace {

SampleConfig config_of(Json options) {
  return support::make_config<SampleConfig>(Json{{"sample", std::move(options)}});
}

artifact::Tables sampled(const Bench& bench, const std::string& name, const Json& options,
                         const char* model = "model.h5") {
  artifact::Workspace workspace = bench.workspace(name);
  workspace.inputs["model"] = {{bench.folder / model, artifact::Kind::kCheckpoint, "", {}}};
  workspace.outputs = {{"texts", bench.folder / (name + ".h5")}};
  sample(config_of(options), workspace);
  return artifact::read_eval_tables(workspace.output("texts"));
}

/// Logits after a text, by a separate pass.
std::vector<float> logits_behind(const model::LanguageModel& model, const std::vector<std::int32_t>& ids) {
  const c10::InferenceMode inference;
  at::Tensor row = at::empty({1, std::ssize(ids)}, at::kLong);
  std::copy(ids.begin(), ids.end(), row.mutable_data_ptr<std::int64_t>());
  const at::Tensor logits = model.logits(model.forward(row).select(1, std::ssize(ids) - 1)).contiguous();
  return {logits.const_data_ptr<float>(), logits.const_data_ptr<float>() + logits.numel()};
}

double nll_of(const std::vector<float>& logits, std::int64_t token) {
  double sum = 0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  return std::log(sum) - static_cast<double>(logits[static_cast<std::size_t>(token)]);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sample_stage)

BOOST_AUTO_TEST_CASE(tokens_are_drawn_from_the_softmax_at_a_temperature_among_the_likeliest) {
  const std::vector<float> logits = {0.5F, 2.0F, -1.0F, 2.0F, 1.0F};
  for (const double uniform : {0.0, 0.5, 0.999}) {
    BOOST_TEST(choose_token(logits, 0, 0, uniform) == 1);  // the first of equals
    BOOST_TEST(choose_token(logits, 3, 1, uniform) == 1);
  }
  BOOST_TEST(choose_token(logits, 1, 0, std::nextafter(1.0, 0.0)) == 4);
  support::Xoshiro random(5);
  for (const auto& [temperature, top_k] :
       std::vector<std::pair<double, std::int64_t>>{{1, 0}, {0.5, 0}, {2, 3}, {1, 99}}) {
    std::set<std::size_t> kept = {0, 1, 2, 3, 4};
    if (top_k == 3) kept = {1, 3, 4};
    double total = 0;
    for (const std::size_t id : kept) total += std::exp(static_cast<double>(logits[id]) / temperature);
    constexpr int kDraws = 20000;
    std::map<std::int64_t, int> counts;
    for (int i = 0; i < kDraws; ++i) ++counts[choose_token(logits, temperature, top_k, random.uniform())];
    for (std::size_t id = 0; id < logits.size(); ++id) {
      const double share = kept.count(id) ? std::exp(static_cast<double>(logits[id]) / temperature) / total : 0;
      const double seen = counts[static_cast<std::int64_t>(id)] / static_cast<double>(kDraws);
      BOOST_TEST(std::abs(seen - share) <= 4.5 * std::sqrt(share * (1 - share) / kDraws),
                 id << " at " << temperature << ": " << seen << " of " << share);
    }
  }
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    BOOST_CHECK_THROW(choose_token(std::vector<float>{0, bad}, 1, 0, 0.5), support::ArtifactError);
  }
}

BOOST_AUTO_TEST_CASE(each_token_follows_from_the_last_ones_that_fit_the_context) {
  const Bench bench;
  const model::LanguageModel model = model::load_model(artifact::CheckpointReader(bench.folder / "model.h5"));
  SampleGroup group;
  group.temperature = 0;
  group.tokens = 12;
  group.context = 8;
  const std::vector<std::int32_t> prompt = {256, 'a', 'b', 'c', 'd'};
  const std::vector<GeneratedSample> greedy = write_texts(model, prompt, 1, group, {}, 1);
  std::vector<std::int32_t> ids = prompt;
  double nll = 0;
  for (int step = 0; step < 12; ++step) {
    const std::vector<std::int32_t> seen(ids.end() - std::min<std::ptrdiff_t>(8, std::ssize(ids)), ids.end());
    const std::vector<float> logits = logits_behind(model, seen);
    const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
    nll += nll_of(logits, best);
    ids.push_back(static_cast<std::int32_t>(best));
  }
  BOOST_TEST(greedy[0].ids == std::vector<std::int32_t>(ids.begin() + 5, ids.end()), boost::test_tools::per_element());
  BOOST_TEST(greedy[0].nll == nll, boost::test_tools::tolerance(1e-5));
  BOOST_TEST(greedy[0].drawn == 12);
  BOOST_TEST(!greedy[0].ended);

  // A text ends with a separator, which is no part of it, and the others continue.
  group.temperature = 1;
  group.tokens = 40;
  group.context = 0;
  const std::vector<GeneratedSample> free = write_texts(model, prompt, 4, group, {}, 7);
  BOOST_TEST((free[0].ids != free[1].ids));
  const std::int64_t end = free[0].ids[6];
  const std::vector<GeneratedSample> ending = write_texts(model, prompt, 4, group, std::vector<std::int64_t>{end}, 7);
  for (std::size_t i = 0; i < free.size(); ++i) {
    const auto at = std::find(free[i].ids.begin(), free[i].ids.end(), static_cast<std::int32_t>(end));
    BOOST_TEST(ending[i].ended == (at != free[i].ids.end()));
    BOOST_TEST(ending[i].ids == std::vector<std::int32_t>(free[i].ids.begin(), at), boost::test_tools::per_element());
    BOOST_TEST(ending[i].drawn == std::ssize(ending[i].ids) + (ending[i].ended ? 1 : 0));
  }
  BOOST_TEST((write_texts(model, prompt, 4, group, {}, 8)[0].ids != free[0].ids));
}

BOOST_AUTO_TEST_CASE(repetition_is_counted_in_sequences_of_four_tokens) {
  BOOST_TEST(repeated_share(std::vector<std::int32_t>{1, 1, 1, 1}) == 0);
  BOOST_TEST(repeated_share(std::vector<std::int32_t>{1, 2, 3, 4, 5, 6}) == 0);
  BOOST_TEST(repeated_share(std::vector<std::int32_t>{7, 7, 7, 7, 7, 7, 7}) == 0.75);
  BOOST_TEST(repeated_share(std::vector<std::int32_t>{1, 2, 3, 4, 1, 2, 3, 4}) == 0.2);
}

BOOST_AUTO_TEST_CASE(a_model_goes_on_from_prompts_and_from_beginnings_of_documents) {
  const Bench bench("rope", {}, /*averages=*/true);
  const Json options = {
      {"prompts", {"once upon", "a"}}, {"documents", 3}, {"prompt_tokens", 10}, {"texts", 2}, {"tokens", 20}};
  const artifact::Tables tables = sampled(bench, "texts", options);
  const artifact::Table& table = tables.at("samples");
  BOOST_REQUIRE(table.rows() == 10U);
  const auto &names = table.texts("prompt_id"), &prompts = table.texts("prompt"), &texts = table.texts("text");
  BOOST_TEST(names[0] == "given 0");
  BOOST_TEST(prompts[0] == "once upon");
  BOOST_TEST(prompts[3] == "a");
  const data::TokenDataset dataset(bench.folder / "data");
  const auto tokenizer = data::make_byte_tokenizer();
  const auto documents = make_shard_documents(dataset, *tokenizer, data::Split::kTest);
  for (std::size_t row = 4; row < 10; row += 2) {
    BOOST_TEST_REQUIRE(names[row].rfind("test document ", 0) == 0U);
    const auto id = support::parse_integer(names[row].substr(14));
    BOOST_REQUIRE(id.has_value());
    BOOST_TEST(prompts[row] == tokenizer->decode(documents->read(*id, 10).ids));
    BOOST_TEST(prompts[row].size() == 10U);
  }
  for (std::size_t row = 0; row < table.rows(); ++row) {
    BOOST_TEST(table.integers("text_id")[row] == static_cast<std::int64_t>(row % 2));
    BOOST_TEST((table.integers("tokens")[row] == 20 || table.integers("ended")[row] == 1));
    // An untrained model of 258 tokens, of which the fifty likeliest are drawn.
    BOOST_TEST(table.reals("nll")[row] > 4);
    BOOST_TEST(table.reals("nll")[row] < 6);
  }
  BOOST_TEST(tables.facts["step"] == 17);

  const auto file = [&](const char* name) { return support::read_file(bench.folder / (std::string(name) + ".h5")); };
  sampled(bench, "again", options);
  BOOST_TEST((file("again") == file("texts")));
  Json other = options;
  other["seed"] = 43;
  BOOST_TEST((sampled(bench, "other", other).at("samples").texts("text") != texts));
  other = options;
  other["weights"] = "best";
  const artifact::Tables best = sampled(bench, "best", other);
  BOOST_TEST(best.facts["step"] == 9);
  BOOST_TEST(best.facts["run_id"].get<std::string>() == tables.facts["run_id"].get<std::string>() + "-best");
  BOOST_TEST(
      best.at("samples").texts("text") == sampled(bench, "alone", options, "averages.h5").at("samples").texts("text"),
      boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_cannot_be_written_is_said) {
  const Bench bench("learned");
  const auto fails = [&](const Json& options, const std::string& words) {
    BOOST_CHECK_EXCEPTION(sampled(bench, "none", options), support::Error, [&](const support::Error& error) {
      const std::string text = error.what();
      if (text.find(words) == std::string::npos) BOOST_TEST_MESSAGE(text);
      return text.find(words) != std::string::npos;
    });
  };
  fails({{"documents", 0}}, "no prompt: `prompts` is empty, and `documents` is 0");
  fails({{"documents", 11}},
        "sample.documents: 11 documents of at least 16 tokens are asked for, and the test split has 10");
  fails({{"context", 33}}, "sample.context: 33 tokens, but the encoding has 32 positions");
  fails({{"weights", "ema"}}, "holds no averages of its weights");
}

BOOST_AUTO_TEST_SUITE_END()

// Tokens that need a long context, on models that can be solved by hand, and a model's choice of them.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "evaluation/language_modelling/key_tokens.h"
#include "evaluation/model_scorer.h"
#include "evaluation/run_task.h"
#include "model/language_model.h"

using namespace pe;
using namespace pe::evaluation;
using namespace pe::evaluation::testing;

namespace {

constexpr std::int32_t kCue = 7, kHard = 8, kKey = 9;

/// kKey and kHard cost less where the context holds kCue; all else costs 1.
FakeScorer reader() {
  return FakeScorer(
      [](const std::vector<std::int32_t>& ids, std::int64_t target) {
        const bool cued = std::find(ids.begin(), ids.begin() + target, kCue) != ids.begin() + target;
        const std::int32_t id = ids[static_cast<std::size_t>(target)];
        return FakeScorer::Answer{id == kKey ? (cued ? 0.5 : 4) : id == kHard ? (cued ? 3 : 9) : 1, false};
      },
      {.vocabulary = 257, .train_length = 64});
}

/// Bytes that repeat from document to document in another order.
class Bytes final : public DocumentSource {
 public:
  std::string split() const override { return "test"; }
  std::int64_t count() const override { return 12; }
  std::int64_t tokens(std::int64_t id) const override { return 50 + 20 * (id % 3); }
  std::uint64_t hash(std::int64_t id) const override { return support::mix(static_cast<std::uint64_t>(id)); }
  Document read(std::int64_t id, std::int64_t limit) const override {
    Document document{.id = id, .ids = {}, .bytes = {}};
    support::Xoshiro random(static_cast<std::uint64_t>(id));
    for (std::int64_t i = 0; i < std::min(limit, tokens(id)); ++i) {
      document.ids.push_back(static_cast<std::int32_t>('a' + random.below(6)));
      document.bytes.push_back(2);
    }
    return document;
  }
};

model::LanguageModel small_model(const char* encoding, std::uint64_t seed) {
  model::ModelConfig config;
  config.width = 32;
  config.layers = 1;
  config.heads = 2;
  config.init_std = 0.3;
  config.length = 64;
  config.encoding.json = encoding;
  return model::LanguageModel::make(config, 257, seed);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(longppl)

BOOST_AUTO_TEST_CASE(what_a_far_cue_gives_away_is_a_key_token) {
  FakeScorer reference = reader();
  std::vector<std::int32_t> ids(60, 1);
  ids[3] = kCue;
  for (const std::size_t place : {17U, 19U, 20U, 24U, 41U, 59U}) ids[place] = kKey;
  ids[45] = kHard;  // the cue saves much, and it stays dear
  std::vector<std::int64_t> places;
  for (const KeyToken& token : key_tokens(reference, ids, {}, 1)) {
    places.push_back(token.place);
    BOOST_TEST(token.full == 0.5);
    BOOST_TEST(token.less == 4);
  }
  // Short contexts are 16 tokens and up to 3 more, and begin every 4: contexts of 16 to 19 begin at 0, contexts of 20
  // to 23 at 4.
  const std::vector<std::int64_t> expected = {20, 24, 41, 59};
  BOOST_TEST(places == expected, boost::test_tools::per_element());
  BOOST_TEST(key_tokens(reference, ids, {.gain = 2, .most = 4}, 1).size() == 5u);
  BOOST_TEST(key_tokens(reference, ids, {.gain = 7, .most = 4}, 1).empty());
  BOOST_TEST(key_tokens(reference, {1, 2, 3}, {}, 1).empty());
}

BOOST_AUTO_TEST_CASE(a_reference_says_of_itself_what_it_said_when_it_marked) {
  const model::LanguageModel model = small_model("rope", 3), other = small_model("alibi", 4);
  const Json options = {{"context", {32, 64}}, {"min_documents", 3}, {"longppl", {{"gain", 0.05}, {"most", 100.0}}}};
  for (const model::LanguageModel* reference : {&model, &other}) {
    TaskExtras extras;
    extras.reference = reference;
    extras.reference_name = "other 123";
    const auto scorer = make_model_scorer(model, 4096);
    const Rows rows = run("longppl", *scorer, options, Bytes(), ByteCodec(), extras);
    const auto& marks = rows.at("lm_key_tokens");
    BOOST_REQUIRE(marks.size() > 20u);
    for (const Row& mark : marks) {
      BOOST_TEST(value("lm_key_tokens", mark, "byte_begin") ==
                 2 * value("lm_key_tokens", mark, "token"));  // two bytes each
      BOOST_TEST(value("lm_key_tokens", mark, "byte_end") == value("lm_key_tokens", mark, "byte_begin") + 2);
      BOOST_TEST(value("lm_key_tokens", mark, "nll_short") - value("lm_key_tokens", mark, "nll_full") > 0.05);
    }
    for (const Row& row : rows.at("lm_longppl")) {
      const double length = value("lm_longppl", row, "L");
      double sum = 0, count = 0;
      for (const Row& mark : marks) {
        if (value("lm_key_tokens", mark, "token") + 1 >= length) continue;  // behind the separator
        sum += value("lm_key_tokens", mark, "nll_full");
        ++count;
      }
      BOOST_TEST(value("lm_longppl", row, "key_tokens") == count);
      BOOST_TEST(value("lm_longppl", row, "n_docs") == 8);  // so many hold 64 tokens
      BOOST_TEST(value("lm_longppl", row, "candidates") == 8 * (length - 16));
      BOOST_TEST(std::abs(value("lm_longppl", row, "key_share") - count / (8 * (length - 16))) < 1e-12);
      const double mean = value("lm_longppl", row, "nll_mean");
      BOOST_TEST((std::abs(mean - sum / count) < 1e-5) == (reference == &model));
      BOOST_TEST(std::abs(value("lm_longppl", row, "longppl") / std::exp(mean) - 1) < 1e-12);
    }
  }
}

BOOST_AUTO_TEST_CASE(without_a_reference_or_beyond_its_length_there_is_no_number) {
  const model::LanguageModel model = small_model("rope", 3);
  const auto scorer = make_model_scorer(model, 4096);
  Json options = {{"context", {32, 80}}, {"min_documents", 3}};
  const Rows alone = run("longppl", *scorer, options, Bytes());
  for (const Row& row : alone.at("lm_longppl")) BOOST_TEST(text(cell("lm_longppl", row, "status")) == "na_reference");
  TaskExtras extras;
  extras.reference = &model;
  const Rows beyond = run("longppl", *scorer, options, Bytes(), ByteCodec(), extras);
  BOOST_TEST(text(cell("lm_longppl", rows_where(beyond, "lm_longppl", {{"L", "80"}}).at(0), "status")) ==
             "na_reference");
  // A model without training finds no token that the far context gives away by 50 nats.
  options["longppl"] = {{"gain", 50.0}};
  const Rows none = run("longppl", *scorer, options, Bytes(), ByteCodec(), extras);
  const Row row = rows_where(none, "lm_longppl", {{"L", "32"}}).at(0);
  BOOST_TEST(text(cell("lm_longppl", row, "status")) == "none");
  BOOST_TEST(std::isnan(value("lm_longppl", row, "longppl")));
}

BOOST_AUTO_TEST_SUITE_END()

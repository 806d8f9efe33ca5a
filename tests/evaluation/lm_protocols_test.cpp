// Tokens that each protocol feeds and scores, one by one, against a loop that follows its definition or the code of its
// source.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <set>

#include "evaluation/run_task.h"
#include "evaluation/stream_documents.h"

using namespace pe::evaluation;
using namespace pe::evaluation::testing;
using pe::Json;

namespace {

using Ids = std::vector<std::int32_t>;

/// Documents whose ids contain their place: token p of document d is 1000·(d + 1) + p.
class PlacedDocuments final : public DocumentSource {
 public:
  explicit PlacedDocuments(std::vector<std::int64_t> lengths) : lengths_(std::move(lengths)) {}
  std::string split() const override { return "test"; }
  std::int64_t count() const override { return static_cast<std::int64_t>(lengths_.size()); }
  std::int64_t tokens(std::int64_t id) const override { return lengths_[static_cast<std::size_t>(id)]; }
  std::uint64_t hash(std::int64_t id) const override { return static_cast<std::uint64_t>(id); }
  Document read(std::int64_t id, std::int64_t limit) const override {
    Document document;
    document.id = id;
    for (std::int64_t p = 0; p < std::min(limit, tokens(id)); ++p) {
      document.ids.push_back(static_cast<std::int32_t>(1000 * (id + 1) + p));
      document.bytes.push_back(1);
    }
    return document;
  }

 private:
  std::vector<std::int64_t> lengths_;
};

/// Predictions with their contexts: (all tokens before the target in its window, target).
using Predictions = std::vector<std::pair<Ids, std::int32_t>>;

/// A model that records its inputs. It claims to depend on the length, so that every window is fed whole.
struct Recorder {
  Predictions seen;
  std::size_t longest_fed = 0;
  FakeScorer scorer{[this](const Ids& ids, std::int64_t target) {
                      const auto at = static_cast<std::size_t>(target);
                      seen.emplace_back(Ids(ids.begin(), ids.begin() + target), ids[at]);
                      longest_fed = std::max(longest_fed, at);
                      return FakeScorer::Answer{1, false};
                    },
                    {.vocabulary = 100000, .train_length = 16, .length_dependent = true}};
};

constexpr std::int64_t kLength = 16;

/// Requests of `protocol` at the longest length, 16 tokens.
Predictions predictions(const std::string& protocol, const std::vector<std::int64_t>& documents,
                        const Json& more = Json::object()) {
  Recorder recorder;
  Json options = {{"context", {kLength}},
                  {"documents", documents.size()},
                  {"min_documents", 1},
                  {"perplexity", {{"protocols", {protocol}}}}};
  options["perplexity"].update(more);
  run("perplexity", recorder.scorer, options, PlacedDocuments(documents));
  std::sort(recorder.seen.begin(), recorder.seen.end());
  return recorder.seen;
}

Ids slice(const Ids& ids, std::int64_t begin, std::int64_t end) {
  const auto n = static_cast<std::int64_t>(ids.size());
  begin = std::clamp<std::int64_t>(begin, 0, n);
  end = std::clamp<std::int64_t>(end, begin, n);
  return {ids.begin() + begin, ids.begin() + end};
}

Ids document(std::int64_t d, std::int64_t tokens) {
  return PlacedDocuments({std::vector<std::int64_t>(10, tokens)}).read(d, tokens).ids;
}

/// Input and targets of the same length, shifted by one: all targets, or the last `count`.
void predict(const Ids& input, const Ids& targets, Predictions& into) {
  for (std::size_t i = 0; i < targets.size(); ++i) {
    into.emplace_back(slice(input, 0, static_cast<std::int64_t>(input.size() - targets.size() + i + 1)), targets[i]);
  }
}

/// Labels that are the input itself, of which the last `count` are predicted, but never the first.
void predict_inside(const Ids& input, std::int64_t count, Predictions& into) {
  const auto n = static_cast<std::int64_t>(input.size());
  for (std::int64_t at = std::max<std::int64_t>(1, n - count); at < n; ++at) {
    into.emplace_back(slice(input, 0, at), input[static_cast<std::size_t>(at)]);
  }
}

void same(Predictions expected, const Predictions& found) {
  std::sort(expected.begin(), expected.end());
  BOOST_TEST(expected.size() == found.size());
  BOOST_CHECK(expected == found);
}

constexpr std::int32_t kBos = 256;

}  // namespace

BOOST_AUTO_TEST_SUITE(lm_protocols_and_their_sources)

BOOST_AUTO_TEST_CASE(prefix_blocks_and_sliding_are_three_measurements_at_every_length) {
  // A loss that is the number of tokens before the target, and one that is the target's position in its document.
  FakeScorer by_context(
      [](const Ids&, std::int64_t target) {
        return FakeScorer::Answer{static_cast<double>(target), false};
      },
      {.vocabulary = 100000, .train_length = 64});
  FakeScorer by_position(
      [](const Ids& ids, std::int64_t target) {
        return FakeScorer::Answer{static_cast<double>(ids[static_cast<std::size_t>(target)] % 1000), false};
      },
      {.vocabulary = 100000, .train_length = 64});
  const PlacedDocuments documents(std::vector<std::int64_t>(8, 700));
  const Json options = {{"lengths", {0.5, 1, 2, 4}}, {"documents", 8}, {"min_documents", 8}};
  const Rows contexts = run("perplexity", by_context, options, documents);
  const Rows positions = run("perplexity", by_position, options, documents);
  for (const std::int64_t length : {32, 64, 128, 256}) {
    std::map<std::string, double> context, position;
    for (const char* protocol : {"prefix", "blocks", "sliding"}) {
      const auto row =
          rows_where(contexts, "lm_summary", {{"protocol", protocol}, {"L", std::to_string(length)}}).at(0);
      context[protocol] = number(cell("lm_summary", row, "nll_mean"));
      BOOST_TEST(std::abs(number(cell("lm_summary", row, "mean_context")) - context[protocol]) < 1e-4);
      position[protocol] = number(
          cell("lm_summary",
               rows_where(positions, "lm_summary", {{"protocol", protocol}, {"L", std::to_string(length)}}).at(0),
               "nll_mean"));
    }
    const auto half = static_cast<double>(length) / 2;
    BOOST_TEST(std::abs(context["prefix"] - half) < 0.01);
    BOOST_TEST(std::abs(context["blocks"] - half) < 0.01);
    // A stride of a quarter: three quarters of the window and more are before every token, at the longest length too.
    BOOST_TEST(std::abs(context["sliding"] - (1.75 * half - 0.5)) < 0.01);
    // Blocks and sliding score the 256 tokens behind the longest context, whatever the length.
    BOOST_TEST(std::abs(position["prefix"] - (half - 1)) < 0.01);
    BOOST_TEST(std::abs(position["sliding"] - 382.5) < 0.01);
    BOOST_TEST(std::abs(position["blocks"] - 382.5) < 1);
  }
}

BOOST_AUTO_TEST_CASE(anchored_scores_as_many_tokens_however_short_the_shortest_length) {
  FakeScorer by_context(
      [](const Ids&, std::int64_t target) {
        return FakeScorer::Answer{static_cast<double>(target), false};
      },
      {.vocabulary = 100000, .train_length = 128});
  const PlacedDocuments documents(std::vector<std::int64_t>(8, 900));
  const Json options = {{"lengths", {0.25, 1, 4}},
                        {"documents", 8},
                        {"min_documents", 8},
                        {"perplexity", {{"protocols", {"anchored", "tail"}}}}};
  const Rows rows = run("perplexity", by_context, options, documents);
  std::set<double> tokens;
  double before = 0;
  for (const char* length : {"32", "128", "512"}) {
    const Row row = rows_where(rows, "lm_summary", {{"protocol", "anchored"}, {"L", length}}).at(0);
    tokens.insert(number(cell("lm_summary", row, "tokens_scored")));
    const double context = number(cell("lm_summary", row, "mean_context"));
    BOOST_TEST(context >= std::stod(length) / 2);
    BOOST_TEST(context > before);
    before = context;
  }
  BOOST_TEST(tokens.size() == 1u);
  BOOST_TEST(*tokens.begin() >= 8 * 3 * 256);
  // A tail is at most half of its window, not of the shortest.
  BOOST_TEST(number(cell("lm_summary", rows_where(rows, "lm_summary", {{"protocol", "tail"}, {"L", "512"}}).at(0),
                         "tokens_scored")) == 8 * 256);
}

BOOST_AUTO_TEST_CASE(harness_is_what_lm_evaluation_harness_does) {
  // get_rolling_token_windows(tokens, prefix_token, max_seq_len, context_len = 1): as many tokens predicted as fed.
  Predictions expected;
  for (const std::int64_t d : {0, 1}) {
    const std::int64_t n = d == 0 ? 16 : 55;
    const Ids tokens = document(d, n);
    Ids input = {kBos};
    const Ids first = slice(tokens, 0, kLength - 1);
    input.insert(input.end(), first.begin(), first.end());
    predict(input, slice(tokens, 0, kLength), expected);
    for (std::int64_t predicted = std::min(kLength, n); predicted < n;) {
      const std::int64_t end = std::min(predicted + kLength, n);
      predict(slice(tokens, end - kLength - 1, end - 1), slice(tokens, predicted, end), expected);
      predicted = end;
    }
  }
  same(expected, predictions("harness", {16, 55}));
}

BOOST_AUTO_TEST_CASE(the_harness_feeds_no_more_than_the_context) {
  Recorder recorder;
  recorder.scorer = FakeScorer(
      [&](const Ids& ids, std::int64_t target) {
        recorder.longest_fed = std::max(recorder.longest_fed, static_cast<std::size_t>(target));
        BOOST_TEST(ids.size() <= 17u);  // sixteen, and the label that the fake appends
        return FakeScorer::Answer{1, false};
      },
      {.vocabulary = 100000, .train_length = 16, .max_positions = 16});
  const Json options = {{"context", {16}},
                        {"documents", 2},
                        {"min_documents", 1},
                        {"perplexity", {{"protocols", {"harness", "alibi_stride_1"}}}}};
  const Rows rows = run("perplexity", recorder.scorer, options, PlacedDocuments({55, 55}));
  BOOST_TEST(recorder.longest_fed == 16u);
  for (const Row& row : rows.at("lm_summary")) BOOST_TEST(text(cell("lm_summary", row, "status")) == "ok");
}

BOOST_AUTO_TEST_CASE(yarn_is_a_prefix_and_govreport_slides_over_whole_documents) {
  // The script's loop with its separator before every window; labels are the input, shifted inside the model.
  const auto script = [](std::int64_t n, bool truncate) {
    Predictions expected;
    for (const std::int64_t d : {0, 1}) {
      Ids tokens = document(d, n);
      const std::int64_t most = kLength - 1;
      std::int64_t stride = std::min<std::int64_t>(256, most);
      if (truncate) {
        tokens = slice(tokens, 0, most);
        stride = most;
      }
      const auto length = static_cast<std::int64_t>(tokens.size());
      std::int64_t before = 0;
      for (std::int64_t begin = 0; begin < length; begin += stride) {
        const std::int64_t end = std::min(begin + most, length);
        Ids input = {kBos};
        const Ids window = slice(tokens, begin, end);
        input.insert(input.end(), window.begin(), window.end());
        predict_inside(input, end - before, expected);
        before = end;
        if (end == length) break;
      }
    }
    return expected;
  };
  same(script(53, true), predictions("yarn", {53, 53}));
  same(script(53, false), predictions("yarn_govreport", {53, 53}));
}

BOOST_AUTO_TEST_CASE(govreport_averages_windows_and_reads_beyond_the_longest_context) {
  // A loss of 1 in whole windows, of 2 in the shorter one at the end.
  FakeScorer model([](const Ids& ids, std::int64_t) {
    return FakeScorer::Answer{ids.size() == 300 ? 1.0 : 2.0, false};
  });
  const Json options = {{"context", {300}},
                        {"documents", 10},
                        {"min_documents", 10},
                        {"perplexity", {{"protocols", {"yarn_govreport"}}}}};
  const Rows rows = run("perplexity", model, options, FakeDocuments(std::vector<std::int64_t>(10, 450)));
  // Windows [0, 299) and [256, 450), each with a separator: the mean of 1 and 2, though the first has more tokens.
  const Row yarn = rows_where(rows, "lm_summary", {{"protocol", "yarn_govreport"}}).at(0);
  BOOST_TEST(std::abs(number(cell("lm_summary", yarn, "nll_mean")) - 1.5) < 1e-9);
  BOOST_TEST(number(cell("lm_summary", yarn, "tokens_scored")) == 4500);
  BOOST_TEST(text(cell("lm_summary", yarn, "bos_policy")) == "every_window");
}

/// Documents of 23, 30 and 46 tokens, each after its separator, as one stream of six pieces of 16 tokens and a rest.
const std::vector<std::int64_t> kStreamed = {23, 30, 46};

Ids stream(const Ids& joint) {
  Ids ids;
  for (std::size_t d = 0; d < kStreamed.size(); ++d) {
    ids.insert(ids.end(), joint.begin(), joint.end());
    const Ids own = document(static_cast<std::int64_t>(d), kStreamed[d]);
    ids.insert(ids.end(), own.begin(), own.end());
  }
  return ids;
}

BOOST_AUTO_TEST_CASE(alibi_is_blocks_of_one_stream_and_one_token_a_window) {
  // fairseq: a block's input is the block shifted by one, beginning with the token before it. With a context window of
  // L - 1 each token is predicted from the L tokens before it. Our stream begins with the separator, which nothing
  // precedes.
  const auto asked = [&](const std::string& protocol) {
    Recorder recorder;
    const Json options = {
        {"context", {kLength}}, {"documents", 6}, {"min_documents", 1}, {"perplexity", {{"protocols", {protocol}}}}};
    run("perplexity", recorder.scorer, options, PlacedDocuments(kStreamed));
    std::sort(recorder.seen.begin(), recorder.seen.end());
    return recorder.seen;
  };
  const Ids ids = stream({kBos});
  BOOST_REQUIRE(ids.size() / 16 == 6u);
  Predictions blocks, sliding;
  for (std::int64_t block = 0; block < 6; ++block) {
    for (std::int64_t at = 0; at < kLength; ++at) {
      const std::int64_t target = kLength * block + at;
      if (target == 0) continue;
      const auto token = ids[static_cast<std::size_t>(target)];
      blocks.emplace_back(slice(ids, kLength * block - 1, target), token);
      sliding.emplace_back(slice(ids, target - kLength, target), token);
    }
  }
  same(blocks, asked("alibi"));
  same(sliding, asked("alibi_stride_1"));
}

BOOST_AUTO_TEST_CASE(seed_004_slides_by_half_over_one_stream) {
  Recorder recorder;
  const Json options = {
      {"context", {kLength}}, {"documents", 6}, {"min_documents", 1}, {"perplexity", {{"protocols", {"seed_004"}}}}};
  run("perplexity", recorder.scorer, options, PlacedDocuments(kStreamed));
  std::sort(recorder.seen.begin(), recorder.seen.end());
  const Ids ids = stream({'\n', '\n'});
  const std::int64_t n = 6 * kLength;
  Predictions expected;
  std::int64_t before = 0;
  for (std::int64_t begin = 0; begin + kLength <= n; begin += kLength / 2) {
    const std::int64_t end = begin + kLength;
    predict_inside(slice(ids, begin, end), end - before, expected);
    before = end;
  }
  same(expected, recorder.seen);
}

BOOST_AUTO_TEST_CASE(shorter_contexts_of_a_stream_score_the_same_tokens) {
  FakeScorer by_target(
      [](const Ids& ids, std::int64_t target) {
        return FakeScorer::Answer{static_cast<double>(ids[static_cast<std::size_t>(target)]) / 1000, false};
      },
      {.vocabulary = 100000, .train_length = 16});
  const Json options = {{"context", {4, 8, 16}},
                        {"documents", 6},
                        {"min_documents", 1},
                        {"perplexity", {{"protocols", {"alibi", "alibi_stride_1", "seed_004", "stream"}}}}};
  const Rows rows = run("perplexity", by_target, options, PlacedDocuments(kStreamed));
  for (const char* protocol : {"alibi", "alibi_stride_1", "seed_004"}) {
    std::set<double> losses;
    for (const Row& row : rows_where(rows, "lm_summary", {{"protocol", protocol}})) {
      losses.insert(std::round(1e4 * number(cell("lm_summary", row, "nll_mean"))));
      BOOST_TEST(number(cell("lm_summary", row, "tokens_scored")) == 95);  // all but the first
      BOOST_TEST(number(cell("lm_summary", row, "n_docs")) == 6);
    }
    BOOST_TEST(losses.size() == 1u, protocol);
  }
}

BOOST_AUTO_TEST_SUITE_END()

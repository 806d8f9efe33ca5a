// The tasks on models that can be solved by hand.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>

#include "data/tasks/algorithmic_task.h"
#include "evaluation/eval_group.h"
#include "evaluation/fakes.h"
#include "evaluation/lm_protocols.h"
#include "evaluation/run_task.h"
#include "evaluation/stream_documents.h"
#include "support/recording_progress.h"
#include "support/test_data.h"
#include "support/yaml.h"

using namespace pe::evaluation;
using namespace pe::evaluation::testing;
using pe::Json;

namespace {

const Json kLengths = {{"lengths", {0.5, 1, 2, 4}}, {"documents", 40}, {"min_documents", 30}};

/// 40 of them hold twice the longest context of kLengths, 1,024 tokens.
FakeDocuments long_documents(std::int64_t count = 48, std::int64_t tokens = 1100) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < count; ++i) lengths.push_back(i % 6 == 5 ? 100 : tokens + i);
  return FakeDocuments(std::move(lengths));
}

/// Predicts what followed the earlier place whose text before it agrees longest with the text before the target.
FakeScorer induction_model() {
  return FakeScorer([](const std::vector<std::int32_t>& ids, std::int64_t target) {
    const auto at = static_cast<std::size_t>(target);
    std::size_t best = 0, longest = 0;
    for (std::size_t p = 1; p < at; ++p) {
      std::size_t same = 0;
      while (same < p && ids[p - 1 - same] == ids[at - 1 - same]) ++same;
      if (same >= longest) {
        longest = same;
        best = p;
      }
    }
    const bool right = ids[best] == ids[at];
    return FakeScorer::Answer{right ? 0.0 : 20.0, right};
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(tasks)

BOOST_AUTO_TEST_CASE(a_uniform_model_has_a_perplexity_of_its_vocabulary_everywhere) {
  const FakeDocuments documents = long_documents();
  for (const char* bos : {"none", "doc_start", "every_window"}) {
    FakeScorer scorer = uniform_model(256);
    Json options = kLengths;
    options["bos"] = bos;
    const Rows rows = run("perplexity", scorer, options, documents);
    BOOST_TEST(rows.at("lm_summary").size() == 12);
    for (const Row& row : rows.at("lm_summary")) {
      const double tokens = value("lm_summary", row, "tokens_scored");
      BOOST_TEST(text(cell("lm_summary", row, "status")) == "ok");
      BOOST_TEST(std::abs(value("lm_summary", row, "ppl") / 256 - 1) < 1e-6);
      BOOST_TEST(value("lm_summary", row, "n_docs") == 40);
      BOOST_TEST(std::abs(value("lm_summary", row, "bpb") - tokens * 8 / (tokens * 3)) < 1e-6);
    }
  }
}

BOOST_AUTO_TEST_CASE(nats_per_word_are_counted_where_words_end) {
  struct Worded final : DocumentSource {  // each fourth token ends a word
    FakeDocuments below = long_documents();
    std::string split() const override { return below.split(); }
    std::int64_t count() const override { return below.count(); }
    std::int64_t tokens(std::int64_t id) const override { return below.tokens(id); }
    std::uint64_t hash(std::int64_t id) const override { return below.hash(id); }
    Document read(std::int64_t id, std::int64_t limit) const override { return below.read(id, limit); }
    std::vector<std::int32_t> words(std::int64_t id, std::int64_t limit) const override {
      std::vector<std::int32_t> ends(static_cast<std::size_t>(std::min(limit, tokens(id))));
      for (std::size_t i = 3; i < ends.size(); i += 4) ends[i] = 1;
      return ends;
    }
  };
  FakeScorer scorer = uniform_model(256);
  Json options = kLengths;
  options["perplexity"] = {{"protocols", {"prefix", "stream"}}};
  BOOST_TEST(run("perplexity", scorer, options, Worded()).count("lm_words") == 0u);
  options["perplexity"]["words"] = true;
  const Rows rows = run("perplexity", scorer, options, Worded());
  for (const std::int64_t length : {64, 128, 256, 512}) {
    const auto prefix = rows_where(rows, "lm_words", {{"protocol", "prefix"}, {"L", std::to_string(length)}});
    BOOST_REQUIRE(prefix.size() == 1u);
    BOOST_TEST(value("lm_words", prefix[0], "words_scored") == 40 * ((length - 1) / 4));  // the separator takes a place
    const double nats = static_cast<double>(length - 1) * std::log(256.0) / static_cast<double>((length - 1) / 4);
    BOOST_TEST(std::abs(value("lm_words", prefix[0], "nats_per_word") / nats - 1) < 1e-6);
    BOOST_TEST(std::abs(value("lm_words", prefix[0], "ppl_word") / std::exp(nats) - 1) < 1e-4);
    const auto stream = rows_where(rows, "lm_words", {{"protocol", "stream"}, {"L", std::to_string(length)}});
    BOOST_REQUIRE(stream.size() == 1u);
    BOOST_TEST(text(cell("lm_words", stream[0], "status")) == "na_measure");
    BOOST_TEST(std::isnan(value("lm_words", stream[0], "nats_per_word")));
  }
}

BOOST_AUTO_TEST_CASE(prefixes_score_every_token_but_the_separator) {
  FakeScorer scorer = uniform_model(256);
  const Rows rows = run("perplexity", scorer, kLengths, long_documents());
  for (const std::int64_t length : {64, 128, 256, 512}) {
    const auto found = rows_where(rows, "lm_doc", {{"protocol", "prefix"}, {"L", std::to_string(length)}});
    BOOST_TEST(found.size() == 40);
    for (const Row& row : found) BOOST_TEST(value("lm_doc", row, "tokens_scored") == length - 1);
  }
}

BOOST_AUTO_TEST_CASE(every_length_has_the_same_documents) {
  FakeScorer scorer = uniform_model(256);
  const Rows rows = run("perplexity", scorer, kLengths, long_documents());
  std::set<std::set<std::int64_t>> sets;
  for (const char* length : {"64", "128", "256", "512"}) {
    std::set<std::int64_t> ids;
    for (const Row& row : rows_where(rows, "lm_doc", {{"protocol", "sliding"}, {"L", length}})) {
      ids.insert(static_cast<std::int64_t>(value("lm_doc", row, "doc_id")));
    }
    sets.insert(ids);
  }
  BOOST_TEST(sets.size() == 1);
}

BOOST_AUTO_TEST_CASE(a_bounded_model_is_na_beyond_its_positions_and_reads_the_same_documents) {
  FakeScorer bounded = order_one_model({.vocabulary = 256, .train_length = 128, .max_positions = 128});
  FakeScorer open = order_one_model();
  const Rows rows = run("perplexity", bounded, kLengths, long_documents());
  const Rows all = run("perplexity", open, kLengths, long_documents());
  for (const char* length : {"256", "512"}) {
    for (const Row& row : rows_where(rows, "lm_summary", {{"L", length}})) {
      BOOST_TEST(text(cell("lm_summary", row, "status")) == "na_positions");
      BOOST_TEST(std::isnan(value("lm_summary", row, "ppl")));
      BOOST_TEST(std::isnan(value("lm_summary", row, "n_docs")));
    }
    BOOST_TEST(rows_where(rows, "lm_doc", {{"L", length}}).empty());
  }
  for (const char* protocol : {"prefix", "blocks", "sliding"}) {
    const auto mine = rows_where(rows, "lm_doc", {{"L", "128"}, {"protocol", protocol}});
    const auto other = rows_where(all, "lm_doc", {{"L", "128"}, {"protocol", protocol}});
    BOOST_REQUIRE_EQUAL(mine.size(), other.size());
    for (std::size_t i = 0; i < mine.size(); ++i) {
      BOOST_TEST(value("lm_doc", mine[i], "doc_id") == value("lm_doc", other[i], "doc_id"));
      BOOST_TEST(std::abs(value("lm_doc", mine[i], "nll_sum") - value("lm_doc", other[i], "nll_sum")) < 1e-9);
    }
  }
}

BOOST_AUTO_TEST_CASE(sharing_passes_gives_what_separate_passes_give) {
  // A model that claims to depend on the length is fed every window; the other reads prefixes off one pass.
  FakeScorer shared = order_one_model();
  FakeScorer apart = order_one_model({.vocabulary = 256, .train_length = 128, .length_dependent = true});
  for (const char* bos : {"none", "doc_start", "every_window"}) {
    Json options = kLengths;
    options["bos"] = bos;
    shared.tokens_fed = apart.tokens_fed = 0;
    const Rows a = run("perplexity", shared, options, long_documents());
    const Rows b = run("perplexity", apart, options, long_documents());
    BOOST_TEST(shared.tokens_fed < apart.tokens_fed);
    BOOST_REQUIRE_EQUAL(a.at("lm_doc").size(), b.at("lm_doc").size());
    for (std::size_t i = 0; i < a.at("lm_doc").size(); ++i) {
      const Row &x = a.at("lm_doc")[i], &y = b.at("lm_doc")[i];
      BOOST_TEST(value("lm_doc", x, "tokens_scored") == value("lm_doc", y, "tokens_scored"));
      BOOST_TEST(std::abs(value("lm_doc", x, "nll_sum") - value("lm_doc", y, "nll_sum")) < 1e-6);
    }
  }
}

BOOST_AUTO_TEST_CASE(sliding_windows_of_an_order_one_model_agree_at_every_length) {
  // The loss depends on one token before the target, so every protocol that scores the same targets finds the same.
  FakeScorer scorer = order_one_model();
  Json options = kLengths;
  options["document_tokens"] = 1030;
  options["perplexity"] = {{"protocols", {"sliding"}}, {"stride_share", 0.5}, {"scored", "all"}};
  const Rows rows = run("perplexity", scorer, options, long_documents());
  const double first = value("lm_summary", rows.at("lm_summary")[0], "nll_mean");
  for (const Row& row : rows.at("lm_summary")) {
    BOOST_TEST(value("lm_summary", row, "tokens_scored") == 40 * 1029);
    BOOST_TEST(std::abs(value("lm_summary", row, "nll_mean") - first) < 1e-6);
  }
}

BOOST_AUTO_TEST_CASE(too_few_long_documents_lower_the_longest_length) {
  // 40 documents of 600 tokens hold 512 once and 256 twice; ten hold 512 twice.
  std::vector<std::int64_t> lengths(40, 600);
  for (int i = 0; i < 10; ++i) lengths[static_cast<std::size_t>(i)] = 1100;
  FakeScorer scorer = uniform_model(256);
  const Rows rows = run("perplexity", scorer, kLengths, FakeDocuments(lengths));
  for (const Row& row : rows.at("lm_summary")) {
    // Blocks and sliding end where documents no longer hold two windows; prefixes need one, and continue.
    const bool longest = value("lm_summary", row, "L") == 512 && text(cell("lm_summary", row, "protocol")) != "prefix";
    BOOST_TEST(text(cell("lm_summary", row, "status")) == (longest ? "skipped_docs" : "ok"));
    BOOST_TEST(value("lm_summary", row, "n_docs") == (longest ? 10 : 40));
  }
}

BOOST_AUTO_TEST_CASE(one_warning_names_all_contexts_that_too_few_documents_hold) {
  FakeScorer scorer = uniform_model(256);
  const auto warnings = [&](const std::vector<std::int64_t>& lengths) {
    pe::test::RecordingProgress progress;
    run("perplexity", scorer, kLengths, FakeDocuments(lengths), ByteCodec(), {}, progress);
    return progress.lines.substr(std::min(progress.lines.size(), progress.lines.find("warning: ")));
  };
  BOOST_TEST(warnings(std::vector<std::int64_t>(40, 1100)).empty());
  // Of 300 tokens: prefix needs 512, blocks and sliding need twice 256.
  BOOST_TEST(warnings(std::vector<std::int64_t>(40, 300)) ==
             "warning: perplexity: too few test documents are long enough, and eval.min_documents asks for 30; left "
             "out: prefix at 512 tokens (0 documents); blocks, sliding at 256 tokens (0 documents of twice as many "
             "tokens), 512 (0). Lower eval.lengths, or use longer documents\n");
  BOOST_TEST(warnings({5000}) ==
             "warning: perplexity: too few test documents are long enough, and eval.min_documents asks for 30; left "
             "out: prefix at 64 tokens (1 document), 128 (1), 256 (1), 512 (1); blocks, sliding at 64 tokens (1 "
             "document of twice as many tokens), 128 (1), 256 (1), 512 (1). The test split has 1 document: a .txt "
             "file is one document, and text.document_bytes of pe-fetch divides it\n");
}

BOOST_AUTO_TEST_CASE(a_cut_below_the_longest_context_is_refused) {
  FakeScorer scorer = uniform_model(256);
  Json options = kLengths;
  options["document_tokens"] = 1000;
  BOOST_CHECK_EXCEPTION(run("perplexity", scorer, options, long_documents()), pe::support::ConfigError,
                        [](const pe::support::ConfigError& error) {
                          return std::string(error.what()).find("1000") != std::string::npos &&
                                 std::string(error.what()).find("512") != std::string::npos;
                        });
}

BOOST_AUTO_TEST_CASE(a_perplexity_that_explodes_is_overflow) {
  FakeScorer scorer([](const std::vector<std::int32_t>&, std::int64_t) { return FakeScorer::Answer{12.0, false}; });
  const Rows rows = run("perplexity", scorer, kLengths, long_documents());
  for (const Row& row : rows.at("lm_summary")) {
    BOOST_TEST(text(cell("lm_summary", row, "status")) == "overflow");
  }
}

BOOST_AUTO_TEST_CASE(a_stochastic_model_is_averaged_over_draws) {
  FakeScorer scorer = uniform_model(256, {.train_length = 128, .stochastic = true});
  scorer.noise = 0.1;  // draws 0 to 4: 0.2 on average
  const Rows rows = run("perplexity", scorer, kLengths, long_documents());
  for (const Row& row : rows.at("lm_summary")) {
    BOOST_TEST(std::abs(value("lm_summary", row, "nll_mean") - std::log(256.0) - 0.2) < 1e-5);
  }
}

BOOST_AUTO_TEST_CASE(a_uniform_model_is_uniform_under_every_protocol) {
  FakeScorer scorer = uniform_model(256);
  Json options = kLengths;
  Json names = Json::array();
  for (const LmProtocol& protocol : lm_protocols()) names.push_back(protocol.name);
  options["perplexity"] = {{"protocols", names}};
  options["lengths"] = {0.25, 0.5, 1};
  const Rows rows = run("perplexity", scorer, options, long_documents());
  std::map<std::string, int> seen;
  for (const Row& row : rows.at("lm_summary")) {
    ++seen[text(cell("lm_summary", row, "protocol"))];
    BOOST_TEST(text(cell("lm_summary", row, "status")) == "ok");
    BOOST_TEST(std::abs(value("lm_summary", row, "ppl") / 256 - 1) < 1e-6);
  }
  for (const LmProtocol& protocol : lm_protocols()) {
    BOOST_TEST(seen[protocol.name] == (protocol.cut == Cut::kPosition ? 0 : 3),
               protocol.name << ": " << seen[protocol.name]);
  }
  for (const Row& row : rows.at("lm_position")) {
    BOOST_TEST(std::abs(value("lm_position", row, "nll_mean") - std::log(256.0)) < 1e-5);
    BOOST_TEST(value("lm_position", row, "se") < 1e-6);
    BOOST_TEST(value("lm_position", row, "n") == 40);
  }
  // Positions 1 to 127: seven bins of powers of two, and 32 of width 4, the first without its position 0.
  BOOST_TEST(rows_where(rows, "lm_position", {{"bins", "log"}}).size() == 7u);
  BOOST_TEST(rows_where(rows, "lm_position", {{"bins", "linear"}}).size() == 32u);
  for (const Row& row : rows_where(rows, "lm_length", {{"measure", "ratio"}})) {
    BOOST_TEST(std::abs(value("lm_length", row, "value") - 1) < 1e-9);
    BOOST_TEST(value("lm_length", row, "ci_lo") <= value("lm_length", row, "ci_hi"));
  }
  const Row usable = rows_where(rows, "lm_length", {{"measure", "usable_context"}}).at(0);
  BOOST_TEST(value("lm_length", usable, "value") == 128);
  // No length exceeds the training length.
  BOOST_TEST(text(cell("lm_length", rows_where(rows, "lm_length", {{"measure", "blowup_position"}}).at(0), "status")) ==
             "na_uncovered");
  BOOST_TEST(text(cell("lm_length", rows_where(rows, "lm_length", {{"measure", "gain_4x"}}).at(0), "status")) ==
             "na_uncovered");
}

BOOST_AUTO_TEST_CASE(anchored_targets_are_the_same_at_every_length) {
  // The number of a token's window and its id, for the tokens scored at each length.
  std::map<std::size_t, std::vector<std::vector<std::int32_t>>> targets;
  FakeScorer recorder(
      [&](const std::vector<std::int32_t>& ids, std::int64_t target) {
        auto& of = targets[ids.size()];
        if (target == static_cast<std::int64_t>(ids.size()) - 32) of.emplace_back();
        of.back().push_back(ids[static_cast<std::size_t>(target)]);
        return FakeScorer::Answer{1.0, false};
      },
      {.vocabulary = 256, .train_length = 128, .length_dependent = true});
  Json options = kLengths;
  options["perplexity"] = {{"protocols", {"anchored"}}};
  options["perplexity"]["targets"] = 32;
  run("perplexity", recorder, options, long_documents());
  BOOST_TEST(targets.size() == 4u);
  for (auto& [length, lists] : targets) {
    std::sort(lists.begin(), lists.end());
    BOOST_CHECK(lists == targets.begin()->second);
  }
  BOOST_TEST(targets.at(64).size() > 40u);  // up to four ends a document

  FakeScorer order_one = order_one_model();
  const Rows rows = run("perplexity", order_one, options, long_documents());
  std::set<double> losses;
  for (const Row& row : rows.at("lm_summary")) losses.insert(value("lm_summary", row, "nll_mean"));
  BOOST_TEST(losses.size() == 1u);
  const Row effective = rows_where(rows, "lm_length", {{"measure", "effective_context"}}).at(0);
  BOOST_TEST(value("lm_length", effective, "value") == 64);  // more context does not help such a model
  BOOST_TEST(value("lm_length", effective, "ci_hi") == 64);
}

BOOST_AUTO_TEST_CASE(losses_that_rise_beyond_training_are_found_where_they_rise) {
  // Better up to 100 tokens, ruined from 200 on; the training length is 128.
  FakeScorer broken([](const std::vector<std::int32_t>&, std::int64_t target) {
    return FakeScorer::Answer{target < 100 ? 4 - 0.01 * static_cast<double>(target) : target < 200 ? 3.0 : 5.0, false};
  });
  Json options = kLengths;
  options["perplexity"] = {{"protocols", {"position", "anchored"}}};
  const Rows rows = run("perplexity", broken, options, long_documents());
  const Row blowup = rows_where(rows, "lm_length", {{"measure", "blowup_position"}}).at(0);
  // Bins of 32 tokens: [192, 224) is the first that is worse than [64, 128) by 0.1.
  BOOST_TEST(value("lm_length", blowup, "value") == 192);
  BOOST_TEST(value("lm_length", blowup, "ci_lo") == 192);
  BOOST_TEST(value("lm_length", blowup, "ci_hi") == 192);
  const Row gain = rows_where(rows, "lm_length", {{"measure", "gain_4x"}}).at(0);
  BOOST_TEST(value("lm_length", gain, "value") < -1.5);
  BOOST_TEST(std::isfinite(value("lm_length", gain, "ci_lo")));
  const Row usable = rows_where(rows, "lm_length", {{"measure", "usable_context"}}).at(0);
  BOOST_TEST(value("lm_length", usable, "value") == 128);  // whatever 64 tokens are worth
}

BOOST_AUTO_TEST_CASE(a_stream_is_its_documents_in_the_order_of_their_hashes) {
  const FakeDocuments documents({5, 9, 7});
  StreamDocuments stream(documents, {256, 255}, 2);
  BOOST_TEST(stream.pieces(4) == (5 + 9 + 7 + 6) / 4);
  std::vector<std::int32_t> expected, bytes;
  for (const std::int64_t id : select_documents(documents, 1, 3)) {
    const Document document = documents.read(id, 100);
    expected.insert(expected.end(), {256, 255});
    bytes.insert(bytes.end(), {2, 0});
    expected.insert(expected.end(), document.ids.begin(), document.ids.end());
    bytes.insert(bytes.end(), document.bytes.begin(), document.bytes.end());
  }
  for (const std::int64_t piece : {1, 4, 9, 13, 27}) {
    stream.cut_at(piece);
    std::vector<std::int32_t> ids, of_text;
    for (std::int64_t id = 0; id < stream.count(); ++id) {
      const Document part = stream.read(id, piece);
      BOOST_TEST(part.ids.size() == static_cast<std::size_t>(piece));
      ids.insert(ids.end(), part.ids.begin(), part.ids.end());
      of_text.insert(of_text.end(), part.bytes.begin(), part.bytes.end());
    }
    expected.resize(std::max(expected.size(), ids.size()));
    BOOST_TEST(
        std::vector<std::int32_t>(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(ids.size())) == ids,
        boost::test_tools::per_element());
    BOOST_TEST(std::vector<std::int32_t>(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(of_text.size())) ==
                   of_text,
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(an_oracle_answers_every_passkey) {
  FakeScorer oracle = induction_model();
  Json options = kLengths;
  options["passkey"] = {{"depths", {0, 0.5, 1}}, {"trials", 4}, {"candidates", 5}};
  const Rows rows = run("passkey", oracle, options, long_documents());
  for (const Row& row : rows.at("retrieval_summary")) {
    if (text(cell("retrieval_summary", row, "status")) != "ok") continue;
    BOOST_TEST(value("retrieval_summary", row, "em") == 1);
    BOOST_TEST(value("retrieval_summary", row, "digit_acc") == 1);
    BOOST_TEST(value("retrieval_summary", row, "rank_acc") == 1);
    BOOST_TEST(value("retrieval_summary", row, "gain") > 1);
    BOOST_TEST(value("retrieval_summary", row, "recovered") > 0.9);
  }
  // 64 tokens of bytes hold the short wording alone, so the whole curve has it.
  for (const char* length : {"64", "128", "256", "512"}) {
    BOOST_TEST(rows_where(rows, "retrieval_summary", {{"L", length}, {"variant", "short"}, {"depth", "all"}}).size() ==
               1);
    for (const char* measure : {"S0", "parts", "S1", "S1_digits", "S2_recovered", "S3", "S3_mrr", "S4", "S5"}) {
      const auto ladder =
          rows_where(rows, "retrieval_ladder", {{"task", "passkey"}, {"L", length}, {"measure", measure}});
      BOOST_REQUIRE(ladder.size() == 1u);
      BOOST_TEST(text(cell("retrieval_ladder", ladder[0], "status")) == "ok", measure);
      if (std::string(measure) != "S2_recovered")
        BOOST_TEST(value("retrieval_ladder", ladder[0], "value") == 1, measure);
    }
  }
  BOOST_TEST(rows_where(rows, "retrieval_trial", {{"L", "512"}}).size() == 12);
  // Lengths that all hold the long wording have that one.
  options["context"] = {512, 1024};
  const Rows longer = run("passkey", oracle, options, long_documents());
  for (const Row& row : longer.at("retrieval_summary")) {
    BOOST_TEST(text(cell("retrieval_summary", row, "variant")) == "long");
  }
}

BOOST_AUTO_TEST_CASE(a_passkey_is_recorded_where_it_landed) {
  // Facts move back to the beginning of a unit of filler, 87 bytes: at 512 tokens that is a sixth of the text.
  FakeScorer uniform = uniform_model(257);
  const Json options = {{"context", {512}},
                        {"passkey", {{"depths", {0, 0.5, 1}}, {"trials", 2}, {"wording", "short"}}}};
  const Rows rows = run("passkey", uniform, options, long_documents());
  const double budget = 512 - 1 - 12 - 4 - 6;  // BOS, `Code 12345.`, `Code`, ` 12345`
  for (const auto& [depth, landed] : {std::pair{"0", 0.0}, {"0.5", 174 / budget}, {"1", 435 / budget}}) {
    const auto row = rows_where(rows, "retrieval_summary", {{"depth", depth}}).at(0);
    BOOST_TEST(std::abs(value("retrieval_summary", row, "landed") - landed) < 1e-9, depth);
  }
  for (const Row& row : rows.at("retrieval_trial")) {
    BOOST_TEST(value("retrieval_trial", row, "landed") <= value("retrieval_trial", row, "depth"));
  }
}

BOOST_AUTO_TEST_CASE(passkeys_in_the_words_of_another_source_are_told_apart) {
  FakeScorer oracle = induction_model();
  Json options = {{"lengths", {0.25, 1}}};
  options["passkey"] = {{"depths", {0, 1}},
                        {"trials", 3},
                        {"text",
                         {{"header", "Hear this.\n"},
                          {"filler", "Grass grows. "},
                          {"fact", "\nThe key: {K}. So {K}.\n"},
                          {"question", "\nThe key:"},
                          {"answer", " {K}."},
                          {"digits", 4}}}};
  const Rows rows = run("passkey", oracle, options, long_documents());
  // At 32 tokens there is no room, and no other wording steps in.
  for (const auto& [length, state] : {std::pair{"32", "na_length"}, {"128", "ok"}}) {
    const auto found = rows_where(rows, "retrieval_summary", {{"L", length}, {"variant", "given"}, {"depth", "all"}});
    BOOST_REQUIRE(found.size() == 1u);
    BOOST_TEST(text(cell("retrieval_summary", found[0], "status")) == state);
  }
  for (const Row& row : rows.at("retrieval_trial")) {
    BOOST_TEST(value("retrieval_trial", row, "em") == 1);
    BOOST_TEST(value("retrieval_trial", row, "digit_total") == 6);  // a space, four digits, the full stop
  }
}

BOOST_AUTO_TEST_CASE(a_uniform_model_ranks_by_chance_and_gains_nothing) {
  FakeScorer uniform = uniform_model(257);
  Json options = kLengths;
  options["passkey"] = {{"depths", {0, 1}}, {"trials", 5}, {"candidates", 10}};
  const Rows rows = run("passkey", uniform, options, long_documents());
  for (const Row& row : rows.at("retrieval_summary")) {
    BOOST_TEST(value("retrieval_summary", row, "em") == 0);
    BOOST_TEST(value("retrieval_summary", row, "gain") == 0);
    BOOST_TEST(std::abs(value("retrieval_summary", row, "rank_acc") - 0.1) < 1e-12);
  }
}

BOOST_AUTO_TEST_CASE(passkeys_without_room_or_positions_say_so) {
  FakeScorer uniform = uniform_model(257, {.train_length = 16, .max_positions = 64});
  Json options = {{"lengths", {1, 4, 8}}, {"passkey", {{"depths", {0}}, {"trials", 1}}}};
  const Rows rows = run("passkey", uniform, options, long_documents());
  for (const Row& row : rows.at("retrieval_summary")) {
    const double length = value("retrieval_summary", row, "L");
    BOOST_TEST(text(cell("retrieval_summary", row, "status")) == (length == 16   ? "na_length"
                                                                  : length == 64 ? "ok"
                                                                                 : "na_positions"));
    if (length != 64) BOOST_TEST(std::isnan(value("retrieval_summary", row, "em")));
  }
}

BOOST_AUTO_TEST_CASE(every_model_meets_the_same_passkeys_and_copies) {
  for (const char* task : {"passkey", "copy"}) {
    std::vector<std::vector<std::vector<std::int32_t>>> seen;
    for (int model = 0; model < 2; ++model) {
      std::vector<std::vector<std::int32_t>> ids;
      FakeScorer recorder([&](const std::vector<std::int32_t>& sequence, std::int64_t) {
        if (ids.empty() || ids.back() != sequence) ids.push_back(sequence);
        return FakeScorer::Answer{model == 0 ? 1.0 : 2.0, false};
      });
      run(task, recorder, {{"lengths", {1, 2}}, {"passkey", {{"trials", 3}}}}, long_documents());
      seen.push_back(std::move(ids));
    }
    BOOST_CHECK(seen[0] == seen[1]);
  }
}

BOOST_AUTO_TEST_CASE(an_oracle_repeats_and_a_uniform_model_does_not) {
  FakeScorer oracle([](const std::vector<std::int32_t>& ids, std::int64_t target) {
    const std::int64_t half = (static_cast<std::int64_t>(ids.size()) - 2) / 2;
    const bool right = ids[static_cast<std::size_t>(target)] == ids[static_cast<std::size_t>(target - half - 1)];
    return FakeScorer::Answer{right ? 0.0 : 9.0, right};
  });
  FakeScorer uniform = uniform_model(257);
  const Json options = {{"lengths", {0.25, 1, 2, 8}}, {"copy", {{"trials", 6}}}};
  const Rows good = run("copy", oracle, options, long_documents());
  const Rows bad = run("copy", uniform, options, long_documents());
  for (const std::int64_t length : {32, 128, 256}) {
    const auto row = rows_where(good, "algo_summary", {{"length", std::to_string(length)}}).at(0);
    BOOST_TEST(value("algo_summary", row, "em") == 1);
    BOOST_TEST(value("algo_summary", row, "token_acc") == 1);
    BOOST_TEST(value("algo_summary", row, "nll_target") == 0);
    for (const Row& trial : rows_where(good, "algo_trial", {{"length", std::to_string(length)}})) {
      BOOST_TEST(value("algo_trial", trial, "token_total") == (length - 2) / 2);
    }
    const auto chance = rows_where(bad, "algo_summary", {{"length", std::to_string(length)}}).at(0);
    BOOST_TEST(std::abs(value("algo_summary", chance, "nll_target") - std::log(257.0)) < 1e-5);
    BOOST_TEST(value("algo_summary", chance, "em") == 0);
  }
  // 511 distinct pieces are more than bytes have.
  const auto many = rows_where(good, "algo_summary", {{"length", "1024"}}).at(0);
  BOOST_TEST(text(cell("algo_summary", many, "status")) == "na_vocabulary");
}

BOOST_AUTO_TEST_CASE(copies_show_distinct_pieces_twice) {
  std::set<std::vector<std::int32_t>> seen;
  FakeScorer recorder([&](const std::vector<std::int32_t>& ids, std::int64_t) {
    seen.insert(ids);
    return FakeScorer::Answer{1.0, false};
  });
  run("copy", recorder, {{"context", {64}}, {"copy", {{"trials", 8}}}}, long_documents());
  BOOST_TEST(seen.size() == 8);
  for (const auto& ids : seen) {
    BOOST_TEST(ids.size() == 64);
    BOOST_TEST(ids[0] == 256);
    BOOST_TEST(ids[32] == '\n');
    const std::vector<std::int32_t> first(ids.begin() + 1, ids.begin() + 32), second(ids.begin() + 33, ids.end());
    BOOST_TEST(first == second, boost::test_tools::per_element());
    BOOST_TEST(std::set<std::int32_t>(first.begin(), first.end()).size() == 31);
  }
}

BOOST_AUTO_TEST_CASE(the_list_names_everything_with_one_line_each) {
  const std::string text = list_text();
  std::vector<std::string> names;
  for (const TaskEntry& entry : pe::evaluation::tasks()) names.push_back(entry.name);
  for (const Suite& suite : suites()) names.push_back(suite.name);
  for (const LmProtocol& protocol : lm_protocols()) names.emplace_back(protocol.name);
  for (const std::string& name : pe::data::task_names()) names.push_back(name);
  for (const std::string& name : names) BOOST_TEST(text.find("\n  " + name + " ") != std::string::npos, name);
  std::size_t lines = 0;
  for (const char c : text) lines += c == '\n';
  BOOST_TEST(lines == names.size() + 7);  // four headings, three blank lines
}

BOOST_AUTO_TEST_CASE(every_suite_is_listed) {
  std::set<std::string> names{"dummy"};  // of pe-dummy
  for (const Suite& suite : suites()) names.insert(suite.name);
  for (const auto& file : std::filesystem::directory_iterator(pe::test::source_root() / "configs" / "eval"))
    BOOST_TEST(names.count(file.path().stem().string()) == 1u, file.path());
}

BOOST_AUTO_TEST_CASE(every_suite_that_is_listed_can_be_run) {
  for (const Suite& suite : suites()) {
    const auto path = pe::test::source_root() / "configs" / "eval" / (suite.name + ".yml");
    BOOST_TEST_CONTEXT(path) {
      BOOST_REQUIRE(std::filesystem::exists(path));
      const auto schema = pe::support::schema_of<EvalConfig>();
      Json config = pe::support::defaults(schema);
      pe::support::Diagnostics diagnostics;
      pe::support::overlay(schema, pe::support::read_yaml(path), config, nullptr, diagnostics);
      BOOST_CHECK_NO_THROW(diagnostics.throw_if_any());
      BOOST_CHECK_NO_THROW(pe::support::make_config<EvalConfig>(config));
    }
  }
}

BOOST_AUTO_TEST_CASE(an_unknown_task_or_protocol_is_named_with_the_nearest_word) {
  const auto message = [](const Json& options) {
    try {
      pe::support::make_config<EvalConfig>(Json{{"eval", options}});
    } catch (const pe::support::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  BOOST_TEST(message({{"tasks", {"perplexty"}}}).find("did you mean 'perplexity'?") != std::string::npos);
  BOOST_TEST(message({{"perplexity", {{"protocols", {"block"}}}}}).find("did you mean 'blocks'?") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()

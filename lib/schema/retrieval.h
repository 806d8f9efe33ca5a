/// @file
/// Rows of tables of an evaluation (row.h): questions about something stated earlier.
#pragma once

#include "schema/row.h"

namespace pe::schema {

struct RetrievalTrial {
  static constexpr const char* kName = "retrieval_trial";
  static constexpr const char* kMeaning = "One question about something stated earlier, teacher-forced.";
  std::string task;
  std::string variant;
  std::int64_t length = 0;
  double depth = kMissing;
  std::int64_t trial = 0;
  std::int64_t prompt_tokens = 0;
  double em = kMissing;
  double digit_correct = kMissing;
  std::int64_t digit_total = 0;
  double nll_key = kMissing;
  double nll_key_control = kMissing;
  double rank = kMissing;
  double rank_score = kMissing;
  std::int64_t n_candidates = 0;
  double landed = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("task", row.task, "", "passkey, needle, ruler_…, kv_json, babi_… or needle_assoc");
    column("variant", row.variant, "", "wording, haystack or mode");
    column("L", row.length, "tokens", "tokens of prompt and answer", kNeeded);
    column("depth", row.depth, "",
           "where the fact was to stand: 0 first, 1 last; missing for several facts at drawn depths", kNeeded);
    column("trial", row.trial, "", "number of the item in its cell");
    column("prompt_tokens", row.prompt_tokens, "tokens", "tokens before the answer");
    column("em", row.em, "", "S0: 1 when every answer token is the most probable one; mean over draws", kNeeded);
    column("digit_correct", row.digit_correct, "", "S1: answer tokens that are the most probable ones");
    column("digit_total", row.digit_total, "", "answer tokens");
    column("nll_key", row.nll_key, "nats", "S2: nats of the answer");
    column("nll_key_control", row.nll_key_control, "nats", "S2: the same with filler in the fact's place");
    column("rank", row.rank, "", "S3: rank of the true key among the candidates, ties averaged");
    column("rank_score", row.rank_score, "", "S3: 1 when the true key is best, 1 / tied where several are");
    column("n_candidates", row.n_candidates, "", "S3: keys that were compared; 1: none but the true one");
    column("landed", row.landed, "",
           "where the fact stands: share of the filler before it, moved back from `depth` to the end of a sentence");
  }
};

struct RetrievalSummary {
  static constexpr const char* kName = "retrieval_summary";
  static constexpr const char* kMeaning = "Retrieval by length and depth.";
  std::string task;
  std::string variant;
  std::int64_t length = 0;
  std::string depth;
  std::int64_t n = 0;
  double em = kMissing;
  double em_lo = kMissing;
  double em_hi = kMissing;
  double digit_acc = kMissing;
  double nll_token = kMissing;
  double nll_token_control = kMissing;
  double gain = kMissing;
  double se_gain = kMissing;
  double recovered = kMissing;
  double rank_acc = kMissing;
  double landed = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("task", row.task, "", "passkey, needle, ruler_…, kv_json, babi_… or needle_assoc");
    column("variant", row.variant, "", "wording, haystack or mode");
    column("L", row.length, "tokens", "tokens of prompt and answer", kNeeded);
    column("depth", row.depth, "", "depth that was asked for, or `all`");
    column("n", row.n, "", "trials");
    column("em", row.em, "", "S0: share of exact answers");
    column("em_lo", row.em_lo, "", "Wilson, 95 %");
    column("em_hi", row.em_hi, "", "Wilson, 95 %");
    column("digit_acc", row.digit_acc, "", "S1: share of answer tokens that are right");
    column("nll_token", row.nll_token, "nats", "nats per answer token");
    column("nll_token_control", row.nll_token_control, "nats", "the same with filler in the fact's place");
    column("gain", row.gain, "nats", "S2: nll_token_control - nll_token");
    column("se_gain", row.se_gain, "nats", "standard error of gain over trials");
    column("recovered", row.recovered, "", "S2: gain / nll_token_control");
    column("rank_acc", row.rank_acc, "", "S3: share of trials in which the true key is the best candidate");
    column("landed", row.landed, "", "mean of where the facts stand");
    column("status", row.status, "", "ok, na_positions or na_length");
  }
};

struct RetrievalLadder {
  static constexpr const char* kName = "retrieval_ladder";
  static constexpr const char* kMeaning = "Scores of retrieval in the order of their sensitivity, by length.";
  std::string task;
  std::string variant;
  std::int64_t length = 0;
  std::string measure;
  double value = kMissing;
  double ci_lo = kMissing;
  double ci_hi = kMissing;
  double chance = kMissing;
  std::optional<std::int64_t> n;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("task", row.task, "", "task");
    column("variant", row.variant, "", "wording, haystack or mode");
    column("L", row.length, "tokens", "tokens of prompt and answer");
    column("measure", row.measure, "",
           "S0 exact match; parts: share of values that are right; S1 tokens; S1_digits: among digits alone; S2 gain, "
           "nats per token; S2_recovered; S3 ranking; S3_mrr; S4: S3 above chance; S5: S0 over that at the training "
           "length");
    column("value", row.value, "", "the score");
    column("ci_lo", row.ci_lo, "", "95 %: Wilson for shares, normal over trials else");
    column("ci_hi", row.ci_hi, "", "the same");
    column("chance", row.chance, "", "of a guesser; missing where that is not defined");
    column("n", row.n, "", "trials");
    column("status", row.status, "",
           "ok, na_measure (the task has no such score) or not_acquired (S5: below 0.5 at the training length)");
  }
};

}  // namespace pe::schema

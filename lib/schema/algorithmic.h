/// @file
/// Rows of tables of an evaluation (row.h): synthetic tasks.
#pragma once

#include "schema/row.h"

namespace pe::schema {

struct AlgoTrial {
  static constexpr const char* kName = "algo_trial";
  static constexpr const char* kMeaning = "One item of a synthetic task.";
  std::string task;
  std::string split;
  std::int64_t length = 0;
  std::int64_t trial = 0;
  std::int64_t size = 0;
  double em = kMissing;
  double token_correct = kMissing;
  std::int64_t token_total = 0;
  double nll_sum = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("task", row.task, "", "copy, a task of pe-generate, or in_context_ and such a task");
    column("split", row.split, "", "test");
    column("length", row.length, "tokens", "context length, tokens; in a generated task's own terms");
    column("trial", row.trial, "", "number of the item");
    column("size", row.size, "", "size of the item: pieces to repeat, or tokens");
    column("em", row.em, "", "1 when every target is the most probable token; mean over draws");
    column("token_correct", row.token_correct, "", "targets that are the most probable token");
    column("token_total", row.token_total, "", "targets");
    column("nll_sum", row.nll_sum, "nats", "nats of the targets");
  }
};

struct AlgoSummary {
  static constexpr const char* kName = "algo_summary";
  static constexpr const char* kMeaning = "Synthetic tasks by length.";
  std::string task;
  std::string split;
  std::int64_t length = 0;
  std::int64_t n = 0;
  double em = kMissing;
  double token_acc = kMissing;
  double nll_target = kMissing;
  double chance_em = kMissing;
  double chance_tok = kMissing;
  double em_lo = kMissing;
  double em_hi = kMissing;
  double se_nll = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("task", row.task, "", "copy");
    column("split", row.split, "", "test");
    column("length", row.length, "tokens", "context length, tokens", kNeeded);
    column("n", row.n, "", "items");
    column("em", row.em, "", "share of items with every target right");
    column("token_acc", row.token_acc, "", "share of targets that are right");
    column("nll_target", row.nll_target, "nats", "nats per target");
    column("chance_em", row.chance_em, "", "em of guessing among what the item shows");
    column("chance_tok", row.chance_tok, "", "token_acc of guessing among what the item shows");
    column("em_lo", row.em_lo, "", "Wilson, 95 %");
    column("em_hi", row.em_hi, "", "Wilson, 95 %");
    column("se_nll", row.se_nll, "nats", "standard error of nll_target over items");
    column("status", row.status, "", "ok, na_positions, na_length or na_vocabulary");
  }
};

struct AlgoLength {
  static constexpr const char* kName = "algo_length";
  static constexpr const char* kMeaning = "How far a synthetic task is solved beyond the lengths of training.";
  std::string task;
  std::string measure;
  double value = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("task", row.task, "", "task");
    column("measure", row.measure, "",
           "ood_mean_em, ood_mean_token_acc, len90 (largest length up to which em is 0.9 at all tested), ext_ratio "
           "(len90 / longest of training); confident_N, of brackets at length N: share of closings with over 0.8 of "
           "the probability of all closings, averaged over the distances to their openings");
    column("value", row.value, "", "in the task's own lengths, or a share");
    column("status", row.status, "", "ok, none (not even the shortest), na_uncovered or na_positions");
  }
};

}  // namespace pe::schema

#include "evaluation/tables.h"

#include <cmath>
#include <limits>
#include <stdexcept>

namespace pe::evaluation {

namespace {

using artifact::Cell;
using artifact::ColumnType;

constexpr ColumnType kText = ColumnType::kText;
constexpr ColumnType kInteger = ColumnType::kInteger;
constexpr ColumnType kReal = ColumnType::kReal;

std::vector<TableLayout> make_layouts() {
  return {
      {"lm_doc",
       "Likelihood of each document under each protocol and context length.",
       {{"corpus", kText, "", "split of the data"},
        {"protocol", kText, "", "prefix, blocks, sliding, …: `pe-evaluate --list`"},
        {"L", kInteger, "tokens", "context length, tokens, separator included"},
        {"stride", kInteger, "tokens", "tokens between window starts; L where windows do not overlap"},
        {"doc_id", kInteger, "", "number of the document in its split"},
        {"tokens_scored", kInteger, "tokens", "tokens whose likelihood is counted"},
        {"bytes_scored", kInteger, "bytes", "bytes of text that those tokens stand for"},
        {"nll_sum", kReal, "nats", "negative log likelihood, nats"}}},
      {"lm_summary",
       "Perplexity against context length: ratio of sums over documents.",
       {{"corpus", kText, "", "split of the data"},
        {"protocol", kText, "", "prefix, blocks, sliding, …: `pe-evaluate --list`"},
        {"L", kInteger, "tokens", "context length, tokens, separator included"},
        {"stride", kInteger, "tokens", "tokens between window starts; L where windows do not overlap"},
        {"bos_policy", kText, "", "none, doc_start or every_window"},
        {"n_docs", kInteger, "", "documents that were scored; for skipped_docs, how many are long enough"},
        {"tokens_scored", kInteger, "tokens", "tokens whose likelihood is counted"},
        {"nll_mean", kReal, "nats", "nats a token"},
        {"ppl", kReal, "", "exp(nll_mean)"},
        {"bpb", kReal, "bits/byte", "bits per byte"},
        {"se_nll", kReal, "nats", "standard error of nll_mean over documents"},
        {"ci_lo", kReal, "nats", "nll_mean - 1.96 se"},
        {"ci_hi", kReal, "nats", "nll_mean + 1.96 se"},
        {"status", kText, "", "ok, na_positions, overflow or skipped_docs"}}},
      {"lm_position",
       "Loss by position in a text, the mean over documents of bins' means.",
       {{"corpus", kText, "", "split of the data"},
        {"bins", kText, "", "log: edges at powers of two; linear: as wide as 1/32 of the training length"},
        {"bin_lo", kInteger, "tokens", "first position of the bin; the separator, if there is one, has position 0"},
        {"bin_hi", kInteger, "tokens", "first position beyond it"},
        {"n", kInteger, "", "documents"},
        {"nll_mean", kReal, "nats", "nats a token"},
        {"se", kReal, "nats", "standard error over documents"}}},
      {"lm_length",
       "What curves against length and position are condensed to.",
       {{"corpus", kText, "", "split of the data"},
        {"protocol", kText, "", "the curve: anchored or position"},
        {"measure", kText, "", "effective_context, usable_context, degradation_auc, ratio, blowup_position, gain_4x"},
        {"L", kInteger, "tokens", "of ratio: perplexity at L over that at the training length"},
        {"n_docs", kInteger, "", "documents"},
        {"value", kReal, "", "tokens for contexts and positions, nats for degradation_auc and gain_4x"},
        {"ci_lo", kReal, "", "95 % percentile interval over documents, 10,000 resamples"},
        {"ci_hi", kReal, "", "the same"},
        {"status", kText, "", "ok, overflow, none (no such position or length) or na_uncovered (lengths that it needs were not tested)"}}},
      {"lm_extension_doc",
       "Likelihood of each document's anchored targets under each variant of the encoding.",
       {{"corpus", kText, "", "split of the data"},
        {"variant", kText, "", "plain, crop, a rule, or logit_scale"},
        {"L", kInteger, "tokens", "context length, tokens"},
        {"doc_id", kInteger, "", "number of the document in its split"},
        {"tokens_scored", kInteger, "tokens", "targets"},
        {"nll_sum", kReal, "nats", "negative log likelihood, nats"}}},
      {"lm_extension",
       "One checkpoint at longer contexts without training: variant x length, anchored targets.",
       {{"corpus", kText, "", "split of the data"},
        {"variant", kText, "", "plain, crop, a rule, or logit_scale"},
        {"L", kInteger, "tokens", "context length, tokens"},
        {"factor", kReal, "", "L over the training length, at least 1: what rules are told"},
        {"fitted", kReal, "", "logit_scale: a, chosen on validation documents"},
        {"n_docs", kInteger, "", "documents that were scored; for skipped_docs, how many are long enough"},
        {"tokens_scored", kInteger, "tokens", "targets"},
        {"nll_mean", kReal, "nats", "nats a token"},
        {"ppl", kReal, "", "exp(nll_mean)"},
        {"se_nll", kReal, "nats", "standard error of nll_mean over documents"},
        {"ci_lo", kReal, "nats", "nll_mean - 1.96 se"},
        {"ci_hi", kReal, "nats", "nll_mean + 1.96 se"},
        {"status", kText, "", "ok, na_positions, na_encoding (nothing rotates), overflow or skipped_docs"}}},
      {"retrieval_trial",
       "One question about something stated earlier, teacher-forced.",
       {{"task", kText, "", "passkey, needle or ruler_…"},
        {"variant", kText, "", "wording, haystack or mode"},
        {"L", kInteger, "tokens", "tokens of prompt and answer"},
        {"depth", kReal, "", "where the fact stands: 0 first, 1 last; missing for several facts at drawn depths"},
        {"trial", kInteger, "", "number of the item in its cell"},
        {"prompt_tokens", kInteger, "tokens", "tokens before the answer"},
        {"em", kReal, "", "S0: 1 when every answer token is the most probable one; mean over draws"},
        {"digit_correct", kReal, "", "S1: answer tokens that are the most probable ones"},
        {"digit_total", kInteger, "", "answer tokens"},
        {"nll_key", kReal, "nats", "S2: nats of the answer"},
        {"nll_key_control", kReal, "nats", "S2: the same with filler in the fact's place"},
        {"rank", kReal, "", "S3: rank of the true key among the candidates, ties averaged"},
        {"rank_score", kReal, "", "S3: 1 when the true key is best, 1 / tied where several are"},
        {"n_candidates", kInteger, "", "S3: keys that were compared; 1: none but the true one"}}},
      {"retrieval_summary",
       "Retrieval by length and depth.",
       {{"task", kText, "", "passkey, needle or ruler_…"},
        {"variant", kText, "", "wording, haystack or mode"},
        {"L", kInteger, "tokens", "tokens of prompt and answer"},
        {"depth", kText, "", "depth, or `all`"},
        {"n", kInteger, "", "trials"},
        {"em", kReal, "", "S0: share of exact answers"},
        {"em_lo", kReal, "", "Wilson, 95 %"},
        {"em_hi", kReal, "", "Wilson, 95 %"},
        {"digit_acc", kReal, "", "S1: share of answer tokens that are right"},
        {"nll_token", kReal, "nats", "nats per answer token"},
        {"nll_token_control", kReal, "nats", "the same with filler in the fact's place"},
        {"gain", kReal, "nats", "S2: nll_token_control - nll_token"},
        {"se_gain", kReal, "nats", "standard error of gain over trials"},
        {"recovered", kReal, "", "S2: gain / nll_token_control"},
        {"rank_acc", kReal, "", "S3: share of trials in which the true key is the best candidate"},
        {"status", kText, "", "ok, na_positions or na_length"}}},
      {"retrieval_ladder",
       "Scores of retrieval in the order of their sensitivity, by length.",
       {{"task", kText, "", "task"},
        {"variant", kText, "", "wording, haystack or mode"},
        {"L", kInteger, "tokens", "tokens of prompt and answer"},
        {"measure", kText, "", "S0 exact match; parts: share of values that are right; S1 tokens; S1_digits: among digits alone; S2 gain, nats a token; S2_recovered; S3 ranking; S3_mrr; S4: S3 above chance; S5: S0 over that at the training length"},
        {"value", kReal, "", "the score"},
        {"ci_lo", kReal, "", "95 %: Wilson for shares, normal over trials else"},
        {"ci_hi", kReal, "", "the same"},
        {"chance", kReal, "", "of a guesser; missing where that is not defined"},
        {"n", kInteger, "", "trials"},
        {"status", kText, "", "ok, na_measure (the task has no such score) or not_acquired (S5: below 0.5 at the training length)"}}},
      {"algo_trial",
       "One item of a synthetic task.",
       {{"task", kText, "", "copy, or a task of pe-generate"},
        {"split", kText, "", "test"},
        {"length", kInteger, "tokens", "context length, tokens; in a generated task's own terms"},
        {"trial", kInteger, "", "number of the item"},
        {"size", kInteger, "", "size of the item: pieces to repeat"},
        {"em", kReal, "", "1 when every target is the most probable token; mean over draws"},
        {"token_correct", kReal, "", "targets that are the most probable token"},
        {"token_total", kInteger, "", "targets"},
        {"nll_sum", kReal, "nats", "nats of the targets"}}},
      {"algo_summary",
       "Synthetic tasks by length.",
       {{"task", kText, "", "copy"},
        {"split", kText, "", "test"},
        {"length", kInteger, "tokens", "context length, tokens"},
        {"n", kInteger, "", "items"},
        {"em", kReal, "", "share of items with every target right"},
        {"token_acc", kReal, "", "share of targets that are right"},
        {"nll_target", kReal, "nats", "nats a target"},
        {"chance_em", kReal, "", "em of guessing among what the item shows"},
        {"chance_tok", kReal, "", "token_acc of guessing among what the item shows"},
        {"em_lo", kReal, "", "Wilson, 95 %"},
        {"em_hi", kReal, "", "Wilson, 95 %"},
        {"se_nll", kReal, "nats", "standard error of nll_target over items"},
        {"status", kText, "", "ok, na_positions, na_length or na_vocabulary"}}},
      {"algo_length",
       "How far a synthetic task is solved beyond the lengths of training.",
       {{"task", kText, "", "task"},
        {"measure", kText, "", "ood_mean_em, ood_mean_token_acc, len90 (largest length up to which em is 0.9 at all tested), ext_ratio (len90 / longest of training)"},
        {"value", kReal, "", "in the task's own lengths, or a share"},
        {"status", kText, "", "ok, none (not even the shortest), na_uncovered or na_positions"}}},
  };
}

}  // namespace

const std::vector<Column>& identity_columns() {
  static const std::vector<Column> columns = {
      {"run_id", kText, "", "first 12 digits of the model's content digest"},
      {"pe", kText, "", "encoding"},
      {"seed", kInteger, "", "seed of the model"},
      {"step", kInteger, "steps", "optimizer step of the model"}};
  return columns;
}

const std::vector<TableLayout>& table_layouts() {
  static const std::vector<TableLayout> layouts = make_layouts();
  return layouts;
}

const TableLayout& table_layout(const std::string& name) {
  for (const TableLayout& layout : table_layouts()) {
    if (layout.name == name) return layout;
  }
  throw std::logic_error("no table is called '" + name + "'");
}

double number(const Cell& cell) {
  if (const auto* integer = std::get_if<std::int64_t>(&cell.value())) return static_cast<double>(*integer);
  if (const auto* real = std::get_if<double>(&cell.value())) return *real;
  return std::numeric_limits<double>::quiet_NaN();
}

std::vector<artifact::Table> make_tables(const Rows& rows, const Row& identity) {
  std::vector<artifact::Table> tables;
  for (const TableLayout& layout : table_layouts()) {
    const auto found = rows.find(layout.name);
    if (found == rows.end() || found->second.empty()) continue;
    std::vector<artifact::ColumnSpec> columns;
    for (const Column& column : identity_columns()) columns.push_back({column.name, column.type, column.unit});
    for (const Column& column : layout.columns) columns.push_back({column.name, column.type, column.unit});
    artifact::Table table(layout.name, std::move(columns));
    for (const Row& row : found->second) {
      std::vector<Cell> cells = identity;
      for (const Cell& cell : row) {
        const auto* real = std::get_if<double>(&cell.value());
        cells.push_back(real != nullptr && std::isnan(*real) ? Cell() : cell);
      }
      table.add_row(std::move(cells));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace pe::evaluation

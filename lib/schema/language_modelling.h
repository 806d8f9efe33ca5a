/// @file
/// Rows of tables of an evaluation (row.h): likelihoods of documents, and their sums.
#pragma once

#include "schema/row.h"

namespace pe::schema {

/// Likelihood of a document.
struct DocumentScore {
  std::int64_t id = 0;  ///< number of the document in its split
  std::int64_t tokens = 0;
  std::int64_t bytes = 0;
  double nll = 0;  ///< nats
};

struct LmDocument {
  static constexpr const char* kName = "lm_doc";
  static constexpr const char* kMeaning = "Likelihood of each document under each protocol and context length.";
  std::string corpus;
  std::string protocol;
  std::int64_t length = 0;
  std::int64_t stride = 0;
  DocumentScore score;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("protocol", row.protocol, "", "prefix, blocks, sliding, …: `pe-evaluate --list`");
    column("L", row.length, "tokens", "context length, tokens, separator included", kNeeded);
    column("stride", row.stride, "tokens", "tokens between window starts; L where windows do not overlap");
    column("doc_id", row.score.id, "", "number of the document in its split");
    column("tokens_scored", row.score.tokens, "tokens", "tokens whose likelihood is counted", kNeeded);
    column("bytes_scored", row.score.bytes, "bytes", "bytes of text that those tokens stand for");
    column("nll_sum", row.score.nll, "nats", "negative log likelihood, nats", kNeeded);
  }
};

struct LmSummary {
  static constexpr const char* kName = "lm_summary";
  static constexpr const char* kMeaning = "Perplexity against context length: ratio of sums over documents.";
  std::string corpus;
  std::string protocol;
  std::int64_t length = 0;
  std::int64_t stride = 0;
  std::string bos_policy;
  std::optional<std::int64_t> n_docs;
  std::optional<std::int64_t> tokens_scored;
  double mean_context = kMissing;
  double nll_mean = kMissing;
  double ppl = kMissing;
  double bpb = kMissing;
  double se_nll = kMissing;
  double ci_lo = kMissing;
  double ci_hi = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("protocol", row.protocol, "", "prefix, blocks, sliding, …: `pe-evaluate --list`");
    column("L", row.length, "tokens", "context length, tokens, separator included", kNeeded);
    column("stride", row.stride, "tokens", "tokens between window starts; L where windows do not overlap");
    column("bos_policy", row.bos_policy, "", "none, doc_start or every_window");
    column("n_docs", row.n_docs, "", "documents that were scored; for skipped_docs, how many are long enough");
    column("tokens_scored", row.tokens_scored, "tokens", "tokens whose likelihood is counted");
    column("mean_context", row.mean_context, "tokens",
           "tokens before a scored one in its window, the separator included; mean over scored tokens");
    column("nll_mean", row.nll_mean, "nats", "nats per token", kNeeded);
    column("ppl", row.ppl, "", "exp(nll_mean)");
    column("bpb", row.bpb, "bits/byte", "bits per byte");
    column("se_nll", row.se_nll, "nats", "standard error of nll_mean over documents");
    column("ci_lo", row.ci_lo, "nats", "nll_mean - 1.96 se");
    column("ci_hi", row.ci_hi, "nats", "nll_mean + 1.96 se");
    column("status", row.status, "", "ok, na_positions, overflow or skipped_docs");
  }
};

struct LmKeyToken {
  static constexpr const char* kName = "lm_key_tokens";
  static constexpr const char* kMeaning =
      "Tokens for which a long context matters, by the model of the input `reference`.";
  std::string corpus;
  std::string reference;
  std::int64_t doc_id = 0;
  std::int64_t token = 0;
  std::int64_t byte_begin = 0;
  std::int64_t byte_end = 0;
  double nll_full = kMissing;
  double nll_short = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("reference", row.reference, "", "encoding and run id of the model that marked them");
    column("doc_id", row.doc_id, "", "number of the document in its split");
    column("token", row.token, "", "number of the token in the document");
    column("byte_begin", row.byte_begin, "bytes", "where its text begins in the document");
    column("byte_end", row.byte_end, "bytes", "where it ends");
    column("nll_full", row.nll_full, "nats", "loss of the reference with all the text before the token");
    column("nll_short", row.nll_short, "nats",
           "its loss with the last quarter of its training length, up to a sixteenth more");
  }
};

struct LongPplDocument {
  static constexpr const char* kName = "lm_longppl_doc";
  static constexpr const char* kMeaning = "Likelihood of each document's key tokens.";
  std::string corpus;
  std::int64_t length = 0;
  std::int64_t doc_id = 0;
  std::int64_t candidates = 0;
  double nll_sum = kMissing;
  std::int64_t key_tokens = 0;
  double key_nll_sum = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("L", row.length, "tokens", "context length, tokens, separator included");
    column("doc_id", row.doc_id, "", "number of the document in its split");
    column("candidates", row.candidates, "tokens", "tokens that could be marked: all beyond the short context");
    column("nll_sum", row.nll_sum, "nats", "their negative log likelihood");
    column("key_tokens", row.key_tokens, "tokens", "marked tokens");
    column("key_nll_sum", row.key_nll_sum, "nats", "their negative log likelihood");
  }
};

struct LongPpl {
  static constexpr const char* kName = "lm_longppl";
  static constexpr const char* kMeaning =
      "LongPPL: perplexity of key tokens against context length, ratio of sums over documents.";
  std::string corpus;
  std::string reference;
  std::int64_t length = 0;
  std::int64_t n_docs = 0;
  std::optional<std::int64_t> candidates;
  std::optional<std::int64_t> key_tokens;
  double key_share = kMissing;
  double ppl = kMissing;
  double nll_mean = kMissing;
  double longppl = kMissing;
  double se = kMissing;
  double ci_lo = kMissing;
  double ci_hi = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("reference", row.reference, "", "encoding and run id of the model that marked them");
    column("L", row.length, "tokens", "context length, tokens, separator included");
    column("n_docs", row.n_docs, "", "documents, the same at all lengths");
    column("candidates", row.candidates, "tokens", "as in lm_longppl_doc");
    column("key_tokens", row.key_tokens, "tokens", "as in lm_longppl_doc");
    column("key_share", row.key_share, "", "key_tokens / candidates");
    column("ppl", row.ppl, "", "perplexity of the candidates");
    column("nll_mean", row.nll_mean, "nats", "nats per key token");
    column("longppl", row.longppl, "", "exp(nll_mean)");
    column("se", row.se, "nats", "standard error of nll_mean over documents");
    column("ci_lo", row.ci_lo, "nats", "nll_mean - 1.96 se");
    column("ci_hi", row.ci_hi, "nats", "nll_mean + 1.96 se");
    column("status", row.status, "",
           "ok, none (no token is marked), na_reference (no reference, or it was trained at a shorter length), "
           "na_positions, skipped_docs or overflow");
  }
};

struct LmWords {
  static constexpr const char* kName = "lm_words";
  static constexpr const char* kMeaning = "Nats per word, for comparison with sources whose tokens are words.";
  std::string corpus;
  std::string protocol;
  std::int64_t length = 0;
  std::int64_t stride = 0;
  std::int64_t n_docs = 0;
  std::optional<std::int64_t> words_scored;
  double nats_per_word = kMissing;
  double ppl_word = kMissing;
  double se = kMissing;
  double ci_lo = kMissing;
  double ci_hi = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("protocol", row.protocol, "", "as in lm_summary");
    column("L", row.length, "tokens", "context length, tokens, separator included");
    column("stride", row.stride, "tokens", "as in lm_summary");
    column("n_docs", row.n_docs, "", "documents that were scored");
    column("words_scored", row.words_scored, "words", "words, parted by white space, that end with a scored token");
    column("nats_per_word", row.nats_per_word, "nats", "ratio of sums over documents");
    column("ppl_word", row.ppl_word, "", "exp(nats_per_word)");
    column("se", row.se, "nats", "standard error of nats_per_word over documents");
    column("ci_lo", row.ci_lo, "nats", "nats_per_word - 1.96 se");
    column("ci_hi", row.ci_hi, "nats", "nats_per_word + 1.96 se");
    column("status", row.status, "",
           "ok, overflow or na_measure (a stream, or text whose words do not follow from its tokens)");
  }
};

struct LmPosition {
  static constexpr const char* kName = "lm_position";
  static constexpr const char* kMeaning = "Loss by position in a text, the mean over documents of bins' means.";
  std::string corpus;
  std::string bins;
  std::int64_t bin_lo = 0;
  std::int64_t bin_hi = 0;
  std::int64_t n = 0;
  double nll_mean = kMissing;
  double se = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("bins", row.bins, "", "log: edges at powers of two; linear: as wide as 1/32 of the training length");
    column("bin_lo", row.bin_lo, "tokens", "first position of the bin; the separator, if there is one, has position 0");
    column("bin_hi", row.bin_hi, "tokens", "first position beyond it");
    column("n", row.n, "", "documents");
    column("nll_mean", row.nll_mean, "nats", "nats per token");
    column("se", row.se, "nats", "standard error over documents");
  }
};

struct LmLength {
  static constexpr const char* kName = "lm_length";
  static constexpr const char* kMeaning = "Single numbers of the curves against length and position.";
  std::string corpus;
  std::string protocol;
  std::string measure;
  std::optional<std::int64_t> length;
  std::int64_t n_docs = 0;
  double value = kMissing;
  double ci_lo = kMissing;
  double ci_hi = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("protocol", row.protocol, "", "the curve: anchored or position");
    column("measure", row.measure, "",
           "effective_context, usable_context, degradation_auc, ratio, blowup_position, gain_4x");
    column("L", row.length, "tokens", "of ratio: perplexity at L over that at the training length");
    column("n_docs", row.n_docs, "", "documents");
    column("value", row.value, "", "tokens for contexts and positions, nats for degradation_auc and gain_4x");
    column("ci_lo", row.ci_lo, "", "95 % percentile interval over documents, 10,000 resamples");
    column("ci_hi", row.ci_hi, "", "the same");
    column("status", row.status, "",
           "ok, overflow, none (no such position or length) or na_uncovered (lengths that it needs were not tested)");
  }
};

struct ExtensionDocument {
  static constexpr const char* kName = "lm_extension_doc";
  static constexpr const char* kMeaning =
      "Likelihood of each document's anchored targets under each variant of the encoding.";
  std::string corpus;
  std::string variant;
  std::int64_t length = 0;
  std::int64_t doc_id = 0;
  std::int64_t tokens_scored = 0;
  double nll_sum = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("variant", row.variant, "",
           "plain, crop, a rule, logit_scale, or an intervention: base_…, p_rope_…, zeroed_…, frozen_…, layer_…");
    column("L", row.length, "tokens", "context length, tokens", kNeeded);
    column("doc_id", row.doc_id, "", "number of the document in its split");
    column("tokens_scored", row.tokens_scored, "tokens", "targets", kNeeded);
    column("nll_sum", row.nll_sum, "nats", "negative log likelihood, nats", kNeeded);
  }
};

struct Extension {
  static constexpr const char* kName = "lm_extension";
  static constexpr const char* kMeaning =
      "One checkpoint at longer contexts without training: variant x length, anchored targets.";
  std::string corpus;
  std::string variant;
  std::int64_t length = 0;
  double factor = kMissing;
  double fitted = kMissing;
  std::optional<std::int64_t> n_docs;
  std::optional<std::int64_t> tokens_scored;
  double nll_mean = kMissing;
  double ppl = kMissing;
  double se_nll = kMissing;
  double ci_lo = kMissing;
  double ci_hi = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("variant", row.variant, "",
           "plain, crop, a rule, logit_scale, or an intervention: base_…, p_rope_…, zeroed_…, frozen_…, layer_…");
    column("L", row.length, "tokens", "context length, tokens", kNeeded);
    column("factor", row.factor, "", "L over the training length, at least 1: the factor of the rules");
    column("fitted", row.fitted, "", "logit_scale: a, chosen on validation documents");
    column("n_docs", row.n_docs, "", "documents that were scored; for skipped_docs, how many are long enough");
    column("tokens_scored", row.tokens_scored, "tokens", "targets");
    column("nll_mean", row.nll_mean, "nats", "nats per token");
    column("ppl", row.ppl, "", "exp(nll_mean)");
    column("se_nll", row.se_nll, "nats", "standard error of nll_mean over documents");
    column("ci_lo", row.ci_lo, "nats", "nll_mean - 1.96 se");
    column("ci_hi", row.ci_hi, "nats", "nll_mean + 1.96 se");
    column("status", row.status, "", "ok, na_positions, na_encoding (nothing rotates), overflow or skipped_docs");
  }
};

}  // namespace pe::schema

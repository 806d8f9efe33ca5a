/// @file
/// Rows of tables of an evaluation (row.h): what is measured inside of a model.
#pragma once

#include "schema/row.h"

namespace pe::schema {

struct ProbeAttention {
  static constexpr const char* kName = "probe_attention";
  static constexpr const char* kMeaning =
      "How far and how widely each head looks: means over the queries of all texts.";
  std::string corpus;
  std::int64_t length = 0;
  std::optional<std::int64_t> layer;
  std::optional<std::int64_t> head;
  std::int64_t n = 0;
  double distance = kMissing;
  double distance_share = kMissing;
  double entropy = kMissing;
  double entropy_share = kMissing;
  double mass = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("L", row.length, "tokens", "length of the texts", kNeeded);
    column("layer", row.layer, "", "from 0");
    column("head", row.head, "", "from 0");
    column("n", row.n, "", "texts");
    column("distance", row.distance, "tokens", "Σ_j A_ij (i − j)");
    column("distance_share", row.distance_share, "", "the same over i");
    column("entropy", row.entropy, "nats", "−Σ_j A_ij ln A_ij");
    column("entropy_share", row.entropy_share, "", "the same over ln(i + 1): 1 is uniform");
    column("mass", row.mass, "", "Σ_j A_ij: below 1 where a row may weigh less");
    column("status", row.status, "", "ok, na_positions or skipped_docs");
  }
};

struct ProbeAttentionOctave {
  static constexpr const char* kName = "probe_attention_octave";
  static constexpr const char* kMeaning = "The same by the position of the query.";
  std::string corpus;
  std::int64_t length = 0;
  std::int64_t layer = 0;
  std::int64_t head = 0;
  std::int64_t query_lo = 0;
  std::int64_t query_hi = 0;
  double distance = kMissing;
  double distance_share = kMissing;
  double entropy = kMissing;
  double entropy_share = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("L", row.length, "tokens", "length of the texts");
    column("layer", row.layer, "", "from 0");
    column("head", row.head, "", "from 0");
    column("query_lo", row.query_lo, "", "first query");
    column("query_hi", row.query_hi, "", "first query after the cell");
    column("distance", row.distance, "tokens", "Σ_j A_ij (i − j)");
    column("distance_share", row.distance_share, "", "the same over i");
    column("entropy", row.entropy, "nats", "−Σ_j A_ij ln A_ij");
    column("entropy_share", row.entropy_share, "", "the same over ln(i + 1)");
  }
};

struct ProbeArgmax {
  static constexpr const char* kName = "probe_argmax";
  static constexpr const char* kMeaning =
      "Where the peak of a row lies: (i − argmax_j A_ij)/(i + 1), queries from 1 on.";
  std::string corpus;
  std::int64_t length = 0;
  std::int64_t layer = 0;
  std::int64_t head = 0;
  double bin_lo = kMissing;
  double bin_hi = kMissing;
  double share = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("L", row.length, "tokens", "length of the texts", kNeeded);
    column("layer", row.layer, "", "from 0");
    column("head", row.head, "", "from 0");
    column("bin_lo", row.bin_lo, "", "");
    column("bin_hi", row.bin_hi, "", "");
    column("share", row.share, "", "of the queries");
  }
};

struct ProbeMap {
  static constexpr const char* kName = "probe_map";
  static constexpr const char* kMeaning = "Maps of attention: queries by keys, pooled, without the keys after a query.";
  std::string corpus;
  std::int64_t length = 0;
  std::optional<std::int64_t> layer;
  std::optional<std::int64_t> head;
  std::int64_t query_lo = 0;
  std::int64_t query_hi = 0;
  std::int64_t key_lo = 0;
  std::int64_t key_hi = 0;
  std::int64_t n = 0;
  double share = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("L", row.length, "tokens", "length of the texts", kNeeded);
    column("layer", row.layer, "", "from 0");
    column("head", row.head, "", "from 0");
    column("query_lo", row.query_lo, "", "first query of the cell");
    column("query_hi", row.query_hi, "", "first query after the cell");
    column("key_lo", row.key_lo, "", "first key of the cell");
    column("key_hi", row.key_hi, "", "first key after the cell");
    column("n", row.n, "", "texts");
    column("share", row.share, "", "share of a query's attention that these keys get, mean over the queries and texts");
    column("status", row.status, "", "ok, overflow, na_positions or skipped_docs");
  }
};

struct ProbeSink {
  static constexpr const char* kName = "probe_sink";
  static constexpr const char* kMeaning =
      "Attention on the first key: α_k = Σ_{i ≥ k} A_ik / (T − k), means over texts.";
  std::string corpus;
  std::int64_t length = 0;
  std::string separator;
  std::int64_t layer = 0;
  std::int64_t head = 0;
  std::int64_t n = 0;
  double alpha_first = kMissing;
  double alpha_max = kMissing;
  double rate = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("L", row.length, "tokens", "length of the texts", kNeeded);
    column("separator", row.separator, "", "first: the texts begin with it; none");
    column("layer", row.layer, "", "from 0");
    column("head", row.head, "", "from 0");
    column("n", row.n, "", "texts");
    column("alpha_first", row.alpha_first, "", "α_0");
    column("alpha_max", row.alpha_max, "", "largest α_k");
    column("rate", row.rate, "", "share of texts in which α_0 exceeds the threshold");
  }
};

struct ProbeSinkSummary {
  static constexpr const char* kName = "probe_sink_summary";
  static constexpr const char* kMeaning = "The same over all layers and heads.";
  std::string corpus;
  std::int64_t length = 0;
  std::string separator;
  std::int64_t n = 0;
  double alpha_first = kMissing;
  double alpha_max = kMissing;
  double rate = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("L", row.length, "tokens", "length of the texts");
    column("separator", row.separator, "", "first or none");
    column("n", row.n, "", "texts");
    column("alpha_first", row.alpha_first, "", "mean α_0");
    column("alpha_max", row.alpha_max, "", "mean of the largest α_k");
    column("rate", row.rate, "", "share of (text, layer, head) in which α_0 exceeds the threshold");
    column("status", row.status, "", "ok, na_positions, na_separator, overflow or skipped_docs");
  }
};

struct ProbePosition {
  static constexpr const char* kName = "probe_position";
  static constexpr const char* kMeaning = "How well positions are read off the residual stream.";
  std::string corpus;
  std::int64_t length = 0;
  std::optional<std::int64_t> place;
  std::optional<std::string> network;
  std::optional<std::string> method;
  std::optional<std::string> tested;
  std::int64_t n_train = 0;
  std::int64_t n_test = 0;
  double lambda = kMissing;
  double r2 = kMissing;
  double mad = kMissing;
  double mad_centre = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("L", row.length, "tokens", "length of the texts");
    column("place", row.place, "", "0: embeddings; i: behind layer i, counted from 1");
    column("network", row.network, "", "trained, random or shuffled");
    column("method", row.method, "", "ridge or classifier");
    column("tested", row.tested, "", "all; second_half: trained on the first half of positions, tested on the second");
    column("n_train", row.n_train, "tokens", "");
    column("n_test", row.n_test, "tokens", "");
    column("lambda", row.lambda, "", "of the ridge");
    column("r2", row.r2, "", "share of the variance of positions that is explained");
    column("mad", row.mad, "tokens", "mean absolute distance");
    column("mad_centre", row.mad_centre, "tokens", "of a constant guess, the middle: L/4");
    column("status", row.status, "", "ok, overflow (not finite), na_positions or skipped_docs");
  }
};

struct ProbeFrequency {
  static constexpr const char* kName = "probe_frequency";
  static constexpr const char* kMeaning = "Norms and shares of the logits by rotary pair.";
  std::string corpus;
  std::int64_t length = 0;
  std::optional<std::int64_t> layer;
  std::optional<std::int64_t> head;
  std::optional<std::int64_t> pair;
  double theta = kMissing;
  double wavelength = kMissing;
  double q_norm = kMissing;
  double k_norm = kMissing;
  double logit_share = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("L", row.length, "tokens", "length of the texts", kNeeded);
    column("layer", row.layer, "", "from 0");
    column("head", row.head, "", "from 0");
    column("pair", row.pair, "", "from 0, fast to slow; missing: the channels that are not turned");
    column("theta", row.theta, "rad/token", "");
    column("wavelength", row.wavelength, "tokens", "missing where nothing turns");
    column("q_norm", row.q_norm, "", "mean norm of the query in the pair");
    column("k_norm", row.k_norm, "", "the same of the key");
    column("logit_share", row.logit_share, "", "mean |q·k of the pair| over the sum of all, causal pairs of tokens");
    column("status", row.status, "", "ok, na_encoding (nothing turns there), na_positions or skipped_docs");
  }
};

struct ProbeFrequencyDistance {
  static constexpr const char* kName = "probe_frequency_distance";
  static constexpr const char* kMeaning = "Shares of the logits by distance, over all heads.";
  std::string corpus;
  std::int64_t length = 0;
  std::int64_t layer = 0;
  std::int64_t pair = 0;
  std::int64_t distance_lo = 0;
  std::int64_t distance_hi = 0;
  double logit_share = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("L", row.length, "tokens", "length of the texts");
    column("layer", row.layer, "", "from 0");
    column("pair", row.pair, "", "");
    column("distance_lo", row.distance_lo, "tokens", "");
    column("distance_hi", row.distance_hi, "tokens", "first distance beyond");
    column("logit_share", row.logit_share, "", "as in probe_frequency");
  }
};

struct ProbeAngle {
  static constexpr const char* kName = "probe_angle";
  static constexpr const char* kMeaning = "Which pairs turn into angles that training has not seen.";
  std::int64_t length = 0;
  std::int64_t layer = 0;
  std::int64_t group = 0;
  std::int64_t pair = 0;
  double theta_trained = kMissing;
  double theta = kMissing;
  double turns_trained = kMissing;
  double turns = kMissing;
  double unseen = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("L", row.length, "tokens", "length of the texts", kNeeded);
    column("layer", row.layer, "", "from 0", kNeeded);
    column("group", row.group, "", "key/value head, where each has its own frequencies", kNeeded);
    column("pair", row.pair, "", "", kNeeded);
    column("theta_trained", row.theta_trained, "rad/token", "at the training length");
    column("theta", row.theta, "rad/token", "at L");
    column("turns_trained", row.turns_trained, "turns", "of the largest distance of training");
    column("turns", row.turns, "turns", "of the largest distance at L");
    column("unseen", row.unseen, "", "share of the distances below L whose angle training has not seen");
  }
};

struct ProbeLogit {
  static constexpr const char* kName = "probe_logit";
  static constexpr const char* kMeaning = "Attention logits of fixed pairs of contents by distance.";
  std::string network;
  std::optional<std::int64_t> layer;
  std::optional<std::int64_t> head;
  std::optional<std::int64_t> distance;
  double mean = kMissing;
  double sd = kMissing;
  std::int64_t n = 0;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("network", row.network, "", "trained; initial: the same model before its training");
    column("layer", row.layer, "", "from 0");
    column("head", row.head, "", "from 0");
    column("distance", row.distance, "tokens", "");
    column("mean", row.mean, "", "over the pairs; after scale and bias");
    column("sd", row.sd, "", "over the pairs");
    column("n", row.n, "", "pairs");
    column(
        "status", row.status, "",
        "ok, na_positions, skipped_docs or na_encoding (the logit follows from more than the pair and its distance)");
  }
};

struct ProbeCircuit {
  static constexpr const char* kName = "probe_circuit";
  static constexpr const char* kMeaning =
      "Attention on a text of m random pieces that is said twice; means over the queries of the second copy.";
  std::int64_t m = 0;
  std::int64_t layer = 0;
  std::int64_t head = 0;
  double previous = kMissing;
  double duplicate = kMissing;
  double induction = kMissing;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("m", row.m, "tokens", "length of a copy");
    column("layer", row.layer, "", "from 0");
    column("head", row.head, "", "from 0");
    column("previous", row.previous, "", "A_{i,i−1}");
    column("duplicate", row.duplicate, "", "A_{i,i−m}");
    column("induction", row.induction, "", "A_{i,i−m+1}");
  }
};

struct ProbeCircuitSummary {
  static constexpr const char* kName = "probe_circuit_summary";
  static constexpr const char* kMeaning = "The largest over layers and heads, and the gain of the second copy.";
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::string measure;
  double value = kMissing;
  std::optional<std::int64_t> layer;
  std::optional<std::int64_t> head;
  double se = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("m", row.m, "tokens", "", kNeeded);
    column("n", row.n, "", "texts");
    column("measure", row.measure, "", "previous, duplicate, induction or in_context_gain");
    column("value", row.value, "", "share; in_context_gain: nats per token");
    column("layer", row.layer, "", "where the largest is");
    column("head", row.head, "", "");
    column("se", row.se, "nats", "of in_context_gain, over texts");
    column("status", row.status, "", "ok, na_length, na_positions or na_vocabulary");
  }
};

struct ProbeReliance {
  static constexpr const char* kName = "probe_reliance";
  static constexpr const char* kMeaning =
      "Loss when something is taken away or moved, minus the plain loss, on the same targets.";
  std::string corpus;
  std::int64_t length = 0;
  std::string test;
  std::int64_t amount = 0;
  std::int64_t n_docs = 0;
  std::optional<std::int64_t> tokens_scored;
  double nll_plain = kMissing;
  double nll = kMissing;
  double delta = kMissing;
  double se = kMissing;
  double ci_lo = kMissing;
  double ci_hi = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("L", row.length, "tokens", "length of the texts");
    column("test", row.test, "", "without_encoding, constant_position, shuffled_prefix, translation or gap");
    column("amount", row.amount, "tokens", "tokens kept in order, or positions moved by", kNeeded);
    column("n_docs", row.n_docs, "", "");
    column("tokens_scored", row.tokens_scored, "tokens", "");
    column("nll_plain", row.nll_plain, "nats", "unchanged");
    column("nll", row.nll, "nats", "changed");
    column("delta", row.delta, "nats", "nll − nll_plain, nats per token");
    column("se", row.se, "nats", "of delta, over documents");
    column("ci_lo", row.ci_lo, "nats", "delta − 1.96 se");
    column("ci_hi", row.ci_hi, "nats", "delta + 1.96 se");
    column("status", row.status, "", "ok, overflow (not finite), na_positions, na_length, na_encoding or skipped_docs");
  }
};

struct ProbePositionLoss {
  static constexpr const char* kName = "probe_position_loss";
  static constexpr const char* kMeaning = "The same targets by amount of context and by position.";
  std::string corpus;
  std::int64_t context = 0;
  std::int64_t last = 0;
  std::int64_t offset = 0;
  std::int64_t n_docs = 0;
  std::optional<std::int64_t> tokens_scored;
  double nll_mean = kMissing;
  double se_nll = kMissing;
  double delta = kMissing;
  double se = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("context", row.context, "tokens", "tokens read, targets included", kNeeded);
    column("last", row.last, "tokens", "positions up to the last target", kNeeded);
    column("offset", row.offset, "tokens", "position of the first token");
    column("n_docs", row.n_docs, "", "");
    column("tokens_scored", row.tokens_scored, "tokens", "");
    column("nll_mean", row.nll_mean, "nats", "nats per token");
    column("se_nll", row.se_nll, "nats", "over documents");
    column("delta", row.delta, "nats", "minus the loss with the same context at offset 0");
    column("se", row.se, "nats", "of delta, over documents");
    column("status", row.status, "", "ok, overflow, na_positions, na_encoding or skipped_docs");
  }
};

struct ProbeSimilarity {
  static constexpr const char* kName = "probe_similarity";
  static constexpr const char* kMeaning =
      "Jensen-Shannon divergence of attention rows between this model and another, least over pairs of heads.";
  std::string corpus;
  std::int64_t length = 0;
  std::optional<std::string> reference;
  std::optional<std::int64_t> layer;
  std::optional<std::int64_t> head;
  std::optional<std::int64_t> reference_head;
  std::int64_t n = 0;
  double divergence = kMissing;
  std::string status;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("corpus", row.corpus, "", "split of the data");
    column("L", row.length, "tokens", "length of the texts");
    column("reference", row.reference, "", "encoding and model");
    column("layer", row.layer, "", "missing: mean over layers");
    column("head", row.head, "", "of this model");
    column("reference_head", row.reference_head, "", "");
    column("n", row.n, "", "texts");
    column("divergence", row.divergence, "nats", "0 to ln 2");
    column("status", row.status, "", "ok, overflow, na_reference, na_positions or skipped_docs");
  }
};

}  // namespace pe::schema

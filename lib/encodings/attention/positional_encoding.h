/// @file
/// How a model learns the position of a token. An encoding may act at ten stages; most encodings act at one. The base
/// class acts at none, so it is the "no encoding" baseline.
///
///     ids -(S0)- positions      x -(S1)- first block      y -(S9)- after the feed-forward of each layer
///
///     q, k, v -(S2)-> q·k·scale -(S6)-> + bias -(S3, S4 or S5)-> -(S7)-> normalise, mix -(S8)-> output
///
///     S0 positions            randomised positions, packed documents
///     S1 add_to_tokens        sinusoidal, learned, binary, decimal
///     S2 transform            RoPE and its relatives, RePo, TAPE, logit temperatures (which multiply q)
///     S3 channels             ALiBi, FoX, CABLE_NW: a bias of low rank as extra channels of q and k
///     S4 table                T5, KERPLE, BAM, FIRE's short rows: a bias that depends on i − j
///     S5 bias                 FIRE, GRAPE-AP, selective: a bias for each pair
///     S6 logits               PaTH, Wall: another product than q·k
///     S7 rewrite              CoPE, DAPE: a non-linear map of the logits
///     S8 normaliser, extra_values, finish    stick-breaking, sinks, TAPE
///     S9 after_feed_forward   TAPE
///
/// The model never asks for the kind of its encoding. It runs
///
///     State state = begin_pass(encoding, span);
///     x = add_to_tokens(encoding, x, state);                              // S0, S1
///     for each layer:
///       LayerContext context = layer_context(encoding, state, layer, input_of_attention);
///       y = attend(encoding, context, {q, k, v, 1 / sqrt(d_h)});          // S2 to S8; encodings/attention/attend.h
///       …
///       encoding.after_feed_forward(context, output_of_feed_forward);     // S9, before the residual sum
///
/// Letters of shapes: B batch, T queries, S keys, H query heads, G key/value heads, d_h head width, d_m model width.
/// Rows and positions are different numbers. A *row* is an index into the sequence: masks, counts of visible keys and
/// running sums use rows. A *position* is the result of S0: angles, distances and tables use positions.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "support/error.h"
#include "support/json.h"

namespace pe::encodings {

using at::Tensor;

/// A position exceeds the range of a bounded encoding. Evaluations write `n/a` with this text as the reason.
class RangeError : public support::Error {
 public:
  explicit RangeError(std::string message, std::string hint = {});
};

/// A tensor has another shape than the encoding was built for: a mistake of the calling program.
class ShapeError : public support::Error {
 public:
  explicit ShapeError(std::string message);
};

/// Does adding the same number to every position leave the logits unchanged?
enum class ShiftInvariance { kNever, kUntilEffectiveLength, kAlways };

/// Claims about an encoding, which tests check and reports print.
struct Facts {
  ShiftInvariance shift_invariant = ShiftInvariance::kAlways;
  bool rotates = false;  ///< rotates q and k; a stack holds at most one such member
  bool learned = false;  ///< has parameters
  /// Positions 0 .. max_positions − 1 exist, others raise RangeError. Empty: no bound. In a registry entry 0 means "set
  /// by the options, by default the training length".
  std::optional<std::int64_t> max_positions;
  bool length_dependent = false;   ///< The length (Span::pe_len) changes the view of earlier tokens.
  bool content_dependent = false;  ///< Reads q, k or x, and not only their product.
  bool stochastic = false;         ///< Draws random numbers; results depend on Span::step.
  /// Attention heads that S2 makes of each head of q: the projection of queries has H / heads_per_query heads.
  int heads_per_query = 1;

  /// Can the loss of every prefix be read from one pass over the whole text?
  bool prefixes_agree() const { return !length_dependent && !stochastic; }
  Json to_json() const;
};

/// The part of a model's config that an encoding is built from.
struct Shape {
  std::int64_t width = 0;  ///< d_m
  std::int64_t layers = 1;
  std::int64_t query_heads = 1;       ///< H attention heads; see PositionalEncoding::projected_heads
  std::int64_t key_value_heads = 1;   ///< G, divides H; query head h reads key/value head ⌊h·G/H⌋
  std::int64_t head_width = 0;        ///< d_h
  std::int64_t train_length = 0;      ///< L, tokens
  std::uint64_t seed = 0;             ///< of the model: initial values and draws
  double token_std = 0.02;            ///< RMS of a token embedding at the start, for `pe_scale: matched`
  at::ScalarType dtype = at::kFloat;  ///< of parameters: float32, or float64 in tests; never less
  at::Device device = at::kCPU;
};

/// A trained tensor. Its handle is shared with the encoding: write through it (`copy_`, `set_data`), do not replace it.
struct Parameter {
  std::string name;           ///< Unique: "t5.table", "fire.3.w1" (layer 3). A model puts "encoding." before it.
  std::string short_name;     ///< Name in configs and artifacts: "table", "w1".
  int layer = -1;             ///< −1: one for the whole model.
  Tensor value;               ///< A leaf that requires grad.
  bool weight_decay = false;  ///< True for matrices, false for 1-D parameters and tables.
};

class PositionalEncoding;

/// One forward pass: its rows, its first position, and the address of its random draws.
struct Span {
  std::int64_t batch = 1;           ///< B
  std::int64_t queries = 0;         ///< T; query row r is key row S − T + r.
  std::int64_t keys = 0;            ///< S ≥ T.
  std::int64_t first_position = 0;  ///< Position of key row 0.
  /// [S] or [B,S] int64: the first row of each row's document; undefined: one document. A query sees only keys of its
  /// document.
  Tensor doc_start;
  bool restart_positions = false;  ///< Positions count from first_position in each document.
  bool causal = true;              ///< a query sees no later key; false: every key of its document
  bool training = false;
  std::int64_t step = 0;               ///< optimizer step; in an evaluation the number of the draw
  std::vector<std::int64_t> samples;   ///< id of each sequence, for draws per sample; empty: 0 .. B − 1
  std::optional<std::int64_t> pe_len;  ///< length for a length-dependent encoding
  /// [S] int64: positions of the key rows, for probes that move tokens apart or together. Undefined: positions count
  /// from first_position, which must be 0 otherwise. An encoding that maps positions ignores it.
  Tensor positions;
  at::Device device = at::kCPU;
  /// FIRE's effective length by the weights that the pass began with, of each member that has one: `begin` enters it,
  /// so that a pass reads weights of a GPU once. A span without it asks the weights.
  std::map<const PositionalEncoding*, double> effective_lengths;

  static Span whole(std::int64_t batch, std::int64_t rows) { return {.batch = batch, .queries = rows, .keys = rows}; }
};

/// Values with the lifetime of one forward pass: shared tables, TAPE's angles, carries.
struct State {
  Span span;
  std::map<std::string, Tensor> tensors;
  std::map<std::string, std::int64_t> numbers;
};

struct LayerContext {
  State& state;
  const Span& span;
  int layer = 0;
  Tensor x;          ///< [B,S,d_m] input of the attention, one row per key row; undefined where no stage reads it.
  Tensor positions;  ///< [S] or [B,S], int64 or float64.
  /// Within a document positions grow by one per row, so S3 and S4, which count rows, are legal.
  bool contiguous = true;
  /// No position is below the first or above the second number. Empty where only a read of the positions tells.
  std::optional<std::pair<std::int64_t, std::int64_t>> bounds;
};

/// q [B,H,T,d_h], before S2 [B,projected_heads(),T,d_h]; k and v [B,G,S,d_h]. Logits are scale·q·k.
struct Heads {
  Tensor q, k, v;
  double scale = 1;
  Tensor raw_q, raw_k;  ///< before S2, q with H heads; set by the dispatcher where Traits::needs_raw
};

/// S3: Σ_r query[…,i,r]·key[…,j,r] is added to the logits (after the scale), up to a constant of the row.
struct Channels {
  Tensor query;          ///< [B or 1, H or 1, T, r], at least float32.
  Tensor key;            ///< [B or 1, H, G or 1, S, r]. With H > G heads the keys are repeated, so prefer 1 or G.
  int query_pieces = 1;  ///< Number of bfloat16 values (1 to 3) that represent a factor exactly enough.
  int key_pieces = 3;
};

/// A range of query rows, for the stages that work on part of the logits.
struct Rows {
  const LayerContext& context;
  std::int64_t begin = 0, end = 0;  ///< query rows
  std::int64_t keys = 0;            ///< keys 0 .. keys − 1 are in reach; the others are all in the hidden future
  Tensor q;                         ///< [B,H,rows,d_h] after S2
  Tensor k, v;                      ///< [B,G,keys,d_h]
  double scale = 1;
  Tensor raw_q, raw_k;         ///< As q and k, before S2; see Traits::needs_raw.
  Tensor query_positions;      ///< [rows] or [B,rows]
  Tensor key_positions;        ///< [keys] or [B,keys].
  Tensor visible;              ///< Bool [1 or B, 1, rows, keys]: causal (where it exists) and document mask.
  std::vector<Tensor> inputs;  ///< The result of `row_inputs`, or copies of it with the same gradients.
  /// For encodings with Traits::rows_coupled: state after the earlier rows (undefined at the start). A stage replaces
  /// it.
  Tensor* carry = nullptr;

  std::int64_t count() const { return end - begin; }
  /// p_i − p_j, [rows,keys] or [B,1,rows,keys], dtype of the positions; negative in the future.
  Tensor distances() const;
  /// Row number of each query row in the keys, [rows] int64.
  Tensor query_rows() const;
};

/// S8: how a row of logits becomes weights. The dispatcher's own is softmax.
class Normaliser {
 public:
  struct Result {
    Tensor weights;  ///< [B,H,rows,keys], 0 where masked
    Tensor own;      ///< [B,H,rows] or undefined: this times the row's own value is added to the output
    Tensor logits;   ///< undefined: as given. For AttentionMatrices, where the normaliser hides more than the mask
  };
  virtual ~Normaliser() = default;
  /// @param logits [B,H,rows,keys], at least float32, −inf where masked.
  virtual Result normalise(const Tensor& logits, const Rows& rows) const = 0;
  /// [H], [B,H,T] or undefined: a logit with value 0 that joins each row's softmax. If defined, fused kernels can be
  /// used.
  virtual Tensor sink_logits() const { return {}; }
};

enum class BiasKind { kNone, kChannels, kToeplitz, kPairwise };

/// Properties of an encoding in one pass, by which the dispatcher takes the cheapest exact route.
struct Traits {
  BiasKind bias = BiasKind::kNone;  ///< The cheapest form while positions are contiguous; S5 exists for all.
  bool has_table = false;           ///< S4 exists in addition to a cheaper form, and gives the same bias.
  bool bias_needs_grad = false;
  bool bias_depends_on_batch = false;
  bool adds_to_tokens = false;       ///< S1
  bool maps_positions = false;       ///< S0
  bool own_logits = false;           ///< S6
  bool rewrites_logits = false;      ///< S7
  bool normalises = false;           ///< S8
  bool sink = false;                 ///< S8 is a softmax with `sink_logits`, which fused kernels can compute.
  bool sink_share = false;           ///< S8's finish reads the weight [B,H,T,1] of the sink, as `extra`.
  bool rows_coupled = false;         ///< Chunks of rows must run in order (Rows::carry).
  bool needs_row_constants = false;  ///< A bias may not drop a constant of the row (sinks, S7, other normalisers).
  bool needs_raw = false;            ///< Reads q and k before S2.
  bool extra_values = false;         ///< S8 mixes more than v (TAPE).
  bool scales_queries = false;       ///< S2 multiplies q by a temperature.
  /// The gradient for a factor of the channels is a small difference of large products. A half-precision kernel rounds
  /// it away, so such channels are used only in float32 and in passes without gradients.
  bool channels_cancel = false;
  int live_logits = 6;  ///< tensors as large as the logits that a range of rows holds at a time
};

/// The pairs of channels that S2 rotates, as laid out in q and k afterwards. The product of pair i of a query and of a
/// key at distance d rotates by d·theta.
struct RotatedPairs {
  std::vector<std::int64_t> first, second;  ///< channels of pair i in a head
  /// Radians per position, [groups, pairs], groups being 1 or the number of key/value heads. 0: the pair is not
  /// rotated.
  std::vector<double> theta;

  std::size_t pairs() const { return first.size(); }
  std::size_t groups() const { return first.empty() ? 1 : theta.size() / first.size(); }
};

/// Base class of all encodings. It is also the encoding `none`, except that it asks for a causal mask.
class PositionalEncoding {
 public:
  explicit PositionalEncoding(const Shape& shape) : shape_(shape) {}
  virtual ~PositionalEncoding() = default;
  PositionalEncoding(const PositionalEncoding&) = delete;
  PositionalEncoding& operator=(const PositionalEncoding&) = delete;

  const Shape& shape() const { return shape_; }
  virtual Facts facts() const { return {}; }
  /// Heads of q before S2.
  std::int64_t projected_heads() const { return shape_.query_heads / facts().heads_per_query; }
  virtual Traits traits(const Span& span) const { return {}; }
  /// Is it defined for keys up to the query only (distances from 0 on, counts of earlier keys, sums over the past)?
  /// Such an encoding rejects a pass without a causal mask. Encodings that return false are defined in both directions.
  virtual bool needs_causal_mask() const { return true; }
  /// Leaves a head of a layer without any sign of position, while others have one. Temperatures that are made for such
  /// heads ask for it.
  virtual bool is_position_free_head(int layer, int head) const { return false; }
  /// Once, from the stack that holds it: the other members, which live as long.
  virtual void enter_stack(const std::vector<const PositionalEncoding*>& others) {}
  /// All parameters of the model's layers, in a fixed order.
  const std::vector<Parameter>& parameters() const { return parameters_; }

  /// Once per pass, before anything else: tables that all layers share.
  virtual void begin(State& state) {}

  /// S0. @param layer −1 at the embedding. @return [S] or [B,S], int64 or float64.
  virtual Tensor positions(int layer, const Span& span) const;
  /// S1. @param x [B,T,d_m] token embeddings, not modified. @return the same shape, dtype and device.
  virtual Tensor add_to_tokens(LayerContext& context, const Tensor& x) { return x; }
  /// S2. Replaces changed tensors in `heads`. q is for the last T rows of `context.positions`, k for all S.
  virtual void transform(LayerContext& context, Heads& heads) {}
  /// The pairs that S2 rotates in a layer, for probes. Absent where it rotates none there, or where its angles are not
  /// multiples of the distance.
  virtual std::optional<RotatedPairs> rotated_pairs(int layer, const Span& span) const { return std::nullopt; }
  /// S3.
  virtual Channels channels(LayerContext& context, const Heads& heads);
  /// S4. @return [H,n], at least float32: the bias at distances 0 .. n − 1.
  virtual Tensor table(LayerContext& context, std::int64_t n);
  /// Tensors that S5 to S8 read in addition to q, k and v and that may need gradients: parameters, or tensors computed
  /// from them or from x. The row stages must take them from `Rows::inputs` (same order), since rows are computed twice
  /// where that saves memory. By default the Toeplitz table over all distances in reach, if the encoding has one.
  virtual std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads);
  /// S5, the definition of every bias. @return [B or 1, H or 1, rows, keys], at least float32; values for keys that are
  /// not visible are ignored. By default looks distances up in the table.
  virtual Tensor bias(const Rows& rows);
  /// S6. @return [B,H,rows,keys], at least float32. By default scale·q·kᵀ.
  virtual Tensor logits(const Rows& rows);
  /// S7. @param s logits with bias, finite everywhere: the mask is laid over afterwards.
  virtual Tensor rewrite(const Rows& rows, const Tensor& s) { return s; }
  /// S8. Null: softmax. Reads parameters through `inputs` (see row_inputs), so a new one is made for each range of
  /// rows.
  virtual std::unique_ptr<Normaliser> normaliser(const LayerContext& context, const std::vector<Tensor>& inputs) {
    return nullptr;
  }
  /// S8. [B,G or H,S,n] or undefined: further values that are mixed by the same weights as v.
  virtual Tensor extra_values(LayerContext& context, const Heads& heads) { return {}; }
  /// S8. @param out [B,H,T,d_h]. @param extra the mixed extra values, [B,H,T,n], or the sink's weight (sink_share).
  virtual Tensor finish(LayerContext& context, const Tensor& out, const Tensor& extra) { return out; }
  /// S9. @param y [B,T,d_m], output of the layer's feed-forward, before the residual sum.
  virtual void after_feed_forward(LayerContext& context, const Tensor& y) {}

  /// After each optimizer step: clamps.
  virtual void after_step() {}

 protected:
  /// Initial values are drawn by the name that a model gives, "encoding." + name: only (Shape::seed, name) counts.
  Tensor add_normal(const std::string& kind, const std::string& short_name, at::IntArrayRef sizes, double mean,
                    double std, bool weight_decay, int layer = -1);
  Tensor add_uniform(const std::string& kind, const std::string& short_name, at::IntArrayRef sizes, double low,
                     double high, bool weight_decay, int layer = -1);
  Tensor add_constant(const std::string& kind, const std::string& short_name, at::IntArrayRef sizes, double value,
                      bool weight_decay, int layer = -1);
  Tensor add_parameter(const std::string& kind, const std::string& short_name, Tensor initial, bool weight_decay,
                       int layer = -1);

  Shape shape_;
  std::vector<Parameter> parameters_;
};

/// Starts a pass. @throws ConfigError where the encoding needs a causal mask, or a length that the span does not have.
State begin_pass(PositionalEncoding& encoding, const Span& span);

/// S0 for a layer (or −1, the embedding). The context refers to `state`, which must outlive it.
LayerContext layer_context(PositionalEncoding& encoding, State& state, int layer, Tensor x = {});

/// S0 and S1. @param x [B,T,d_m] token embeddings.
Tensor add_to_tokens(PositionalEncoding& encoding, const Tensor& x, State& state);

/// The number n of whole distances 0 .. n − 1 between positions of a pass. @throws ConfigError if they are fractions.
std::int64_t distances_in_reach(const LayerContext& context);

/// first_position + row, restarting in each document where the span says so; [S] or [B,S] int64.
Tensor default_positions(const Span& span);

/// Key of a draw during training or evaluation: never of the rank or the micro-batch.
std::uint64_t draw_key(std::uint64_t seed, const std::string& purpose, std::int64_t step, std::int64_t layer,
                       std::int64_t sample);

/// float64 for float64, else float32: the dtype of tables and logits.
at::ScalarType table_type(at::ScalarType type);

}  // namespace pe::encodings

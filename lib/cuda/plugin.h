/// @file
/// The CUDA plug-in (`pe-cuda.so`) as programs that do not link CUDA see it: a table of functions (support/plugin.h).
/// Sizes and pointers only, so that neither side sees the other's headers. Streams are `cudaStream_t` as void*.
#pragma once

#include <cstddef>
#include <cstdint>

struct PeCudaDevice {
  char name[256];
  int major = 0, minor = 0;  ///< compute capability
  int multiprocessors = 0;
  std::uint64_t memory_bytes = 0;
};

/// A rotation of the first 2 · pairs values of each head: cosine and sine of pair p at b · by_sequence + t · by_row +
/// p.
struct PeCudaTurn {
  const float *cos = nullptr, *sin = nullptr;
  std::int64_t by_sequence = 0, by_row = 0, pairs = 0;
  bool half = true;  ///< pair p is (p, p + pairs); else (2p, 2p + 1)
};

/// Steps from a sequence, a head and a row to the next, in values. The values of a head's row follow each other.
struct PeCudaStrides {
  std::int64_t by_sequence = 0, by_head = 0, by_row = 0;
};

/// The queries, keys or values of a packed projection. Head h of a token begins at column + h · width of its packed
/// row, and at b · by_sequence + h · by_head + t · by_row of `values`.
struct PeCudaPart {
  std::int64_t heads = 0;  ///< 0: this part is not touched
  std::int64_t column = 0;
  void* values = nullptr;  ///< written; of the backward pass the gradients, read, null: zeros
  std::int64_t by_sequence = 0, by_head = 0, by_row = 0;
  const float* weight = nullptr;  ///< of the norm, [width]; null: none
  float* rstd = nullptr;          ///< [tokens, heads]
  float* dweight = nullptr;       ///< [width]; null: not wanted
};

/// Heads of q and k are normed, then rotated. `v` is for the backward pass alone: its gradient goes where the others'
/// do.
struct PeCudaSplit {
  PeCudaPart q, k, v;
  PeCudaTurn turn;
  std::int64_t tokens = 0, length = 0, width = 0;  ///< B · T, T, d_h, at most 512
  std::int64_t packed_row = 0;                     ///< columns of the packed matrix
  float eps = 0;
};

/// A rotation of x [B, H, T, width] by a table [B or 1, G, T, pairs]: head h reads group ⌊h · G / H⌋, `by_group` apart.
struct PeCudaRotation {
  PeCudaTurn turn;
  std::int64_t batch = 0, heads = 0, length = 0, width = 0, groups = 1, by_group = 0;
  PeCudaStrides from, to;
  float sign = 1;  ///< −1: back
};

/// Changes of the logits of a cross-entropy; 0: none.
struct PeCudaLogits {
  float softcap = 0;  ///< logits are softcap · tanh(logit / softcap)
  float z_loss = 0;   ///< adds z_loss · logsumexp² to the function that the gradient is of, not to the loss
  float scale = 1;    ///< factor of the gradient, not of the loss
  /// Threads of a row's block: 512 or 1,024, of which each holds half as much. The order of sums depends on it.
  int threads = 512;
};

struct PeCudaAdam {
  float* values = nullptr;
  const float* gradients = nullptr;
  float *first = nullptr, *second = nullptr;
  void* shadow = nullptr;  ///< bf16 copies of the values, written too; may be null
  std::int64_t count = 0;
  float lr = 0, beta1 = 0, beta2 = 0, decay = 0, eps = 0;
  float correction1 = 1, correction2 = 1;  ///< 1 − betaᵗ
  float divisor = 1;                       ///< of the gradients: clipping
  /// [2], on the device: the divisor, and a number that is not 0 where nothing is to change. Null: `divisor`.
  const float* verdict = nullptr;
  bool coupled = false;  ///< decay goes into the gradient (Adam), not past it (AdamW)
};

/// d [rows, columns] = a [rows, depth] · b [depth, columns], plus c where it is added. Sums are fp32 numbers and are
/// rounded to d's type once. a and b are bf16. A step leads from a stored row to the next, in values. c has d's step.
/// All begin at multiples of pe_cuda_product_alignment bytes.
struct PeCudaProduct {
  std::int64_t rows = 0, columns = 0, depth = 0;
  std::int64_t a_step = 0, b_step = 0, d_step = 0;
  bool a_turned = false, b_turned = false;  ///< stored as [depth, rows], as [columns, depth]
  bool wide = false;                        ///< c and d are fp32; else bf16
  bool adds = false;                        ///< c is added; it may be d
  bool operator==(const PeCudaProduct&) const = default;
};
inline constexpr std::int64_t pe_cuda_product_alignment = 16;

/// A way of cuBLASLt to compute a product: words that its version understands, and bytes of memory that it needs.
struct PeCudaAlgorithm {
  std::uint64_t data[8] = {};
  std::uint64_t workspace = 0;
};

/// A bias f(measure[h, distance] · numbers[t]) in place of a table. f is a line that bends at knots; it is given by its
/// pieces, and gradients are those by its knots.
inline constexpr std::int64_t pe_cuda_knots = 32;
struct PeCudaBent {
  const float* measure = nullptr;     ///< [H, S], at distances 0 to S − 1; null: no such bias
  const float* derivative = nullptr;  ///< [H, S], of `measure` by a parameter
  const float* numbers = nullptr;     ///< [B, H, T]
  /// [H, 32]: where the slope changes, rising and finite, and by how much. A knot above all inputs has no effect.
  const float *knots = nullptr, *bends = nullptr;
  const float* pieces = nullptr;  ///< [H, 33, 2]: slope and value at 0 of the lines before, between and after knots
};

/// A bias of each pair of a query and a key in place of a table: at b · by_sequence + h · by_head + t · S + s. Strides
/// of 0: sequences or heads share it. Values of hidden pairs do not matter.
struct PeCudaPairs {
  const float* bias = nullptr;  ///< null: no such bias
  std::int64_t by_sequence = 0, by_head = 0;
};

/// Memory of attention that scans its rows: sums of each row at the borders of blocks of keys, [B, H,
/// pe_cuda_scan_blocks(S), T]. The forward pass writes those over nearer keys unless they are null. The backward pass
/// reads them and writes those over farther keys. Both must be zero before: no row writes borders beyond its keys.
inline constexpr std::int64_t pe_cuda_scan_block = 16;
struct PeCudaScan {
  float *nearer = nullptr, *farther = nullptr;
};
constexpr std::int64_t pe_cuda_scan_blocks(std::int64_t keys) {
  return (keys + pe_cuda_scan_block - 1) / pe_cuda_scan_block;
}

/// Stick-breaking in place of softmax: w(t, s) = σ(z(t, s)) · Π (1 − σ(z(t, l))) over the keys l between s and the row
/// itself. The lse of a row is then −ln of the weight that no key took. It needs a PeCudaScan.
struct PeCudaStick {
  bool breaks = false;
  int hidden = 0;  ///< 1: a row does not see its own key
};

/// A bias by counts in place of a table: the row's `logits` at p(t, s), read between its neighbours. The count p is the
/// sum of σ(scale · q·k) over the keys from s to the row itself, at most `positions` − 1. It needs a PeCudaScan.
struct PeCudaCounts {
  const float* logits = nullptr;  ///< [B, H, T, positions]; null: no such bias
  std::int64_t positions = 0;     ///< 2 to 2²⁰
};

/// A bias by edges in place of a table: the sum of costs over the keys after s up to the row itself. A key's cost is
/// slopes[h] · ln σ(x), with x the product of the row's 8 numbers and the key's. A number is the sum of two bf16 parts.
/// It needs a PeCudaScan.
inline constexpr std::int64_t pe_cuda_edge_numbers = 8;
struct PeCudaEdges {
  const void* queries = nullptr;  ///< [B, H, T, 4, 8] bf16, parts high, low, high, low; null: no such bias
  const void* keys = nullptr;     ///< [B, H, S, 4, 8] bf16, parts high, high, low, low
  const float* slopes = nullptr;  ///< [H]
};

/// Causal attention of q [B, H, T, d_h] to k and v [B, G, S, d_h], bf16, H a multiple of G and 0 < T <= S < 2³⁰. Query
/// row t is at key row S − T + t and sees the keys up to it, by softmax over scale · q·k + table[h, distance]. All
/// matrices begin at multiples of 16 bytes, and strides are multiples of 8; see pe_cuda_attends for d_h.
struct PeCudaAttention {
  std::int64_t batch = 0, heads = 0, groups = 0, queries = 0, keys = 0, width = 0;  ///< B, H, G, T, S, d_h
  PeCudaStrides q, k, v, out, dout, dq, dk, dv;
  /// [S] (starts_by_sequence 0) or [B, S]: the first key row of the document that a key row belongs to, never after the
  /// row itself, never falling from a row to the next. Keys before it are hidden. Null: one document.
  const std::int64_t* starts = nullptr;
  std::int64_t starts_by_sequence = 0;
  const float* table = nullptr;  ///< [H, S], finite or −∞, but finite at distance 0; null: no bias
  float scale = 1;               ///< above 0
  /// A gated distance, in place of a table. The term of a logit is
  /// −(query_gates[t] + key_gates[s]) · (places[S − T + t] − places[s]). Null places: none; null key_gates: zeros.
  const float *places = nullptr, *query_gates = nullptr, *key_gates = nullptr;  ///< [B, H, S], [B, H, T], [B, H, S]
  PeCudaBent bent;
  PeCudaPairs pairs;
  PeCudaStick stick;    ///< without any bias
  PeCudaCounts counts;  ///< without any other bias
  PeCudaEdges edges;    ///< without any other bias
  PeCudaScan scan;
};

/// Gradients by a gated distance, written. The gradient by a place is the sum of those as a query and as a key.
struct PeCudaGatedGradients {
  float *query_gates = nullptr, *query_places = nullptr;  ///< [B, H, T]
  float *key_gates = nullptr, *key_places = nullptr;      ///< [B, H, S]
};

/// Gradients by a bent distance, written. With G the gradient by a logit and x the input of f, `sums` has parts of sums
/// of G, then of G · x. The first 32 sums are over logits with x past a knot, the last is over all.
struct PeCudaBentGradients {
  float *numbers = nullptr, *parameter = nullptr;  ///< [B, H, T]; the latter's sum over rows is the gradient
  float* sums = nullptr;                           ///< [B, H, pe_cuda_bent_parts(T), 2, 33]
};
constexpr std::int64_t pe_cuda_bent_parts(std::int64_t queries) { return (queries + 63) / 64 * 4; }

/// Gradients by the numbers of edges, written.
struct PeCudaEdgeGradients {
  float *queries = nullptr, *keys = nullptr;  ///< [B, H, T, 8], [B, H, S, 8]
};

struct PeCudaBiasGradients {
  PeCudaGatedGradients gated;
  PeCudaBentGradients bent;
  float* pairs = nullptr;   ///< shaped as the bias of pairs; null: not wanted
  float* counts = nullptr;  ///< shaped as the logits of counts, added to
  PeCudaEdgeGradients edges;
};

/// A network of the logits of all heads at a pair of a query row t and a key row s, and at neighbouring keys. With
/// s′ = s + i − taps/2 for tap i, a unit u of the hidden layer is a(t, s)[u] = leaky(first_bias[u] + Σ first[u, c, i] ·
/// x(t, s′)[c]). The result is pairs[b, h, t, s] = offset[h, distance] + Σ second[h, u, i] · a(t, s′)[u].
/// Channels x are scale · logits of the heads, then the base's numbers at the distance; 0 where a row does not see the
/// key. Hidden values are 0 at keys before the row's document. Rows and masks are as in PeCudaAttention.
inline constexpr int pe_cuda_network_hidden = 32;
struct PeCudaPairNetwork {
  std::int64_t batch = 0, heads = 0, queries = 0, keys = 0;  ///< B, H, T, S
  std::int64_t taps = 1;                                     ///< 1 or 3
  const float* logits = nullptr;                             ///< [B, H, T, S]
  const float* base = nullptr;    ///< [H, S] by distance; null: C = H channels in place of 2 · H
  const float* offset = nullptr;  ///< [H, S] by distance
  const float *first = nullptr, *first_bias = nullptr, *second = nullptr;  ///< [32, C, taps], [32], [H, 32, taps]
  float scale = 1, slope = 0;                                              ///< of the leaky rectifier below 0
  /// As in PeCudaAttention: the first key that a row sees, and the first of its document; null: 0.
  const std::int64_t *starts = nullptr, *documents = nullptr;
  std::int64_t starts_by_sequence = 0, documents_by_sequence = 0;
};

/// Gradients by a network. Those by logits are written where a row sees a key, and times the scale. The others are
/// parts whose sum is the gradient.
struct PeCudaPairNetworkGradients {
  float* logits = nullptr;       ///< [B, H, T, S]
  float* by_distance = nullptr;  ///< [B · strips, C, S]: C − H rows by the base, H by the offset
  float* parameters = nullptr;   ///< [pe_cuda_network_blocks, pe_cuda_network_parameters]: first, second, first_bias
};
constexpr std::int64_t pe_cuda_network_channels(const PeCudaPairNetwork& of) {
  return of.base != nullptr ? 2 * of.heads : of.heads;
}
constexpr std::int64_t pe_cuda_network_parameters(const PeCudaPairNetwork& of) {
  return pe_cuda_network_hidden * ((pe_cuda_network_channels(of) + of.heads) * of.taps + 1);
}
/// Rows of a strip: so many that parts by distance are at most 16 Mi floats, if a strip is no longer than T.
constexpr std::int64_t pe_cuda_network_rows(const PeCudaPairNetwork& of) {
  std::int64_t rows = 64;
  while (rows < of.queries && of.batch * ((of.queries + rows - 1) / rows) * 2 * of.heads * of.keys > 1 << 24) rows *= 2;
  return rows;
}
constexpr std::int64_t pe_cuda_network_strips(const PeCudaPairNetwork& of) {
  return (of.queries + pe_cuda_network_rows(of) - 1) / pe_cuda_network_rows(of);
}
/// Blocks take four tiles of distances each.
constexpr std::int64_t pe_cuda_network_columns(const PeCudaPairNetwork& of) {
  const std::int64_t wide = 4 * (32 - of.taps / 2 * 2);
  return (of.keys + wide - 1) / wide;
}
constexpr std::int64_t pe_cuda_network_blocks(const PeCudaPairNetwork& of) {
  return of.batch * pe_cuda_network_strips(of) * pe_cuda_network_columns(of);
}

/// Widths of heads for which there is attention.
constexpr bool pe_cuda_attends(std::int64_t width) { return width == 32 || width == 64 || width == 128; }

/// Who computes plain attention: without a bias, of one document, and of as many queries as keys.
enum class PeCudaAttentionRoute { kLibTorch, kPlugin, kCudnn };

/// A route, and for cuDNN's the places of both passes' plans in the lists that cuDNN gives.
struct PeCudaAttentionChoice {
  PeCudaAttentionRoute by = PeCudaAttentionRoute::kLibTorch;
  int forward_plan = 0, backward_plan = 0;
  bool operator==(const PeCudaAttentionChoice&) const = default;
};

/// Matrices of an attention. A forward pass writes `out` and lse [B, H, T]. A backward pass reads them and `dout`, and
/// writes dq, dk and dv.
struct PeCudaAttentionMemory {
  const void *q = nullptr, *k = nullptr, *v = nullptr, *dout = nullptr;
  void* out = nullptr;
  float* lse = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
  void* workspace = nullptr;  ///< of cudnn_attention_workspace's bytes
};

/// Floats of scratch memory for attention_backward with the table's gradient: at most 16 Mi, or S where that is more.
constexpr std::int64_t pe_cuda_attention_scratch(const PeCudaAttention& of) {
  const std::int64_t wanted = of.batch * of.heads * ((of.queries + 63) / 64) * of.keys, most = std::int64_t{1} << 24;
  return wanted <= most ? wanted : of.keys < most ? most : of.keys;
}

/// Parts in which sums over so many rows are taken; scratch memory for one holds pe_cuda_parts(rows) · width floats.
constexpr std::int64_t pe_cuda_parts(std::int64_t rows) {
  const std::int64_t parts = (rows + 63) / 64;
  return parts < 1 ? 1 : parts > 4096 ? 4096 : parts;
}

/// Tokens that a team takes one after the other in the heads' backward pass: sums over tokens begin there.
inline constexpr std::int64_t pe_cuda_head_tile = 16;
/// Floats of scratch memory for split_heads_backward with gradients by weights.
constexpr std::int64_t pe_cuda_head_scratch(std::int64_t tokens, std::int64_t width) {
  return 2 * ((tokens + pe_cuda_head_tile - 1) / pe_cuda_head_tile) * width;
}

/// Places of the sorted order that one team takes in embedding_gradient, and floats of its scratch memory.
inline constexpr std::int64_t pe_cuda_embedding_piece = 64;
constexpr std::int64_t pe_cuda_embedding_scratch(std::int64_t count, std::int64_t width) {
  return 2 * ((count + pe_cuda_embedding_piece - 1) / pe_cuda_embedding_piece) * width;
}

/// Functions that return int give 0 on success; `problem` (may be null) receives a text otherwise.
struct PeCudaTable {
  /// Number of devices; 0 or less with a text when there is none.
  int (*device_count)(char* problem, std::size_t size);
  int (*device_properties)(int device, PeCudaDevice* properties);
  int (*set_device)(int device);        ///< of the calling thread, from here on
  void* (*current_stream)(int device);  ///< LibTorch's

  /// gradient[ids[i], :] += scale · rows[i, :], in an order that two runs share. `sorted` are the ids in rising order,
  /// `order` their places, which rise among equal ids. Negative ids add nothing. The table is fp32; rows are fp32, or
  /// bf16 with `rows_bf16`. Scratch memory: see pe_cuda_embedding_scratch.
  int (*embedding_gradient)(const std::int64_t* sorted, const std::int64_t* order, const void* rows, bool rows_bf16,
                            float* gradient, float* scratch, std::int64_t count, std::int64_t width, float scale,
                            void* stream);

  /// Per row: loss = logsumexp − logit of the target. With `gradient` the row becomes scale · (softmax − one-hot), in
  /// place. `shape` changes both. Negative targets: loss 0, zero row. logits fp32, or bf16 with `logits_bf16`; fewer
  /// than 2³² in a row.
  int (*cross_entropy)(void* logits, bool logits_bf16, const std::int64_t* targets, float* loss, std::int64_t rows,
                       std::int64_t vocabulary, bool gradient, const PeCudaLogits* shape, void* stream);

  /// Values of the following are fp32, or bf16 with `bf16`; norms' weights and their gradients fp32. Rows follow
  /// each other. Scratch memory: see pe_cuda_parts. Sums have one order, so that two runs agree.

  /// y = x · rstd · weight, rstd = 1/sqrt(mean(x²) + eps) [rows]. With `delta` (may be null) x + delta takes the place
  /// of x and is written to `sum`.
  int (*rms_norm)(const void* x, const void* delta, const float* weight, void* sum, void* y, float* rstd,
                  std::int64_t rows, std::int64_t width, float eps, bool bf16, void* stream);
  /// dx = add + the gradient by x; dweight += the gradient by the weight. `add` and `dweight` may be null.
  int (*rms_norm_backward)(const void* dy, const void* x, const float* weight, const float* rstd, const void* add,
                           void* dx, float* dweight, float* scratch, std::int64_t rows, std::int64_t width, bool bf16,
                           void* stream);

  /// Heads of q and k out of a packed projection. Fewer than 2³¹ tokens, and not 0 where heads are wider than 512.
  int (*split_heads)(const void* packed, const PeCudaSplit* split, bool bf16, void* stream);
  /// The inverse for gradients: the columns of q, k and v of dpacked, and dweight +=. Scratch memory: see
  /// pe_cuda_head_scratch; null where no dweight is wanted.
  int (*split_heads_backward)(const void* packed, void* dpacked, const PeCudaSplit* split, float* scratch, bool bf16,
                              void* stream);
  /// Rotates by a table of any shape. Fewer than 2³¹ rows of heads.
  int (*rotate)(const void* x, void* out, const PeCudaRotation* rotation, bool bf16, void* stream);

  /// mask [samples, count]: 0 with probability p, else 1 / (1 − p), drawn as support/random.h does by the key of each
  /// sample.
  int (*dropout_mask)(void* mask, const std::int64_t* keys, std::int64_t samples, std::int64_t count, double p,
                      bool bf16, void* stream);
  /// to [rows, positions]: the gradient by values that a gather by `index` [rows, keys] read, in the order of the keys.
  int (*gather_gradient)(const void* gradient, const std::int64_t* index, void* to, std::int64_t rows,
                         std::int64_t keys, std::int64_t positions, bool bf16, void* stream);

  /// a [rows, inner] = silu(gate) · up, where a row of gate_up [rows, 2 · inner] is gate, then up.
  int (*swiglu)(const void* gate_up, void* a, std::int64_t rows, std::int64_t inner, bool bf16, void* stream);
  int (*swiglu_backward)(const void* da, const void* gate_up, void* dgate_up, std::int64_t rows, std::int64_t inner,
                         bool bf16, void* stream);

  /// One step of AdamW or Adam over fp32 weights.
  int (*adam)(const PeCudaAdam* with, void* stream);

  /// Whether the device has attention for heads of that width: wide ones need more shared memory than some give a
  /// block.
  bool (*attends)(int device, std::int64_t width);
  /// Attention whose scores are never in memory (Dao 2023, arXiv:2307.08691). lse [B, H, T] is the natural logarithm of
  /// the sum of the logits' exponentials. Not 0 where strides or sizes break the rules of PeCudaAttention.
  int (*attention)(const PeCudaAttention* of, const void* q, const void* k, const void* v, void* out, float* lse,
                   void* stream);
  /// delta [B, H, T]: each row's dout · out, less dlse [B, H, T], which may be null. Of stick-breaking delta is −dlse,
  /// and this function has no part in it.
  int (*attention_products)(const PeCudaAttention* of, const void* dout, const void* out, const float* dlse,
                            float* delta, void* stream);
  /// dtable [H, S] += the gradient by the table; it and `scratch` (see pe_cuda_attention_scratch) may be null. `dbias`
  /// is written where one of the other biases is, and may be null elsewhere. dk and dv are sums over the heads that
  /// share them. Two runs give the same bits.
  int (*attention_backward)(const PeCudaAttention* of, const void* q, const void* k, const void* v, const void* dout,
                            const float* lse, const float* delta, void* dq, void* dk, void* dv, float* dtable,
                            float* scratch, const PeCudaBiasGradients* dbias, void* stream);

  /// Whether the device has memory for a network's sums.
  bool (*takes_pair_network)(int device, const PeCudaPairNetwork* of);
  /// Writes pairs [B, H, T, S] where rows see keys: a bias for `attention`.
  int (*pair_network)(const PeCudaPairNetwork* of, float* pairs, void* stream);
  /// @param dpairs the gradient by `pairs`. Two runs give the same bits.
  int (*pair_network_backward)(const PeCudaPairNetwork* of, const float* dpairs, const PeCudaPairNetworkGradients* to,
                               void* stream);

  /// Plain attention by cuDNN, and the choice among its routes; null where the build found no frontend of cuDNN.
  /// Strides are above 0. A plan gives the same bytes every time on one model of device with one version of cuDNN,
  /// which gives the same list of plans there. The choice that this build holds for the shape, cuDNN's version and the
  /// current device. LibTorch's where it holds none, and where cuDNN has no such plans for the strides.
  PeCudaAttentionChoice (*attention_choice)(const PeCudaAttention* of);
  /// The line of recorded_attention.inc that makes a build hold a choice, for at most so many sequences.
  void (*write_attention_record)(const PeCudaAttention* of, const PeCudaAttentionChoice* by, char* line,
                                 std::size_t size);
  /// How many plans cuDNN has for a pass. Not 0 with a text where it has none.
  int (*cudnn_attention_plans)(const PeCudaAttention* of, bool backward, int* count, char* problem, std::size_t size);
  /// Makes a plan ready, or finds that it is.
  int (*cudnn_attention_workspace)(const PeCudaAttention* of, bool backward, int plan, std::uint64_t* bytes,
                                   char* problem, std::size_t size);
  int (*cudnn_attention)(const PeCudaAttention* of, bool backward, int plan, const PeCudaAttentionMemory* at,
                         void* stream, char* problem, std::size_t size);

  /// Products by cuBLASLt; null where the build found no cublasLt.h. Statuses are cuBLAS's. An algorithm gives the same
  /// bytes every time on one model of device, and another algorithm may give others.
  /// At most `most` algorithms, the most promising first; `count` may become 0.
  int (*product_algorithms)(const PeCudaProduct* of, int most, PeCudaAlgorithm* found, int* count);
  /// The algorithm that this build holds for cuBLASLt's version and the current device; false: none.
  bool (*recorded_product)(const PeCudaProduct* of, PeCudaAlgorithm* by);
  /// The line of recorded_products.inc that makes a build hold it.
  void (*write_product_record)(const PeCudaProduct* of, const PeCudaAlgorithm* by, char* line, std::size_t size);
  /// `c` is read where it is added. `workspace` has the algorithm's bytes.
  int (*product)(const PeCudaProduct* of, const PeCudaAlgorithm* by, const void* a, const void* b, const void* c,
                 void* d, void* workspace, void* stream);

  /// NCCL; null where the build found no nccl.h. `id` is 128 bytes made by rank 0 and given to all. A communicator has
  /// a separate stream, so that sums of gradients run during the backward pass.
  int (*nccl_unique_id)(char id[128]);
  /// Waits at most `timeout_s` for the other ranks, then and in every later call.
  int (*nccl_open)(const char id[128], int ranks, int rank, int device, double timeout_s, void** communicator,
                   char* problem, std::size_t size);
  /// Begin once what `stream` holds by now is done; every rank begins the same ones in the same order.
  int (*nccl_start_sum)(void* communicator, void* data, std::int64_t count, bool is_double, void* stream);
  int (*nccl_start_broadcast)(void* communicator, void* data, std::int64_t bytes, int root, void* stream);
  /// Later work on `stream` runs after everything begun. `done` says whether everything begun has ended already. A rank
  /// that is gone is an error with a text.
  int (*nccl_join)(void* communicator, void* stream);
  int (*nccl_done)(void* communicator, int* done, char* problem, std::size_t size);
  /// @param agreed all ranks come here; else unfinished work is cut off
  void (*nccl_close)(void* communicator, bool agreed);
};

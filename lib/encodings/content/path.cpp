// PaTH: each token between a key and a query transforms the query by a separate Householder-like matrix.
#include "encodings/content/path.h"

#include "encodings/content/cumulative.h"
#include "encodings/content/token_sums.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

constexpr std::int64_t kPathRank = 32, kPathTaps = 3, kPathBlock = 64;
constexpr double kPathEpsilon = 1e-6;

/// [B,H,S,n] → [B,H,blocks,block,n], zeros at the end.
Tensor in_blocks(const Tensor& t, std::int64_t block) {
  const std::int64_t length = t.size(2), blocks = (length + block - 1) / block;
  const Tensor padded = blocks * block == length ? t : at::constant_pad_nd(t, {0, 0, 0, blocks * block - length});
  return padded.unflatten(2, {blocks, block});
}

/// The keys of query rows under shared key/value heads.
Tensor for_heads(const Tensor& t, std::int64_t heads) {
  return t.size(1) == heads ? t : t.repeat_interleave(heads / t.size(1), 1);
}

struct PathFoxOptions {
  bool path_fox_scale_gate = false;
  void describe(support::FieldVisitor& v) {
    v.field("path_fox_scale_gate", path_fox_scale_gate,
            "Divide the gate's bias by √head_width too, as a released kernel does.");
  }
};

/// PaTH with FoX's gate: the product of matrices, and a penalty for each forgetting token in between.
class PathFox : public Path {
 public:
  PathFox(const PathFoxOptions& options, const Shape& shape)
      : Path("path_fox", shape), scale_gate_(options.path_fox_scale_gate) {
    for (int layer = 0; layer < shape.layers; ++layer) {
      weight_.push_back(add_normal("path_fox", "gate_weight", {shape.query_heads, shape.width}, 0, 0.02, true, layer));
      bias_.push_back(add_constant("path_fox", "gate_bias", {shape.query_heads}, 0, false, layer));
    }
  }

  Traits traits(const Span& span) const override {
    Traits traits = Path::traits(span);
    traits.bias = BiasKind::kPairwise;
    traits.bias_needs_grad = true;
    traits.bias_depends_on_batch = true;
    return traits;
  }

  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    std::vector<Tensor> inputs = Path::row_inputs(context, heads);
    inputs.push_back(
        at::log_sigmoid(token_scores(context, weight_.at(context.layer), bias_.at(context.layer))).cumsum(-1));
    return inputs;
  }

  Tensor bias(const Rows& rows) override {
    const RunningSums c = running_sums(rows, rows.inputs.at(kPathInputs));
    return scale_gate_ ? (c.query - c.key) * rows.scale : c.query - c.key;
  }

 private:
  bool scale_gate_;
  std::vector<Tensor> weight_, bias_;
};

}  // namespace

// Within a block, W the matrix of its w, T = (I + strictlower(diag(β) W Wᵀ))⁻¹ and Y = T·strictlower(diag(β) W Kᵀ):
//     in the block       A = Q Kᵀ − lower(Q Wᵀ) Y
//     to the block's start  Q̃ = Q − lower(Q Wᵀ) T diag(β) W        (H_start … H_i q_i)
//     to the block's end    K̃ = K − Yᵀ W                           (k_jᵀ H_{j+1} … H_end)
//     across the block      Q̃ ← Q̃ (I − Wᵀ T diag(β) W)
// so a query walks back from block to block: its logits there are Q̃ K̃ᵀ, and then it crosses the block.
std::vector<Tensor> path_inputs(const Tensor& q, const Tensor& k, const Tensor& w, const Tensor& beta,
                                std::int64_t block) {
  const std::int64_t heads = q.size(1), queries = q.size(2), keys = k.size(2), offset = keys - queries;
  const at::ScalarType type = w.scalar_type();
  const Tensor kb = in_blocks(k.to(type), block), wb = in_blocks(w, block);  // [B,G,N,block,d]
  const Tensor strong = in_blocks(beta.unsqueeze(-1), block) * wb;
  const Tensor eye = at::eye(block, wb.options().requires_grad(false));
  const Tensor system = eye + at::tril(at::matmul(strong, wb.transpose(-1, -2)), -1);
  const Tensor right = at::cat({at::tril(at::matmul(strong, kb.transpose(-1, -2)), -1), strong}, -1);
  const Tensor solved =
      at::linalg_solve_triangular(system, right, /*upper=*/false, /*left=*/true, /*unitriangular=*/true);
  const Tensor y = solved.narrow(-1, 0, block), tw = solved.narrow(-1, block, w.size(-1));  // T·diag(β)·W
  const Tensor k_end = kb - at::matmul(y.transpose(-1, -2), wb);
  const Tensor across = at::matmul(wb.transpose(-1, -2), tw);  // a row of Q̃ times I − this walks on
  // Queries are in the blocks of their rows, so rows before the first query are padded.
  Tensor all_q = q.to(type);
  if (offset > 0) all_q = at::constant_pad_nd(all_q, {0, 0, offset, 0});
  const Tensor qb = in_blocks(all_q, block);
  const Tensor w_of_q = for_heads(wb, heads), tw_of_q = for_heads(tw, heads);
  const Tensor met = at::tril(at::matmul(qb, w_of_q.transpose(-1, -2)));
  const Tensor q_start = qb - at::matmul(met, tw_of_q);
  const Tensor inside = at::matmul(qb, for_heads(kb, heads).transpose(-1, -2)) - at::matmul(met, for_heads(y, heads));
  return {q_start.flatten(2, 3), for_heads(k_end, heads).flatten(2, 3), for_heads(across, heads),
          at::tril(inside).flatten(2, 3)};
}

Tensor path_logits(const std::vector<Tensor>& inputs, std::int64_t begin, std::int64_t end, std::int64_t keys,
                   std::int64_t block) {
  const Tensor &q_start = inputs.at(0), &k_end = inputs.at(1), &across = inputs.at(2), &inside = inputs.at(3);
  std::vector<Tensor> parts;  // by block of queries
  for (std::int64_t from = begin; from < end;) {
    const std::int64_t at = from / block, to = std::min(end, (at + 1) * block);
    std::vector<Tensor> columns(at + 1);  // by block of keys
    columns[at] = inside.narrow(2, from, to - from);
    Tensor q = q_start.narrow(2, from, to - from);
    for (std::int64_t b = at - 1; b >= 0; --b) {
      columns[b] = at::matmul(q, k_end.narrow(2, b * block, block).transpose(-1, -2));
      if (b > 0) q = q - at::matmul(q, across.select(2, b));
    }
    const Tensor row = at::cat(columns, -1);
    const std::int64_t width = row.size(-1);
    parts.push_back(width >= keys ? row.narrow(-1, 0, keys) : at::constant_pad_nd(row, {0, keys - width}));
    from = to;
  }
  return parts.size() == 1 ? parts[0] : at::cat(parts, 2);
}

Path::Path(const std::string& kind, const Shape& shape) : InvariantAlone(shape) {
  const std::int64_t groups = shape.key_value_heads, kv = groups * shape.head_width;
  for (int layer = 0; layer < shape.layers; ++layer) {
    layers_.push_back({add_normal(kind, "down", {kPathRank, shape.width}, 0, 0.02, true, layer),
                       add_normal(kind, "up", {kv, kPathRank}, 0, 0.02, true, layer),
                       add_normal(kind, "conv", {kv, kPathTaps}, 0, 0.02, true, layer),
                       add_normal(kind, "beta_weight", {groups, shape.width}, 0, 0.02, true, layer),
                       add_constant(kind, "beta_bias", {groups}, 0, false, layer)});
  }
}

void Path::read_tokens(const LayerContext& context, Tensor& w, Tensor& beta) const {
  const Layer& layer = layers_.at(context.layer);
  beta = 2 * at::sigmoid(token_scores(context, layer.beta_weight, layer.beta_bias));
  const at::ScalarType type = layer.down.scalar_type();
  const Tensor mixed = at::matmul(at::matmul(context.x.to(type), layer.down.t()), layer.up.t());  // [B,S,kv]
  const Tensor convolved = causal_convolution(context.span, mixed, layer.conv);
  const Tensor lively = at::silu(convolved).unflatten(-1, {shape_.key_value_heads, shape_.head_width}).transpose(1, 2);
  w = lively * at::rsqrt((lively * lively).sum({-1}, true) + kPathEpsilon);
}

std::vector<Tensor> Path::row_inputs(LayerContext& context, const Heads& heads) {
  Tensor w, beta;
  read_tokens(context, w, beta);
  const std::int64_t groups = heads.k.size(1);  // another member of a stack may have parted shared keys
  return path_inputs(heads.q, heads.k, for_heads(w, groups), for_heads(beta, groups),
                     std::min(kPathBlock, context.span.keys));
}

Tensor Path::logits(const Rows& rows) {
  const std::int64_t offset = rows.context.span.keys - rows.context.span.queries;
  return path_logits(rows.inputs, offset + rows.begin, offset + rows.end, rows.keys,
                     std::min(kPathBlock, rows.context.span.keys)) *
         rows.scale;
}

EncodingEntry path_entry() {
  return without_options<Path>(
      {.name = "path",
       .summary = "Multiplies each query by a product of matrices, one for each token between query and key.",
       .reference = "Yang et al. 2025, arXiv:2505.16381",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "product of q and k",
       .parameters = "layers*(32*width + kv_heads*head_width*(32 + 3) + kv_heads*(width + 1))",
       .formula = "H_t = I − β_t w_t w_tᵀ, β_t = 2σ(W_β x_t), w_t = normalised silu(conv₃(up·down·x))_t\n"
                  "a_ij = k_jᵀ H_{j+1} … H_i q_i/√d_h",
       .known_for = "Tracks states that rotations cannot; its paper reports near zero error on flip-flop language. It "
                    "is 1.5 to 2 times as slow as fused attention.",
       .errata = {"The order matters: H_i is applied to the query first. The reverse order looks the same on short "
                  "texts.",
                  "At its initial values β is 1, a projection, so long products lose rank."}},
      "path");
}

EncodingEntry path_fox_entry() {
  return with_options<PathFox, PathFoxOptions>(
      {.name = "path_fox",
       .summary = "The product of matrices of PaTH and the forgetting gates of FoX.",
       .reference = "Yang et al. 2025, arXiv:2505.16381",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kCombination,
       .acts_on = "product of q and k, logits",
       .parameters = "layers*(32*width + kv_heads*head_width*(32 + 3) + kv_heads*(width + 1) + heads*(width + 1))",
       .formula = "PaTH's product, and logit(i,j) += c_i − c_j with FoX's gates",
       .known_for = "The better language model of the two in its paper.",
       .errata = {"A released kernel divides the gate's bias by √d_h; the paper and FoX do not "
                  "(`path_fox_scale_gate`)."}});
}

}  // namespace pe::encodings

// Selective attention: a token may mark earlier ones as no longer needed, and later queries see less of those.
#include "encodings/attention/attention_window.h"
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

// The selection over the whole text is one head's logits: up to this size it is one tensor, used like any other bias.
constexpr std::int64_t kSelectedBytes = std::int64_t{256} << 20;

class Selective : public PositionalEncoding {
 public:
  explicit Selective(const Shape& shape) : PositionalEncoding(shape) {}

  Facts facts() const override { return {.content_dependent = true}; }
  Traits traits(const Span& span) const override {
    if (alone_ && span.batch * span.queries * span.keys * 4 <= kSelectedBytes) {
      return {.bias = BiasKind::kPairwise, .bias_needs_grad = true, .bias_depends_on_batch = true};
    }
    return {.rewrites_logits = true, .rows_coupled = true, .needs_row_constants = true, .live_logits = 8};
  }

  /// In a stack with members that make or change logits, the selection depends on them, row after row.
  void enter_stack(const std::vector<const PositionalEncoding*>& others) override {
    for (const PositionalEncoding* other : others) {
      const Traits t = other->traits(Span::whole(1, std::max<std::int64_t>(shape_.train_length, 1)));
      alone_ = alone_ && t.bias == BiasKind::kNone && !t.own_logits && !t.rewrites_logits && !t.rows_coupled;
    }
  }

  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    if (context.span.queries < context.span.keys) {
      throw support::ConfigError(
          "encoding 'selective' adds up what all earlier queries selected, and this pass holds the "
          "last queries alone",
          {}, "run the whole text in one pass");
    }
    if (traits(context.span).rewrites_logits) return {};
    const at::ScalarType type = table_type(heads.q.scalar_type());
    const Tensor s =
        at::matmul(heads.q.narrow(1, 0, 1).to(type) * heads.scale, heads.k.narrow(1, 0, 1).to(type).transpose(-1, -2));
    const Tensor selected = selected_by(context, 0, s);
    return {selected - selected.cumsum(2)};
  }

  Tensor bias(const Rows& rows) override {
    return rows.inputs.at(0).narrow(2, rows.begin, rows.count()).narrow(3, 0, rows.keys);
  }

  // F sums S over the rows before.
  Tensor rewrite(const Rows& rows, const Tensor& s) override {
    const Tensor selected = selected_by(rows.context, rows.begin, s.narrow(1, 0, 1));
    const Tensor up_to_here = selected.cumsum(2);
    Tensor before = up_to_here - selected;
    if (rows.carry != nullptr) {
      if (rows.carry->defined()) {
        const Tensor carried = at::constant_pad_nd(*rows.carry, {0, rows.keys - rows.carry->size(-1)});
        before = before + carried;
        *rows.carry = up_to_here.narrow(2, rows.count() - 1, 1) + carried;
      } else {
        *rows.carry = up_to_here.narrow(2, rows.count() - 1, 1);  // [B,1,1,keys]
      }
    }
    return s - before;
  }

 private:
  /// S = relu(logits of the first head) where the row sees a key that is neither itself nor the first token.
  /// @param s [B,1,rows,keys], the query rows from `begin` on.
  static Tensor selected_by(const LayerContext& context, std::int64_t begin, const Tensor& s) {
    const at::TensorOptions whole = at::TensorOptions(at::kLong).device(s.device());
    const Tensor columns = at::arange(s.size(3), whole),
                 own = at::arange(begin, begin + s.size(2), whole).unsqueeze(-1);
    Tensor counts = columns.lt(own).logical_and(columns.gt(0));  // [rows,keys]
    if (const std::int64_t window = window_of(context); window > 0)
      counts = counts.logical_and(columns.gt(own - window));
    const Tensor& start = context.span.doc_start;
    if (start.defined()) {
      const Tensor later =
          columns.gt(start.narrow(-1, begin, s.size(2)).unsqueeze(-1));  // [rows,keys] or [B,rows,keys]
      counts = counts.logical_and(later.dim() == 3 ? later.unsqueeze(1) : later);
    }
    return at::relu(s).masked_fill(counts.logical_not(), 0.0);
  }

  bool alone_ = true;
};

}  // namespace

EncodingEntry selective_entry() {
  return without_options<Selective>(
      {.name = "selective",
       .summary = "Lets tokens mark earlier tokens as no longer needed, which lowers their later logits.",
       .reference = "Leviathan et al. 2024, arXiv:2410.02703",
       .facts = {.content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .formula = "S_ij = relu(logit of the first head), 0 for j = i and the first key\n"
                  "logit(i,j) −= Σ_{i' < i} S_i'j",
       .known_for = "Removes tokens that later tokens mark as no longer needed; it has no parameters.",
       .errata = {"Rows sum what earlier queries selected, so a pass needs all of them."}});
}

}  // namespace pe::encodings

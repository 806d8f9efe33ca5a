// Selective attention: a token may mark earlier ones as no longer needed, and later queries see less of those.
#include "encodings/registry.h"

namespace pe::encodings {
namespace {

class Selective : public PositionalEncoding {
 public:
  explicit Selective(const Shape& shape) : PositionalEncoding(shape) {}

  Facts facts() const override { return {.content_dependent = true}; }
  Traits traits(const Span& span) const override {
    return {.rewrites_logits = true, .rows_coupled = true, .needs_row_constants = true, .live_logits = 8};
  }

  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override {
    if (context.span.queries < context.span.keys) {
      throw support::ConfigError("encoding 'selective' adds up what all earlier queries selected, and this pass holds the "
                                 "last queries alone",
                                 {}, "run the whole text in one pass");
    }
    return {};
  }

  // S = relu(logits of the first head), but nobody selects itself or the first token; F sums S over the rows before.
  Tensor rewrite(const Rows& rows, const Tensor& s) override {
    const Tensor columns = at::arange(rows.keys, at::TensorOptions(at::kLong).device(s.device()));
    const Tensor own = rows.query_rows().unsqueeze(-1);   // [rows,1]
    Tensor counts = rows.visible.logical_and(columns.lt(own));
    const Tensor& start = rows.context.span.doc_start;
    if (start.defined()) {
      const Tensor first = start.narrow(-1, rows.begin, rows.count()).unsqueeze(-1);   // [rows,1] or [B,rows,1]
      const Tensor later = columns.gt(first);
      counts = counts.logical_and(later.dim() == 3 ? later.unsqueeze(1) : later);
    } else {
      counts = counts.logical_and(columns.gt(0));
    }
    const Tensor selected = at::relu(s.narrow(1, 0, 1)).masked_fill(counts.logical_not(), 0.0);   // [B,1,rows,keys]
    const Tensor up_to_here = selected.cumsum(2);
    Tensor before = up_to_here - selected;
    if (rows.carry != nullptr) {
      if (rows.carry->defined()) {
        const Tensor carried = at::constant_pad_nd(*rows.carry, {0, rows.keys - rows.carry->size(-1)});
        before = before + carried;
        *rows.carry = up_to_here.narrow(2, rows.count() - 1, 1) + carried;
      } else {
        *rows.carry = up_to_here.narrow(2, rows.count() - 1, 1);   // [B,1,1,keys]
      }
    }
    return s - before;
  }
};

}  // namespace

EncodingEntry selective_entry() {
  return without_options<Selective>(
      {.name = "selective",
       .summary = "Lets tokens mark earlier ones as no longer needed, which lowers their logits from then on.",
       .reference = "Leviathan et al. 2024, arXiv:2410.02703",
       .facts = {.content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .formula = "S_ij = relu(logit of the first head), 0 for j = i and the first key\n"
                  "logit(i,j) −= Σ_{i' < i} S_i'j",
       .known_for = "Lets tokens retire earlier ones that are no longer needed; no parameters.",
       .errata = {"Rows sum what earlier queries selected, so a pass needs all of them."}});
}

}  // namespace pe::encodings

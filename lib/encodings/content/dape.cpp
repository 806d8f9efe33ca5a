// DAPE: a small network over all heads reads the logits A and a base bias B and adds to them, A + B + f([A; B]).
#include <memory>
#include <string>
#include <vector>

#include "encodings/attention/fused_bias.h"
#include "encodings/attention/pair_network.h"
#include "encodings/registry.h"
#include "support/config.h"

namespace pe::encodings {
namespace {

struct DapeOptions {
  enum class Base { kKerpleLog, kAlibi, kFire, kNone };
  Base bias = Base::kKerpleLog;
  void describe(support::FieldVisitor& v);
};

/// Zheng et al. 2024, arXiv:2405.14722 (one pair at a time: taps 1) and arXiv:2410.04798 (a convolution along the keys:
/// taps 3).
class Dape : public PositionalEncoding, public FusesBias {
 public:
  Dape(const std::string& kind, std::int64_t taps, const DapeOptions& options, const Shape& shape);
  Facts facts() const override;
  Traits traits(const Span& span) const override;
  void begin(State& state) override;
  std::vector<Tensor> row_inputs(LayerContext& context, const Heads& heads) override;
  Tensor rewrite(const Rows& rows, const Tensor& s) override;
  void after_step() override;
  FusedKind fused_kind(const Span& span) const override;
  Tensor fused_rewrite(const Rows& rows) override;

 private:
  struct Layer {
    Tensor map1_w, map1_b, map2_w, map2_b;
  };
  std::int64_t taps_;
  std::unique_ptr<PositionalEncoding> base_;  // null: f reads the logits alone
  std::vector<Layer> layers_;
};

constexpr std::int64_t kDapeHidden = 32;
constexpr std::size_t kDapeInputs = 4;
constexpr double kDapeSlope = 0.01;  // of the leaky rectifier

/// A convolution along the keys, [B,C,rows,keys] → [B,D,rows,keys]: a product for each tap, shifted, and summed in the
/// order of the taps. A library's convolution chooses its order of sums, and on a GPU its precision, by itself.
Tensor along_keys(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const std::int64_t taps = weight.dim() == 4 ? weight.size(-1) : 1, outputs = weight.size(0), inputs = weight.size(1);
  const std::int64_t batch = x.size(0), rows = x.size(2), keys = x.size(3);
  const Tensor padded = taps > 1 ? at::constant_pad_nd(x, {taps / 2, taps / 2}) : x;
  const Tensor flat = padded.reshape({batch, inputs, -1}), kernel = weight.reshape({outputs, inputs, taps});
  Tensor sum;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    const Tensor product = at::bmm(kernel.select(2, tap).expand({batch, outputs, inputs}), flat);
    const Tensor shifted = product.view({batch, outputs, rows, -1}).narrow(-1, tap, keys);
    sum = sum.defined() ? sum + shifted : shifted + bias.view({outputs, 1, 1});
  }
  return sum;
}

void DapeOptions::describe(support::FieldVisitor& v) {
  v.choice("bias", bias,
           {{"kerple_log", Base::kKerpleLog}, {"alibi", Base::kAlibi}, {"fire", Base::kFire}, {"none", Base::kNone}},
           "The base bias that the network reads with the logits; none: it reads only the logits.");
}

Dape::Dape(const std::string& kind, std::int64_t taps, const DapeOptions& options, const Shape& shape)
    : PositionalEncoding(shape), taps_(taps) {
  static const char* const kBases[] = {"kerple_log", "alibi", "fire"};
  if (options.bias != DapeOptions::Base::kNone) base_ = make_encoding(kBases[static_cast<int>(options.bias)], shape);
  const std::int64_t heads = shape.query_heads, channels = base_ ? 2 * heads : heads;
  const double first = 1 / std::sqrt(static_cast<double>(channels * taps)),
               second = 1 / std::sqrt(static_cast<double>(kDapeHidden * taps));
  std::vector<std::int64_t> in{kDapeHidden, channels}, out{heads, kDapeHidden};
  if (taps > 1) {
    for (std::vector<std::int64_t>* sizes : {&in, &out}) sizes->insert(sizes->end(), {1, taps});
  }
  for (int layer = 0; layer < shape.layers; ++layer) {
    layers_.push_back({add_uniform(kind, "map1_w", in, -first, first, true, layer),
                       add_uniform(kind, "map1_b", {kDapeHidden}, -first, first, false, layer),
                       add_uniform(kind, "map2_w", out, -second, second, true, layer),
                       add_uniform(kind, "map2_b", {heads}, -second, second, false, layer)});
  }
  if (!base_) return;
  for (Parameter parameter : base_->parameters()) {  // their handles are shared
    parameter.name = kind + ".base." + parameter.name.substr(parameter.name.find('.') + 1);
    parameter.short_name = "base." + parameter.short_name;
    parameters_.push_back(std::move(parameter));
  }
}

Facts Dape::facts() const {
  Facts facts{.learned = true, .content_dependent = true};
  if (base_) facts.shift_invariant = base_->facts().shift_invariant;
  return facts;
}

Traits Dape::traits(const Span& span) const {
  // Hidden values of all pairs are in memory with the logits of all heads, so this counts in heads.
  const int hidden = static_cast<int>(3 * kDapeHidden / std::max<std::int64_t>(1, shape_.query_heads));
  return {.rewrites_logits = true, .needs_row_constants = true, .live_logits = 8 + hidden};
}

void Dape::begin(State& state) {
  if (base_) base_->begin(state);
}

std::vector<Tensor> Dape::row_inputs(LayerContext& context, const Heads& heads) {
  const Layer& l = layers_.at(context.layer);
  std::vector<Tensor> inputs{l.map1_w, l.map1_b, l.map2_w, l.map2_b};
  if (base_ && base_->traits(context.span).bias != BiasKind::kToeplitz &&
      fused_kind(context.span) == FusedKind::kNetwork) {
    inputs.push_back(base_->table(context, context.span.keys));  // ALiBi's, which reads no inputs
  } else if (base_) {
    for (Tensor& input : base_->row_inputs(context, heads)) inputs.push_back(std::move(input));
  }
  return inputs;
}

Tensor Dape::rewrite(const Rows& rows, const Tensor& s) {
  const at::ScalarType type = s.scalar_type();
  const auto input = [&](std::size_t i) { return rows.inputs.at(i).to(type); };
  // Another member may hide keys from all heads: its logits are −inf there.
  const Tensor hidden_pairs = rows.visible.logical_not().logical_or(s.narrow(1, 0, 1).isneginf());
  Tensor sum = s, read = s;
  if (base_) {
    Rows own = rows;
    own.inputs.assign(rows.inputs.begin() + kDapeInputs, rows.inputs.end());
    const Tensor b = base_->bias(own).to(type).expand(s.sizes());
    sum = s + b;
    read = at::cat({s, b}, 1);
  }
  read = read.masked_fill(hidden_pairs, 0.0);
  // The last key's row is as in a longer text only if the column after it takes part: a zero, which the first
  // convolution makes into something that the second one reads.
  if (taps_ > 1) read = at::constant_pad_nd(read, {0, 1});
  Tensor hidden = at::leaky_relu(along_keys(read, input(0), input(1)), kDapeSlope);
  const Tensor& start = rows.context.span.doc_start;
  if (taps_ > 1 && start.defined()) {  // a document alone has nothing before its first key
    const std::int64_t offset = rows.context.span.keys - rows.context.span.queries;
    const Tensor first = start.narrow(-1, offset + rows.begin, rows.count()).unsqueeze(-1);  // [rows,1] or [B,rows,1]
    const Tensor before = at::arange(rows.keys + 1, start.options()).lt(first);
    hidden = hidden.masked_fill(before.dim() == 3 ? before.unsqueeze(1) : before, 0.0);
  }
  const Tensor added = along_keys(hidden, input(2), input(3));
  return sum + (taps_ > 1 ? added.narrow(-1, 0, rows.keys) : added);
}

/// A base that is no table, as FIRE for long texts, has another number for each pair.
FusedKind Dape::fused_kind(const Span& span) const {
  const std::int64_t heads = shape_.query_heads;
  if (base_) {
    const Traits own = base_->traits(span);
    if (own.bias != BiasKind::kToeplitz && !own.has_table) return FusedKind::kNone;
  }
  return has_pair_network(span.device, heads, base_ ? 2 * heads : heads, taps_) ? FusedKind::kNetwork
                                                                                : FusedKind::kNone;
}

Tensor Dape::fused_rewrite(const Rows& rows) {
  const auto weights = [&](std::size_t i) {
    const Tensor& w = rows.inputs.at(i);
    return w.reshape({w.size(0), w.size(1), taps_});
  };
  return bias_of_network(rows, {.first = weights(0),
                                .first_bias = rows.inputs.at(1),
                                .second = weights(2),
                                .second_bias = rows.inputs.at(3),
                                .base = base_ ? rows.inputs.at(kDapeInputs) : Tensor(),
                                .slope = kDapeSlope});
}

void Dape::after_step() {
  if (base_) base_->after_step();
}

}  // namespace

EncodingEntry dape_entry() {
  return with_options<Dape, DapeOptions>(
      {.name = "dape",
       .summary = "Adds the output of a small network over all heads, whose inputs are the logits and a base bias.",
       .reference = "Zheng et al. 2024, arXiv:2405.14722",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "2*heads + layers*(97*heads + 32)",
       .formula = "f: linear 2H → 32, leaky relu, linear 32 → H, for each pair of tokens\n"
                  "logit = A + B + f([A; B]), A the logits, B a base bias",
       .known_for = "Corrects a static bias from the logits: flat beyond the training length in its paper, at "
                    "about three times the training time.",
       .errata = {"Two classes of the released code, for bases without a bias, declare twice their number of channels "
                  "and fail.",
                  "The last bias is the same for all keys of a row, which does not affect softmax. It is counted "
                  "and hardly trained, except with a sink."}},
      "dape", 1);
}

EncodingEntry dape_v2_entry() {
  return with_options<Dape, DapeOptions>(
      {.name = "dape_v2",
       .summary = "Adds the output of convolutions along the keys, whose inputs are the logits and a base bias of all "
                  "heads.",
       .reference = "Zheng et al. 2024, arXiv:2410.04798",
       .facts = {.learned = true, .content_dependent = true},
       .family = Family::kContent,
       .acts_on = "logits",
       .parameters = "2*heads + layers*(289*heads + 32)",
       .formula = "f: convolution 2H → 32 over three keys, leaky relu, convolution 32 → H over three keys\n"
                  "logit = A + B + f([A; B]), zeros for keys in the future",
       .known_for = "As dape, but each pair of query and key also sees the logits of neighbouring keys.",
       .errata = {"In the released code, padding makes the last row of a text differ from the same row in a longer "
                  "text. Here a column of zeros follows the last key.",
                  "The last bias is the same for all keys of a row, which does not affect softmax. It is counted "
                  "and hardly trained, except with a sink."}},
      "dape_v2", 3);
}

}  // namespace pe::encodings

#include "encodings/attention/positional_encoding.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "encodings/attention/attention_window.h"
#include "encodings/attention/products.h"
#include "encodings/attention/toeplitz.h"
#include "encodings/attention/token_reader.h"
#include "kernels/dispatch.h"
#include "kernels/vector_math.h"
#include "support/hash.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::encodings {

namespace {

[[maybe_unused]] const bool vector_math_is_resolved = kernels::resolve_vector_math();  // before any thread exists

}  // namespace

using support::cat;

RangeError::RangeError(std::string message, std::string hint)
    : Error(support::kExitConfig, support::Diagnostic{.message = std::move(message), .hint = std::move(hint)}) {}

ShapeError::ShapeError(std::string message)
    : Error(support::kExitBug, support::Diagnostic{.message = std::move(message)}) {}

Json Facts::to_json() const {
  static const char* const kInvariance[] = {"never", "until_effective_length", "always"};
  Json json = {{"shift_invariant", kInvariance[static_cast<int>(shift_invariant)]},
               {"rotates", rotates},
               {"learned", learned},
               {"length_dependent", length_dependent},
               {"content_dependent", content_dependent},
               {"stochastic", stochastic}};
  if (heads_per_query != 1) json["heads_per_query"] = heads_per_query;
  if (!max_positions)
    json["max_positions"] = nullptr;
  else if (*max_positions == 0)
    json["max_positions"] = "set by the options";
  else
    json["max_positions"] = *max_positions;
  return json;
}

at::ScalarType table_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

std::uint64_t draw_key(std::uint64_t seed, const std::string& purpose, std::int64_t step, std::int64_t layer,
                       std::int64_t sample) {
  return support::make_key({seed, support::fnv1a64(purpose), static_cast<std::uint64_t>(step),
                            static_cast<std::uint64_t>(std::max<std::int64_t>(layer, 0)),
                            static_cast<std::uint64_t>(sample)});
}

Tensor default_positions(const Span& span) {
  if (span.positions.defined()) return span.positions;
  Tensor rows = at::arange(span.keys, at::TensorOptions(at::kLong).device(span.device));
  if (span.restart_positions && span.doc_start.defined()) rows = rows - span.doc_start;
  return span.first_position == 0 ? rows : rows + span.first_position;
}

Tensor Rows::distances() const {
  Tensor d = query_positions.unsqueeze(-1) - key_positions.unsqueeze(-2);
  return d.dim() == 3 ? d.unsqueeze(1) : d;
}

Tensor Rows::query_rows() const {
  const std::int64_t offset = context.span.keys - context.span.queries;
  return at::arange(offset + begin, offset + end, at::TensorOptions(at::kLong).device(q.device()));
}

Tensor PositionalEncoding::positions(int layer, const Span& span) const { return default_positions(span); }

Channels PositionalEncoding::channels(LayerContext& context, const Heads& heads) {
  throw ShapeError("an encoding claims extra channels (traits().bias) but does not define channels()");
}

Tensor PositionalEncoding::table(LayerContext& context, std::int64_t n) {
  throw ShapeError("an encoding claims a table (traits().bias) but does not define table()");
}

std::vector<Tensor> PositionalEncoding::row_inputs(LayerContext& context, const Heads& heads) {
  if (traits(context.span).bias != BiasKind::kToeplitz) return {};
  return {table(context, distances_in_reach(context))};
}

std::int64_t distances_in_reach(const LayerContext& context) {
  if (context.contiguous) return context.span.keys;
  if (context.positions.is_floating_point()) {
    throw support::ConfigError("this encoding has a number for each whole distance, and these positions are fractions");
  }
  if (context.bounds) return context.bounds->second - context.bounds->first + 1;
  return (context.positions.max() - context.positions.min()).item<std::int64_t>() + 1;
}

Tensor PositionalEncoding::bias(const Rows& rows) {
  const Tensor& t = rows.inputs.at(0);  // [H,n]
  if (rows.context.contiguous) {
    const std::int64_t offset = rows.context.span.keys - rows.context.span.queries;
    return toeplitz(t, offset + rows.begin, offset + rows.end, rows.keys).unsqueeze(0);
  }
  Tensor d = rows.distances().clamp(0, t.size(1) - 1);
  Tensor looked_up = t.index_select(1, d.flatten());
  if (d.dim() == 2) return looked_up.view({1, t.size(0), d.size(0), d.size(1)});
  return looked_up.view({t.size(0), d.size(0), d.size(2), d.size(3)}).transpose(0, 1);
}

Tensor PositionalEncoding::logits(const Rows& rows) {
  if (is_half(rows.q.scalar_type())) return products(rows.q, rows.k) * rows.scale;  // the scale is not rounded
  return products(rows.q * rows.scale, rows.k);
}

namespace {

std::uint64_t tensor_key(const Shape& shape, const std::string& name) {
  return support::make_key({shape.seed, support::fnv1a64("encoding." + name)});
}

std::string parameter_name(const std::string& kind, const std::string& short_name, int layer) {
  return layer < 0 ? cat(kind, ".", short_name) : cat(kind, ".", layer, ".", short_name);
}

Tensor drawn(at::IntArrayRef sizes, const std::function<void(double*, std::size_t)>& fill) {
  Tensor t = at::empty(sizes, at::kDouble);
  fill(t.data_ptr<double>(), static_cast<std::size_t>(t.numel()));
  return t;
}

}  // namespace

Tensor PositionalEncoding::add_parameter(const std::string& kind, const std::string& short_name, Tensor initial,
                                         bool weight_decay, int layer) {
  Tensor value = std::move(initial);
  value = value.to(at::TensorOptions(shape_.dtype).device(shape_.device)).contiguous().detach();
  value.requires_grad_(true);
  parameters_.push_back({.name = parameter_name(kind, short_name, layer),
                         .short_name = short_name,
                         .layer = layer,
                         .value = value,
                         .weight_decay = weight_decay});
  return value;
}

Tensor PositionalEncoding::add_normal(const std::string& kind, const std::string& short_name, at::IntArrayRef sizes,
                                      double mean, double std, bool weight_decay, int layer) {
  const std::uint64_t key = tensor_key(shape_, parameter_name(kind, short_name, layer));
  Tensor initial = drawn(sizes, [&](double* out, std::size_t n) { support::philox_normal(key, out, n); });
  return add_parameter(kind, short_name, initial * std + mean, weight_decay, layer);
}

Tensor PositionalEncoding::add_uniform(const std::string& kind, const std::string& short_name, at::IntArrayRef sizes,
                                       double low, double high, bool weight_decay, int layer) {
  const std::uint64_t key = tensor_key(shape_, parameter_name(kind, short_name, layer));
  Tensor initial = drawn(sizes, [&](double* out, std::size_t n) { support::philox_uniform(key, out, n); });
  return add_parameter(kind, short_name, initial * (high - low) + low, weight_decay, layer);
}

Tensor PositionalEncoding::add_constant(const std::string& kind, const std::string& short_name, at::IntArrayRef sizes,
                                        double value, bool weight_decay, int layer) {
  return add_parameter(kind, short_name, at::full(sizes, value, at::kDouble), weight_decay, layer);
}

State begin_pass(PositionalEncoding& encoding, const Span& span) {
  if (span.queries < 1 || span.keys < span.queries || span.batch < 1) {
    throw ShapeError(cat("a pass of ", span.batch, " sequences, ", span.queries, " queries and ", span.keys,
                         " keys: expected at least one of each and no more queries than keys"));
  }
  if (!span.causal && encoding.needs_causal_mask()) {
    throw support::ConfigError("this encoding is defined for causal attention only, and the pass has no causal mask");
  }
  const auto is_position = [](at::ScalarType type) { return type == at::kLong || type == at::kDouble; };
  if (span.positions.defined() && (span.positions.dim() != 1 || span.positions.size(0) != span.keys ||
                                   !is_position(span.positions.scalar_type()) || span.first_position != 0)) {
    throw ShapeError(cat("positions of a pass over ", span.keys,
                         " keys: expected as many numbers, int64 or float64, and nothing to be counted from"));
  }
  State state{.span = span};
  encoding.begin(state);
  return state;
}

LayerContext layer_context(PositionalEncoding& encoding, State& state, int layer, Tensor x) {
  LayerContext context{.state = state, .span = state.span, .layer = layer, .x = std::move(x)};
  set_window(encoding, context);
  if (encoding.traits(state.span).maps_positions) {
    const ReadsTokens* reader = reader_of(encoding);
    context.contiguous = false;
    if (reader != nullptr || state.span.doc_start.defined() || !kernels::waits_for_reads(state.span.device)) {
      context.positions = reader != nullptr ? reader->positions_by(numbers_of(state), layer, state.span)
                                            : encoding.positions(layer, state.span);
      return context;
    }
    // Positions are drawn on the host: their bounds are known before they move.
    Span host = state.span;
    host.device = at::kCPU;
    const Tensor drawn = encoding.positions(layer, host);
    const Tensor numbers = drawn.to(at::kDouble).contiguous();
    const double* first = numbers.data_ptr<double>();
    const auto [low, high] = std::minmax_element(first, first + numbers.numel());
    context.bounds = {static_cast<std::int64_t>(std::floor(*low)), static_cast<std::int64_t>(std::ceil(*high))};
    context.positions = drawn.to(state.span.device);
    return context;
  }
  context.contiguous = !state.span.positions.defined();
  const std::int64_t first = state.span.first_position;
  if (context.contiguous) context.bounds = {first, first + state.span.keys - 1};
  Tensor& cached = state.tensors["positions"];
  if (!cached.defined()) cached = default_positions(state.span);
  context.positions = cached;
  return context;
}

Tensor add_to_tokens(PositionalEncoding& encoding, const Tensor& x, State& state) {
  if (!encoding.traits(state.span).adds_to_tokens) return x;
  const Shape& shape = encoding.shape();
  if (x.dim() != 3 || x.size(1) != state.span.queries || x.size(2) != shape.width) {
    throw ShapeError(cat("token embeddings: expected [B, ", state.span.queries, ", ", shape.width,
                         "] (B T d_m), found ", x.dim(), " dimensions, the last of ", x.dim() > 0 ? x.size(-1) : 0));
  }
  LayerContext context = layer_context(encoding, state, -1, x);
  return encoding.add_to_tokens(context, x);
}

}  // namespace pe::encodings

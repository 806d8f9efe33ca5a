#include "fixture.h"

#include <torch/csrc/autograd/autograd.h>

#include <boost/test/unit_test.hpp>
#include <ostream>

#include "encodings/attention/token_reader.h"
#include "support/hash.h"
#include "support/random.h"

namespace pe::test {

using encodings::Shape;
using encodings::Span;

Tensor normals(const std::string& name, at::IntArrayRef sizes) {
  Tensor t = at::empty(sizes, at::kDouble);
  support::philox_normal(support::make_key({7, support::fnv1a64(name)}), t.mutable_data_ptr<double>(),
                         static_cast<std::size_t>(t.numel()));
  return t;
}

Tensor numbers(std::vector<double> values, at::IntArrayRef sizes) {
  return at::tensor(values, at::TensorOptions(at::kDouble)).view(sizes).clone();
}

double largest_difference(const Tensor& a, const Tensor& b) {
  if (a.sizes() != b.sizes()) return std::numeric_limits<double>::infinity();
  const Tensor difference = (a.detach().to(at::kDouble) - b.detach().to(at::kDouble)).abs();
  // max() of a tensor with NaN is NaN, and comparisons with it must fail.
  const double largest = difference.numel() == 0 ? 0 : difference.max().item<double>();
  return std::isnan(largest) ? std::numeric_limits<double>::infinity() : largest;
}

double relative_difference(const Tensor& a, const Tensor& b) {
  const Tensor x = a.detach().to(at::kCPU, at::kDouble), y = b.detach().to(at::kCPU, at::kDouble);
  return value((x - y).norm() / (y.norm() + 1e-3));
}

double value(const Tensor& scalar) { return scalar.item<double>(); }
double* element(const Tensor& flat, std::int64_t index) { return flat.mutable_data_ptr<double>() + index; }
bool all_finite(const Tensor& t) { return t.isfinite().all().item<bool>(); }
bool all_equal(const Tensor& t) { return t.eq(t.flatten()[0]).all().item<bool>(); }

Shape small_shape(std::int64_t heads, std::int64_t groups) {
  return {.width = 8, .layers = 2, .query_heads = heads, .key_value_heads = groups, .head_width = 4,
          .train_length = 16, .seed = 5, .dtype = at::kDouble};
}

Shape wide_shape() {
  Shape shape = small_shape();
  shape.width = 32;
  return shape;
}

void stir(encodings::PositionalEncoding& encoding) {
  at::NoGradGuard no_grad;
  for (const encodings::Parameter& parameter : encoding.parameters()) {
    Tensor value = parameter.value;
    value.add_(normals("stir " + parameter.name, value.sizes()).to(value.options().requires_grad(false)), 0.2);
  }
}

Toy::Toy(const Shape& shape, std::int64_t batch, std::int64_t length, at::ScalarType dtype) : shape(shape) {
  const std::int64_t h = shape.query_heads, g = shape.key_value_heads, d = shape.head_width, m = shape.width;
  x = normals("x", {batch, length, m}).to(dtype);
  q = normals("q", {batch, h, length, d}).to(dtype);
  k = normals("k", {batch, g, length, d}).to(dtype);
  v = normals("v", {batch, g, length, d}).to(dtype);
  wq = (normals("wq", {m, h * d}) * 0.3).to(dtype);
  wk = (normals("wk", {m, g * d}) * 0.3).to(dtype);
  wv = (normals("wv", {m, g * d}) * 0.3).to(dtype);
}

Toy Toy::part(std::int64_t begin, std::int64_t count) const {
  Toy some = *this;
  some.x = x.narrow(1, begin, count);
  some.q = q.narrow(2, begin, count);
  some.k = k.narrow(2, begin, count);
  some.v = v.narrow(2, begin, count);
  return some;
}

Toy Toy::to(at::ScalarType dtype) const {
  Toy other = *this;
  for (Tensor Toy::*member : {&Toy::x, &Toy::q, &Toy::k, &Toy::v, &Toy::wq, &Toy::wk, &Toy::wv}) {
    other.*member = (this->*member).detach().to(dtype);
  }
  return other;
}

Toy Toy::on(at::Device device) const {
  Toy other = *this;
  for (Tensor Toy::*member : {&Toy::x, &Toy::q, &Toy::k, &Toy::v, &Toy::wq, &Toy::wk, &Toy::wv}) {
    other.*member = (this->*member).detach().to(device);
  }
  other.shape.device = device;
  return other;
}

void Toy::require_gradients() {
  for (Tensor* t : {&x, &q, &k, &v}) *t = t->detach().clone().requires_grad_(true);
}

void say_numbers(encodings::PositionalEncoding& encoding, const Tensor& x, encodings::State& state) {
  if (encodings::reader_of(encoding) == nullptr) return;
  const Span& span = state.span;
  const std::int64_t first =
      span.positions.defined() ? span.positions[0].to(at::kLong).item<std::int64_t>() : span.first_position;
  const Tensor one = x.select(-1, 0).gt(0).to(at::kLong), other = x.select(-1, 1).gt(0).to(at::kLong);
  encodings::give_numbers(state, at::stack({1 + one + 2 * other, other}, -1) + first);
}

void read_by_ids(encodings::PositionalEncoding& encoding) {
  encodings::ReadsTokens* reader = encodings::reader_of(encoding);
  if (reader == nullptr) return;
  reader->read_with([](std::span<const std::int64_t> ids) {
    std::vector<std::int64_t> numbers;
    for (const std::int64_t id : ids) {
      numbers.push_back(1 + id % 3);
      numbers.push_back(id % 2);
    }
    return numbers;
  });
}

Tensor Toy::run(encodings::PositionalEncoding& encoding, const Span& span,
                const encodings::AttendOptions& options) const {
  encodings::State state = encodings::begin_pass(encoding, span);
  say_numbers(encoding, x, state);
  const std::int64_t batch = x.size(0), keys = x.size(1), queries = span.queries;
  // The embedding sees the queries' rows; here all rows pass through it, as they did when they were queries.
  Span whole = span;
  whole.queries = keys;
  encodings::State embedding = encodings::begin_pass(encoding, whole);
  say_numbers(encoding, x, embedding);
  const Tensor h = encodings::add_to_tokens(encoding, x, embedding);
  const auto heads = [&](const Tensor& w, std::int64_t count, const Tensor& added) {
    return at::matmul(h, w).view({batch, keys, count, shape.head_width}).transpose(1, 2) + added;
  };
  const std::int64_t projected = encoding.projected_heads();
  const Tensor all_q = heads(wq.narrow(1, 0, projected * shape.head_width), projected, q.narrow(1, 0, projected)), all_k = heads(wk, shape.key_value_heads, k),
               all_v = heads(wv, shape.key_value_heads, v);
  const encodings::Heads all{.q = all_q.narrow(2, keys - queries, queries), .k = all_k, .v = all_v,
                             .scale = 1 / std::sqrt(static_cast<double>(shape.head_width))};
  if (encoding.traits(span).extra_values) {
    encodings::LayerContext before = encodings::layer_context(encoding, state, 0, h);
    encodings::attend(encoding, before, all, options);
    encoding.after_feed_forward(before, h.narrow(1, keys - queries, queries) * 0.5);
  }
  encodings::LayerContext context = encodings::layer_context(encoding, state, 1, h);
  return encodings::attend(encoding, context, all, options);
}

std::ostream& operator<<(std::ostream& out, const Subject& subject) { return out << subject.name; }

std::vector<Subject> subjects() {
  std::vector<Subject> all;
  for (const encodings::EncodingEntry& entry : encodings::encodings()) {
    Json config = entry.name;
    // Sixteen bits do not fit eight channels.
    if (support::find_field(entry.fields, "pe_max_positions") != nullptr) {
      config = {{"kind", entry.name}, {"pe_max_positions", 256}};
    }
    all.push_back({entry.name, config});
  }
  const char* const more[] = {
      "{'kind': 'rope', 'layout': 'interleaved'}",
      "{'kind': 'yarn', 'factor': 4}",
      "{'kind': 'yarn', 'factor': 4, 'ramp': 'rotations'}",
      "{'kind': 'yarn', 'dynamic': true}",
      "{'kind': 'yarn', 'factor': 4, 'over': {'kind': 'partial', 'fraction': 0.5}}",
      "{'kind': 'ntk', 'factor': 4, 'over': {'kind': 'p_rope', 'fraction': 0.5}}",
      "{'kind': 'pi', 'factor': 4, 'over': 'hope'}",
      "{'kind': 'pi', 'dynamic': true}",
      "{'kind': 'yarn', 'factor': 4, 'over': {'kind': 'xpos', 'scale_base': 16}}",
      "{'kind': 'longrope', 'factor': 4, 'over': 'multiscale_rope'}",
      "{'kind': 'ntk', 'factor': 4, 'over': 'pope'}",
      "{'kind': 'yarn', 'factor': 4, 'over': {'kind': 'lrope', 'per_head': true}}",
      "{'kind': 'resonance', 'over': 'multiscale_rope'}",
      "{'kind': 'lrope', 'form': 'direct'}",
      "{'kind': 'lrope', 'form': 'log', 'per_head': true}",
      "{'kind': 'lrope', 'form': 'log_shared', 'layout': 'interleaved'}",
      "{'kind': 'pope', 'delta_init': 'uniform', 'scale_dim': '2d'}",
      "{'kind': 'pope', 'fraction': 0.5}",
      "{'kind': 'fope', 'pad_sin': 1, 'fourier_dim': 16}",
      "{'kind': 'fope', 'learnable': true, 'base': 20}",
      "{'kind': 'inope', 'interval': 2}",
      "{'kind': 'inope', 'interval': 2, 'temperature': true, 'floor_scale': 3}",
      "{'kind': 'cope_clip', 'mode': 'hard', 'fraction': 0.5}",
      "{'kind': 'clex', 'train_length': 2, 'act': 'silu', 'dt': 0.1, 'layout': 'interleaved'}",
      "{'stack': ['clex', 't5', 'ssmax']}",
      "{'kind': 'dyn_ntk', 'factor': 2}",
      "{'kind': 'llama3', 'low_freq_factor': 0.1, 'high_freq_factor': 2}",
      "{'kind': 'longrope', 'factor': 4}",
      "{'kind': 'longrope', 'factor': 4, 'protected': 3, 'train_length': 4}",
      "{'kind': 'longrope2', 'factor': 4, 'train_length': 4}",
      "{'kind': 'yarn_resonance', 'factor': 4}",
      "{'kind': 'longrope_resonance', 'factor': 4, 'train_length': 4}",
      "{'kind': 'sinonly', 'mode': 'dup'}",
      "{'kind': 'sinonly', 'mode': 'zeros', 'pe_scale': 'matched'}",
      "{'kind': 'binary_norm', 'fill': 'tile', 'pe_max_positions': 64}",
      "{'kind': 'decimal', 'fill': 'project'}",
      "{'kind': 'sininit', 'overflow': 'untrained'}",
      "{'kind': 'learned', 'overflow': 'interpolate'}",
      "{'kind': 'learned', 'overflow': 'untrained', 'pe_scale': 'learned'}",
      "{'kind': 'sinusoidal', 'pe_scale': 'matched'}",
      "{'kind': 'fire', 'initial_length': 3}",
      "{'kind': 'cope', 'positions': 3, 'cope_div': true}",
      "{'kind': 'ssmax', 'offset': true}",
      "{'kind': 'kerple_log', 'shared': false}",
      "{'kind': 'bam', 'location': true}",
      "{'kind': 'bam_ssmax', 'scale_prior': false}",
      "{'kind': 'fire_per_head', 'initial_length': 3}",
      "{'kind': 'logn', 'form': 'clipped', 'train_length': 4}",
      "{'kind': 'uniform_scale', 'scale': 1.5, 'learned': true}",
      "{'kind': 'llama4_temp', 'floor_scale': 4}",
      "{'kind': 'asentmax_scale', 'form': 'reported'}",
      "{'kind': 'sink_kv', 'value': 'learned'}",
      "{'kind': 'sink_bos', 'window': 3}",
      "{'stack': ['alibi', {'kind': 'sink_bos', 'window': 2, 'keep': 2}]}",
      "{'kind': 'fox', 'gate': 'bias_only'}",
      "{'kind': 'fox', 'gate': 'fixed'}",
      "{'kind': 'grape_a', 'form': 'k'}",
      "{'kind': 'grape_a', 'form': 'q'}",
      "{'kind': 'stickbreaking', 'attend_current': true}",
      "{'kind': 'stickbreaking', 'remainder': false}",
      "{'kind': 'path_fox', 'path_fox_scale_gate': true}",
      "{'kind': 'repo', 'start': 1, 'layout': 'interleaved'}",
      "{'kind': 'dape', 'bias': 'fire'}",
      "{'kind': 'dape', 'bias': 'none'}",
      "{'kind': 'dape_v2', 'bias': 'alibi'}",
      "{'kind': 'dape_v2', 'bias': 'none'}",
      "{'kind': 'cope_guide', 'positions': 4}",
      "{'stack': ['rope', 'cope_guide']}",
      "{'stack': ['rope', 'fox', 'ssmax']}",
      "{'stack': ['alibi', 'sink_logit']}",
      "{'stack': ['fox', 'sink_off_by_one', 'head_scale']}",
      "{'stack': ['kerple_log', 'sink_logit']}",
      "{'stack': ['path', 'alibi', 'stickbreaking']}",
      "{'stack': ['rope', 'grape_a']}",
      "{'stack': ['rope', 'dape_v2', 'logn']}",
      "{'stack': ['nape', 'asentmax_scale']}",
      "{'stack': ['rope', 'selective', 'sink_kv']}",
      "{'stack': [{'kind': 'randomised', 'per_sample': true, 'max_random_position': 128}, 'grape_ap', 'dape']}",
      "{'stack': [{'kind': 'randomised', 'max_random_position': 128}, 'bam_ssmax', 'fox']}",
      "{'stack': ['ssmax', 'rope']}",
      "{'stack': ['rope', 'alibi']}",
      "{'stack': ['pope', 'alibi', 'ssmax']}",
      "{'stack': ['xpos', 'cope', 'ssmax']}",
      "{'stack': ['multiscale_rope', 't5']}",
      "{'stack': [{'kind': 'randomised', 'per_sample': true, 'max_random_position': 128}, 'multiscale_rope']}",
      "{'stack': [{'kind': 'randomised', 'per_sample': true, 'max_random_position': 128}, 'pope']}",
      "{'stack': [{'kind': 'randomised', 'max_random_position': 128}, {'kind': 'lrope', 'per_head': true}]}",
      "{'stack': [{'kind': 'randomised', 'per_sample': true, 'max_random_position': 128}, 'xpos', {'kind': "
      "'binary_norm', 'pe_max_positions': 128}]}",
      "{'stack': ['rope', 'cope']}",
      "{'stack': ['rope', {'kind': 'cope', 'gates': 'raw', 'z': 'rot'}]}",
      "{'stack': ['alibi', 'ssmax', 'cope']}",
      "{'stack': ['alibi', {'kind': 'alibi', 'slopes': [0.3, 0.2]}]}",
      "{'stack': ['t5', 'fire', 'sinusoidal']}",
      "{'stack': ['alibi', 't5', 'yarn']}",
      "{'stack': [{'kind': 'randomised', 'max_random_position': 128}, 'rope']}",
      "{'stack': [{'kind': 'randomised', 'per_sample': true, 'max_random_position': 128}, 'alibi', 't5']}",
      "{'stack': [{'kind': 'randomised', 'scope': 'model', 'max_random_position': 128}, 'fire', 'cope']}",
      "{'stack': [{'kind': 'randomised', 'max_random_position': 128}, {'kind': 'learned', 'max_positions': 128}]}",
      "{'stack': ['abacus', 'rope']}",
      "{'kind': 'bipe', 'inter': 'alibi'}",
      "{'stack': ['coupled', {'kind': 'learned', 'max_positions': 513}]}",
      "{'kind': 'rove', 'fraction': 0.5, 'layout': 'interleaved'}",
      "{'kind': 'rove', 'keys': false}",
      "{'kind': 'rove', 'undo': false}",
      "{'stack': ['rove', 'alibi', 'sink_logit']}",
      "{'kind': 'rope_id', 'turns': 1, 'fraction': 1}",
      "{'kind': 'rope_id', 'layout': 'interleaved', 'train_length': 32}",
      "{'kind': 'carope', 'layout': 'interleaved'}",
      "{'kind': 'selective_rope', 'rank': 3, 'bias': true, 'gate': true, 'values': true}",
      "{'kind': 'selective_rope', 'increments': 'plain', 'layout': 'interleaved'}",
      "{'kind': 'selective_rope', 'increments': 'own', 'values': true}",
      "{'kind': 'selective_rope', 'increments': 'random', 'gate': true}",
      "{'kind': 'entmax', 'alpha': 2}",
      "{'kind': 'entmax', 'alpha': 1.25}",
      "{'stack': ['nape', 'asentmax_scale', 'entmax']}",
      "{'stack': ['rope', 't5', 'entmax']}",
      "{'kind': 'transformer_xl', 'clamp_length': 3, 'untie': true}",
      "{'stack': ['rope', 'transformer_xl', 'ssmax']}",
      "{'stack': ['alibi', 'tapa']}",
      "{'kind': 'distance_map', 'rule': 'leaky_rerope'}",
      "{'kind': 'distance_map', 'rule': 'leaky_rerope', 'factor': 3, 'over': {'kind': 'partial', 'fraction': 0.5}}",
      "{'kind': 'distance_map', 'rule': 'self_extend'}",
      "{'kind': 'distance_map', 'rule': 'self_extend', 'group': 2, 'window': 3}",
      "{'kind': 'distance_map', 'rule': 'dca', 'chunk': 3, 'layout': 'interleaved'}",
      "{'kind': 'distance_map', 'rule': 'lm_infinite', 'window': 3, 'sinks': 2}",
      "{'kind': 'distance_map', 'logn': true}",
      "{'stack': [{'kind': 'pose', 'target': 100}, 'rope']}",
      "{'stack': [{'kind': 'cream', 'target': 100}, 'fire']}",
      "{'stack': [{'kind': 'rfs', 'per_sample': true}, 'rope', 'alibi']}",
      "{'stack': ['rfs', 'cope', 'grape_ap']}",
      "{'kind': 'shaw', 'max_distance': 3}",
      "{'kind': 'shaw', 'max_distance': 4, 'per_head': true, 'values': false}",
      "{'stack': ['rope', {'kind': 'shaw', 'max_distance': 2, 'per_head': true}, 'entmax']}",
      "{'kind': 'inkling', 'extent': 3, 'profiles': 2}",
      "{'kind': 'inkling', 'extent': 64, 'profiles': 3, 'floor_scale': 3, 'alpha': 0.5}",
      "{'stack': ['rope', {'kind': 'inkling', 'floor_scale': 2}, 'sink_logit']}",
      "{'stack': [{'kind': 'inkling', 'extent': 5, 'floor_scale': 2}, {'kind': 'local_global', 'interval': 2, 'size': "
      "4}, "
      "{'kind': 'uniform_scale', 'scale': 0.5}]}",
      "{'stack': [{'kind': 'randomised', 'per_sample': true, 'max_random_position': 128}, {'kind': 'inkling', "
      "'extent': 20}]}",
      "{'kind': 'window', 'size': 3}",
      "{'stack': ['rope', {'kind': 'window', 'size': 4}]}",
      "{'stack': ['t5', 'ssmax', {'kind': 'window', 'size': 9}]}",
      "{'stack': ['fire', 'sink_logit', {'kind': 'window', 'size': 3}]}",
      "{'stack': ['cope', {'kind': 'window', 'size': 5}]}",
      "{'stack': ['selective', {'kind': 'window', 'size': 4}]}",
      "{'kind': 'local_global', 'interval': 2, 'size': 3, 'phase': 0}",
      "{'kind': 'local_global', 'interval': 2, 'scale': 'logn', 'train_length': 4}",
  };
  for (std::string text : more) {
    std::string name = text;
    name.erase(std::remove(name.begin(), name.end(), '\''), name.end());
    std::replace(text.begin(), text.end(), '\'', '"');
    all.push_back({name, Json::parse(text)});
  }
  return all;
}

bool exempt(const Subject& subject, const std::string& property) {
  struct Exemption {
    const char *property, *encoding, *reason;
  };
  static const Exemption kExemptions[] = {
      {"training", "distance_map", "evaluates a model that was trained with another encoding, and refuses to train"},
      {"row by row", "selective", "sums what earlier queries selected, and refuses a pass without these"},
      {"row by row", "tape", "updates a state of all tokens in every layer, and refuses a pass without these"},
      {"shared keys", "fope", "mixes frequencies anew for each head, and refuses shared keys"},
      {"shared keys", "repo", "gives each head positions of its own, and refuses shared keys"},
      {"moved rows", "tape", "the second layer reads what the first mixed in from the rows before"},
  };
  const Json members = subject.config.is_object() && subject.config.contains("stack") ? subject.config["stack"]
                                                                                      : Json::array({subject.config});
  for (const Exemption& exemption : kExemptions) {
    if (property != exemption.property) continue;
    for (const Json& member : members) {
      if ((member.is_string() ? member : member["kind"]) != exemption.encoding) continue;
      BOOST_TEST_MESSAGE(subject.name << " is exempt from '" << property << "': " << exemption.reason);
      return true;
    }
  }
  return false;
}

Evaluated evaluate(encodings::PositionalEncoding& encoding, const Toy& toy, const Span& span,
                   const encodings::AttendOptions& options) {
  Toy leaves = toy;
  leaves.require_gradients();
  const Tensor out = leaves.run(encoding, span, options);
  std::vector<Tensor> wanted = leaves.inputs();
  for (const encodings::Parameter& parameter : encoding.parameters()) wanted.push_back(parameter.value);
  // Numbers that bfloat16 holds, so that all types are asked for the same gradient.
  const Tensor direction = normals("direction", out.sizes()).to(at::kBFloat16).to(out.options().requires_grad(false));
  std::vector<Tensor> gradients = torch::autograd::grad({(out * direction).sum()}, wanted, {}, std::nullopt, false,
                                                        /*allow_unused=*/true);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (!gradients[i].defined()) gradients[i] = at::zeros_like(wanted[i]);
  }
  return {out.detach(), gradients};
}

}  // namespace pe::test

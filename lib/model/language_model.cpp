#include "model/language_model.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/max.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>

#include "encodings/attend.h"
#include "encodings/positional_encoding.h"
#include "encodings/registry.h"
#include "model/functions.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::model {
namespace {

using support::cat;
using support::ConfigError;

constexpr std::int64_t kAlignment = 16;   // floats: 64 bytes, so that matrix products see the same alignment in every run

/// std · normals of Philox keyed by (seed, name), in float64 before rounding.
void fill_normal(const Tensor& to, std::uint64_t seed, const std::string& name, double std) {
  const std::uint64_t key = support::make_key({seed, support::fnv1a64(name)});
  const std::int64_t count = to.numel();
  at::parallel_for(0, (count + 4095) / 4096, 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> block(4096);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * 4096, size = std::min<std::int64_t>(4096, count - first);
      support::philox_normal(key, block.data(), static_cast<std::size_t>(size), static_cast<std::size_t>(first));
      if (to.scalar_type() == at::kDouble) {
        for (std::int64_t j = 0; j < size; ++j) to.data_ptr<double>()[first + j] = std * block[static_cast<std::size_t>(j)];
      } else {
        for (std::int64_t j = 0; j < size; ++j) {
          to.data_ptr<float>()[first + j] = static_cast<float>(std * block[static_cast<std::size_t>(j)]);
        }
      }
    }
  });
}

/// 0 with probability p, else 1 / (1 − p); keyed by step, place and sample, so that neither micro-batches nor a resumed
/// run change it. Drawn on the host.
Tensor dropout_mask(const Tensor& like, double p, std::uint64_t seed, std::int64_t step, std::int64_t place,
                    const std::vector<std::int64_t>& samples) {
  const std::int64_t batch = like.size(0), count = like.numel() / batch;
  const auto kept = static_cast<float>(1 / (1 - p));
  Tensor mask = at::empty(like.sizes(), at::TensorOptions(at::kFloat));
  float* to = mask.data_ptr<float>();
  at::parallel_for(0, batch, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> draws(static_cast<std::size_t>(count));
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t sample = samples.empty() ? row : samples[static_cast<std::size_t>(row)];
      support::philox_uniform(encodings::draw_key(seed, "dropout", step, place, sample), draws.data(), draws.size());
      for (std::int64_t i = 0; i < count; ++i) to[row * count + i] = draws[static_cast<std::size_t>(i)] < p ? 0.0F : kept;
    }
  });
  return mask.to(like.options());
}

/// What a parameter is made from.
struct Plan {
  std::string name;
  std::vector<std::int64_t> shape;
  bool decay = false;
  double std = 0;        ///< 0: ones
  int fused = 0;         ///< parameters with the same number above 0 follow each other without padding
};

std::vector<Plan> plan_of(const ModelConfig& config) {
  const std::int64_t d = config.width, q = config.heads * config.d_h(), kv = config.kv_heads() * config.d_h();
  const double std = config.init_std;
  const double residual = config.scale_residual_init ? std / std::sqrt(2.0 * static_cast<double>(config.layers)) : std;
  std::vector<Plan> plans{{"embedding", {config.vocabulary, d}, false, std}};
  int fused = 0;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    const std::string at = cat("layers.", layer, ".");
    plans.push_back({at + "attention.norm", {d}});
    ++fused;
    plans.push_back({at + "attention.query", {q, d}, true, std, fused});
    plans.push_back({at + "attention.key", {kv, d}, true, std, fused});
    plans.push_back({at + "attention.value", {kv, d}, true, std, fused});
    if (config.qk_norm) {
      plans.push_back({at + "attention.query_norm", {config.query_norm_width()}});
      plans.push_back({at + "attention.key_norm", {config.key_norm_width()}});
    }
    plans.push_back({at + "attention.output", {d, q}, true, residual});
    plans.push_back({at + "feed_forward.norm", {d}});
    ++fused;
    plans.push_back({at + "feed_forward.gate", {config.d_ff(), d}, true, std, fused});
    plans.push_back({at + "feed_forward.up", {config.d_ff(), d}, true, std, fused});
    plans.push_back({at + "feed_forward.down", {d, config.d_ff()}, true, residual});
  }
  plans.push_back({"norm", {d}});
  if (!config.tied) plans.push_back({"head", {config.vocabulary, d}, true, std});
  return plans;
}

std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) count *= size;
  return count;
}

}  // namespace

struct LanguageModel::State {
  struct Layer {
    Weight attention_norm, packed, query_norm, key_norm, output, feed_forward_norm, gate_up, down;
  };

  ModelConfig config;
  std::uint64_t seed = 0;
  at::Device device = at::kCPU;
  at::ScalarType compute = at::kFloat;
  std::unique_ptr<encodings::PositionalEncoding> encoding;
  std::vector<Parameter> parameters;
  std::vector<Location> locations;
  std::vector<FlatGroup> groups;
  std::vector<Tensor> shadows;       ///< low-precision copies of the groups; undefined where compute is the master's dtype
  std::int64_t encoding_count = 0;

  Weight embedding, norm, head;
  std::vector<Layer> layers;

  at::ScalarType master() const { return compute == at::kDouble ? at::kDouble : at::kFloat; }

  /// A weight over the flat buffers; several rows of matrices when `rows` spans fused parameters.
  Weight weight(const std::string& first, std::vector<std::int64_t> shape, bool low_precision) const {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].name != first) continue;
      const Location& at = locations[i];
      const std::int64_t count = product(shape);
      const Tensor& source = low_precision && shadows[at.group].defined() ? shadows[at.group] : groups[at.group].values;
      Weight result;
      result.value = source.narrow(0, at.offset, count).view(shape);
      const Tensor& gradients = groups[at.group].gradients;
      if (gradients.defined()) result.gradient = gradients.narrow(0, at.offset, count).view(shape);
      return result;
    }
    return {};
  }

  void bind_weights() {
    const std::int64_t d = config.width, q = config.heads * config.d_h(), kv = config.kv_heads() * config.d_h();
    embedding = weight("embedding", {config.vocabulary, d}, true);
    head = config.tied ? embedding : weight("head", {config.vocabulary, d}, true);
    norm = weight("norm", {d}, false);
    layers.clear();
    for (std::int64_t i = 0; i < config.layers; ++i) {
      const std::string at = cat("layers.", i, ".");
      layers.push_back({.attention_norm = weight(at + "attention.norm", {d}, false),
                        .packed = weight(at + "attention.query", {q + 2 * kv, d}, true),
                        .query_norm = weight(at + "attention.query_norm", {config.query_norm_width()}, false),
                        .key_norm = weight(at + "attention.key_norm", {config.key_norm_width()}, false),
                        .output = weight(at + "attention.output", {d, q}, true),
                        .feed_forward_norm = weight(at + "feed_forward.norm", {d}, false),
                        .gate_up = weight(at + "feed_forward.gate", {2 * config.d_ff(), d}, true),
                        .down = weight(at + "feed_forward.down", {d, config.d_ff()}, true)});
    }
  }

  void refresh_shadows() {
    for (std::size_t i = 0; i < groups.size(); ++i) {
      if (shadows[i].defined()) shadows[i].copy_(groups[i].values);
    }
  }

  void make_gradients() {
    if (groups.front().gradients.defined()) return;
    at::NoGradGuard no_gradients;
    for (FlatGroup& group : groups) group.gradients = at::zeros_like(group.values);
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      Tensor& tensor = parameters[i].tensor;
      tensor.mutable_grad() =
          groups[locations[i].group].gradients.narrow(0, locations[i].offset, tensor.numel()).view(tensor.sizes());
    }
    bind_weights();
  }
};

LanguageModel LanguageModel::make(const ModelConfig& config, std::int64_t vocabulary, std::uint64_t seed,
                                  at::Device device, at::ScalarType compute) {
  at::NoGradGuard no_gradients;
  auto state = std::make_shared<State>();
  state->config = config;
  ModelConfig& own = state->config;
  if (own.vocabulary == 0) own.vocabulary = vocabulary;
  if (own.vocabulary <= 0 || own.length <= 0) {
    throw ConfigError(cat("a model needs a vocabulary and a training length, not ", own.vocabulary, " and ", own.length));
  }
  if (vocabulary > own.vocabulary) {
    throw ConfigError(cat("model.vocabulary is ", own.vocabulary, ", but the data has ", vocabulary, " tokens"),
                      {}, "leave it at 0 to take the data's");
  }
  if (own.heads % own.kv_heads() != 0 || (own.head_width == 0 && own.width % own.heads != 0)) {
    throw ConfigError(cat("a model of width ", own.width, " with ", own.heads, " heads and ", own.kv_heads(),
                          " key/value heads does not hold together"));
  }
  state->seed = seed;
  state->device = device;
  state->compute = compute;

  encodings::Shape shape;
  shape.width = own.width;
  shape.layers = own.layers;
  shape.query_heads = own.heads;
  shape.key_value_heads = own.kv_heads();
  shape.head_width = own.d_h();
  shape.train_length = own.length;
  shape.seed = seed;
  shape.token_std = own.init_std * own.embed_scale;
  shape.dtype = state->master();
  shape.device = device;
  state->encoding = encodings::make_encoding(own.encoding.json, shape);

  // Which buffer, and where: matrices that decay in group 0, the rest in group 1. Fused ones follow each other.
  const std::vector<Plan> plans = plan_of(own);
  std::int64_t sizes[2] = {0, 0};
  int fused = 0;
  const auto place = [&](bool decay, std::int64_t count, int with) {
    const std::size_t group = decay ? 0 : 1;
    std::int64_t& size = sizes[group];
    if (with == 0 || with != fused) size = (size + kAlignment - 1) / kAlignment * kAlignment;
    fused = with;
    state->locations.push_back({group, size});
    size += count;
  };
  for (const Plan& plan : plans) place(plan.decay, product(plan.shape), plan.fused);
  for (const encodings::Parameter& parameter : state->encoding->parameters()) {
    place(parameter.weight_decay, parameter.value.numel(), 0);
    state->encoding_count += parameter.value.numel();
  }
  for (const bool decay : {true, false}) {
    const std::int64_t size = (sizes[decay ? 0 : 1] + kAlignment - 1) / kAlignment * kAlignment;
    state->groups.push_back({at::zeros({size}, at::TensorOptions(state->master()).device(device)), {}, decay});
  }
  state->shadows.resize(2);

  for (std::size_t i = 0; i < plans.size(); ++i) {
    const Plan& plan = plans[i];
    const Location& at = state->locations[i];
    Tensor view = state->groups[at.group].values.narrow(0, at.offset, product(plan.shape)).view(plan.shape).detach();
    if (plan.std == 0) {
      view.fill_(1);
    } else {
      Tensor host = at::empty(plan.shape, at::TensorOptions(state->master()));
      fill_normal(host, seed, plan.name, plan.std);
      view.copy_(host);
    }
    view.set_requires_grad(true);
    state->parameters.push_back({plan.name, view, plan.decay});
  }
  for (std::size_t i = 0; i < state->encoding->parameters().size(); ++i) {
    const encodings::Parameter& parameter = state->encoding->parameters()[i];
    const Location& at = state->locations[plans.size() + i];
    Tensor value = parameter.value;   // a handle that the encoding shares
    const Tensor view = state->groups[at.group].values.narrow(0, at.offset, value.numel()).view(value.sizes()).detach();
    view.copy_(value);
    value.set_data(view);
    state->parameters.push_back({"encoding." + parameter.name, value, parameter.weight_decay});
  }
  if (compute != state->master()) {
    for (std::size_t i = 0; i < 2; ++i) state->shadows[i] = state->groups[i].values.to(compute);
  }
  state->bind_weights();
  return LanguageModel(std::move(state));
}

Tensor LanguageModel::forward(const Tensor& ids, const ForwardOptions& options) const {
  State& s = *state_;
  if (at::GradMode::is_enabled()) s.make_gradients();
  const std::int64_t batch = ids.size(0), length = ids.size(1);

  encodings::Span span = encodings::Span::whole(batch, length);
  span.first_position = options.position;
  span.training = options.training;
  span.step = options.step;
  span.samples = options.samples;
  if (span.samples.empty() && options.first_sample != 0) {
    for (std::int64_t row = 0; row < batch; ++row) span.samples.push_back(options.first_sample + row);
  }
  span.pe_len = options.pe_len == 0 ? length : options.pe_len;
  span.doc_start = options.doc_start;
  span.restart_positions = options.restart_positions;
  span.device = s.device;
  encodings::PositionalEncoding& encoding = *s.encoding;
  encodings::State pass = encodings::begin_pass(encoding, span);

  Tensor x = embed(ids, s.parameters.front().tensor, s.embedding, s.config.embed_scale);
  x = encodings::add_to_tokens(encoding, x, pass);
  const bool drops = options.training && s.config.dropout > 0;
  std::int64_t place = 0;
  const auto dropped = [&](const Tensor& y) {
    return y * dropout_mask(y, s.config.dropout, s.seed, options.step, place++, span.samples);
  };
  if (drops) x = dropped(x);
  const AttentionShape shape{s.config.heads, s.config.kv_heads(), s.config.d_h(), s.config.norm_eps};
  const double scale = 1.0 / std::sqrt(static_cast<double>(s.config.d_h()));
  for (std::size_t i = 0; i < s.layers.size(); ++i) {
    const State::Layer& layer = s.layers[i];
    // A gradient by a layer's input has been through everything in the layer.
    if (options.left_layer && x.requires_grad()) {
      x.register_hook([done = options.left_layer, i](const Tensor&) { done(static_cast<std::int64_t>(i)); });
    }
    Projected in = norm_project(x, layer.attention_norm, layer.packed, layer.query_norm, layer.key_norm, shape);
    encodings::LayerContext context = encodings::layer_context(encoding, pass, static_cast<int>(i), in.normed);
    encodings::Heads heads;
    heads.q = std::move(in.q);
    heads.k = std::move(in.k);
    heads.v = std::move(in.v);
    heads.scale = scale;
    encodings::Trace trace;
    encodings::AttendOptions route;
    if (options.largest_logit != nullptr) route.trace = &trace;
    const Tensor mixed = encodings::attend(encoding, context, std::move(heads), route);
    if (options.largest_logit != nullptr) {
      const double largest = trace.logits.max().item<double>();
      *options.largest_logit = i == 0 ? largest : std::max(*options.largest_logit, largest);
    }
    x = drops ? x + dropped(project_residual(at::zeros_like(x), mixed, layer.output))
              : project_residual(x, mixed, layer.output);
    FeedForwardResult out = feed_forward(x, layer.feed_forward_norm, layer.gate_up, layer.down, s.config.norm_eps);
    encoding.after_feed_forward(context, out.y);
    x = drops ? x + dropped(out.y) : std::move(out.sum);
  }
  return rms_norm(x, s.norm, s.config.norm_eps);
}

Tensor LanguageModel::logits(const Tensor& hidden) const {
  const Tensor rows = hidden.reshape({-1, hidden.size(-1)});
  std::vector<std::int64_t> shape = hidden.sizes().vec();
  shape.back() = state_->config.vocabulary;
  const Tensor logits = at::mm(rows, state_->head.value.t()).to(state_->master()).view(shape);
  if (state_->config.logit_softcap > 0) cap_logits(logits, state_->config.logit_softcap);
  return logits;
}

Tensor LanguageModel::loss_sum(const Tensor& hidden, const Tensor& targets, double z_loss) const {
  return linear_cross_entropy(hidden, targets, state_->head, {state_->config.logit_softcap, z_loss});
}

Tensor LanguageModel::losses(const Tensor& hidden, const Tensor& targets) const {
  at::NoGradGuard no_gradients;
  return row_losses(hidden.reshape({-1, hidden.size(-1)}), targets.reshape({-1}), state_->head.value,
                    {state_->config.logit_softcap, 0});
}

const ModelConfig& LanguageModel::config() const { return state_->config; }
const std::vector<Parameter>& LanguageModel::parameters() const { return state_->parameters; }
std::int64_t LanguageModel::parameter_count() const {
  return model::parameter_count(state_->config) + state_->encoding_count;
}
std::int64_t LanguageModel::encoding_parameter_count() const { return state_->encoding_count; }
std::uint64_t LanguageModel::seed() const { return state_->seed; }
at::Device LanguageModel::device() const { return state_->device; }
at::ScalarType LanguageModel::compute_dtype() const { return state_->compute; }
encodings::PositionalEncoding& LanguageModel::encoding() const { return *state_->encoding; }
const std::vector<FlatGroup>& LanguageModel::groups() const { return state_->groups; }
const std::vector<LanguageModel::Location>& LanguageModel::locations() const { return state_->locations; }

void LanguageModel::zero_gradients() const {
  at::NoGradGuard no_gradients;
  state_->make_gradients();
  for (const FlatGroup& group : state_->groups) group.gradients.zero_();
}

void LanguageModel::after_step() const {
  at::NoGradGuard no_gradients;
  state_->encoding->after_step();
  state_->refresh_shadows();
}

}  // namespace pe::model

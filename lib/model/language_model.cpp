#include "model/language_model.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>
#include <c10/util/accumulate.h>

#include <algorithm>

#include "encodings/attention/positional_encoding.h"
#include "encodings/attention/token_reader.h"
#include "encodings/registry.h"
#include "kernels/ops.h"
#include "kernels/product.h"
#include "model/block.h"
#include "model/flat_zeros.h"
#include "model/functions.h"
#include "model/layout.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::model {
namespace {

using support::cat;
using support::ConfigError;

constexpr std::int64_t kAlignment =
    16;  // floats: 64 bytes, so that matrix products see the same alignment in every run

/// Draws of Philox keyed by (seed, name), in float64 before rounding. `draw` fills a block of elements from `first` on.
template <typename Draw>
void fill_drawn(const Tensor& to, std::uint64_t seed, const std::string& name, const Draw& draw) {
  const std::uint64_t key = support::make_key({seed, support::fnv1a64(name)});
  const std::int64_t count = to.numel();
  at::parallel_for(0, (count + 4095) / 4096, 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> block(4096);
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t first = i * 4096, size = std::min<std::int64_t>(4096, count - first);
      draw(key, block.data(), static_cast<std::size_t>(size), static_cast<std::size_t>(first));
      if (to.scalar_type() == at::kDouble) {
        std::copy_n(block.data(), size, to.data_ptr<double>() + first);
      } else {
        std::transform(block.begin(), block.begin() + size, to.data_ptr<float>() + first,
                       [](double value) { return static_cast<float>(value); });
      }
    }
  });
}

/// 0 with probability p, else 1 / (1 − p); keyed by step, place and sample, so that neither micro-batches nor a resumed
/// run change it. A GPU draws the same bits as the host.
Tensor dropout_mask(const Tensor& like, double p, std::uint64_t seed, std::int64_t step, std::int64_t place,
                    const std::vector<std::int64_t>& samples) {
  const std::int64_t batch = like.size(0), count = like.numel() / batch;
  const auto key_of = [&](std::int64_t row) {
    return encodings::draw_key(seed, "dropout", step, place,
                               samples.empty() ? row : samples[static_cast<std::size_t>(row)]);
  };
  if (const auto on_device = kernels::operations_for(like).dropout_mask) {
    std::vector<std::uint64_t> keys;
    for (std::int64_t row = 0; row < batch; ++row) keys.push_back(key_of(row));
    return on_device(like, p, keys);
  }
  const auto kept = static_cast<float>(1 / (1 - p));
  Tensor mask = at::empty(like.sizes(), at::TensorOptions(at::kFloat));
  float* to = mask.data_ptr<float>();
  at::parallel_for(0, batch, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> draws(static_cast<std::size_t>(count));
    for (std::int64_t row = begin; row < end; ++row) {
      support::philox_uniform(key_of(row), draws.data(), draws.size());
      for (std::int64_t i = 0; i < count; ++i)
        to[row * count + i] = draws[static_cast<std::size_t>(i)] < p ? 0.0F : kept;
    }
  });
  return mask.to(like.options());
}

/// Initial values by the plan of a parameter; in float64 before rounding.
void start(const Tensor& view, const PlannedParameter& plan, std::uint64_t seed, at::ScalarType master) {
  using Start = PlannedParameter::Start;
  if (plan.start == Start::kOnes || plan.start == Start::kZeros) {
    view.fill_(plan.start == Start::kOnes ? 1 : 0);
    return;
  }
  Tensor host = at::empty(plan.shape, at::TensorOptions(master));
  fill_drawn(host, seed, plan.name, [&](std::uint64_t key, double* block, std::size_t size, std::size_t first) {
    if (plan.start == Start::kNormal) {
      support::philox_normal(key, block, size, first);
      for (std::size_t i = 0; i < size; ++i) block[i] *= plan.scale;
    } else {
      support::philox_uniform(key, block, size, first);
      for (std::size_t i = 0; i < size; ++i) block[i] = (2 * block[i] - 1) * plan.scale;
    }
  });
  view.copy_(host);
}

/// Takes the vocabulary of the data where the config names none. @throws ConfigError
void complete_sizes(ModelConfig& own, std::int64_t vocabulary) {
  if (own.vocabulary == 0) own.vocabulary = vocabulary;
  if (own.vocabulary <= 0 || own.length <= 0) {
    throw ConfigError(
        cat("a model needs a vocabulary and a training length, not ", own.vocabulary, " and ", own.length));
  }
  if (vocabulary > own.vocabulary) {
    throw ConfigError(cat("model.vocabulary is ", own.vocabulary, ", but the data has ", vocabulary, " tokens"), {},
                      "leave it at 0 to take the data's");
  }
  if (own.heads % own.kv_heads() != 0 || (own.head_width == 0 && own.width % own.heads != 0)) {
    throw ConfigError(cat("a model of width ", own.width, " with ", own.heads, " heads and ", own.kv_heads(),
                          " key/value heads does not hold together"));
  }
}

}  // namespace

struct LanguageModel::State {
  ModelConfig config;
  std::uint64_t seed = 0;
  at::Device device = at::kCPU;
  at::ScalarType compute = at::kFloat;
  std::unique_ptr<encodings::PositionalEncoding> encoding;
  std::vector<Parameter> parameters;
  std::vector<Location> locations;
  std::vector<FlatGroup> groups;
  std::int64_t encoding_count = 0;
  bool waits_for_values = false;

  Weight embedding, head, head_bias;
  std::vector<std::unique_ptr<Block>> blocks;
  std::function<Tensor(const Tensor&)> final_norm;

  at::ScalarType master() const { return compute == at::kDouble ? at::kDouble : at::kFloat; }

  /// A weight over the flat buffers; several rows of matrices when `rows` spans fused parameters.
  Weight weight(const std::string& first, const std::vector<std::int64_t>& shape, bool low_precision) const {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (parameters[i].name != first) continue;
      const Location& at = locations[i];
      const std::int64_t count = c10::multiply_integers(shape);
      const FlatGroup& group = groups[at.group];
      const Tensor& source = low_precision && group.shadow.defined() ? group.shadow : group.values;
      Weight result;
      result.value = source.narrow(0, at.offset, count).view(shape);
      const Tensor& gradients = group.gradients;
      if (gradients.defined()) result.gradient = gradients.narrow(0, at.offset, count).view(shape);
      return result;
    }
    return {};
  }

  /// @throws ConfigError when it does not fit the mask
  void make_encoding() {
    encodings::Shape shape;
    shape.width = config.width;
    shape.layers = config.layers;
    shape.query_heads = config.heads;
    shape.key_value_heads = config.kv_heads();
    shape.head_width = config.d_h();
    shape.train_length = config.length;
    shape.seed = seed;
    shape.token_std = config.token_std() * config.embed_scale;
    shape.dtype = master();
    shape.device = device;
    encoding = encodings::make_encoding(config.encoding.json, shape);
    if (config.mask == Mask::kBidirectional && encoding->needs_causal_mask()) {
      throw ConfigError(why_mask_does_not_fit(encodings::encoding_name(config.encoding.json)), {}, kMaskHint);
    }
  }

  void place_parameters(const std::vector<PlannedParameter>& plans) {
    // Which buffer, and where: matrices that decay in group 0, the rest in group 1. Fused ones follow each other.
    std::int64_t sizes[2] = {0, 0};
    int fused = 0;
    const auto place = [&](bool decay, std::int64_t count, int with) {
      const std::size_t group = decay ? 0 : 1;
      std::int64_t& size = sizes[group];
      if (with == 0 || with != fused) size = (size + kAlignment - 1) / kAlignment * kAlignment;
      fused = with;
      locations.push_back({group, size});
      size += count;
    };
    for (const PlannedParameter& plan : plans) place(plan.decay, plan.count(), plan.fused);
    for (const encodings::Parameter& parameter : encoding->parameters()) {
      place(parameter.weight_decay, parameter.value.numel(), 0);
      encoding_count += parameter.value.numel();
    }
    for (const bool decay : {true, false}) {
      const std::int64_t size = (sizes[decay ? 0 : 1] + kAlignment - 1) / kAlignment * kAlignment;
      groups.push_back({flat_zeros(size, at::TensorOptions(master()).device(device)), {}, {}, decay});
    }
  }

  /// Views of the flat buffers, in the order of the places.
  void make_parameters(const std::vector<PlannedParameter>& plans) {
    for (std::size_t i = 0; i < plans.size(); ++i) {
      const PlannedParameter& plan = plans[i];
      const Location& at = locations[i];
      Tensor view = groups[at.group].values.narrow(0, at.offset, plan.count()).view(plan.shape).detach();
      if (!waits_for_values) start(view, plan, seed, master());
      view.set_requires_grad(true);
      parameters.push_back({plan.name, view, plan.decay});
    }
    for (std::size_t i = 0; i < encoding->parameters().size(); ++i) {
      const encodings::Parameter& parameter = encoding->parameters()[i];
      const Location& at = locations[plans.size() + i];
      Tensor value = parameter.value;  // a handle that the encoding shares
      const Tensor view = groups[at.group].values.narrow(0, at.offset, value.numel()).view(value.sizes()).detach();
      view.copy_(value);
      value.set_data(view);
      parameters.push_back({"encoding." + parameter.name, value, parameter.weight_decay});
    }
  }

  void bind_weights() {
    const auto source = [this](const std::string& first, std::vector<std::int64_t> shape, bool low_precision) {
      return weight(first, std::move(shape), low_precision);
    };
    embedding = source("embedding", {config.vocabulary, config.width}, true);
    head = config.tied ? embedding : source("head", {config.vocabulary, config.width}, true);
    head_bias = source("head.bias", {config.vocabulary}, false);
    blocks = make_blocks(config, source);
    final_norm = make_final_norm(config, source);
  }

  void refresh_shadows() {
    for (FlatGroup& group : groups) {
      if (group.shadow.defined()) group.shadow.copy_(group.values);
    }
  }

  void make_gradients() {
    if (groups.front().gradients.defined()) return;
    at::NoGradGuard no_gradients;
    for (FlatGroup& group : groups) group.gradients = flat_zeros(group.values.numel(), group.values.options());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      Tensor& tensor = parameters[i].tensor;
      tensor.mutable_grad() =
          groups[locations[i].group].gradients.narrow(0, locations[i].offset, tensor.numel()).view(tensor.sizes());
    }
    bind_weights();
  }
};

LanguageModel LanguageModel::make(const ModelConfig& config, std::int64_t vocabulary, std::uint64_t seed,
                                  at::Device device, at::ScalarType compute, Weights weights) {
  at::NoGradGuard no_gradients;
  auto state = std::make_shared<State>();
  state->config = config;
  complete_sizes(state->config, vocabulary);
  state->seed = seed;
  state->device = device;
  state->compute = compute;
  state->make_encoding();
  const std::vector<PlannedParameter> plans = plan_parameters(state->config);
  state->place_parameters(plans);
  state->waits_for_values = weights == Weights::kLater;
  state->make_parameters(plans);
  if (compute != state->master()) {
    for (FlatGroup& group : state->groups) group.shadow = group.values.to(compute);
  }
  state->bind_weights();
  return LanguageModel(std::move(state));
}

void LanguageModel::draw() const {
  State& s = *state_;
  if (!s.waits_for_values) return;
  at::NoGradGuard no_gradients;
  const std::vector<PlannedParameter> plans = plan_parameters(s.config);
  for (std::size_t i = 0; i < plans.size(); ++i) start(s.parameters[i].tensor.detach(), plans[i], s.seed, s.master());
  s.waits_for_values = false;
  s.refresh_shadows();
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
  span.causal = s.config.mask == Mask::kCausal;
  span.positions = options.positions;
  span.device = s.device;
  encodings::PositionalEncoding& encoding = *s.encoding;
  encodings::State pass = encodings::begin_pass(encoding, span);
  if (const encodings::ReadsTokens* reader = encodings::reader_of(encoding)) {
    encodings::give_numbers(pass, reader->read(ids, options.doc_start));
  }

  Tensor x = embed(ids, s.parameters.front().tensor, s.embedding, s.config.embed_scale);
  x = encodings::add_to_tokens(encoding, x, pass);

  // Over the batch, the axes of rows and positions are exchanged for all layers, and attention runs along the batch.
  const bool over_batch = s.config.attend_over_batch;
  encodings::State rows_pass;
  if (over_batch) {
    encodings::Span rows = encodings::Span::whole(length, batch);
    rows.causal = span.causal;
    rows.training = span.training;
    rows.step = span.step;
    rows.pe_len = batch;
    rows.device = s.device;
    rows_pass = encodings::begin_pass(encoding, rows);
  }
  Pass layers{encoding, over_batch ? rows_pass : pass, {}, options.largest_logit, options.hooks};
  std::int64_t place = 0;
  const auto dropped = [&](const Tensor& y, bool transposed) {
    const Tensor mask =
        dropout_mask(transposed ? y.transpose(0, 1) : y, s.config.dropout, s.seed, options.step, place++, span.samples);
    return y * (transposed ? mask.transpose(0, 1) : mask);
  };
  if (options.training && s.config.dropout > 0) {
    layers.dropped = [&](const Tensor& y) { return dropped(y, over_batch); };
    if (s.config.dropout_embeddings) x = dropped(x, false);
  }
  if (over_batch) x = x.transpose(0, 1).contiguous();
  const Hooks* hooks = options.hooks;
  if (hooks != nullptr && hooks->residual) hooks->residual(0, x);
  for (std::size_t i = 0; i < s.blocks.size(); ++i) {
    // A gradient by a layer's input has been through everything in the layer.
    if (options.left_layer && x.requires_grad()) {
      x.register_hook([done = options.left_layer, i](const Tensor&) { done(static_cast<std::int64_t>(i)); });
    }
    x = s.blocks[i]->forward(x, static_cast<int>(i), layers);
    if (hooks != nullptr && hooks->residual) hooks->residual(static_cast<std::int64_t>(i) + 1, x);
  }
  if (over_batch) x = x.transpose(0, 1).contiguous();
  return s.final_norm(x);
}

Tensor LanguageModel::logits(const Tensor& hidden) const {
  const Tensor rows = hidden.reshape({-1, hidden.size(-1)});
  std::vector<std::int64_t> shape = hidden.sizes().vec();
  shape.back() = state_->config.vocabulary;
  const Tensor logits = kernels::wide_product(rows, state_->head.value.t()).view(shape);
  if (state_->head_bias.value.defined()) logits.add_(state_->head_bias.value);
  if (state_->config.logit_softcap > 0) kernels::cap_logits(logits, state_->config.logit_softcap);
  return logits;
}

Tensor LanguageModel::loss_sum(const Tensor& hidden, const Tensor& targets, double z_loss) const {
  return linear_cross_entropy(hidden, targets, state_->head, {state_->config.logit_softcap, z_loss}, state_->head_bias);
}

Tensor LanguageModel::training_loss(const Tensor& hidden, const Tensor& targets, double scale, double z_loss) const {
  return pe::model::training_loss(hidden, targets, state_->head, {state_->config.logit_softcap, z_loss, scale},
                                  state_->head_bias);
}

Tensor LanguageModel::losses(const Tensor& hidden, const Tensor& targets) const {
  at::NoGradGuard no_gradients;
  return row_losses(hidden.reshape({-1, hidden.size(-1)}), targets.reshape({-1}), state_->head.value,
                    {state_->config.logit_softcap, 0}, state_->head_bias.value);
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

void LanguageModel::after_step(bool shadows_written) const {
  at::NoGradGuard no_gradients;
  state_->waits_for_values = false;
  state_->encoding->after_step();  // its own parameters, which have no copies
  if (!shadows_written) state_->refresh_shadows();
}

}  // namespace pe::model

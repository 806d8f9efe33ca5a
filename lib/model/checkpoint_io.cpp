#include "model/checkpoint_io.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <span>

#include "encodings/registry.h"
#include "model/layout.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::model {
namespace {

using artifact::Dtype;
using artifact::TensorInfo;
using support::ArtifactError;
using support::cat;

Dtype dtype_of(const at::Tensor& tensor) { return tensor.scalar_type() == at::kDouble ? Dtype::kF64 : Dtype::kF32; }

TensorInfo info_of(const std::string& name, const at::Tensor& parameter) {
  return {name, dtype_of(parameter), parameter.sizes().vec()};
}

/// The part of flat buffers that is parameter number `index`.
at::Tensor part(const LanguageModel& model, const std::vector<at::Tensor>& flat, std::size_t index) {
  const auto& at = model.locations()[index];
  const at::Tensor& parameter = model.parameters()[index].tensor;
  return flat[at.group].narrow(0, at.offset, parameter.numel()).view(parameter.sizes());
}

std::vector<at::Tensor> values_of(const LanguageModel& model) {
  std::vector<at::Tensor> flat;
  for (const FlatGroup& group : model.groups()) flat.push_back(group.values);
  return flat;
}

std::string shape_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::string> sizes;
  for (const std::int64_t size : shape) sizes.push_back(std::to_string(size));
  return cat("[", support::join(sizes, ", "), "]");
}

/// A file may claim any size: a model is only built when the file holds the tensors of such a one.
void require_stored(const artifact::CheckpointReader& checkpoint, const ModelConfig& config, const std::string& where) {
  const std::size_t tensors = checkpoint.tensors().size();
  if (static_cast<std::uint64_t>(config.layers) > tensors) {
    throw ArtifactError(
        cat(where, ": the model config has ", config.layers, " for 'layers', but the file holds ", tensors, " tensors"),
        "the file is corrupt");
  }
  for (const PlannedParameter& parameter : plan_parameters(config)) {
    const TensorInfo* stored = checkpoint.find("model/" + parameter.name);
    if (stored != nullptr && stored->shape == parameter.shape) continue;
    throw ArtifactError(
        cat(where, ": by the model config, tensor 'model/", parameter.name, "' is ", shape_of(parameter.shape),
            "; found ", stored == nullptr ? "no such tensor" : shape_of(stored->shape)),
        "the file is corrupt");
  }
}

/// Few tensors show the length. Where the file also has the length of the training data, the two must agree.
void require_trained_length(const artifact::CheckpointReader& checkpoint, const ModelConfig& config,
                            const std::string& where) {
  const Json& data = checkpoint.meta().data;
  const auto trained = data.is_object() ? data.find("length") : data.end();
  if (trained == data.end() || *trained == config.length) return;
  throw ArtifactError(cat(where, ": the model config has ", config.length, " for 'length'; expected ", trained->dump(),
                          ", with which it was trained"),
                      "the file is damaged");
}

bool of_encoding(const std::string& name) { return name.rfind("encoding.", 0) == 0; }

}  // namespace

void describe_model(const LanguageModel& model, artifact::CheckpointMeta& meta) {
  Json config = to_json(model.config());
  meta.encoding = config["encoding"];
  config.erase("encoding");
  config["seed"] = model.seed();
  meta.model = std::move(config);
}

void write_tensors(artifact::CheckpointWriter& writer, const std::string& prefix, const LanguageModel& model,
                   const std::vector<at::Tensor>& flat, const std::vector<std::string>& skip) {
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const Parameter& parameter = model.parameters()[i];
    if (std::find(skip.begin(), skip.end(), parameter.name) != skip.end()) continue;
    const at::Tensor host = part(model, flat, i).detach().cpu().contiguous();
    writer.add(info_of(prefix + parameter.name, parameter.tensor),
               {static_cast<const std::byte*>(host.data_ptr()), static_cast<std::size_t>(host.nbytes())});
  }
}

void write_weights(const LanguageModel& model, artifact::CheckpointWriter& writer) {
  write_tensors(writer, "model/", model, values_of(model));
}

ModelConfig config_of(const artifact::CheckpointReader& checkpoint) {
  Json json = checkpoint.meta().model;
  const std::string where = checkpoint.path().string();
  if (!json.is_object()) throw ArtifactError(cat(where, ": the model config is missing"));
  json.erase("seed");
  json["encoding"] = checkpoint.meta().encoding;
  ModelConfig config = config_from_json(json, where);
  require_stored(checkpoint, config, where);
  require_trained_length(checkpoint, config, where);
  return config;
}

std::uint64_t seed_of(const artifact::CheckpointReader& checkpoint) {
  const Json& json = checkpoint.meta().model;
  const auto seed = json.find("seed");
  if (seed == json.end() || !seed->is_number_integer()) {
    throw ArtifactError(cat(checkpoint.path().string(), ": the model config lacks 'seed'"));
  }
  return seed->get<std::uint64_t>();
}

void read_tensors(const artifact::CheckpointReader& checkpoint, const std::string& prefix, const LanguageModel& model,
                  const std::vector<at::Tensor>& flat, bool skip_encoding) {
  std::vector<std::string> skip;
  for (const Parameter& parameter : model.parameters()) {
    if (skip_encoding && of_encoding(parameter.name)) skip.push_back(parameter.name);
  }
  read_tensors(checkpoint, prefix, model, flat, skip);
}

void read_tensors(const artifact::CheckpointReader& checkpoint, const std::string& prefix, const LanguageModel& model,
                  const std::vector<at::Tensor>& flat, const std::vector<std::string>& skip) {
  at::NoGradGuard no_gradients;
  std::vector<artifact::CheckpointReader::Destination> destinations;
  std::vector<std::pair<at::Tensor, at::Tensor>> hosts;  // copies of tensors on other devices, and their place
  for (std::size_t i = 0; i < model.parameters().size(); ++i) {
    const Parameter& parameter = model.parameters()[i];
    if (std::find(skip.begin(), skip.end(), parameter.name) != skip.end()) continue;
    at::Tensor to = part(model, flat, i).detach();
    if (!to.is_cpu()) {
      hosts.emplace_back(at::empty(to.sizes(), to.options().device(at::kCPU)), to);
      to = hosts.back().first;
    }
    destinations.push_back({info_of(prefix + parameter.name, parameter.tensor),
                            {static_cast<std::byte*>(to.data_ptr()), static_cast<std::size_t>(to.nbytes())}});
  }
  checkpoint.read(destinations, at::get_num_threads());
  for (const auto& [host, to] : hosts) at::Tensor(to).copy_(host);
}

void require_tensors(const artifact::CheckpointReader& checkpoint, const std::string& prefix,
                     const LanguageModel& model, const std::vector<std::string>& skip) {
  for (const Parameter& parameter : model.parameters()) {
    if (std::find(skip.begin(), skip.end(), parameter.name) != skip.end()) continue;
    checkpoint.require(info_of(prefix + parameter.name, parameter.tensor));
  }
}

const char* weights_name(WeightsOf weights) {
  return weights == WeightsOf::kEma ? "ema" : weights == WeightsOf::kBest ? "best" : "model";
}

void describe_weights(support::FieldVisitor& v, WeightsOf& weights) {
  v.choice("weights", weights, {{"model", WeightsOf::kModel}, {"ema", WeightsOf::kEma}, {"best", WeightsOf::kBest}},
           "Which weights of the checkpoint: the last ones, their moving average (train.ema), or those with the lowest "
           "validation loss "
           "(train.best).",
           {.neutral = Json("model")});
}

StoredWeights find_weights(const artifact::CheckpointReader& checkpoint, WeightsOf which) {
  const artifact::CheckpointMeta& meta = checkpoint.meta();
  const std::string where = checkpoint.path().string();
  StoredWeights found{"model/", meta.step, meta.tokens_seen};
  if (which == WeightsOf::kEma) {
    found.prefix = "ema/";
    if (checkpoint.find("ema/embedding") == nullptr) {
      throw ArtifactError(cat(where, ": holds no averages of its weights, since train.ema was 0"),
                          "set weights: model, or train with train.ema above 0");
    }
  } else if (which == WeightsOf::kBest) {
    found.prefix = "best/";
    const auto best = meta.extra.find("best");
    if (best == meta.extra.end() || checkpoint.find("best/embedding") == nullptr) {
      throw ArtifactError(
          cat(where,
              ": holds no weights of its best validation, since train.best was false, or no validation was finite"),
          "set weights: model, or train with train.best: true");
    }
    found.step = best->value("step", meta.step);
    found.tokens = best->value("tokens", meta.tokens_seen);
  }
  return found;
}

LanguageModel load_model(const artifact::CheckpointReader& checkpoint, at::Device device, at::ScalarType compute,
                         const Json& replace_encoding, const std::string& weights) {
  ModelConfig config = config_of(checkpoint);
  const bool replaced = !replace_encoding.is_null();
  if (replaced) config.encoding.json = replace_encoding;
  const std::string where = checkpoint.path().string();
  LanguageModel model = support::with_context(cat("building the model of ", where), [&] {
    // A replaced encoding keeps the values that are drawn.
    return LanguageModel::make(config, config.vocabulary, seed_of(checkpoint), device, compute,
                               replaced ? Weights::kDrawn : Weights::kLater);
  });
  read_tensors(checkpoint, weights, model, values_of(model), replaced);
  for (const TensorInfo& info : checkpoint.tensors()) {
    if (info.name.rfind("model/", 0) != 0) continue;
    const std::string name = info.name.substr(6);
    if (replaced && of_encoding(name)) continue;
    bool known = false;
    for (const Parameter& parameter : model.parameters()) known = known || parameter.name == name;
    if (!known) {
      throw ArtifactError(
          cat(where, ": tensor '", info.name, "' belongs to another model than the one that its config names"));
    }
  }
  model.after_step();
  return model;
}

/// Rows of other matrices belong to heads or to buckets, whose meaning changes with their number.
static bool has_a_row_for_each_position(const std::string& name) {
  return (name.ends_with("table") && name.find(".t5.") == std::string::npos) || name.ends_with(".projection");
}

ChangedModel load_changed(const artifact::CheckpointReader& checkpoint, const ModelChanges& changes, at::Device device,
                          at::ScalarType compute) {
  ModelConfig config = config_of(checkpoint);
  const QkNormOver norm_before = config.qk_norm_over;
  const bool normed_before = config.qk_norm;
  if (!changes.encoding.is_null()) config.encoding.json = changes.encoding;
  if (changes.length != 0) config.length = changes.length;
  if (changes.qk_norm_over) {
    config.qk_norm = true;
    config.qk_norm_over = *changes.qk_norm_over;
  }
  const bool new_norm = config.qk_norm && (!normed_before || config.qk_norm_over != norm_before);
  const std::string where = checkpoint.path().string();
  ChangedModel made{
      support::with_context(
          cat("building the model of ", where),
          [&] { return LanguageModel::make(config, config.vocabulary, seed_of(checkpoint), device, compute); }),
      {},
      {},
      {}};
  std::vector<std::string> skip;
  for (const Parameter& parameter : made.model.parameters()) {
    const bool encodings = of_encoding(parameter.name);
    const bool norms = parameter.name.find(".query_norm") != std::string::npos ||
                       parameter.name.find(".key_norm") != std::string::npos;
    const bool replaced = encodings && !changes.encoding.is_null() && !changes.keep_encoding_parameters;
    const TensorInfo* stored = checkpoint.find("model/" + parameter.name);
    if (replaced || (norms && new_norm) || (encodings && stored == nullptr && !changes.encoding.is_null())) {
      made.fresh.push_back(parameter.name);
      skip.push_back(parameter.name);
      continue;
    }
    if (!encodings || stored == nullptr) continue;
    const std::vector<std::int64_t> shape = parameter.tensor.sizes().vec();
    if (stored->shape == shape) continue;
    // A table with more rows keeps its stored rows.
    const bool longer = has_a_row_for_each_position(parameter.name) && shape.size() == 2 && stored->shape.size() == 2 &&
                        shape[1] == stored->shape[1] && shape[0] > stored->shape[0];
    if (!longer && changes.redraw_other_shapes) {
      made.fresh.push_back(parameter.name);
      skip.push_back(parameter.name);
      continue;
    }
    if (!longer) {
      throw ArtifactError(
          cat(where, ": parameter '", parameter.name, "' is ", shape_of(stored->shape), ", and encoding '",
              encodings::encoding_name(config.encoding.json), "' needs ", shape_of(shape)),
          "give the encoding the options that it was trained with, or take one without parameters");
    }
    at::NoGradGuard no_gradients;
    at::Tensor host = at::empty(stored->shape, parameter.tensor.options().device(at::kCPU).requires_grad(false));
    checkpoint.read({stored->name, dtype_of(parameter.tensor), stored->shape},
                    {static_cast<std::byte*>(host.data_ptr()), static_cast<std::size_t>(host.nbytes())});
    at::Tensor rows = parameter.tensor.detach().narrow(0, 0, stored->shape[0]);
    rows.copy_(host);
    made.grown.push_back(parameter.name);
    skip.push_back(parameter.name);
  }
  read_tensors(checkpoint, "model/", made.model, values_of(made.model), skip);
  for (const TensorInfo& info : checkpoint.tensors()) {
    if (info.name.rfind("model/", 0) != 0) continue;
    const std::string name = info.name.substr(6);
    bool known = false;
    for (const Parameter& parameter : made.model.parameters()) known = known || parameter.name == name;
    if (known) continue;
    if (!of_encoding(name) || changes.encoding.is_null()) {
      throw ArtifactError(
          cat(where, ": tensor '", info.name, "' belongs to another model than the one that its config names"));
    }
    made.dropped.push_back(name);
  }
  made.model.after_step();
  return made;
}

}  // namespace pe::model

#include "model/checkpoint_io.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>

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
    throw ArtifactError(cat(where, ": by the model config, tensor 'model/", parameter.name, "' is ",
                            support::bracketed(parameter.shape), "; found ",
                            stored == nullptr ? "no such tensor" : support::bracketed(stored->shape)),
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

/// Parameters of the checkpoint that the model lacks.
std::vector<std::string> names_without_a_place(const artifact::CheckpointReader& checkpoint,
                                               const LanguageModel& model) {
  std::vector<std::string> names;
  for (const TensorInfo& info : checkpoint.tensors()) {
    if (info.name.rfind("model/", 0) != 0) continue;
    const std::string name = info.name.substr(6);
    const auto known = std::find_if(model.parameters().begin(), model.parameters().end(),
                                    [&](const Parameter& parameter) { return parameter.name == name; });
    if (known == model.parameters().end()) names.push_back(name);
  }
  return names;
}

[[noreturn]] void refuse_tensor(const std::string& where, const std::string& name) {
  throw ArtifactError(
      cat(where, ": tensor 'model/", name, "' belongs to another model than the one that its config names"));
}

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
  for (const std::string& name : names_without_a_place(checkpoint, model)) {
    if (!replaced || !of_encoding(name)) refuse_tensor(where, name);
  }
  model.after_step();
  return model;
}

namespace {

ModelConfig changed_config(ModelConfig config, const ModelChanges& changes) {
  if (!changes.encoding.is_null()) config.encoding.json = changes.encoding;
  if (changes.length != 0) config.length = changes.length;
  if (changes.qk_norm_over) {
    config.qk_norm = true;
    config.qk_norm_over = *changes.qk_norm_over;
  }
  return config;
}

bool of_norm(const std::string& name) {
  return name.find(".query_norm") != std::string::npos || name.find(".key_norm") != std::string::npos;
}

/// Rows of other matrices belong to heads or to buckets, whose meaning changes with their number.
bool has_a_row_for_each_position(const std::string& name) {
  return (name.ends_with("table") && name.find(".t5.") == std::string::npos) || name.ends_with(".projection");
}

/// A table with more rows keeps its stored rows.
bool grows(const Parameter& parameter, const TensorInfo& stored) {
  const std::vector<std::int64_t> shape = parameter.tensor.sizes().vec();
  return has_a_row_for_each_position(parameter.name) && shape.size() == 2 && stored.shape.size() == 2 &&
         shape[1] == stored.shape[1] && shape[0] > stored.shape[0];
}

/// A parameter of a changed model comes from the checkpoint, or it has its values from the start.
enum class Origin { kStored, kFirstRows, kStart, kAnotherShape };

Origin origin_of(const Parameter& parameter, const TensorInfo* stored, const ModelChanges& changes, bool new_norm) {
  const bool of_the_encoding = of_encoding(parameter.name);
  const bool encoding_changes = of_the_encoding && !changes.encoding.is_null();
  const bool replaced = encoding_changes && (!changes.keep_encoding_parameters || stored == nullptr);
  if (replaced || (new_norm && of_norm(parameter.name))) return Origin::kStart;
  if (!of_the_encoding || stored == nullptr || stored->shape == parameter.tensor.sizes()) return Origin::kStored;
  if (grows(parameter, *stored)) return Origin::kFirstRows;
  return changes.redraw_other_shapes ? Origin::kStart : Origin::kAnotherShape;
}

void read_first_rows(const artifact::CheckpointReader& checkpoint, const TensorInfo& stored, const at::Tensor& table) {
  at::NoGradGuard no_gradients;
  at::Tensor host = at::empty(stored.shape, table.options().device(at::kCPU).requires_grad(false));
  checkpoint.read({stored.name, dtype_of(table), stored.shape},
                  {static_cast<std::byte*>(host.data_ptr()), static_cast<std::size_t>(host.nbytes())});
  table.detach().narrow(0, 0, stored.shape[0]).copy_(host);
}

}  // namespace

std::vector<std::string> ChangedModel::untrained() const {
  std::vector<std::string> names = fresh;
  names.insert(names.end(), grown.begin(), grown.end());
  return names;
}

ChangedModel load_changed(const artifact::CheckpointReader& checkpoint, const ModelChanges& changes, at::Device device,
                          at::ScalarType compute) {
  const ModelConfig before = config_of(checkpoint);
  const ModelConfig config = changed_config(before, changes);
  const bool new_norm = config.qk_norm && (!before.qk_norm || config.qk_norm_over != before.qk_norm_over);
  const std::string where = checkpoint.path().string();
  ChangedModel made{
      support::with_context(
          cat("building the model of ", where),
          [&] { return LanguageModel::make(config, config.vocabulary, seed_of(checkpoint), device, compute); }),
      {},
      {},
      {}};
  for (const Parameter& parameter : made.model.parameters()) {
    const TensorInfo* stored = checkpoint.find("model/" + parameter.name);
    switch (origin_of(parameter, stored, changes, new_norm)) {
      case Origin::kStored:
        break;
      case Origin::kStart:
        made.fresh.push_back(parameter.name);
        break;
      case Origin::kFirstRows:
        read_first_rows(checkpoint, *stored, parameter.tensor);
        made.grown.push_back(parameter.name);
        break;
      case Origin::kAnotherShape:
        throw ArtifactError(cat(where, ": parameter '", parameter.name, "' is ", support::bracketed(stored->shape),
                                ", and encoding '", encodings::encoding_name(config.encoding.json), "' needs ",
                                support::bracketed(parameter.tensor.sizes().vec())),
                            "give the encoding the options that it was trained with, or take one without parameters");
    }
  }
  read_tensors(checkpoint, "model/", made.model, values_of(made.model), made.untrained());
  made.dropped = names_without_a_place(checkpoint, made.model);
  for (const std::string& name : made.dropped) {
    if (!of_encoding(name) || changes.encoding.is_null()) refuse_tensor(where, name);
  }
  made.model.after_step();
  return made;
}

}  // namespace pe::model

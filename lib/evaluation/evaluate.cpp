#include "evaluation/evaluate.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <functional>
#include <set>

#include "artifact/checkpoint.h"
#include "artifact/eval_table.h"
#include "data/tokenizers/symbol_tokenizer.h"
#include "data/tokenizers/token_numbers.h"
#include "encodings/attention/positional_encoding.h"
#include "encodings/attention/token_reader.h"
#include "encodings/extension/encoding_at.h"
#include "encodings/registry.h"
#include "evaluation/data_fit.h"
#include "evaluation/journal.h"
#include "evaluation/model_identity.h"
#include "evaluation/model_scorer.h"
#include "evaluation/shard_documents.h"
#include "model/checkpoint_io.h"
#include "model/device.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::evaluation {

using support::cat;

namespace {

constexpr const char* kOverflowOption = "overflow";

/// Sets the option `overflow` of an encoding, or of the members of a stack, where they have it. False when none does.
bool set_overflow(Json& encoding, const std::string& policy) {
  if (encoding.is_object() && encoding.contains("stack")) {
    bool any = false;
    for (Json& member : encoding["stack"]) any = set_overflow(member, policy) || any;
    return any;
  }
  const std::string kind = encoding.is_string() ? encoding.get<std::string>() : encoding.value("kind", "");
  const encodings::EncodingEntry* entry = encodings::find_encoding(kind);
  if (entry == nullptr || support::find_field(entry->fields, kOverflowOption) == nullptr) return false;
  if (encoding.is_string()) encoding = {{"kind", kind}};
  encoding[kOverflowOption] = policy;
  return true;
}

/// The model with its encoding changed to go beyond its positions; a table that thereby grows keeps its rows in front.
model::LanguageModel load_beyond(const artifact::CheckpointReader& checkpoint, at::Device device,
                                 at::ScalarType compute, const Json& encoding, const std::string& weights) {
  const model::LanguageModel model = model::load_model(checkpoint, device, compute, encoding, weights);
  const at::NoGradGuard no_gradients;
  for (const model::Parameter& parameter : model.parameters()) {
    if (parameter.name.rfind("encoding.", 0) != 0) continue;
    const artifact::TensorInfo* info = checkpoint.find(weights + parameter.name);
    if (info == nullptr) continue;
    at::Tensor stored = at::empty(info->shape, parameter.tensor.options().device(at::kCPU).requires_grad(false));
    const artifact::TensorInfo expected{
        info->name, stored.scalar_type() == at::kDouble ? artifact::Dtype::kF64 : artifact::Dtype::kF32, info->shape};
    checkpoint.read(expected, {static_cast<std::byte*>(stored.data_ptr()), static_cast<std::size_t>(stored.nbytes())});
    at::Tensor into = parameter.tensor.detach();
    if (into.dim() > 0 && into.size(0) > stored.size(0)) into = into.narrow(0, 0, stored.size(0));
    into.copy_(stored);
  }
  model.after_step();
  return model;
}

/// An encoding that is laid over weights takes its parameters from them: it has to have the very same ones.
/// @throws ConfigError that names the first parameter which differs
void require_parameters(const artifact::CheckpointReader& checkpoint, const Json& encoding,
                        const std::string& weights) {
  const model::ModelConfig config = model::config_of(checkpoint);
  const std::string name = encodings::encoding_name(encoding),
                    trained = encodings::encoding_name(checkpoint.meta().encoding);
  const auto refuse = [&](const std::string& why) {
    throw support::ConfigError(
        cat("eval.encoding: '", name, "' cannot be laid over ", checkpoint.path().string(),
            ", which was trained with '", trained, "': ", why),
        {},
        "lay over it a rule for longer texts or an encoding with the same parameters, or continue the training with "
        "another one by pe-extend");
  };
  if (encodings::heads_per_query(encoding) != encodings::heads_per_query(checkpoint.meta().encoding)) {
    refuse("one of them makes several attention heads of each query, so the projections differ");
  }
  const auto made = encodings::make_encoding(encoding, {.width = config.width,
                                                        .layers = config.layers,
                                                        .query_heads = config.heads,
                                                        .key_value_heads = config.kv_heads(),
                                                        .head_width = config.d_h(),
                                                        .train_length = config.length});
  std::set<std::string> known;
  for (const encodings::Parameter& parameter : made->parameters()) {
    const std::string full = cat("encoding.", parameter.name);
    known.insert(full);
    const artifact::TensorInfo* stored = checkpoint.find(weights + full);
    const std::vector<std::int64_t> shape = parameter.value.sizes().vec();
    if (stored == nullptr) refuse(cat("the checkpoint has no parameter '", full, "'"));
    if (stored->shape != shape) {
      refuse(cat("parameter '", full, "' is ", support::bracketed(stored->shape), " there, and ",
                 support::bracketed(shape), " is needed"));
    }
  }
  for (const artifact::TensorInfo& info : checkpoint.tensors()) {
    if (info.name.rfind(weights + "encoding.", 0) != 0 || known.count(info.name.substr(weights.size())) != 0) continue;
    refuse(cat("it has no parameter '", info.name.substr(weights.size()), "', which was trained"));
  }
}

/// The encoding of this evaluation.
Json evaluated_encoding(const EvalGroup& group, const artifact::CheckpointReader& checkpoint,
                        const std::string& weights) {
  const Json& trained = checkpoint.meta().encoding;
  if (!group.replaces_encoding()) return trained;
  const std::int64_t length = model::config_of(checkpoint).length;
  const std::int64_t longest = std::max(length, group.settings.contexts(length).back());
  const Json encoding = encodings::encoding_over(group.encoding.json, trained, length, longest);
  require_parameters(checkpoint, encoding, weights);
  return encoding;
}

/// Models of one checkpoint with the encoding replaced.
class CheckpointVariants final : public ModelVariants {
 public:
  CheckpointVariants(const artifact::CheckpointReader& checkpoint, model::ModelConfig shape, at::Device device,
                     at::ScalarType compute, std::string weights, std::int64_t batch_tokens, Json encoding,
                     std::function<void(const model::LanguageModel&)> prepare)
      : checkpoint_(checkpoint),
        encoding_(std::move(encoding)),
        shape_(std::move(shape)),
        device_(device),
        compute_(compute),
        weights_(std::move(weights)),
        batch_tokens_(batch_tokens),
        prepare_(std::move(prepare)) {}
  const Json& encoding() const override { return encoding_; }
  std::unique_ptr<Scorer> make(const Json& encoding) const override {
    const model::LanguageModel model = load_beyond(checkpoint_, device_, compute_, encoding, weights_);
    prepare_(model);
    return make_model_scorer(model, batch_tokens_);
  }
  std::unique_ptr<Scorer> make_scaled(const FrequencyScale& scale) const override {
    // RoPE whose frequencies are parameters, a factor on each: with factors of 1 the angles are the same numbers.
    const auto changed = rope_changed(encoding(), "lrope", {{"form", "scale"}});
    if (!changed) return nullptr;
    const model::LanguageModel model = load_beyond(checkpoint_, device_, compute_, *changed, weights_);
    const at::NoGradGuard no_gradients;
    for (const encodings::Parameter& parameter : model.encoding().parameters()) {
      if (parameter.name.rfind("lrope.", 0) != 0) continue;
      for (std::int64_t pair = 0; pair < parameter.value.numel(); ++pair) {
        parameter.value.select(0, pair).fill_(scale(parameter.layer, pair));
      }
    }
    model.after_step();
    prepare_(model);
    return make_model_scorer(model, batch_tokens_);
  }
  std::int64_t layers() const override { return shape_.layers; }
  std::int64_t pairs() const override { return shape_.d_h() / 2; }

 private:
  const artifact::CheckpointReader& checkpoint_;
  Json encoding_;
  model::ModelConfig shape_;
  at::Device device_;
  at::ScalarType compute_;
  std::string weights_;
  std::int64_t batch_tokens_;
  std::function<void(const model::LanguageModel&)> prepare_;
};

/// The model with `encoding`, which gets the policy for lengths beyond it.
model::LanguageModel load_evaluated(const EvalGroup& group, const artifact::CheckpointReader& checkpoint,
                                    Json& encoding, at::Device device, at::ScalarType dtype,
                                    const std::string& weights) {
  const bool beyond =
      group.settings.beyond != Beyond::kReportNa && set_overflow(encoding, beyond_name(group.settings.beyond));
  return beyond || group.replaces_encoding() ? load_beyond(checkpoint, device, dtype, encoding, weights)
                                             : model::load_model(checkpoint, device, dtype, nullptr, weights);
}

/// Null when the evaluation has no reference.
const artifact::Input* reference_input(const artifact::Workspace& workspace) {
  const auto found = workspace.inputs.find("reference");
  return found == workspace.inputs.end() || found->second.empty() ? nullptr : &found->second.front();
}

/// Tasks that suit a model whose tokens see later ones.
void require_labelled_tasks(const EvalGroup& group) {
  for (const std::string& task : group.tasks) {
    if (task == "algorithmic") continue;
    throw support::ConfigError(
        cat("eval.tasks has ", support::quote(task), ", and this model sees later tokens (model.mask: bidirectional)"),
        {}, "the task algorithmic alone can test it: eval.tasks: [algorithmic]");
  }
}

/// The journal's file, with the items of an earlier attempt if there was one.
std::filesystem::path journal_file(const artifact::Workspace& workspace) {
  const std::filesystem::path name = "evaluation.jsonl";
  if (workspace.resume && *workspace.resume != workspace.work && std::filesystem::exists(*workspace.resume / name)) {
    std::filesystem::copy_file(*workspace.resume / name, workspace.work / name,
                               std::filesystem::copy_options::overwrite_existing);
  }
  return workspace.work / name;
}

/// Key of the work whose finished items the journal has.
std::string work_key(const artifact::Workspace& workspace, const ModelIdentity& identity,
                     const data::TokenDataset& dataset, const TaskExtras& extras) {
  Json work = {{"version", workspace.recipe.version},
               {"config", workspace.recipe.config},
               {"model", identity.digest},
               {"data", dataset.content_digest()}};
  if (extras.reference != nullptr) work["reference"] = extras.reference_name;
  return support::canonical_hash("pe/evaluation-journal/2", work);
}

}  // namespace

void EvaluateConfig::describe(support::FieldVisitor& v) {
  v.group("eval", eval, "Tasks, lengths and data of the evaluation.");
  v.group("compute", compute, "How it is computed.");
}

void evaluate(const EvaluateConfig& config, artifact::Workspace& workspace) {
  const EvalGroup& group = config.eval;
  support::Progress& progress = *workspace.progress;
  const artifact::Input& model_input = workspace.input("model");
  const artifact::Input& data_input = workspace.input("data");

  const artifact::CheckpointReader checkpoint(model_input.path);
  const data::TokenDataset dataset(data_input.path);
  const artifact::CheckpointMeta& meta = checkpoint.meta();
  require_fit(checkpoint, dataset, data_input.path, group.settings.split, progress);
  if (meta.status == artifact::TrainingStatus::kDiverged) {
    progress.warn(cat(model_input.path.string(), ": the training of this model diverged at step ", meta.step));
  }
  const model::ComputeConfig compute = model::resolve(config.compute);
  const at::Device device = model::open_device(compute);
  const at::ScalarType dtype = model::compute_type(compute);

  const std::string weights = model::find_weights(checkpoint, group.weights).prefix;
  Json encoding = evaluated_encoding(group, checkpoint, weights);
  ModelIdentity identity =
      identify(checkpoint, model_input, group.weights, group.replaces_encoding() ? encoding : nullptr);
  const Json laid_over = encoding;  // variants set their own policy for lengths beyond it
  const model::LanguageModel model = load_evaluated(group, checkpoint, encoding, device, dtype, weights);
  if (model.config().mask != model::Mask::kCausal) require_labelled_tasks(group);
  const auto prepare = [&](const model::LanguageModel& made) { tell_tokens(made, dataset, data_input.path); };
  prepare(model);

  const std::unique_ptr<data::Tokenizer> tokenizer =
      data::make_tokenizer(dataset.tokenizer(), data_input.path.string());
  const auto documents = make_shard_documents(dataset, *tokenizer, group.settings.split);
  const auto text = make_codec(*tokenizer, dataset.tokenizer().bos_before_documents);
  const auto scorer = make_model_scorer(model, group.settings.batch_tokens);

  TaskExtras extras{.model = &model};
  std::optional<model::LanguageModel> reference;
  if (const artifact::Input* input = reference_input(workspace)) {
    const artifact::CheckpointReader other(input->path);
    require_fit(other, dataset, data_input.path, group.settings.split, progress);
    reference = model::load_model(other, device, dtype);
    prepare(*reference);
    extras.reference = &*reference;
    const Json facts = identify(other, *input).facts;
    extras.reference_name = facts["pe"].get<std::string>() + " " + facts["run_id"].get<std::string>();
  }
  if (dataset.tokenizer().kind == data::kSymbolTokenizer) {
    extras.trained_task = data::task_of_tokenizer(dataset.tokenizer(), data_input.path.string());
  }
  Journal journal(journal_file(workspace), work_key(workspace, identity, dataset, extras));
  if (journal.recovered() > 0) progress.note(cat("continuing after ", journal.recovered(), " finished items"));
  const CheckpointVariants variants(checkpoint, model.config(), device, dtype, weights, group.settings.batch_tokens,
                                    laid_over, prepare);
  const auto fitting = group.settings.split == artifact::Split::kValidation
                           ? nullptr
                           : make_shard_documents(dataset, *tokenizer, data::Split::kValidation);
  extras.variants = &variants;
  extras.fitting = fitting.get();
  run_tasks(group, *scorer, *text, *documents, journal, progress, extras);

  identity.facts.update({{"data_digest", dataset.content_digest()},
                         {"tokenizer_digest", dataset.tokenizer_digest()},
                         {"contexts", group.settings.contexts(model.config().length)},
                         {"tasks", group.tasks}});
  const artifact::Tables tables{.tables = schema::make_tables(journal.rows(), identity.identity),
                                .facts = std::move(identity.facts)};
  artifact::write_eval_tables(workspace.output("scores"), workspace.recipe, tables);
}

}  // namespace pe::evaluation

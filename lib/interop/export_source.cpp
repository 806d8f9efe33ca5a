#include "interop/export_source.h"

#include <algorithm>
#include <cmath>
#include <span>

#include "data/token_shards/inspect.h"
#include "data/tokenizers/tokenizer.h"
#include "interop/hf_folder.h"
#include "interop/safetensors.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/text.h"
#include "support/version.h"

namespace pe::interop {

using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr double kTolerance = 1e-4;  // nats, float32 against float32
constexpr double kRoundedTolerance = 0.05;
constexpr const char* kSchema = "pe-export/1";

/// Rounds float32 weights to the export's dtype, so that golden numbers belong to the exported weights.
void round_weights(const model::LanguageModel& model, const std::string& dtype, bool vectors) {
  if (dtype == "F32") return;
  for (const model::Parameter& parameter : model.parameters()) {
    if (parameter.tensor.dim() < 2 && !vectors) continue;
    const at::Tensor flat = parameter.tensor.detach().view({-1});
    float* values = flat.mutable_data_ptr<float>();
    const std::span<const float> all(values, static_cast<std::size_t>(flat.numel()));
    const std::vector<float> rounded = to_floats(dtype, from_floats(dtype, all), parameter.name);
    std::copy(rounded.begin(), rounded.end(), values);
  }
  model.after_step();
}

at::Tensor parameter_of(const model::LanguageModel& model, const std::string& name) {
  for (const model::Parameter& parameter : model.parameters()) {
    if (parameter.name == name) return parameter.tensor.detach().contiguous();
  }
  throw support::Error(support::kExitBug, support::Diagnostic{cat("the model has no parameter ", name)});
}

std::vector<std::int64_t> golden_ids(const artifact::TokenizerRecord& record, const std::string& where) {
  const auto tokenizer = data::make_tokenizer(record, where);
  std::vector<std::int64_t> ids;
  if (record.bos_before_documents) ids.push_back(record.bos_id);
  for (const std::int32_t id : tokenizer->encode(golden_text())) ids.push_back(id);
  return ids;
}

/// Three lengths, the last one as far as text and model allow.
std::vector<std::size_t> golden_lengths(const model::LanguageModel& model, std::size_t ids, std::int64_t longest) {
  std::int64_t most = std::max(model.config().length, longest);
  if (const auto bound = model.encoding().facts().max_positions) most = std::min(most, *bound);
  const std::size_t last = std::min({ids, static_cast<std::size_t>(most), std::size_t{192}});
  std::vector<std::size_t> lengths{std::min<std::size_t>(8, last), std::min<std::size_t>(40, last), last};
  lengths.erase(std::unique(lengths.begin(), lengths.end()), lengths.end());
  return lengths;
}

/// Scaled embeddings are rounded once more.
double tolerance_of(const ExportPlan& plan, const ExportOrder& order) {
  const bool scaled =
      std::any_of(plan.tensors.begin(), plan.tensors.end(), [](const ExportTensor& t) { return t.scale != 1; });
  return order.dtype != "F32" && scaled ? kRoundedTolerance : kTolerance;
}

/// Largest difference of two lists of one size.
double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const double difference = std::abs(a[i] - b[i]);
    most = std::isnan(difference) ? INFINITY : std::max(most, difference);
  }
  return most;
}

}  // namespace

void require_manifest(const Json& manifest, const std::string& where) {
  if (manifest.is_object() && manifest.value("schema", Json()) == kSchema &&
      manifest.value("golden", Json()).is_array() && manifest.value("tolerance", Json()).is_number()) {
    return;
  }
  throw ArtifactError(cat(quote(where), ": expected a manifest of pe-export, found something else"));
}

ExportSource open_export(const ExportOrder& order, bool round_vectors) {
  if (support::is_there(order.out)) {
    throw support::IoError(cat(quote(order.out.string()), ": is there already; an export replaces nothing"),
                           /*creating=*/true);
  }
  artifact::CheckpointReader checkpoint(order.model);
  artifact::TokenizerRecord tokenizer = data::tokenizer_of(order.tokenizer);
  if (const std::string& trained = checkpoint.meta().tokenizer_digest; trained != tokenizer.digest()) {
    throw ArtifactError(cat(quote(order.model.string()), ": trained with tokenizer ", trained, ", but ",
                            quote(order.tokenizer.string()), " is ", tokenizer.digest()),
                        "take the token shards that the model was trained on, or their tokenizer");
  }
  const model::StoredWeights weights = model::find_weights(checkpoint, order.weights);
  model::LanguageModel loaded = model::load_model(checkpoint, at::kCPU, at::kFloat, nullptr, weights.prefix);
  round_weights(loaded, order.dtype, round_vectors);
  return {std::move(checkpoint), std::move(tokenizer), std::move(loaded), weights};
}

SafetensorsTensor export_tensor(const ExportTensor& tensor, const model::LanguageModel& model,
                                const std::string& dtype) {
  return {tensor.name, dtype, tensor.shape,
          [&tensor, source = parameter_of(model, tensor.source), dtype](const ByteSink& sink) {
            const std::span all(source.const_data_ptr<float>(), static_cast<std::size_t>(source.numel()));
            exported_values(tensor, all, [&](std::span<const float> values) { sink(from_floats(dtype, values)); });
          }};
}

Json manifest_of(const ExportSource& source, const ExportPlan& plan, const ExportOrder& order) {
  const artifact::CheckpointMeta& meta = source.checkpoint.meta();
  Json golden = Json::array();
  const auto ids = golden_ids(source.tokenizer, order.tokenizer.string());
  for (const GoldenRun& run : golden_runs(source.model, ids, golden_lengths(source.model, ids.size(), order.longest))) {
    golden.push_back(to_json(run));
  }
  return {{"schema", kSchema},
          {"version", PE_VERSION},
          {"weights",
           {{"of", model::weights_name(order.weights)},
            {"dtype", order.dtype},
            {"step", source.weights.step},
            {"tokens", source.weights.tokens}}},
          {"model", model::to_json(source.model.config())},
          {"trained_on",
           {{"data_digest", meta.data_digest}, {"tokenizer_digest", meta.tokenizer_digest}, {"parents", meta.parents}}},
          {"realised", plan.positions},
          {"needs_code", plan.needs_code},
          {"text", golden_text()},
          {"golden", golden},
          {"tolerance", tolerance_of(plan, order)}};
}

double compare_golden(const Json& manifest, const model::LanguageModel& model, const std::string& where) {
  require_manifest(manifest, where);
  const double tolerance = manifest["tolerance"].get<double>();
  double most = 0;
  for (const Json& json : manifest["golden"]) {
    const GoldenRun expected = golden_from_json(json, model.config().vocabulary, where);
    const auto found = golden_runs(model, expected.ids, {expected.ids.size()});
    most = std::max(most, largest_difference(expected.log_probabilities, found.at(0).log_probabilities));
    if (most > tolerance) {
      throw ArtifactError(cat(quote(where), ": log-probabilities differ by ", support::shortest(most), ", more than ",
                              support::shortest(tolerance)));
    }
  }
  return most;
}

std::string parameter_text(const model::LanguageModel& model) {
  return cat(support::with_commas(model.parameter_count()), " parameters, of which ",
             support::with_commas(model.encoding_parameter_count()), " belong to the positional encoding");
}

}  // namespace pe::interop

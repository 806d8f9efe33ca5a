#include "interop/hf_folder.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/topk.h>
#include <c10/core/InferenceMode.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "interop/hf_files.h"
#include "interop/hf_import_plan.h"
#include "interop/hf_names.h"
#include "interop/rope_parameters.h"
#include "interop/weight_files.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::interop {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr std::int64_t kTop = 20;

/// Our encoding must turn as config.json says, or the model is another one.
void compare_frequencies(const ImportPlan& plan, const model::LanguageModel& model, const std::string& where) {
  if (plan.rope.is_null()) return;
  const auto* rotary = dynamic_cast<const encodings::Rotary*>(&model.encoding());
  if (rotary == nullptr) throw ArtifactError(cat(quote(where), ": its rotation has no counterpart here"));
  const auto ours = rotary->frequencies(encodings::Span::whole(1, plan.config.length));
  const RopeFrequencies theirs = rope_frequencies(plan.rope, plan.config.d_h(), plan.config.length, where);
  if (same_frequencies({ours.theta, ours.attention_factor}, theirs)) return;
  throw ArtifactError(
      cat(quote(where), ": its rotary frequencies differ from encoding ", plan.config.encoding.json.dump()));
}

model::LanguageModel make_model(const ImportPlan& plan, const std::string& where) {
  try {
    return model::LanguageModel::make(plan.config, plan.config.vocabulary, 0, at::kCPU, at::kFloat,
                                      model::Weights::kLater);
  } catch (const support::ConfigError& error) {
    throw ArtifactError(cat(quote(where), ": ", error.diagnostics().front().message));
  }
}

void fill_parameter(const model::Parameter& parameter, const ImportTensor& from, const WeightFiles& weights) {
  const auto refuse = [&] {
    throw ArtifactError(cat(quote(weights.where()), ": tensor ", quote(from.source), " has another shape than ",
                            parameter.name, ", which holds ", parameter.tensor.numel(), " numbers"));
  };
  if (from.shape != parameter.tensor.sizes().vec()) refuse();
  std::vector<float> values = imported_values(from, weights);
  if (static_cast<std::int64_t>(values.size()) != parameter.tensor.numel()) refuse();
  const at::Tensor view = at::from_blob(values.data(), parameter.tensor.sizes(), at::TensorOptions(at::kFloat));
  parameter.tensor.detach().copy_(view);
}

}  // namespace

HfModel read_hf_model(const fs::path& folder, encodings::PairLayout layout) {
  const fs::path file = folder / "config.json";
  const WeightFiles weights(folder);
  Json config = read_hf_json(file);
  const ImportPlan plan = plan_import(config, weights, layout, file.string());
  model::LanguageModel model = model_of_plan(plan, weights, file.string());
  return {.model = std::move(model),
          .architecture = plan.architecture,
          .tensors = weights.names().size(),
          .config = std::move(config)};
}

model::LanguageModel model_of_plan(const ImportPlan& plan, const WeightFiles& weights, const std::string& where) {
  model::LanguageModel made = make_model(plan, where);
  compare_frequencies(plan, made, where);
  std::map<std::string, const ImportTensor*> by_name;
  for (const ImportTensor& tensor : plan.tensors) by_name.emplace(tensor.name, &tensor);
  for (const model::Parameter& parameter : made.parameters()) {
    auto found = by_name.find(parameter.name);
    if (found == by_name.end()) found = by_name.find(hf_name(parameter.name));  // of an encoding
    if (found == by_name.end())
      throw ArtifactError(cat(quote(weights.where()), ": has no tensor for ", parameter.name));
    fill_parameter(parameter, *found->second, weights);
  }
  if (made.parameters().size() != plan.tensors.size()) {
    throw ArtifactError(cat(quote(where), ": there are tensors of an encoding that it does not describe"));
  }
  made.after_step();
  return made;
}

std::string golden_text() {
  return "The harbour of Ålesund lies open to the north-west. On 14 March 1897 the barometer fell by 23 hPa within\n"
         "six hours, and the pilot, who had seen 1,204 ships pass the light, went down to look at the ropes.\n\n"
         "    \"It will blow,\" he said;  \"it will blow, and it won't be over by the evening.\"\n"
         "\tNo one answered. The water between the piers was flat and had the colour of lead. A boy counted the\n"
         "gulls: one, two, three, four, five.   Then he counted them again, since they had moved, and there were six.\n"
         "When the wind came, it came from the south. It took the signs off the shops, it took the café's chairs, and "
         "it\n"
         "carried a newspaper as far as the church, where the clock had stopped at 3:07. Afterwards everyone\n"
         "remembered the pilot's words, and no one remembered that he had looked at the ropes for an hour before he "
         "said\n"
         "them. The light burned all night. At 6:15 the last boat came in, with a torn sail and eleven men aboard.\n";
}

namespace {

/// @throws ArtifactError where the numbers of a run are not finite, with the tensor that is the reason
void require_finite(const GoldenRun& run, const model::LanguageModel& model) {
  const auto finite = [](const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  };
  if (finite(run.log_probabilities) && finite(run.top_log_probabilities)) return;
  for (const model::Parameter& parameter : model.parameters()) {
    if (!at::isfinite(parameter.tensor).all().item<bool>())
      throw ArtifactError(cat("tensor ", quote(parameter.name), " holds numbers that are not finite"));
  }
  throw ArtifactError("the model computes numbers that are not finite for a fixed text");
}

}  // namespace

double GoldenRun::mean_loss() const {
  double sum = 0;
  for (const double value : log_probabilities) sum -= value;
  return log_probabilities.empty() ? 0 : sum / static_cast<double>(log_probabilities.size());
}

std::vector<GoldenRun> golden_runs(const model::LanguageModel& model, const std::vector<std::int64_t>& ids,
                                   const std::vector<std::size_t>& lengths) {
  const c10::InferenceMode guard;
  std::vector<GoldenRun> runs;
  for (const std::size_t length : lengths) {
    if (length < 2 || length > ids.size()) continue;
    GoldenRun run;
    run.ids.assign(ids.begin(), ids.begin() + static_cast<std::ptrdiff_t>(length));
    const at::Tensor input = at::tensor(run.ids, at::kLong).unsqueeze(0);
    const at::Tensor logs = at::log_softmax(model.logits(model.forward(input))[0], -1).contiguous();
    const float* values = logs.const_data_ptr<float>();
    const std::int64_t vocabulary = logs.size(1);
    for (std::size_t t = 1; t < length; ++t) {
      run.log_probabilities.push_back(values[static_cast<std::int64_t>(t - 1) * vocabulary + run.ids[t]]);
    }
    const auto [top, at] = at::topk(logs[static_cast<std::int64_t>(length) - 1], std::min(kTop, vocabulary));
    for (std::int64_t i = 0; i < top.size(0); ++i) {
      run.top_log_probabilities.push_back(double{top[i].item<float>()});
      run.top_ids.push_back(at[i].item<std::int64_t>());
    }
    require_finite(run, model);
    runs.push_back(std::move(run));
  }
  return runs;
}

Json to_json(const GoldenRun& run) {
  return {{"ids", run.ids},
          {"log_probabilities", run.log_probabilities},
          {"top_ids", run.top_ids},
          {"top_log_probabilities", run.top_log_probabilities}};
}

GoldenRun golden_from_json(const Json& json, std::int64_t vocabulary, const std::string& where) {
  GoldenRun run;
  try {
    json.at("ids").get_to(run.ids);
    json.at("log_probabilities").get_to(run.log_probabilities);
    json.at("top_ids").get_to(run.top_ids);
    json.at("top_log_probabilities").get_to(run.top_log_probabilities);
  } catch (const Json::exception&) {
    throw ArtifactError(cat(quote(where), ": a golden run lacks its ids or numbers"));
  }
  for (const std::int64_t id : run.ids) {
    if (id < 0 || id >= vocabulary)
      throw ArtifactError(cat(quote(where), ": id ", id, " is outside the vocabulary of ", vocabulary));
  }
  if (run.ids.size() < 2 || run.log_probabilities.size() + 1 != run.ids.size() ||
      run.top_ids.size() != run.top_log_probabilities.size()) {
    throw ArtifactError(cat(quote(where), ": a golden run has lists of sizes that do not fit"));
  }
  return run;
}

}  // namespace pe::interop

#include "training/logit_scale.h"

#include <ATen/core/grad_mode.h>

#include <cmath>
#include <limits>

#include "artifact/checkpoint.h"
#include "artifact/metrics.h"
#include "encodings/attention/token_reader.h"
#include "encodings/registry.h"
#include "model/checkpoint_io.h"
#include "support/error.h"
#include "support/progress.h"
#include "support/text.h"
#include "training/validation.h"

namespace pe::training {

using support::cat;

namespace {

/// Sets the slope of the length scale in a canonical encoding.
void set_slope(Json& encoding, double slope) {
  if (encoding.contains("stack")) {
    for (Json& member : encoding["stack"]) set_slope(member, slope);
  } else if (encoding.value("kind", "") == "length_scale") {
    encoding["slope"] = slope;
  }
}

/// The same weights with another slope, which has no parameters.
model::LanguageModel with_slope(const model::LanguageModel& model, double slope) {
  model::ModelConfig config = model.config();
  set_slope(config.encoding.json, slope);
  model::LanguageModel made = model::LanguageModel::make(config, config.vocabulary, model.seed(), model.device(),
                                                         model.compute_dtype(), model::Weights::kLater);
  const at::NoGradGuard no_gradients;
  for (std::size_t i = 0; i < made.groups().size(); ++i)
    at::Tensor(made.groups()[i].values).copy_(model.groups()[i].values);
  made.after_step();
  encodings::read_alike(made.encoding(), model.encoding());
  return made;
}

}  // namespace

Json with_length_scale(const Json& encoding, double slope) {
  const Json canonical = encoding.is_string() ? Json{{"kind", encoding}} : encoding;
  Json scale = support::defaults(encodings::find_encoding("length_scale")->fields);
  scale["kind"] = "length_scale";
  scale["slope"] = slope;
  if (canonical.value("kind", "") == "none") return scale;
  Json stack = canonical.contains("stack") ? canonical["stack"] : Json::array({canonical});
  for (const Json& member : stack) {
    if (member == "length_scale" || (member.is_object() && member.value("kind", "") == "length_scale"))
      throw support::ConfigError("the encoding has a length_scale already, and drop.logit_scale adds one", {},
                                 "leave out drop.logit_scale");
  }
  stack.push_back(scale);
  return {{"stack", stack}};
}

double slope_of(const std::vector<ScaleFit>& fits, std::int64_t train_length) {
  double above = 0, below = 0;
  for (const ScaleFit& fit : fits) {
    const double log = std::log(static_cast<double>(fit.length) / static_cast<double>(train_length));
    above += (fit.beta - 1) * log;
    below += log * log;
  }
  return below == 0 ? 0 : above / below;
}

void require_fitting_windows(const data::TokenDataset& dataset, std::int64_t length, const std::string& where) {
  if (dataset.windows(data::Split::kValidation, 2 * length) > 0) return;
  throw support::ArtifactError(cat(where, ": the validation split has no window of ", 2 * length,
                                   " tokens, which drop.logit_scale: fitted measures"),
                               "give it more text, or give the slope: drop.logit_scale: given");
}

void require_fitting_model(const model::LanguageModel& model) {
  const std::int64_t least = 2 * model.config().length;
  const auto bound = model.encoding().facts().max_positions;
  if (bound && *bound < least) {
    throw support::ConfigError(
        cat("the encoding has ", *bound, " positions, and drop.logit_scale: fitted measures ", least, " tokens"), {},
        "give the slope: drop.logit_scale: given");
  }
  if (model.config().attend_over_batch)
    throw support::ConfigError(
        "drop.logit_scale: fitted measures texts one by one, and this model attends over its batch", {},
        "give the slope: drop.logit_scale: given");
}

void fit_logit_scale(const Run& run, const data::TokenDataset& dataset, std::int64_t windows,
                     artifact::Workspace& workspace) {
  const std::int64_t trained = run.model.config().length;
  const auto bound = run.model.encoding().facts().max_positions;
  std::vector<ScaleFit> fits;
  for (int i = 0; i <= 10; ++i) {
    const double slope = 0.05 * i;
    const model::LanguageModel scaled = with_slope(run.model, slope);
    std::size_t at = 0;
    for (const std::int64_t times : {2, 4, 8}) {
      const std::int64_t length = times * trained;
      if (bound && *bound < length) continue;
      const bool stops = support::stop_requested();
      if (run.communicator == nullptr ? stops : run.communicator->any(stops)) {
        if (run.communicator != nullptr) run.communicator->agree_on_end();
        throw support::StopRequest(true);
      }
      const auto found = validate(scaled, dataset, windows, /*micro_batch=*/1, run.documents, run.communicator, length);
      if (!found) continue;
      const double loss = std::isfinite(found->loss) ? found->loss : std::numeric_limits<double>::infinity();
      if (i == 0) fits.push_back({.length = length, .loss = loss, .unscaled_loss = loss});
      ScaleFit& fit = fits[at++];
      if (loss >= fit.loss) continue;
      fit.loss = loss;
      fit.beta = 1 + slope * std::log(static_cast<double>(times));
    }
  }
  const double slope = slope_of(fits, trained);
  const auto output = workspace.outputs.find("model");
  const bool writes = run.communicator == nullptr || run.communicator->is_first();
  if (output == workspace.outputs.end() || !writes) return;
  const artifact::CheckpointReader written(output->second);
  artifact::CheckpointMeta meta = written.meta();
  set_slope(meta.encoding, slope);
  Json record = {{"slope", slope}, {"fits", Json::array()}};
  for (const ScaleFit& fit : fits) {
    record["fits"].push_back(
        {{"length", fit.length}, {"beta", fit.beta}, {"loss", fit.loss}, {"unscaled_loss", fit.unscaled_loss}});
  }
  meta.extra["logit_scale"] = record;
  artifact::CheckpointWriter writer(output->second, workspace.recipe, meta);
  for (const artifact::TensorInfo& info : written.tensors()) writer.add(info, written.read(info.name));
  writer.finish();
  if (const auto metrics = workspace.outputs.find("metrics"); metrics != workspace.outputs.end()) {
    artifact::Tables tables = artifact::read_metrics(metrics->second);
    set_slope(tables.facts["encoding"], slope);
    artifact::write_metrics(metrics->second, workspace.recipe, tables);
  }
}

}  // namespace pe::training

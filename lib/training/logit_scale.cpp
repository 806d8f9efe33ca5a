#include "training/logit_scale.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

#include <cmath>

#include "artifact/checkpoint.h"
#include "encodings/attention/token_reader.h"
#include "encodings/registry.h"
#include "model/checkpoint_io.h"
#include "support/error.h"
#include "support/text.h"

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
  for (std::size_t i = 0; i < made.groups().size(); ++i) at::Tensor(made.groups()[i].values).copy_(model.groups()[i].values);
  made.after_step();
  encodings::read_alike(made.encoding(), model.encoding());
  return made;
}

/// Nats per token over windows of `length`, with the model's encoding as it stands.
double loss_at(const model::LanguageModel& model, const data::TokenDataset& dataset, std::int64_t length, std::int64_t windows) {
  const at::NoGradGuard no_gradients;
  std::vector<std::int64_t> window(static_cast<std::size_t>(length + 1));
  double sum = 0;
  for (std::int64_t i = 0; i < windows; ++i) {
    dataset.window(data::Split::kValidation, length, static_cast<std::uint64_t>(i), window);
    at::Tensor ids = at::empty({1, length}, at::kLong), targets = at::empty({length}, at::kLong);
    std::copy(window.begin(), window.end() - 1, ids.data_ptr<std::int64_t>());
    std::copy(window.begin() + 1, window.end(), targets.data_ptr<std::int64_t>());
    const at::Tensor hidden = model.forward(ids.to(model.device()));
    sum += model.loss_sum(hidden.flatten(0, 1), targets.to(model.device())).item<double>();
  }
  return sum / static_cast<double>(windows * length);
}

}  // namespace

Json with_length_scale(const Json& encoding, double slope) {
  const Json canonical = encoding.is_string() ? Json{{"kind", encoding}} : encoding;
  Json scale = support::defaults(encodings::find_encoding("length_scale")->fields);
  scale["kind"] = "length_scale";
  scale["slope"] = slope;
  if (canonical.value("kind", "") == "none") return scale;
  Json stack = canonical.contains("stack") ? canonical["stack"] : Json::array({canonical});
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

void fit_logit_scale(const model::LanguageModel& model, const data::TokenDataset& dataset, std::int64_t windows,
                     artifact::Workspace& workspace) {
  const std::int64_t trained = model.config().length;
  std::vector<ScaleFit> fits;
  for (int i = 0; i <= 10; ++i) {
    const double slope = 0.05 * i;
    const model::LanguageModel scaled = with_slope(model, slope);
    std::size_t at = 0;
    for (const std::int64_t times : {2, 4, 8}) {
      const std::int64_t length = times * trained;
      const std::int64_t count =
          std::min(windows, static_cast<std::int64_t>(dataset.windows(data::Split::kValidation, length)));
      if (count == 0) continue;
      const double loss = loss_at(scaled, dataset, length, count);
      if (i == 0) fits.push_back({.length = length, .loss = loss, .unscaled_loss = loss});
      ScaleFit& fit = fits[at++];
      if (loss >= fit.loss) continue;
      fit.loss = loss;
      fit.beta = 1 + slope * std::log(static_cast<double>(times));
    }
  }
  if (fits.empty()) {
    throw support::ArtifactError(cat(workspace.input("data").path.string(), ": the validation split has no window of ", 2 * trained,
                                     " tokens, which drop.logit_scale: fitted measures"),
                                 "validate on more text (drop.validate_windows above 0), or give the slope: drop.logit_scale: given");
  }
  const double slope = slope_of(fits, trained);
  const auto output = workspace.outputs.find("model");
  if (output == workspace.outputs.end()) return;
  const artifact::CheckpointReader written(output->second);
  artifact::CheckpointMeta meta = written.meta();
  set_slope(meta.encoding, slope);
  Json record = {{"slope", slope}, {"fits", Json::array()}};
  for (const ScaleFit& fit : fits) {
    record["fits"].push_back({{"length", fit.length}, {"beta", fit.beta}, {"loss", fit.loss}, {"unscaled_loss", fit.unscaled_loss}});
  }
  meta.extra["logit_scale"] = record;
  artifact::CheckpointWriter writer(output->second, workspace.recipe, meta);
  for (const artifact::TensorInfo& info : written.tensors()) writer.add(info, written.read(info.name));
  writer.finish();
}

}  // namespace pe::training

#include "training/optimizer.h"

#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "kernels/dispatch.h"
#include "kernels/ops.h"
#include "model/flat_zeros.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::training {

using support::ArtifactError;
using support::cat;

namespace {

constexpr std::pair<OptimizerKind, const char*> kKinds[] = {
    {OptimizerKind::kAdamW, "adamw"}, {OptimizerKind::kAdam, "adam"}, {OptimizerKind::kMuon, "muon"}};
constexpr std::pair<DecayOn, const char*> kDecays[] = {{DecayOn::kMatrices, "matrices"},
                                                       {DecayOn::kMatricesAndEmbeddings, "matrices_and_embeddings"},
                                                       {DecayOn::kAll, "all"}};

/// Second moments are fp32 numbers, too.
constexpr double kMostSquares = std::numeric_limits<float>::max();

bool starts_with(const std::string& text, const char* with) { return text.rfind(with, 0) == 0; }

}  // namespace

at::Tensor orthogonalised(const at::Tensor& g) {
  const bool tall = g.size(0) > g.size(1);
  at::Tensor x = tall ? g.t() : g;
  x = x / (std::sqrt(kernels::operations_for(g).sum_of_squares(g.contiguous())) + 1e-7);
  for (int i = 0; i < 5; ++i) {
    const at::Tensor a = at::mm(x, x.t());
    const at::Tensor b = at::addmm(a, a, a, -4.7750, 2.0315);
    x = at::addmm(x, b, x, 3.4445, 1.0);
  }
  return tall ? x.t() : x;
}

at::Tensor orthogonalised_in_bf16(const at::Tensor& matrices) {
  const bool tall = matrices.size(1) > matrices.size(2);
  const at::Tensor g = tall ? matrices.transpose(1, 2) : matrices;
  at::Tensor x = (g / (at::linalg_vector_norm(g, 2.0, at::IntArrayRef{1, 2}, /*keepdim=*/true, at::kFloat) + 1e-7))
                     .to(at::kBFloat16);
  for (int i = 0; i < 5; ++i) {
    const at::Tensor a = at::bmm(x, x.transpose(1, 2));
    const at::Tensor b = at::baddbmm(a, a, a, -4.7750, 2.0315);
    x = at::baddbmm(x, b, x, 3.4445, 1.0);
  }
  return tall ? x.transpose(1, 2) : x;
}

double muon_scale(std::int64_t rows, std::int64_t columns) {
  return 0.2 * std::sqrt(static_cast<double>(std::max(rows, columns)));
}

Optimizer::Optimizer(model::LanguageModel model, const OptimizerSettings& settings, std::int64_t start)
    : model_(std::move(model)), settings_(settings), start_(start) {
  at::NoGradGuard no_gradients;
  for (const model::FlatGroup& group : model_.groups()) {
    first_.push_back(model::flat_zeros(group.values.numel(), group.values.options()));
    second_.push_back(model::flat_zeros(group.values.numel(), group.values.options()));
    steps_.push_back(at::zeros({}, group.values.options().dtype(at::kFloat)));
    if (settings_.ema > 0) averages_.push_back(group.values.clone());
  }
  parts_ = parts_of();
}

std::vector<Optimizer::Part> Optimizer::parts_of() {
  std::vector<Part> parts;
  const bool whole = settings_.kind != OptimizerKind::kMuon && settings_.decay_on == DecayOn::kMatrices &&
                     settings_.encoding_lr_scale == 1.0;
  if (whole) {
    for (std::size_t i = 0; i < model_.groups().size(); ++i) {
      const model::FlatGroup& group = model_.groups()[i];
      if (group.values.numel() > 0) parts.push_back({i, 0, group.values.numel(), group.decay, false, {}});
    }
    return parts;
  }
  for (std::size_t i = 0; i < model_.parameters().size(); ++i) {
    const model::Parameter& parameter = model_.parameters()[i];
    const auto& at = model_.locations()[i];
    Part part{at.group, at.offset, parameter.tensor.numel(), parameter.decay, starts_with(parameter.name, "encoding."),
              {}};
    if (settings_.decay_on == DecayOn::kAll) part.decay = true;
    if (settings_.decay_on == DecayOn::kMatricesAndEmbeddings && parameter.name == "embedding") part.decay = true;
    if (settings_.kind == OptimizerKind::kMuon && starts_with(parameter.name, "layers.") && parameter.decay) {
      part.muon = parameter.tensor.sizes().vec();
      by_muon_.push_back(parameter.name);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

std::vector<StatePart> Optimizer::state() const {
  std::vector<StatePart> state;
  if (!averages_.empty()) state.push_back({"ema/", averages_, {}, false});
  state.push_back({"optim/m/", first_, {}});
  state.push_back({"optim/v/", second_, by_muon_});
  return state;
}

Optimizer::StepResult Optimizer::step(std::int64_t step, double lr) {
  at::NoGradGuard no_gradients;
  double squares = 0;
  for (const model::FlatGroup& group : model_.groups()) {
    squares += kernels::operations_for(group.gradients).sum_of_squares(group.gradients);
  }
  const StepResult result = result_of(0, squares);
  if (!result.finite) return result;
  std::optional<at::Tensor> scale;  // the kernels divide gradients by it
  if (result.clipped) {
    scale = at::zeros({}, model_.groups().front().values.options().dtype(at::kFloat));
    scale->fill_(result.grad_norm / settings_.clip);
  }
  const double divisor = result.clipped ? result.grad_norm / settings_.clip : 1.0;
  bool shadows_written = true;
  std::map<std::vector<std::int64_t>, std::vector<const Part*>> at_once;  // Muon's, by shape
  for (const Part& part : parts_) {
    const double rate = rate_of(part, lr);
    if (!part.muon.empty() && kernels::plugin_for(model_.groups()[part.group].values) != nullptr) {
      at_once[part.muon].push_back(&part);
      shadows_written = false;
      continue;
    }
    if (part.muon.empty() && adam_with_shadows(part, step, rate, divisor)) continue;
    shadows_written = false;
    if (part.muon.empty())
      adam(part, step, rate, scale);
    else
      muon(part, rate, scale);
  }
  for (const auto& [shape, parts] : at_once) muon(parts, lr, scale);
  model_.after_step(shadows_written);
  for (std::size_t i = 0; i < averages_.size(); ++i) averages_[i].lerp_(model_.groups()[i].values, 1 - settings_.ema);
  return result;
}

Optimizer::StepResult Optimizer::result_of(double loss, double squares) const {
  if (!std::isfinite(loss)) return {.grad_norm = loss, .finite = false};
  StepResult result{.grad_norm = std::sqrt(squares)};
  result.finite = squares <= kMostSquares;
  result.clipped = result.finite && settings_.clip > 0 && result.grad_norm > settings_.clip;
  return result;
}

bool Optimizer::has_unread_steps() const {
  if (settings_.kind == OptimizerKind::kMuon || !averages_.empty()) return false;
  return std::all_of(model_.groups().begin(), model_.groups().end(), [](const model::FlatGroup& group) {
    const kernels::Operations& operations = kernels::operations_for(group.values);
    return operations.adam != nullptr && operations.unread_sum_of_squares != nullptr;
  });
}

void Optimizer::set_skipped(std::int64_t count) {
  skipped_ = at::full({}, static_cast<double>(count), model_.groups().front().values.options().dtype(at::kDouble));
}

at::Tensor Optimizer::unread_step(std::int64_t step, double lr, const at::Tensor& loss) {
  at::NoGradGuard no_gradients;
  if (!skipped_.defined()) set_skipped(0);
  at::Tensor squares = at::zeros_like(loss);
  for (const model::FlatGroup& group : model_.groups())
    squares = squares + kernels::operations_for(group.gradients).unread_sum_of_squares(group.gradients);
  const at::Tensor finite = squares.le(kMostSquares).logical_and(at::isfinite(loss));
  const at::Tensor skips = finite.logical_not().logical_or(skipped_.gt(static_cast<double>(settings_.skip_nonfinite)));
  skipped_ = at::where(skips, skipped_ + 1, at::zeros_like(skipped_));
  at::Tensor divisor = at::ones_like(loss);
  if (settings_.clip > 0) {
    const at::Tensor norm = squares.sqrt();
    divisor = at::where(norm.gt(settings_.clip), norm / settings_.clip, divisor);
  }
  const at::Tensor verdict = at::stack({divisor, skips.to(at::kDouble)}).to(at::kFloat);
  for (const Part& part : parts_) adam_with_shadows(part, step, rate_of(part, lr), 1, verdict);
  model_.after_step(true);
  return at::stack({loss, squares});
}

bool Optimizer::adam_with_shadows(const Part& part, std::int64_t step, double lr, double divisor,
                                  const at::Tensor& verdict) {
  const model::FlatGroup& group = model_.groups()[part.group];
  const auto cut = [&](const at::Tensor& flat) {
    return flat.defined() ? flat.narrow(0, part.begin, part.count) : flat;
  };
  const auto adam = kernels::operations_for(group.values).adam;
  if (adam == nullptr) return false;
  adam({cut(group.values), cut(group.gradients), cut(first_[part.group]), cut(second_[part.group]), cut(group.shadow)},
       {.lr = lr,
        .beta1 = settings_.beta1,
        .beta2 = settings_.beta2,
        .decay = part.decay ? settings_.weight_decay : 0.0,
        .eps = settings_.eps,
        .step = step - start_ + 1,
        .divisor = divisor,
        .verdict = verdict,
        .coupled = settings_.kind == OptimizerKind::kAdam});
  return true;
}

void Optimizer::adam(const Part& part, std::int64_t step, double lr, const std::optional<at::Tensor>& scale) {
  const model::FlatGroup& group = model_.groups()[part.group];
  const auto cut = [&](const at::Tensor& flat) { return flat.narrow(0, part.begin, part.count); };
  // Set, not counted up: the integer step is the only clock.
  steps_[part.group].fill_(static_cast<double>(step - start_ + 1));
  const at::Tensor values = cut(group.values), gradients = cut(group.gradients);
  const at::Tensor first = cut(first_[part.group]), second = cut(second_[part.group]);
  const double decay = part.decay ? settings_.weight_decay : 0.0;
  if (settings_.kind == OptimizerKind::kAdam) {
    at::_fused_adam_({values}, {gradients}, {first}, {second}, {}, {steps_[part.group]}, lr, settings_.beta1,
                     settings_.beta2, decay, settings_.eps, /*amsgrad=*/false, /*maximize=*/false, scale);
  } else {
    at::_fused_adamw_({values}, {gradients}, {first}, {second}, {}, {steps_[part.group]}, lr, settings_.beta1,
                      settings_.beta2, decay, settings_.eps, /*amsgrad=*/false, /*maximize=*/false, scale);
  }
}

at::Tensor Optimizer::muon_gradient(const Part& part, const std::optional<at::Tensor>& scale) {
  const auto cut = [&](const at::Tensor& flat) { return flat.narrow(0, part.begin, part.count).view(part.muon); };
  at::Tensor gradient = cut(model_.groups()[part.group].gradients);
  if (scale) gradient = gradient / *scale;
  const at::Tensor momentum = cut(first_[part.group]).mul_(settings_.momentum).add_(gradient);
  return gradient.add(momentum, settings_.momentum);
}

void Optimizer::apply_muon(const Part& part, const at::Tensor& direction, double lr) {
  const at::Tensor values = model_.groups()[part.group].values.narrow(0, part.begin, part.count).view(part.muon);
  if (part.decay) values.mul_(1 - lr * settings_.weight_decay);
  values.sub_(direction, lr * muon_scale(part.muon[0], part.muon[1]));
}

void Optimizer::muon(const Part& part, double lr, const std::optional<at::Tensor>& scale) {
  apply_muon(part, orthogonalised(muon_gradient(part, scale)), lr);
}

void Optimizer::muon(const std::vector<const Part*>& parts, double lr, const std::optional<at::Tensor>& scale) {
  constexpr std::int64_t kNumbers = std::int64_t{1} << 27;  // at a time, which take half a gibibyte
  const std::vector<std::int64_t>& shape = parts.front()->muon;
  const auto most = static_cast<std::size_t>(std::max<std::int64_t>(1, kNumbers / (shape[0] * shape[1])));
  for (std::size_t first = 0; first < parts.size(); first += most) {
    const std::size_t count = std::min(most, parts.size() - first);
    std::vector<at::Tensor> gradients;
    for (std::size_t i = 0; i < count; ++i) gradients.push_back(muon_gradient(*parts[first + i], scale));
    const at::Tensor directions = orthogonalised_in_bf16(at::stack(gradients));
    for (std::size_t i = 0; i < count; ++i)
      apply_muon(*parts[first + i], directions[static_cast<std::int64_t>(i)].to(at::kFloat), lr);
  }
}

Json to_json(const OptimizerSettings& settings, std::int64_t start) {
  Json json = {{"peak_lr", settings.peak_lr},
               {"beta1", settings.beta1},
               {"beta2", settings.beta2},
               {"eps", settings.eps},
               {"weight_decay", settings.weight_decay},
               {"clip", settings.clip},
               {"start", start}};
  const OptimizerSettings plain;
  for (const auto& [kind, word] : kKinds) {
    if (settings.kind == kind && kind != plain.kind) json["kind"] = word;
  }
  for (const auto& [decay_on, word] : kDecays) {
    if (settings.decay_on == decay_on && decay_on != plain.decay_on) json["decay_on"] = word;
  }
  if (settings.kind == OptimizerKind::kMuon) json["momentum"] = settings.momentum;
  if (settings.encoding_lr_scale != 1.0) json["encoding_lr_scale"] = settings.encoding_lr_scale;
  if (settings.z_loss != 0) json["z_loss"] = settings.z_loss;
  if (settings.ema != 0) json["ema"] = settings.ema;
  if (settings.skip_nonfinite != 0) json["skip_nonfinite"] = settings.skip_nonfinite;
  return json;
}

OptimizerSettings optimizer_from_json(const Json& json, const std::string& file) {
  OptimizerSettings settings;
  const auto number = [&](const char* name, double& to, bool needed) {
    const auto found = json.find(name);
    if (found == json.end() && !needed) return;
    if (found == json.end() || !found->is_number()) {
      throw ArtifactError(cat(file, ": optimizer lacks the number '", name, "'; this is no checkpoint of a training"));
    }
    to = found->get<double>();
  };
  const auto word = [&](const char* name, const auto& words, auto& to) {
    const auto found = json.find(name);
    if (found == json.end()) return;
    for (const auto& [value, text] : words) {
      if (*found == text) {
        to = value;
        return;
      }
    }
    throw ArtifactError(
        cat(file, ": optimizer has ", found->dump(), " for '", name, "', which this version does not know"));
  };
  number("peak_lr", settings.peak_lr, true);
  number("beta1", settings.beta1, true);
  number("beta2", settings.beta2, true);
  number("eps", settings.eps, true);
  number("weight_decay", settings.weight_decay, true);
  number("clip", settings.clip, true);
  number("momentum", settings.momentum, false);
  number("encoding_lr_scale", settings.encoding_lr_scale, false);
  number("z_loss", settings.z_loss, false);
  number("ema", settings.ema, false);
  double skips = 0;
  number("skip_nonfinite", skips, false);
  settings.skip_nonfinite = static_cast<std::int64_t>(skips);
  word("kind", kKinds, settings.kind);
  word("decay_on", kDecays, settings.decay_on);
  return settings;
}

}  // namespace pe::training

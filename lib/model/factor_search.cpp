#include "model/factor_search.h"

#include <c10/core/InferenceMode.h>
#include <torch/types.h>

#include <cmath>

#include "encodings/registry.h"
#include "encodings/rotary/rescaling.h"
#include "encodings/rotary/rotary_schedules.h"
#include "support/text.h"

namespace pe::model {

using support::cat;
using support::ConfigError;

namespace {

/// Puts an encoding's rule back, whatever happened in between.
class RuleGuard {
 public:
  explicit RuleGuard(encodings::Rotary& rotary) : rotary_(rotary) {}
  ~RuleGuard() { rotary_.rescale_with({}); }

 private:
  encodings::Rotary& rotary_;
};

double perplexity(const LanguageModel& model, const SearchTexts& texts) {
  const c10::InferenceMode inference;
  double sum = 0;
  std::int64_t count = 0;
  const std::int64_t length = texts.ids.size(1) - 1;
  for (std::int64_t n = 0; n < texts.ids.size(0); ++n) {
    const at::Tensor text = texts.ids.select(0, n).to(model.device());
    at::Tensor hidden = model.forward(text.narrow(0, 0, length).unsqueeze(0)).flatten(0, 1);
    at::Tensor targets = text.narrow(0, 1, length);
    if (texts.counted.defined()) {
      const at::Tensor rows = texts.counted.select(0, n).nonzero().flatten().to(model.device());
      if (rows.numel() == 0) continue;
      hidden = hidden.index_select(0, rows);
      targets = targets.index_select(0, rows);
    }
    sum += model.losses(hidden, targets).to(at::kDouble).sum().item<double>();
    count += targets.numel();
  }
  return std::exp(sum / static_cast<double>(count));
}

/// {"kind": "longrope", …, "over": …} from the encoding that was searched for.
Json extended(const Json& encoding, const FactorSearchConfig& config, const encodings::FactorSearchResult& found) {
  Json below = encoding.is_string() ? Json{{"kind", encoding}} : encoding;
  const std::string kind = config.method == FactorMethod::kLongRope ? "longrope" : "longrope2";
  Json made = support::defaults(encodings::find_encoding(kind)->fields);  // canonical: every option
  made.update(Json{{"kind", kind},
                   {"factor", config.factor},
                   {"long_factors", found.best.divisors},
                   {"protected", found.best.protected_positions}});
  for (const char* shared : {"base", "layout"}) {
    if (!below.contains(shared)) continue;
    made[shared] = below[shared];
    below.erase(shared);
  }
  below["kind"] = encodings::encoding_name(below["kind"]);
  made["over"] = below;
  return made;
}

}  // namespace

FoundFactors search_factors(const LanguageModel& model, const SearchTexts& texts, const FactorSearchConfig& config,
                            const encodings::FactorProgress& progress) {
  auto* rotary = dynamic_cast<encodings::Rotary*>(&model.encoding());
  const Json& encoding = model.config().encoding.json;
  const std::string name = encodings::encoding_name(encoding);
  const auto& known = encodings::rotary_schedules();
  const bool extensible =
      std::any_of(known.begin(), known.end(), [&](const encodings::RotarySchedule& s) { return s.name == name; });
  if (rotary == nullptr || !extensible) {
    throw ConfigError(cat("the model's encoding is '", name, "', which no divisors can be searched for"), {},
                      "a search needs a rotary encoding without an extension, such as rope");
  }
  if (!texts.ids.defined() || texts.ids.dim() != 2 || texts.ids.size(0) < 1 || texts.ids.size(1) < 2) {
    throw ConfigError("a search for divisors needs at least one text of two tokens or more");
  }
  if (texts.counted.defined() && !texts.counted.any().item<bool>()) {
    throw ConfigError("a search for divisors needs a prediction that counts");
  }
  FoundFactors found;
  const std::int64_t trained = model.config().length;
  const RuleGuard guard(*rotary);
  const auto score = [&](const encodings::RescaleFactors& factors) {
    rotary->rescale_with(encodings::longrope_rescaling(factors, trained, config.factor));
    return perplexity(model, texts);
  };
  const auto search =
      config.method == FactorMethod::kLongRope ? encodings::search_longrope : encodings::search_longrope2;
  auto options = config.options;
  // A rule over trained frequencies protects no positions.
  if (encodings::find_encoding(name)->facts.learned) options.search_protected = false;
  found.search = search(rotary->schedule(), trained, config.factor, options, score, progress);
  found.encoding = extended(encoding, config, found.search);
  return found;
}

}  // namespace pe::model

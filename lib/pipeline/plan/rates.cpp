#include "pipeline/plan/rates.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "pipeline/plan/cost.h"
#include "support/text.h"

namespace pe::pipeline {

double middle_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

namespace {

constexpr std::size_t kMostCompared = 32;  // configs of earlier tasks, the newest

Json read(std::string_view config) { return Json::from_cbor(config.begin(), config.end(), true, false); }

/// "bf16 avx2", from a task's config; on a GPU "bf16". Empty where the config does not say.
std::string arithmetic_in(const Json& config, bool on_gpu) {
  const auto compute = config.find("compute");
  if (compute == config.end() || !compute->is_object()) return "";
  const std::string precision = compute->value("dtype", "");
  return on_gpu ? precision : support::cat(precision, " ", compute->value("isa", ""));
}

/// Facts from the config in the key of an earlier task.
struct ConfigFacts {
  std::optional<double> tokens;  // to train on; of a trajectory, in a step. None: they depend on the inputs
  std::string arithmetic;
};

ConfigFacts facts_in_config(const StageDescription& stage, const PastTask& task) {
  if (task.config.empty()) return {};
  const Json config = read(task.config);
  ConfigFacts facts{.arithmetic = arithmetic_in(config, task.gpus > 0)};
  if (task.key.is_snapshot()) {
    facts.tokens = tokens_per_step(stage, config);
  } else if (const auto cost = stage.costs.find("tokens"); cost != stage.costs.end() && cost->is_string()) {
    facts.tokens = evaluate_expression(cost->get<std::string>(), config);
  }
  if (facts.tokens && *facts.tokens <= 0) facts.tokens.reset();
  return facts;
}

/// The same config except for names, seeds, and numbers of the same size.
bool similar_values(const Json& a, const Json& b) {
  if (a.is_number() && b.is_number()) {
    const double x = a.get<double>(), y = b.get<double>();
    return x == y || near(x, y);
  }
  if (!a.is_object() || !b.is_object()) return a == b;
  if (a.size() != b.size()) return false;
  for (const auto& [key, value] : a.items()) {
    const auto other = b.find(key);
    if (other == b.end()) return false;
    if (key == "seed" || key == "title" || key == "labels" || key == "left_out") continue;
    if (!similar_values(value, *other)) return false;
  }
  return true;
}

}  // namespace

bool near(double a, double b) { return a > 0 && b > 0 && a <= kNear * b && b <= kNear * a; }

Rates::Rates(const StageDescription& stage, const std::vector<PastTask>& past)
    : stage_(stage.name), has_model_(stage.costs.contains("parameters")) {
  // Earlier tasks share their configs; a trajectory may have the config of a task.
  std::map<std::tuple<const char*, bool, bool>, ConfigFacts> facts_of;
  using Kind = std::tuple<std::string, std::int64_t, std::string_view, std::string, std::string_view, double, double,
                          std::string_view>;
  std::map<Kind, std::size_t> places;
  for (const PastTask& task : past) {
    if (task.expected_s > 0 && task.wall_s > 0 && !task.key.is_snapshot())
      errors.push_back(std::abs(std::log(task.wall_s / task.expected_s)));
    if (task.wall_s <= 0 || (task.key.is_snapshot() && task.key.step == 0)) continue;
    const auto [it, fresh] = facts_of.try_emplace({task.config.data(), task.key.is_snapshot(), task.gpus > 0});
    if (fresh) it->second = facts_in_config(stage, task);
    const std::string& arithmetic = it->second.arithmetic;
    std::optional<double> tokens = it->second.tokens;
    if (tokens && task.key.is_snapshot()) *tokens *= static_cast<double>(task.key.step);
    if (task.tokens > 0 && !task.key.is_snapshot()) tokens = task.tokens;
    // Tokens and size say all that a config would.
    const bool known = tokens && (!has_model_ || task.parameters > 0);
    const std::string_view config = known ? std::string_view() : task.config;
    const auto add = [&](const std::string& name) {
      std::vector<Alike>& all = by_name_[name];
      const auto [place, first] = places.try_emplace(
          Kind{name, task.gpus, task.device, arithmetic, task.encoding, task.parameters, task.flops, config},
          all.size());
      if (first) {
        Alike alike;
        alike.gpus = task.gpus;
        alike.device = task.device;
        alike.arithmetic = arithmetic;
        alike.encoding = task.encoding;
        alike.parameters = task.parameters;
        alike.flops = task.flops;
        alike.config = config;
        all.push_back(std::move(alike));
      }
      Alike& alike = all[place->second];
      alike.seconds.push_back(task.wall_s);
      alike.bytes.push_back(static_cast<double>(task.bytes));
      if (tokens) alike.per_token.push_back(task.wall_s / *tokens);
      alike.newest = std::max(alike.newest, task.ended);
    };
    add(std::string(task.id));
    const std::string_view label = task.id.substr(0, task.id.find('['));
    if (label != task.id) add(std::string(label) + "[");
    add("");
  }
}

bool Rates::similar(Alike& alike, const Work& work) {
  if (alike.config == work.config) return true;
  const auto [known, fresh] = similar_.try_emplace({&alike, work.config.data()});
  if (!fresh) return known->second;
  if (alike.values.is_null()) alike.values = read(alike.config);
  return known->second = similar_values(alike.values, config_of(work));
}

const Json& Rates::config_of(const Work& work) {
  const auto [mine, unread] = configs_.try_emplace(work.config);
  if (unread) mine->second = read(work.config);
  return mine->second;
}

bool Rates::fits(Alike& alike, const Work& work, bool any_encoding) {
  if (alike.gpus != work.gpus) return false;
  if (!alike.device.empty() && !work.device.empty() && alike.device != work.device) return false;
  if (!alike.arithmetic.empty()) {
    const std::string mine = arithmetic_in(config_of(work), work.gpus > 0);
    if (!mine.empty() && mine != alike.arithmetic) return false;
  }
  if (has_model_) {
    const bool sized = alike.parameters > 0 && work.parameters;
    if (!sized) return alike.config == work.config;
    if (!any_encoding && alike.encoding != work.encoding) return false;
    if (!near(alike.parameters, *work.parameters)) return false;
  }
  return (work.tokens && !alike.per_token.empty()) || similar(alike, work);
}

std::optional<Rates::Rate> Rates::find(const std::string& id, const std::string& label, const Work& work,
                                       bool any_encoding) {
  const auto distance = [&](const Alike& alike) {
    return work.parameters && alike.parameters > 0 ? std::abs(std::log(*work.parameters / alike.parameters)) : 0;
  };
  for (const std::string& name : {id, label + "[", std::string()}) {
    const auto found = by_name_.find(name);
    if (found == by_name_.end()) continue;
    Alike* best = nullptr;
    std::size_t compared = 0;
    for (auto alike = found->second.rbegin(); alike != found->second.rend(); ++alike) {
      if (!alike->config.empty() && alike->config != work.config && ++compared > kMostCompared) continue;
      if (!fits(*alike, work, any_encoding)) continue;
      // The nearest in size; of several devices the one of the newest result.
      if (!best || std::pair(-distance(*alike), alike->newest) > std::pair(-distance(*best), best->newest))
        best = &*alike;
    }
    if (!best) continue;
    Rate known;
    double scale = 1;
    if (work.flops && best->flops > 0)
      scale = *work.flops / best->flops;
    else if (work.parameters && best->parameters > 0)
      scale = *work.parameters / best->parameters;
    known.seconds = scale * (work.tokens && !best->per_token.empty() ? middle_of(best->per_token) * *work.tokens
                                                                     : middle_of(best->seconds));
    known.bytes = middle_of(best->bytes);
    known.source = support::cat("runs of pe-", stage_, best->device.empty() ? "" : " on ", best->device);
    return known;
  }
  return std::nullopt;
}

}  // namespace pe::pipeline

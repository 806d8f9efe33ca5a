#include "pipeline/plan/rates.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "pipeline/plan/cost.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

constexpr std::size_t kMostCompared = 32;  // configs of earlier tasks, the newest

double middle_of(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Tokens that an earlier task, or a step of a trajectory, trained on, from the config in its key. Nothing where that
/// is not enough, as for a task whose tokens depend on its inputs.
std::optional<double> tokens_in_config(const StageDescription& stage, const PastTask& task) {
  if (task.config.empty()) return std::nullopt;
  const Json config = Json::from_cbor(task.config.begin(), task.config.end(), true, false);
  std::optional<double> tokens;
  if (task.key.is_snapshot()) {
    tokens = tokens_per_step(stage, config);
  } else if (const auto cost = stage.costs.find("tokens"); cost != stage.costs.end() && cost->is_string()) {
    tokens = evaluate_expression(cost->get<std::string>(), config);
  }
  return tokens && *tokens > 0 ? tokens : std::nullopt;
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
  std::map<std::pair<const char*, bool>, std::optional<double>> tokens_of;
  using Kind =
      std::tuple<std::string, std::int64_t, std::string_view, std::string_view, double, double, std::string_view>;
  std::map<Kind, std::size_t> places;
  for (const PastTask& task : past) {
    if (task.expected_s > 0 && task.wall_s > 0 && !task.key.is_snapshot())
      errors.push_back(std::abs(std::log(task.wall_s / task.expected_s)));
    if (task.wall_s <= 0 || (task.key.is_snapshot() && task.key.step == 0)) continue;
    const auto [it, fresh] = tokens_of.try_emplace({task.config.data(), task.key.is_snapshot()});
    if (fresh) it->second = tokens_in_config(stage, task);
    std::optional<double> tokens = it->second;
    if (tokens && task.key.is_snapshot()) *tokens *= static_cast<double>(task.key.step);
    if (task.tokens > 0 && !task.key.is_snapshot()) tokens = task.tokens;
    // Tokens and size say all that a config would.
    const bool known = tokens && (!has_model_ || task.parameters > 0);
    const std::string_view config = known ? std::string_view() : task.config;
    const auto add = [&](const std::string& name) {
      std::vector<Alike>& all = by_name_[name];
      const auto [place, first] = places.try_emplace(
          Kind{name, task.gpus, task.device, task.encoding, task.parameters, task.flops, config}, all.size());
      if (first) {
        Alike alike;
        alike.gpus = task.gpus;
        alike.device = task.device;
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
  const auto read = [](std::string_view text) { return Json::from_cbor(text.begin(), text.end(), true, false); };
  if (alike.values.is_null()) alike.values = read(alike.config);
  const auto [mine, unread] = configs_.try_emplace(work.config);
  if (unread) mine->second = read(work.config);
  return known->second = similar_values(alike.values, mine->second);
}

bool Rates::fits(Alike& alike, const Work& work, bool any_encoding) {
  if (alike.gpus != work.gpus) return false;
  if (!alike.device.empty() && !work.device.empty() && alike.device != work.device) return false;
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

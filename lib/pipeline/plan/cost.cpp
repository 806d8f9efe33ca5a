#include "pipeline/plan/cost.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "pipeline/file/config_value.h"

namespace pe::pipeline {

namespace {

/// Recursive descent over sums, products and atoms. Once something is wrong, `good_` stays false.
class Evaluator {
 public:
  Evaluator(std::string_view text, const Json& config) : text_(text), config_(config) {}

  std::optional<double> run() {
    const double value = sum();
    skip();
    return good_ && at_ == text_.size() ? std::optional(value) : std::nullopt;
  }

 private:
  static constexpr int kDeepest = 64;

  void skip() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(char wanted) {
    skip();
    if (at_ >= text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  double sum() {
    double value = product();
    while (good_) {
      if (take('+'))
        value += product();
      else if (take('-'))
        value -= product();
      else
        break;
    }
    return value;
  }
  double product() {
    double value = atom();
    while (good_) {
      if (take('*'))
        value *= atom();
      else if (take('/'))
        value /= atom();
      else
        break;
    }
    return value;
  }
  double atom() {
    skip();
    if (take('(')) {
      if (++depth_ > kDeepest) good_ = false;
      const double value = good_ ? sum() : 0;
      --depth_;
      if (!take(')')) good_ = false;
      return value;
    }
    std::size_t end = at_;
    if (end < text_.size() && std::isdigit(static_cast<unsigned char>(text_[end]))) {
      double value = 0;
      const auto result = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
      good_ = good_ && result.ec == std::errc{};
      at_ = static_cast<std::size_t>(result.ptr - text_.data());
      return value;
    }
    while (end < text_.size() &&
           (std::isalnum(static_cast<unsigned char>(text_[end])) || text_[end] == '_' || text_[end] == '.'))
      ++end;
    const Json* value = end > at_ ? find_value(config_, text_.substr(at_, end - at_)) : nullptr;
    at_ = end;
    if (!value || !value->is_number()) {
      good_ = false;
      return 0;
    }
    return value->get<double>();
  }

  std::string_view text_;
  const Json& config_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool good_ = true;
};

}  // namespace

std::optional<double> evaluate_expression(const std::string& expression, const Json& config) {
  return Evaluator(expression, config).run();
}

std::optional<double> tokens_per_step(const StageDescription& stage, const Json& config) {
  if (!stage.trajectory) return std::nullopt;
  double tokens = 1;
  for (const std::string& key : stage.trajectory->tokens_per_step) {
    const auto factor = evaluate_expression(key, config);
    if (!factor) return std::nullopt;
    tokens *= *factor;
  }
  return tokens;
}

double trajectory_tokens(const Task& task, std::int64_t step) {
  return static_cast<double>(step) * tokens_per_step(*task.stage, *task.config).value_or(0);
}

std::optional<double> own_tokens(const Graph& graph, const Task& task) {
  const auto cost = task.stage->costs.find("tokens");
  if (cost == task.stage->costs.end() || !cost->is_string()) return std::nullopt;
  const auto& expression = cost->get_ref<const std::string&>();
  support::Shared<Json> values = task.config;
  if (expression.find("inputs.") != std::string::npos) {
    for (const Edge& edge : task.inputs) {
      const Task& producer = graph.tasks[edge.producer];
      if (edge.snapshot.empty() || !producer.stage->trajectory) continue;
      for (const SnapshotPoint& point : producer.snapshots) {
        if (point.label == edge.snapshot) values.edit()["inputs"][edge.role]["tokens"] = trajectory_tokens(producer, point.step);
      }
    }
  }
  const auto tokens = evaluate_expression(expression, *values);
  return tokens && *tokens > 0 ? tokens : std::nullopt;
}

std::optional<double> training_tokens(const Graph& graph, const Task& task, const PlannedTask& planned) {
  if (!task.is_trajectory() || !task.stage->trajectory) return own_tokens(graph, task);
  std::int64_t last = 0, there = 0;
  for (std::size_t i = 0; i < task.snapshots.size(); ++i) {
    const bool needed = i >= planned.snapshots.size() || planned.snapshots[i].needed || planned.state == TaskState::kBlocked;
    if (needed) last = std::max(last, task.snapshots[i].step);
  }
  // It goes on from the last snapshot that is there.
  for (const PlannedSnapshot& snapshot : planned.snapshots) {
    if (snapshot.present && snapshot.step < last) there = std::max(there, snapshot.step);
  }
  return trajectory_tokens(task, last - there);
}

}  // namespace pe::pipeline

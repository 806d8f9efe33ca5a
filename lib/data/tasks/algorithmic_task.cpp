#include "data/tasks/algorithmic_task.h"

#include <algorithm>

#include "data/tasks/task_base.h"
#include "support/hash.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::data {

using support::cat;

TaskExample make_example(const AlgorithmicTask& task, std::string_view name, std::uint64_t base_seed, Split split,
                         std::int64_t length, std::int64_t index) {
  support::Xoshiro random(support::make_key({base_seed, support::fnv1a64(name), static_cast<std::uint64_t>(split),
                                             static_cast<std::uint64_t>(length), static_cast<std::uint64_t>(index)}));
  return task.example(random, length, split);
}

TaskChance chance_of(const TaskExample& example, const std::vector<std::int32_t>& all_answers) {
  const std::vector<std::int32_t>& answers = example.candidates.empty() ? all_answers : example.candidates;
  TaskChance chance{1, 0};
  double judged = 0;
  for (std::size_t i = 0; i < example.labels.size(); ++i) {
    if (example.labels[i] == kUnlabelled || (!example.unjudged.empty() && example.unjudged[i] != 0)) continue;
    const bool guessed = std::find(answers.begin(), answers.end(), example.labels[i]) != answers.end();
    const double right = guessed ? 1.0 / static_cast<double>(answers.size()) : 1;
    chance.exact *= right;
    chance.token += right;
    judged += 1;
  }
  if (judged > 0) chance.token /= judged;
  return chance;
}

const std::vector<TaskGenerator>& task_generators() {
  static const std::vector<TaskGenerator> generators = [] {
    std::vector<TaskGenerator> all;
    for (const auto tasks_of_file :
         {addition_tasks, brackets_tasks, chomsky_tasks, length_generalisation_tasks, multi_step_tasks, positions_tasks,
          recall_tasks, scan_tasks, state_tracking_tasks}) {
      for (TaskGenerator& task : tasks_of_file()) all.push_back(std::move(task));
    }
    std::sort(all.begin(), all.end(), [](const TaskGenerator& a, const TaskGenerator& b) { return a.name < b.name; });
    return all;
  }();
  return generators;
}

const TaskGenerator* find_task(std::string_view name) {
  for (const TaskGenerator& generator : task_generators()) {
    if (generator.name == name) return &generator;
  }
  return nullptr;
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const TaskGenerator& generator : task_generators()) names.push_back(generator.name);
  return names;
}

std::vector<support::VariantKind> task_kinds() {
  std::vector<support::VariantKind> kinds;
  for (const TaskGenerator& generator : task_generators()) {
    kinds.push_back({.name = generator.name, .summary = generator.summary, .fields = generator.fields});
  }
  return kinds;
}

ChosenTask choose_task(const Json& value) {
  const std::string name = value.is_string()   ? value.get<std::string>()
                           : value.is_object() ? value.value("kind", "")
                                               : std::string();
  const TaskGenerator* generator = find_task(name);
  if (generator == nullptr) {
    throw support::ConfigError(cat("there is no task ", support::quote(name)), {},
                               support::suggestion(name, task_names()));
  }
  Json options = value.is_object() ? value : Json::object();
  options.erase("kind");
  std::vector<std::string> known;
  for (const support::Field& field : generator->fields) known.push_back(field.name);
  for (const auto& [key, given] : options.items()) {
    const support::Field* field = support::find_field(generator->fields, key);
    if (field == nullptr) {
      throw support::ConfigError(cat("task ", support::quote(name), " has no option ", support::quote(key)), {},
                                 known.empty() ? "it has none" : support::suggestion(key, known));
    }
    if (!given.is_number()) continue;
    const double number = given.get<double>();
    if (field->options.min && number < *field->options.min) {
      throw support::ConfigError(cat("task ", support::quote(name), ": ", key, " is ", given.dump(), ", at least ",
                                     support::shortest(*field->options.min), " is expected"));
    }
    if (field->options.max && number > *field->options.max) {
      throw support::ConfigError(cat("task ", support::quote(name), ": ", key, " is ", given.dump(), ", at most ",
                                     support::shortest(*field->options.max), " is expected"));
    }
  }
  return {name, generator->make(options), generator};
}

}  // namespace pe::data

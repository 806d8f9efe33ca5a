/// @file
/// Algorithmic tasks: generators of examples whose answers are known, at any length. An example depends on its key
/// alone, (base seed, task, split, length, index). It is therefore the same under any number of threads and for every
/// model, and data for training and items of a test come from the same place. One task is a class and a line in the
/// table of its file.
///
///     ids     BOS  input…  SEP  target…  EOS
///     labels   -     -    t_1   t_2…    …          what the model should say after each token; -1 where nothing is
///     asked
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/split.h"
#include "support/config.h"
#include "support/random.h"

namespace pe::data {

/// Ids that all tasks share; symbol s of a task has id kFirstSymbol + s.
constexpr std::int32_t kTaskPad = 0, kTaskBos = 1, kTaskEos = 2, kTaskSep = 3, kFirstSymbol = 4;
/// Where nothing is asked.
constexpr std::int32_t kUnlabelled = -1;

using artifact::Split;

/// Items of tests have this base seed in all runs.
constexpr std::uint64_t kTaskTestSeed = 20260101;

struct TaskExample {
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> labels;    ///< As many as ids; kUnlabelled without a question.
  std::vector<std::uint8_t> unjudged;  ///< As many, or none: labels that count in the loss but not in accuracy.
  std::vector<std::int32_t> distance;  ///< As many, or none: distance to the token that decides a judged label; else 0.
  std::vector<std::int32_t> part;      ///< As many, or none: which part of the whole a label belongs to, 0: none
                                       ///< (AlgorithmicTask::part).
  /// Ids that one who has read the example chooses from; none: the task's answers.
  std::vector<std::int32_t> candidates;
};

/// Score of a guess among a task's answers, format known: the mean over examples of these.
struct TaskChance {
  double exact = 0;
  double token = 0;
};

class AlgorithmicTask {
 public:
  virtual ~AlgorithmicTask() = default;

  virtual void describe(support::FieldVisitor& v) = 0;  ///< the task's options
  /// Names of the symbols, in the order of their ids.
  virtual std::vector<std::string> symbols() const = 0;
  /// Ids that a guesser chooses from; every other label (EOS, commas) is format, which anybody gets right.
  virtual std::vector<std::int32_t> answers() const = 0;
  /// Ids among which a model should give a judged label nearly all of their probability, by distance; empty: it is not
  /// measured so.
  virtual std::vector<std::int32_t> rivals() const { return {}; }
  /// Variable of accuracy in addition to the length, in one word: "steps", "ordinal"; empty: none.
  virtual std::string part() const { return ""; }
  /// Weight of the length in training, relative to the others; 0: there is no such length.
  virtual double weight(std::int64_t length) const { return length >= 1 ? 1 : 0; }
  /// @param length in the task's own terms (symbols, digits, lines, …), with weight > 0
  virtual TaskExample example(support::Xoshiro& random, std::int64_t length, Split split) const = 0;

  std::int64_t vocabulary() const { return kFirstSymbol + static_cast<std::int64_t>(symbols().size()); }
};

/// The example with that key.
TaskExample make_example(const AlgorithmicTask& task, std::string_view name, std::uint64_t base_seed, Split split,
                         std::int64_t length, std::int64_t index);

/// @param answers ids that a guesser chooses from, unless the example has candidates
TaskChance chance_of(const TaskExample& example, const std::vector<std::int32_t>& answers);

struct LengthRange {
  std::int64_t low = 1, high = 1;
};

struct TaskGenerator {
  std::string name;
  std::string summary;      ///< one line: input and output
  std::string reference;    ///< paper, and the section of the specification
  std::string length;       ///< unit of a length: "symbols", "digits of the longer operand"
  LengthRange train, test;  ///< as the source has them
  support::Schema fields;   ///< options
  std::function<std::unique_ptr<AlgorithmicTask>(const Json& options)> make;
};

/// Sorted by name.
const std::vector<TaskGenerator>& task_generators();
const TaskGenerator* find_task(std::string_view name);  ///< null when there is none
std::vector<std::string> task_names();

/// For a config's variant field: `copy_repeat`, or {kind: copy_repeat, alphabet: 26}.
std::vector<support::VariantKind> task_kinds();

/// The task that a config's value names. @throws ConfigError for an unknown name or option.
struct ChosenTask {
  std::string name;
  std::shared_ptr<const AlgorithmicTask> task;
  const TaskGenerator* generator = nullptr;
};
ChosenTask choose_task(const Json& value);

}  // namespace pe::data

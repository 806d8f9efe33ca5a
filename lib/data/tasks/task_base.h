/// @file
/// Common code of the files of this folder. Most tasks are an input and the answer to it:
///
///     class Parity final : public QuestionTask { symbols(), answers(), ask(random, length), answer(input) };
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "data/tasks/algorithmic_task.h"
#include "support/text.h"

namespace pe::data {

using Symbols = std::vector<std::int32_t>;  ///< of a task, from 0

inline std::int32_t draw(support::Xoshiro& random, std::int64_t bound) {
  return static_cast<std::int32_t>(random.below(static_cast<std::uint64_t>(bound)));
}

/// Uniform in [low, high].
inline std::int64_t draw_between(support::Xoshiro& random, std::int64_t low, std::int64_t high) {
  return low + static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(high - low + 1)));
}

inline Symbols draw_many(support::Xoshiro& random, std::int64_t count, std::int64_t bound) {
  Symbols symbols;
  for (std::int64_t i = 0; i < count; ++i) symbols.push_back(draw(random, bound));
  return symbols;
}

inline void append(Symbols& symbols, const Symbols& more) { symbols.insert(symbols.end(), more.begin(), more.end()); }

/// "s0", "s1", …
inline std::vector<std::string> numbered(const std::string& prefix, std::int64_t count) {
  std::vector<std::string> names;
  for (std::int64_t i = 0; i < count; ++i) names.push_back(prefix + std::to_string(i));
  return names;
}

/// "a" to "z"
inline std::vector<std::string> letters() {
  std::vector<std::string> names;
  for (char c = 'a'; c <= 'z'; ++c) names.emplace_back(1, c);
  return names;
}

inline std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Ids of the symbols [begin, end).
inline std::vector<std::int32_t> ids_of(std::int32_t begin, std::int64_t end) {
  std::vector<std::int32_t> ids;
  for (std::int32_t symbol = begin; symbol < end; ++symbol) ids.push_back(kFirstSymbol + symbol);
  return ids;
}

/// Decimal digits as symbols 0 to 9, most significant first.
inline Symbols digits_of(std::int64_t value) {
  Symbols digits;
  for (const char c : std::to_string(value)) digits.push_back(c - '0');
  return digits;
}

/// A digit string of that many digits: one digit may be 0, longer ones do not begin with it. Most significant first.
inline Symbols draw_digits(support::Xoshiro& random, std::int64_t count) {
  Symbols digits = draw_many(random, count, 10);
  if (count > 1) digits[0] = static_cast<std::int32_t>(1 + random.below(9));
  return digits;
}

/// Collects ids and labels.
struct ExampleWriter {
  TaskExample example;
  void id(std::int32_t id, std::int32_t label = kUnlabelled) {
    example.ids.push_back(id);
    example.labels.push_back(label);
  }
  void symbol(std::int32_t symbol) { id(kFirstSymbol + symbol); }
  void symbol(std::int32_t symbol, std::int32_t label) { id(kFirstSymbol + symbol, kFirstSymbol + label); }
  void symbols(const Symbols& all) {
    for (const std::int32_t one : all) symbol(one);
  }
};

/// BOS input SEP target EOS; target and EOS are asked for.
class QuestionTask : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor&) override {}
  virtual Symbols ask(support::Xoshiro& random, std::int64_t length) const = 0;
  virtual Symbols answer(const Symbols& input) const = 0;

  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    const Symbols input = ask(random, length);
    const Symbols target = answer(input);
    ExampleWriter out;
    out.id(kTaskBos);
    out.symbols(input);
    out.id(kTaskSep, target.empty() ? kTaskEos : kFirstSymbol + target[0]);
    for (std::size_t i = 0; i < target.size(); ++i) {
      out.id(kFirstSymbol + target[i], i + 1 < target.size() ? kFirstSymbol + target[i + 1] : kTaskEos);
    }
    out.id(kTaskEos);
    return std::move(out.example);
  }
};

/// Questions about symbols of an alphabet of any size.
class AlphabetTask : public QuestionTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("alphabet", alphabet_, "Symbols to draw from.", {.min = 2, .max = 100000});
  }
  std::vector<std::string> symbols() const override { return numbered("s", alphabet_); }
  std::vector<std::int32_t> answers() const override { return ids_of(0, alphabet_); }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override { return draw_many(random, n, alphabet_); }

 protected:
  explicit AlphabetTask(std::int64_t alphabet) : alphabet_(alphabet) {}
  std::int64_t alphabet_;
};

/// Tasks of Deletang et al. The length of the output follows from the input's. The output comes token by token after
/// the input (`sequence`) or in parallel (`parallel`: input SEP OUT…, where the i-th OUT is labelled with the i-th
/// symbol).
class ChomskyTask : public QuestionTask {
 public:
  enum class Mode { kSequence, kParallel };
  void describe(support::FieldVisitor& v) override {
    v.choice("mode", mode_, {{"sequence", Mode::kSequence}, {"parallel", Mode::kParallel}},
             "The output after the input, or all together at as many OUT tokens, as in the source.");
  }
  virtual std::vector<std::string> own_symbols() const = 0;
  /// Outputs behind this one are no part of accuracy; -1: all are.
  virtual std::int32_t terminator() const { return -1; }

  std::vector<std::string> symbols() const final { return own_symbols() + std::vector<std::string>{"OUT"}; }

  TaskExample example(support::Xoshiro& random, std::int64_t length, Split split) const final {
    support::Xoshiro same = random;
    const Symbols input = ask(same, length);
    const Symbols target = answer(input);
    TaskExample made;
    std::size_t first = 0;  // the first label of the output
    if (mode_ == Mode::kSequence) {
      made = QuestionTask::example(random, length, split);
      first = input.size() + 1;
    } else {
      random = same;
      ExampleWriter out;
      out.symbols(input);
      out.id(kTaskSep);
      const auto filler = static_cast<std::int32_t>(own_symbols().size());
      for (const std::int32_t symbol : target) out.symbol(filler, symbol);
      made = std::move(out.example);
      first = input.size() + 1;
    }
    const auto end = std::find(target.begin(), target.end(), terminator());
    if (end != target.end()) {
      made.unjudged.assign(made.ids.size(), 0);
      const auto judged = static_cast<std::size_t>(end - target.begin()) + 1;
      for (std::size_t i = judged; i < target.size(); ++i) made.unjudged[first + i] = 1;
    }
    return made;
  }

 private:
  Mode mode_ = Mode::kSequence;
};

/// An entry of the table of tasks (TaskGenerator).
template <typename Task>
TaskGenerator task(const std::string& name, std::string summary, std::string reference, std::string length,
                   LengthRange train, LengthRange test) {
  return {name,
          std::move(summary),
          std::move(reference),
          std::move(length),
          train,
          test,
          support::schema_of([](support::FieldVisitor& v) { Task().describe(v); }),
          [name](const Json& options) -> std::unique_ptr<AlgorithmicTask> {
            auto made = std::make_unique<Task>();
            support::bind_config([&](support::FieldVisitor& v) { made->describe(v); }, options, "task '" + name + "'");
            return made;
          }};
}

// The tasks of each file.
std::vector<TaskGenerator> addition_tasks();
std::vector<TaskGenerator> brackets_tasks();
std::vector<TaskGenerator> chomsky_tasks();
std::vector<TaskGenerator> length_generalisation_tasks();
std::vector<TaskGenerator> multi_step_tasks();
std::vector<TaskGenerator> positions_tasks();
std::vector<TaskGenerator> recall_tasks();
std::vector<TaskGenerator> scan_tasks();
std::vector<TaskGenerator> state_tracking_tasks();

}  // namespace pe::data

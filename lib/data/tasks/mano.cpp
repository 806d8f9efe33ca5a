// Expressions in prefix notation modulo 23, without any step written down.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class Mano final : public AlgorithmicTask {
  static constexpr std::int32_t kModulus = 23, kPlus = 23, kMinus = 24, kTimes = 25, kAnswer = 26, kFirstLength = 27;

 public:
  void describe(support::FieldVisitor& v) override {
    v.field("operators", operators_, "Most operators, each number of which has a symbol.", {.min = 1, .max = 1024});
  }
  std::vector<std::string> symbols() const override {
    std::vector<std::string> lengths;
    for (std::int64_t n = 1; n <= operators_; ++n) lengths.push_back(support::cat("LEN_", n));
    return numbered("", kModulus) + std::vector<std::string>{"+", "-", "*", "ANS"} + lengths;
  }
  std::vector<std::int32_t> answers() const override { return ids_of(0, kModulus); }
  double weight(std::int64_t n) const override { return n >= 1 && n <= operators_ ? 1 : 0; }

  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    out.id(kTaskBos);
    out.symbol(kFirstLength + static_cast<std::int32_t>(length) - 1);
    const std::int32_t value = expression(random, length, out);
    out.symbol(kAnswer, value);
    out.symbol(value);
    return std::move(out.example);
  }

 private:
  /// Writes one with so many operators, and says its value.
  static std::int32_t expression(support::Xoshiro& random, std::int64_t operators, ExampleWriter& out) {
    if (operators == 0) {
      const std::int32_t leaf = draw(random, kModulus);
      out.symbol(leaf);
      return leaf;
    }
    const std::int32_t operation = draw(random, 3);
    const std::int64_t left_operators = draw(random, operators);
    out.symbol(kPlus + operation);
    const std::int32_t left = expression(random, left_operators, out);
    const std::int32_t right = expression(random, operators - 1 - left_operators, out);
    const std::int32_t value = operation == 0 ? left + right : operation == 1 ? left - right : left * right;
    return ((value % kModulus) + kModulus) % kModulus;
  }

  std::int64_t operators_ = 10;
};

}  // namespace

TaskGenerator mano_task() {
  return task<Mano>(
      {.name = "mano",
       .summary = "LEN_3, an expression in prefix notation with that many operators, ANS; its value modulo 23.",
       .reference = "Allen-Zhu 2025 (Physics of Language Models 4.1), arXiv:2512.17351",
       .length = "operators",
       .train = {1, 10},
       .test = {10, 10}});
}

}  // namespace pe::data

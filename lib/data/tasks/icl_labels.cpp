// Labels learned from examples in the context: a label that is new in each text names the class of an input.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

constexpr std::int32_t kInputs = 64, kLabels = 16, kEach = 8, kWidth = 3, kLabelMark = kInputs + kLabels;

class IclLabels final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("classes", classes_, "Classes of an example, of 8 symbols each.", {.min = 2, .max = kInputs / kEach});
  }
  std::vector<std::string> symbols() const override {
    return numbered("x", kInputs) + numbered("y", kLabels) + std::vector<std::string>{"LAB"};
  }
  std::vector<std::int32_t> answers() const override { return ids_of(kInputs, kInputs + kLabels); }

  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    const auto k = static_cast<std::uint64_t>(classes_);
    const std::vector<std::uint64_t> inputs = random.sample(kInputs, kEach * k), labels = random.sample(kLabels, k);
    std::vector<bool> shown(kInputs, false);
    const auto draw_input = [&](std::uint64_t of) {
      Symbols input;
      for (int i = 0; i < kWidth; ++i)
        input.push_back(static_cast<std::int32_t>(inputs[kEach * of + random.below(kEach)]));
      return input;
    };
    const auto label_of = [&](std::uint64_t of) { return kInputs + static_cast<std::int32_t>(labels[of]); };
    ExampleWriter out;
    out.id(kTaskBos);
    for (std::int64_t shot = 0; shot < length; ++shot) {
      const std::uint64_t of = random.below(k);
      const Symbols input = draw_input(of);
      for (const std::int32_t symbol : input) shown[static_cast<std::size_t>(symbol)] = true;
      out.symbols(input);
      out.symbols({kLabelMark, label_of(of)});
    }
    for (;;) {
      const std::uint64_t of = random.below(k);
      const Symbols input = draw_input(of);
      const bool known =
          std::all_of(input.begin(), input.end(), [&](std::int32_t s) { return shown[static_cast<std::size_t>(s)]; });
      if (!known) continue;
      out.symbols(input);
      out.symbol(kLabelMark, label_of(of));
      break;
    }
    for (const std::uint64_t label : labels)
      out.example.candidates.push_back(kFirstSymbol + kInputs + static_cast<std::int32_t>(label));
    return std::move(out.example);
  }

 private:
  std::int64_t classes_ = 4;
};

}  // namespace

TaskGenerator icl_labels_task() {
  return task<IclLabels>(
      {.name = "icl_labels",
       .summary = "Shots x x x LAB y, x of one of four classes, y its label in this text; then x x x LAB; y.",
       .reference = "Yen et al. 2024 (HELMET), arXiv:2410.02694, as symbols",
       .length = "shots",
       .train = {4, 16},
       .test = {17, 256}});
}

}  // namespace pe::data

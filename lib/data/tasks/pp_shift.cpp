// Another task of the suite after random blanks: does the answer depend on its position?
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class ShiftedTask final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("of", of_, "pp_nth, pp_order, pp_dist, pp_index or pp_back.");
    v.field("blanks", blanks_, "Most blanks before the content.", {.unit = "tokens", .min = 0, .max = 100000});
    const std::vector<std::string> known = {"pp_nth", "pp_order", "pp_dist", "pp_index", "pp_back"};
    v.check(std::find(known.begin(), known.end(), of_) != known.end(),
            support::cat("pp_shift shifts pp_nth, pp_order, pp_dist, pp_index or pp_back, not '", of_, "'"));
  }
  std::vector<std::string> symbols() const override { return below()->symbols() + std::vector<std::string>{"_"}; }
  std::vector<std::int32_t> answers() const override { return below()->answers(); }
  double weight(std::int64_t n) const override { return below()->weight(n); }
  TaskExample example(support::Xoshiro& random, std::int64_t n, Split split) const override {
    const std::unique_ptr<AlgorithmicTask> task = below();
    const auto blanks = random.below(static_cast<std::uint64_t>(blanks_) + 1);
    TaskExample made = task->example(random, n, split);
    const auto blank = kFirstSymbol + static_cast<std::int32_t>(task->symbols().size());
    made.ids.insert(made.ids.begin() + 1, blanks, blank);
    made.labels.insert(made.labels.begin() + 1, blanks, kUnlabelled);
    return made;
  }

 private:
  std::unique_ptr<AlgorithmicTask> below() const { return find_task(of_)->make(Json::object()); }
  std::string of_ = "pp_dist";
  std::int64_t blanks_ = 64;
};

}  // namespace

TaskGenerator pp_shift_task() {
  return task<ShiftedTask>({.name = "pp_shift",
                            .summary = "Another task of this suite behind up to 64 blanks; its answer.",
                            .reference = "E 3.9",
                            .length = "symbols",
                            .train = {8, 64},
                            .test = {65, 256}});
}

}  // namespace pe::data

// Several needles with the same key, distinguished by their order alone.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class NthOfAlike final : public AlgorithmicTask {
  static constexpr std::int32_t kFillers = 32, kKeys = 64, kValues = 64, kOrdinals = 8;
  static constexpr std::int32_t kFirstKey = kFillers, kFirstValue = kFirstKey + kKeys,
                                kFirstOrdinal = kFirstValue + kValues, kMark = kFirstOrdinal + kOrdinals,
                                kAsk = kMark + 1;

 public:
  void describe(support::FieldVisitor& v) override {
    v.field("alike", alike_, "Most needles with the key that is asked for; at least 2.", {.min = 2, .max = kOrdinals});
    v.field("others", others_, "Needles with other keys.", {.min = 0, .max = kKeys - 1});
    v.field("from_end", from_end_, "Count from the last one back.");
  }
  std::vector<std::string> symbols() const override {
    std::vector<std::string> ordinals;
    for (int n = 1; n <= kOrdinals; ++n) ordinals.push_back(support::cat("o", n));
    return numbered("f", kFillers) + numbered("k", kKeys) + numbered("v", kValues) + ordinals +
           std::vector<std::string>{"KEY", "ASK"};
  }
  std::vector<std::int32_t> answers() const override { return ids_of(kFirstValue, kFirstOrdinal); }
  double weight(std::int64_t n) const override { return n >= 4 + 3 * (alike_ + others_) ? 1 : 0; }
  std::string part() const override { return "ordinal"; }

  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    const std::int32_t key = draw(random, kKeys);
    const auto alike = static_cast<std::size_t>(2 + draw(random, alike_ - 1)),
               others = static_cast<std::size_t>(others_);
    std::vector<std::int32_t> keys(alike, key), values;
    for (const std::uint64_t value : random.sample(kValues, alike)) values.push_back(static_cast<std::int32_t>(value));
    for (const std::uint64_t other : random.sample(kKeys - 1, others)) {  // all keys but the one
      keys.push_back(static_cast<std::int32_t>(other) + (static_cast<std::int32_t>(other) >= key ? 1 : 0));
    }
    append(values, draw_many(random, others_, kValues));

    const std::int64_t filler = length - 4 - 3 * static_cast<std::int64_t>(keys.size());
    const auto slots = static_cast<std::size_t>(filler) + keys.size();
    std::vector<int> needle(slots, -1);
    const std::vector<std::uint64_t> places = random.sample(slots, keys.size());
    for (std::size_t i = 0; i < places.size(); ++i) needle[places[i]] = static_cast<int>(i);

    ExampleWriter out;
    out.id(kTaskBos);
    std::vector<std::int32_t> in_order;  // values of the key
    for (const int i : needle) {
      if (i < 0) {
        out.symbol(draw(random, kFillers));
        continue;
      }
      const auto at = static_cast<std::size_t>(i);
      out.symbols({kMark, kFirstKey + keys[at], kFirstValue + values[at]});
      if (at < alike) in_order.push_back(values[at]);
    }
    const std::size_t asked = random.below(alike);
    const std::int32_t answer = from_end_ ? in_order[alike - 1 - asked] : in_order[asked];
    out.symbols({kAsk, kFirstKey + key});
    out.symbol(kFirstOrdinal + static_cast<std::int32_t>(asked), kFirstValue + answer);
    out.example.part.assign(out.example.ids.size(), 0);
    out.example.part.back() = static_cast<std::int32_t>(asked) + 1;
    return std::move(out.example);
  }

 private:
  std::int64_t alike_ = 8, others_ = 4;
  bool from_end_ = false;
};

}  // namespace

TaskGenerator nth_of_alike_task() {
  return task<NthOfAlike>(
      {.name = "nth_of_alike",
       .summary = "Filler with needles KEY k v, several of one key, then ASK k o3; the third one's v.",
       .reference = "Vodrahalli et al. 2024 (MRCR), arXiv:2409.12640, as tokens",
       .length = "tokens",
       .train = {40, 128},
       .test = {129, 2048}});
}

}  // namespace pe::data

// The letter so many places from another one.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

class IndirectIndex final : public QuestionTask {
  enum : std::int32_t { kComma = 10, kPlus, kMinus, kLetters };  // digits first

 public:
  void describe(support::FieldVisitor& v) override {
    v.field("letters", letters_, "Letters to draw from, none twice.", {.min = 2, .max = 52});
    v.field("max_shift", max_shift_, "Largest distance.", {.unit = "places", .min = 1, .max = 51});
    v.field("allow_zero", allow_zero_, "A shift of 0 may be asked for, as in the source.");
  }
  std::vector<std::string> symbols() const override {
    std::vector<std::string> names = numbered("", 10) + std::vector<std::string>{",", "+", "-"};
    for (char c = 'a'; c <= 'z'; ++c) names.emplace_back(1, c);
    for (char c = 'A'; c <= 'Z'; ++c) names.emplace_back(1, c);
    return names;
  }
  std::vector<std::int32_t> answers() const override { return ids_of(kLetters, kLetters + letters_); }
  double weight(std::int64_t n) const override { return n >= 2 && n <= letters_ ? 1 : 0; }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    Symbols input;
    for (const std::uint64_t letter :
         random.sample(static_cast<std::uint64_t>(letters_), static_cast<std::uint64_t>(n))) {
      input.push_back(kLetters + static_cast<std::int32_t>(letter));
    }
    const std::int64_t source = draw(random, n);
    const std::int64_t low = std::max(-max_shift_, -source), high = std::min(max_shift_, n - 1 - source);
    std::int64_t shift = draw_between(random, low, allow_zero_ ? high : high - 1);
    if (!allow_zero_ && shift >= 0) ++shift;
    const std::int32_t letter = input[static_cast<std::size_t>(source)];
    append(input, {kComma, letter, kComma, shift < 0 ? kMinus : kPlus});
    append(input, digits_of(shift < 0 ? -shift : shift));
    input.push_back(kComma);
    return input;
  }
  Symbols answer(const Symbols& input) const override {
    const auto comma = std::find(input.begin(), input.end(), kComma);
    const auto source = std::find(input.begin(), comma, comma[1]);
    std::ptrdiff_t shift = 0;
    for (auto digit = comma + 4; *digit != kComma; ++digit) shift = shift * 10 + *digit;
    return {source[comma[3] == kMinus ? -shift : shift]};
  }

 private:
  std::int64_t letters_ = 52, max_shift_ = 15;
  bool allow_zero_ = false;
};

}  // namespace

TaskGenerator indirect_index_task() {
  return task<IndirectIndex>({.name = "indirect_index",
                              .summary = "string , letter , shift , ; the letter that stands so far from it.",
                              .reference = "PoPE, arXiv:2509.10534; E 3.5",
                              .length = "letters of the string",
                              .train = {20, 40},
                              .test = {20, 40}});
}

}  // namespace pe::data

// Addition with index hints: every digit follows the letter of its place, from the least significant on.
#include "data/tasks/addition.h"

namespace pe::data {

namespace {

constexpr std::int32_t kLetters = 11;

std::vector<std::string> letters() {
  std::vector<std::string> names;
  for (char c = 'a'; c <= 'z' + 1; ++c) names.emplace_back(c <= 'z' ? std::string(1, c) : "aa");
  return names;
}

class IndexedAddition final : public Addition {
 public:
  std::vector<std::string> symbols() const override { return Addition::symbols() + letters(); }
  double weight(std::int64_t n) const override { return n <= 26 ? Addition::weight(n) : 0; }

 private:
  Symbols written(Symbols digits, std::int64_t) const override {
    Symbols all;
    for (std::size_t i = 0; i < digits.size(); ++i) {
      all.push_back(kLetters + static_cast<std::int32_t>(digits.size() - 1 - i));
      all.push_back(digits[i]);
    }
    return all;
  }
  Symbols read(Symbols written) const override {
    Symbols digits;
    for (std::size_t i = 1; i < written.size(); i += 2) digits.push_back(written[i]);
    return digits;
  }
};

}  // namespace

TaskGenerator add_index_task() {
  return task<IndexedAddition>({.name = "add_index",
                                .summary =
                                    "Letter digit letter digit … + …, and the sum in the same form. Letters name "
                                    "places: a is the place of ones.",
                                .reference = "E 3.10",
                                .length = "digits of the longer operand",
                                .train = {1, 8},
                                .test = {9, 16}});
}

}  // namespace pe::data

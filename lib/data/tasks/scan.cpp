// SCAN, whole: 34 phrases, each also two or three times, alone or two of them with `and` or `after`: 20,910 commands.
#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

const std::vector<std::string> kWords = {"walk",     "look",   "run",   "jump",      "turn",      "left",  "right",
                                         "opposite", "around", "twice", "thrice",    "and",       "after", "WALK",
                                         "LOOK",     "RUN",    "JUMP",  "TURN_LEFT", "TURN_RIGHT"};
enum : std::int32_t { kTurn = 4, kLeft, kRight, kOpposite, kAround, kTwice, kThrice, kAnd, kAfter, kActions };

std::int32_t turn_to(std::int32_t direction) { return kActions + 4 + (direction - kLeft); }

/// Actions of a phrase of at most four words.
Symbols actions_of(const Symbols& words) {
  Symbols body = words;
  std::int32_t times = 1;
  if (body.back() == kTwice || body.back() == kThrice) {
    times = body.back() == kTwice ? 2 : 3;
    body.pop_back();
  }
  Symbols once;
  const bool moves = body[0] != kTurn;
  const std::int32_t act = kActions + body[0];
  if (body.size() == 1) {
    once = {act};
  } else {
    const std::int32_t turn = turn_to(body.back());
    if (body.size() == 2)
      once = {turn};
    else if (body[1] == kOpposite)
      once = {turn, turn};
    const int around = body.size() == 3 && body[1] == kAround ? 4 : 1;
    if (around == 4) once = {turn};
    if (moves) once.push_back(act);
    if (around == 4) {
      const Symbols quarter = once;
      once.clear();
      for (int i = 0; i < 4; ++i) append(once, quarter);
    }
  }
  Symbols all;
  for (std::int32_t i = 0; i < times; ++i) append(all, once);
  return all;
}

Symbols actions_of_command(const Symbols& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i] != kAnd && words[i] != kAfter) continue;
    const auto joint = words.begin() + static_cast<std::ptrdiff_t>(i);
    Symbols first = actions_of({words.begin(), joint}), second = actions_of({joint + 1, words.end()});
    if (words[i] == kAfter) std::swap(first, second);
    append(first, second);
    return first;
  }
  return actions_of(words);
}

/// Commands by the number of their actions.
const std::vector<std::vector<Symbols>>& commands() {
  static const std::vector<std::vector<Symbols>> all = [] {
    std::vector<Symbols> phrases;
    for (std::int32_t verb = 0; verb <= kTurn; ++verb) {
      if (verb != kTurn) phrases.push_back({verb});
      for (const std::int32_t direction : {kLeft, kRight}) {
        phrases.push_back({verb, direction});
        phrases.push_back({verb, kOpposite, direction});
        phrases.push_back({verb, kAround, direction});
      }
    }
    const std::size_t once = phrases.size();
    for (const std::int32_t times : {kTwice, kThrice}) {
      for (std::size_t i = 0; i < once; ++i) {
        phrases.push_back(phrases[i]);
        phrases.back().push_back(times);
      }
    }
    std::vector<std::vector<Symbols>> by_actions(49);
    const auto add = [&](const Symbols& command) { by_actions[actions_of_command(command).size()].push_back(command); };
    for (const Symbols& phrase : phrases) add(phrase);
    for (const std::int32_t joint : {kAnd, kAfter}) {
      for (const Symbols& a : phrases) {
        for (const Symbols& b : phrases) {
          Symbols command = a;
          command.push_back(joint);
          append(command, b);
          add(command);
        }
      }
    }
    return by_actions;
  }();
  return all;
}

class Scan final : public QuestionTask {
 public:
  std::vector<std::string> symbols() const override { return kWords; }
  std::vector<std::int32_t> answers() const override { return ids_of(kActions, kActions + 6); }
  /// How many commands have so many actions.
  double weight(std::int64_t n) const override {
    const auto& all = commands();
    return n >= 1 && n < static_cast<std::int64_t>(all.size())
               ? static_cast<double>(all[static_cast<std::size_t>(n)].size())
               : 0;
  }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    const std::vector<Symbols>& of = commands()[static_cast<std::size_t>(n)];
    return of[random.below(of.size())];
  }
  Symbols answer(const Symbols& input) const override { return actions_of_command(input); }
};

}  // namespace

std::vector<TaskGenerator> scan_tasks() {
  return {
      task<Scan>("scan", "A command in words; its actions.",
                 "Lake and Baroni 2018, arXiv:1711.00350; length splits of Kazemnejad et al.; E 3.2.1", "actions",
                 {1, 25}, {26, 48}),
  };
}

}  // namespace pe::data

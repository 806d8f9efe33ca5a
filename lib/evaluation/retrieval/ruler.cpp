// A small RULER: several keys, values or queries, chains of variables, common words. Values have five digits, so that
// small models have a chance; answers are asked for in a stated order, so that they can be scored teacher-forced.
#include "evaluation/retrieval/retrieval_scoring.h"

#include <algorithm>

#include "support/hash.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

const std::vector<std::string>& ruler_names() {
  static const std::vector<std::string> names = {"single_filler", "single",     "multikey",  "multikey_needles",
                                                 "multivalue",    "multiquery", "variables", "common_words"};
  return names;
}

/// Lines about other things, drawn again for each item: a haystack of nothing but needles.
class NeedleHaystack final : public Haystack {
 public:
  NeedleHaystack(const TextCodec& codec, const NumberSource& numbers) : codec_(codec), numbers_(numbers) {
    const auto newline = codec.encode_inside("\n");
    if (!newline.empty()) newline_ = newline.back();
  }
  void avoid(std::vector<std::string> things) { avoid_ = std::move(things); }
  std::vector<std::int32_t> read(support::Xoshiro& random, std::int64_t wanted) const override {
    std::vector<std::int32_t> ids;
    while (static_cast<std::int64_t>(ids.size()) < wanted) {
      const std::string thing = adjectives()[random.below(64)] + " " + nouns()[random.below(64)];
      if (std::find(avoid_.begin(), avoid_.end(), thing) != avoid_.end()) continue;
      const auto line = codec_.encode_inside(cat("The ", thing, " code is ", numbers_.draw(random), ".\n"));
      ids.insert(ids.end(), line.begin(), line.end());
    }
    ids.resize(static_cast<std::size_t>(wanted));
    return ids;
  }
  bool ends_sentence(std::int32_t id) const override { return id == newline_; }

 private:
  const TextCodec& codec_;
  const NumberSource& numbers_;
  std::vector<std::string> avoid_;
  std::int32_t newline_ = -1;
};

class Ruler final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("tasks", tasks_, "Which of them: " + support::join(ruler_names(), ", ") + ".",
            {.neutral = Json(ruler_names())});
    v.field("trials", trials_, "Items at each length.", {.min = 1, .max = 99999, .neutral = Json(20)});
    v.field("keys", keys_, "Keys of multikey and multiquery, values of multivalue.",
            {.min = 2, .max = 32, .neutral = Json(4)});
    v.field("hops", hops_, "Assignments that a chain of variables goes through.",
            {.min = 1, .max = 16, .neutral = Json(4)});
    v.field("candidates", candidates_,
            "Numbers among which a single true one is ranked (S3), itself included; 1 leaves it out.",
            {.min = 1, .max = 1000, .neutral = Json(10)});
    v.check(!tasks_.empty(), "ruler needs at least one of its tasks");
    for (const std::string& name : tasks_) {
      v.check(std::find(ruler_names().begin(), ruler_names().end(), name) != ruler_names().end(),
              cat("unknown task of ruler ", support::quote(name), "; ", support::suggestion(name, ruler_names())));
    }
  }

  void run(TaskContext& context) const override {
    for (const std::string& name : tasks_) run_one(context, name);
  }

 private:
  void run_one(TaskContext& context, const std::string& name) const {
    const std::string task = "ruler_" + name;
    const NumberSource numbers(context.text, 5);
    const DocumentHaystack documents(context.documents, context.text);
    // Around a list of words, filler names none of them.
    const UnitHaystack filler(context.text,
                              name == "common_words" ? "We walk on. Then we walk back.\n" : filler_unit());
    NeedleHaystack needles(context.text, numbers);
    const bool of_needles = name == "multikey_needles";
    const bool of_filler = name == "single_filler" || name == "variables" || name == "common_words";
    const Haystack& haystack = of_needles  ? static_cast<const Haystack&>(needles)
                               : of_filler ? static_cast<const Haystack&>(filler)
                                           : documents;
    const std::string variant = of_needles ? "needles" : of_filler ? "filler" : "documents";
    RetrievalTask about{.name = task, .variant = variant};
    if (!of_needles && !of_filler) about.available = documents.tokens();
    run_retrieval(context, about, [&](std::int64_t length) {
      return items_of_trials(task, length, trials_, [&](support::Xoshiro& random) -> std::optional<RetrievalItem> {
        std::vector<std::string> things;
        const Question question = name == "common_words" ? common_words(context.text, random, length)
                                  : name == "variables"  ? variables(random, numbers)
                                                         : codes(random, numbers, name, things);
        needles.avoid(things);
        auto prompt = build_prompt(context.text, haystack, question, length, random);
        if (!prompt || question.answers.empty()) return std::nullopt;
        return RetrievalItem{.prompt = std::move(*prompt), .others = question.others};  // of several facts, no depth
      });
    });
    context.progress.note(cat(task, " is done"));
  }

  /// Numbers of things: single, multikey, multivalue and multiquery. @param things that are asked for
  Question codes(support::Xoshiro& random, const NumberSource& numbers, const std::string& name,
                 std::vector<std::string>& things) const {
    const bool several = name == "multikey" || name == "multiquery";
    const auto drawn = random.sample(64 * 64, several ? static_cast<std::uint64_t>(keys_) : 1);
    for (const std::uint64_t index : drawn) things.push_back(adjectives()[index / 64] + " " + nouns()[index % 64]);
    const std::size_t count = name == "multivalue" ? static_cast<std::size_t>(keys_) : things.size();
    std::vector<std::string> values;
    const auto fresh = [&] {
      for (;;) {
        std::string number = numbers.draw(random);
        if (std::find(values.begin(), values.end(), number) == values.end()) return number;
      }
    };
    Question question;
    std::vector<double> depths;
    for (std::size_t i = 0; i < count; ++i) depths.push_back(random.uniform());
    std::sort(depths.begin(), depths.end());
    for (std::size_t i = 0; i < count; ++i) {
      values.push_back(fresh());
      const std::string& thing = things[name == "multivalue" ? 0 : i];
      question.facts.push_back(
          {cat(name == "multivalue" ? "A " : "The ", thing, " code is ", values[i], ".\n"), depths[i]});
    }
    if (name == "multivalue") {
      question.question =
          cat("What are the ", count, " codes of the ", things[0], ", in the order of the text? The codes are");
    } else if (name == "multiquery") {
      question.question = cat("What are the codes of the ", support::join(things, ", the "), "? The codes are");
    } else {
      const std::size_t asked = random.below(count);
      for (std::size_t i = 0; i < count; ++i) question.facts[i].decides = i == asked;
      question.question = cat("What is the ", things[asked], " code? The ", things[asked], " code is");
      question.answers = {" " + values[asked]};
      for (std::int64_t i = 1; i < candidates_; ++i) {
        values.push_back(fresh());
        question.others.push_back(" " + values.back());
      }
      return question;
    }
    for (std::size_t i = 0; i < count; ++i) question.answers.push_back(cat(i == 0 ? " " : ", ", values[i]));
    return question;
  }

  /// VAR AAAAA = 12345, VAR BBBBB = VAR AAAAA, …: who has that value?
  Question variables(support::Xoshiro& random, const NumberSource& numbers) const {
    std::vector<std::string> names;
    while (static_cast<std::int64_t>(names.size()) <= hops_) {
      std::string name;
      for (int i = 0; i < 5; ++i) name += static_cast<char>('A' + random.below(26));
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
    const std::string value = numbers.draw(random);
    std::vector<double> depths;
    for (std::size_t i = 0; i < names.size(); ++i) depths.push_back(random.uniform());
    std::sort(depths.begin(), depths.end());
    Question question;
    for (std::size_t i = 0; i < names.size(); ++i) {
      question.facts.push_back({cat("VAR ", names[i], " = ", i == 0 ? value : "VAR " + names[i - 1], "\n"), depths[i]});
      question.answers.push_back(cat(i == 0 ? " " : ", ", names[i]));
    }
    question.question = cat("Which variables have the value ", value, ", in the order of the text? They are");
    return question;
  }

  /// Three words that come ten times as often as the others: the list fills the length.
  Question common_words(const TextCodec& codec, support::Xoshiro& random, std::int64_t length) const {
    constexpr int kCommon = 3, kTimes = 10;
    std::vector<std::string> words = nouns();
    random.shuffle(words);
    std::vector<std::string> common(words.begin(), words.begin() + kCommon);
    std::sort(common.begin(), common.end());
    Question question;
    question.head = "Some of these words come more often than others.\n";
    question.question = cat("The ", kCommon, " words that come most often, in alphabetical order, are");
    for (int i = 0; i < kCommon; ++i)
      question.answers.push_back(cat(i == 0 ? " " : ", ", common[static_cast<std::size_t>(i)]));
    // Ten of each common word to three of each other one, over and over, as long as there is room.
    std::vector<std::string> list;
    const auto text_of = [&](const std::vector<std::string>& all) {
      std::vector<std::string> mixed = all;
      support::Xoshiro order(
          support::make_key({static_cast<std::uint64_t>(length), support::fnv1a64(question.answers[0]), all.size()}));
      order.shuffle(mixed);
      return support::join(mixed, " ") + ".\n";
    };
    for (const std::string& word : common) list.insert(list.end(), kTimes, word);
    question.facts = {{text_of(list), 0}};
    std::int64_t used = fixed_tokens(codec, question);
    if (used > length) return Question{};  // no room for the common words alone
    const auto tokens_of = [&](const std::string& word) {
      return static_cast<std::int64_t>(codec.encode_inside("a " + word).size() - codec.encode_inside("a").size());
    };
    std::vector<std::int64_t> tokens;
    for (const std::string& word : words) tokens.push_back(tokens_of(word));
    const auto add = [&](std::size_t i, int count) {
      for (int time = 0; time < count; ++time) {
        if (used + tokens[i] > length) return false;
        used += tokens[i];
        list.push_back(words[i]);
      }
      return true;
    };
    for (bool room = true; room;) {
      for (int time = 0; time < 3 && room; ++time) {
        for (std::size_t i = kCommon; i < words.size() && room; ++i) room = add(i, 1);
      }
      for (std::size_t i = 0; i < kCommon && room; ++i) room = add(i, kTimes);
    }
    question.facts[0].text = text_of(list);
    // Counted word by word a text may be longer than whole: drop other words until it fits.
    for (auto word = list.rbegin(); fixed_tokens(codec, question) > length && word != list.rend();) {
      if (std::find(common.begin(), common.end(), *word) != common.end()) {
        ++word;
        continue;
      }
      word = std::make_reverse_iterator(list.erase(std::next(word).base()));
      question.facts[0].text = text_of(list);
    }
    return question;
  }

  std::vector<std::string> tasks_ = ruler_names();
  std::int64_t trials_ = 20;
  std::int64_t keys_ = 4;
  std::int64_t hops_ = 4;
  std::int64_t candidates_ = 10;
};

}  // namespace

TaskEntry ruler_task() {
  return {.name = "ruler",
          .summary = "A small RULER: several keys, values and queries, chains of variables, common words.",
          .tables = {"retrieval_trial", "retrieval_summary", "retrieval_ladder"},
          .make = make_task<Ruler>};
}

}  // namespace pe::evaluation

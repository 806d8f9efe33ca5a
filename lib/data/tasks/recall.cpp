// Something that was said before has to be found (E 3.6).
#include <cmath>

#include "data/tasks/task_base.h"

namespace pe::data {

namespace {

enum : std::int32_t { kDollar = 26, kBar, kStop };

/// Copying as strings: whole, or what follows an n-gram that occurs once.
class CopyLm final : public QuestionTask {
 public:
  enum class Variant { kCopy, kPrefix, kSuffix };
  void describe(support::FieldVisitor& v) override {
    v.choice("variant", variant_,
             {{"copy", Variant::kCopy}, {"prefix", Variant::kPrefix}, {"suffix", Variant::kSuffix}},
             "The string again; what follows an n-gram named before it; or behind it.");
    v.field("ngram", ngram_, "Letters of the n-gram.", {.unit = "letters", .min = 1, .max = 20});
    v.field("answer", answer_, "Largest number of letters after the n-gram.",
            {.unit = "letters", .min = 1, .max = 1000});
  }
  std::vector<std::string> symbols() const override { return letters() + std::vector<std::string>{"$", "|", "."}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 26); }
  double weight(std::int64_t n) const override {
    if (variant_ == Variant::kCopy) return n > 0 ? 1 : 0;
    // In a longer text hardly any n-gram occurs only once.
    const double longest = 6 * std::pow(26.0, static_cast<double>(ngram_));
    return n > ngram_ && static_cast<double>(n) <= longest ? 1 : 0;
  }
  Symbols ask(support::Xoshiro& random, std::int64_t n) const override {
    for (;;) {
      const Symbols s = draw_many(random, n, 26);
      Symbols input = {kDollar};
      if (variant_ == Variant::kCopy) {
        append(input, s);
        input.push_back(kBar);
        return input;
      }
      const auto at = s.begin() + static_cast<std::ptrdiff_t>(random.below(static_cast<std::uint64_t>(n - ngram_)));
      const Symbols gram(at, at + ngram_);
      if (std::search(at + 1, s.end(), gram.begin(), gram.end()) != s.end() ||
          std::search(s.begin(), s.end(), gram.begin(), gram.end()) != at) {
        continue;  // it occurs twice
      }
      if (variant_ == Variant::kPrefix) {
        append(input, gram);
        input.push_back(kBar);
        append(input, s);
        input.push_back(kBar);
      } else {
        append(input, s);
        input.push_back(kBar);
        append(input, gram);
      }
      return input;
    }
  }
  Symbols answer(const Symbols& input) const override {
    const auto bar = std::find(input.begin(), input.end(), kBar);
    Symbols target(input.begin() + 1, bar);
    if (variant_ != Variant::kCopy) {
      Symbols s = target, gram(bar + 1, input.end());
      if (variant_ == Variant::kPrefix) {
        gram = target;
        s.assign(bar + 1, input.end() - 1);
      }
      const auto after =
          std::search(s.begin(), s.end(), gram.begin(), gram.end()) + static_cast<std::ptrdiff_t>(gram.size());
      target.assign(after, after + std::min<std::ptrdiff_t>(answer_, s.end() - after));
    }
    target.push_back(kStop);
    return target;
  }

  /// As in the source there is no separator: the input ends with the bar or the n-gram, the answer with a full stop.
  TaskExample example(support::Xoshiro& random, std::int64_t n, Split) const override {
    const Symbols input = ask(random, n), target = answer(input);
    ExampleWriter out;
    for (std::size_t i = 0; i + 1 < input.size(); ++i) out.symbol(input[i]);
    out.symbol(input.back(), target[0]);
    for (std::size_t i = 0; i + 1 < target.size(); ++i) out.symbol(target[i], target[i + 1]);
    out.symbol(target.back());
    return std::move(out.example);
  }

 private:
  Variant variant_ = Variant::kCopy;
  std::int64_t ngram_ = 2, answer_ = 5;
};

/// A marker that occurs once: what followed it?
class InductionHeads final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor&) override {}
  std::vector<std::string> symbols() const override { return numbered("s", 16) + std::vector<std::string>{"MARK"}; }
  std::vector<std::int32_t> answers() const override { return ids_of(0, 16); }
  double weight(std::int64_t n) const override { return n >= 3 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    constexpr std::int32_t kMark = 16;
    Symbols ids = draw_many(random, length, 16);
    const std::size_t place = random.below(static_cast<std::uint64_t>(length - 2));
    ids[place] = kMark;
    const std::int32_t after = ids[place + 1];
    ids.pop_back();
    out.symbols(ids);
    out.symbol(kMark, after);
    return std::move(out.example);
  }
};

/// A random segment twice: the second copy is known.
class RepeatedSegment final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("alphabet", alphabet_, "Symbols to draw from.", {.min = 2, .max = 100000});
  }
  std::vector<std::string> symbols() const override { return numbered("s", alphabet_); }
  std::vector<std::int32_t> answers() const override { return ids_of(0, alphabet_); }
  double weight(std::int64_t m) const override { return m >= 2 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    const Symbols segment = draw_many(random, length, alphabet_);
    out.id(kTaskBos);
    out.symbols(segment);
    for (std::size_t i = 0; i + 1 < segment.size(); ++i) out.symbol(segment[i], segment[i + 1]);
    out.symbol(segment.back());
    return std::move(out.example);
  }

 private:
  std::int64_t alphabet_ = 64;
};

/// Several keys with values, asked for again after gaps that are nearly 1/x.
class AssociativeRecall final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("pairs", pairs_, "Keys with values at the beginning.", {.min = 1, .max = 4096});
    v.field("vocabulary", vocabulary_, "Half of it are keys, half are values.", {.min = 4, .max = 1 << 20});
    v.field("power", power_, "Gaps g are drawn with a weight of (g + 1)^(power - 1); 1 is uniform.",
            {.min = 0, .max = 10});
    v.field("random_others", random_others_, "Random symbols where nothing is asked, rather than symbol 0.");
    v.check(pairs_ <= vocabulary_ / 2 - 1, "there are not as many keys as pairs");
  }
  std::vector<std::string> symbols() const override { return numbered("", vocabulary_); }
  std::vector<std::int32_t> answers() const override {
    return ids_of(static_cast<std::int32_t>(vocabulary_ / 2), vocabulary_);
  }
  double weight(std::int64_t n) const override { return n % 2 == 0 && n >= 4 * pairs_ ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    const auto half = static_cast<std::uint64_t>(vocabulary_ / 2), count = static_cast<std::uint64_t>(pairs_);
    const std::vector<std::uint64_t> keys = random.sample(half - 1, count);  // 1 to V/2 - 1
    const std::vector<std::uint64_t> values = random.sample(static_cast<std::uint64_t>(vocabulary_) - half, count);
    Symbols ids, labels(static_cast<std::size_t>(length), -1);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      append(ids, {static_cast<std::int32_t>(keys[i] + 1), static_cast<std::int32_t>(half + values[i])});
    }
    const std::size_t queries = ids.size();
    while (static_cast<std::int64_t>(ids.size()) < length)
      ids.push_back(random_others_ ? draw(random, vocabulary_) : 0);
    std::vector<double> weights;
    for (std::size_t g = 0; g < (ids.size() - queries) / 2; ++g)
      weights.push_back(std::pow(static_cast<double>(g + 1), power_ - 1));
    for (std::size_t i = 0; i < keys.size(); ++i) {
      double total = 0;
      for (const double weight : weights) total += weight;
      double drawn = random.uniform() * total;
      std::size_t gap = 0, last = 0;
      for (std::size_t g = 0; g < weights.size(); ++g) {
        if (weights[g] == 0) continue;
        last = gap = g;
        drawn -= weights[g];
        if (drawn < 0) break;
      }
      gap = drawn < 0 ? gap : last;
      weights[gap] = 0;  // no slot twice
      ids[queries + 2 * gap] = static_cast<std::int32_t>(keys[i] + 1);
      labels[queries + 2 * gap] = static_cast<std::int32_t>(half + values[i]);
    }
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (labels[i] < 0)
        out.symbol(ids[i]);
      else
        out.symbol(ids[i], labels[i]);
    }
    return std::move(out.example);
  }

 private:
  std::int64_t pairs_ = 4, vocabulary_ = 8192;
  double power_ = 0.01;
  bool random_others_ = false;
};

/// Needles in filler, of tokens alone.
class NeedleTokens final : public AlgorithmicTask {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("needles", needles_, "Keys with values.", {.min = 1, .max = 64});
  }
  std::vector<std::string> symbols() const override {
    return numbered("f", 32) + numbered("k", 64) + numbered("v", 64) + std::vector<std::string>{"KEY"};
  }
  std::vector<std::int32_t> answers() const override { return ids_of(96, 160); }
  double weight(std::int64_t n) const override { return n >= 3 * needles_ + 3 ? 1 : 0; }
  TaskExample example(support::Xoshiro& random, std::int64_t length, Split) const override {
    ExampleWriter out;
    constexpr std::int32_t kKeys = 32, kValues = 96, kMark = 160;
    const auto count = static_cast<std::uint64_t>(needles_);
    const std::int64_t filler = length - 3 * needles_ - 3;
    const std::vector<std::uint64_t> keys = random.sample(64, count), values = random.sample(64, count);
    // Which of the filler and needles that follow each other are needles.
    const std::vector<std::uint64_t> places = random.sample(static_cast<std::uint64_t>(filler) + count, count);
    std::vector<std::int64_t> needle(static_cast<std::size_t>(filler + needles_), -1);
    for (std::size_t i = 0; i < places.size(); ++i) needle[places[i]] = static_cast<std::int64_t>(i);
    out.id(kTaskBos);
    for (const std::int64_t i : needle) {
      if (i < 0) {
        out.symbol(draw(random, 32));
        continue;
      }
      const auto at = static_cast<std::size_t>(i);
      out.symbols(
          {kMark, kKeys + static_cast<std::int32_t>(keys[at]), kValues + static_cast<std::int32_t>(values[at])});
    }
    const std::size_t asked = random.below(count);
    out.symbol(kMark);
    out.symbol(kKeys + static_cast<std::int32_t>(keys[asked]), kValues + static_cast<std::int32_t>(values[asked]));
    return std::move(out.example);
  }

 private:
  std::int64_t needles_ = 4;
};

/// Several needles with the same key, distinguished by their order alone.
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

constexpr std::int32_t kInputs = 64, kLabels = 16, kEach = 8, kWidth = 3, kLabelMark = kInputs + kLabels;

/// Labels learned from examples in the context: a label that is new in each text names the class of an input.
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

std::vector<TaskGenerator> recall_tasks() {
  return {
      task<CopyLm>("copy_lm", "$ s | ; s and a full stop, or what follows an n-gram of s.",
                   "Jelassi et al. 2024, arXiv:2402.01032; E 3.6", "letters", {5, 50}, {51, 300}),
      task<InductionHeads>("induction", "Symbols with one marker, then the marker again; the symbol that followed it.",
                           "Gu and Dao 2023 (Mamba), arXiv:2312.00752; E 3.6", "tokens", {256, 256}, {64, 4096}),
      task<RepeatedSegment>("induction2", "A segment of m symbols twice; each symbol of the second copy but its first.",
                            "Olsson et al. 2022, arXiv:2209.11895; E 3.6", "symbols of the segment", {8, 64},
                            {64, 512}),
      task<AssociativeRecall>("mqar",
                              "k1 v1 … kp vp, then keys at random gaps; at each its value, which does not follow it.",
                              "Arora et al. 2023 (zoology), arXiv:2312.04927; E 3.6", "tokens", {64, 64}, {64, 512}),
      task<NeedleTokens>("needle_tokens", "Filler with needles KEY k v, then KEY k; v.", "E 3.6", "tokens", {32, 128},
                         {129, 2048}),
      task<NthOfAlike>("nth_of_alike",
                       "Filler with needles KEY k v, several of one key, then ASK k o3; the third one's v.",
                       "Vodrahalli et al. 2024 (MRCR), arXiv:2409.12640, as tokens", "tokens", {40, 128}, {129, 2048}),
      task<IclLabels>("icl_labels",
                      "Shots x x x LAB y, x of one of four classes, y its label in this text; then x x x LAB; y.",
                      "Yen et al. 2024 (HELMET), arXiv:2410.02694, as symbols", "shots", {4, 16}, {17, 256}),
  };
}

}  // namespace pe::data

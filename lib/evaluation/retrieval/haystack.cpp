#include "evaluation/retrieval/haystack.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "evaluation/retrieval/token_ids.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

constexpr int kProbes = 256;  // numbers that are tried to learn how a tokenizer cuts them

std::string draw_number(support::Xoshiro& random, int digits) {
  std::string text(1, static_cast<char>('1' + random.below(9)));
  while (static_cast<int>(text.size()) < digits) text += static_cast<char>('0' + random.below(10));
  return text;
}

}  // namespace

const std::vector<std::string>& adjectives() {
  static const std::vector<std::string> words = {
      "red",    "blue",  "green",  "black",  "white", "grey",   "brown",  "pink",  "old",  "new",  "young",
      "small",  "large", "long",   "short",  "tall",  "wide",   "narrow", "thick", "thin", "deep", "high",
      "low",    "flat",  "round",  "square", "warm",  "cold",   "hot",    "cool",  "dry",  "wet",  "soft",
      "hard",   "rough", "sharp",  "clean",  "dirty", "bright", "dark",   "quiet", "loud", "fast", "slow",
      "strong", "weak",  "rich",   "poor",   "happy", "sad",    "kind",   "brave", "calm", "wild", "fresh",
      "sweet",  "sour",  "bitter", "heavy",  "light", "early",  "late",   "near",  "plain"};
  return words;
}

const std::vector<std::string>& nouns() {
  static const std::vector<std::string> words = {
      "apple", "bread",  "table",   "chair", "house", "garden", "river",  "hill",   "tree",  "leaf",  "stone",
      "road",  "bridge", "boat",    "train", "horse", "bird",   "fish",   "dog",    "cat",   "cow",   "sheep",
      "field", "farm",   "village", "city",  "tower", "wall",   "door",   "window", "roof",  "room",  "floor",
      "lamp",  "clock",  "book",    "paper", "pen",   "letter", "box",    "bag",    "coat",  "hat",   "shoe",
      "ring",  "knife",  "spoon",   "plate", "cup",   "bottle", "cake",   "soup",   "milk",  "water", "salt",
      "cloud", "rain",   "snow",    "wind",  "star",  "moon",   "island", "lake",   "forest"};
  return words;
}

const std::string& filler_unit() {
  static const std::string unit =
      "The river is wide. The hill is steep. The road is long. We walk on. Then we walk back.\n";
  return unit;
}

DocumentHaystack::DocumentHaystack(const DocumentSource& source, const TextCodec& codec)
    : stream_(source, codec.encode_inside("\n"), 1), tokens_(stream_.pieces(1)) {
  const std::vector<std::int32_t> period = codec.encode_inside("road."), newline = codec.encode_inside("\n");
  if (!period.empty()) period_ = period.back();
  if (newline.size() == 1) newline_ = newline[0];
}

std::vector<std::int32_t> DocumentHaystack::read(support::Xoshiro& random, std::int64_t wanted) const {
  if (wanted == 0) return {};
  stream_.cut_at(wanted);
  return stream_.read(static_cast<std::int64_t>(random.below(static_cast<std::uint64_t>(stream_.count()))), wanted).ids;
}

UnitHaystack::UnitHaystack(const TextCodec& codec, const std::string& unit)
    : unit_(codec.encode_inside(unit)), last_(unit_.back()) {}

std::vector<std::int32_t> UnitHaystack::read(support::Xoshiro&, std::int64_t wanted) const {
  std::vector<std::int32_t> ids;
  while (count(ids) < wanted) append(ids, unit_);
  ids.resize(static_cast<std::size_t>(wanted));
  return ids;
}

std::int64_t fixed_tokens(const TextCodec& codec, const Question& question) {
  std::int64_t tokens = (codec.bos() ? 1 : 0) + count(codec.encode_inside(question.question));
  if (!question.head.empty()) tokens += count(codec.encode_inside(question.head));
  for (const Fact& fact : question.facts) tokens += count(codec.encode_inside(fact.text));
  for (const std::string& answer : question.answers) tokens += count(codec.encode_inside(answer));
  return tokens;
}

std::optional<HaystackPrompt> build_prompt(const TextCodec& codec, const Haystack& haystack, const Question& question,
                                           std::int64_t length, support::Xoshiro& random) {
  const std::int64_t budget = length - fixed_tokens(codec, question);
  if (budget < 0) return std::nullopt;
  const std::vector<std::int32_t> filler = haystack.read(random, budget);

  std::vector<std::size_t> order(question.facts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return question.facts[a].depth < question.facts[b].depth; });
  HaystackPrompt prompt;
  prompt.fact_begins.resize(question.facts.size());
  prompt.landed.resize(question.facts.size());
  if (codec.bos()) prompt.ids.push_back(*codec.bos());
  if (!question.head.empty()) append(prompt.ids, codec.encode_inside(question.head));
  std::vector<std::pair<std::size_t, std::size_t>> facts;  // their positions: [begin, end)
  std::int64_t used = 0;
  for (const std::size_t index : order) {
    const Fact& fact = question.facts[index];
    std::int64_t at = std::llround(fact.depth * static_cast<double>(budget));
    const std::int64_t wanted = at;
    while (at > used && at < budget && !haystack.ends_sentence(filler[static_cast<std::size_t>(at - 1)])) --at;
    // No sentence ends between the fact before and here: the fact goes to the requested place.
    if (at == used && used > 0 && wanted > used && !haystack.ends_sentence(filler[static_cast<std::size_t>(at - 1)]))
      at = wanted;
    at = std::max(at, used);
    prompt.ids.insert(prompt.ids.end(), filler.begin() + used, filler.begin() + at);
    used = at;
    const std::vector<std::int32_t> ids = codec.encode_inside(fact.text);
    prompt.fact_begins[index] = count(prompt.ids);
    prompt.landed[index] = budget > 0 ? static_cast<double>(at) / static_cast<double>(budget) : 0;
    if (fact.decides) facts.emplace_back(prompt.ids.size(), prompt.ids.size() + ids.size());
    append(prompt.ids, ids);
  }
  prompt.ids.insert(prompt.ids.end(), filler.begin() + used, filler.end());
  append(prompt.ids, codec.encode_inside(question.question));
  prompt.answer_begin = count(prompt.ids);
  for (const std::string& answer : question.answers) {
    const std::vector<std::int32_t> ids = codec.encode_inside(answer);
    prompt.answer_tokens.push_back(count(ids));
    append(prompt.ids, ids);
  }

  prompt.control = prompt.ids;
  std::int64_t tokens = 0;
  for (const auto& [begin, end] : facts) tokens += static_cast<std::int64_t>(end - begin);
  const std::vector<std::int32_t> instead = haystack.read(random, tokens);
  std::size_t next = 0;
  for (const auto& [begin, end] : facts) {
    for (std::size_t i = begin; i < end; ++i) prompt.control[i] = instead[next++];
  }
  return prompt;
}

std::optional<HaystackPrompt> build_ranked_prompt(const TextCodec& codec, const Haystack& haystack,
                                                  const Question& question, std::int64_t length,
                                                  support::Xoshiro& random) {
  const std::int64_t own = count(codec.encode_inside(question.answers.at(0)));
  std::int64_t longest = own;
  for (const std::string& other : question.others) longest = std::max(longest, count(codec.encode_inside(other)));
  return build_prompt(codec, haystack, question, length - (longest - own), random);
}

std::vector<std::int32_t> with_answer(const TextCodec& codec, const HaystackPrompt& prompt, const std::string& answer) {
  std::vector<std::int32_t> ids(prompt.ids.begin(), prompt.ids.begin() + prompt.answer_begin);
  append(ids, codec.encode_inside(answer));
  return ids;
}

NumberSource::NumberSource(const TextCodec& codec, int digits) : codec_(codec), digits_(digits) {
  support::Xoshiro random(probe_key("number.probe", digits, 0));
  std::map<std::int64_t, int> seen;
  int most = 0;
  for (int i = 0; i < kProbes; ++i) {
    const std::int64_t tokens = count(codec.encode_inside(" " + draw_number(random, digits)));
    if (++seen[tokens] > most) {
      most = seen[tokens];
      tokens_ = tokens;
    }
  }
}

std::string NumberSource::draw(support::Xoshiro& random) const {
  for (;;) {
    std::string number = draw_number(random, digits_);
    if (count(codec_.encode_inside(" " + number)) == tokens_) return number;
  }
}

}  // namespace pe::evaluation

#include "evaluation/retrieval/kv_prompt.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "evaluation/retrieval/token_ids.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

struct Line {
  std::string key, value;
  std::vector<std::int32_t> ids;
};

}  // namespace

std::optional<KvPrompt> KvPrompts::build(std::int64_t length, double depth, std::int64_t candidates,
                                         support::Xoshiro& random) const {
  const std::vector<std::int32_t> head = codec_.encode_inside("Keys and their values:\n");
  const auto question_of = [&](const std::string& key) {
    return codec_.encode_inside(cat("The value of \"", key, "\" is"));
  };
  std::int64_t room = length - (codec_.bos() ? 1 : 0) - count(head) - numbers_.tokens();
  std::vector<Line> lines;
  std::set<std::string> taken;
  std::int64_t question_room = 0;  // of the longest question so far
  const std::uint64_t keys = adjectives().size() * nouns().size();
  for (const std::uint64_t index : random.sample(keys, keys)) {
    Line line{
        .key = adjectives()[index / nouns().size()] + " " + nouns()[index % nouns().size()], .value = {}, .ids = {}};
    do {
      line.value = numbers_.draw(random);
    } while (taken.count(line.value) != 0);
    line.ids = codec_.encode_inside(cat("\"", line.key, "\": ", line.value, ",\n"));
    const std::int64_t asks = std::max(question_room, count(question_of(line.key)));
    if (count(line.ids) + asks > room) break;
    room -= count(line.ids);
    question_room = asks;
    taken.insert(line.value);
    lines.push_back(std::move(line));
  }
  if (static_cast<std::int64_t>(lines.size()) < std::max<std::int64_t>(candidates, 1)) return std::nullopt;

  const auto asked = static_cast<std::size_t>(std::llround(depth * static_cast<double>(lines.size() - 1)));
  const std::vector<std::int32_t> question = question_of(lines[asked].key);
  KvPrompt made;
  HaystackPrompt& prompt = made.prompt;
  const auto add = [&](const std::vector<std::int32_t>& ids) {
    prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end());
  };
  if (codec_.bos()) prompt.ids.push_back(*codec_.bos());
  add(filler_.read(random, room - count(question)));
  add(head);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i == asked) prompt.fact_begins = {count(prompt.ids)};
    add(lines[i].ids);
  }
  prompt.landed = {lines.size() > 1 ? static_cast<double>(asked) / static_cast<double>(lines.size() - 1) : 0};
  add(question);
  prompt.answer_begin = count(prompt.ids);
  add(codec_.encode_inside(" " + lines[asked].value));
  prompt.answer_tokens = {count(prompt.ids) - prompt.answer_begin};
  prompt.control = prompt.ids;
  const std::vector<std::int32_t> instead = filler_.read(random, count(lines[asked].ids));
  std::copy(instead.begin(), instead.end(),
            prompt.control.begin() + static_cast<std::ptrdiff_t>(prompt.fact_begins[0]));
  for (const std::uint64_t other : random.sample(lines.size() - 1, static_cast<std::uint64_t>(candidates - 1))) {
    made.others.push_back(" " + lines[other + (other >= asked ? 1 : 0)].value);
  }
  return made;
}

}  // namespace pe::evaluation

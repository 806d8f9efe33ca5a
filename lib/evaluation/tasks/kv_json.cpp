// As many keys with values as fit into the context, and one of them asked for: nothing but look-up, without any prose.
#include <algorithm>
#include <cmath>
#include <set>

#include "evaluation/retrieval_scoring.h"
#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

class KvJson final : public Task {
 public:
  void describe(support::FieldVisitor& v) override {
    v.field("depths", depths_, "Where the line stands that is asked for: 0 the first, 1 the last.",
            {.min = 0, .max = 1, .neutral = Json(depths_)});
    v.field("trials", trials_, "Items at each length and depth.", {.min = 1, .max = 99999, .neutral = Json(20)});
    v.field("candidates", candidates_, "Values among which the true one is ranked (S3), itself included, all of them shown.",
            {.min = 1, .max = 1000, .neutral = Json(10)});
    v.check(!depths_.empty(), "kv_json needs at least one depth");
  }

  void run(TaskContext& context) const override {
    const NumberSource numbers(context.text, 5);
    const UnitHaystack filler(context.text, filler_unit());
    std::vector<RetrievalScore> scores;
    for (const std::int64_t length : context.lengths) {
      const auto& limit = context.scorer.capabilities().max_positions;
      const char* state = limit && length > *limit ? status::kPositions : status::kOk;
      std::vector<RetrievalItem> items;
      for (const double depth : depths_) {
        for (std::int64_t trial = 0; trial < trials_ && state == status::kOk; ++trial) {
          support::Xoshiro random(item_key("kv_json", Split::kTest, length, std::llround(depth * 10000) * 100000 + trial));
          RetrievalItem item{.prompt = {}, .others = {}, .depth = depth, .trial = trial};
          if (!build(context.text, numbers, filler, length, random, item)) state = status::kLength;
          else items.push_back(std::move(item));
        }
      }
      if (state != status::kOk) {
        add_missing(context, "kv_json", "lines", length, depths_, state);
        continue;
      }
      const Rows& rows = context.results.item(cat("kv_json/", length), [&] {
        return score_items(context, "kv_json", "lines", length, items);
      });
      scores.push_back(summarise_items(context, "kv_json", "lines", length, depths_, rows));
    }
    add_own_context(context, "kv_json", "lines", scores);
  }

 private:
  struct Line {
    std::string key, value;
    std::vector<std::int32_t> ids;
  };

  /// @return false where the length holds fewer lines than there are candidates.
  bool build(const TextCodec& codec, const NumberSource& numbers, const Haystack& filler, std::int64_t length,
             support::Xoshiro& random, RetrievalItem& item) const {
    const auto& things = nouns();
    const std::vector<std::int32_t> head = codec.encode_inside("Keys and their values:\n");
    const auto question_of = [&](const std::string& key) { return codec.encode_inside(cat("The value of \"", key, "\" is")); };
    std::int64_t room = length - (codec.bos() ? 1 : 0) - static_cast<std::int64_t>(head.size()) - numbers.tokens();
    std::vector<Line> lines;
    std::set<std::string> taken;
    std::int64_t question_room = 0;   // of the longest question so far
    for (const std::uint64_t index : random.sample(things.size() * adjectives().size(), things.size() * adjectives().size())) {
      Line line;
      line.key = adjectives()[index / things.size()] + " " + things[index % things.size()];
      do line.value = numbers.draw(random);
      while (taken.count(line.value) != 0);
      line.ids = codec.encode_inside(cat("\"", line.key, "\": ", line.value, ",\n"));
      const std::int64_t asks = std::max(question_room, static_cast<std::int64_t>(question_of(line.key).size()));
      const auto takes = static_cast<std::int64_t>(line.ids.size());
      if (takes + asks > room) break;
      room -= takes;
      question_room = asks;
      taken.insert(line.value);
      lines.push_back(std::move(line));
    }
    if (static_cast<std::int64_t>(lines.size()) < std::max<std::int64_t>(candidates_, 1)) return false;
    const auto asked = static_cast<std::size_t>(std::llround(item.depth * static_cast<double>(lines.size() - 1)));
    const std::vector<std::int32_t> question = question_of(lines[asked].key);
    HaystackPrompt& prompt = item.prompt;
    if (codec.bos()) prompt.ids.push_back(*codec.bos());
    const auto add = [&](const std::vector<std::int32_t>& ids) { prompt.ids.insert(prompt.ids.end(), ids.begin(), ids.end()); };
    add(filler.read(random, room - static_cast<std::int64_t>(question.size())));
    add(head);
    std::size_t begin = 0;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (i == asked) begin = prompt.ids.size();
      add(lines[i].ids);
    }
    prompt.fact_begins = {static_cast<std::int64_t>(begin)};
    add(question);
    prompt.answer_begin = static_cast<std::int64_t>(prompt.ids.size());
    add(codec.encode_inside(" " + lines[asked].value));
    prompt.answer_tokens = {static_cast<std::int64_t>(prompt.ids.size()) - prompt.answer_begin};
    prompt.control = prompt.ids;
    const std::vector<std::int32_t> instead = filler.read(random, static_cast<std::int64_t>(lines[asked].ids.size()));
    std::copy(instead.begin(), instead.end(), prompt.control.begin() + static_cast<std::ptrdiff_t>(begin));
    for (const std::uint64_t other : random.sample(lines.size() - 1, static_cast<std::uint64_t>(candidates_ - 1))) {
      item.others.push_back(" " + lines[other + (other >= asked ? 1 : 0)].value);
    }
    return true;
  }

  std::vector<double> depths_ = {0, 0.25, 0.5, 0.75, 1};
  std::int64_t trials_ = 20;
  std::int64_t candidates_ = 10;
};

}  // namespace

TaskEntry kv_json_task() {
  return {.name = "kv_json",
          .summary = "One of as many keys with values as fit into the context, by length and depth.",
          .tables = {"retrieval_trial", "retrieval_summary", "retrieval_ladder"},
          .make = make_task<KvJson>};
}

}  // namespace pe::evaluation

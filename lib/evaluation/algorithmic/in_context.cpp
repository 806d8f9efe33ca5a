#include "evaluation/algorithmic/in_context.h"

#include <algorithm>

namespace pe::evaluation {

constexpr std::int64_t kOtherShots = 32;  // that are tried in place of one

InContextPrompts::InContextPrompts(const TextCodec& codec, data::ChosenTask task, std::int64_t shots)
    : task_(std::move(task)),
      shots_(shots),
      bos_(codec.bos()),
      input_(codec.encode_inside("Input:")),
      output_(codec.encode_inside("Output:")),
      newline_(codec.encode_inside("\n")) {
  for (const std::string& name : task_.task->symbols()) symbols_.push_back(codec.encode_inside(" " + name));
}

const std::vector<std::int32_t>& InContextPrompts::symbol(std::int32_t id) const {
  return id < data::kFirstSymbol ? newline_ : symbols_.at(static_cast<std::size_t>(id - data::kFirstSymbol));
}

/// False where the labels are not the tokens after the separator.
bool InContextPrompts::append(const data::TaskExample& example, InContextItem& item, bool asked) const {
  const auto& ids = example.ids;
  const auto separator = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), data::kTaskSep) - ids.begin());
  if (separator + 1 >= ids.size()) return false;
  const auto put = [&](const std::vector<std::int32_t>& tokens) {
    item.ids.insert(item.ids.end(), tokens.begin(), tokens.end());
  };
  put(input_);
  for (std::size_t i = 0; i < separator; ++i) {
    if (example.labels[i] != data::kUnlabelled) return false;
    if (ids[i] != data::kTaskBos) put(symbol(ids[i]));
  }
  put(newline_);
  put(output_);
  if (asked) item.answer_begin = static_cast<std::int64_t>(item.ids.size());
  for (std::size_t i = separator; i + 1 < ids.size(); ++i) {
    if (example.labels[i] != ids[i + 1]) return false;
    const std::vector<std::int32_t>& tokens = symbol(ids[i + 1]);
    put(tokens);
    if (!asked) continue;
    item.symbol_tokens.push_back(static_cast<std::int64_t>(tokens.size()));
    item.judged.push_back(example.unjudged.empty() || example.unjudged[i] == 0 ? 1 : 0);
  }
  return true;
}

std::optional<InContextItem> InContextPrompts::item(std::int64_t length, std::int64_t index) const {
  const auto example = [&](data::Split split, std::int64_t number) {
    return data::make_example(*task_.task, task_.name, data::kTaskTestSeed, split, length, number);
  };
  InContextItem item;
  if (bos_) item.ids.push_back(*bos_);
  const data::TaskExample asked = example(data::Split::kTest, index);
  for (std::int64_t shot = 0; shot < shots_; ++shot) {
    // A shot that is the item itself would give the answer away; the shortest items may have no other.
    const std::int64_t number = index * shots_ + shot;
    data::TaskExample shown = example(data::Split::kTrain, number);
    for (std::int64_t again = 1; shown.ids == asked.ids && again < kOtherShots; ++again)
      shown = example(data::Split::kTrain, number + (again << 32));
    if (!append(shown, item, false)) return std::nullopt;
  }
  if (!append(asked, item, true)) return std::nullopt;
  item.chance = data::chance_of(asked, task_.task->answers());
  return item;
}

}  // namespace pe::evaluation

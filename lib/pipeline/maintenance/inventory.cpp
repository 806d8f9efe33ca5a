#include "pipeline/maintenance/inventory.h"

#include <sys/stat.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <set>

#include "pipeline/file/task_id.h"
#include "support/error.h"
#include "support/folders.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::ConfigError;
using support::quote;

namespace {

/// One word without its plus signs.
class Pattern {
 public:
  explicit Pattern(const std::string& word) : word_(word) {
    std::string name = word;
    const auto at = name.rfind('@');
    if (at != std::string::npos) {
      const auto step = support::parse_integer(std::string_view(name).substr(at + 1));
      if (step) {
        step_ = *step;
        name.erase(at);
      }
    }
    hex_ = name.size() >= 4 && name.find_first_not_of("0123456789abcdef") == std::string::npos;
    digits_ = name;
    wanted_ = parse_task_id(name);
  }

  bool matches(const StoredResult& result) const {
    if (step_ >= 0 && result.key.step != step_) return false;
    if (hex_ && has_digits(result)) return true;
    if (result.task == digits_) return true;
    if (!wanted_ || (wanted_->label.empty() && wanted_->axes.empty())) return false;
    const auto name = parse_task_id(result.task);
    return name && fits(*wanted_, name->label, name->axes);
  }

 private:
  bool has_digits(const StoredResult& result) const {
    const auto begins = [&](const std::string& text) { return text.rfind(digits_, 0) == 0; };
    return begins(result.key.key) || begins(result.plan_key) ||
           std::any_of(result.outputs.begin(), result.outputs.end(),
                       [&](const OutputRecord& output) { return begins(output.object) || begins(output.content); });
  }

  std::string word_, digits_;
  std::optional<TaskName> wanted_;
  std::int64_t step_ = -1;
  bool hex_ = false;
};

}  // namespace

std::uint64_t StoredResult::bytes() const {
  std::uint64_t total = 0;
  for (const OutputRecord& output : outputs) total += output.bytes;
  return total;
}

std::string StoredResult::name() const { return key.is_snapshot() ? cat(task, "@", key.step) : task; }

std::set<std::size_t> Inventory::behind(const std::vector<std::size_t>& chosen) const {
  std::set<std::size_t> above;
  std::vector<std::size_t> open = chosen;
  while (!open.empty()) {
    const std::size_t at = open.back();
    open.pop_back();
    for (const std::size_t maker : made_from(results[at])) {
      if (above.insert(maker).second) open.push_back(maker);
    }
  }
  return above;
}

std::pair<const StoredResult*, const OutputRecord*> Inventory::maker(const std::string& content) const {
  const auto found = by_content.find(content);
  if (found == by_content.end()) return {nullptr, nullptr};
  const StoredResult& result = results[found->second.front()];
  for (const OutputRecord& output : result.outputs) {
    if (output.content == content) return {&result, &output};
  }
  return {nullptr, nullptr};
}

std::vector<std::size_t> Inventory::made_from(const StoredResult& result) const {
  std::vector<std::size_t> found;
  for (const InputRecord& input : result.inputs) {
    const auto makers = by_content.find(input.digest);
    if (makers == by_content.end()) continue;
    found.insert(found.end(), makers->second.begin(), makers->second.end());
  }
  return found;
}

Inventory read_inventory(const Store& store) {
  Inventory inventory;
  for (const ResultKey& key : store.keys()) {
    auto record = store.read(key, true);
    if (!record) {
      if (support::is_there(store.record_path(key))) inventory.unreadable.push_back(key);  // else it went meanwhile
      continue;
    }
    StoredResult result;
    result.key = key;
    result.plan_key = std::move(record->plan_key);
    result.stage = std::move(record->stage);
    result.task = std::move(record->task);
    result.status = record->status;
    result.outputs = std::move(record->outputs);
    result.inputs = std::move(record->inputs);
    const Json& occasion = record->occasion;
    const auto text = [&](const char* name) {
      return occasion.is_object() && occasion.contains(name) && occasion[name].is_string()
                 ? occasion[name].get<std::string>()
                 : std::string();
    };
    result.ended = text("ended");
    result.run = text("run");
    result.pipeline = text("pipeline");
    if (occasion.is_object() && occasion.contains("wall_s") && occasion["wall_s"].is_number())
      result.wall_s = occasion["wall_s"];
    if (occasion.is_object() && occasion.contains("gpus") && occasion["gpus"].is_array()) {
      result.gpus = static_cast<std::int64_t>(occasion["gpus"].size());
    }
    struct stat status {};
    if (::stat(store.record_path(key).c_str(), &status) == 0) {
      result.written = static_cast<double>(status.st_mtim.tv_sec) + static_cast<double>(status.st_mtim.tv_nsec) * 1e-9;
    }
    inventory.results.push_back(std::move(result));
  }
  for (std::size_t i = 0; i < inventory.results.size(); ++i) {
    inventory.by_key.emplace(PackedKey(inventory.results[i].key), i);
    for (const OutputRecord& output : inventory.results[i].outputs) {
      std::vector<std::size_t>& makers = inventory.by_content[output.content];
      if (makers.empty() || makers.back() != i) makers.push_back(i);
    }
  }
  for (auto& [content, makers] : inventory.by_content) {
    std::stable_sort(makers.begin(), makers.end(), [&](std::size_t a, std::size_t b) {
      return inventory.results[a].ended > inventory.results[b].ended;
    });
  }
  return inventory;
}

std::vector<std::size_t> select_results(const Inventory& inventory, const std::vector<std::string>& words) {
  const std::size_t count = inventory.results.size();
  std::vector<bool> chosen(count, words.empty());
  for (const std::string& given : words) {
    std::string word = given;
    const bool before = !word.empty() && word.front() == '+';
    if (before) word.erase(0, 1);
    const bool after = !word.empty() && word.back() == '+';
    if (after) word.pop_back();
    const Pattern pattern(word);
    std::deque<std::size_t> up, down;
    bool any = false;
    for (std::size_t i = 0; i < count; ++i) {
      if (!pattern.matches(inventory.results[i])) continue;
      any = chosen[i] = true;
      if (before) up.push_back(i);
      if (after) down.push_back(i);
    }
    if (!any) {
      std::set<std::string> names;
      for (const StoredResult& result : inventory.results) {
        names.insert(result.task);
        if (const auto name = parse_task_id(result.task)) names.insert(name->label);
      }
      throw ConfigError(
          cat("no result in the store is called ", quote(word)), {},
          count == 0 ? "the store holds no results" : support::suggestion(word, {names.begin(), names.end()}));
    }
    std::vector<bool> seen(count);
    for (; !up.empty(); up.pop_front()) {
      for (const std::size_t maker : inventory.made_from(inventory.results[up.front()])) {
        if (seen[maker]) continue;
        seen[maker] = chosen[maker] = true;
        up.push_back(maker);
      }
    }
    if (!after) continue;
    std::unordered_map<std::string, std::vector<std::size_t>> readers;
    for (std::size_t i = 0; i < count; ++i) {
      for (const InputRecord& input : inventory.results[i].inputs) readers[input.digest].push_back(i);
    }
    seen.assign(count, false);
    for (; !down.empty(); down.pop_front()) {
      for (const OutputRecord& output : inventory.results[down.front()].outputs) {
        for (const std::size_t reader : readers[output.content]) {
          if (seen[reader]) continue;
          seen[reader] = chosen[reader] = true;
          down.push_back(reader);
        }
      }
    }
  }
  std::vector<std::size_t> found;
  for (std::size_t i = 0; i < count; ++i) {
    if (chosen[i]) found.push_back(i);
  }
  return found;
}

}  // namespace pe::pipeline

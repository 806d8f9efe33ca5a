#include "pipeline/plan/device_table.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "pipeline/file/config_value.h"
#include "support/error.h"
#include "support/suggest.h"
#include "support/text.h"
#include "support/yaml.h"

namespace pe::pipeline {

using support::cat;
using support::Node;

namespace {

constexpr const char* kH100 =
#include "pipeline/plan/h100.yml.inc"
    ;
constexpr std::pair<const char*, const char*> kTables[] = {{"h100", kH100}};

/// Reads members of one map; every one that is asked for must be there, and no other.
class TableReader {
 public:
  TableReader(const Node& map, support::Diagnostics& diagnostics) : map_(map), diagnostics_(diagnostics) {
    if (!map.is_map()) diagnostics.add(cat("expected a map, found ", map.found()), map.place());
  }
  std::string text(const char* key) {
    const Node* node = get(key, true);
    return node && node->is_scalar() ? node->text : "";
  }
  double number(const char* key) {
    const Node* node = get(key, true);
    const double value = node && node->is_scalar() ? support::parse_real(node->text).value_or(0) : 0;
    if (node && !(value > 0))
      diagnostics_.add(cat("expected a number above 0 for ", support::quote(key), ", found ", node->found()),
                       node->place());
    return value;
  }
  const Node* get(const char* key, bool needed) {
    known_.push_back(key);
    const Node* node = map_.find(key);
    if (!node && needed && map_.is_map()) diagnostics_.add(cat("no key ", support::quote(key)), map_.place());
    return node;
  }
  void end() {
    for (const auto& member : map_.members) {
      if (std::find(known_.begin(), known_.end(), member.key) != known_.end()) continue;
      diagnostics_.add(cat("unknown key ", support::quote(member.key)), member.key_mark.place(),
                       support::suggestion(member.key, known_));
    }
  }

 private:
  const Node& map_;
  support::Diagnostics& diagnostics_;
  std::vector<std::string> known_;
};

DeviceTable read_table(const Node& node) {
  support::Diagnostics diagnostics;
  DeviceTable table;
  TableReader top(node, diagnostics);
  if (const std::string schema = top.text("schema"); schema != "pe-device/1")
    diagnostics.add(cat("expected schema pe-device/1, found ", support::quote(schema)), node.place());
  table.device = top.text("device");
  table.memory_gib = top.number("memory_gib");
  table.measured = top.text("measured");
  table.dtype = top.text("dtype");
  table.deterministic = top.text("deterministic");
  if (const Node* trainings = top.get("trainings", true)) {
    for (const Node& item : trainings->items) {
      TableReader one(item, diagnostics);
      MeasuredTraining training{one.text("size"), one.number("parameters"), one.number("flops")};
      training.length = static_cast<std::int64_t>(one.number("length"));
      training.sequences = static_cast<std::int64_t>(one.number("sequences"));
      training.tokens_per_s = one.number("tokens_per_s");
      training.memory_gib = one.number("memory_gib");
      one.end();
      table.trainings.push_back(std::move(training));
    }
  }
  if (const Node* encodings = top.get("encodings", true)) {
    for (const auto& member : encodings->members) {
      TableReader one(member.value, diagnostics);
      MeasuredEncoding encoding{member.key, one.number("factor"), ""};
      if (const Node* at = one.get("at", false)) encoding.at = at->text;
      one.end();
      if (!encoding.at.empty() && !table.find(encoding.at))
        diagnostics.add(cat("no training of size ", support::quote(encoding.at)), member.value.place());
      table.encodings.push_back(std::move(encoding));
    }
  }
  if (const Node* names = top.get("as_none", false)) {
    for (const Node& name : names->items) table.as_none.push_back(name.text);
  }
  top.end();
  diagnostics.throw_if_any();
  return table;
}

}  // namespace

const MeasuredTraining* DeviceTable::find(std::string_view size) const {
  const auto found =
      std::find_if(trainings.begin(), trainings.end(), [&](const auto& one) { return one.size == size; });
  return found == trainings.end() ? nullptr : &*found;
}

const MeasuredTraining* DeviceTable::nearest(double parameters) const {
  const MeasuredTraining* best = nullptr;
  const auto distance = [&](const MeasuredTraining& one) { return std::abs(std::log(one.parameters / parameters)); };
  for (const MeasuredTraining& one : trainings) {
    if (near(one.parameters, parameters) && (!best || distance(one) < distance(*best))) best = &one;
  }
  return best;
}

DeviceTable::Lookup DeviceTable::find(const Task& task, const Work& work) const {
  const auto not_measured = [&](const std::string& what) {
    return Lookup{0, "", cat(what, " was not measured on ", device)};
  };
  if (!work.tokens) return not_measured(task.stage->program);
  if (!work.parameters || !work.flops) return {0, "", "the size of its model is not known"};
  if (task.resources.gpus != 1) return not_measured(task.resources.gpus < 1 ? "a share of a GPU" : "more than one GPU");
  for (const auto& [key, wanted] :
       {std::pair("compute.dtype", &dtype), std::pair("compute.deterministic", &deterministic)}) {
    const Json* value = find_value(*task.config, key);
    if (!value || !value->is_string() || *value != *wanted) return not_measured(cat(key, " other than ", *wanted));
  }
  const MeasuredTraining* training = nearest(*work.parameters);
  if (!training)
    return not_measured(cat("a model of ", support::short_count(*work.parameters), " parameters, or near it,"));
  const bool plain = std::find(as_none.begin(), as_none.end(), work.encoding) != as_none.end();
  const std::string name = plain ? "none" : work.encoding;
  const auto encoding =
      std::find_if(encodings.begin(), encodings.end(), [&](const MeasuredEncoding& one) { return one.name == name; });
  if (encoding == encodings.end()) return not_measured(cat("encoding ", work.encoding.empty() ? "?" : work.encoding));
  if (!encoding->at.empty() && !near(find(encoding->at)->parameters, *work.parameters))
    return not_measured(cat("encoding ", work.encoding, " at a size near ", support::short_count(*work.parameters)));
  Lookup found;
  found.seconds = *work.tokens * *work.flops / (training->tokens_per_s * training->flops) * encoding->factor;
  found.source = cat(training->size, " (", support::short_count(training->parameters), ", ",
                     support::short_count(training->tokens_per_s), " tokens/s) on ", device, ", ", measured);
  return found;
}

std::vector<std::string> device_tables() {
  std::vector<std::string> names;
  for (const auto& [name, text] : kTables) names.emplace_back(name);
  return names;
}

DeviceTable read_device_table(const std::string& name) {
  for (const auto& [known, text] : kTables) {
    if (name == known) return read_table(support::parse_yaml(text, cat("the table of ", known)));
  }
  if (name.find('/') == std::string::npos && !name.ends_with(".yml")) {
    throw support::ConfigError(
        cat("no speeds of a device ", support::quote(name), " are known"), {"--device", 0, 0, "", 1},
        cat(support::suggestion(name, device_tables()), "; --device FILE.yml reads your own table"));
  }
  return read_table(support::read_yaml(name));
}

}  // namespace pe::pipeline

#include "pipeline/plan/history.h"

#include <set>
#include <unordered_map>
#include <utility>

#include "pipeline/store/index.h"
#include "pipeline/store/packing.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/json_fields.h"

namespace pe::pipeline {

using support::field_or;
using support::text_in;

namespace {

constexpr std::string_view kHistoryMagic = "pe-history/3\n";

struct Texts {
  std::string stage, id, ended, run, build, config, externals, inputs;
};

std::string cbor_of(const Json& document, const char* part) {
  const auto found = document.is_object() ? document.find(part) : document.end();
  return found == document.end() ? std::string() : support::canonical_cbor(*found);
}

std::uint64_t bits(double value) {
  std::uint64_t word;
  std::memcpy(&word, &value, sizeof word);
  return word;
}

double real(std::uint64_t word) {
  double value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}

}  // namespace

PastTask make_past_task(const ResultKey& key, const std::string& stage, const std::string& id, const std::string& ended,
                        const Json& preimage) {
  auto texts = std::make_shared<Texts>();
  texts->stage = stage;
  texts->id = id;
  texts->ended = ended;
  texts->build = text_in(preimage, "build");
  texts->config = cbor_of(preimage, "config");
  texts->externals = cbor_of(preimage, "externals");
  texts->inputs = cbor_of(preimage, "inputs");
  PastTask past;
  past.key = key;
  past.stage = texts->stage;
  past.id = texts->id;
  past.ended = texts->ended;
  past.version = field_or(preimage, "version", 0);
  past.build = texts->build;
  past.config = texts->config;
  past.externals = texts->externals;
  past.inputs = texts->inputs;
  past.owner = std::move(texts);
  return past;
}

History::History(const Store& store) : path_(store.root() / "memo" / "history") {
  // Before anything is read: what comes later makes another mark.
  const std::string mark = index_mark(store.root());
  std::string then;
  const bool loaded = load(&then);
  if (loaded && !mark.empty() && then == mark) return;
  std::map<ResultKey, PastTask> known;
  for (auto& [stage, tasks] : by_stage_) {
    for (PastTask& task : tasks) known.emplace(task.key, std::move(task));
  }
  by_stage_.clear();
  for (const ResultKey& key : store.keys()) {
    if (const auto found = known.find(key); found != known.end()) {
      by_stage_[std::string(found->second.stage)].push_back(std::move(found->second));
      continue;
    }
    ++opened_;
    const auto record = store.read(key);
    if (!record || !record->preimage.is_object()) continue;
    PastTask past =
        make_past_task(key, record->stage, record->task, text_in(record->occasion, "ended"), record->preimage);
    past.wall_s = field_or(record->occasion, "wall_s", 0.0);
    past.expected_s = field_or(record->occasion, "expected_s", 0.0);
    if (record->occasion.is_object() && record->occasion.contains("gpus") && record->occasion["gpus"].is_array()) {
      past.gpus = static_cast<std::int64_t>(record->occasion["gpus"].size());
    }
    for (const OutputRecord& output : record->outputs) past.bytes += output.bytes;
    // Separate texts, which the others' owner does not hold.
    struct OwnedTexts {
      std::string run, pipeline, device, encoding;
      std::shared_ptr<const void> rest;
    };
    const Json model = record->occasion.is_object() ? record->occasion.value("model", Json()) : Json();
    auto named = std::make_shared<OwnedTexts>(
        OwnedTexts{text_in(record->occasion, "run"), text_in(record->occasion, "pipeline"),
                   text_in(record->occasion, "device"), text_in(model, "encoding"), past.owner});
    past.run = named->run;
    past.pipeline = named->pipeline;
    past.device = named->device;
    past.encoding = named->encoding;
    past.parameters = field_or(model, "parameters", 0.0);
    past.flops = field_or(model, "flops", 0.0);
    past.owner = std::move(named);
    by_stage_[record->stage].push_back(std::move(past));
  }
  if (loaded || !by_stage_.empty()) save(mark);  // a store that is not there is not begun
}

const std::vector<PastTask>& History::of_stage(std::string_view stage) const {
  static const std::vector<PastTask> none;
  const auto found = by_stage_.find(stage);
  return found == by_stage_.end() ? none : found->second;
}

bool History::load(std::string* mark) {
  std::error_code error;
  if (!fs::is_regular_file(path_, error)) return false;
  try {
    file_ = support::MappedFile(path_);
  } catch (const support::Error&) {
    return false;
  }
  Unpacker unpacker(file_.view(), kHistoryMagic);
  *mark = std::string(unpacker.text());
  std::vector<std::string_view> parts;
  for (std::uint64_t i = 0, count = unpacker.number(); i < count && unpacker.good(); ++i)
    parts.push_back(unpacker.text());
  const auto part = [&]() -> std::string_view {
    const std::uint64_t at = unpacker.number();
    return at < parts.size() ? parts[at] : std::string_view();
  };
  std::map<std::string, std::vector<PastTask>, std::less<>> by_stage;
  for (std::uint64_t i = 0, stages = unpacker.number(); i < stages && unpacker.good(); ++i) {
    const std::string_view stage = unpacker.text();
    std::vector<PastTask>& tasks = by_stage[std::string(stage)];
    const std::uint64_t count = unpacker.number();
    if (!unpacker.good() || count > unpacker.left()) return false;
    tasks.resize(count);
    for (PastTask& task : tasks) {
      task.stage = stage;
      task.key.key = unpacker.text();
      task.key.step = static_cast<std::int64_t>(unpacker.number());
      task.id = unpacker.text();
      task.ended = unpacker.text();
      task.run = part();
      task.pipeline = part();
      task.version = static_cast<int>(unpacker.number());
      task.build = part();
      task.config = part();
      task.externals = part();
      task.inputs = part();
      task.wall_s = real(unpacker.number());
      task.expected_s = real(unpacker.number());
      task.gpus = static_cast<std::int64_t>(unpacker.number());
      task.device = part();
      task.encoding = part();
      task.parameters = real(unpacker.number());
      task.flops = real(unpacker.number());
      task.bytes = unpacker.number();
    }
  }
  if (!unpacker.good()) return false;
  by_stage_ = std::move(by_stage);
  return true;
}

void History::save(const std::string& mark) const {
  Packer packer;
  packer.text(mark);
  std::unordered_map<std::string_view, std::uint64_t> number_of;
  std::vector<std::string_view> parts;
  const auto take = [&](std::string_view part) {
    if (number_of.try_emplace(part, parts.size()).second) parts.push_back(part);
  };
  for (const auto& [stage, tasks] : by_stage_) {
    for (const PastTask& task : tasks) {
      for (const std::string_view part :
           {task.run, task.pipeline, task.build, task.config, task.externals, task.inputs, task.device, task.encoding})
        take(part);
    }
  }
  packer.number(parts.size());
  for (const std::string_view part : parts) packer.text(part);
  packer.number(by_stage_.size());
  for (const auto& [stage, tasks] : by_stage_) {
    packer.text(stage);
    packer.number(tasks.size());
    for (const PastTask& task : tasks) {
      packer.text(task.key.key);
      packer.number(static_cast<std::uint64_t>(task.key.step));
      packer.text(task.id);
      packer.text(task.ended);
      packer.number(number_of.at(task.run));
      packer.number(number_of.at(task.pipeline));
      packer.number(static_cast<std::uint64_t>(task.version));
      for (const std::string_view part : {task.build, task.config, task.externals, task.inputs}) {
        packer.number(number_of.at(part));
      }
      packer.number(bits(task.wall_s));
      packer.number(bits(task.expected_s));
      packer.number(static_cast<std::uint64_t>(task.gpus));
      packer.number(number_of.at(task.device));
      packer.number(number_of.at(task.encoding));
      packer.number(bits(task.parameters));
      packer.number(bits(task.flops));
      packer.number(task.bytes);
    }
  }
  try {
    support::make_folders(path_.parent_path());
    support::write_file_atomically(path_, packer.take(kHistoryMagic), false);
  } catch (const support::Error&) {
    // A store that cannot be written is no reason to fail a plan.
  }
}

const History& StoreReader::history() const {
  if (!history_) history_ = std::make_shared<History>(store_);
  return *history_;
}

const std::vector<PastTask>& StoreReader::past_tasks(const std::string& stage) const {
  return history().of_stage(stage);
}

}  // namespace pe::pipeline

#include "pipeline/maintenance/pin.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/json_text.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;
using support::quote;

namespace {

constexpr const char* kPinSchema = "pe-pin/1";

fs::path file_of(const Store& store, const std::string& name) {
  const bool good = !name.empty() && name.size() <= 128 && name.front() != '.' && name.front() != '-' &&
                    std::all_of(name.begin(), name.end(),
                                [](unsigned char c) { return std::isalnum(c) || c == '.' || c == '_' || c == '-'; });
  if (!good) {
    throw support::ConfigError(cat(quote(name), " is not a valid pin name"), {},
                               "letters, digits, '.', '_' and '-', not beginning with '.' or '-'");
  }
  return pins_folder(store) / (name + ".json");
}

}  // namespace

fs::path pins_folder(const Store& store) { return store.root() / "roots"; }

void write_pin(const Store& store, const Pin& pin) {
  const fs::path path = file_of(store, pin.name);
  Json keys = Json::array();
  for (const ResultKey& key : pin.keys) {
    Json each{{"key", key.key}};
    if (key.is_snapshot()) each["step"] = key.step;
    keys.push_back(std::move(each));
  }
  const Json json{{"schema", kPinSchema},
                  {"name", pin.name},
                  {"created", pin.created},
                  {"keys", std::move(keys)},
                  {"tasks", pin.tasks}};
  support::make_folders(path.parent_path());
  support::write_file_atomically(path, support::json_text(json, 1) + "\n", store.durable());
}

std::vector<Pin> read_pins(const Store& store, std::vector<std::string>* damaged) {
  std::vector<Pin> pins;
  for (const std::string& name : support::list_folder(pins_folder(store))) {
    const fs::path path = pins_folder(store) / name;
    if (path.extension() != ".json") continue;
    try {
      const Json json = support::require_json(support::read_file(path, 256u << 20));
      if (json.at("schema") != kPinSchema) throw support::ArtifactError("another schema");
      Pin pin;
      pin.name = path.stem().string();
      pin.created = json.value("created", "");
      pin.tasks = json.value("tasks", std::vector<std::string>());
      for (const Json& key : json.at("keys")) pin.keys.push_back({key.at("key"), key.value("step", std::int64_t{-1})});
      pins.push_back(std::move(pin));
    } catch (const std::exception&) {
      if (damaged) damaged->push_back(path.string());
    }
  }
  std::sort(pins.begin(), pins.end(), [](const Pin& a, const Pin& b) { return a.name < b.name; });
  return pins;
}

bool remove_pin(const Store& store, const std::string& name) {
  const fs::path path = file_of(store, name);
  if (::unlink(path.c_str()) == 0) return true;
  if (errno == ENOENT) return false;
  support::throw_errno("remove", path.string());
}

}  // namespace pe::pipeline

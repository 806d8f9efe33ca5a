/// @file
/// Pins: names under which results are kept whatever `gc` is asked to drop. A pin is roots/<name>.json (`pe-pin/1`).
#pragma once

#include <string>
#include <vector>

#include "pipeline/store/record.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

struct Pin {
  std::string name;  ///< letters, digits, '.', '_', '-'; not beginning with '.'
  std::vector<ResultKey> keys;
  std::vector<std::string> tasks;  ///< what these were called when they were pinned, for people
  std::string created;             ///< UTC
};

/// Replaces a pin of the same name. @throws ConfigError for a name that is none, IoError.
void write_pin(const Store& store, const Pin& pin);
std::filesystem::path pins_folder(const Store& store);
/// Sorted by name. A file that cannot be read as a pin is named in `damaged`, if given. @throws IoError when the
/// folder of pins cannot be listed
std::vector<Pin> read_pins(const Store& store, std::vector<std::string>* damaged = nullptr);
/// False when there is none.
bool remove_pin(const Store& store, const std::string& name);

}  // namespace pe::pipeline

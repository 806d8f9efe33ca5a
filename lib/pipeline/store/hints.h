/// @file
/// The hints of a store: which task or trajectory key a plan key last led to, a small file each. Never the truth.
#pragma once

#include <optional>
#include <string>

#include "pipeline/store/store_folder.h"
#include "pipeline/store/store_index.h"
#include "support/files.h"

namespace pe::pipeline {

class Hints {
 public:
  Hints(const StoreFolder& folder, StoreIndex& index);
  std::optional<std::string> find(const std::string& plan_key);
  void set(const std::string& plan_key, const std::string& key);

 private:
  const StoreFolder& folder_;
  StoreIndex& index_;
  support::Descriptor opened_;
};

}  // namespace pe::pipeline

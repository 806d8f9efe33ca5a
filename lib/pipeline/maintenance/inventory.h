/// @file
/// The contents of a store, read once from its records: the input of `verify`, `gc`, `pin`, `push` and similar
/// commands. Only the fields that decide are kept of each record, so that tens of thousands of them fit.
#pragma once

#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "pipeline/store/packed_result.h"
#include "pipeline/store/record.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

/// A record without its config and preimage.
struct StoredResult {
  ResultKey key;
  std::string plan_key, stage, task, pipeline, run;
  ResultStatus status = ResultStatus::kDone;
  std::vector<OutputRecord> outputs;
  std::vector<InputRecord> inputs;
  std::string ended;      ///< UTC text that sorts
  double wall_s = 0;      ///< how long making it took
  std::int64_t gpus = 0;  ///< that it held while it was made
  double written = 0;     ///< when the record got here, unix seconds
  std::uint64_t bytes() const;
  /// "trunk[seed=42]", or "trunk[seed=42]@100" for a snapshot.
  std::string name() const;
};

struct Inventory {
  std::vector<StoredResult> results;  ///< sorted by key
  std::vector<ResultKey> unreadable;  ///< there is a file, and it holds no whole record
  std::unordered_map<std::string, std::vector<std::size_t>> by_content;  ///< content digest → results that have it
  std::unordered_map<PackedKey, std::size_t, PackedHash> by_key;

  /// The results whose outputs a result was made from, newest first for each input; what is gone is left out.
  std::vector<std::size_t> made_from(const StoredResult& result) const;
  /// All inputs of these, direct and indirect.
  std::set<std::size_t> behind(const std::vector<std::size_t>& chosen) const;
  /// The newest result with this content, and the output that has it.
  std::pair<const StoredResult*, const OutputRecord*> maker(const std::string& content) const;
};

/// @throws IoError when a record cannot be read, which says nothing of its bytes
Inventory read_inventory(const Store& store);

/// The results that words name, as indices, ascending. A word is `*`, a key, plan key or digest (its first 4 digits or
/// more), a task's id, `label` or `label[axis=value,…]` with `*` for any value; `@step` may follow. A word `+word` adds
/// its inputs, `word+` adds results made from it. No words at all mean everything.
/// @throws ConfigError for a word that names nothing, with the nearest that does.
std::vector<std::size_t> select_results(const Inventory& inventory, const std::vector<std::string>& words);

}  // namespace pe::pipeline

/// @file
/// Results on their way between stores: train on one machine, report on another.
///
/// Chosen results are transferred whole: record, objects, hint. For their inputs, record and hint are transferred
/// without objects. The other side then knows the keys of everything between and reuses the results, without the
/// checkpoints of a hundred runs. Objects come first and the record last, so a transfer that is stopped leaves nothing
/// half done.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "pipeline/maintenance/inventory.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

struct TransferOptions {
  bool dry_run = false;
  /// Changes each record that is new to the other store, such as to note where it came from.
  std::function<void(Record& record)> amend;
  /// Told of each result that is about to go.
  std::function<void(const StoredResult& result, std::size_t number, std::size_t count)> progress;
};

struct TransferItem {
  std::string task;
  ResultKey key;
  std::uint64_t bytes = 0;   ///< Copied for it.
  bool record_only = false;  ///< An input of a chosen result.
  bool existed = false;      ///< The other side had it.
  bool conflict = false;     ///< It had other contents under this key: they stay, and ours are kept next to them.
  std::string ours, theirs;  ///< Of a conflict: origin_of both records.
  std::string problem;       ///< Why it could not go; empty when it went.
};

struct TransferReport {
  std::vector<TransferItem> results;
  std::uint64_t bytes = 0;
  std::size_t objects = 0;
};

/// Copies the results of `from` with these indices to `to`. Every object is hashed on the way.
/// @throws IoError when `to` cannot be written.
TransferReport transfer(const Store& from, const Inventory& inventory, const std::vector<std::size_t>& chosen,
                        Store& to, const TransferOptions& options);

}  // namespace pe::pipeline

/// @file
/// The index of an open store: what all processes wrote there (index.h), and this process's own file, which grows with
/// every result. A cache of the records: `Store` compares it with them.
#pragma once

#include <optional>
#include <string>

#include "pipeline/store/index.h"
#include "pipeline/store/record.h"
#include "pipeline/store/store_folder.h"
#include "support/files.h"

namespace pe::pipeline {

class StoreIndex {
 public:
  explicit StoreIndex(const StoreFolder& folder);

  /// None when the index does not know it.
  PackedResult result(const ResultKey& key) const;
  /// The key that a plan key last led to; empty in the same cases.
  std::optional<std::string> hint(const std::string& plan_key) const;

  /// For this process and those to come. @throws IoError; then for none.
  void add_result(const ResultKey& key, const Result& result);
  void add_hint(const std::string& plan_key, const std::string& key);
  void forget(const ResultKey& key);

  /// For this process alone, which has read it in the store, or found it gone.
  void note_result(const ResultKey& key, const PackedResult& result) {
    content_.results.emplace(PackedKey(key), result);
  }
  void note_hint(const std::string& plan_key, const std::string& key) {
    content_.hints.emplace(PackedDigest(plan_key), PackedDigest(key));
  }
  void note_gone(const ResultKey& key) { content_.results.erase(PackedKey(key)); }

  /// Merges index files once there are many, or when one is damaged.
  void tidy();

 private:
  void append(const std::string& entry, bool sync = false, bool retried = false);
  void begin_file();
  bool is_newest() const;
  int write(const std::string& bytes);

  const StoreFolder& folder_;
  IndexContent content_;
  support::Descriptor file_;  // of this process, opened at the first write
  std::string name_;          // of file_
};

}  // namespace pe::pipeline

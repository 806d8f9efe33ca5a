/// @file
/// The objects of a store: immutable files named by their SHA-256.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "artifact/kind.h"
#include "pipeline/store/object_memo.h"
#include "pipeline/store/record.h"
#include "pipeline/store/store_folder.h"
#include "support/files.h"

namespace pe::artifact {
struct Recipe;
}

namespace pe::pipeline {

/// A file or a collection's folder that a stage has written and closed.
struct Produced {
  std::string role;
  artifact::Kind kind = artifact::Kind::kReport;
  bool is_volatile = false;
  std::filesystem::path path;
};

enum class Reread {
  kAll,
  kUnknown,  ///< only what this Store has neither read nor published before
};

/// Everything but `discard` and `forget_proofs` may be called on any thread.
class Objects {
 public:
  explicit Objects(const StoreFolder& folder);

  bool has(const std::string& digest) const;
  /// Whether every object (members too) is there, single files with their size: one stat each, nothing rehashed.
  bool complete(const std::vector<OutputRecord>& outputs) const;

  /// See Store::publish_output, import_object, damaged, known_whole, materialise.
  OutputRecord publish(const Produced& produced, const artifact::Recipe* expected);
  void import_copy(const std::filesystem::path& from, const std::string& digest);
  std::vector<std::string> damaged(const OutputRecord& output, Reread reread,
                                   const std::function<bool(std::uint64_t bytes)>& go_on);
  bool known_whole(const OutputRecord& output);
  std::filesystem::path materialise(const OutputRecord& output, const std::filesystem::path& folder) const;

  /// Moves an object to the trash.
  void discard(const std::string& digest);
  /// Something was moved away by its path: nothing counts as read any more.
  void forget_proofs() { memo_.forget_all(); }
  /// Drops proofs of objects that are gone or look different.
  void tidy_memo();

 private:
  void place(const support::FileRead& read);
  void replace(const std::filesystem::path& from, const std::filesystem::path& to, const std::string& digest) const;

  const StoreFolder& folder_;
  support::Descriptor opened_;
  ObjectMemo memo_;
};

}  // namespace pe::pipeline

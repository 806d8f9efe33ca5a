/// @file
/// The objects of a store: immutable files named by their SHA-256.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "artifact/kind.h"
#include "pipeline/store/record.h"
#include "pipeline/store/stamp_memo.h"
#include "pipeline/store/store_folder.h"
#include "support/files.h"

namespace pe::artifact {
struct Recipe;
}

namespace pe::pipeline {

/// A file or a collection's folder that a stage has written and closed.
struct StageOutput {
  std::string role;
  artifact::Kind kind = artifact::Kind::kReport;
  bool is_volatile = false;
  std::filesystem::path path;
};

enum class Reread {
  kAll,
  kUnknown,  ///< only what this Store has neither read nor published before
};

/// An object is its own file: it has no other name, and no process may write it. A file that has several names, is
/// still written, or is on another file system, is copied instead of linked. Everything but `discard` and
/// `forget_proofs` may be called on any thread.
class Objects {
 public:
  explicit Objects(const StoreFolder& folder);

  /// See Store::has_object, complete, export_object, publish_output, import_object, damaged, is_verified, materialise.
  bool has(const std::string& digest) const;
  bool make_young(const std::string& digest);
  bool complete(const std::vector<OutputRecord>& outputs, bool strict = false) const;
  OutputRecord publish(const StageOutput& produced, const artifact::Recipe* expected);
  void import_copy(const std::filesystem::path& from, const std::string& digest);
  void export_copy(const std::string& digest, const std::filesystem::path& to) const;
  std::vector<std::string> damaged(const OutputRecord& output, Reread reread,
                                   const std::function<bool(std::uint64_t bytes)>& go_on);
  bool is_verified(const OutputRecord& output);
  std::filesystem::path materialise(const OutputRecord& output, const std::filesystem::path& folder) const;

  /// Moves an object to the trash.
  void discard(const std::string& digest);
  /// Something was moved away by its path: nothing counts as read any more.
  void forget_proofs() { memo_.forget_all(); }
  /// Drops proofs of objects that are gone or look different.
  void tidy_memo();

 private:
  void place(const support::FileRead& read);
  bool link(const support::FileRead& read, const std::filesystem::path& to) const;
  void copy(const std::filesystem::path& from, const std::filesystem::path& to, const std::string& digest) const;
  void note_placed(const std::filesystem::path& to, const std::string& digest);
  bool replace(const std::filesystem::path& from, const std::filesystem::path& to, const std::string& digest) const;

  const StoreFolder& folder_;
  support::Descriptor opened_;
  StampMemo memo_;
};

}  // namespace pe::pipeline

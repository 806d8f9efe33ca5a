/// @file
/// Makes the second look cheap: a plan in which every result existed, remembered with its inputs.
#pragma once

#include <filesystem>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/expand/expand.h"
#include "pipeline/file/graph.h"
#include "pipeline/plan/plan.h"
#include "pipeline/store/record.h"
#include "support/files.h"

namespace pe::pipeline {

/// A finished plan, packed: enough to see that there is nothing to do without reading YAML, JSON, a description or the
/// cache of records.
///
///     <store>/memo/noop-<id>         files it was made from (stat and digest at reading), then needed objects, then
///                                    the keys of all results
///     <store>/memo/noop-<id>.mark    state of the records and of their folders when every record was last found
class UpToDateCache {
 public:
  /// The memo of this pipeline and these options, if every file that it depends on is unchanged: one stat each; a small
  /// file whose stat differs is hashed. `store` is the store's folder.
  static std::optional<UpToDateCache> find(const std::filesystem::path& store,
                                           const std::filesystem::path& pipeline_file, const ExpandOptions& options);

  std::string_view pipeline_name() const { return name_; }
  std::string_view view() const { return view_; }         ///< the argument of `remember`
  std::size_t task_count() const { return task_count_; }  ///< tasks of the graph; results count snapshots singly
  /// Keys of the results of all tasks.
  std::vector<ResultKey> results() const;

  /// True when no record was added, replaced, dropped or written to since `renew` (the records and their folders have
  /// the same times) and every object is there, with its size: one stat each. False says nothing: ask
  /// `everything_present`.
  bool objects_stand() const;
  /// True when the store has every record and every object.
  bool everything_present(const StoreView& store) const;
  /// To be called when `everything_present` said yes of a store that was opened after `objects_stand` said no: the next
  /// `objects_stand` then needs no record. In the two seconds after a change of records it has no effect. Failing to
  /// write is no error.
  void renew() const;

  /// Remembers a plan of the whole pipeline in which everything is there; any other is not remembered. It is tied to
  /// the state of the files when `graph` and `catalog` read them: an edit during a run ends the memo.
  /// `view` names what out/ and reports/ show of this plan. Failing to write is no error: it only costs time.
  static void remember(const std::filesystem::path& store, const std::filesystem::path& pipeline_file,
                       const ExpandOptions& options, const Graph& graph, const Plan& plan, const StageCatalog& catalog,
                       const std::string& view = {});

 private:
  support::MappedFile file_;  ///< what the views below look into
  std::filesystem::path store_, path_;
  std::shared_future<std::string> mark_;  ///< of the records since this memo was found
  std::string_view objects_;              ///< 40 bytes each: digest, then size or all ones
  std::string_view results_;              ///< 40 bytes each: key, then step
  std::size_t task_count_ = 0;
  std::string_view name_, view_;
};

}  // namespace pe::pipeline

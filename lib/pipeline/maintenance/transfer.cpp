#include "pipeline/maintenance/transfer.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <set>

#include "pipeline/store/host.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

class Transfer {
 public:
  Transfer(const Store& from, const Inventory& inventory, Store& to, const TransferOptions& options)
      : from_(from), inventory_(inventory), to_(to), options_(options) {}

  TransferReport go(const std::vector<std::size_t>& chosen) {
    const std::set<std::size_t> whole(chosen.begin(), chosen.end());
    const std::set<std::size_t> above = inventory_.behind(chosen);
    std::size_t number = 0;
    for (const std::size_t i : above) {
      if (whole.count(i) == 0) one(inventory_.results[i], true);
    }
    for (const std::size_t i : whole) {
      if (options_.progress) options_.progress(inventory_.results[i], ++number, whole.size());
      one(inventory_.results[i], false);
    }
    return std::move(report_);
  }

 private:
  void one(const StoredResult& result, bool record_only) {
    TransferItem moved;
    moved.task = result.name();
    moved.key = result.key;
    moved.record_only = record_only;
    try {
      auto record = from_.read(result.key, true);
      if (!record) throw support::ArtifactError("its record went away meanwhile");
      Result ours = to_result(*record);
      if (!record_only) from_.presence(ours, true);
      for (OutputRecord& output : ours.outputs) output.absent = output.absent || record_only;
      record->outputs = ours.outputs;
      const auto there = to_.read(result.key, true);
      Result theirs = there ? to_result(*there) : Result();
      const Presence presence = there ? to_.presence(theirs, true) : Presence::kGone;
      moved.existed =
          there && (record_only || (presence != Presence::kGone && !brings_more(theirs.outputs, ours.outputs)));
      if (there && presence != Presence::kGone && !same_contents(*there, *record)) {
        moved.conflict = true;
        moved.ours = origin_of(*record);
        moved.theirs = origin_of(*there);
      }
      if (moved.existed && record_only) return add(std::move(moved));
      copy_objects(ours, moved);
      if (!options_.dry_run) {
        if (options_.amend) options_.amend(*record);
        if (record_only && record->occasion.is_object())
          record->occasion["kept_at"] = cat(host_name(), ":", from_.root().string());
        to_.commit(*record);
      }
    } catch (const support::ArtifactError& error) {
      moved.problem = error.diagnostics().front().message;
    }
    add(std::move(moved));
  }

  void copy_objects(const Result& result, TransferItem& moved) {
    std::vector<std::string> digests;
    for (const OutputRecord& output : result.outputs) {
      if (output.absent) continue;
      digests.insert(digests.end(), output.members.begin(), output.members.end());
      digests.push_back(output.object);  // a manifest after what it names
    }
    for (const std::string& digest : digests) {
      if (seen_.count(digest)) continue;
      const fs::path path = from_.object_path(digest);
      std::error_code error, gone;
      const auto bytes = fs::file_size(path, error);
      // One that is cut there is replaced.
      const bool whole = to_.has_object(digest) && (error || fs::file_size(to_.object_path(digest), gone) == bytes);
      if (!whole) {
        if (error) throw support::ArtifactError(cat("its object ", digest.substr(0, 12), " is gone"));
        if (!options_.dry_run) to_.import_object(path, digest);
        moved.bytes += bytes;
        ++report_.objects;
      }
      seen_.insert(digest);  // not before: the next result with it tries again
    }
    report_.bytes += moved.bytes;
    if (options_.dry_run) return;
    // A `gc` there drops old objects that no record names, and the record comes next. The first copies may be old.
    for (const std::string& digest : digests) {
      if (!to_.make_young(digest)) to_.import_object(from_.object_path(digest), digest);
    }
  }

  void add(TransferItem moved) { report_.results.push_back(std::move(moved)); }

  const Store& from_;
  const Inventory& inventory_;
  Store& to_;
  const TransferOptions& options_;
  std::set<std::string> seen_;
  TransferReport report_;
};

}  // namespace

TransferReport transfer(const Store& from, const Inventory& inventory, const std::vector<std::size_t>& chosen,
                        Store& to, const TransferOptions& options) {
  return Transfer(from, inventory, to, options).go(chosen);
}

}  // namespace pe::pipeline

#include "pipeline/store/records.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>

#include "pipeline/store/digits.h"
#include "pipeline/store/shard_name.h"
#include "pipeline/store/whole_write.h"
#include "support/error.h"
#include "support/fault_point.h"
#include "support/file_stamp.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/sha256_text.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;
using support::fault_point;
using support::IoError;
using support::throw_errno;

std::optional<Record> Records::read(const ResultKey& key, bool strict) const {
  const fs::path path = folder_.record(key);
  try {
    if (!support::is_there(path)) return std::nullopt;
    Record found = record_from_text(support::read_file(path), path.string());
    if (found.key != key)
      throw ArtifactError(cat("'", path.string(), "' holds the record of another key, ", found.key.short_name()));
    return found;
  } catch (const IoError& error) {
    if (error.system_error() == ENOENT) return std::nullopt;  // it went between the look and the reading
    if (strict) throw;
    folder_.warn(cat("a record that cannot be read counts as missing: ", error.diagnostics().front().message));
    return std::nullopt;
  } catch (const support::Error& error) {
    folder_.warn(cat("a damaged record counts as missing: ", error.diagnostics().front().message));
    return std::nullopt;
  }
}

bool Records::exists(const ResultKey& key) const { return support::is_there(folder_.record(key)); }

/// Puts `fresh` in the place of a whole record in one step. Where that one is now.
fs::path Records::replace(const fs::path& fresh, const fs::path& path) const {
  const fs::path kept = folder_.name_in_trash(path);
  if (::link(path.c_str(), kept.c_str()) != 0) throw_errno("keep in the trash", path.string());
  support::rename_durably(fresh, path, folder_.durable());
  return kept;
}

namespace {

std::string origin_or_none(const Record& record) {
  const std::string origin = origin_of(record);
  return origin.empty() ? "of unknown origin" : origin;
}

/// Whether the conflict in a file has these contents, and all their bytes where the record has them.
bool is_conflict_of(const fs::path& path, const Record& record) {
  try {
    const Record kept = record_from_text(support::read_file(path), path.string());
    return kept.key == record.key && same_contents(kept, record) && !brings_more(kept.outputs, record.outputs);
  } catch (const support::Error&) {
    return false;  // damaged, or it cannot be read: it stays, and another one is added
  }
}

}  // namespace

/// Keeps the record under another name, once; the first one stays.
fs::path Records::keep_conflict(const Record& record) const {
  for (int n = 1;; ++n) {
    fs::path kept = folder_.record(record.key);
    kept.replace_extension(cat("conflict.", n, ".json"));
    if (support::is_there(kept)) {
      if (is_conflict_of(kept, record)) return kept;
      continue;
    }
    fault_point("write conflict");
    support::write_file_atomically(kept, record_text(record), folder_.durable());
    return kept;
  }
}

/// Whether a record that is there, whole or known, keeps its place. `published` then says what became of the new one.
bool Records::holds(const Record& existing, Presence presence, const Record& record, Standing standing,
                    PublishResult& published) const {
  const bool same = same_contents(existing, record);
  if (same && brings_more(existing.outputs, record.outputs)) return false;
  const bool whole = presence == Presence::kHere;
  const bool differs = existing.outputs != record.outputs || existing.status != record.status;
  if (whole && standing == Standing::kReplaced && differs) return false;
  if (!whole && !same && standing != Standing::kStays) return false;
  published.existed = same;
  published.conflict = !same;
  if (published.conflict) published.conflict_file = keep_conflict(record);
  if (published.conflict && !whole) published.known_from = origin_or_none(existing);
  published.task = existing.task;
  return true;
}

namespace {

/// The record that takes the place of one with the same contents whose bytes were not all here.
Record completed(const Record& known, Record record) {
  for (OutputRecord& output : record.outputs) {
    const OutputRecord* before = known.output(output.role);
    if (before && !before->absent && output.is_volatile)
      output = *before;  // another measurement: readers used the known one
    else
      output.absent = output.absent && (!before || before->absent);
  }
  if (record.occasion.is_object() && !record.occasion.contains("imported"))
    record.occasion["confirms"] = origin_of(known);
  return record;
}

}  // namespace

PublishResult Records::place(const Record& given, Standing standing) const {
  PublishResult published;
  const fs::path path = folder_.record(given.key);
  folder_.make_folder_of(path);
  published.key = given.key;
  for (int tries = 0;; ++tries) {
    const support::FileStamp seen = support::stamp_of(path);
    const bool occupied = support::is_there(path);
    // Its bytes may be whole, and then they hold: only what can be read and is damaged makes room for ours.
    auto existing = occupied ? read(given.key, true) : std::nullopt;
    Result there = existing ? to_result(*existing) : Result();
    const auto complete = [&](const Result& part) { return objects_.complete(part.outputs, true); };
    const Presence presence = existing ? presence_of(there, complete) : Presence::kGone;
    if (presence != Presence::kGone) {
      if (holds(*existing, presence, given, standing, published)) {
        published.result = there;
        break;
      }
    }
    const bool replaces = presence != Presence::kGone;
    const bool completes = replaces && brings_more(existing->outputs, given.outputs) && same_contents(*existing, given);
    std::optional<Record> merged;
    const Record& record = completes ? merged.emplace(completed(*existing, given)) : given;
    fault_point("write record");
    const fs::path fresh = write_sibling(path, record_text(record), folder_.durable());
    fault_point("commit record");
    if (replaces) {
      const fs::path before = replace(fresh, path);
      published.existed = completes;
      if (!completes) published.replaced = before;
      if (!completes && presence == Presence::kKnown) published.known_from = origin_or_none(*existing);
      published.task = record.task;
      published.result = to_result(record);
      break;
    }
    if (occupied) {
      // Damaged, or its objects are gone: it says nothing worth keeping.
      const fs::path moved = folder_.move_to_trash(path);
      if (!moved.empty() && support::stamp_of(moved).inode != seen.inode) {
        // Another process has replaced it since it was read, so it returns, and ours is compared with it.
        if (::link(moved.c_str(), path.c_str()) == 0 || errno == EEXIST) ::unlink(moved.c_str());
        ::unlink(fresh.c_str());
        continue;
      }
    }
    const int linked = ::link(fresh.c_str(), path.c_str());
    const int error = errno;
    ::unlink(fresh.c_str());
    if (linked != 0) {
      // Someone was faster: compare with theirs. On a network file system its name may show a minute late.
      if (error == EEXIST && tries < 30) {
        if (tries > 0) ::usleep(20000u << std::min(tries, 7));
        continue;
      }
      errno = error;
      throw_errno("publish record", path.string(), true);
    }
    fault_point("sync record");
    folder_.sync_folder_of(path);
    published.task = record.task;
    published.result = to_result(record);
    break;
  }
  return published;
}

void Records::drop(const ResultKey& key) const { folder_.move_to_trash(folder_.record(key)); }

std::vector<std::int64_t> Records::steps(const std::string& trajectory_key) const {
  std::vector<std::int64_t> steps;
  for (const std::string& name : support::list_folder(folder_.root() / "tracks" / trajectory_key)) {
    const std::string_view stem = std::string_view(name).substr(0, name.find('.'));
    const auto step = number_in_name(stem);
    if (step && name == cat(stem, ".json")) steps.push_back(*step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<ResultKey> Records::keys() const {
  std::vector<ResultKey> keys;
  for (const std::string& shard : support::list_folder(folder_.root() / "tasks")) {
    if (!is_shard(shard)) continue;
    for (const std::string& name : support::list_folder(folder_.root() / "tasks" / shard)) {
      if (name.size() == 69 && name.compare(64, 5, ".json") == 0 &&
          support::is_sha256(std::string_view(name).substr(0, 64))) {
        keys.push_back({name.substr(0, 64), -1});
      }
    }
  }
  for (const std::string& track : support::list_folder(folder_.root() / "tracks")) {
    if (!support::is_sha256(track)) continue;
    for (const std::int64_t step : steps(track)) keys.push_back({track, step});
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

}  // namespace pe::pipeline

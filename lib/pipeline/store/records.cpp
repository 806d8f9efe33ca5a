#include "pipeline/store/records.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>

#include "pipeline/store/digits.h"
#include "pipeline/store/shard_name.h"
#include "pipeline/store/whole_write.h"
#include "support/error.h"
#include "support/fault_point.h"
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

namespace {

/// The first two hex digits of a key.
std::size_t hex_byte(std::string_view key) {
  const auto digit = [](char c) -> std::size_t {
    return c >= '0' && c <= '9'   ? static_cast<std::size_t>(c - '0')
           : c >= 'a' && c <= 'f' ? static_cast<std::size_t>(c - 'a') + 10
                                  : 0;
  };
  return key.size() < 2 ? 0 : digit(key[0]) * 16 + digit(key[1]);
}

}  // namespace

std::optional<Record> Records::read(const ResultKey& key, bool strict) const {
  const fs::path path = folder_.record(key);
  try {
    if (!support::is_there(path)) return std::nullopt;
    Record found = record_from_text(support::read_file(path), path.string());
    if (found.key != key)
      throw ArtifactError(cat("'", path.string(), "' holds the record of another key, ", found.key.short_name()));
    return found;
  } catch (const IoError& error) {
    if (strict) throw;
    folder_.warn(cat("a record that cannot be read counts as missing: ", error.diagnostics().front().message));
    return std::nullopt;
  } catch (const support::Error& error) {
    folder_.warn(cat("a damaged record counts as missing: ", error.diagnostics().front().message));
    return std::nullopt;
  }
}

bool Records::exists(const ResultKey& key) const { return support::is_there(folder_.record(key)); }

bool Records::listed(const ResultKey& key) {
  if (key.is_snapshot()) return exists(key);
  Shard& shard = shards_[hex_byte(key.key)];
  if (!shard.listed) {
    for (std::string& name : support::list_folder(folder_.root() / "tasks" / key.key.substr(0, 2)))
      shard.names.insert(std::move(name));
    shard.listed = true;
  }
  return shard.names.count(key.key + ".json") != 0 || exists(key);
}

/// Keeps the record under another name; the first one stays.
fs::path Records::keep_conflict(const Record& record) const {
  for (int n = 1;; ++n) {
    fs::path beside = folder_.record(record.key);
    beside.replace_extension(cat("conflict.", n, ".json"));
    if (support::is_there(beside)) continue;
    fault_point("write conflict");
    support::write_file_atomically(beside, record_text(record), folder_.durable());
    return beside;
  }
}

/// Puts `fresh` in the place of a whole record in one step. Where that one is now.
fs::path Records::replace(const fs::path& fresh, const fs::path& path) const {
  const fs::path kept = folder_.name_in_trash(path);
  if (::link(path.c_str(), kept.c_str()) != 0) throw_errno("keep in the trash", path.string());
  support::rename_durably(fresh, path, folder_.durable());
  return kept;
}

Published Records::place(const Record& record, Standing standing) const {
  Published published;
  const fs::path path = folder_.record(record.key);
  folder_.make_folder_of(path);
  published.key = record.key;
  for (int tries = 0;; ++tries) {
    const bool occupied = support::is_there(path);
    // Its bytes may be whole, and then they hold: only what can be read and is damaged makes room for ours.
    auto existing = occupied ? read(record.key, true) : std::nullopt;
    const bool whole = existing && objects_.complete(existing->outputs, true);
    const bool replaces = whole && standing == Standing::kReplaced &&
                          (existing->outputs != record.outputs || existing->status != record.status);
    if (whole && !replaces) {
      published.existed = same_contents(*existing, record);
      published.conflict = !published.existed;
      if (published.conflict) published.conflict_file = keep_conflict(record);
      published.task = existing->task;
      published.result = to_result(*existing);
      break;
    }
    fault_point("write record");
    const auto write = [&](const support::TextSink& sink) { write_record(record, sink); };
    const fs::path fresh = write_sibling(path, write, folder_.durable());
    fault_point("commit record");
    if (replaces) {
      published.replaced = replace(fresh, path);
      published.task = record.task;
      published.result = to_result(record);
      break;
    }
    if (occupied) {
      // Damaged, or its objects are gone: it says nothing worth keeping.
      folder_.move_to_trash(path);
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

void Records::drop(const ResultKey& key) {
  if (!key.is_snapshot()) shards_[hex_byte(key.key)].names.erase(key.key + ".json");
  folder_.move_to_trash(folder_.record(key));
}

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
      if (name.size() == 69 && name.compare(64, 5, ".json") == 0 && support::is_sha256(std::string_view(name).substr(0, 64))) {
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

#include "pipeline/store/record_cache.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "pipeline/store/packing.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/folders.h"

namespace pe::pipeline {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kRecordsMagic = "pe-records/2\n";
/// Rows that are written in the time in which one record is read.
constexpr std::size_t kRowsPerRecord = 50;

template <typename Entry>
bool take_table(std::string_view bytes, std::vector<Entry>& table) {
  static_assert(std::is_trivially_copyable_v<Entry>);
  if (bytes.size() % sizeof(Entry) != 0) return false;
  table.resize(bytes.size() / sizeof(Entry));
  if (!bytes.empty()) std::memcpy(table.data(), bytes.data(), bytes.size());
  return true;
}

template <typename Entry>
std::string_view raw_bytes(const std::vector<Entry>& table) {
  return {reinterpret_cast<const char*>(table.data()), table.size() * sizeof(Entry)};
}

}  // namespace

bool RecordCache::RowEntry::is_of(const support::FileStamp& stamp) const {
  return stamp.size == size && stamp.mtime_ns == mtime_ns && stamp.ctime_ns == ctime_ns && stamp.inode == inode;
}

RecordCache::File::File(const fs::path& path) {
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return;
  try {
    mapped = support::MappedFile(path);
  } catch (const support::IoError&) {
    return;
  }
  ByteCursor cursor{mapped.view()};
  if (cursor.take_bytes(kRecordsMagic.size()) != kRecordsMagic) return;
  Unpacker tables(cursor.take_bytes(cursor.take<std::uint64_t>()), "");
  const std::string_view of_rows = tables.text(), of_hints = tables.text();
  if (!tables.good() || !take_table(of_rows, entries) || !take_table(of_hints, hints)) entries.clear();
  rows = cursor.rest;
}

std::string_view RecordCache::File::row(const RowEntry& entry) const {
  return entry.at <= rows.size() && entry.length <= rows.size() - entry.at ? rows.substr(entry.at, entry.length)
                                                                           : std::string_view();
}

RecordCache::RecordCache(const StoreFolder& folder, const Records& records)
    : folder_(folder), records_(records), path_(folder.root() / "memo" / "records"), file_(path_) {
  for (const HintEntry& hint : file_.hints) note_hint(hint);
  saved_rows_ = file_.entries.size();
}

RecordCache::~RecordCache() {
  if (unsaved_ * kRowsPerRecord > saved_rows_) save();
}

const RecordCache::RowEntry* RecordCache::entry_in_file(const PackedKey& key) const {
  const auto entry = std::lower_bound(file_.entries.begin(), file_.entries.end(), key,
                                      [](const RowEntry& a, const PackedKey& b) { return a.key < b; });
  return entry != file_.entries.end() && entry->key == key ? &*entry : nullptr;
}

RecordCache::Row RecordCache::row(const ResultKey& key, bool strict) {
  const PackedKey packed(key);
  const support::FileStamp stamp = support::stamp_of(folder_.record(key));
  if (stamp.exists) {
    const auto known = fresh_.find(packed);
    if (known != fresh_.end() && known->second.entry.is_of(stamp)) return {*known->second.text, known->second.text};
    const RowEntry* const entry = entry_in_file(packed);
    if (entry && entry->is_of(stamp)) {
      if (const std::string_view text = file_.row(*entry); Unpacker(text, "").good()) return {text, nullptr};
    }
  }
  // Stamped before it is read: a record that changes meanwhile has another stamp at the next look.
  const auto record = records_.read(key, strict);
  if (!record) return {};
  ++unsaved_;
  FreshRow& fresh = fresh_[packed];
  fresh.text = std::make_shared<const std::string>(row_of(*record));
  fresh.entry = {packed, stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.inode, 0, fresh.text->size()};
  note_hint({PackedDigest(record->plan_key), packed.digest, stamp.mtime_ns});
  return {*fresh.text, fresh.text};
}

PackedResult RecordCache::find(const ResultKey& key, bool strict) { return result_in(row(key, strict).text); }

std::vector<PastTask> RecordCache::past_tasks() {
  if (!complete_) refresh();
  std::vector<PastTask> tasks;
  for (const PackedKey& key : all_) {
    const auto known = fresh_.find(key);
    const RowEntry* const entry = known == fresh_.end() ? entry_in_file(key) : nullptr;
    auto past = past_task_in(key.unpack(), entry ? file_.row(*entry) : *known->second.text);
    if (!past) continue;
    if (!entry) past->owner = known->second.text;
    tasks.push_back(*std::move(past));
  }
  return tasks;
}

std::optional<std::string> RecordCache::hint(const std::string& plan_key) {
  const PackedDigest wanted(plan_key);
  if (wanted == PackedDigest()) return std::nullopt;
  if (hints_.count(wanted) == 0 && !complete_ && folder_.lists_records()) refresh();
  const auto found = hints_.find(wanted);
  return found == hints_.end() ? std::nullopt : std::optional(found->second.key.hex());
}

void RecordCache::set_hint(const std::string& plan_key, const std::string& key) {
  if (hint(plan_key) == key) return;
  note_hint({PackedDigest(plan_key), PackedDigest(key), static_cast<std::uint64_t>(support::unix_time() * 1e9)});
  ++unsaved_;
}

void RecordCache::note_hint(const HintEntry& hint) {
  if (hint.plan_key == PackedDigest()) return;
  HintEntry& known = hints_[hint.plan_key];
  if (hint.time_ns >= known.time_ns) known = hint;
}

void RecordCache::refresh() {
  std::vector<PackedKey> all;
  for (const ResultKey& key : records_.keys()) {
    if (!row(key, false).text.empty()) all.emplace_back(key);
  }
  std::sort(all.begin(), all.end());
  all_ = std::move(all);
  complete_ = true;
  std::erase_if(fresh_, [&](const auto& row) { return !std::binary_search(all_.begin(), all_.end(), row.first); });
  if (unsaved_ > 0 || all_.size() != saved_rows_) save();
}

void RecordCache::save() {
  const File now(path_);  // others may have written it since
  for (const HintEntry& hint : now.hints) note_hint(hint);
  std::vector<std::pair<RowEntry, std::string_view>> rows;
  for (const RowEntry& entry : now.entries) {
    const bool gone = complete_ && !std::binary_search(all_.begin(), all_.end(), entry.key);
    if (!gone && fresh_.count(entry.key) == 0) rows.emplace_back(entry, now.row(entry));
  }
  for (const auto& [key, row] : fresh_) rows.emplace_back(row.entry, *row.text);
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.first.key < b.first.key; });
  std::vector<RowEntry> entries;
  std::uint64_t at = 0;
  for (auto& [entry, text] : rows) {
    entry.at = at;
    entry.length = text.size();
    at += text.size();
    entries.push_back(entry);
  }
  std::vector<HintEntry> hints;
  for (const auto& [plan_key, hint] : hints_) {
    const auto of_key = std::lower_bound(entries.begin(), entries.end(), hint.key,
                                         [](const RowEntry& a, const PackedDigest& b) { return a.key.digest < b; });
    const bool leads = of_key != entries.end() && of_key->key.digest == hint.key;
    if (leads || !complete_) hints.push_back(hint);
  }
  Packer tables;
  tables.text(raw_bytes(entries));
  tables.text(raw_bytes(hints));
  const std::string head = tables.take("");
  std::string bytes(kRecordsMagic);
  put_bytes(bytes, static_cast<std::uint64_t>(head.size()));
  bytes.reserve(bytes.size() + head.size() + at);
  bytes += head;
  for (const auto& [entry, text] : rows) bytes += text;
  try {
    support::make_folders(path_.parent_path());
    support::write_file_atomically(path_, bytes, false);
    unsaved_ = 0;
    saved_rows_ = entries.size();
  } catch (const support::Error&) {
    // A store that cannot be written is no reason to fail a plan.
  }
}

}  // namespace pe::pipeline

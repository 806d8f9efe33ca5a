#include "pipeline/store/stamp_memo.h"

#include <utility>

#include "pipeline/store/packing.h"
#include "support/error.h"
#include "support/files.h"

namespace pe::pipeline {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kStampMemoMagic = "pe-content-memo/2\n";
constexpr std::uint64_t kLarge = 1u << 20;
constexpr std::chrono::seconds kSaveStampsEvery{5};

/// But for the ctime, which links move as well.
bool same_bytes(const support::FileStamp& then, const support::FileStamp& now) {
  return now.exists && then.inode == now.inode && then.size == now.size && then.mtime_ns == now.mtime_ns;
}

}  // namespace

StampMemo StampMemo::of_inputs(const fs::path& store) { return {store / "memo" / "content", false}; }
StampMemo StampMemo::of_objects(const fs::path& store) { return {store / "memo" / "objects", true}; }
StampMemo::~StampMemo() { save(); }

void StampMemo::load() const {
  if (!std::exchange(loaded_, true)) known_.merge(read());
}

std::optional<support::FileRead> StampMemo::known(const fs::path& file) const {
  const support::FileStamp now = support::stamp_of(file);
  if (!now.exists) return std::nullopt;
  const std::lock_guard lock(mutex_);
  load();
  const auto found = known_.find(file.native());
  if (found == known_.end()) return std::nullopt;
  const auto& [stamp, sha256, own, fresh] = found->second;
  if (!(stamp == now || (own && same_bytes(stamp, now)))) return std::nullopt;
  return support::FileRead{file.string(), now, sha256};
}

support::FileRead StampMemo::digest(const fs::path& file) {
  if (auto read = known(file)) return *std::move(read);
  support::FileRead read = support::hash_file(file);
  note_read(read);
  return read;
}

void StampMemo::note_read(const support::FileRead& read) {
  const support::FileStamp after = support::stamp_of(read.path.c_str());
  if (same_bytes(read.stamp, after)) note(read.path, {of_objects_ ? after : read.stamp, read.sha256});
}

void StampMemo::note_published(const fs::path& file, const std::string& sha256) {
  const support::FileStamp stamp = support::stamp_of(file);
  if (stamp.exists) note(file, {stamp, sha256, true});
}

void StampMemo::note(const fs::path& file, StampedDigest known) {
  const std::lock_guard lock(mutex_);
  if (!of_objects_ && !known.stamp.settled()) {
    load();
    known_.erase(file.native());
    return;
  }
  known.fresh = !of_objects_ || known.stamp.size >= kLarge;
  known_[file.native()] = std::move(known);
  if (std::chrono::steady_clock::now() - saved_ > kSaveStampsEvery) save_locked();
}

void StampMemo::forget(const fs::path& file) {
  const std::lock_guard lock(mutex_);
  load();
  known_.erase(file.native());
}

void StampMemo::forget_all() {
  const std::lock_guard lock(mutex_);
  loaded_ = true;
  known_.clear();
}

void StampMemo::drop_stale() {
  const std::lock_guard lock(mutex_);
  Known all = read();
  const auto stale = [](const auto& entry) {
    const support::FileStamp now = support::stamp_of(entry.first.c_str());
    std::error_code error;  // a disk that is not mounted takes its folders along, and comes back
    return now.exists ? !(now == entry.second.stamp) : fs::is_directory(fs::path(entry.first).parent_path(), error);
  };
  if (std::erase_if(all, stale) != 0) write(all);
}

void StampMemo::save() {
  const std::lock_guard lock(mutex_);
  save_locked();
}

void StampMemo::save_locked() {
  saved_ = std::chrono::steady_clock::now();
  Known settled;
  for (auto& [file, known] : known_) {
    if (!known.fresh) continue;
    const support::FileStamp now = support::stamp_of(file.c_str());
    const bool same = same_bytes(known.stamp, now);
    if (same && !now.settled()) continue;  // next time
    known.fresh = false;
    if (!same) continue;
    if (of_objects_) known.stamp = now;
    settled[file] = known;
  }
  if (settled.empty()) return;
  settled.merge(read());  // what others wrote since
  write(settled);
}

StampMemo::Known StampMemo::read() const {
  Known known;
  std::error_code error;
  if (!fs::is_regular_file(path_, error)) return known;
  std::string file;
  try {
    file = support::read_file(path_);
  } catch (const support::IoError&) {
    return known;
  }
  Unpacker unpacker(file, kStampMemoMagic);
  for (std::uint64_t i = 0, count = unpacker.number(); i < count && unpacker.good(); ++i) {
    std::string name(unpacker.text());
    StampedDigest entry;
    entry.stamp = unpacker.stamp();
    entry.sha256 = unpacker.text();
    if (unpacker.good()) known[std::move(name)] = std::move(entry);
  }
  return known;
}

void StampMemo::write(const Known& all) const {
  Packer packer;
  packer.number(all.size());
  for (const auto& [name, known] : all) {
    packer.text(name);
    packer.stamp(known.stamp);
    packer.text(known.sha256);
  }
  try {
    support::make_folders(path_.parent_path());
    support::write_file_atomically(path_, packer.take(kStampMemoMagic), false);
  } catch (const support::IoError&) {
    // The next process reads the files again.
  }
}

}  // namespace pe::pipeline

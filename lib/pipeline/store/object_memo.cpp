#include "pipeline/store/object_memo.h"

#include "pipeline/store/packing.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"

namespace pe::pipeline {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kObjectMemoMagic = "pe-object-memo/1\n";
constexpr std::uint64_t kLarge = 1u << 20;  ///< a smaller one is hashed in the time that looking it up takes
constexpr std::chrono::seconds kSaveObjectsEvery{5};

/// But for the ctime, which links move as well.
bool same_bytes(const support::FileStamp& then, const support::FileStamp& now) {
  return now.exists && then.inode == now.inode && then.size == now.size && then.mtime_ns == now.mtime_ns;
}

std::unordered_map<std::string, support::FileStamp> read_memo(const fs::path& path) {
  std::unordered_map<std::string, support::FileStamp> known;
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return known;
  std::string file;
  try {
    file = support::read_file(path);
  } catch (const support::IoError&) {
    return known;
  }
  Unpacker unpacker(file, kObjectMemoMagic);
  for (std::uint64_t i = 0, count = unpacker.number(); i < count && unpacker.good(); ++i) {
    std::string digest(unpacker.text());
    const support::FileStamp stamp = unpacker.stamp();
    if (unpacker.good()) known[std::move(digest)] = stamp;
  }
  return known;
}

}  // namespace

ObjectMemo::ObjectMemo(const fs::path& store) : path_(store / "memo" / "objects") {}

ObjectMemo::~ObjectMemo() { save(); }

void ObjectMemo::load() {
  if (loaded_) return;
  loaded_ = true;
  for (auto& [digest, stamp] : read_memo(path_)) known_.try_emplace(PackedDigest(digest), StampedDigest{stamp});
}

bool ObjectMemo::known(const fs::path& file, const std::string& digest) {
  const support::FileStamp now = support::stamp_of(file);
  if (!now.exists) return false;
  const std::lock_guard lock(mutex_);
  load();
  const auto found = known_.find(PackedDigest(digest));
  return found != known_.end() &&
         (found->second.stamp == now || (found->second.own && same_bytes(found->second.stamp, now)));
}

void ObjectMemo::note_read(const fs::path& file, const std::string& digest, const support::FileStamp& before) {
  const support::FileStamp after = support::stamp_of(file);
  if (!same_bytes(before, after)) return;  // the next reader reads again
  const std::lock_guard lock(mutex_);
  known_[PackedDigest(digest)] = {after};
  if (after.size >= kLarge) fresh_[digest] = file;
  if (std::chrono::steady_clock::now() - saved_ > kSaveObjectsEvery) save_locked();
}

void ObjectMemo::note_published(const fs::path& file, const std::string& digest) {
  const support::FileStamp stamp = support::stamp_of(file);
  if (!stamp.exists) return;
  const std::lock_guard lock(mutex_);
  known_[PackedDigest(digest)] = {stamp, true};
  if (stamp.size >= kLarge) fresh_[digest] = file;
}

void ObjectMemo::forget(const std::string& digest) {
  const std::lock_guard lock(mutex_);
  load();
  known_.erase(PackedDigest(digest));
  fresh_.erase(digest);
}

void ObjectMemo::forget_all() {
  const std::lock_guard lock(mutex_);
  loaded_ = true;
  known_.clear();
  fresh_.clear();
}

void ObjectMemo::drop_stale(const std::function<fs::path(const std::string& digest)>& file_of) {
  const std::lock_guard lock(mutex_);
  auto all = read_memo(path_);
  const auto stale = [&](const auto& entry) { return !(support::stamp_of(file_of(entry.first)) == entry.second); };
  if (std::erase_if(all, stale) != 0) write(all);
}

void ObjectMemo::save() {
  const std::lock_guard lock(mutex_);
  save_locked();
}

void ObjectMemo::save_locked() {
  saved_ = std::chrono::steady_clock::now();
  std::unordered_map<std::string, support::FileStamp> settled;
  for (auto it = fresh_.begin(); it != fresh_.end();) {
    const support::FileStamp now = support::stamp_of(it->second);
    support::FileStamp& then = known_[PackedDigest(it->first)].stamp;
    const bool same = same_bytes(then, now);
    if (same && !now.settled()) {
      ++it;  // next time
      continue;
    }
    if (same) settled[it->first] = then = now;
    it = fresh_.erase(it);
  }
  if (settled.empty()) return;
  auto all = read_memo(path_);  // what others wrote since
  for (const auto& [digest, stamp] : settled) all[digest] = stamp;
  write(all);
}

void ObjectMemo::write(const std::unordered_map<std::string, support::FileStamp>& all) const {
  Packer packer;
  packer.number(all.size());
  for (const auto& [digest, stamp] : all) {
    packer.text(digest);
    packer.stamp(stamp);
  }
  try {
    support::make_folders(path_.parent_path());
    support::write_file_atomically(path_, packer.take(kObjectMemoMagic), false);
  } catch (const support::IoError&) {
    // The next user of the objects reads them again.
  }
}

}  // namespace pe::pipeline

#include "pipeline/store/content_memo.h"

#include "pipeline/store/packing.h"
#include "support/error.h"
#include "support/files.h"

namespace pe::pipeline {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kContentMemoMagic = "pe-content-memo/2\n";
constexpr std::chrono::seconds kSaveContentsEvery{5};

}  // namespace

ContentMemo::ContentMemo(const fs::path& store) : path_(store / "memo" / "content") {
  std::error_code error;
  if (!fs::is_regular_file(path_, error)) return;
  std::string file;
  try {
    file = support::read_file(path_);
  } catch (const support::IoError&) {
    return;
  }
  Unpacker unpacker(file, kContentMemoMagic);
  const std::uint64_t count = unpacker.number();
  for (std::uint64_t i = 0; i < count && unpacker.good(); ++i) {
    std::string name(unpacker.text());
    StampedDigest known;
    known.stamp = unpacker.stamp();
    known.sha256 = unpacker.text();
    if (unpacker.good()) known_[std::move(name)] = std::move(known);
  }
}

std::optional<support::FileRead> ContentMemo::known(const fs::path& file) const {
  const auto it = known_.find(file.string());
  if (it == known_.end()) return std::nullopt;
  const support::FileStamp stamp = support::stamp_of(file);
  if (!stamp.exists || !(stamp == it->second.stamp)) return std::nullopt;
  return support::FileRead{file.string(), stamp, it->second.sha256};
}

support::FileRead ContentMemo::digest(const fs::path& file) {
  if (auto read = known(file)) return *std::move(read);
  support::FileRead read = support::hash_file(file);
  if (read.stamp.settled()) {
    known_[read.path] = {read.stamp, read.sha256};
    changed_ = true;
  } else {
    changed_ = known_.erase(read.path) != 0 || changed_;
  }
  if (std::chrono::steady_clock::now() - saved_ > kSaveContentsEvery) save();
  return read;
}

void ContentMemo::drop_stale() {
  changed_ =
      std::erase_if(known_,
                    [](const auto& entry) {
                      const auto& [name, known] = entry;
                      const support::FileStamp now = support::stamp_of(name.c_str());
                      std::error_code error;  // a disk that is not mounted takes its folders along, and comes back
                      return now.exists ? !(now == known.stamp) : fs::is_directory(fs::path(name).parent_path(), error);
                    }) != 0 ||
      changed_;
}

void ContentMemo::save() {
  saved_ = std::chrono::steady_clock::now();
  if (!changed_) return;
  Packer packer;
  packer.number(known_.size());
  for (const auto& [name, known] : known_) {
    packer.text(name);
    packer.stamp(known.stamp);
    packer.text(known.sha256);
  }
  try {
    support::make_folders(path_.parent_path());
    support::write_file_atomically(path_, packer.take(kContentMemoMagic), false);
    changed_ = false;
  } catch (const support::IoError&) {
    // A store that cannot be written yet is no reason to fail a plan.
  }
}

}  // namespace pe::pipeline

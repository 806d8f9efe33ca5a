#include "artifact/member_digests.h"

#include <algorithm>

#include "support/boot_id.h"
#include "support/error.h"
#include "support/files.h"
#include "support/json.h"
#include "support/parse_json.h"
#include "support/sha256_text.h"

namespace pe::artifact {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view kClosingSchema = "pe-closed/1";
constexpr std::uint64_t kLargestNote = 256ULL << 20;

/// Whether any write after the look changes the stamp: the last change is older than one tick of the file system's
/// clock. Times with a part below a millisecond come from a clock with at least a hundred ticks per second.
bool tells_later_writes(const support::FileStamp& stamp) {
  const bool fine = stamp.mtime_ns % 1'000'000u != 0 && stamp.ctime_ns % 1'000'000u != 0;
  return stamp.exists &&
         std::max(stamp.mtime_ns, stamp.ctime_ns) + (fine ? 50'000'000u : 2'000'000'000u) <= stamp.looked_ns;
}

fs::path note_path(const fs::path& folder) { return fs::path(folder) += ".closed"; }

}  // namespace

void MemberDigests::add(const std::string& name, const std::string& sha256, const support::FileStamp& before,
                        const support::FileStamp& after) {
  if (before == after && tells_later_writes(after)) members_[name] = {sha256, after};
}

void MemberDigests::write(const fs::path& folder) const {
  Json members = Json::array();
  for (const auto& [name, closed] : members_) {
    members.push_back({{"name", name},
                       {"sha256", closed.sha256},
                       {"bytes", closed.stamp.size},
                       {"mtime_ns", closed.stamp.mtime_ns},
                       {"ctime_ns", closed.stamp.ctime_ns},
                       {"inode", closed.stamp.inode}});
  }
  const Json note = {{"schema", kClosingSchema}, {"boot", support::boot_id()}, {"members", std::move(members)}};
  try {
    support::write_file_atomically(note_path(folder), note.dump(1) + "\n", false);
  } catch (const support::IoError&) {
    // Publishing then hashes every member again.
  }
}

MemberDigests MemberDigests::read(const fs::path& folder) {
  MemberDigests note;
  const fs::path path = note_path(folder);
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return note;
  try {
    const Json json = support::require_json(support::read_file(path, kLargestNote));
    // Data that another start of the kernel had in memory may never have reached the disk.
    if (json.at("schema") != kClosingSchema || json.at("boot") != support::boot_id() || support::boot_id().empty())
      return note;
    for (const Json& item : json.at("members")) {
      MemberDigest closed;
      closed.sha256 = item.at("sha256").get<std::string>();
      closed.stamp.exists = true;
      closed.stamp.size = item.at("bytes").get<std::uint64_t>();
      closed.stamp.mtime_ns = item.at("mtime_ns").get<std::uint64_t>();
      closed.stamp.ctime_ns = item.at("ctime_ns").get<std::uint64_t>();
      closed.stamp.inode = item.at("inode").get<std::uint64_t>();
      if (support::is_sha256(closed.sha256)) note.members_[item.at("name").get<std::string>()] = std::move(closed);
    }
  } catch (const support::IoError&) {
    return {};
  } catch (const Json::exception&) {
    return {};
  }
  return note;
}

std::optional<support::FileRead> MemberDigests::unchanged(const std::string& name, const fs::path& path) const {
  const auto found = members_.find(name);
  if (found == members_.end()) return std::nullopt;
  const support::FileStamp now = support::stamp_of(path);
  if (!(now == found->second.stamp)) return std::nullopt;
  return support::FileRead{path.string(), now, found->second.sha256};
}

}  // namespace pe::artifact

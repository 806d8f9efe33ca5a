#include "pipeline/store/objects.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>

#include "artifact/artifact_check.h"
#include "artifact/closing_note.h"
#include "artifact/collection.h"
#include "artifact/content_digest.h"
#include "artifact/h5.h"
#include "artifact/header.h"
#include "artifact/workspace.h"
#include "pipeline/store/shard_name.h"
#include "support/error.h"
#include "support/fault_point.h"
#include "support/hash.h"
#include "support/sha256_text.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;
using support::Descriptor;
using support::fault_point;
using support::IoError;
using support::throw_errno;

namespace {

/// The SHA-256 of a file. `go_on` is told the size of every block; when it says no, the answer is empty.
std::string hash_of(const fs::path& path, const std::function<bool(std::uint64_t)>& go_on) {
  const Descriptor file = support::open_regular(path);
  support::Sha256 hash;
  constexpr std::size_t kBlock = 1 << 20;
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBlock);
  while (true) {
    const ssize_t count = ::read(file.get(), buffer.get(), kBlock);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw_errno("read", path.string());
    if (count == 0) return hash.hex();
    hash.update(buffer.get(), static_cast<std::size_t>(count));
    if (!go_on(static_cast<std::uint64_t>(count))) return "";
  }
}

/// A stage of another build may have run under a name and a key that were looked up before.
void require_maker(const fs::path& path, const artifact::Recipe& made_by, const artifact::Recipe& expected) {
  if (!made_by.task_key.empty() && made_by.task_key != expected.task_key) {
    throw ArtifactError(cat("'", path.string(), "' says that it was made for key ", made_by.task_key.substr(0, 12),
                            "…, expected ", expected.task_key.substr(0, 12), "…"));
  }
  if (made_by.version != 0 && made_by.stage == expected.stage && made_by.version != expected.version) {
    throw ArtifactError(cat("'", path.string(), "' says that it was made by result version ", made_by.version, " of '",
                            made_by.stage, "', expected version ", expected.version,
                            ": the stage was rebuilt while it ran; start the run again"));
  }
}

bool same_file(const fs::path& a, const fs::path& b) {
  struct stat first {}, second {};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

Objects::Objects(const StoreFolder& folder)
    : folder_(folder),
      opened_(::open((folder.root() / "objects").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)),
      memo_(folder.root()) {}

bool Objects::has(const std::string& digest) const {
  return support::is_sha256(digest) && ::access(folder_.object(digest).c_str(), F_OK) == 0;
}

bool Objects::complete(const std::vector<OutputRecord>& outputs) const {
  const auto there = [&](const std::string& digest, const std::uint64_t* bytes) {
    if (digest.size() != 64 || !opened_) return false;
    struct stat status {};
    if (::fstatat(opened_.get(), ShardName(digest).c_str(), &status, 0) != 0) return false;
    return bytes == nullptr || static_cast<std::uint64_t>(status.st_size) == *bytes;
  };
  for (const OutputRecord& output : outputs) {
    if (!there(output.object, output.collection ? nullptr : &output.bytes)) return false;
    for (const std::string& member : output.members) {
      if (!there(member, nullptr)) return false;
    }
  }
  return true;
}

OutputRecord Objects::publish(const Produced& produced, const artifact::Recipe* expected) {
  OutputRecord output;
  output.role = produced.role;
  output.kind = std::string(artifact::kind_name(produced.kind));
  output.is_volatile = produced.is_volatile;
  output.collection = artifact::is_collection(produced.kind);
  fault_point("check");
  if (output.collection) {
    artifact::check_artifact(produced.path, produced.kind);
  } else {
    // Held open over the check: HDF5 then opens the same file again in a tenth of the time.
    std::optional<artifact::h5::File> file;
    if (artifact::h5::looks_like_hdf5(produced.path)) file = artifact::h5::File::open(produced.path);
    if (file)
      artifact::check_artifact(*file, produced.kind);
    else
      artifact::check_artifact(produced.path, produced.kind);
    output.content = file ? artifact::content_digest(*file) : artifact::artifact_content_digest(produced.path);
    if (file && expected) require_maker(produced.path, artifact::read_recipe(*file), *expected);
  }
  if (!output.collection) {
    struct stat status {};
    if (::stat(produced.path.c_str(), &status) != 0) throw_errno("read", produced.path.string());
    output.bytes = static_cast<std::uint64_t>(status.st_size);
    const support::FileRead read = support::hash_file(produced.path);
    output.object = read.sha256;
    place(read);
    return output;
  }
  const fs::path manifest_path = produced.path / artifact::kManifestName;
  const std::string text = support::read_file(manifest_path);
  const artifact::Manifest manifest = artifact::Manifest::parse(text, manifest_path.string());
  if (expected) require_maker(produced.path, manifest.recipe, *expected);
  const artifact::ClosingNote closed = artifact::ClosingNote::read(produced.path);
  for (const artifact::Member& member : manifest.members) {
    const fs::path path = produced.path / member.name;
    // Hashed again although the manifest says it, unless nothing can have touched it since it was: an object's name must
    // be true, whoever wrote the manifest.
    std::optional<support::FileRead> unchanged = closed.unchanged(member.name, path);
    const support::FileRead read = unchanged ? std::move(*unchanged) : support::hash_file(path);
    if (read.sha256 != member.file_digest) {
      throw ArtifactError(cat("'", path.string(), "' has SHA-256 ", read.sha256.substr(0, 12),
                              "…, but its manifest says ", member.file_digest.substr(0, 12),
                              "…: it changed after it was closed"));
    }
    place(read);
    output.members.push_back(read.sha256);
    output.bytes += member.bytes;
  }
  const support::FileRead read = support::hash_file(manifest_path);
  if (read.sha256 != support::sha256_hex(text)) {
    throw ArtifactError(cat("'", manifest_path.string(), "' changed while it was published"));
  }
  output.object = read.sha256;
  output.content = manifest.content_digest();
  output.bytes += text.size();
  place(read);
  return output;
}

/// Links `from`, hashed just now, into objects/ under its digest. What is there already gives way: it may have lost
/// bits, and the fresh bytes are known.
void Objects::place(const support::FileRead& read) {
  const fs::path from = read.path;
  const std::string& digest = read.sha256;
  const fs::path to = folder_.object(digest);
  folder_.make_folder_of(to);
  fault_point("chmod");
  if (::chmod(from.c_str(), 0444) != 0) throw_errno("protect", from.string());
  fault_point("sync object");
  if (folder_.durable()) support::sync_path(from);
  fault_point("link object");
  // Nobody has written it since it was hashed.
  const support::FileStamp now = support::stamp_of(from);
  const bool untouched =
      now.inode == read.stamp.inode && now.size == read.stamp.size && now.mtime_ns == read.stamp.mtime_ns;
  if (::link(from.c_str(), to.c_str()) != 0) {
    if (errno != EEXIST) throw_errno("publish into", to.string(), true);
    // Made young in any case, so that a `gc` that is about to drop what was there as unused leaves it.
    if (same_file(from, to))
      ::utimensat(AT_FDCWD, to.c_str(), nullptr, 0);
    else
      replace(from, to, digest);
  }
  fault_point("sync objects");
  folder_.sync_folder_of(to);
  if (untouched) memo_.note_published(to, digest);
  else memo_.forget(digest);
}

void Objects::replace(const fs::path& from, const fs::path& to, const std::string& digest) const {
  const fs::path fresh = support::unique_sibling(to);
  // A name of nobody else's that exists all the same is ours: the reply to the call was lost (NFS).
  if (::link(from.c_str(), fresh.c_str()) != 0 && !(errno == EEXIST && same_file(from, fresh))) {
    throw_errno("publish into", to.string(), true);
  }
  ::utimensat(AT_FDCWD, fresh.c_str(), nullptr, 0);
  const int error = ::rename(fresh.c_str(), to.c_str()) == 0 ? 0 : errno;
  ::unlink(fresh.c_str());  // also a rename between two names of one file leaves it
  if (error == 0) return;
  // Another user's in a folder that protects it: as good as ours while its bytes are.
  if ((error == EACCES || error == EPERM) && support::sha256_file(to) == digest) return;
  errno = error;
  throw_errno("publish into", to.string(), true);
}

void Objects::import_copy(const fs::path& from, const std::string& digest) {
  if (!support::is_sha256(digest)) throw ArtifactError(cat(support::quote(digest), " is not a digest"));
  const fs::path copy = support::unique_sibling(folder_.root() / "work" / cat("import-", digest.substr(0, 12)));
  support::make_folders(copy.parent_path());
  try {
    std::error_code error;
    fs::copy_file(from, copy, error);
    if (error) throw IoError(cat("cannot copy '", from.string(), "' to '", copy.string(), "': ", error.message()));
    const support::FileRead read = support::hash_file(copy);
    if (read.sha256 != digest) {
      throw ArtifactError(cat("'", from.string(), "' has SHA-256 ", read.sha256.substr(0, 12), "…, but is named ",
                              digest.substr(0, 12), "…: it is damaged"));
    }
    place(read);
  } catch (...) {
    ::unlink(copy.c_str());
    throw;
  }
  ::unlink(copy.c_str());
}

bool Objects::known_whole(const OutputRecord& output) {
  const auto known = [&](const std::string& digest) {
    return support::is_sha256(digest) && memo_.known(folder_.object(digest), digest);
  };
  return known(output.object) && std::all_of(output.members.begin(), output.members.end(), known);
}

std::vector<std::string> Objects::damaged(const OutputRecord& output, Reread reread,
                                          const std::function<bool(std::uint64_t)>& go_on) {
  std::vector<std::string> bad;
  bool given_up = false;
  const auto block = [&](std::uint64_t bytes) {
    fault_point("read object");
    given_up = given_up || (go_on && !go_on(bytes));
    return !given_up;
  };
  const auto look = [&](const std::string& digest) {
    const fs::path path = folder_.object(digest);
    if (given_up || (reread == Reread::kUnknown && memo_.known(path, digest))) return;
    bool whole = false;
    const support::FileStamp before = support::stamp_of(path);
    try {
      whole = has(digest) && hash_of(path, block) == digest;
    } catch (const IoError&) {
      // Cannot be read: as good as damaged.
    }
    if (given_up) return;
    if (whole) {
      memo_.note_read(path, digest, before);
      return;
    }
    memo_.forget(digest);
    bad.push_back(digest);
  };
  look(output.object);
  for (const std::string& member : output.members) look(member);
  return bad;
}

void Objects::tidy_memo() {
  memo_.drop_stale([&](const std::string& digest) { return folder_.object(digest); });
}

void Objects::discard(const std::string& digest) {
  memo_.forget(digest);
  if (has(digest)) folder_.move_to_trash(folder_.object(digest));
}

fs::path Objects::materialise(const OutputRecord& output, const fs::path& folder) const {
  if (!output.collection) return folder_.object(output.object);
  const fs::path manifest_path = folder_.object(output.object);
  const artifact::Manifest manifest =
      artifact::Manifest::parse(support::read_file(manifest_path), manifest_path.string());
  support::make_folders(folder);
  const auto link = [&](const std::string& digest, const std::string& name) {
    const fs::path at = folder / name;
    if (at.parent_path() != folder) support::make_folders(at.parent_path());
    ::unlink(at.c_str());
    if (::symlink(folder_.object(digest).c_str(), at.c_str()) != 0) throw_errno("create link", at.string(), true);
  };
  for (const artifact::Member& member : manifest.members) link(member.file_digest, member.name);
  link(output.object, std::string(artifact::kManifestName));
  return folder;
}

}  // namespace pe::pipeline

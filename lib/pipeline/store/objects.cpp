#include "pipeline/store/objects.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <optional>

#include "artifact/artifact_check.h"
#include "artifact/collection.h"
#include "artifact/content_digest.h"
#include "artifact/h5.h"
#include "artifact/header.h"
#include "artifact/member_digests.h"
#include "artifact/workspace.h"
#include "pipeline/store/shard_name.h"
#include "pipeline/store/whole_write.h"
#include "support/error.h"
#include "support/fault_point.h"
#include "support/file_stamp.h"
#include "support/folders.h"
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

constexpr std::size_t kBlock = 1 << 20;

/// Whether errno says that the medium does not give the bytes of `path` any more. errno stays.
bool is_lost(const fs::path& path) {
  const int error = errno;
  const bool lost = error == EIO && !support::is_on_network(path.parent_path());
  errno = error;
  return lost;
}

/// Hands on the bytes of a file, block by block, until `take` says no. False when it is gone, or the medium does not
/// give them any more.
///
/// @throws IoError when it cannot be read for another reason, which says nothing of the bytes
bool each_block(const fs::path& path, const std::function<bool(std::string_view block)>& take) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));  // opening a pipe would wait
  if (!file && (errno == ENOENT || is_lost(path))) return false;
  if (!file) throw_errno("read", path.string());
  struct stat status {};
  if (::fstat(file.get(), &status) != 0) throw_errno("read", path.string());
  if (!S_ISREG(status.st_mode)) return false;
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBlock);
  while (true) {
    const ssize_t count = ::read(file.get(), buffer.get(), kBlock);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && is_lost(path)) return false;
    if (count < 0) throw_errno("read", path.string());
    if (count == 0 || !take({buffer.get(), static_cast<std::size_t>(count)})) return true;
  }
}

/// Whether `to` now has the blocks of `from`, which takes neither room nor time. False where the file system has no
/// such copies, or the two are on different ones.
bool share_blocks(const fs::path& from, const Descriptor& to) {
  const Descriptor file(::open(from.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  return file && ::ioctl(to.get(), FICLONE, file.get()) == 0;
}

/// Copies a file into `file`, which is empty and called `to`. @throws ArtifactError when its bytes do not have this
/// digest, IoError
void copy_hashed(const fs::path& from, const fs::path& to, const Descriptor& file, const std::string& digest) {
  const bool shared = share_blocks(from, file);
  support::Sha256 hash;
  const auto take = [&](std::string_view block) {
    hash.update(block.data(), block.size());
    if (!shared && !support::write_whole(file.get(), block)) throw_errno("write", to.string());
    return true;
  };
  if (!each_block(shared ? to : from, take)) throw IoError(cat("cannot read '", from.string(), "' to its end"));
  if (const std::string found = hash.hex(); found != digest) {
    throw ArtifactError(cat("'", from.string(), "' has SHA-256 ", found.substr(0, 12), "…, expected ",
                            digest.substr(0, 12), "…: it was changed or is damaged"));
  }
}

/// Whether any process has a file open for writing. False where the file system cannot say it.
bool is_being_written(const fs::path& path) {
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct statfs system {};
  constexpr auto kNfs = 0x6969;  // grants leases by the server's mood
  if (!file || ::fstatfs(file.get(), &system) != 0 || system.f_type == kNfs) return false;
  ::fcntl(file.get(), F_SETSIG, SIGURG);  // a break of the lease sends SIGIO else, which would end this process
  if (::fcntl(file.get(), F_SETLEASE, F_RDLCK) != 0) return errno == EAGAIN;
  ::fcntl(file.get(), F_SETLEASE, F_UNLCK);
  return false;
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

/// After a rename over `to` that failed: another user's object in a folder that protects it is as good as ours while
/// its bytes are. Leaves errno.
bool is_as_good(const fs::path& to, const std::string& digest) {
  const int error = errno;
  const bool good = (error == EACCES || error == EPERM) && support::sha256_file(to) == digest;
  errno = error;
  return good;
}

bool same_file(const fs::path& a, const fs::path& b) {
  struct stat first {
  }, second{};
  return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
         first.st_ino == second.st_ino;
}

}  // namespace

Objects::Objects(const StoreFolder& folder)
    : folder_(folder),
      opened_(::open((folder.root() / "objects").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)),
      memo_(StampMemo::of_objects(folder.root())) {}

bool Objects::has(const std::string& digest) const {
  return support::is_sha256(digest) && support::is_there(folder_.object(digest));
}

bool Objects::make_young(const std::string& digest) {
  const fs::path path = folder_.object(digest);
  const bool known = memo_.known(path).has_value();
  if (::utimensat(AT_FDCWD, path.c_str(), nullptr, 0) != 0) return errno != ENOENT;
  if (known) memo_.note_published(path, digest);  // its stamp has changed
  return true;
}

bool Objects::complete(const std::vector<OutputRecord>& outputs, bool strict) const {
  const auto there = [&](const std::string& digest, std::optional<std::uint64_t> bytes) {
    if (digest.size() != 64) return false;
    struct stat status {};
    if (opened_ ? ::fstatat(opened_.get(), ShardName(digest).c_str(), &status, 0) != 0
                : ::stat(folder_.object(digest).c_str(), &status) != 0) {
      if (strict && errno != ENOENT && errno != ENOTDIR) throw_errno("look at", folder_.object(digest).string());
      return false;
    }
    return !bytes || static_cast<std::uint64_t>(status.st_size) == *bytes;
  };
  for (const OutputRecord& output : outputs) {
    if (!there(output.object, output.object_bytes())) return false;
    const bool sized = output.member_bytes.size() == output.members.size();
    for (std::size_t i = 0; i < output.members.size(); ++i) {
      if (!there(output.members[i], sized ? std::optional(output.member_bytes[i]) : std::nullopt)) return false;
    }
  }
  return true;
}

OutputRecord Objects::publish(const StageOutput& produced, const artifact::Recipe* expected) {
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
  const artifact::MemberDigests closed = artifact::MemberDigests::read(produced.path);
  for (const artifact::Member& member : manifest.members) {
    const fs::path path = produced.path / member.name;
    // Hashed again although the manifest has the digest, unless nothing can have changed it since: an object's name
    // must be true, whatever the manifest says.
    std::optional<support::FileRead> unchanged = closed.unchanged(member.name, path);
    const support::FileRead read = unchanged ? std::move(*unchanged) : support::hash_file(path);
    if (read.sha256 != member.file_digest) {
      throw ArtifactError(cat("'", path.string(), "' has SHA-256 ", read.sha256.substr(0, 12),
                              "…, but its manifest says ", member.file_digest.substr(0, 12),
                              "…: it changed after it was closed"));
    }
    place(read);
    output.members.push_back(read.sha256);
    output.member_bytes.push_back(read.stamp.size);
    output.bytes += read.stamp.size;
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

/// Brings `from`, hashed just now, into objects/ under its digest. An existing object is replaced: it may have lost
/// bits, and the fresh bytes are known.
void Objects::place(const support::FileRead& read) {
  const fs::path to = folder_.object(read.sha256);
  folder_.make_folder_of(to);
  if (!link(read, to)) copy(read.path, to, read.sha256);
  note_placed(to, read.sha256);
}

void Objects::note_placed(const fs::path& to, const std::string& digest) {
  fault_point("sync objects");
  folder_.sync_folder_of(to);
  memo_.note_published(to, digest);
}

/// Gives the file itself a name in objects/. False where it must be copied: it has other names, another owner or is
/// being written, so that the object could change. Also false where the file system refuses a link between these
/// folders.
bool Objects::link(const support::FileRead& read, const fs::path& to) const {
  const fs::path from = read.path;
  struct stat status {};
  if (::lstat(from.c_str(), &status) != 0) throw_errno("read", from.string());
  const bool again = same_file(from, to);
  if (!S_ISREG(status.st_mode) || status.st_nlink > (again ? 2 : 1)) return false;
  fault_point("chmod");
  if (::chmod(from.c_str(), 0444) != 0) {
    if (errno == EPERM || errno == EACCES) return false;  // another user's
    throw_errno("protect", from.string());
  }
  if (is_being_written(from)) return false;
  const support::FileStamp now = support::stamp_of(from);  // from here on no process can write it
  if (now.inode != read.stamp.inode || now.size != read.stamp.size || now.mtime_ns != read.stamp.mtime_ns) return false;
  fault_point("sync object");
  if (folder_.durable()) support::sync_path(from);
  // Young from here on: its record comes later, and a `gc` drops old objects without one.
  ::utimensat(AT_FDCWD, from.c_str(), nullptr, 0);
  fault_point("link object");
  if (::link(from.c_str(), to.c_str()) == 0) return true;
  if (errno == EXDEV || errno == EPERM || errno == EMLINK || errno == EOPNOTSUPP) return false;
  if (errno != EEXIST) throw_errno("publish into", to.string(), true);
  return again || replace(from, to, read.sha256);
}

/// The bytes under a new inode that only the store knows, hashed on the way. @throws ArtifactError when they are others
/// by now
void Objects::copy(const fs::path& from, const fs::path& to, const std::string& digest) const {
  auto [fresh, file] = create_sibling(to);
  try {
    copy_hashed(from, fresh, file, digest);
    if (::fchmod(file.get(), 0444) != 0) throw_errno("protect", fresh.string());
    fault_point("sync object");
    if (folder_.durable() && ::fsync(file.get()) != 0) throw_errno("sync", fresh.string());
    if (::close(file.release()) != 0) throw_errno("close", fresh.string());
    fault_point("link object");
    if (::rename(fresh.c_str(), to.c_str()) != 0 && !is_as_good(to, digest))
      throw_errno("publish into", to.string(), true);
  } catch (...) {
    ::unlink(fresh.c_str());
    throw;
  }
}

/// Puts the file in the place of the present object. False as `link`.
bool Objects::replace(const fs::path& from, const fs::path& to, const std::string& digest) const {
  const fs::path fresh = support::unique_sibling(to);
  // A unique name that exists all the same is ours: the reply to the call was lost (NFS).
  if (::link(from.c_str(), fresh.c_str()) != 0 && !(errno == EEXIST && same_file(from, fresh))) {
    if (errno == EXDEV || errno == EPERM || errno == EMLINK || errno == EOPNOTSUPP) return false;
    throw_errno("publish into", to.string(), true);
  }
  const int error = ::rename(fresh.c_str(), to.c_str()) == 0 ? 0 : errno;
  ::unlink(fresh.c_str());  // also a rename between two names of one file leaves it
  errno = error;
  if (error != 0 && !is_as_good(to, digest)) throw_errno("publish into", to.string(), true);
  return true;
}

void Objects::import_copy(const fs::path& from, const std::string& digest) {
  if (!support::is_sha256(digest)) throw ArtifactError(cat(support::quote(digest), " is not a digest"));
  const fs::path to = folder_.object(digest);
  folder_.make_folder_of(to);
  copy(from, to, digest);
  note_placed(to, digest);
}

void Objects::export_copy(const std::string& digest, const fs::path& to) const {
  Descriptor file(::open(to.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file) throw_errno("create", to.string(), true);
  copy_hashed(folder_.object(digest), to, file, digest);
  if (::close(file.release()) != 0) throw_errno("close", to.string());
}

bool Objects::is_verified(const OutputRecord& output) {
  const auto known = [&](const std::string& digest) {
    return support::is_sha256(digest) && memo_.known(folder_.object(digest)).has_value();
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
    if (given_up || (reread == Reread::kUnknown && memo_.known(path))) return;
    const support::FileStamp before = support::stamp_of(path);
    support::Sha256 hash;
    const auto take = [&](std::string_view bytes) {
      hash.update(bytes.data(), bytes.size());
      return block(bytes.size());
    };
    const bool read = has(digest) && each_block(path, take);
    if (given_up) return;
    if (read && hash.hex() == digest) {
      memo_.note_read({path.string(), before, digest});
      return;
    }
    memo_.forget(path);
    bad.push_back(digest);
  };
  look(output.object);
  for (const std::string& member : output.members) look(member);
  return bad;
}

void Objects::tidy_memo() { memo_.drop_stale(); }

void Objects::discard(const std::string& digest) {
  memo_.forget(folder_.object(digest));
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

#include "pipeline/store/store.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_set>

#include "artifact/artifact_check.h"
#include "artifact/collection.h"
#include "artifact/content_digest.h"
#include "artifact/h5.h"
#include "artifact/header.h"
#include "artifact/workspace.h"
#include "pipeline/store/content_memo.h"
#include "pipeline/store/group_rights.h"
#include "pipeline/store/index.h"
#include "pipeline/store/lease.h"
#include "pipeline/store/migrate.h"
#include "pipeline/store/object_memo.h"
#include "pipeline/store/whole_write.h"
#include "support/error.h"
#include "support/fault_point.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/sha256_text.h"
#include "support/text.h"

namespace pe::pipeline {

using support::ArtifactError;
using support::cat;
using support::Descriptor;
using support::fault_point;
using support::IoError;
using support::throw_errno;

namespace {

constexpr std::size_t kTooManyIndexFiles = 16;
constexpr int kFewFolders = 4;
constexpr std::string_view kMergedEnding = "-merged.log";
constexpr const char* kMergedIndex = "0000000000000000-merged.log";   ///< sorts before every other

/// "<16 digits>-merged.log": of no process.
bool is_merged_index(std::string_view name) {
  return name.size() == 16 + kMergedEnding.size() && name.substr(16) == kMergedEnding;
}

std::string utc_date() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[16];
  std::strftime(text, sizeof text, "%Y-%m-%d", &parts);
  return text;
}

/// "ab/abcd…": where objects, and hints, of 64 digits lie in their folder.
class ShardName {
 public:
  explicit ShardName(std::string_view digits) {
    std::copy_n(digits.begin(), 2, text_);
    text_[2] = '/';
    std::copy_n(digits.begin(), 64, text_ + 3);
  }
  const char* c_str() const { return text_; }

 private:
  char text_[68] = {};
};

/// The SHA-256 of a file. `go_on` is told the size of every block; when it says no, the answer is empty.
std::string hash_of(const fs::path& path, const std::function<bool(std::uint64_t)>& go_on) {
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) throw_errno("read", path.string());
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

/// The first two hex digits of a key.
std::size_t hex_byte(std::string_view key) {
  const auto digit = [](char c) -> std::size_t {
    return c >= '0' && c <= '9'   ? static_cast<std::size_t>(c - '0')
           : c >= 'a' && c <= 'f' ? static_cast<std::size_t>(c - 'a') + 10
                                  : 0;
  };
  return key.size() < 2 ? 0 : digit(key[0]) * 16 + digit(key[1]);
}

bool is_number(std::string_view text) {
  return !text.empty() && text.size() < 18 && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// Whether a store was begun here; if not, `names` is what the folder holds. Another host may be making it just now: over
/// a network a name can be listed a while before its file opens.
bool is_made(const fs::path& folder, std::vector<std::string>& names) {
  for (int tries = 0; ::access((folder / "VERSION").c_str(), F_OK) != 0; ++tries) {
    names = support::names_in(folder);
    if (std::find(names.begin(), names.end(), "VERSION") == names.end()) return false;
    if (tries == 240) break;   // reading it says why
    ::usleep(250000);
  }
  return true;
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

Result to_result(const Record& record) {
  Result result;
  result.status = record.status;
  result.plan_key = record.plan_key;
  if (record.occasion.is_object()) result.wall_s = record.occasion.value("wall_s", 0.0);
  result.outputs = record.outputs;
  return result;
}

}  // namespace

const OutputRecord* Result::output(std::string_view role) const {
  for (const OutputRecord& output : outputs) {
    if (output.role == role) return &output;
  }
  return nullptr;
}

struct Store::State {
  fs::path root;
  StoreOptions options;
  mutable IndexContent index;
  Descriptor objects, plans;   // folders: looking there by a short name costs a third of a whole path
  Descriptor index_file;  // of this process, opened at the first write
  bool forgets = false;   // the entries of index_file were all written to forget
  mutable std::mutex warnings_mutex;  // records are read on other threads too
  mutable std::vector<std::string> warnings;
  mutable std::set<std::string> warned;
  mutable std::unique_ptr<ObjectMemo> object_memo;
  mutable std::mutex folders_mutex;  // held until a new folder's name is synced: another thread may want it at once
  mutable std::map<std::string, int> folders_made;  // by this process, below objects/ and tasks/
  struct Shard {
    bool listed = false;
    std::unordered_set<std::string> names;
  };
  mutable std::array<Shard, 256> shards;  // tasks/ab, by its two digits

  void warn(const std::string& text) const {
    const std::lock_guard lock(warnings_mutex);
    if (warned.insert(text).second) warnings.push_back(text);
  }

  fs::path object(const std::string& digest) const { return root / "objects" / digest.substr(0, 2) / digest; }

  fs::path record(const ResultKey& key) const {
    if (key.is_snapshot()) return root / "tracks" / key.key / (std::to_string(key.step) + ".json");
    return root / "tasks" / key.key.substr(0, 2) / (key.key + ".json");
  }

  fs::path hint(const std::string& plan_key) const { return root / "plans" / plan_key.substr(0, 2) / plan_key; }

  /// Makes the folder of a record or an object, and has its name synced before anybody relies on it. In a store that
  /// fills, all the folders beside it are made too: 256 of them cost as much as one sync.
  void folder_of(const fs::path& path) const {
    const fs::path folder = path.parent_path();
    const std::lock_guard lock(folders_mutex);
    if (::access(folder.c_str(), F_OK) == 0) return;
    support::make_folders(folder);
    const fs::path parent = folder.parent_path();
    if (options.durable && folder.filename().native().size() == 2 && ++folders_made[parent.native()] == kFewFolders) {
      static constexpr char kDigits[] = "0123456789abcdef";
      for (int i = 0; i < 256; ++i) support::make_folders(parent / std::string{kDigits[i >> 4], kDigits[i & 15]});
    }
    if (options.durable) support::sync_path(parent);
  }

  void sync_folder(const fs::path& path) const {
    if (options.durable) support::sync_path(path.parent_path());
  }

  void append_index(const std::string& entry, bool sync = false, bool retried = false) {
    struct stat status {};
    // Another process may have merged it away, taking us for dead.
    if (index_file && ::fstat(index_file.get(), &status) == 0 && status.st_nlink == 0) index_file.close();
    if (!index_file) {
      const fs::path folder = root / "index";
      support::make_folders(folder);
      auto now =
          std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::system_clock::now().time_since_epoch())
              .count();
      // Later than every file that is there, whatever the clocks of their hosts say: files are read in this order, and
      // what is forgotten now must come after what was recorded before.
      for (const std::string& name : support::names_in(folder)) {
        if (name.size() > 17 && name[16] == '-' && is_number(std::string_view(name).substr(0, 16)))
          now = std::max<decltype(now)>(now, std::stoll(name.substr(0, 16)) + 1);
      }
      char stamp[32];
      std::snprintf(stamp, sizeof stamp, "%016lld", static_cast<long long>(now));
      const fs::path path = folder / cat(stamp, "-", host_name(), "-", ::getpid(), ".log");
      index_file = Descriptor(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
      if (!index_file) throw_errno("create", path.string(), true);
      if (const int error = write_index(index_header()); error != 0) {
        errno = error;
        throw_errno("append to", path.string());
      }
    }
    if (const int error = write_index(entry); error != 0) {
      // Merged away by another host, which a network file system tells at the write alone: once more into a new file.
      if (error == ESTALE && !retried) return append_index(entry, sync, true);
      errno = error;
      throw_errno("append to", (root / "index").string());
    }
    if (sync && options.durable && ::fsync(index_file.get()) != 0) throw_errno("sync", "the index");
  }

  /// In a file that is newer than those of all other processes, which may hold the result.
  void forget_in_index(const ResultKey& key) {
    if (!forgets) index_file.close();
    append_index(encode_forgotten(key), true);
    forgets = true;
  }

  /// 0, or what errno said.
  int write_index(const std::string& bytes) {
    // One write per entry: what a crash leaves is a torn tail, which readers ignore. An entry that could not be written
    // whole (full disk) leaves one in the middle, so nothing more may be appended to that file.
    if (write_whole(index_file.get(), bytes)) return 0;
    const int error = errno;
    index_file.close();
    return error;
  }

  /// Links `from`, hashed just now, into objects/ under its digest. What is there already gives way: it may have lost
  /// bits, and the fresh bytes are known.
  void place_object(const support::FileRead& read) const {
    const fs::path from = read.path;
    const std::string& digest = read.sha256;
    const fs::path to = object(digest);
    folder_of(to);
    fault_point("chmod");
    if (::chmod(from.c_str(), 0444) != 0) throw_errno("protect", from.string());
    fault_point("sync object");
    if (options.durable) support::sync_path(from);
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
        replace_object(from, to, digest);
    }
    fault_point("sync objects");
    sync_folder(to);
    if (untouched) object_memo->note_published(to, digest);
    else object_memo->forget(digest);
  }

  static bool same_file(const fs::path& a, const fs::path& b) {
    struct stat first {}, second {};
    return ::stat(a.c_str(), &first) == 0 && ::stat(b.c_str(), &second) == 0 && first.st_dev == second.st_dev &&
           first.st_ino == second.st_ino;
  }

  void replace_object(const fs::path& from, const fs::path& to, const std::string& digest) const {
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

  /// Whether the record that the index knows is still there: somebody may have deleted it by hand. Its folder is listed
  /// once, which is far cheaper than a stat for each record; what came later is asked for.
  bool record_there(const ResultKey& key) const {
    if (key.is_snapshot()) return ::access(record(key).c_str(), F_OK) == 0;
    Shard& shard = shards[hex_byte(key.key)];
    if (!shard.listed) {
      shard.listed = true;
      for (std::string& name : support::names_in(root / "tasks" / key.key.substr(0, 2))) shard.names.insert(std::move(name));
    }
    return shard.names.count(key.key + ".json") != 0 || ::access(record(key).c_str(), F_OK) == 0;
  }

  /// `strict`: a record that cannot be read just now is an error, not a record that is missing.
  std::optional<Record> read(const ResultKey& key, bool strict = false) const {
    const fs::path path = record(key);
    if (::access(path.c_str(), F_OK) != 0) return std::nullopt;
    try {
      const std::string text = support::read_file(path);
      const Json json = Json::parse(text, nullptr, false);
      if (json.is_discarded()) throw ArtifactError(cat("'", path.string(), "' is not JSON"));
      Record found = record_from_json(json, path.string());
      if (found.key != key)
        throw ArtifactError(cat("'", path.string(), "' holds the record of another key, ", found.key.short_name()));
      return found;
    } catch (const IoError&) {
      if (strict) throw;
      warn(cat("a record that cannot be read counts as missing: '", path.string(), "'"));
      return std::nullopt;
    } catch (const support::Error& error) {
      warn(cat("a damaged record counts as missing: ", error.diagnostics().front().message));
      return std::nullopt;
    }
  }

  fs::path move_to_trash(const fs::path& path) const {
    const fs::path folder = root / "trash" / utc_date();
    support::make_folders(folder);
    const fs::path to = support::unique_sibling(folder / path.filename());
    fault_point("trash");
    if (::rename(path.c_str(), to.c_str()) != 0) {
      if (errno == ENOENT) return {};
      throw_errno("move to the trash", path.string());
    }
    sync_folder(path);
    return to;
  }
};

Store::Store(fs::path root, StoreOptions options) : state_(std::make_unique<State>()) {
  state_->root = fs::absolute(root).lexically_normal();
  if (!state_->root.has_filename()) state_->root = state_->root.parent_path();
  state_->options = std::move(options);
  state_->object_memo = std::make_unique<ObjectMemo>(state_->root);
  const fs::path& folder = state_->root;
  const fs::path version_file = folder / "VERSION";
  if (state_->options.create) share_with_group(folder);
  std::vector<std::string> names;
  if (is_made(folder, names)) {
    const std::string text = support::read_file(version_file, 4096);
    std::string why;
    const auto version = support::parse_integer(support::trim(text), support::Suffixes::kNone, &why);
    if (!version)
      throw IoError(cat("'", version_file.string(), "' holds ", support::quote(support::trim(text)),
                        ", expected the number of a store format"));
    if (*version > kStoreVersion) {
      throw IoError(cat("the store '", folder.string(), "' has format ", *version,
                        "; this pe-pipeline knows formats up to ", kStoreVersion,
                        ": use the newer program, or another --store"));
    }
    if (*version < kStoreVersion && state_->options.create) {
      migrate_store(folder, static_cast<int>(*version), state_->options.durable);
    }
  } else {
    // What a lock, the plan memo or an interrupted creation leave may be there; anything else is somebody's folder.
    // Judged by the look that found no VERSION: by now another run may have written it.
    for (const std::string& name : names) {
      if (name == "run.lock" || name == "memo" || name == "lost+found" || name.rfind("VERSION.tmp.", 0) == 0) continue;
      throw IoError(cat("'", folder.string(), "' is not a store: it holds '", name,
                        "' but no file VERSION; name a store or an empty folder with --store"));
    }
    if (state_->options.create) {
      support::make_folders(folder);
      support::write_file_atomically(version_file, cat(kStoreVersion, "\n"), state_->options.durable);
    }
  }
  if (state_->options.create) {
    bool fresh = false;
    for (const char* name : {"objects", "tasks", "tracks", "plans", "work", "runs", "leases"}) {
      const fs::path sub = folder / name;
      if (::access(sub.c_str(), F_OK) == 0) continue;
      support::make_folders(sub);
      fresh = true;
    }
    if (fresh && state_->options.durable) {   // their names, and that of the store
      support::sync_path(folder);
      support::sync_path(folder.parent_path());
    }
  }
  for (const auto& [name, opened] : {std::pair{"objects", &state_->objects}, {"plans", &state_->plans}}) {
    *opened = Descriptor(::open((folder / name).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  state_->index = read_index(folder / "index");
  if (state_->index.damaged != 0) {
    state_->warn(cat("the index of '", folder.string(), "' is damaged in ", state_->index.damaged,
                     " file(s); records answer in its place"));
  }
}

Store::~Store() = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

const fs::path& Store::root() const { return state_->root; }
bool Store::durable() const { return state_->options.durable; }

std::optional<Result> Store::find(const ResultKey& key) const {
  const auto found = state_->index.results.find(key);
  if (found != state_->index.results.end()) {
    if (state_->record_there(key)) return found->second;
    state_->warn(cat("the record of ", key.short_name(), " is gone, though the index knows it; it counts as missing"));
    state_->index.results.erase(found);
    return std::nullopt;
  }
  const auto record = state_->read(key);
  if (!record) return std::nullopt;
  Result result = to_result(*record);
  state_->index.results.emplace(key, result);
  return result;
}

std::optional<Record> Store::read(const ResultKey& key) const { return state_->read(key); }

bool Store::complete(const Result& result) const {
  const auto there = [&](const std::string& digest, const std::uint64_t* bytes) {
    if (digest.size() != 64 || !state_->objects) return false;
    struct stat status {};
    if (::fstatat(state_->objects.get(), ShardName(digest).c_str(), &status, 0) != 0) return false;
    return bytes == nullptr || static_cast<std::uint64_t>(status.st_size) == *bytes;
  };
  for (const OutputRecord& output : result.outputs) {
    if (!there(output.object, output.collection ? nullptr : &output.bytes)) return false;
    for (const std::string& member : output.members) {
      if (!there(member, nullptr)) return false;
    }
  }
  return true;
}

bool Store::has_object(const std::string& digest) const {
  return support::is_sha256(digest) && ::access(state_->object(digest).c_str(), F_OK) == 0;
}

fs::path Store::object_path(const std::string& digest) const { return state_->object(digest); }
fs::path Store::record_path(const ResultKey& key) const { return state_->record(key); }

std::optional<std::string> Store::hint(const std::string& plan_key) const {
  const auto found = state_->index.hints.find(plan_key);
  if (found != state_->index.hints.end()) return found->second;
  // A changed plan asks for thousands that nobody has.
  if (!support::is_sha256(plan_key) || !state_->plans) return std::nullopt;
  if (::faccessat(state_->plans.get(), ShardName(plan_key).c_str(), R_OK, 0) != 0) return std::nullopt;
  const std::string key(support::trim(support::read_file(state_->hint(plan_key), 4096)));
  if (!support::is_sha256(key)) return std::nullopt;
  state_->index.hints.emplace(plan_key, key);
  return key;
}

std::vector<std::int64_t> Store::steps(const std::string& trajectory_key) const {
  std::vector<std::int64_t> steps;
  for (const std::string& name : support::names_in(state_->root / "tracks" / trajectory_key)) {
    const std::string_view stem = std::string_view(name).substr(0, name.find('.'));
    if (is_number(stem) && name == cat(stem, ".json")) steps.push_back(std::stoll(std::string(stem)));
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

std::vector<ResultKey> Store::keys() const {
  std::vector<ResultKey> keys;
  for (const std::string& shard : support::names_in(state_->root / "tasks")) {
    for (const std::string& name : support::names_in(state_->root / "tasks" / shard)) {
      if (name.size() == 69 && name.compare(64, 5, ".json") == 0 && support::is_sha256(std::string_view(name).substr(0, 64))) {
        keys.push_back({name.substr(0, 64), -1});
      }
    }
  }
  for (const std::string& track : support::names_in(state_->root / "tracks")) {
    if (!support::is_sha256(track)) continue;
    for (const std::int64_t step : steps(track)) keys.push_back({track, step});
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

std::vector<ResultKey> Store::matching(const std::string& prefix) const {
  std::vector<ResultKey> found;
  if (prefix.size() < 4 || prefix.find_first_not_of("0123456789abcdef") != std::string::npos) return found;
  const auto begins = [&](const std::string& text) { return text.rfind(prefix, 0) == 0; };
  for (const ResultKey& key : keys()) {
    bool match = begins(key.key);
    if (!match) {
      const auto result = find(key);
      if (!result) continue;
      match = begins(result->plan_key) ||
              std::any_of(result->outputs.begin(), result->outputs.end(),
                          [&](const OutputRecord& output) { return begins(output.object) || begins(output.content); });
    }
    if (match) found.push_back(key);
  }
  return found;
}

OutputRecord Store::publish_output(const Produced& produced, const artifact::Recipe* expected) const {
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
    state_->place_object(read);
    return output;
  }
  const fs::path manifest_path = produced.path / artifact::kManifestName;
  const std::string text = support::read_file(manifest_path);
  const artifact::Manifest manifest = artifact::Manifest::parse(text, manifest_path.string());
  if (expected) require_maker(produced.path, manifest.recipe, *expected);
  for (const artifact::Member& member : manifest.members) {
    const fs::path path = produced.path / member.name;
    // Hashed again although the manifest says it: an object's name must be true, whoever wrote the manifest.
    const support::FileRead read = support::hash_file(path);
    if (read.sha256 != member.file_digest) {
      throw ArtifactError(cat("'", path.string(), "' has SHA-256 ", read.sha256.substr(0, 12),
                              "…, but its manifest says ", member.file_digest.substr(0, 12),
                              "…: it changed after it was closed"));
    }
    state_->place_object(read);
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
  state_->place_object(read);
  return output;
}

Published Store::commit(const Record& record) {
  Published published = place_record(record);
  remember(published);
  return published;
}

void Store::remember(const Published& published) {
  state_->forgets = false;
  Result result = to_result(published.record);
  fault_point("append index");
  state_->append_index(encode_result(published.record.key, result));
  state_->index.results[published.record.key] = std::move(result);
}

Published Store::place_record(const Record& record) const {
  Published published;
  const fs::path path = state_->record(record.key);
  state_->folder_of(path);
  const std::string text = to_json(record).dump(1) + "\n";
  for (int tries = 0;; ++tries) {
    const bool occupied = ::access(path.c_str(), F_OK) == 0;
    // Its bytes may be whole, and then they hold: only what can be read and is damaged makes room for ours.
    auto existing = occupied ? state_->read(record.key, true) : std::nullopt;
    if (existing && complete(to_result(*existing))) {
      if (same_contents(*existing, record)) {
        published.existed = true;
      } else {
        published.conflict = true;
        for (int n = 1;; ++n) {
          fs::path beside = path;
          beside.replace_extension(cat("conflict.", n, ".json"));
          if (::access(beside.c_str(), F_OK) == 0) continue;
          fault_point("write conflict");
          support::write_file_atomically(beside, text, state_->options.durable);
          published.conflict_file = beside;
          break;
        }
      }
      published.record = *std::move(existing);
      break;
    }
    fault_point("write record");
    const fs::path fresh = write_sibling(path, text, state_->options.durable);
    fault_point("commit record");
    if (occupied) {
      // Damaged, or its objects are gone: it says nothing worth keeping.
      state_->move_to_trash(path);
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
    state_->sync_folder(path);
    published.record = record;
    break;
  }
  return published;
}

void Store::set_hint(const std::string& plan_key, const std::string& key) {
  const auto known = state_->index.hints.find(plan_key);
  if (known != state_->index.hints.end() && known->second == key) return;
  const fs::path path = state_->hint(plan_key);
  if (::access(path.parent_path().c_str(), F_OK) != 0) support::make_folders(path.parent_path());
  fault_point("write hint");
  support::write_file_atomically(path, key + "\n", false);  // a hint: losing it costs a look-up
  state_->append_index(encode_hint(plan_key, key));
  state_->index.hints[plan_key] = key;
}

bool Store::forget(const ResultKey& key) {
  const fs::path path = state_->record(key);
  if (::access(path.c_str(), F_OK) != 0) {
    if (state_->index.results.erase(key) != 0) state_->forget_in_index(key);
    return false;
  }
  // The index first: were it the other way round, a crash between would leave an entry without a record.
  state_->forget_in_index(key);
  state_->index.results.erase(key);
  if (!key.is_snapshot()) {
    State::Shard& shard = state_->shards[hex_byte(key.key)];
    shard.names.erase(key.key + ".json");
  }
  state_->move_to_trash(path);
  return true;
}

void Store::discard_object(const std::string& digest) {
  state_->object_memo->forget(digest);
  if (has_object(digest)) state_->move_to_trash(state_->object(digest));
}

fs::path Store::move_to_trash(const fs::path& path) {
  state_->object_memo->forget_all();
  return state_->move_to_trash(path);
}

void Store::import_object(const fs::path& from, const std::string& digest) {
  if (!support::is_sha256(digest)) throw ArtifactError(cat(support::quote(digest), " is not a digest"));
  const fs::path copy = support::unique_sibling(state_->root / "work" / cat("import-", digest.substr(0, 12)));
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
    state_->place_object(read);
  } catch (...) {
    ::unlink(copy.c_str());
    throw;
  }
  ::unlink(copy.c_str());
}

bool Store::known_whole(const OutputRecord& output) const {
  const auto known = [&](const std::string& digest) {
    return support::is_sha256(digest) && state_->object_memo->known(state_->object(digest), digest);
  };
  return known(output.object) && std::all_of(output.members.begin(), output.members.end(), known);
}

std::vector<std::string> Store::damaged(const OutputRecord& output, Reread reread,
                                        const std::function<bool(std::uint64_t)>& go_on) const {
  std::vector<std::string> bad;
  bool given_up = false;
  const auto block = [&](std::uint64_t bytes) {
    fault_point("read object");
    given_up = given_up || (go_on && !go_on(bytes));
    return !given_up;
  };
  const auto look = [&](const std::string& digest) {
    const fs::path path = state_->object(digest);
    if (given_up || (reread == Reread::kUnknown && state_->object_memo->known(path, digest))) return;
    bool whole = false;
    const support::FileStamp before = support::stamp_of(path);
    try {
      whole = has_object(digest) && hash_of(path, block) == digest;
    } catch (const IoError&) {
      // Cannot be read: as good as damaged.
    }
    if (given_up) return;
    if (whole) {
      state_->object_memo->note_read(path, digest, before);
      return;
    }
    state_->object_memo->forget(digest);
    bad.push_back(digest);
  };
  look(output.object);
  for (const std::string& member : output.members) look(member);
  return bad;
}

void Store::tidy_memos() const {
  state_->object_memo->drop_stale([&](const std::string& digest) { return state_->object(digest); });
  ContentMemo contents(state_->root);
  contents.drop_stale();
  contents.save();
}

void Store::tidy_index() {
  const fs::path folder = state_->root / "index";
  // Files of processes that still write are left alone: of those that live here, and of other hosts' for ten minutes
  // after their last entry. Should one write again, it finds its file gone and begins another; what falls between costs
  // a look-up.
  const auto in_use = [&](const std::string& name) {
    if (is_merged_index(name)) return false;
    const std::string mine = cat("-", host_name(), "-");
    const auto at = name.find(mine);
    if (at == 16) {
      const auto pid = std::atoll(name.c_str() + at + mine.size());
      return pid != ::getpid() && process_start(pid) != 0;
    }
    struct stat status {};
    constexpr std::time_t kQuiet = 600;
    return name.size() > 16 && name[16] == '-' && ::stat((folder / name).c_str(), &status) == 0 &&
           std::time(nullptr) - status.st_mtime < kQuiet;
  };
  std::vector<std::string> names = support::names_in(folder);
  const bool wasteful = state_->index.entries > 2 * (state_->index.results.size() + state_->index.hints.size()) + 1000;
  if (names.size() <= kTooManyIndexFiles && state_->index.damaged == 0 && !wasteful) return;
  Leases leases(leases_folder(), {});
  if (!leases.acquire(kMergedIndex).acquired) return;  // one at a time
  state_->index_file.close();
  for (const std::vector<std::string>& run : mergeable(names, in_use)) {
    const bool first = run.front() == names.front();
    const std::string merged = first ? kMergedIndex : cat(run.front().substr(0, 16), kMergedEnding);
    IndexContent content;
    for (const std::string& name : run) read_index_file(folder / name, content);
    // It stands where they stood; should we die before they are removed, reading them again changes nothing.
    fault_point("write merged index");
    support::write_file_atomically(folder / merged, render_index(content, !first), state_->options.durable);
    for (const std::string& name : run) {
      if (name == merged) continue;
      fault_point("remove index file");
      ::unlink((folder / name).c_str());
    }
  }
  state_->index = read_index(folder);
}

fs::path Store::materialise(const OutputRecord& output, const fs::path& folder) const {
  if (!output.collection) return state_->object(output.object);
  const fs::path manifest_path = state_->object(output.object);
  const artifact::Manifest manifest =
      artifact::Manifest::parse(support::read_file(manifest_path), manifest_path.string());
  support::make_folders(folder);
  const auto link = [&](const std::string& digest, const std::string& name) {
    const fs::path at = folder / name;
    if (at.parent_path() != folder) support::make_folders(at.parent_path());
    ::unlink(at.c_str());
    if (::symlink(state_->object(digest).c_str(), at.c_str()) != 0) throw_errno("create link", at.string(), true);
  };
  for (const artifact::Member& member : manifest.members) link(member.file_digest, member.name);
  link(output.object, std::string(artifact::kManifestName));
  return folder;
}

fs::path Store::work_folder(const std::string& plan_key) const { return state_->root / "work" / plan_key; }

std::vector<fs::path> Store::attempts(const std::string& plan_key) const {
  std::vector<std::pair<int, fs::path>> found;
  const fs::path folder = work_folder(plan_key);
  for (const std::string& name : support::names_in(folder)) {
    if (name.size() > 1 && name.size() < 8 && name[0] == 'a' && is_number(std::string_view(name).substr(1))) {
      found.emplace_back(std::stoi(name.substr(1)), folder / name);
    }
  }
  std::sort(found.begin(), found.end());
  std::vector<fs::path> paths;
  for (auto& [number, path] : found) paths.push_back(std::move(path));
  return paths;
}

fs::path Store::new_attempt(const std::string& plan_key, int* number) {
  const fs::path folder = work_folder(plan_key);
  int next = 1;
  if (::mkdir(folder.c_str(), 0777) != 0) {
    support::make_folders(folder);
    const auto before = attempts(plan_key);
    if (!before.empty()) next = std::stoi(before.back().filename().string().substr(1)) + 1;
  }
  for (;; ++next) {
    char name[16];
    std::snprintf(name, sizeof name, "a%02d", next);
    const fs::path path = folder / name;
    if (::mkdir(path.c_str(), 0777) == 0) {
      if (number) *number = next;
      return path;
    }
    if (errno != EEXIST) throw_errno("create folder", path.string(), true);
  }
}

std::vector<std::string> Store::runs() const {
  std::vector<std::string> ids;
  for (const std::string& name : support::names_in(runs_folder())) {
    if (fs::exists(runs_folder() / name / "plan.json")) ids.push_back(name);
  }
  return ids;
}

std::vector<std::string> Store::take_warnings() const {
  const std::lock_guard lock(state_->warnings_mutex);
  return std::exchange(state_->warnings, {});
}

}  // namespace pe::pipeline

#include "pipeline/plan/up_to_date_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <future>
#include <map>
#include <set>

#include "pipeline/plan/externals.h"
#include "pipeline/store/packing.h"
#include "pipeline/store/store_folder.h"
#include "support/environment.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/parallel_chunks.h"
#include "support/sha256_text.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;

namespace {

constexpr std::string_view kMagic = "pe-noop-memo/4\n";
constexpr std::uint64_t kSmallFile = 4u << 20;
constexpr const char* kOwnProgram = "/proc/self/exe";  ///< a stat follows it to the very file, deleted or not

// ---- objects, as a plan needs them ----------------------------------------------------------------------------------

constexpr std::size_t kObjectBytes = 32 + sizeof(std::uint64_t);
constexpr std::size_t kResultBytes = 32 + sizeof(std::int64_t);
constexpr std::uint64_t kAnySize =
    ~std::uint64_t{0};  ///< of collections in records of earlier versions: only their being there

/// 32 bytes and a number: a digest and a size, or a key and a step.
std::string packed(const std::string& hex, std::uint64_t number) {
  std::string bytes;
  support::append_sha256(bytes, hex);
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
  return bytes;
}

/// Looks at objects in the order of their names, with the folder that they share held open: half the way to a file.
class ObjectStats {
 public:
  explicit ObjectStats(int objects) : objects_(objects) {}
  bool stands(const char* object) {
    char name[65];
    support::write_hex(object, 32, name);
    name[64] = '\0';
    if (!folder_ || shard_ != object[0]) {
      shard_ = object[0];
      const char of[3] = {name[0], name[1], '\0'};
      folder_ = support::Descriptor(::openat(objects_, of, O_PATH | O_DIRECTORY | O_CLOEXEC));
      if (!folder_) return false;
    }
    std::uint64_t size = 0;
    std::memcpy(&size, object + 32, sizeof size);
    struct stat status {};
    return ::fstatat(folder_.get(), name, &status, 0) == 0 &&
           (size == kAnySize || static_cast<std::uint64_t>(status.st_size) == size);
  }

 private:
  int objects_;
  support::Descriptor folder_;
  char shard_ = 0;
};

/// A stat costs two microseconds, nearly all of them in the kernel, so thousands of them are shared out.
bool all_stand(int folder, std::string_view objects) {
  std::atomic<bool> good = true;
  support::parallel_chunks(objects.size() / kObjectBytes, 1024, [&](std::size_t begin, std::size_t end) {
    ObjectStats stats(folder);
    for (std::size_t i = begin; i < end && good; ++i) {
      if (!stats.stands(objects.data() + i * kObjectBytes)) good = false;
    }
  });
  return good;
}

/// A mark of the folders of records: a folder's time moves with every record that comes, goes or is replaced. Equal and
/// not empty: the same records. Empty: unknown, also where a change is so young that another may leave the same time.
std::string records_mark(const fs::path& store) try {
  std::string bytes;
  for (const char* part : {"tasks", "tracks"}) {
    bytes.append(part).push_back('\0');
    for (const std::string& name : support::list_folder(store / part)) {
      const support::FileStamp stamp = support::stamp_of(store / part / name);
      if (!stamp.exists || !stamp.settled()) return {};
      bytes.append(name).push_back('\0');
      for (const std::uint64_t number : {stamp.inode, stamp.mtime_ns}) put_bytes(bytes, number);
    }
  }
  return support::sha256_hex(bytes);
} catch (const support::IoError&) {
  return {};
}

/// A digest of the files of these records. A record that is written to in place moves no folder's time.
std::string files_mark(const fs::path& store, const std::vector<ResultKey>& keys) {
  std::vector<std::array<std::uint64_t, 4>> stamps(keys.size());
  support::parallel_chunks(keys.size(), 1024, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      struct stat status {};
      if (::stat(record_path(store, keys[i]).c_str(), &status) != 0) continue;
      const auto nanoseconds = [](const timespec& time) {
        return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(time.tv_nsec);
      };
      stamps[i] = {status.st_ino, static_cast<std::uint64_t>(status.st_size), nanoseconds(status.st_mtim),
                   nanoseconds(status.st_ctim)};
    }
  });
  std::string bytes;
  for (const auto& stamp : stamps) {
    for (const std::uint64_t number : stamp) put_bytes(bytes, number);
  }
  return support::sha256_hex(bytes);
}

/// Both marks; empty where one is unknown.
std::string whole_mark(const fs::path& store, const std::vector<ResultKey>& keys) {
  const std::string folders = records_mark(store);
  return folders.empty() ? folders : cat(folders, " ", files_mark(store, keys));
}

fs::path memo_path(const fs::path& store, const fs::path& pipeline_file, const ExpandOptions& options) {
  Json identity = Json::object();
  identity["file"] = fs::absolute(pipeline_file).lexically_normal().string();
  identity["name"] = pipeline_file.string();
  identity["root"] = find_root(pipeline_file).string();
  identity["set"] = options.set;
  identity["axis"] = options.axis;
  identity["scale"] = options.scale;
  identity["folder"] = (options.folder.empty() ? fs::current_path() : fs::absolute(options.folder)).string();
  identity["isa"] = {options.isa, options.bf16_isa};
  identity["path"] = support::variable("PATH");
  return store / "memo" / cat("noop-", support::canonical_hash("pe/noop-memo/1", identity).substr(0, 32));
}

}  // namespace

std::optional<UpToDateCache> UpToDateCache::find(const fs::path& store, const fs::path& pipeline_file,
                                                 const ExpandOptions& options) {
  UpToDateCache memo;
  try {
    const fs::path path = memo_path(store, pipeline_file, options);
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return std::nullopt;
    memo.file_ = support::MappedFile(path);
    Unpacker unpacker(memo.file_.view(), kMagic);
    // Files in their earlier state.
    for (std::uint64_t i = 0, count = unpacker.number(); i < count && unpacker.good(); ++i) {
      const std::string name(unpacker.text());
      const support::FileStamp then = unpacker.stamp();
      const bool settled = unpacker.number() != 0;
      const std::string_view sha256 = unpacker.text();
      if (!unpacker.good()) return std::nullopt;
      const support::FileStamp seen = support::stamp_of(name.c_str());
      if (seen == then && settled) continue;
      if (!seen.exists || !then.exists || sha256.empty() || seen.size > kSmallFile) return std::nullopt;
      if (support::sha256_file(name) != sha256) return std::nullopt;
    }
    // Input files and folders.
    for (std::uint64_t i = 0, count = unpacker.number(); i < count && unpacker.good(); ++i) {
      std::vector<std::string> paths;
      for (std::uint64_t k = 0, many = unpacker.number(); k < many && unpacker.good(); ++k) {
        paths.emplace_back(unpacker.text());
      }
      const std::string_view digest = unpacker.text();
      if (!unpacker.good() || stamps_now(paths) != digest) return std::nullopt;
    }
    memo.name_ = unpacker.text();
    memo.view_ = unpacker.text();
    memo.task_count_ = unpacker.number();
    memo.objects_ = unpacker.text();
    memo.results_ = unpacker.text();
    if (!unpacker.good() || memo.objects_.size() % kObjectBytes != 0 || memo.results_.size() % kResultBytes != 0) {
      return std::nullopt;
    }
    memo.store_ = store;
    memo.path_ = path;
    memo.mark_ = std::async(std::launch::async, [store, keys = memo.results()] { return whole_mark(store, keys); });
  } catch (const support::Error&) {
    return std::nullopt;
  }
  return memo;
}

std::vector<ResultKey> UpToDateCache::results() const {
  std::vector<ResultKey> keys(results_.size() / kResultBytes);
  const char* at = results_.data();
  for (ResultKey& key : keys) {
    key.key.resize(64);
    support::write_hex(at, 32, key.key.data());
    std::memcpy(&key.step, at + 32, sizeof key.step);
    at += kResultBytes;
  }
  return keys;
}

bool UpToDateCache::objects_stand() const {
  const fs::path mark = fs::path(path_) += ".mark";
  try {
    std::error_code error;
    const std::string then = fs::is_regular_file(mark, error) ? support::read_file(mark) : std::string();
    // Looked at side by side: either takes milliseconds where there are many tasks.
    const support::Descriptor objects(::open((store_ / "objects").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    const bool stand = !then.empty() && objects && all_stand(objects.get(), objects_);
    return mark_.get() == then && stand;
  } catch (const support::Error&) {
    return false;
  }
}

bool UpToDateCache::everything_present(const StoreView& store) const {
  for (const ResultKey& key : results()) {
    auto result = store.find(key);
    if (!result || store.presence(*result) == Presence::kGone) return false;
  }
  return true;
}

void UpToDateCache::renew() const {
  try {
    const std::string& mark = mark_.get();
    if (!mark.empty()) support::write_file_atomically(fs::path(path_) += ".mark", mark, false);
  } catch (const support::Error&) {
    // Nothing is lost but time.
  }
}

void UpToDateCache::remember(const fs::path& store, const fs::path& pipeline_file, const ExpandOptions& options,
                             const Graph& graph, const Plan& plan, const StageCatalog& catalog,
                             const std::string& view) {
  for (const PlannedTask& task : plan.tasks) {
    if (task.state != TaskState::kReuse || !task.selected) return;
  }
  try {
    Packer packer;
    // Files in their state of reading, perhaps hours ago: the plan was not made from later changes.
    std::vector<support::FileRead> files = graph.files;
    files.insert(files.end(), catalog.files().begin(), catalog.files().end());
    // The program at work, wherever a rebuild has put it meanwhile; and a store of another format is another matter.
    files.push_back({kOwnProgram, support::stamp_of(kOwnProgram), {}});
    files.push_back({(store / "VERSION").string(), {}, {}});
    std::error_code error;
    if (fs::exists(store / "VERSION", error)) support::read_file(store / "VERSION", 4096, files.back());
    packer.number(files.size());
    for (const support::FileRead& file : files) {
      // A program at work cannot be written, only replaced by another file.
      const bool settled = !file.stamp.exists || file.stamp.settled() || file.path == kOwnProgram;
      // A text is hashed next time. A program is believed by its stamp alone, so next time is early enough.
      if (!settled && file.sha256.empty()) return;
      packer.text(file.path);
      packer.stamp(file.stamp);
      packer.number(settled);
      packer.text(file.sha256);
    }
    std::map<std::vector<std::string>, const ExternalContent*> externals;
    for (const Task& task : graph.tasks) {
      for (const ExternalInput& external : task.externals) externals.emplace(external.paths, &*external.content);
    }
    packer.number(externals.size());
    for (const auto& [paths, content] : externals) {
      const std::string stamps = stamps_of(*content);
      if (stamps.empty()) return;
      packer.number(paths.size());
      for (const std::string& path : paths) packer.text(path);
      packer.text(stamps);
    }
    packer.text(graph.name);
    packer.text(view);
    packer.number(graph.tasks.size());
    std::string results;
    std::set<std::string> objects;  // sorted: neighbours share a folder
    for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
      const PlannedTask& planned = plan.tasks[i];
      const auto add = [&](std::int64_t step, const std::optional<Result>& result) {
        results += packed(planned.task_key, static_cast<std::uint64_t>(step));
        if (!result) return;
        for (const OutputRecord& output : result->outputs) {
          if (output.absent) continue;
          objects.insert(packed(output.object, output.object_bytes().value_or(kAnySize)));
          const bool sized = output.member_bytes.size() == output.members.size();
          for (std::size_t m = 0; m < output.members.size(); ++m)
            objects.insert(packed(output.members[m], sized ? output.member_bytes[m] : kAnySize));
        }
      };
      if (planned.snapshots.empty()) add(-1, planned.result);
      for (const PlannedSnapshot& snapshot : planned.snapshots) add(snapshot.step, snapshot.result);
    }
    packer.text(support::join(std::vector<std::string>(objects.begin(), objects.end()), ""));
    packer.text(results);
    const fs::path path = memo_path(store, pipeline_file, options);
    support::make_folders(path.parent_path());
    support::write_file_atomically(path, packer.take(kMagic), false);
  } catch (const support::Error&) {
    // Nothing is lost but time.
  }
}

}  // namespace pe::pipeline

#include "pipeline/plan/memo.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <set>
#include <thread>

#include "pipeline/store/packing.h"
#include "support/hash.h"
#include "support/process.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;

namespace {

constexpr std::string_view kContentMagic = "pe-content-memo/1\n";
constexpr std::string_view kPlanMagic = "pe-plan-memo/2\n";
constexpr std::uint64_t kSmallFile = 4u << 20;

// ---- files as a stat sees them -----------------------------------------------------------------------------------------

struct Seen {
  bool exists = false;
  std::uint64_t size = 0, mtime_ns = 0, inode = 0;
  bool operator==(const Seen&) const = default;
};

Seen look(const char* path) {
  struct stat status {};
  if (::stat(path, &status) != 0) return {};
  return {true, static_cast<std::uint64_t>(status.st_size),
          static_cast<std::uint64_t>(status.st_mtim.tv_sec) * 1'000'000'000u +
              static_cast<std::uint64_t>(status.st_mtim.tv_nsec),
          static_cast<std::uint64_t>(status.st_ino)};
}

std::uint64_t now_ns() {
  struct timespec now {};
  ::clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

/// An mtime this young cannot tell two writes apart, so nothing may be concluded from it later.
bool too_young(const Seen& seen) { return seen.mtime_ns + 2'000'000'000u > now_ns(); }

/// What a listing looked like, without reading any file.
std::string listing_digest(const std::vector<std::string>& paths) {
  support::Sha256 hash;
  const ListedFiles listed = list_files(paths);
  hash.update(cat(listed.missing, "\n"));
  for (const auto& [name, path] : listed.files) {
    const Seen seen = look(path.c_str());
    hash.update(cat(name, '\0', path.string(), '\0', seen.exists, ' ', seen.size, ' ', seen.mtime_ns, ' ', seen.inode, '\n'));
  }
  return hash.hex();
}

// ---- objects, as a plan needs them -------------------------------------------------------------------------------------

constexpr std::size_t kObjectBytes = 32 + sizeof(std::uint64_t);
constexpr std::uint64_t kAnySize = ~std::uint64_t{0};   ///< of collections and their members: only their being there

std::string pack_object(const std::string& hex, std::uint64_t size) {
  std::string packed;
  const auto nibble = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  for (std::size_t i = 0; i + 1 < hex.size() && packed.size() < 32; i += 2) {
    packed.push_back(static_cast<char>(nibble(hex[i]) << 4 | nibble(hex[i + 1])));
  }
  packed.resize(32);
  packed.append(reinterpret_cast<const char*>(&size), sizeof size);
  return packed;
}

bool object_stands(int folder, const char* packed) {
  static constexpr char kDigits[] = "0123456789abcdef";
  char name[68];
  for (int i = 0; i < 32; ++i) {
    const auto byte = static_cast<unsigned char>(packed[i]);
    name[3 + 2 * i] = kDigits[byte >> 4];
    name[4 + 2 * i] = kDigits[byte & 15];
  }
  name[0] = name[3];
  name[1] = name[4];
  name[2] = '/';
  name[67] = '\0';
  std::uint64_t size = 0;
  std::memcpy(&size, packed + 32, sizeof size);
  struct stat status {};
  return ::fstatat(folder, name, &status, 0) == 0 &&
         (size == kAnySize || static_cast<std::uint64_t>(status.st_size) == size);
}

/// A stat costs two microseconds, nearly all of them in the kernel, so thousands of them are shared out.
bool all_stand(int folder, std::string_view objects) {
  const std::size_t count = objects.size() / kObjectBytes;
  constexpr std::size_t kChunk = 1024;
  std::atomic<std::size_t> next = 0;
  std::atomic<bool> good = true;
  const auto work = [&] {
    for (std::size_t from = next.fetch_add(kChunk); from < count && good; from = next.fetch_add(kChunk)) {
      for (std::size_t i = from; i < std::min(count, from + kChunk); ++i) {
        if (!object_stands(folder, objects.data() + i * kObjectBytes)) good = false;
      }
    }
  };
  std::vector<std::thread> helpers;
  const std::size_t most = std::min<std::size_t>(std::thread::hardware_concurrency(), 8);
  for (std::size_t i = 1; i < most && i * kChunk < count; ++i) helpers.emplace_back(work);
  work();
  for (std::thread& helper : helpers) helper.join();
  return good;
}

fs::path plan_memo_path(const fs::path& store, const fs::path& pipeline_file, const ExpandOptions& options) {
  Json identity = Json::object();
  identity["file"] = fs::absolute(pipeline_file).lexically_normal().string();
  identity["name"] = pipeline_file.string();
  identity["root"] = find_root(pipeline_file).string();
  identity["set"] = options.set;
  identity["axis"] = options.axis;
  identity["scale"] = options.scale;
  identity["folder"] = (options.folder.empty() ? fs::current_path() : fs::absolute(options.folder)).string();
  identity["isa"] = options.isa;
  const char* path = std::getenv("PATH");
  identity["path"] = path ? path : "";
  return store / "memo" / cat("plan-", support::canonical_hash("pe/plan-memo/1", identity).substr(0, 32));
}

}  // namespace

std::string index_mark(const fs::path& store) {
  support::Sha256 hash;
  std::size_t index_files = 0;
  for (const char* part : {"index", "tasks", "tracks"}) {
    std::vector<std::string> lines;
    if (DIR* dir = ::opendir((store / part).c_str())) {
      while (const dirent* entry = ::readdir(dir)) {
        struct stat status {};
        if (entry->d_name[0] == '.' || ::fstatat(::dirfd(dir), entry->d_name, &status, 0) != 0) continue;
        // An index file only grows; a folder's time moves with every name that comes or goes.
        const bool is_folder = S_ISDIR(status.st_mode);
        lines.push_back(cat(entry->d_name, ' ', status.st_ino, ' ', is_folder ? status.st_mtim.tv_sec : status.st_size, ' ',
                            is_folder ? status.st_mtim.tv_nsec : 0, '\n'));
        index_files += part[0] == 'i';
      }
      ::closedir(dir);
    }
    std::sort(lines.begin(), lines.end());
    hash.update(part);
    for (const std::string& line : lines) hash.update(line);
  }
  return index_files == 0 ? std::string() : hash.hex();
}

ContentMemo::ContentMemo(const fs::path& store) : path_(store / "memo" / "content") {
  std::error_code error;
  if (!fs::is_regular_file(path_, error)) return;
  std::string file;
  try {
    file = support::read_file(path_);
  } catch (const support::IoError&) {
    return;
  }
  Unpacker unpacker(file, kContentMagic);
  const std::uint64_t count = unpacker.number();
  for (std::uint64_t i = 0; i < count && unpacker.good(); ++i) {
    std::string name(unpacker.text());
    Known known{unpacker.number(), unpacker.number(), unpacker.number(), std::string(unpacker.text())};
    if (unpacker.good()) known_[std::move(name)] = std::move(known);
  }
}

std::string ContentMemo::digest(const fs::path& file) {
  const Seen seen = look(file.c_str());
  const std::string name = file.string();
  const auto it = known_.find(name);
  if (it != known_.end() && seen.exists && it->second.size == seen.size && it->second.mtime_ns == seen.mtime_ns &&
      it->second.inode == seen.inode) {
    return it->second.sha256;
  }
  std::string sha256 = support::sha256_file(file);
  if (seen.exists && !too_young(seen) && look(file.c_str()) == seen) {
    known_[name] = {seen.size, seen.mtime_ns, seen.inode, sha256};
    changed_ = true;
  } else if (it != known_.end()) {
    known_.erase(it);
    changed_ = true;
  }
  return sha256;
}

void ContentMemo::save() {
  if (!changed_) return;
  Packer packer;
  packer.number(known_.size());
  for (const auto& [name, known] : known_) {
    packer.text(name);
    packer.number(known.size);
    packer.number(known.mtime_ns);
    packer.number(known.inode);
    packer.text(known.sha256);
  }
  try {
    support::make_folders(path_.parent_path());
    support::write_file_atomically(path_, packer.take(kContentMagic), false);
    changed_ = false;
  } catch (const support::IoError&) {
    // A store that cannot be written yet is no reason to fail a plan.
  }
}

void hash_externals(Graph& graph, ContentMemo& memo) {
  struct Hashed {
    std::vector<std::pair<std::string, std::string>> files;
    std::string missing;
  };
  std::map<std::vector<std::string>, Hashed> done;   // many tasks may name the same file
  for (Task& task : graph.tasks) {
    for (ExternalInput& external : task.externals) {
      const auto [it, fresh] = done.try_emplace(external.paths);
      if (fresh) {
        const ListedFiles listed = list_files(external.paths);
        it->second.missing = listed.missing;
        for (const auto& [name, path] : listed.files) it->second.files.emplace_back(name, memo.digest(path));
        std::sort(it->second.files.begin(), it->second.files.end());
      }
      external.files = it->second.files;
      external.missing = it->second.missing;
    }
  }
  memo.save();
}

std::optional<PlanMemo> PlanMemo::find(const fs::path& store, const fs::path& pipeline_file,
                                       const ExpandOptions& options) {
  PlanMemo memo;
  try {
    const fs::path path = plan_memo_path(store, pipeline_file, options);
    std::error_code error;
    if (!fs::is_regular_file(path, error)) return std::nullopt;
    memo.file_ = support::MappedFile(path);
    Unpacker unpacker(memo.file_.view(), kPlanMagic);
    // Files, as they were.
    for (std::uint64_t i = 0, count = unpacker.number(); i < count && unpacker.good(); ++i) {
      const std::string name(unpacker.text());
      Seen then;
      then.exists = unpacker.number() != 0;
      then.size = unpacker.number();
      then.mtime_ns = unpacker.number();
      then.inode = unpacker.number();
      const std::string_view sha256 = unpacker.text();
      if (!unpacker.good()) return std::nullopt;
      const Seen seen = look(name.c_str());
      if (seen == then) continue;
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
      if (!unpacker.good() || listing_digest(paths) != digest) return std::nullopt;
    }
    memo.name_ = unpacker.text();
    memo.task_count_ = unpacker.number();
    memo.objects_ = unpacker.text();
    memo.packed_entries_ = unpacker.text();
    if (!unpacker.good() || memo.objects_.size() % kObjectBytes != 0) return std::nullopt;
    memo.store_ = store;
    memo.path_ = path;
    memo.index_ = index_mark(store);
  } catch (const support::Error&) {
    return std::nullopt;
  }
  return memo;
}

std::vector<PlanMemo::Entry> PlanMemo::entries() const {
  std::vector<Entry> entries;
  Unpacker unpacker(packed_entries_);
  while (unpacker.good() && unpacker.left() > 0) {
    Entry entry;
    entry.id = unpacker.text();
    entry.plan_key = unpacker.text();
    entry.key = unpacker.text();
    entry.step = static_cast<std::int64_t>(unpacker.number());
    if (unpacker.good()) entries.push_back(entry);
  }
  return entries;
}

bool PlanMemo::objects_stand() const {
  const fs::path mark = fs::path(path_) += ".index";
  std::error_code error;
  if (index_.empty() || !fs::is_regular_file(mark, error)) return false;
  try {
    if (support::read_file(mark) != index_) return false;
  } catch (const support::IoError&) {
    return false;
  }
  const support::Descriptor objects(::open((store_ / "objects").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  return objects && all_stand(objects.get(), objects_);
}

bool PlanMemo::everything_present(const StoreView& store) const {
  ResultKey key;
  for (const Entry& entry : entries()) {
    key.key = entry.key;
    key.step = entry.step;
    const auto result = store.find(key);
    if (!result || !store.complete(*result)) return false;
  }
  return true;
}

void PlanMemo::renew() const {
  if (index_.empty()) return;
  try {
    support::write_file_atomically(fs::path(path_) += ".index", index_, false);
  } catch (const support::Error&) {
    // Nothing is lost but time.
  }
}

void PlanMemo::remember(const fs::path& store, const fs::path& pipeline_file, const ExpandOptions& options,
                        const Graph& graph, const Plan& plan, const StageCatalog& catalog) {
  for (const PlannedTask& task : plan.tasks) {
    if (task.state != TaskState::kReuse || !task.selected) return;
  }
  try {
    Packer packer;
    // A program is believed by its stat alone; a text is hashed, so that touching it costs nothing.
    std::vector<std::pair<std::string, bool>> files;
    for (const std::string& file : graph.files) files.emplace_back(file, true);
    for (const auto& file : catalog.files()) files.emplace_back(file.path.string(), false);
    files.emplace_back(support::own_executable().string(), false);
    files.emplace_back((store / "VERSION").string(), false);   // a store of another format is another matter
    packer.number(files.size());
    for (const auto& [name, hashed] : files) {
      const Seen seen = look(name.c_str());
      packer.text(name);
      packer.number(seen.exists);
      packer.number(seen.size);
      packer.number(seen.mtime_ns);
      packer.number(seen.inode);
      if (hashed && seen.exists) {
        if (too_young(seen)) return;   // it may change again under the same stat: next time is early enough
        packer.text(support::sha256_file(name));
      } else {
        packer.text("");
      }
    }
    std::set<std::vector<std::string>> externals;
    for (const Task& task : graph.tasks) {
      for (const ExternalInput& external : task.externals) externals.insert(external.paths);
    }
    packer.number(externals.size());
    for (const auto& paths : externals) {
      for (const auto& [name, path] : list_files(paths).files) {
        if (too_young(look(path.c_str()))) return;
      }
      packer.number(paths.size());
      for (const std::string& path : paths) packer.text(path);
      packer.text(listing_digest(paths));
    }
    packer.text(graph.name);
    packer.number(graph.tasks.size());
    Packer entries;
    std::set<std::string> objects;   // sorted: neighbours share a folder
    for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
      const PlannedTask& planned = plan.tasks[i];
      const auto add = [&](std::int64_t step, const std::optional<Result>& result) {
        entries.text(graph.tasks[i].id);
        entries.text(graph.tasks[i].plan_key);
        entries.text(planned.task_key);
        entries.number(static_cast<std::uint64_t>(step));
        if (!result) return;
        for (const OutputRecord& output : result->outputs) {
          objects.insert(pack_object(output.object, output.collection ? kAnySize : output.bytes));
          for (const std::string& member : output.members) objects.insert(pack_object(member, kAnySize));
        }
      };
      if (planned.snapshots.empty()) add(-1, planned.result);
      for (const PlannedSnapshot& snapshot : planned.snapshots) add(snapshot.step, snapshot.result);
    }
    std::string packed;
    for (const std::string& object : objects) packed += object;
    packer.text(packed);
    packer.text(entries.bytes());
    const fs::path path = plan_memo_path(store, pipeline_file, options);
    support::make_folders(path.parent_path());
    support::write_file_atomically(path, packer.take(kPlanMagic), false);
  } catch (const support::Error&) {
    // Nothing is lost but time.
  }
}

}  // namespace pe::pipeline

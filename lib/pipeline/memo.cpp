#include "pipeline/memo.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <set>

#include "support/hash.h"
#include "support/process.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;

namespace {

constexpr std::string_view kContentMagic = "pe-content-memo/1\n";
constexpr std::string_view kPlanMagic = "pe-plan-memo/1\n";
constexpr std::uint64_t kSmallFile = 4u << 20;

// ---- a compact binary form: fixed-width integers of this machine, texts with their length -----------------------------

class Packer {
 public:
  void number(std::uint64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(std::string_view value) {
    number(value.size());
    bytes_ += value;
  }
  std::string take(std::string_view magic) {
    const std::uint32_t crc = support::crc32c(bytes_.data(), bytes_.size());
    std::string file(magic);
    file.append(reinterpret_cast<const char*>(&crc), sizeof crc);
    return file + bytes_;
  }

 private:
  std::string bytes_;
};

/// Reads what a Packer wrote; `good` turns false at the first thing that cannot be.
class Unpacker {
 public:
  Unpacker(std::string_view file, std::string_view magic) {
    std::uint32_t crc = 0;
    if (file.size() < magic.size() + sizeof crc || file.substr(0, magic.size()) != magic) {
      good_ = false;
      return;
    }
    std::memcpy(&crc, file.data() + magic.size(), sizeof crc);
    rest_ = file.substr(magic.size() + sizeof crc);
    good_ = crc == support::crc32c(rest_.data(), rest_.size());
  }
  std::uint64_t number() {
    std::uint64_t value = 0;
    if (!good_ || rest_.size() < sizeof value) {
      good_ = false;
      return 0;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string_view text() {
    const std::uint64_t size = number();
    if (!good_ || rest_.size() < size) {
      good_ = false;
      return {};
    }
    const std::string_view value = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return value;
  }
  bool good() const { return good_; }
  std::size_t left() const { return rest_.size(); }

 private:
  std::string_view rest_;
  bool good_ = true;
};

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

bool has_wildcard(const std::string& text) { return text.find_first_of("*?[") != std::string::npos; }

/// The folder before the first part with a wildcard.
fs::path glob_root(const std::string& pattern) {
  fs::path root;
  for (const fs::path& part : fs::path(pattern)) {
    if (has_wildcard(part.string())) break;
    root /= part;
  }
  return root;
}

void list_folder(const fs::path& folder, const fs::path& base, std::set<std::pair<dev_t, ino_t>>& above,
                 ListedFiles& listed) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) return;
  if (!above.insert({status.st_dev, status.st_ino}).second) return;   // a link to a folder that holds it
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) {
      list_folder(it->path(), base, above, listed);
    } else if (it->is_regular_file(ignored)) {
      listed.files.emplace_back(it->path().lexically_relative(base).string(), it->path());
    }
  }
  if (error) throw support::IoError(cat("cannot read folder '", folder.string(), "': ", error.message()));
  above.erase({status.st_dev, status.st_ino});
}

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

ListedFiles list_files(const std::vector<std::string>& paths) {
  ListedFiles listed;
  for (const std::string& text : paths) {
    std::error_code error;
    const std::size_t before = listed.files.size();
    bool found = false;
    const auto take = [&](const fs::path& path, const fs::path& base) {
      found = true;
      std::error_code ignored;
      if (fs::is_directory(path, ignored)) {
        std::set<std::pair<dev_t, ino_t>> above;
        list_folder(path, base.empty() ? path : base, above, listed);
      } else {
        listed.files.emplace_back(base.empty() ? path.filename().string() : path.lexically_relative(base).string(), path);
      }
    };
    if (fs::exists(text, error)) {
      take(text, {});
    } else if (has_wildcard(text)) {
      ::glob_t matches{};
      if (::glob(text.c_str(), 0, nullptr, &matches) == 0) {
        for (std::size_t i = 0; i < matches.gl_pathc; ++i) take(matches.gl_pathv[i], glob_root(text));
      }
      ::globfree(&matches);
    }
    if (!found && listed.missing.empty()) listed.missing = text;
    std::sort(listed.files.begin() + static_cast<std::ptrdiff_t>(before), listed.files.end());
  }
  std::sort(listed.files.begin(), listed.files.end());
  return listed;
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
    const std::uint64_t count = unpacker.number();
    if (!unpacker.good() || count > unpacker.left()) return std::nullopt;
    memo.entries_.resize(count);
    for (Entry& entry : memo.entries_) {
      entry.id = unpacker.text();
      entry.plan_key = unpacker.text();
      entry.key = unpacker.text();
      entry.step = static_cast<std::int64_t>(unpacker.number());
    }
    if (!unpacker.good()) return std::nullopt;
  } catch (const support::Error&) {
    return std::nullopt;
  }
  return memo;
}

bool PlanMemo::everything_present(const StoreView& store) const {
  ResultKey key;
  for (const Entry& entry : entries_) {
    key.key = entry.key;
    key.step = entry.step;
    const auto result = store.find(key);
    if (!result || !store.complete(*result)) return false;
  }
  return true;
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
    std::size_t count = 0;
    for (const PlannedTask& task : plan.tasks) count += task.snapshots.empty() ? 1 : task.snapshots.size();
    packer.number(count);
    for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
      const PlannedTask& planned = plan.tasks[i];
      const auto add = [&](std::int64_t step) {
        packer.text(graph.tasks[i].id);
        packer.text(graph.tasks[i].plan_key);
        packer.text(planned.task_key);
        packer.number(static_cast<std::uint64_t>(step));
      };
      if (planned.snapshots.empty()) add(-1);
      for (const PlannedSnapshot& snapshot : planned.snapshots) add(snapshot.step);
    }
    const fs::path path = plan_memo_path(store, pipeline_file, options);
    support::make_folders(path.parent_path());
    support::write_file_atomically(path, packer.take(kPlanMagic), false);
  } catch (const support::Error&) {
    // Nothing is lost but time.
  }
}

}  // namespace pe::pipeline

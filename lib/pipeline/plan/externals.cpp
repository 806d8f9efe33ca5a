#include "pipeline/plan/externals.h"

#include <map>

#include "support/error.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;

namespace {

template <typename Act>
void for_each_file(const ListedGroups& listed, const Act& act) {
  for (const ListedGroups::Files& group : listed.groups) {
    for (const auto& [name, path] : group) act(path);
  }
}

/// Paths and stamps of a listing, in order. Names in keys follow from the paths.
class StampDigest {
 public:
  explicit StampDigest(const std::string& missing) { hash_.update(cat(missing, "\n")); }
  void add(const std::string& path, const support::FileStamp& stamp) {
    hash_.update(cat(path, '\0', stamp.exists, ' ', stamp.size, ' ', stamp.mtime_ns, ' ', stamp.ctime_ns, ' ',
                     stamp.inode, '\n'));
  }
  std::string hex() { return hash_.hex(); }

 private:
  support::Sha256 hash_;
};

/// By stat first, by content where a stat differs. Empty without a difference.
std::string first_difference(const ExternalInput& external) {
  const ExternalContent& then = *external.content;
  if (stamps_now(external.paths) == stamps_of(then)) return {};
  const ListedGroups listed = list_groups(external.paths);
  if (!listed.missing.empty()) return listed.missing;
  std::vector<fs::path> now;
  for_each_file(listed, [&](const fs::path& path) { now.push_back(path); });
  for (std::size_t i = 0; i < now.size() || i < then.reads.size(); ++i) {
    if (i >= now.size()) return then.reads[i].path;  // gone
    if (i >= then.reads.size() || now[i].string() != then.reads[i].path) return now[i].string();
    if (then.reads[i].stamp.settled() && support::stamp_of(now[i]) == then.reads[i].stamp) continue;
    if (support::sha256_file(now[i]) != then.reads[i].sha256) return now[i].string();
  }
  return {};
}

}  // namespace

ListedGroups list_groups(const std::vector<std::string>& paths) {
  ListedGroups listed;
  for (const std::string& path : paths) {
    support::ListedFiles files = support::list_files({path});
    listed.groups.push_back(std::move(files.files));
    if (listed.missing.empty()) listed.missing = std::move(files.missing);
  }
  for_each_file(listed, [](const fs::path& path) {
    if (support::find_invalid_utf8(path.native()) == std::string_view::npos) return;
    throw support::ConfigError(cat("the name of input file ", support::quote(path.string()), " is not UTF-8"), {},
                               "keys and records are text: give the file another name");
  });
  return listed;
}

void hash_externals(Graph& graph, StampMemo& memo, const HashingListener& listener) {
  struct Listing {
    ListedGroups listed;
    support::SharedValue<ExternalContent> content;
  };
  std::map<std::vector<std::string>, Listing> listings;  // many tasks may name the same files
  HashingProgress progress;
  for (const Task& task : graph.tasks) {
    for (const ExternalInput& external : task.externals) {
      const auto [it, fresh] = listings.try_emplace(external.paths);
      if (!fresh) continue;
      it->second.listed = list_groups(external.paths);
      for_each_file(it->second.listed, [&](const fs::path& path) {
        if (listener && !memo.known(path)) progress.total_bytes += support::stamp_of(path).size;
      });
    }
  }
  for (auto& [paths, listing] : listings) {
    ExternalContent content;
    content.missing = listing.listed.missing;
    for (const ListedGroups::Files& group : listing.listed.groups) {
      ExternalContent::Files& files = content.groups.emplace_back();
      for (const auto& [name, path] : group) {
        const bool read = listener && !memo.known(path);
        progress.file = path;
        if (read) listener(progress);
        content.reads.push_back(memo.digest(path));
        files.emplace_back(name, content.reads.back().sha256);
        if (read) progress.done_bytes += content.reads.back().stamp.size;
      }
    }
    listing.content = std::move(content);
  }
  for (Task& task : graph.tasks) {
    for (ExternalInput& external : task.externals) external.content = listings.at(external.paths).content;
  }
  memo.save();
}

std::vector<std::string> paths_of(const ExternalContent& content) {
  std::vector<std::string> paths;
  for (const support::FileRead& read : content.reads) paths.push_back(read.path);
  return paths;
}

Json keyed_files(const std::vector<ExternalContent::Files>& groups) {
  Json lists = Json::array();
  for (const ExternalContent::Files& group : groups) {
    Json files = Json::array();
    for (const auto& [name, sha256] : group) files.push_back(Json::array({name, sha256}));
    lists.push_back(std::move(files));
  }
  return groups.size() == 1 ? lists[0] : lists;
}

std::string stamps_of(const ExternalContent& content) {
  StampDigest digest(content.missing);
  for (const support::FileRead& read : content.reads) {
    if (!read.stamp.settled()) return {};
    digest.add(read.path, read.stamp);
  }
  return digest.hex();
}

std::string stamps_now(const std::vector<std::string>& paths) {
  const ListedGroups listed = list_groups(paths);
  StampDigest digest(listed.missing);
  for_each_file(listed, [&](const fs::path& path) { digest.add(path.string(), support::stamp_of(path)); });
  return digest.hex();
}

std::string changed_external(const Task& task) {
  for (const ExternalInput& external : task.externals) {
    try {
      if (const std::string path = first_difference(external); !path.empty()) return path;
    } catch (const support::IoError& error) {
      // A file that was read before is gone, or a folder now. A server that does not answer says nothing of it.
      const int code = error.system_error();
      if (code != 0 && code != ENOENT && code != ENOTDIR) throw;
      return external.paths.front();
    } catch (const support::Error&) {
      return external.paths.front();
    }
  }
  return {};
}

}  // namespace pe::pipeline

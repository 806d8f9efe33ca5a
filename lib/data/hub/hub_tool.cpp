#include "data/hub/hub_tool.h"

#include "data/hub/downloads.h"
#include "support/error.h"
#include "support/escaped.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::data {

using support::cat;
using support::ConfigError;

namespace {

std::string size_of(std::int64_t bytes) {
  return bytes < 0 ? "size unknown" : support::short_bytes(static_cast<double>(bytes));
}

std::string count_of(std::size_t files) { return cat(files, files == 1 ? " file" : " files"); }

DownloadOptions options_of(const HubOrder& order) {
  DownloadOptions options = DownloadOptions::from_environment();
  options.hub.offline = options.hub.offline || order.offline;
  options.parallel = order.parallel;
  options.verify = order.verify;
  return options;
}

Hub::Limits limits_of(const HubOrder& order) {
  Hub::Limits limits{order.max_files, {}};
  if (order.max_bytes.empty()) return limits;
  limits.bytes = support::parse_integer(order.max_bytes, support::Suffixes::kBytes);
  if (!limits.bytes || *limits.bytes < 1)
    throw ConfigError(cat("--max-bytes: expected a size such as 20G, found ", support::quote(order.max_bytes)));
  return limits;
}

}  // namespace

/// A lock or list names its files: these flags choose among the files of a repository. @throws ConfigError
void refuse_choice(const HubOrder& order, const char* of) {
  const char* flag = !order.patterns.empty()       ? "--files"
                     : order.max_files.has_value() ? "--max-shards"
                     : !order.max_bytes.empty()    ? "--max-bytes"
                                                   : nullptr;
  if (flag != nullptr)
    throw ConfigError(cat(flag, " has no effect on ", of, ", whose files are all taken"), {},
                      "choose files when the lock is written: pe-hub lock --data");
}

/// @throws ConfigError for a flag that the verb does not read
void refuse_flag(bool given, const char* flag, const char* verb, const char* reads) {
  if (given) throw ConfigError(cat(flag, " has no effect on pe-hub ", verb), {}, cat("pe-hub ", reads, " reads it"));
}

void write_lock(const HubOrder& order, support::Progress& progress) {
  if (order.name.empty() == order.urls.empty()) throw ConfigError("pe-hub lock needs either --data or --urls");
  if (order.lock.empty() && !order.dry_run) throw ConfigError("pe-hub lock needs --lock, the file to write");
  refuse_flag(order.verify, "--verify", "lock", "fetch");
  FetchLock lock;
  if (!order.urls.empty()) {
    refuse_choice(order, "a list of addresses");
    lock = parse_url_list(support::read_file(order.urls, 64 << 20), order.urls);
  } else {
    HubRequest request = parse_hub_name(order.name);
    if (!order.patterns.empty()) request.patterns = order.patterns;
    HubOptions options = HubOptions::from_environment();
    options.offline = options.offline || order.offline;
    lock = Hub(options, progress).lock(request, limits_of(order));
  }
  for (const LockedFile& file : lock.files)
    progress.note(cat(support::escaped(file.path, 200), ", ", size_of(file.bytes)));
  progress.note(cat(count_of(lock.files.size()), ", ", size_of(lock.bytes()),
                    lock.commit.empty() ? "" : cat(", commit ", lock.commit)));
  if (!order.dry_run) support::write_file_atomically(order.lock, lock.render(), true);
}

void fetch_lock(const HubOrder& order, support::Progress& progress) {
  if (order.lock.empty()) throw ConfigError("pe-hub fetch needs --lock");
  refuse_flag(!order.name.empty(), "--data", "fetch", "lock");
  refuse_flag(!order.urls.empty(), "--urls", "fetch", "lock");
  refuse_choice(order, "a lock");
  const FetchLock lock = FetchLock::read(order.lock);
  const DownloadOptions options = options_of(order);
  const DownloadPlan plan = plan_downloads(lock, options);
  if (order.dry_run) {
    for (std::size_t i = 0; i < lock.files.size(); ++i) {
      progress.note(cat(support::escaped(lock.files[i].path, 200), ", ", size_of(lock.files[i].bytes),
                        plan.here[i].empty() ? ", to be downloaded" : ", here"));
    }
    progress.note(cat(plan.missing_files, " of ", count_of(lock.files.size()), " to be downloaded, ",
                      size_of(plan.missing_bytes)));
    return;
  }
  download_all(lock, options, progress);
  progress.note(cat(count_of(lock.files.size()), " here, ", size_of(lock.bytes())));
}

}  // namespace pe::data

/// @file
/// Files by their SHA-256, in a folder that outlives attempts and that any number of programs share. `<aa>/<sha256>` is
/// complete and was verified on arrival; `<aa>/<sha256>.part` is continued from its end, by any program.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "data/hub/hub.h"
#include "data/hub/lock_file.h"
#include "support/progress.h"

namespace pe::data {

struct DownloadOptions {
  std::filesystem::path folder;              ///< empty: `default_downloads()`
  std::vector<std::filesystem::path> other;  ///< folders of blobs by SHA-256, read only: the Hugging Face cache
  int parallel = 4;
  bool verify = false;                        ///< hash complete files again
  std::int64_t most_unannounced = 4LL << 30;  ///< bytes of a file whose size neither the lock nor the server names
  HubOptions hub;
  static DownloadOptions from_environment();
};

/// $PE_DOWNLOADS, else $XDG_CACHE_HOME/pe-pipeline/downloads, else ~/.cache/pe-pipeline/downloads. The last two count
/// only as absolute paths. @throws ConfigError when there is none
std::filesystem::path default_downloads();

struct DownloadPlan {
  std::vector<std::filesystem::path> here;  ///< by file of the lock; empty: not on this machine
  std::int64_t missing_files = 0;
  std::int64_t missing_of_unknown_size = 0;  ///< of them
  std::int64_t missing_bytes = 0;            ///< of known sizes, less the bytes of parts
};
/// Looks at the disk only.
DownloadPlan plan_downloads(const FetchLock& lock, const DownloadOptions& options);

/// Downloads every file of the lock, several at a time. @return the path of each file.
/// Progress: bytes of all files, the share of each file under way, and a line for each that ends. A wait for a server,
/// or for another program that downloads the same file, is a line too. The bytes have no total while a size is unknown.
/// @throws Error: 69 when the network ends the tries; 3, with both digests, for a file that differs from the lock.
/// IoError. Stopped. Complete files and parts are kept.
std::vector<std::filesystem::path> download_all(const FetchLock& lock, const DownloadOptions& options,
                                                support::Progress& progress);

}  // namespace pe::data

/// @file
/// The commands of `pe-hub`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "support/progress.h"

namespace pe::data {

struct HubOrder {
  std::string name;                   ///< alias or owner/name, with @revision
  std::string urls;                   ///< a file of "<sha256>  <url>" lines, in place of a name
  std::string lock;                   ///< the lock file
  std::vector<std::string> patterns;  ///< globs; empty: the alias's files, or all .parquet
  std::optional<std::int64_t> max_files;
  std::string max_bytes;  ///< as people write it: 20G; empty: all
  bool dry_run = false, offline = false, verify = false;
  int parallel = 4;
};

/// Asks the hub and writes the lock; with `dry_run` prints its contents. @throws Error
void write_lock(const HubOrder& order, support::Progress& progress);
/// Brings the files of a lock here; with `dry_run` says which are missing. @throws Error
void fetch_lock(const HubOrder& order, support::Progress& progress);

}  // namespace pe::data

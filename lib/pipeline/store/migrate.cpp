#include "pipeline/store/migrate.h"

#include <fcntl.h>
#include <sys/file.h>

#include <vector>

#include "pipeline/store/record.h"
#include "pipeline/store/shard_name.h"
#include "pipeline/store/store.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/sha256_text.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

/// Records on disk: tasks/ab/<key>.json and tracks/<key>/<step>.json, with their conflicts.
void add_checksums(const fs::path& root, bool durable) {
  for (const char* kind : {"tasks", "tracks"}) {
    for (const std::string& shard : support::list_folder(root / kind)) {
      if (!is_shard(shard) && !support::is_sha256(shard)) continue;
      for (const std::string& name : support::list_folder(root / kind / shard)) {
        if (!name.ends_with(".json")) continue;
        const fs::path file = root / kind / shard / name;
        try {
          const Record record = record_from_text(support::read_file(file), file.string());
          support::write_file_atomically(file, record_text(record), durable);
        } catch (const support::ArtifactError&) {
          // Damaged already; it counts as missing, as it did before.
        }
      }
    }
  }
}

}  // namespace

void migrate_store(const fs::path& root, int from, bool durable) {
  const fs::path version = root / "VERSION";
  const support::Descriptor lock(::open(version.c_str(), O_RDONLY | O_CLOEXEC));
  if (!lock) support::throw_errno("read", version.string());
  if (::flock(lock.get(), LOCK_EX) != 0) support::throw_errno("lock", version.string());
  // The earlier holder of the lock may have done it all.
  const auto now = support::parse_integer(support::trim(support::read_file(version, 4096)));
  if (now && *now > from) from = static_cast<int>(*now);
  if (from < 2) add_checksums(root, durable);
  if (from < kStoreVersion) support::write_file_atomically(version, cat(kStoreVersion, "\n"), durable);
}

}  // namespace pe::pipeline

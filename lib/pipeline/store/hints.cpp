#include "pipeline/store/hints.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "pipeline/store/shard_name.h"
#include "support/error.h"
#include "support/fault_point.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/sha256_text.h"
#include "support/text.h"

namespace pe::pipeline {

Hints::Hints(const StoreFolder& folder, StoreIndex& index)
    : folder_(folder),
      index_(index),
      opened_(::open((folder.root() / "plans").c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)) {}

std::optional<std::string> Hints::find(const std::string& plan_key) {
  if (const auto known = index_.hint(plan_key)) return known;
  // A changed plan asks for thousands of hints that do not exist.
  if (!support::is_sha256(plan_key) || !opened_) return std::nullopt;
  if (::faccessat(opened_.get(), ShardName(plan_key).c_str(), F_OK, 0) != 0) {
    if (errno == ENOENT || errno == ENOTDIR) return std::nullopt;
    support::throw_errno("look at", folder_.hint(plan_key).string());
  }
  const std::string key(support::trim(support::read_file(folder_.hint(plan_key), 4096)));
  if (!support::is_sha256(key)) return std::nullopt;
  index_.note_hint(plan_key, key);
  return key;
}

void Hints::set(const std::string& plan_key, const std::string& key) {
  if (index_.hint(plan_key) == key) return;
  const std::filesystem::path path = folder_.hint(plan_key);
  if (::access(path.parent_path().c_str(), F_OK) != 0) support::make_folders(path.parent_path());
  support::fault_point("write hint");
  support::write_file_atomically(path, key + "\n", false);  // losing it costs a look-up
  index_.add_hint(plan_key, key);
}

}  // namespace pe::pipeline

#include "stage/work_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

#include "artifact/task_protocol.h"
#include "support/error.h"
#include "support/folders.h"

namespace pe::stage {

OwnWorkFolder::OwnWorkFolder(std::filesystem::path path) : path_(std::move(path)) {
  while (true) {
    support::make_folders(path_);
    used_ = support::Descriptor(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!used_ && errno == ENOENT) continue;  // it was removed in between
    if (!used_) support::throw_errno("open", path_.string());
    if (::flock(used_.get(), LOCK_SH) != 0) return;  // a file system without locks: `remove` will fail to get one
    struct stat ours {
    }, there{};
    if (::fstat(used_.get(), &ours) == 0 && ::stat(path_.c_str(), &there) == 0 && ours.st_ino == there.st_ino &&
        ours.st_dev == there.st_dev) {
      return;
    }
  }
}

void OwnWorkFolder::remove() {
  if (::flock(used_.get(), LOCK_EX | LOCK_NB) != 0) return;
  std::error_code ignored;
  for (const std::string& name : support::list_folder(path_, ignored)) {
    if (name != artifact::kChartFolder) std::filesystem::remove_all(path_ / name, ignored);
  }
  std::filesystem::remove(path_, ignored);  // unless there are charts
}

}  // namespace pe::stage

#include "pipeline/run/gpu_lease.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>

namespace pe::pipeline {

namespace {

/// Opened or made, writable for every user. Made apart from opened: where a folder is sticky, kernels refuse to "create"
/// a file that another user owns.
support::Descriptor open_shared(const std::filesystem::path& path) {
  for (int tries = 0; tries < 3; ++tries) {
    support::Descriptor fd(::open(path.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
    if (fd || errno != ENOENT) return fd;
    fd = support::Descriptor(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666));
    if (fd && ::fchmod(fd.get(), 0666) == 0) return fd;
    if (!fd && errno != EEXIST) return fd;
  }
  return {};
}

}  // namespace

GpuLeases::GpuLeases(std::filesystem::path folder)
    : folder_(folder.empty() ? "/tmp" : std::move(folder)), locks_(std::getenv("SLURM_JOB_ID") == nullptr) {}

bool GpuLeases::take(const std::string& id, int units) {
  if (!locks_) return true;
  std::string name = "pe-gpu-";
  for (const char c : id) name += (c == '/' ? '_' : c);
  // Of its own for each share, since locks of one description do not exclude each other.
  support::Descriptor fd = open_shared(folder_ / name);
  if (!fd) return true;
  for (int from = 0; from + units <= kGpuUnits; ++from) {
    struct flock range {};
    range.l_type = F_WRLCK;
    range.l_whence = SEEK_SET;
    range.l_start = from;
    range.l_len = units;
    if (::fcntl(fd.get(), F_OFD_SETLK, &range) == 0 || (errno != EAGAIN && errno != EACCES)) {
      held_.emplace(std::pair(id, units), std::move(fd));
      return true;
    }
  }
  return false;
}

void GpuLeases::give_back(const std::string& id, int units) {
  const auto found = held_.find({id, units});
  if (found != held_.end()) held_.erase(found);
}

}  // namespace pe::pipeline

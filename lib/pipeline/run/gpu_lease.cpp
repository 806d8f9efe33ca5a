#include "pipeline/run/gpu_lease.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdlib>
#include <vector>

#include "support/error.h"
#include "support/folders.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

/// Opened or made, writable for every user. Made apart from opened: where a folder is sticky, kernels refuse to
/// "create" a file that another user owns.
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

std::filesystem::path shared_folder() {
  for (const char* folder : {"/run/lock", "/dev/shm"}) {
    struct stat status {};
    constexpr ::mode_t kForAll = S_ISVTX | S_IWOTH;
    if (::stat(folder, &status) == 0 && S_ISDIR(status.st_mode) && (status.st_mode & kForAll) == kForAll) return folder;
  }
  return "/tmp";
}

}  // namespace

GpuLeases::GpuLeases(std::filesystem::path folder, std::filesystem::path driver)
    : folder_(folder.empty() ? shared_folder() : std::move(folder)),
      driver_(std::move(driver)),
      locks_(std::getenv("SLURM_JOB_ID") == nullptr) {}

std::string GpuLeases::name_of(const std::string& id) const {
  // A folder for each GPU, called by its place on the PCI bus; numbers count in this order (CUDA_DEVICE_ORDER).
  std::vector<std::string> uuids;
  try {
    for (const std::string& place : support::list_folder(driver_)) {
      std::string& uuid = uuids.emplace_back();
      for (const std::string& line : support::split(support::read_file(driver_ / place / "information", 65536), '\n')) {
        if (line.starts_with("GPU UUID:")) uuid = support::trim(line.substr(9));
      }
    }
  } catch (const support::IoError&) {
    return id;
  }
  const auto number = support::parse_integer(id);
  for (std::size_t i = 0; i < uuids.size(); ++i) {
    const bool named = id.size() > 4 && id.starts_with("GPU-") && uuids[i].starts_with(id);
    if (!uuids[i].empty() && (named || number == static_cast<std::int64_t>(i))) return uuids[i];
  }
  return id;
}

bool GpuLeases::take(const std::string& id, int units) {
  if (!locks_) return true;
  std::string name = "pe-gpu-";
  for (const char c : name_of(id)) name += (c == '/' ? '_' : c);
  // Separate for each share, since locks of one description do not exclude each other.
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

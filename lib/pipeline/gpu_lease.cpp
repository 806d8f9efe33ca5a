#include "pipeline/gpu_lease.h"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>
#include <cstdlib>

namespace pe::pipeline {

GpuLeases::GpuLeases(std::filesystem::path folder) : folder_(std::move(folder)) {
  if (!folder_.empty()) return;
  const char* runtime = std::getenv("XDG_RUNTIME_DIR");
  folder_ = runtime && *runtime ? runtime : "/tmp";
}

bool GpuLeases::take(const std::string& id) {
  std::string name = "pe-gpu-";
  for (const char c : id) name += (c == '/' ? '_' : c);
  support::Descriptor fd(::open((folder_ / name).c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666));
  if (!fd) return true;
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) return errno != EWOULDBLOCK;
  held_[id] = std::move(fd);
  return true;
}

void GpuLeases::give_back(const std::string& id) { held_.erase(id); }

}  // namespace pe::pipeline

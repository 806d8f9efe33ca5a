#include "support/kernel_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "support/files.h"

namespace pe::support {

std::string read_kernel_file(const std::filesystem::path& path, std::size_t most) {
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  std::string content;
  char buffer[16384];
  while (fd && content.size() < most) {
    const ssize_t count = ::read(fd.get(), buffer, std::min(sizeof buffer, most - content.size()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    content.append(buffer, static_cast<std::size_t>(count));
  }
  return content;
}

}  // namespace pe::support

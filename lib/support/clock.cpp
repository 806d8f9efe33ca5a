#include "support/clock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>

#include "support/files.h"

namespace pe::support {

double steady_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

double file_time(const std::filesystem::path& folder) {
  const std::filesystem::path probe = unique_sibling(folder / "time");
  const Descriptor file(::open(probe.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!file) return unix_time();
  struct stat status {};
  const bool known = ::fstat(file.get(), &status) == 0;
  ::unlink(probe.c_str());
  return known ? static_cast<double>(status.st_mtim.tv_sec) + static_cast<double>(status.st_mtim.tv_nsec) * 1e-9
               : unix_time();
}

std::string utc_text(double unix_seconds, bool milliseconds) {
  const auto whole = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  char text[40];
  const std::size_t size = std::strftime(text, 32, "%Y-%m-%dT%H:%M:%S", &parts);
  const int fraction = static_cast<int>((unix_seconds - static_cast<double>(whole)) * 1000);
  if (milliseconds)
    std::snprintf(text + size, sizeof text - size, ".%03dZ", fraction);
  else
    std::snprintf(text + size, sizeof text - size, "Z");
  return text;
}

std::string utc_date(double unix_seconds) { return utc_text(unix_seconds).substr(0, 10); }

}  // namespace pe::support

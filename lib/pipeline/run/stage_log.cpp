#include "pipeline/run/stage_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "pipeline/store/whole_write.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

constexpr std::int64_t kEnd = 1 << 20;  // bytes that stay of each end

std::string bytes_at(const support::Descriptor& file, std::int64_t from, std::int64_t size) {
  std::string text(static_cast<std::size_t>(size), '\0');
  const ssize_t count = ::pread(file.get(), text.data(), text.size(), from);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

}  // namespace

std::vector<std::string> last_lines(const std::filesystem::path& log, std::size_t count) {
  const support::Descriptor file(::open(log.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) return {};
  const std::int64_t size = std::min<std::int64_t>(status.st_size, 65536);
  std::vector<std::string> lines = support::split(bytes_at(file, status.st_size - size, size), '\n');
  while (!lines.empty() && lines.back().empty()) lines.pop_back();
  if (lines.size() > count) lines.erase(lines.begin(), lines.end() - static_cast<std::ptrdiff_t>(count));
  for (std::string& line : lines) line = support::replace_invalid_utf8(line);
  return lines;
}

bool cut_stage_log(const std::filesystem::path& log, std::int64_t largest) {
  struct stat status {};
  if (::stat(log.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size <= std::max(largest, 2 * kEnd))
    return false;
  const support::Descriptor file(::open(log.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NONBLOCK));
  if (!file || ::fstat(file.get(), &status) != 0) return false;
  // Whole lines, where lines are not longer than that.
  const std::string head = bytes_at(file, 0, kEnd);
  std::string tail = bytes_at(file, status.st_size - kEnd, kEnd);
  const auto end = head.rfind('\n'), begin = tail.find('\n');
  const std::size_t kept = end == std::string::npos ? head.size() : end + 1;
  if (begin != std::string::npos) tail.erase(0, begin + 1);
  if (::ftruncate(file.get(), static_cast<off_t>(kept)) != 0) return false;
  return support::write_whole(file.get(),
                              support::cat("\n[pe-pipeline: output is left out here, since this log grew above ",
                                           support::short_bytes(static_cast<double>(largest)), "]\n", tail));
}

}  // namespace pe::pipeline

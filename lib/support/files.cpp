#include "support/files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>

#include "support/error.h"
#include "support/file_stamp.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::support {

namespace {

std::optional<std::string> irregular(mode_t mode) {
  if (S_ISREG(mode)) return std::nullopt;
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISLNK(mode)) return "a symbolic link";
  return "a device";
}

[[noreturn]] void refuse_to_replace(const fs::path& path, const std::string& kind) {
  throw IoError(cat("cannot write ", quote(path.string()), ": it is ", kind, ", and only a regular file is replaced"),
                true);
}

}  // namespace

std::optional<std::string> irregular_kind(const fs::path& path, bool follow_links) {
  struct stat status {};
  const int failed = follow_links ? ::stat(path.c_str(), &status) : ::lstat(path.c_str(), &status);
  return failed != 0 ? std::nullopt : irregular(status.st_mode);
}

void require_replaceable(const fs::path& path) {
  if (const auto kind = irregular_kind(path, /*follow_links=*/false)) refuse_to_replace(path, *kind);
}

Descriptor open_regular(const fs::path& path) {
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || ::fstat(fd.get(), &status) != 0) throw_errno("read", path.string());
  if (const auto kind = irregular(status.st_mode)) {
    throw IoError(cat("cannot read ", quote(path.string()), ": expected a regular file, found ", *kind));
  }
  return fd;
}

std::string read_file(const fs::path& path, std::uint64_t limit) {
  const Descriptor fd = open_regular(path);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw_errno("read", path.string());
  const auto too_large = [&] {
    return IoError(
        cat("cannot read '", path.string(), "': it is larger than ", short_bytes(static_cast<double>(limit))));
  };
  if (static_cast<std::uint64_t>(status.st_size) > limit) throw too_large();
  std::string content;
  content.reserve(static_cast<std::size_t>(status.st_size));
  char buffer[65536];
  while (true) {
    const ssize_t count = ::read(fd.get(), buffer, sizeof buffer);
    if (count < 0) {
      if (errno == EINTR) continue;
      throw_errno("read", path.string());
    }
    if (count == 0) return content;
    if (content.size() + static_cast<std::size_t>(count) > limit) throw too_large();
    content.append(buffer, static_cast<std::size_t>(count));
  }
}

void write_file_atomically(const fs::path& path, std::string_view content, bool durable) {
  require_replaceable(path);
  fs::path temporary = unique_sibling(path);
  Descriptor fd;
  for (int tries = 0; !fd; ++tries) {  // an existing file has another owner, whatever its name
    fd = Descriptor(::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
    if (fd) break;
    if (errno != EEXIST || tries == 100) throw_errno("create", path.string(), true);
    temporary = unique_sibling(path);
  }
  try {
    if (!write_whole(fd.get(), content)) throw_errno("write", path.string());
    if (durable && ::fsync(fd.get()) != 0) throw_errno("sync", path.string());
    if (::close(fd.release()) != 0) throw_errno("close", path.string());
    rename_durably(temporary, path, durable);
  } catch (...) {
    ::unlink(temporary.c_str());
    throw;
  }
}

bool write_whole(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(fd, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = ENOSPC;
    if (count <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
  return true;
}

void append_file(const fs::path& path, std::string_view content) {
  Descriptor fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!fd) throw_errno("create", path.string(), true);
  if (!write_whole(fd.get(), content)) throw_errno("write", path.string());
}

void sync_path(const fs::path& path) {
  Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  // A network file system remembers for seconds that a name was missing before it was made.
  for (int tries = 0; !fd && errno == ENOENT && tries < 10; ++tries) {
    ::usleep(20000u << std::min(tries, 6));
    fd = Descriptor(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  }
  if (!fd) throw_errno("sync", path.string());
  // Some file systems refuse to sync a folder; they order renames themselves.
  if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != ENOTSUP) throw_errno("sync", path.string());
}

void rename_durably(const fs::path& from, const fs::path& to, bool durable) {
  const auto kind = irregular_kind(to, /*follow_links=*/false);
  // rename(2) itself refuses folders; it would replace anything else without a word.
  if (kind && *kind != "a folder" && kind != irregular_kind(from, /*follow_links=*/false)) refuse_to_replace(to, *kind);
  if (::rename(from.c_str(), to.c_str()) != 0) throw_errno("rename to", to.string(), true);
  if (durable) sync_path(to.has_parent_path() ? to.parent_path() : fs::path("."));
}

void make_folders(const fs::path& path) {
  if (::mkdir(path.c_str(), 0777) == 0) return;  // mostly one is missing, or none
  std::error_code error;
  fs::create_directories(path, error);
  std::error_code unseen;
  if (error && !fs::is_directory(path, unseen)) {
    errno = error.value();
    throw_errno("create folder", path.string(), true);
  }
}

fs::path unique_sibling(const fs::path& path) {
  static std::atomic<unsigned> counter{0};
  // Hosts that share a file system may share process numbers too, and so may containers that share a host's name.
  static const std::string host = [] {
    char name[64] = "", space[64] = "";
    ::gethostname(name, sizeof name - 1);
    std::string text = name;
    if (::readlink("/proc/self/ns/pid", space, sizeof space - 1) > 0) {
      text += '.';
      for (const char* c = space; *c; ++c) {
        if (*c >= '0' && *c <= '9') text += *c;
      }
    }
    return text;
  }();
  const std::string end = ".tmp." + host + "." + std::to_string(::getpid()) + "." + std::to_string(counter++);
  constexpr std::size_t kLongestName = 255;  // bytes, of Linux
  return path.parent_path() / (path.filename().string().substr(0, kLongestName - end.size()) + end);
}

void remove_tree(const fs::path& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error && error.value() != ENOENT) {
    errno = error.value();
    throw_errno("remove", path.string());
  }
}

Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = other.release();
  }
  return *this;
}

void Descriptor::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

namespace {

/// False, with errno, where the file cannot be read, or is shorter.
bool read_whole(const Descriptor& file, char* to, std::size_t size) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t count = ::pread(file.get(), to + done, size - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) errno = ESTALE;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

}  // namespace

MappedFile::MappedFile(const fs::path& path) {
  const Descriptor fd = open_regular(path);
  struct stat status {};
  if (::fstat(fd.get(), &status) != 0) throw_errno("read", path.string());
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  // On a network a page that is read late is a SIGBUS if another host has replaced the file.
  constexpr std::size_t kMostCopied = 64 << 20;
  const bool copied = size_ <= kMostCopied && is_on_network(path);
  void* mapped = copied ? ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                        : ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, fd.get(), 0);
  if (mapped == MAP_FAILED) throw_errno("map", path.string());
  data_ = static_cast<const std::byte*>(mapped);
  if (copied && !read_whole(fd, static_cast<char*>(mapped), size_)) {
    const int error = errno;
    ::munmap(mapped, size_);
    errno = error;
    throw_errno("read", path.string());
  }
}

MappedFile::MappedFile(MappedFile&& other) noexcept : data_(other.data_), size_(other.size_) {
  other.data_ = nullptr;
  other.size_ = 0;
}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_) ::munmap(const_cast<std::byte*>(data_), size_);
}

}  // namespace pe::support

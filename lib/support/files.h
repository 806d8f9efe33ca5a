/// @file
/// Files: whole reads, atomic publish, durable renames. Every failure is an IoError that names the path.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace pe::support {

namespace fs = std::filesystem;

/// Names a path's kind if it is no regular file: "a folder", "a FIFO", "a device", "a socket", or "a symbolic link" if
/// links are not followed. Nothing for a regular file and for a path that does not exist.
std::optional<std::string> irregular_kind(const fs::path& path, bool follow_links);

/// @throws IoError (cannot create) if `path` exists and is no regular file.
void require_replaceable(const fs::path& path);

/// The whole file. @throws IoError; also when it is larger than `limit` or is no regular file.
std::string read_file(const fs::path& path, std::uint64_t limit = 1ULL << 32);

/// Written under a unique temporary name, synced when `durable`, then renamed to its final name.
/// @throws IoError; also where `path` is no regular file (`require_replaceable`).
void write_file_atomically(const fs::path& path, std::string_view content, bool durable = true);

/// Writes all of it, continuing after a short write. False, with errno set, when the rest cannot be written; the
/// written part stays.
bool write_whole(int fd, std::string_view bytes);

/// Appends with one `write`; creates the file if needed.
void append_file(const fs::path& path, std::string_view content);

/// fsync of a file or folder, by name.
void sync_path(const fs::path& path);

/// rename(2), then fsync of the folder when `durable`. A device, FIFO, socket or symbolic link is not replaced, unless
/// by another link. @throws IoError
void rename_durably(const fs::path& from, const fs::path& to, bool durable = true);

/// mkdir -p. @throws IoError (cannot create).
void make_folders(const fs::path& path);

/// A unique name in the folder of `path`: "<path>.tmp.<host>.<pid>.<counter>".
fs::path unique_sibling(const fs::path& path);

/// Removes a tree; what is already gone is fine.
void remove_tree(const fs::path& path);

/// Owns a POSIX descriptor.
class Descriptor {
 public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept;
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() { close(); }
  int get() const { return fd_; }
  int release() {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }
  explicit operator bool() const { return fd_ >= 0; }
  void close();

 private:
  int fd_ = -1;
};

/// Opens a regular file for reading. @throws IoError; also for anything else: opening a FIFO would wait for its other
/// end.
Descriptor open_regular(const fs::path& path);

/// A file mapped for reading. Empty files map to an empty view.
class MappedFile {
 public:
  MappedFile() = default;
  explicit MappedFile(const fs::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  ~MappedFile();
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::string_view view() const { return {reinterpret_cast<const char*>(data_), size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace pe::support

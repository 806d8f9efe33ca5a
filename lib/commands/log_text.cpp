#include "commands/log_text.h"

#include <algorithm>
#include <fstream>
#include <system_error>

namespace pe::commands {

namespace fs = std::filesystem;

namespace {

constexpr std::uint64_t kPiece = 64 * 1024;

std::uint64_t size_of(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return error ? 0 : size;
}

/// The bytes of a range that can be read; a log may be cut while it is read.
std::string range(std::ifstream& stream, std::uint64_t from, std::uint64_t to) {
  std::string bytes(to - from, '\0');
  stream.clear();
  stream.seekg(static_cast<std::streamoff>(from));
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(stream.gcount()));
  return bytes;
}

}  // namespace

std::uint64_t tail_offset(const fs::path& file, std::int64_t lines) {
  const std::uint64_t size = size_of(file);
  if (lines <= 0) return size;
  std::ifstream stream(file, std::ios::binary);
  std::int64_t seen = 0;
  for (std::uint64_t end = size; end > 0;) {
    const std::uint64_t begin = end > kPiece ? end - kPiece : 0;
    const std::string bytes = range(stream, begin, end);
    for (std::size_t i = bytes.size(); i-- > 0;) {
      const std::uint64_t after = begin + i + 1;
      // The newline at the very end closes the last line and begins none.
      if (bytes[i] == '\n' && after != size && ++seen == lines) return after;
    }
    end = begin;
  }
  return 0;
}

std::uint64_t read_log(const fs::path& file, std::optional<std::int64_t> lines,
                       const std::function<void(std::string_view)>& piece) {
  return read_log_from(file, lines ? tail_offset(file, *lines) : 0, piece);
}

std::uint64_t read_log_from(const fs::path& file, std::uint64_t at,
                            const std::function<void(std::string_view)>& piece) {
  const std::uint64_t size = size_of(file);
  std::ifstream stream(file, std::ios::binary);
  while (at < size) {
    const std::string bytes = range(stream, at, std::min(size, at + kPiece));
    if (bytes.empty()) break;
    piece(bytes);
    at += bytes.size();
  }
  return at;
}

std::string log_text(const fs::path& file, std::optional<std::int64_t> lines, std::size_t limit) {
  const std::uint64_t size = size_of(file);
  const std::uint64_t from = std::max(lines ? tail_offset(file, *lines) : 0, size > limit ? size - limit : 0);
  std::ifstream stream(file, std::ios::binary);
  return from < size ? range(stream, from, size) : std::string();
}

}  // namespace pe::commands

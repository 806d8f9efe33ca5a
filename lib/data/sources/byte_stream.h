/// @file
/// Files read front to back: plain, gzip (several members), zstd (several frames); and lines of them.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

namespace pe::data {

enum class Compression { kNone, kGzip, kZstd };

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Up to `count` bytes; 0 at the end only. @throws ArtifactError when compressed data is damaged or cut short,
  /// IoError.
  virtual std::size_t read(char* out, std::size_t count) = 0;
};

std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path, Compression compression);

/// Lines with their ends ("\n", "\r\n" stays), so that the lines joined are the file.
class LineReader {
 public:
  explicit LineReader(std::unique_ptr<ByteStream> stream) : stream_(std::move(stream)) {}
  /// False at the end. A line is cut off at `longest` bytes, and the rest of it is returned as separate lines with
  /// `complete` false on all but the last.
  bool next(std::string& line, std::size_t longest, bool& complete);

 private:
  std::unique_ptr<ByteStream> stream_;
  std::string buffer_;
  std::size_t at_ = 0;
  bool ended_ = false;
};

}  // namespace pe::data

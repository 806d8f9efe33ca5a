#include "data/sources/byte_stream.h"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <cerrno>
#include <vector>

#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::data {

using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr std::size_t kPiece = 1 << 18;

class PlainStream : public ByteStream {
 public:
  explicit PlainStream(std::filesystem::path path) : path_(std::move(path)), fd_(support::open_regular(path_)) {
    ::posix_fadvise(fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  }
  std::size_t read(char* out, std::size_t count) override {
    while (true) {
      const ssize_t got = ::read(fd_.get(), out, count);
      if (got >= 0) return static_cast<std::size_t>(got);
      if (errno != EINTR) support::throw_errno("read", path_.string());
    }
  }

 private:
  std::filesystem::path path_;
  support::Descriptor fd_;
};

class GzipStream : public ByteStream {
 public:
  explicit GzipStream(const std::filesystem::path& path) : path_(path.string()), source_(path), input_(kPiece) {
    if (inflateInit2(&state_, 15 + 16) != Z_OK)
      throw support::IoError(cat("cannot read ", quote(path_), ": zlib has no memory"));
  }
  ~GzipStream() override { inflateEnd(&state_); }

  std::size_t read(char* out, std::size_t count) override {
    state_.next_out = reinterpret_cast<Bytef*>(out);
    state_.avail_out = static_cast<uInt>(std::min<std::size_t>(count, 1U << 30));
    const std::size_t wanted = state_.avail_out;
    while (state_.avail_out > 0) {
      if (state_.avail_in == 0) {
        state_.avail_in = static_cast<uInt>(source_.read(input_.data(), input_.size()));
        state_.next_in = reinterpret_cast<Bytef*>(input_.data());
        if (state_.avail_in == 0) {
          if (inside_ || !any_) fail("it was cut short");
          break;
        }
      }
      // Tapes and some programs fill the last block with zeros.
      for (; !inside_ && any_ && state_.avail_in > 0 && *state_.next_in == 0; --state_.avail_in) ++state_.next_in;
      if (state_.avail_in == 0) continue;
      if (!inside_ && any_) {  // a further member
        if (inflateReset(&state_) != Z_OK) fail("zlib rejected a further member");
      }
      inside_ = any_ = true;
      const int status = inflate(&state_, Z_NO_FLUSH);
      if (status == Z_STREAM_END) {
        inside_ = false;
      } else if (status != Z_OK && status != Z_BUF_ERROR) {
        fail(state_.msg ? state_.msg : "its data is corrupt");
      }
    }
    return wanted - state_.avail_out;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw ArtifactError(cat(quote(path_), ": expected gzip data, but ", why), "the file is corrupt");
  }
  std::string path_;
  PlainStream source_;
  std::vector<char> input_;
  z_stream state_{};
  bool inside_ = false, any_ = false;
};

class ZstdStream : public ByteStream {
 public:
  explicit ZstdStream(const std::filesystem::path& path)
      : path_(path.string()), source_(path), input_(kPiece), state_(ZSTD_createDStream()) {
    if (state_ == nullptr) throw support::IoError(cat("cannot read ", quote(path_), ": zstd has no memory"));
  }
  ~ZstdStream() override { ZSTD_freeDStream(state_); }

  std::size_t read(char* out, std::size_t count) override {
    ZSTD_outBuffer to{out, count, 0};
    while (to.pos < to.size) {
      if (from_.pos == from_.size) {
        from_ = {input_.data(), source_.read(input_.data(), input_.size()), 0};
        if (from_.size == 0) {
          if (inside_ || !any_) fail("it was cut short");
          break;
        }
      }
      any_ = true;
      const std::size_t status = ZSTD_decompressStream(state_, &to, &from_);
      if (ZSTD_isError(status) && ZSTD_getErrorCode(status) == ZSTD_error_frameParameter_windowTooLarge)
        throw ArtifactError(cat(quote(path_), ": it was packed with a window of more than 128 MiB"),
                            "pack it again: zstd -dc --long=31 FILE | zstd -o NEW");
      if (ZSTD_isError(status)) fail(ZSTD_getErrorName(status));
      inside_ = status != 0;
    }
    return to.pos;
  }

 private:
  [[noreturn]] void fail(const std::string& why) const {
    throw ArtifactError(cat(quote(path_), ": expected zstd data, but ", why), "the file is corrupt");
  }
  std::string path_;
  PlainStream source_;
  std::vector<char> input_;
  ZSTD_DStream* state_;
  ZSTD_inBuffer from_{nullptr, 0, 0};
  bool inside_ = false, any_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path, Compression compression) {
  switch (compression) {
    case Compression::kNone:
      return std::make_unique<PlainStream>(path);
    case Compression::kGzip:
      return std::make_unique<GzipStream>(path);
    case Compression::kZstd:
      return std::make_unique<ZstdStream>(path);
  }
  return nullptr;
}

bool LineReader::next(std::string& line, std::size_t longest, bool& complete) {
  line.clear();
  complete = true;
  while (true) {
    const std::size_t room = longest - line.size();
    const std::size_t end = buffer_.find('\n', at_);
    const std::size_t stop = end == std::string::npos ? buffer_.size() : end + 1;
    const std::size_t count = std::min(stop - at_, room);
    // Doubling would hold up to three times a long line while it moves; room that is not touched costs nothing.
    if (line.size() > kPiece && line.size() + count > line.capacity()) line.reserve(longest);
    line.append(buffer_, at_, count);
    at_ += count;
    if (end != std::string::npos && at_ == end + 1) return true;
    if (line.size() == longest) {
      complete = false;
      return true;
    }
    if (ended_) return !line.empty();
    buffer_.resize(kPiece);
    at_ = 0;
    const std::size_t got = stream_->read(buffer_.data(), buffer_.size());
    buffer_.resize(got);
    ended_ = got == 0;
  }
}

}  // namespace pe::data

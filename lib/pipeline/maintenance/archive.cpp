#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "pipeline/maintenance/results_file.h"
#include "pipeline/store/whole_write.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::pipeline {

using support::ArtifactError;
using support::cat;
using support::IoError;
using support::quote;

namespace {

constexpr std::size_t kBlock = 512;  // of tar
constexpr std::size_t kPiece = 256u << 10;
constexpr std::size_t kMostMembers = 1u << 20;
constexpr int kLevel = 19;
constexpr int kWindowLog = 24;  // a reader needs as much memory: 16 MiB

/// A header of POSIX ustar.
struct Header {
  char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6], version[2],
      user[32], group[32], major[8], minor[8], prefix[155], rest[12];
};
static_assert(sizeof(Header) == kBlock);

unsigned sum_of(Header header) {
  std::memset(header.checksum, ' ', sizeof header.checksum);
  std::array<unsigned char, kBlock> bytes{};
  std::memcpy(bytes.data(), &header, kBlock);
  unsigned sum = 0;
  for (const unsigned char byte : bytes) sum += byte;
  return sum;
}

Header header_of(const std::string& name, std::uint64_t bytes) {
  Header header{};
  const auto put = [](auto& field, const std::string& text) {
    std::memcpy(field, text.data(), std::min(text.size(), sizeof field));
  };
  put(header.name, name);
  put(header.mode, "0000644");
  put(header.uid, "0000000");
  put(header.gid, "0000000");
  put(header.size, fmt::format("{:011o}", bytes));
  put(header.mtime, "00000000000");
  put(header.magic, std::string("ustar\0", 6));
  put(header.version, "00");
  header.type = '0';
  put(header.checksum, fmt::format("{:06o}", sum_of(header)) + std::string("\0 ", 2));
  return header;
}

/// Octal digits, ended by NUL or a space. Nothing for any other text.
template <std::size_t N>
std::optional<std::uint64_t> octal(const char (&field)[N]) {
  std::uint64_t value = 0;
  std::size_t digits = 0;
  for (; digits < N && field[digits] >= '0' && field[digits] <= '7'; ++digits)
    value = value * 8 + static_cast<std::uint64_t>(field[digits] - '0');
  if (digits == 0 || (digits < N && field[digits] != '\0' && field[digits] != ' ')) return std::nullopt;
  return value;
}

bool is_padding(std::string_view bytes) { return bytes.find_first_not_of('\0') == std::string_view::npos; }

std::uint64_t padding_of(std::uint64_t bytes) { return (kBlock - bytes % kBlock) % kBlock; }

}  // namespace

// ---- writing
// ----------------------------------------------------------------------------------------------------------

struct ArchiveWriter::State {
  fs::path path, fresh;
  support::Descriptor file;
  ZSTD_CCtx* zstd = ZSTD_createCCtx();
  std::vector<char> out = std::vector<char>(ZSTD_CStreamOutSize());
  std::uint64_t written = 0;

  ~State() {
    ZSTD_freeCCtx(zstd);
    if (!fresh.empty()) ::unlink(fresh.c_str());
  }

  void put(std::string_view bytes, ZSTD_EndDirective how = ZSTD_e_continue) {
    ZSTD_inBuffer from{bytes.data(), bytes.size(), 0};
    while (true) {
      ZSTD_outBuffer to{out.data(), out.size(), 0};
      const std::size_t left = ZSTD_compressStream2(zstd, &to, &from, how);
      if (ZSTD_isError(left)) throw IoError(cat("cannot write ", quote(path.string()), ": ", ZSTD_getErrorName(left)));
      if (!support::write_whole(file.get(), {out.data(), to.pos})) support::throw_errno("write", path.string());
      written += to.pos;
      if (how == ZSTD_e_end ? left == 0 : from.pos == from.size) return;
    }
  }
  void put_header(const std::string& name, std::uint64_t bytes) {
    const Header header = header_of(name, bytes);
    put({reinterpret_cast<const char*>(&header), sizeof header});
  }
  void put_padding(std::uint64_t bytes) { put(std::string(static_cast<std::size_t>(padding_of(bytes)), '\0')); }
};

ArchiveWriter::ArchiveWriter(const fs::path& path) : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.path = path;
  support::require_replaceable(path);
  const fs::path fresh = support::unique_sibling(path);
  state.file = support::Descriptor(::open(fresh.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!state.file) support::throw_errno("create", path.string(), true);
  state.fresh = fresh;
  if (!state.zstd) throw IoError(cat("cannot write ", quote(path.string()), ": zstd has no memory"));
  ZSTD_CCtx_setParameter(state.zstd, ZSTD_c_compressionLevel, kLevel);
  ZSTD_CCtx_setParameter(state.zstd, ZSTD_c_windowLog, kWindowLog);
  ZSTD_CCtx_setParameter(state.zstd, ZSTD_c_checksumFlag, 1);
}

ArchiveWriter::~ArchiveWriter() = default;

void ArchiveWriter::add(const std::string& name, std::string_view bytes) {
  state_->put_header(name, bytes.size());
  state_->put(bytes);
  state_->put_padding(bytes.size());
}

void ArchiveWriter::add_object(const std::string& name, const fs::path& path, const std::string& digest,
                               std::uint64_t bytes) {
  state_->put_header(name, bytes);
  const support::Descriptor file = support::open_regular(path);
  std::vector<char> piece(kPiece);
  support::Sha256 hash;
  std::uint64_t read = 0;
  while (true) {
    const ssize_t count = ::read(file.get(), piece.data(), piece.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) support::throw_errno("read", path.string());
    if (count == 0 || (read += static_cast<std::uint64_t>(count)) > bytes) break;
    hash.update(piece.data(), static_cast<std::size_t>(count));
    state_->put({piece.data(), static_cast<std::size_t>(count)});
  }
  if (read != bytes || hash.hex() != digest)
    throw ArtifactError(cat("object ", digest.substr(0, 12), " is damaged: ", path.string()),
                        "pe-pipeline verify --repair sets it aside, and the next run makes it again");
  state_->put_padding(bytes);
}

std::uint64_t ArchiveWriter::close(bool durable) {
  State& state = *state_;
  state.put(std::string(2 * kBlock, '\0'), ZSTD_e_end);
  if (durable && ::fsync(state.file.get()) != 0) support::throw_errno("sync", state.path.string());
  if (::close(state.file.release()) != 0) support::throw_errno("close", state.path.string());
  support::rename_durably(state.fresh, state.path, durable);
  state.fresh.clear();
  return state.written;
}

// ---- reading
// ----------------------------------------------------------------------------------------------------------

struct ArchiveReader::State {
  fs::path path;
  support::Descriptor file;
  ZSTD_DCtx* zstd = ZSTD_createDCtx();
  std::vector<char> input = std::vector<char>(kPiece), piece = std::vector<char>(kPiece);
  ZSTD_inBuffer from{nullptr, 0, 0};
  bool frame_over = false;
  std::uint64_t total = 0;    // bytes of members so far
  std::uint64_t left = 0;     // bytes of the present member that were not taken
  std::uint64_t padding = 0;  // after it
  std::size_t members = 0;

  ~State() { ZSTD_freeDCtx(zstd); }

  [[noreturn]] void fail(const std::string& why) const {
    throw ArtifactError(cat(quote(path.string()), " is no whole file of results: ", why),
                        "get it again; `pe-pipeline export` writes such files");
  }
  /// More of the file. False at its end.
  bool refill() {
    while (true) {
      const ssize_t count = ::read(file.get(), input.data(), input.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) support::throw_errno("read", path.string());
      from = {input.data(), static_cast<std::size_t>(count), 0};
      return count > 0;
    }
  }
  /// Up to `count` bytes of the archive; less only at the end of the frame.
  std::size_t read(char* out, std::size_t count) {
    ZSTD_outBuffer to{out, count, 0};
    while (to.pos < to.size && !frame_over) {
      const std::size_t before = to.pos;
      const std::size_t status = ZSTD_decompressStream(zstd, &to, &from);
      if (ZSTD_isError(status)) fail(ZSTD_getErrorName(status));
      frame_over = status == 0;
      if (!frame_over && from.pos == from.size && to.pos < to.size && to.pos == before && !refill())
        fail("it is cut short");
    }
    return to.pos;
  }
  void read_whole(char* out, std::size_t count) {
    if (read(out, count) != count) fail("it is cut short");
  }
  /// After the last member: zeros, the end of the frame with its checksum, and nothing behind.
  void finish() {
    std::uint64_t zeros = 0;
    while (const std::size_t count = read(piece.data(), piece.size())) {
      if (!is_padding({piece.data(), count})) fail("it has bytes behind its last member");
      if ((zeros += count) > (1u << 20)) fail("it has bytes behind its last member");
    }
    if (!frame_over) fail("it is cut short");
    if (from.pos < from.size || refill()) fail("it has bytes behind its end");
  }
};

ArchiveReader::ArchiveReader(const fs::path& path) : state_(std::make_unique<State>()) {
  state_->path = path;
  state_->file = support::open_regular(path);
  if (!state_->zstd) throw IoError(cat("cannot read ", quote(path.string()), ": zstd has no memory"));
  ZSTD_DCtx_setParameter(state_->zstd, ZSTD_d_windowLogMax, kWindowLog);
}

ArchiveReader::~ArchiveReader() = default;

std::optional<ArchiveReader::Member> ArchiveReader::next() {
  State& state = *state_;
  if (state.left > 0) throw support::Error(support::kExitBug, support::Diagnostic{"a member was not taken"});
  if (state.padding > 0) {
    char zeros[kBlock];
    state.read_whole(zeros, static_cast<std::size_t>(state.padding));
    if (!is_padding({zeros, static_cast<std::size_t>(state.padding)})) state.fail("a member has bytes behind its end");
    state.padding = 0;
  }
  Header header;
  state.read_whole(reinterpret_cast<char*>(&header), sizeof header);
  if (is_padding({reinterpret_cast<const char*>(&header), sizeof header})) {
    state.finish();
    return std::nullopt;
  }
  const auto sum = octal(header.checksum);
  if (!sum || *sum != sum_of(header) || std::memcmp(header.magic, "ustar", 5) != 0) state.fail("it is no tar archive");
  if (++state.members > kMostMembers) state.fail(cat("it has more than ", kMostMembers, " members"));
  Member member;
  member.name.assign(header.name, ::strnlen(header.name, sizeof header.name));
  const std::string shown = quote(member.name);
  if (header.type != '0') state.fail(cat("its member ", shown, " is no plain file"));
  if (header.prefix[0] != '\0') state.fail(cat("its member ", shown, " has a longer name than any of ours"));
  const auto bytes = octal(header.size);
  if (!bytes) state.fail(cat("the size of ", shown, " is no number"));
  member.bytes = *bytes;
  if (member.bytes > kMostBytes || (state.total += member.bytes) > kMostBytes)
    state.fail(cat("it unpacks to more than ", support::short_bytes(static_cast<double>(kMostBytes))));
  state.left = member.bytes;
  state.padding = padding_of(member.bytes);
  return member;
}

void ArchiveReader::each_block(const std::function<void(std::string_view)>& take) {
  State& state = *state_;
  while (state.left > 0) {
    const std::size_t count = static_cast<std::size_t>(std::min<std::uint64_t>(state.left, state.piece.size()));
    state.read_whole(state.piece.data(), count);
    state.left -= count;
    take({state.piece.data(), count});
  }
}

std::string ArchiveReader::text() {
  if (state_->left > kMostText)
    state_->fail(cat("a text in it is longer than ", support::short_bytes(static_cast<double>(kMostText))));
  std::string text;
  each_block([&](std::string_view block) { text += block; });
  return text;
}

}  // namespace pe::pipeline

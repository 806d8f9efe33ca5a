#include "pipeline/store/packed_result.h"

#include <algorithm>
#include <cstring>

#include "pipeline/store/packing.h"
#include "support/sha256_text.h"

namespace pe::pipeline {

namespace {

void put_name(std::string& out, const std::string& name) {
  const std::size_t length = std::min<std::size_t>(name.size(), 255);
  out.push_back(static_cast<char>(length));
  out.append(name, 0, length);
}

std::string_view take_name(ByteCursor& cursor) { return cursor.take_bytes(cursor.take<std::uint8_t>()); }

/// Flags of an output. kSized: the sizes of its members follow them.
constexpr std::uint8_t kCollection = 1, kVolatile = 2, kSized = 4, kAbsent = 8;

std::string bytes_of(const Result& result) {
  std::string bytes;
  bytes.reserve(256);
  put_bytes(bytes, static_cast<std::uint8_t>(result.status == ResultStatus::kDone ? 0 : 1));
  support::append_sha256(bytes, result.plan_key);
  put_bytes(bytes, result.wall_s);
  put_bytes(bytes, static_cast<std::uint32_t>(result.outputs.size()));
  for (const OutputRecord& output : result.outputs) {
    put_name(bytes, output.role);
    put_name(bytes, output.kind);
    support::append_sha256(bytes, output.object);
    support::append_sha256(bytes, output.content);
    put_bytes(bytes, output.bytes);
    const bool sized = !output.member_bytes.empty();
    put_bytes(bytes,
              static_cast<std::uint8_t>((output.collection ? kCollection : 0) | (output.is_volatile ? kVolatile : 0) |
                                        (sized ? kSized : 0) | (output.absent ? kAbsent : 0)));
    put_bytes(bytes, static_cast<std::uint32_t>(output.members.size()));
    for (const std::string& member : output.members) support::append_sha256(bytes, member);
    for (const std::uint64_t size : output.member_bytes) put_bytes(bytes, size);
  }
  return bytes;
}

/// Whether the bytes are a result: the same steps as `unpack`, which trusts them.
bool is_result(std::string_view bytes) {
  ByteCursor cursor{bytes};
  cursor.take_bytes(1 + 32 + sizeof(double));
  const auto count = cursor.take<std::uint32_t>();
  for (std::uint32_t i = 0; i < count && cursor.ok; ++i) {
    take_name(cursor);
    take_name(cursor);
    cursor.take_bytes(32 + 32 + 8);
    const auto flags = cursor.take<std::uint8_t>();
    const std::size_t members = cursor.take<std::uint32_t>();
    cursor.take_bytes(members * 32);
    if (flags & kSized) cursor.take_bytes(members * sizeof(std::uint64_t));
  }
  return cursor.ok && cursor.rest.empty();
}

std::shared_ptr<const char[]> block_of(std::string_view bytes) {
  const auto length = static_cast<std::uint32_t>(bytes.size());
  auto block = std::make_shared_for_overwrite<char[]>(sizeof length + bytes.size());
  std::memcpy(block.get(), &length, sizeof length);
  std::memcpy(block.get() + sizeof length, bytes.data(), bytes.size());
  return block;
}

}  // namespace

PackedDigest::PackedDigest(std::string_view hex) {
  std::string packed_bytes;
  support::append_sha256(packed_bytes, hex);
  std::copy(packed_bytes.begin(), packed_bytes.end(), bytes.begin());
}

std::string PackedDigest::hex() const {
  if (*this == PackedDigest()) return "";
  std::string digits(64, '\0');
  support::write_hex(bytes.data(), bytes.size(), digits.data());
  return digits;
}

std::size_t PackedHash::operator()(const PackedDigest& digest) const {
  std::size_t word = 0;  // as good as chance already
  std::memcpy(&word, digest.bytes.data(), sizeof word);
  return word;
}

PackedResult::PackedResult(const Result& result) : block_(block_of(bytes_of(result))) {}

std::optional<PackedResult> PackedResult::of_bytes(std::string_view bytes) {
  if (!is_result(bytes)) return std::nullopt;
  PackedResult result;
  result.block_ = block_of(bytes);
  return result;
}

std::string_view PackedResult::bytes() const {
  if (!block_) return {};
  std::uint32_t length = 0;
  std::memcpy(&length, block_.get(), sizeof length);
  return {block_.get() + sizeof length, length};
}

Result PackedResult::unpack() const {
  Result result;
  ByteCursor cursor{bytes()};
  result.status = cursor.take<std::uint8_t>() == 0 ? ResultStatus::kDone : ResultStatus::kDiverged;
  result.plan_key = cursor.take<PackedDigest>().hex();
  result.wall_s = cursor.take<double>();
  result.outputs.resize(cursor.take<std::uint32_t>());
  for (OutputRecord& output : result.outputs) {
    output.role = take_name(cursor);
    output.kind = take_name(cursor);
    output.object = cursor.take<PackedDigest>().hex();
    output.content = cursor.take<PackedDigest>().hex();
    output.bytes = cursor.take<std::uint64_t>();
    const auto flags = cursor.take<std::uint8_t>();
    output.collection = flags & kCollection;
    output.is_volatile = flags & kVolatile;
    output.absent = flags & kAbsent;
    output.members.resize(cursor.take<std::uint32_t>());
    for (std::string& member : output.members) member = cursor.take<PackedDigest>().hex();
    if (flags & kSized) output.member_bytes.resize(output.members.size());
    for (std::uint64_t& size : output.member_bytes) size = cursor.take<std::uint64_t>();
  }
  return result;
}

}  // namespace pe::pipeline

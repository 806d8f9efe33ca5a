/// @file
/// A compact binary form for caches: fixed-width integers of this machine, texts with their length, a checksum in
/// front. A damaged file, or one of another version, is ignored.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>

#include "support/file_stamp.h"
#include "support/hash.h"

namespace pe::pipeline {

/// Appends the bytes of a value in memory.
template <typename T>
void put_bytes(std::string& out, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  out.append(reinterpret_cast<const char*>(&value), sizeof value);
}

/// Takes values of any fixed width off the front of bytes; `ok` turns false when too few are left.
struct ByteCursor {
  std::string_view rest;
  bool ok = true;

  std::string_view take_bytes(std::size_t count) {
    if (rest.size() < count) {
      ok = false;
      return {};
    }
    const std::string_view bytes = rest.substr(0, count);
    rest.remove_prefix(count);
    return bytes;
  }
  template <typename T>
  T take() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value{};
    if (const std::string_view bytes = take_bytes(sizeof(T)); bytes.size() == sizeof(T))
      std::memcpy(&value, bytes.data(), sizeof(T));
    return value;
  }
};

class Packer {
 public:
  void number(std::uint64_t value) { bytes_.append(reinterpret_cast<const char*>(&value), sizeof value); }
  void text(std::string_view value) {
    number(value.size());
    bytes_ += value;
  }
  void stamp(const support::FileStamp& value) {
    for (const std::uint64_t part :
         {std::uint64_t{value.exists}, value.size, value.mtime_ns, value.ctime_ns, value.inode}) {
      number(part);
    }
  }
  /// The whole file: magic, checksum, what was packed.
  std::string take(std::string_view magic) const {
    const std::uint32_t crc = support::crc32c(bytes_.data(), bytes_.size());
    std::string file(magic);
    file.append(reinterpret_cast<const char*>(&crc), sizeof crc);
    return file + bytes_;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

/// Reads what a Packer wrote; `good` turns false at the first thing that cannot be.
class Unpacker {
 public:
  Unpacker(std::string_view file, std::string_view magic) {
    std::uint32_t crc = 0;
    if (file.size() < magic.size() + sizeof crc || file.substr(0, magic.size()) != magic) {
      good_ = false;
      return;
    }
    std::memcpy(&crc, file.data() + magic.size(), sizeof crc);
    rest_ = file.substr(magic.size() + sizeof crc);
    good_ = crc == support::crc32c(rest_.data(), rest_.size());
  }
  /// Of a part that the whole's checksum covers.
  explicit Unpacker(std::string_view part) : rest_(part) {}
  std::uint64_t number() {
    std::uint64_t value = 0;
    if (!good_ || rest_.size() < sizeof value) {
      good_ = false;
      return 0;
    }
    std::memcpy(&value, rest_.data(), sizeof value);
    rest_.remove_prefix(sizeof value);
    return value;
  }
  std::string_view text() {
    const std::uint64_t size = number();
    if (!good_ || rest_.size() < size) {
      good_ = false;
      return {};
    }
    const std::string_view value = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return value;
  }
  support::FileStamp stamp() {
    support::FileStamp value;
    value.exists = number() != 0;
    for (std::uint64_t* part : {&value.size, &value.mtime_ns, &value.ctime_ns, &value.inode}) *part = number();
    return value;
  }
  bool good() const { return good_; }

 private:
  std::string_view rest_;
  bool good_ = true;
};

}  // namespace pe::pipeline

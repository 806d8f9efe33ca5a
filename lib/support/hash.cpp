#include "support/hash.h"

#include <openssl/evp.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <boost/crc.hpp>
#include <cmath>
#include <memory>
#include <vector>

#include "support/cbor.h"
#include "support/error.h"
#include "support/files.h"
#include "support/sha256_text.h"

namespace pe::support {

namespace {

/// A provider that fails must not name anything by zeros.
void require_digest(bool good) {
  if (!good)
    throw Error(kExitBug,
                Diagnostic{"OpenSSL cannot compute SHA-256 here", {}, "see `openssl list -digest-algorithms`", {}});
}

}  // namespace

struct Sha256::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  static const EVP_MD* algorithm = EVP_sha256();
  require_digest(state_->context != nullptr && EVP_DigestInit_ex(state_->context, algorithm, nullptr) == 1);
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(const void* data, std::size_t bytes) {
  require_digest(EVP_DigestUpdate(state_->context, data, bytes) == 1);
}

std::array<std::uint8_t, 32> Sha256::digest() {
  std::array<std::uint8_t, 32> out{};
  unsigned length = 0;
  require_digest(EVP_DigestFinal_ex(state_->context, out.data(), &length) == 1 && length == out.size());
  return out;
}

std::string Sha256::hex() {
  const auto bytes = digest();
  return to_hex(bytes.data(), bytes.size());
}

std::string to_hex(const std::uint8_t* bytes, std::size_t count) {
  std::string text(count * 2, '0');
  write_hex(bytes, count, text.data());
  return text;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.hex();
}

std::string sha256_file(const std::filesystem::path& path) {
  const Descriptor fd = open_regular(path);
  Sha256 hash;
  constexpr std::size_t kBlock = 1 << 20;
  const auto buffer = std::make_unique_for_overwrite<char[]>(kBlock);  // clearing it would cost more than a small file
  while (true) {
    const ssize_t count = ::read(fd.get(), buffer.get(), kBlock);
    if (count < 0) {
      if (errno == EINTR) continue;
      throw_errno("read", path.string());
    }
    if (count == 0) return hash.hex();
    hash.update(buffer.get(), static_cast<std::size_t>(count));
  }
}

namespace {

/// Eight tables, so that eight bytes cost eight look-ups and no chain: about 1.5 GB/s without special instructions.
/// The first row is the table of Boost.CRC, which computes byte by byte.
struct CrcTables {
  std::uint32_t row[8][256];
  CrcTables() {
    for (std::uint32_t i = 0; i < 256; ++i) {
      boost::crc_optimal<32, 0x1EDC6F41, 0, 0, true, true> crc;
      crc.process_byte(static_cast<unsigned char>(i));
      row[0][i] = crc.checksum();
    }
    for (int t = 1; t < 8; ++t) {
      for (int i = 0; i < 256; ++i) row[t][i] = (row[t - 1][i] >> 8) ^ row[0][row[t - 1][i] & 255];
    }
  }
};

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) std::uint32_t crc32c_hardware(const unsigned char* at, std::size_t bytes,
                                                                std::uint32_t crc) {
  std::uint64_t wide = crc;
  for (; bytes >= 8; at += 8, bytes -= 8) {
    std::uint64_t word;
    __builtin_memcpy(&word, at, 8);
    wide = __builtin_ia32_crc32di(wide, word);
  }
  crc = static_cast<std::uint32_t>(wide);
  for (; bytes > 0; ++at, --bytes) crc = __builtin_ia32_crc32qi(crc, *at);
  return crc;
}

/// The value of a register after so many zero bytes. That is linear in its bits, so four look-ups give it.
struct CrcShift {
  std::uint32_t row[4][256] = {};
  explicit CrcShift(std::size_t bytes) {
    const std::vector<unsigned char> zeros(bytes);
    for (int bit = 0; bit < 32; ++bit) {
      const std::uint32_t moved = crc32c_hardware(zeros.data(), bytes, std::uint32_t{1} << bit);
      for (std::uint32_t value = 0; value < 256; ++value) {
        if (value >> (bit % 8) & 1) row[bit / 8][value] ^= moved;
      }
    }
  }
  std::uint32_t operator()(std::uint32_t crc) const {
    return row[0][crc & 255] ^ row[1][crc >> 8 & 255] ^ row[2][crc >> 16 & 255] ^ row[3][crc >> 24];
  }
};

/// The instruction takes three cycles but one can begin in each, so three stretches are summed side by side.
__attribute__((target("sse4.2"))) std::uint32_t crc32c_threefold(const unsigned char* at, std::size_t bytes,
                                                                 std::uint32_t crc) {
  constexpr std::size_t kStretch = 4096;
  static const CrcShift shift(kStretch);
  for (; bytes >= 3 * kStretch; at += 3 * kStretch, bytes -= 3 * kStretch) {
    std::uint64_t a = crc, b = 0, c = 0;
    for (std::size_t i = 0; i < kStretch; i += 8) {
      std::uint64_t words[3];
      for (std::size_t part = 0; part < 3; ++part) __builtin_memcpy(&words[part], at + part * kStretch + i, 8);
      a = __builtin_ia32_crc32di(a, words[0]);
      b = __builtin_ia32_crc32di(b, words[1]);
      c = __builtin_ia32_crc32di(c, words[2]);
    }
    crc = shift(shift(static_cast<std::uint32_t>(a)) ^ static_cast<std::uint32_t>(b)) ^ static_cast<std::uint32_t>(c);
  }
  return crc32c_hardware(at, bytes, crc);
}
#endif

std::uint32_t crc32c_tables(const unsigned char* at, std::size_t bytes, std::uint32_t crc) {
  static const CrcTables tables;
  const auto& row = tables.row;
  for (; bytes >= 8; at += 8, bytes -= 8) {
    std::uint64_t word;
    __builtin_memcpy(&word, at, 8);
    word ^= crc;
    crc = row[7][word & 255] ^ row[6][word >> 8 & 255] ^ row[5][word >> 16 & 255] ^ row[4][word >> 24 & 255] ^
          row[3][word >> 32 & 255] ^ row[2][word >> 40 & 255] ^ row[1][word >> 48 & 255] ^ row[0][word >> 56];
  }
  for (; bytes > 0; ++at, --bytes) crc = (crc >> 8) ^ row[0][(crc ^ *at) & 255];
  return crc;
}

}  // namespace

std::uint32_t crc32c(const void* data, std::size_t bytes, std::uint32_t seed) {
  const auto* at = static_cast<const unsigned char*>(data);
#if defined(__x86_64__)
  static const bool hardware = __builtin_cpu_supports("sse4.2");
  if (hardware) return ~crc32c_threefold(at, bytes, ~seed);
#endif
  return ~crc32c_tables(at, bytes, ~seed);
}

std::uint64_t fnv1a64(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return hash;
}

namespace {

void put_value(std::string& out, const Json& value) {
  switch (value.type()) {
    case Json::value_t::null:
      out += static_cast<char>(0xF6);
      return;
    case Json::value_t::boolean:
      out += static_cast<char>(value.get<bool>() ? 0xF5 : 0xF4);
      return;
    case Json::value_t::number_unsigned:
      put_cbor_head(out, Cbor::kUnsigned, value.get<std::uint64_t>());
      return;
    case Json::value_t::number_integer: {
      const auto integer = value.get<std::int64_t>();
      if (integer >= 0)
        put_cbor_head(out, Cbor::kUnsigned, static_cast<std::uint64_t>(integer));
      else
        put_cbor_head(out, Cbor::kNegative, static_cast<std::uint64_t>(-(integer + 1)));
      return;
    }
    case Json::value_t::number_float: {
      double real = value.get<double>();
      if (std::isnan(real)) throw Error(kExitBug, Diagnostic{"a key cannot hold NaN", {}, {}, {}});
      if (real == 0) real = 0;  // -0 and 0 are one number
      const auto bits = std::bit_cast<std::uint64_t>(real + 0.0);
      out += static_cast<char>(0xFB);
      for (int i = 7; i >= 0; --i) out += static_cast<char>(bits >> (8 * i) & 255);
      return;
    }
    case Json::value_t::string:
      put_cbor_text(out, value.get_ref<const std::string&>());
      return;
    case Json::value_t::binary: {
      const auto& bytes = value.get_binary();
      put_cbor_head(out, Cbor::kBytes, bytes.size());
      out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      return;
    }
    case Json::value_t::array:
      put_cbor_head(out, Cbor::kArray, value.size());
      for (const Json& item : value) put_value(out, item);
      return;
    case Json::value_t::object: {
      std::vector<std::pair<std::string, const Json*>> members;
      for (const auto& [key, item] : value.items()) {
        std::string encoded;
        put_cbor_text(encoded, key);
        members.emplace_back(std::move(encoded), &item);
      }
      std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      put_cbor_head(out, Cbor::kMap, members.size());
      for (const auto& [key, item] : members) {
        out += key;
        put_value(out, *item);
      }
      return;
    }
    case Json::value_t::discarded:
      break;
  }
  throw Error(kExitBug, Diagnostic{"a key cannot hold a discarded value", {}, {}, {}});
}

}  // namespace

std::string canonical_cbor(const Json& value) {
  std::string out;
  put_value(out, value);
  return out;
}

std::string canonical_hash(std::string_view type, const Json& value) {
  return sha256_hex(canonical_cbor(Json::array({std::string(type), value})));
}

}  // namespace pe::support

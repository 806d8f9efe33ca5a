#include "pipeline/store/index.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/sha256_text.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

constexpr std::string_view kIndexMagic = "PEINDEX1";
constexpr std::uint32_t kLargestBody = 64u << 20;

template <typename T>
void put(std::string& out, T value) {
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

void put_name(std::string& out, const std::string& name) {
  const std::size_t length = std::min<std::size_t>(name.size(), 255);
  out.push_back(static_cast<char>(length));
  out.append(name, 0, length);
}

std::string framed(const std::string& body) {
  std::string out;
  put(out, static_cast<std::uint32_t>(body.size()));
  put(out, support::crc32c(body.data(), body.size()));
  return out + body;
}

/// Takes values off the front of a body; `ok` turns false when it is too short.
struct Cursor {
  std::string_view rest;
  bool ok = true;

  template <typename T>
  T take() {
    T value{};
    if (rest.size() < sizeof(T)) {
      ok = false;
      return value;
    }
    std::memcpy(&value, rest.data(), sizeof(T));
    rest.remove_prefix(sizeof(T));
    return value;
  }
  std::string digest() {
    if (rest.size() < 32) {
      ok = false;
      return "";
    }
    std::string hex = support::to_hex(reinterpret_cast<const std::uint8_t*>(rest.data()), 32);
    rest.remove_prefix(32);
    return hex;
  }
  std::string name() {
    const auto length = take<std::uint8_t>();
    if (rest.size() < length) {
      ok = false;
      return "";
    }
    std::string text(rest.substr(0, length));
    rest.remove_prefix(length);
    return text;
  }
};

const std::string kNoDigest(64, '0');

bool apply(std::string_view body, IndexContent& content) {
  Cursor cursor{body};
  switch (cursor.take<std::uint8_t>()) {
    case 1: {
      ResultKey key;
      key.key = cursor.digest();
      key.step = cursor.take<std::int64_t>();
      Result result;
      result.status = cursor.take<std::uint8_t>() == 0 ? ResultStatus::kDone : ResultStatus::kDiverged;
      result.plan_key = cursor.digest();
      if (result.plan_key == kNoDigest) result.plan_key.clear();
      result.wall_s = cursor.take<double>();
      const auto count = cursor.take<std::uint16_t>();
      for (unsigned i = 0; i < count && cursor.ok; ++i) {
        OutputRecord output;
        output.role = cursor.name();
        output.kind = cursor.name();
        output.object = cursor.digest();
        output.content = cursor.digest();
        output.bytes = cursor.take<std::uint64_t>();
        const auto flags = cursor.take<std::uint8_t>();
        output.collection = flags & 1;
        output.is_volatile = flags & 2;
        const auto members = cursor.take<std::uint32_t>();
        if (members > cursor.rest.size() / 32) return false;
        for (std::uint32_t m = 0; m < members; ++m) output.members.push_back(cursor.digest());
        result.outputs.push_back(std::move(output));
      }
      if (!cursor.ok || !cursor.rest.empty()) return false;
      if (!content.forgotten.empty()) content.forgotten.erase(key);
      content.results[std::move(key)] = std::move(result);
      return true;
    }
    case 2: {
      std::string plan_key = cursor.digest();
      std::string key = cursor.digest();
      if (!cursor.ok || !cursor.rest.empty()) return false;
      content.hints[std::move(plan_key)] = std::move(key);
      return true;
    }
    case 3: {
      ResultKey key;
      key.key = cursor.digest();
      key.step = cursor.take<std::int64_t>();
      if (!cursor.ok || !cursor.rest.empty()) return false;
      content.results.erase(key);
      content.forgotten.insert(std::move(key));
      return true;
    }
    default:
      return false;
  }
}

}  // namespace

std::string index_header() { return std::string(kIndexMagic); }

std::string encode_result(const ResultKey& key, const Result& result) {
  std::string body;
  body.reserve(256);
  put(body, std::uint8_t{1});
  support::append_sha256(body, key.key);
  put(body, key.step);
  put(body, static_cast<std::uint8_t>(result.status == ResultStatus::kDone ? 0 : 1));
  support::append_sha256(body, result.plan_key);
  put(body, result.wall_s);
  put(body, static_cast<std::uint16_t>(result.outputs.size()));
  for (const OutputRecord& output : result.outputs) {
    put_name(body, output.role);
    put_name(body, output.kind);
    support::append_sha256(body, output.object);
    support::append_sha256(body, output.content);
    put(body, output.bytes);
    put(body, static_cast<std::uint8_t>((output.collection ? 1 : 0) | (output.is_volatile ? 2 : 0)));
    put(body, static_cast<std::uint32_t>(output.members.size()));
    for (const std::string& member : output.members) support::append_sha256(body, member);
  }
  return framed(body);
}

std::string encode_hint(const std::string& plan_key, const std::string& key) {
  std::string body;
  put(body, std::uint8_t{2});
  support::append_sha256(body, plan_key);
  support::append_sha256(body, key);
  return framed(body);
}

std::string encode_forgotten(const ResultKey& key) {
  std::string body;
  put(body, std::uint8_t{3});
  support::append_sha256(body, key.key);
  put(body, key.step);
  return framed(body);
}

bool load_index(std::string_view bytes, IndexContent& content) {
  if (bytes.substr(0, kIndexMagic.size()) != kIndexMagic) return false;
  bytes.remove_prefix(kIndexMagic.size());
  bool whole = true;
  while (!bytes.empty()) {
    Cursor frame{bytes};
    const auto length = frame.take<std::uint32_t>();
    const auto crc = frame.take<std::uint32_t>();
    // A length that does not fit is a torn tail, or damage that makes everything behind it unreadable.
    if (!frame.ok || length > kLargestBody || frame.rest.size() < length) return false;
    const std::string_view body = frame.rest.substr(0, length);
    bytes = frame.rest.substr(length);
    if (support::crc32c(body.data(), body.size()) != crc || !apply(body, content))
      whole = false;
    else
      ++content.entries;
  }
  return whole;
}

bool read_index_file(const std::filesystem::path& file, IndexContent& content) {
  try {
    const support::MappedFile mapped(file);
    if (content.results.empty()) content.results.reserve(mapped.size() / 200 + 16);
    return load_index(mapped.view(), content);
  } catch (const support::IoError&) {
    return false;
  }
}

IndexContent read_index(const std::filesystem::path& folder) {
  for (int tries = 0;; ++tries) {
    IndexContent content;
    std::vector<std::string> names;
    for (std::string& name : support::names_in(folder)) {
      if (name.size() > 4 && name.compare(name.size() - 4, 4, ".log") == 0) names.push_back(std::move(name));
    }
    bool moved = false;
    for (const std::string& name : names) {
      if (read_index_file(folder / name, content)) continue;
      if (::access((folder / name).c_str(), F_OK) != 0) moved = true;
      ++content.damaged;  // unreadable: records answer in its place
    }
    // A file that went while we read was merged into another that we may have read before: what it said to forget must
    // not be missed.
    if (!moved || tries == 8) return content;
  }
}

std::vector<std::vector<std::string>> mergeable(const std::vector<std::string>& names,
                                                const std::function<bool(const std::string&)>& in_use) {
  std::vector<std::vector<std::string>> runs(1);
  for (const std::string& name : names) {
    if (in_use(name)) {
      if (!runs.back().empty()) runs.emplace_back();
    } else {
      runs.back().push_back(name);
    }
  }
  const bool first = !names.empty() && !runs.front().empty() && runs.front().front() == names.front();
  for (std::size_t i = runs.size(); i-- > 0;) {
    if (runs[i].size() < (first && i == 0 ? 1u : 2u)) runs.erase(runs.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return runs;
}

std::string render_index(const IndexContent& content, bool with_forgotten) {
  std::string bytes = index_header();
  if (with_forgotten) {
    for (const ResultKey& key : content.forgotten) bytes += encode_forgotten(key);
  }
  for (const auto& [key, result] : content.results) bytes += encode_result(key, result);
  for (const auto& [plan_key, key] : content.hints) bytes += encode_hint(plan_key, key);
  return bytes;
}

namespace {

/// An index file, or a folder of records, seen from outside.
struct Look {
  std::string name;
  std::uint64_t inode = 0;
  std::int64_t change = 0;  ///< size of a file, nanoseconds of a folder
};

}  // namespace

std::string index_mark(const std::filesystem::path& store) {
  support::Sha256 hash;
  std::size_t index_files = 0;
  for (const char* part : {"index", "tasks", "tracks"}) {
    std::vector<Look> looks;
    if (DIR* dir = ::opendir((store / part).c_str())) {
      while (const dirent* entry = ::readdir(dir)) {
        struct stat status {};
        if (entry->d_name[0] == '.' || ::fstatat(::dirfd(dir), entry->d_name, &status, 0) != 0) continue;
        // An index file only grows; a folder's time moves with every name that comes or goes.
        const bool is_folder = S_ISDIR(status.st_mode);
        looks.push_back({entry->d_name, status.st_ino,
                         is_folder ? status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec : status.st_size});
        index_files += part[0] == 'i';
      }
      ::closedir(dir);
    }
    std::sort(looks.begin(), looks.end(), [](const Look& a, const Look& b) { return a.name < b.name; });
    std::string bytes = part;
    bytes.push_back('\0');
    for (const Look& look : looks) {
      bytes.append(look.name).push_back('\0');
      bytes.append(reinterpret_cast<const char*>(&look.inode), sizeof look.inode);
      bytes.append(reinterpret_cast<const char*>(&look.change), sizeof look.change);
    }
    hash.update(bytes);
  }
  return index_files == 0 ? std::string() : hash.hex();
}

}  // namespace pe::pipeline

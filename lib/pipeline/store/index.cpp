#include "pipeline/store/index.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "pipeline/store/packing.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

constexpr std::string_view kIndexMagic = "PEINDEX1";
constexpr std::uint32_t kLargestBody = 64u << 20;

std::string framed(const std::string& body) {
  std::string out;
  put_bytes(out, static_cast<std::uint32_t>(body.size()));
  put_bytes(out, support::crc32c(body.data(), body.size()));
  return out + body;
}

bool apply(std::string_view body, IndexContent& content) {
  ByteCursor cursor{body};
  switch (cursor.take<std::uint8_t>()) {
    case 1: {
      PackedKey key;
      key.digest = cursor.take<PackedDigest>();
      key.step = cursor.take<std::int64_t>();
      auto result = cursor.ok ? PackedResult::of_bytes(cursor.rest) : std::nullopt;
      if (!result) return false;
      if (!content.forgotten.empty()) content.forgotten.erase(key);
      content.results[key] = *std::move(result);
      return true;
    }
    case 2: {
      const auto plan_key = cursor.take<PackedDigest>();
      const auto key = cursor.take<PackedDigest>();
      if (!cursor.ok || !cursor.rest.empty()) return false;
      content.hints[plan_key] = key;
      return true;
    }
    case 3: {
      PackedKey key;
      key.digest = cursor.take<PackedDigest>();
      key.step = cursor.take<std::int64_t>();
      if (!cursor.ok || !cursor.rest.empty()) return false;
      content.results.erase(key);
      content.forgotten.insert(key);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace

std::string index_header() { return std::string(kIndexMagic); }

std::string encode_result(const PackedKey& key, const PackedResult& result) {
  std::string body;
  body.reserve(256);
  put_bytes(body, std::uint8_t{1});
  put_bytes(body, key.digest);
  put_bytes(body, key.step);
  body += result.bytes();
  return framed(body);
}

std::string encode_hint(const PackedDigest& plan_key, const PackedDigest& key) {
  std::string body;
  put_bytes(body, std::uint8_t{2});
  put_bytes(body, plan_key);
  put_bytes(body, key);
  return framed(body);
}

std::string encode_forgotten(const PackedKey& key) {
  std::string body;
  put_bytes(body, std::uint8_t{3});
  put_bytes(body, key.digest);
  put_bytes(body, key.step);
  return framed(body);
}

bool load_index(std::string_view bytes, IndexContent& content) {
  if (bytes.substr(0, kIndexMagic.size()) != kIndexMagic) return false;
  bytes.remove_prefix(kIndexMagic.size());
  bool whole = true;
  while (!bytes.empty()) {
    ByteCursor frame{bytes};
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
    try {
      names = support::list_folder(folder);
    } catch (const support::IoError&) {
      content.damaged = 1;  // records answer in its place
      return content;
    }
    std::erase_if(names, [](const std::string& name) { return name.size() <= 4 || !name.ends_with(".log"); });
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
    for (const PackedKey& key : content.forgotten) bytes += encode_forgotten(key);
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

std::string index_mark(const std::filesystem::path& store) try {
  support::Sha256 hash;
  std::size_t index_files = 0;
  for (const char* part : {"index", "tasks", "tracks"}) {
    std::vector<Look> looks;
    for (std::string& name : support::list_folder(store / part)) {
      struct stat status {};
      if (name[0] == '.' || ::stat((store / part / name).c_str(), &status) != 0) continue;
      // An index file only grows; a folder's time moves with every name that comes or goes.
      const bool is_folder = S_ISDIR(status.st_mode);
      looks.push_back({std::move(name), status.st_ino,
                       is_folder ? status.st_mtim.tv_sec * 1'000'000'000 + status.st_mtim.tv_nsec : status.st_size});
      index_files += part[0] == 'i';
    }
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
} catch (const support::IoError&) {
  return {};  // no mark is equal to this one
}

}  // namespace pe::pipeline

/// @file
/// The files to fetch, down to the last bit: `pe-hub lock` writes it next to the pipeline file, `pe-fetch` reads it. It
/// is a path field, so keys hold its content and planning needs no network.
///
///     {"schema": "pe-fetch-lock/1", "repository": "HuggingFaceFW/fineweb-edu", "revision": "main", "commit": "…",
///      "files": [{"path": "sample/10BT/000_00000.parquet", "bytes": 2150000000, "sha256": "…"}]}
///
/// Files of lists of addresses have a separate "url", and the lock no repository.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace pe::data {

struct LockedFile {
  std::string path;         ///< name within the repository, with '/'
  std::int64_t bytes = -1;  ///< -1: not known
  std::string sha256;
  std::string url;  ///< empty: of the repository
};

constexpr std::int64_t kMostLockedBytes = 1LL << 60;  ///< of a file and of all together, so that sums hold

struct FetchLock {
  std::string repository;  ///< "owner/name"; empty when all files have addresses
  std::string revision;    ///< as it was asked for
  std::string commit;
  std::vector<LockedFile> files;  ///< by path, each once

  std::int64_t bytes() const;  ///< of all files whose size is known
  std::string render() const;  ///< the file's text
  /// @throws ConfigError that names `where` and the fault.
  static FetchLock parse(std::string_view text, const std::string& where);
  static FetchLock read(const std::filesystem::path& path);
};

/// Sorts the files by path. @return the first thing that is wrong with the lock, or ""
std::string check_lock(FetchLock& lock);

/// Lines "<sha256>  <url>", as sha256sum writes them, with '#' comments. @throws ConfigError
FetchLock parse_url_list(std::string_view text, const std::string& where);

/// 40 lower-case hexadecimal digits.
bool valid_commit(std::string_view text);
/// "owner/name" of letters, digits, '-', '_', '.'.
bool valid_repository(std::string_view name);

}  // namespace pe::data

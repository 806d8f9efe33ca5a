/// @file
/// The Hugging Face hub, or a mirror or test server that speaks as it does: which files a repository of data has at a
/// commit, and where they are downloaded from.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "data/hub/http.h"
#include "data/hub/lock_file.h"
#include "data/hub/retry.h"
#include "support/progress.h"

namespace pe::data {

struct HubOptions {
  std::string endpoint = "https://huggingface.co";  ///< HF_ENDPOINT
  std::string token;                                ///< HF_TOKEN, or the file HF_TOKEN_PATH or $HF_HOME/token
  bool offline = false;                             ///< HF_HUB_OFFLINE
  HttpOptions http;
  RetryOptions retry;
  /// From the variables above. @throws ConfigError when HF_ENDPOINT is no address
  static HubOptions from_environment();
};

struct HubFile {
  std::string path;
  std::int64_t bytes = 0;
  std::string sha256;  ///< of large files; empty: the hub lists none
};

/// A data set as people name it: `fineweb`, `fineweb-edu`, `tinystories`, or `owner/name`, with `@revision`.
struct HubRequest {
  std::string repository;
  std::string revision = "main";
  std::vector<std::string> patterns;  ///< globs over whole paths; '*' crosses no '/'
};
/// @throws ConfigError with the aliases when it is neither.
HubRequest parse_hub_name(const std::string& name);

class Hub {
 public:
  /// Progress: files listed, files locked, and a note for each request that is repeated.
  Hub(const HubOptions& options, support::Progress& progress)
      : options_(options), progress_(progress), http_(options.http) {}

  struct Limits {
    std::optional<std::int64_t> files, bytes;  ///< stop before more; at least one file is taken
  };
  /// Pins the commit and picks the files. Small files, for which the hub lists no SHA-256, are read to know it.
  /// @throws Error; Stopped
  FetchLock lock(const HubRequest& request, const Limits& limits);

 private:
  /// An answer 200, after retries.
  HttpAnswer ask(const std::string& url, const std::string& what, std::size_t most_bytes);
  /// The same, of JSON.
  HttpAnswer ask_api(const std::string& url, const std::string& what);
  /// The commit that a revision is now.
  std::string find_commit(const std::string& repository, const std::string& revision);
  /// Files below `folder` ("" for all); follows pages.
  std::vector<HubFile> list(const std::string& repository, const std::string& commit, const std::string& folder);
  /// Files of the patterns, each once, by path.
  std::vector<HubFile> find_files(const HubRequest& request, const std::string& commit);
  /// SHA-256 of a small file, which is read.
  std::string read_digest(const FetchLock& lock, const HubFile& file);
  HubOptions options_;
  support::Progress& progress_;
  Http http_;
};

std::string download_url(const HubOptions& options, const FetchLock& lock, const LockedFile& file);

/// One page of a listing. @throws ArtifactError that names `where` when it is none.
std::vector<HubFile> parse_listing(std::string_view body, const std::string& where);
/// The URL of `Link: <…>; rel="next"`, or empty.
std::string next_page(const std::string& link);

/// @throws Error: 3 for lasting errors (no such repository, no permission), 69 for others.
[[noreturn]] void fail_hub(const HttpAnswer& answer, const std::string& what, bool has_token);

}  // namespace pe::data

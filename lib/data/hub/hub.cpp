#include "data/hub/hub.h"

#include <fnmatch.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <unordered_set>

#include "data/hub/environment.h"
#include "support/error.h"
#include "support/escaped.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/json.h"
#include "support/parse_json.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::data {

using support::ArtifactError;
using support::cat;
using support::ConfigError;
using support::quote;

namespace {

constexpr std::string_view kDefaultEndpoint = "https://huggingface.co";
constexpr std::size_t kMostPages = 10'000, kMostFiles = 1'000'000;  // of one listing
constexpr std::size_t kSmallFile = 64 << 20;
constexpr std::size_t kLargestAnswer = 8 << 20;  // a page of a listing has at most a thousand files
constexpr int kDeepestAnswer = 16;
constexpr std::size_t kMostValues = 1 << 20;  // two characters may be one, and take sixteen bytes

struct Alias {
  const char *name, *repository, *pattern;
};
constexpr Alias kAliases[] = {{"fineweb", "HuggingFaceFW/fineweb", "sample/10BT/*.parquet"},
                              {"fineweb-edu", "HuggingFaceFW/fineweb-edu", "sample/10BT/*.parquet"},
                              {"tinystories", "roneneldan/TinyStories", "data/*.parquet"}};

bool is_true(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text == "1" || text == "ON" || text == "YES" || text == "TRUE";
}

std::string find_token() {
  if (is_true(variable("HF_HUB_DISABLE_IMPLICIT_TOKEN"))) return {};
  if (const std::string token(support::trim(variable("HF_TOKEN"))); !token.empty()) return token;
  std::string path = variable("HF_TOKEN_PATH");
  if (path.empty()) {
    const std::filesystem::path home = hugging_face_home();
    if (home.empty()) return {};
    path = home / "token";
  }
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return {};
  return std::string(support::trim(support::read_file(path, 1 << 16)));
}

/// Mirrors return links to the hub itself.
std::string at_endpoint(std::string url, const std::string& endpoint) {
  if (endpoint != kDefaultEndpoint && url.starts_with(cat(kDefaultEndpoint, "/")))
    url.replace(0, kDefaultEndpoint.size(), endpoint);
  return url;
}

/// Discarded when the text is no JSON, or deeper or of more values than any hub says.
Json parse_answer(std::string_view text) {
  return support::parse_json(text, {.depth = kDeepestAnswer, .values = kMostValues});
}

/// The folder in front of the first part with a wildcard.
std::string fixed_folder(const std::string& pattern) {
  const std::size_t wild = std::min(pattern.find_first_of("*?["), pattern.size());
  const std::size_t slash = pattern.rfind('/', wild);
  return slash == std::string::npos ? "" : pattern.substr(0, slash);
}

}  // namespace

HubOptions HubOptions::from_environment() {
  HubOptions options;
  if (std::string endpoint = variable("HF_ENDPOINT"); !endpoint.empty()) {
    while (endpoint.ends_with('/')) endpoint.pop_back();
    if (origin_of(endpoint).empty())
      throw ConfigError(cat("HF_ENDPOINT: expected an http or https address, found ", quote(endpoint)));
    options.endpoint = endpoint;
  }
  options.token = find_token();
  if (options.token.find_first_of("\r\n") != std::string::npos) throw ConfigError("the hub's token holds a line break");
  options.offline = is_true(variable("HF_HUB_OFFLINE"));
  options.http.ca_file = variable("CURL_CA_BUNDLE");
  if (options.http.ca_file.empty()) options.http.ca_file = variable("SSL_CERT_FILE");
  return options;
}

HubRequest parse_hub_name(const std::string& name) {
  HubRequest request;
  const std::size_t at = name.find('@');
  const std::string repository = name.substr(0, at);
  if (at != std::string::npos) request.revision = name.substr(at + 1);
  if (request.revision.empty()) throw ConfigError(cat("repository ", quote(name), ": nothing follows the '@'"));
  std::vector<std::string> names;
  for (const Alias& alias : kAliases) {
    names.emplace_back(alias.name);
    if (repository == alias.name) {
      request.repository = alias.repository;
      request.patterns = {alias.pattern};
      return request;
    }
  }
  if (!valid_repository(repository)) {
    throw ConfigError(cat("repository ", quote(name), ": expected owner/name, or one of ", support::join(names, ", ")),
                      {}, support::suggestion(repository, names));
  }
  request.repository = repository;
  request.patterns = {"*.parquet", "*/*.parquet", "*/*/*.parquet"};
  return request;
}

void fail_hub(const HttpAnswer& answer, const std::string& what, bool has_token) {
  const std::string text = cat(what, ": ", describe(answer));
  const std::string code = answer.header("x-error-code");
  if (worth_a_retry(answer)) {
    throw support::Error(support::kExitUnavailable,
                         support::Diagnostic{text, {}, "finished downloads are kept; run again to continue", {}});
  }
  std::string hint;
  if (code == "GatedRepo")
    hint = "its owner gives access on the repository's page; HF_TOKEN then opens it";
  else if (answer.status == 401 || code == "RepoNotFound" || code == "RepositoryNotFound")
    hint = cat("it does not exist, or is private", has_token ? " to this token" : ": HF_TOKEN would open it");
  else if (code == "RevisionNotFound")
    hint = "the revision (branch, tag or commit) does not exist";
  else if (answer.status == 403)
    hint = "access was refused";
  throw ArtifactError(text, hint);
}

std::vector<HubFile> parse_listing(std::string_view body, const std::string& where) {
  const Json json = parse_answer(body);
  if (!json.is_array()) throw ArtifactError(cat(where, ": expected a list of files (JSON), found something else"));
  std::vector<HubFile> files;
  for (const Json& item : json) {
    const auto text = [&](const Json& of, const char* key) {
      return of.is_object() && of.contains(key) && of[key].is_string() ? of[key].get<std::string>() : std::string();
    };
    const std::string type = text(item, "type");
    if (type == "directory") continue;
    HubFile file;
    file.path = text(item, "path");
    if (type != "file" || file.path.empty() || !item.contains("size") || !item["size"].is_number_integer()) {
      throw ArtifactError(
          cat(where, ": an entry is not a file with path and size: ", support::escaped(item.dump(-1, ' ', true), 120)));
    }
    const Json& size = item["size"];
    if (!size.is_number_unsigned() || size.get<std::uint64_t>() > static_cast<std::uint64_t>(kMostLockedBytes)) {
      throw ArtifactError(
          cat(where, ": file ", quote(file.path), ": expected a size from 0 to 2^60 bytes, found ", size.dump()));
    }
    file.bytes = size.get<std::int64_t>();
    if (item.contains("lfs")) file.sha256 = text(item["lfs"], "oid");
    if (file.sha256.starts_with("sha256:")) file.sha256.erase(0, 7);
    files.push_back(std::move(file));
  }
  return files;
}

std::string next_page(const std::string& link) {
  for (const std::string& part : support::split(link, ',')) {
    const std::size_t open = part.find('<'), close = part.find('>');
    if (open == std::string::npos || close == std::string::npos || close < open) continue;
    if (part.find("rel=\"next\"", close) != std::string::npos || part.find("rel=next", close) != std::string::npos)
      return part.substr(open + 1, close - open - 1);
  }
  return {};
}

HttpAnswer Hub::ask(const std::string& url, const std::string& what, std::size_t most_bytes) {
  if (options_.offline) {
    throw support::Error(support::kExitUnavailable,
                         support::Diagnostic{cat(what, ": not asked, since HF_HUB_OFFLINE is set"), {}, {}, {}});
  }
  for (int attempt = 1;; ++attempt) {
    HttpAnswer answer = http_.get({url, options_.token}, {}, most_bytes);
    if (support::stop_requested()) throw support::StopRequest(true);
    if (answer.problem.empty() && answer.status == 200) return answer;
    if (!worth_a_retry(answer) || attempt >= options_.retry.attempts) fail_hub(answer, what, !options_.token.empty());
    const auto wait = wait_before(answer, attempt, options_.retry);
    if (wait.count() < 0) fail_hub(answer, what, !options_.token.empty());
    wait_to_repeat(cat(what, ": ", describe(answer)), wait, attempt + 1, options_.retry,
                   [&](const std::string& line) { progress_.note(line); });
  }
}

HttpAnswer Hub::ask_api(const std::string& url, const std::string& what) {
  HttpAnswer answer = ask(url, what, kLargestAnswer);
  if (answer.header("content-type").starts_with("text/html")) {
    throw ArtifactError(cat(what, ": expected JSON, found a web page from ", answer.host),
                        "a proxy or login page may have answered");
  }
  return answer;
}

std::string Hub::find_commit(const std::string& repository, const std::string& revision) {
  const std::string what = cat("repository ", repository, " at ", revision);
  const HttpAnswer answer = ask_api(
      cat(options_.endpoint, "/api/datasets/", repository, "/revision/", percent_encoded(revision, false)), what);
  const Json json = parse_answer(answer.body);
  if (!json.is_object() || !json.contains("sha") || !json["sha"].is_string())
    throw ArtifactError(cat(what, ": the answer of ", answer.host, " names no commit"));
  const std::string commit = json["sha"];
  if (!valid_commit(commit)) {
    throw ArtifactError(cat(what, ": ", answer.host, " names the commit ", quote(commit.substr(0, 80)),
                            ", expected 40 lower-case hexadecimal digits"));
  }
  return commit;
}

std::vector<HubFile> Hub::list(const std::string& repository, const std::string& commit, const std::string& folder) {
  std::vector<HubFile> files;
  const std::string what = cat("files of ", repository, folder.empty() ? "" : "/", folder);
  std::string url = cat(options_.endpoint, "/api/datasets/", repository, "/tree/", percent_encoded(commit, false),
                        folder.empty() ? "" : "/", percent_encoded(folder, false), "?recursive=true&expand=false");
  const std::string origin = origin_of(options_.endpoint);
  std::unordered_set<std::string> pages, paths;
  while (!url.empty()) {
    if (!pages.insert(url).second)
      throw ArtifactError(cat(what, ": a page names an earlier page as its next: ", shown_url(url)));
    if (pages.size() > kMostPages) throw ArtifactError(cat(what, ": more than ", kMostPages, " pages"));
    const HttpAnswer answer = ask_api(url, what);
    for (HubFile& file : parse_listing(answer.body, what)) {
      if (!paths.insert(file.path).second)
        throw ArtifactError(cat(what, ": file ", quote(file.path), " is listed twice"));
      files.push_back(std::move(file));
    }
    if (files.size() > kMostFiles)
      throw ArtifactError(cat(what, ": more than ", support::with_commas(kMostFiles), " files"));
    progress_.advance("files listed", std::ssize(files), 0);
    url = at_endpoint(next_page(answer.header("link")), options_.endpoint);
    if (!url.empty() && origin_of(url) != origin)
      throw ArtifactError(cat(what, ": the next page is at another host: ", shown_url(url)));
  }
  return files;
}

std::vector<HubFile> Hub::find_files(const HubRequest& request, const std::string& commit) {
  std::map<std::string, std::vector<HubFile>> listings;  // by folder, which several patterns share
  std::map<std::string, HubFile> found;
  for (const std::string& pattern : request.patterns) {
    const auto [listing, is_new] = listings.try_emplace(fixed_folder(pattern));
    if (is_new) listing->second = list(request.repository, commit, listing->first);
    for (const HubFile& file : listing->second) {
      if (::fnmatch(pattern.c_str(), file.path.c_str(), FNM_PATHNAME) == 0) found.try_emplace(file.path, file);
    }
  }
  std::vector<HubFile> files;
  for (auto& [path, file] : found) files.push_back(std::move(file));
  return files;
}

std::string Hub::read_digest(const FetchLock& lock, const HubFile& file) {
  const std::string what = cat("file ", quote(file.path), " of ", lock.repository);
  const HttpAnswer answer = ask(download_url(options_, lock, {file.path, file.bytes, "", ""}), what, kSmallFile);
  if (std::ssize(answer.body) != file.bytes)
    throw ArtifactError(cat(what, ": expected ", file.bytes, " bytes, found ", answer.body.size()));
  return support::sha256_hex(answer.body);
}

FetchLock Hub::lock(const HubRequest& request, const Limits& limits) {
  FetchLock lock{request.repository, request.revision, find_commit(request.repository, request.revision), {}};
  const std::vector<HubFile> files = find_files(request, lock.commit);
  if (files.empty()) {
    throw ArtifactError(cat("repository ", request.repository, " at ", lock.commit.substr(0, 12), ": no file matches ",
                            support::join(request.patterns, ", ")));
  }
  std::int64_t bytes = 0;
  for (const HubFile& file : files) {
    const bool more_files = limits.files && std::ssize(lock.files) >= *limits.files;
    const bool more_bytes = limits.bytes && bytes + file.bytes > *limits.bytes;
    if (more_files || (more_bytes && !lock.files.empty())) {
      progress_.note(cat("limits leave out ", files.size() - lock.files.size(), " of ", files.size(), " files"));
      break;
    }
    bytes = std::min(bytes + file.bytes, kMostLockedBytes);
    lock.files.push_back({file.path, file.bytes, file.sha256.empty() ? read_digest(lock, file) : file.sha256, ""});
    progress_.advance("files locked", std::ssize(lock.files), std::ssize(files));
  }
  const std::string fault = check_lock(lock);
  if (!fault.empty())
    throw ArtifactError(cat("the listing of ", request.repository, " by ", origin_of(options_.endpoint), ": ", fault));
  return lock;
}

std::string download_url(const HubOptions& options, const FetchLock& lock, const LockedFile& file) {
  if (!file.url.empty()) return file.url;
  return cat(options.endpoint, "/datasets/", lock.repository, "/resolve/", lock.commit, "/",
             percent_encoded(file.path, true));
}

}  // namespace pe::data

#include "data/hub/lock_file.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "data/hub/http.h"
#include "support/error.h"
#include "support/escaped.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/json.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::data {

using support::cat;
using support::ConfigError;
using support::quote;

namespace {

constexpr std::string_view kSchema = "pe-fetch-lock/1";
constexpr std::size_t kLargest = 256u << 20;

bool is_hex(std::string_view text, std::size_t digits) {
  return text.size() == digits && text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// Names go into messages, raw text and patterns, never into paths; they are kept tame all the same.
bool valid_name(std::string_view name) {
  if (name.empty() || name.size() > 4096 || name.front() == '/' ||
      support::find_invalid_utf8(name) != std::string_view::npos)
    return false;
  for (const std::string& part : support::split(name, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

[[noreturn]] void fail_lock(const std::string& where, const std::string& fault) {
  throw ConfigError(cat(quote(where), ": ", fault), {}, "pe-hub lock writes such files");
}

void require_good(FetchLock& lock, const std::string& where) {
  if (const std::string fault = check_lock(lock); !fault.empty()) fail_lock(where, fault);
}

/// -1 where the item has no size; nothing where it has one that is no count of bytes.
std::optional<std::int64_t> locked_size(const Json& item) {
  if (!item.contains("bytes")) return -1;
  const Json& bytes = item["bytes"];
  if (!bytes.is_number_unsigned() || bytes.get<std::uint64_t>() > static_cast<std::uint64_t>(kMostLockedBytes))
    return std::nullopt;
  return bytes.get<std::int64_t>();
}

}  // namespace

std::string check_lock(FetchLock& lock) {
  if (lock.files.empty()) return "it names no files";
  std::sort(lock.files.begin(), lock.files.end(),
            [](const LockedFile& a, const LockedFile& b) { return a.path < b.path; });
  const LockedFile* before = nullptr;
  std::int64_t bytes = 0;
  for (const LockedFile& file : lock.files) {
    if (!valid_name(file.path)) return cat("invalid file name ", quote(file.path.substr(0, 200)));
    const std::string name = cat("file ", quote(file.path));
    if (before != nullptr && before->path == file.path) return cat(name, " is listed twice");
    if (!is_hex(file.sha256, 64))
      return cat(name, ": ", quote(file.sha256.substr(0, 80)), " is not a SHA-256 (64 lower-case hexadecimal digits)");
    bytes += std::max<std::int64_t>(0, file.bytes);
    if (bytes > kMostLockedBytes) return "its files have more than 2^60 bytes together";
    const bool strange = support::find_invalid_utf8(file.url) != std::string_view::npos;
    if (!file.url.empty() && (strange || origin_of(file.url).empty()))
      return cat(name, ": expected an http or https address, found ", shown_url(file.url));
    if (file.url.empty() && (!valid_repository(lock.repository) || !valid_commit(lock.commit))) {
      return cat(name, " has no url, and the lock no repository with a commit of 40 digits");
    }
    before = &file;
  }
  return {};
}

bool valid_commit(std::string_view text) { return is_hex(text, 40); }

bool valid_repository(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == 0 || slash == std::string_view::npos || slash + 1 == name.size() || name.size() > 200) return false;
  if (name.find("..") != std::string_view::npos) return false;
  for (std::size_t i = 0; i < name.size(); ++i) {
    const auto byte = static_cast<unsigned char>(name[i]);
    const bool plain = (byte < 0x80 && std::isalnum(byte)) || byte == '-' || byte == '_' || byte == '.';
    if (!plain && i != slash) return false;
  }
  return true;
}

std::int64_t FetchLock::bytes() const {
  std::int64_t sum = 0;
  for (const LockedFile& file : files) sum += std::max<std::int64_t>(0, file.bytes);
  return sum;
}

std::string FetchLock::render() const {
  Json list = Json::array();
  for (const LockedFile& file : files) {
    Json item = {{"path", file.path}, {"sha256", file.sha256}};
    if (file.bytes >= 0) item["bytes"] = file.bytes;
    if (!file.url.empty()) item["url"] = file.url;
    list.push_back(std::move(item));
  }
  Json json = {{"schema", kSchema}, {"files", std::move(list)}};
  if (!repository.empty()) json.update({{"repository", repository}, {"revision", revision}, {"commit", commit}});
  return json.dump(1) + "\n";
}

FetchLock FetchLock::parse(std::string_view text, const std::string& where) {
  if (text.size() > kLargest) fail_lock(where, "it is larger than 256 MiB");
  FetchLock lock;
  try {
    const Json json = support::require_json(text);
    if (const std::string schema = json.at("schema"); schema != kSchema)
      fail_lock(where, cat("expected schema ", kSchema, ", found ", quote(schema.substr(0, 60))));
    lock.repository = json.value("repository", "");
    lock.revision = json.value("revision", "");
    lock.commit = json.value("commit", "");
    for (const Json& item : json.at("files")) {
      const std::string path = item.at("path");
      const auto bytes = locked_size(item);
      if (!bytes)
        fail_lock(where, cat("file ", quote(path.substr(0, 200)), ": expected bytes from 0 to 2^60, found ",
                             support::escaped(item["bytes"].dump(), 60)));
      lock.files.push_back({path, *bytes, item.at("sha256"), item.value("url", "")});
    }
  } catch (const Json::exception& error) {
    fail_lock(where, cat("expected a fetch lock: ", support::escaped(error.what(), 200)));
  }
  require_good(lock, where);
  return lock;
}

FetchLock FetchLock::read(const std::filesystem::path& path) {
  if (!support::is_there(path))
    throw ConfigError(cat("lock: ", quote(path.string()), ": there is no such file"), {}, "pe-hub lock writes it");
  return parse(support::read_file(path, kLargest), path.string());
}

FetchLock parse_url_list(std::string_view text, const std::string& where) {
  FetchLock lock;
  std::map<std::string, std::set<std::string>> hosts;  // by the path that a URL ends with
  int number = 0;
  for (const std::string& raw : support::split(text, '\n')) {
    ++number;
    const std::string_view line = support::trim(raw);
    if (line.empty() || line.front() == '#') continue;
    const std::size_t space = line.find_first_of(" \t");
    const std::string_view url = space == std::string_view::npos ? "" : support::trim(line.substr(space));
    const auto fail = [&](const std::string& fault) {
      throw ConfigError(cat(quote(where), ":", number, ": ", fault), {}, "each line is <sha256>  <url>");
    };
    if (url.empty()) fail(cat("expected '<sha256>  <url>', found ", quote(line.substr(0, 120))));
    LockedFile file;
    file.sha256 = line.substr(0, space);
    file.url = url;
    if (!is_hex(file.sha256, 64))
      fail(cat(quote(file.sha256.substr(0, 80)), " is not a SHA-256 (64 lower-case hexadecimal digits)"));
    const std::string shown = file.url.substr(0, file.url.find_first_of("?#"));
    const std::size_t host = shown.find("//");
    const std::size_t slash = host == std::string::npos ? std::string::npos : shown.find('/', host + 2);
    if (slash != std::string::npos) file.path = shown.substr(slash + 1);
    if (!valid_name(file.path)) fail(cat("the URL ", quote(shown.substr(0, 200)), " names no file"));
    hosts[file.path].insert(shown.substr(host + 2, slash - host - 2));
    lock.files.push_back(std::move(file));
  }
  for (LockedFile& file : lock.files) {  // of two hosts with one path, each file has its host in its name
    const std::size_t host = file.url.find("//") + 2;
    if (hosts[file.path].size() > 1)
      file.path = cat(file.url.substr(host, file.url.find('/', host) - host), "/", file.path);
  }
  require_good(lock, where);
  return lock;
}

}  // namespace pe::data

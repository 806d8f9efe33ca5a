#include "artifact/collection.h"

#include <algorithm>

#include "artifact/content_digest.h"
#include "artifact/header.h"
#include "artifact/member_digests.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/json_text.h"
#include "support/parse_json.h"
#include "support/sha256_text.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::artifact {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;
using support::IoError;
using support::quote;

namespace {

constexpr std::string_view kCollectionSchema = "pe-collection/1";
constexpr std::uint64_t kLargestManifest = 256ULL << 20;

fs::path manifest_path(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored) ? path / kManifestName : path;
}

}  // namespace

bool valid_member_name(std::string_view name) {
  if (name.empty() || name == kManifestName || support::find_invalid_utf8(name) != std::string_view::npos) return false;
  if (name.find('\0') != std::string_view::npos) return false;
  for (const std::string& part : support::split(name, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return true;
}

std::string Manifest::content_digest() const {
  support::Sha256 hash;
  for (const Member& member : members) {
    const std::uint64_t length = member.name.size();
    std::uint8_t bytes[8];
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<std::uint8_t>(length >> (8 * i));
    hash.update(bytes, sizeof bytes);
    hash.update(member.name);
    hash.update(member.content_digest);
  }
  return hash.hex();
}

Json Manifest::to_json() const {
  Json list = Json::array();
  for (const Member& member : members) {
    list.push_back({{"name", member.name},
                    {"bytes", member.bytes},
                    {"file_digest", member.file_digest},
                    {"content_digest", member.content_digest}});
  }
  return {{"schema", kCollectionSchema},
          {"kind", kind_name(kind)},
          {"content_digest", content_digest()},
          {"made_by", recipe_to_json(recipe)},
          {"members", list}};
}

Manifest Manifest::parse(std::string_view text, const std::string& where) {
  const auto fail = [&](const std::string& what) -> void { throw ArtifactError(cat(quote(where), ": ", what)); };
  const Json json = support::parse_json(text);
  if (json.is_discarded()) fail(cat("the manifest ", support::json_problem(text)));
  if (!json.is_object()) fail("expected a manifest (a JSON object), found something else");
  Manifest manifest;
  try {
    if (const std::string schema = json.at("schema"); schema != kCollectionSchema) {
      fail(cat("expected schema ", quote(kCollectionSchema), ", found ", quote(schema)));
    }
    const std::string name = json.at("kind");
    const std::optional<Kind> kind = find_kind(name);
    if (!kind) fail(cat("unknown kind ", quote(name)));
    manifest.kind = *kind;
    manifest.recipe = recipe_from_json(json.value("made_by", Json::object()));
    for (const Json& item : json.at("members")) {
      Member member;
      member.name = item.at("name").get<std::string>();
      member.bytes = item.at("bytes").get<std::uint64_t>();
      member.file_digest = item.at("file_digest").get<std::string>();
      member.content_digest = item.at("content_digest").get<std::string>();
      if (!valid_member_name(member.name)) fail(cat("invalid member name ", quote(member.name)));
      if (!support::is_sha256(member.file_digest) || !support::is_sha256(member.content_digest)) {
        fail(cat("member ", quote(member.name), " has a digest that is not a SHA-256"));
      }
      if (!manifest.members.empty() && manifest.members.back().name >= member.name) {
        fail(cat("member ", quote(member.name), " is out of order or listed twice"));
      }
      manifest.members.push_back(std::move(member));
    }
    const std::string stated = json.at("content_digest");
    if (const std::string found = manifest.content_digest(); stated != found) {
      fail(cat("content digest: stated ", stated, ", found ", found));
    }
  } catch (const Json::exception& error) {
    fail(cat("the manifest is not of schema ", kCollectionSchema, ": ", error.what()));
  }
  return manifest;
}

Manifest Manifest::read(const fs::path& path) {
  const fs::path file = manifest_path(path);
  if (!support::is_there(file)) {
    throw ArtifactError(
        cat(quote(file.string()), ": there is no such file, so the collection is missing or unfinished"));
  }
  if (const auto kind = support::irregular_kind(file, /*follow_links=*/true)) {
    throw ArtifactError(cat(quote(file.string()), ": expected a manifest, found ", *kind));
  }
  return parse(support::read_file(file, kLargestManifest), file.string());
}

const Member* Manifest::find(std::string_view name) const {
  const auto at = std::lower_bound(members.begin(), members.end(), name,
                                   [](const Member& member, std::string_view wanted) { return member.name < wanted; });
  return at != members.end() && at->name == name ? &*at : nullptr;
}

CollectionWriter::CollectionWriter(fs::path folder, Kind kind, Recipe recipe) : folder_(std::move(folder)) {
  if (!folder_.has_filename()) folder_ = folder_.parent_path();  // "out/" is "out"
  manifest_.kind = kind;
  manifest_.recipe = std::move(recipe);
  std::error_code ignored;
  if (fs::exists(folder_, ignored) && !(fs::is_directory(folder_, ignored) && fs::is_empty(folder_, ignored))) {
    throw IoError(cat("cannot write a collection as ", quote(folder_.string()), ": it exists already"), true);
  }
  building_ = support::unique_sibling(folder_);
  support::make_folders(building_);
}

CollectionWriter::~CollectionWriter() {
  std::error_code ignored;
  if (!building_.empty()) fs::remove_all(building_, ignored);
}

fs::path CollectionWriter::add(const std::string& name) {
  if (!valid_member_name(name)) {
    throw support::Error(support::kExitBug, support::Diagnostic{cat("a member cannot be named ", quote(name))});
  }
  for (const Member& member : manifest_.members) {
    if (member.name == name) {
      throw support::Error(support::kExitBug, support::Diagnostic{cat("member ", quote(name), " was added twice")});
    }
  }
  manifest_.members.push_back({name, 0, "", ""});
  const fs::path path = building_ / name;
  support::make_folders(path.parent_path());
  return path;
}

Manifest CollectionWriter::finish(bool durable) {
  std::sort(manifest_.members.begin(), manifest_.members.end(),
            [](const Member& a, const Member& b) { return a.name < b.name; });
  MemberDigests note;
  for (Member& member : manifest_.members) {
    const fs::path path = building_ / member.name;
    const support::FileStamp before = support::stamp_of(path);
    member.bytes = fs::file_size(path);
    FileDigests digests = digests_of(path);
    note.add(member.name, digests.file, before, support::stamp_of(path));
    member.file_digest = std::move(digests.file);
    member.content_digest = std::move(digests.content);
    if (durable) support::sync_path(path);
  }
  support::write_file_atomically(building_ / kManifestName, support::json_text(manifest_.to_json(), 1) + "\n", durable);
  // Only pe-pipeline reads it, and takes it away with the attempt.
  if (!manifest_.recipe.task_key.empty()) note.write(folder_);
  support::rename_durably(building_, folder_, durable);
  building_.clear();
  return manifest_;
}

Collection::Collection(fs::path folder, Kind kind) : folder_(std::move(folder)) {
  if (!support::is_there(folder_)) throw ArtifactError(cat(quote(folder_.string()), ": there is no such folder"));
  std::error_code ignored;
  if (!fs::is_directory(folder_, ignored)) {
    throw ArtifactError(cat(quote(folder_.string()), ": expected a folder with ", kManifestName, " (", kind_name(kind),
                            "), found a file"));
  }
  manifest_ = Manifest::read(folder_);
  if (manifest_.kind != kind) {
    throw ArtifactError(
        cat(quote(folder_.string()), ": expected kind ", kind_name(kind), ", found ", kind_name(manifest_.kind)));
  }
  for (const Member& member : manifest_.members) {
    const fs::path at = path(member);
    if (!support::is_there(at)) {
      throw ArtifactError(cat(quote(at.string()), ": the manifest names this member, but it is missing"));
    }
    std::error_code error;
    const std::uint64_t bytes = fs::file_size(at, error);
    if (error || bytes != member.bytes) {
      throw ArtifactError(cat(quote(at.string()), ": expected ", member.bytes, " bytes, found ", error ? 0 : bytes),
                          "the file is corrupt or was cut short");
    }
  }
}

std::vector<Member> Collection::members(std::string_view prefix) const {
  std::vector<Member> found;
  for (const Member& member : manifest_.members) {
    if (member.name.starts_with(prefix)) found.push_back(member);
  }
  return found;
}

void Collection::verify() const {
  for (const Member& member : manifest_.members) {
    const fs::path at = path(member);
    if (const std::string found = support::sha256_file(at); found != member.file_digest) {
      throw ArtifactError(cat(quote(at.string()), ": expected file digest ", member.file_digest, ", found ", found),
                          "the file is corrupt");
    }
    if (const std::string found = content_digest(at); found != member.content_digest) {
      throw ArtifactError(
          cat(quote(at.string()), ": expected content digest ", member.content_digest, ", found ", found));
    }
  }
  for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
    if (entry.is_directory()) continue;
    const std::string name = entry.path().lexically_relative(folder_).generic_string();
    if (name != kManifestName && manifest_.find(name) == nullptr) {
      throw ArtifactError(cat(quote(entry.path().string()), ": the manifest does not name this file"));
    }
  }
}

}  // namespace pe::artifact

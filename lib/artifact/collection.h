/// @file
/// An artifact of several files: a folder with members and `manifest.json` (`pe-collection/1`):
///
///     {"schema": "pe-collection/1", "kind": "token-shards", "content_digest": "…", "made_by": {recipe},
///      "members": [{"name": "train-00000.h5", "bytes": 123, "file_digest": "…", "content_digest": "…"}]}
///
/// Members are sorted by name (bytewise); names are relative, UTF-8, with '/' and without '.' or '..' parts. The
/// content digest of the collection is SHA-256 over its sorted (name, content digest).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/kind.h"
#include "artifact/workspace.h"

namespace pe::artifact {

inline constexpr std::string_view kManifestName = "manifest.json";

struct Member {
  std::string name;
  std::uint64_t bytes = 0;
  std::string file_digest;     ///< SHA-256 of the bytes, hex
  std::string content_digest;  ///< artifact/content_digest.h
};

struct Manifest {
  Kind kind = Kind::kRawText;
  std::vector<Member> members;
  Recipe recipe;

  std::string content_digest() const;
  Json to_json() const;
  /// @throws ArtifactError that names `where` and the mistake; also when the digest does not fit the members.
  static Manifest parse(std::string_view text, const std::string& where);
  /// Reads the manifest of a folder, or the manifest file itself. @throws ArtifactError
  static Manifest read(const std::filesystem::path& path);
  const Member* find(std::string_view name) const;
};

/// True when `name` may name a member.
bool valid_member_name(std::string_view name);

/// Builds a collection in a temporary folder. Members are written by the caller, in full, at the paths it is given;
/// `finish` hashes them, writes the manifest and renames the folder. Without `finish` nothing stays behind, unless the
/// process is killed, and then under a temporary name.
class CollectionWriter {
 public:
  /// @throws IoError when the folder cannot be made, or something of that name is there already (an empty folder may
  /// be).
  CollectionWriter(std::filesystem::path folder, Kind kind, Recipe recipe);
  ~CollectionWriter();
  CollectionWriter(const CollectionWriter&) = delete;
  /// Where to write a member; each name once. Folders on the way are made.
  std::filesystem::path add(const std::string& name);
  Manifest finish(bool durable = true);

 private:
  std::filesystem::path folder_, building_;
  Manifest manifest_;
};

/// A finished collection. Opening checks the manifest and that each member is there with its size; `verify` rehashes.
class Collection {
 public:
  /// @throws ArtifactError
  Collection(std::filesystem::path folder, Kind kind);
  const Manifest& manifest() const { return manifest_; }
  const std::filesystem::path& folder() const { return folder_; }
  std::filesystem::path path(const Member& member) const { return folder_ / member.name; }
  /// The members whose names begin with `prefix`, in order.
  std::vector<Member> members(std::string_view prefix) const;
  /// Rehashes every member and looks for files that the manifest does not know. @throws ArtifactError
  void verify() const;

 private:
  std::filesystem::path folder_;
  Manifest manifest_;
};

}  // namespace pe::artifact

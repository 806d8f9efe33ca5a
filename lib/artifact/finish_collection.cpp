#include "artifact/finish_collection.h"

#include <algorithm>

#include "artifact/collection.h"
#include "artifact/content_digest.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/json_text.h"
#include "support/text.h"

namespace pe::artifact {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;
using support::quote;

bool finish_collection(const fs::path& folder, Kind kind, const Recipe& recipe) {
  std::error_code error;
  if (!fs::is_directory(folder, error) || fs::exists(folder / kManifestName, error)) return false;
  Manifest manifest;
  manifest.kind = kind;
  manifest.recipe = recipe;
  for (fs::recursive_directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const fs::file_status status = at->symlink_status();
    if (fs::is_directory(status)) continue;
    const std::string name = at->path().lexically_relative(folder).generic_string();
    if (!fs::is_regular_file(status))
      throw ArtifactError(cat(quote(at->path().string()), " is not a regular file, so it cannot be published"));
    if (!valid_member_name(name))
      throw ArtifactError(cat(quote(at->path().string()), " has a name that cannot be published"));
    Member member;
    member.name = name;
    member.bytes = fs::file_size(at->path());
    FileDigests digests = digests_of(at->path());
    member.file_digest = std::move(digests.file);
    member.content_digest = std::move(digests.content);
    manifest.members.push_back(std::move(member));
  }
  if (error) throw support::IoError(cat("cannot read ", quote(folder.string()), ": ", error.message()));
  std::sort(manifest.members.begin(), manifest.members.end(),
            [](const Member& a, const Member& b) { return a.name < b.name; });
  support::write_file_atomically(folder / kManifestName, support::json_text(manifest.to_json(), 1) + "\n", false);
  return true;
}

}  // namespace pe::artifact

/// @file
/// The look that an artifact gets before it is published: it opens, says the right kind, and holds every dataset that
/// its kind asks for, whole. Digests and CRCs are for `verify`.
#pragma once

#include <filesystem>
#include <string>

#include "artifact/kind.h"

namespace pe::artifact {

namespace h5 {
class File;
}

/// `path` is a file, or the folder of a collection. @throws ArtifactError that names the mistake.
void check_artifact(const std::filesystem::path& path, Kind kind);
/// The same of a file that is open.
void check_artifact(const h5::File& file, Kind kind);

/// The content digest of a file or of a collection's folder, whatever it is.
std::string artifact_content_digest(const std::filesystem::path& path);

}  // namespace pe::artifact

/// @file
/// The digest of the content of an artifact, as opposed to the bytes of its file (doc/format-artifact.md).
#pragma once

#include <filesystem>
#include <string>

#include "artifact/h5.h"

namespace pe::artifact {

/// SHA-256, in hex, over the walk of groups, datasets and attributes in order of their paths: path, type, shape,
/// little-endian bytes; without `/pe/made_by…`. @throws ArtifactError
std::string content_digest(const h5::File& file);

struct FileDigests {
  std::string file, content;
};
/// SHA-256 of the file's bytes and its content digest, with one pass over the disk and two threads.
FileDigests digests_of(const std::filesystem::path& path);

/// The content digest of a file: as above for HDF5, SHA-256 of the bytes for anything else.
/// For a folder that holds `manifest.json`, or for such a manifest, see artifact/collection.h.
std::string content_digest(const std::filesystem::path& path);

}  // namespace pe::artifact

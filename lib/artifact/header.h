/// @file
/// Header of every HDF5 artifact, in group `/pe`: attributes `schema` ("pe-artifact/1"), `kind`, `format` (the version
/// of that kind's layout), and the scalar text `made_by`, the recipe as JSON. All but `made_by` is content.
#pragma once

#include <filesystem>
#include <functional>

#include "artifact/h5.h"
#include "artifact/kind.h"
#include "artifact/workspace.h"

namespace pe::artifact {

struct Header {
  Kind kind;
  int format = 0;
};

Json recipe_to_json(const Recipe& recipe);
/// Missing members stay empty.
Recipe recipe_from_json(const Json& json);

/// Written first, so that every file of ours begins alike.
void write_header(h5::File& file, Kind kind, int format, const Recipe& recipe);

/// @throws ArtifactError when there is none, or it is of another schema.
Header read_header(const h5::File& file);
Recipe read_recipe(const h5::File& file);

/// @throws ArtifactError unless the file is of that kind with a format in [1, newest].
void require_kind(const h5::File& file, Kind kind, int newest);

/// Writes an HDF5 artifact to a temporary file, syncs it and renames it to `path`: header, then the objects of `body`.
/// After an exception no file remains. @throws IoError
void write_artifact(const std::filesystem::path& path, Kind kind, int format, const Recipe& recipe,
                    const std::function<void(h5::Group& root)>& body, const h5::CreateOptions& options = {},
                    bool durable = true);

}  // namespace pe::artifact

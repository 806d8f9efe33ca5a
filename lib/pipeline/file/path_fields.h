/// @file
/// The values of a config that name files: fields of type path, in groups and among the options of variants.
#pragma once

#include <functional>
#include <string>

#include "support/config.h"
#include "support/json.h"

namespace pe::pipeline {

/// A value that names a file, or a list of them. `dotted` is its path in the config: "path", "model.encoding.table",
/// "model.encoding.stack.1.table". `hashed` is false where the field, or a group around it, is in no key.
using PathVisit = std::function<void(const std::string& dotted, Json& value, bool hashed)>;
void for_each_path(const support::Schema& schema, Json& config, const PathVisit& visit);

/// Removes them from a hashed config: keys hold the contents of the files. Groups that become empty are removed too.
void erase_paths(const support::Schema& schema, Json& config);

}  // namespace pe::pipeline

/// @file
/// The values of a config that name files: fields of type path, in groups and among the options of variants.
#pragma once

#include <functional>
#include <string>

#include "support/config.h"
#include "support/json.h"

namespace pe::pipeline {

/// A value that names a file, or a list of them. `dotted` is its path in the config: "path", "model.encoding.table",
/// "model.encoding.stack.1.table". `hashed` is false where the field, or what holds it, is in no key.
using PathVisit = std::function<void(const std::string& dotted, Json& value, bool hashed)>;
void for_each_path(const support::Schema& schema, Json& config, const PathVisit& visit);

/// Takes them out of a hashed config: keys hold what is in the files. Groups that become empty go too.
void erase_paths(const support::Schema& schema, Json& config);

}  // namespace pe::pipeline

#include "support/explain.h"

#include <filesystem>
#include <new>

namespace pe::support {

Error as_error(const std::exception& error, const Explain& explain) {
  if (const auto* known = dynamic_cast<const Error*>(&error)) return *known;
  if (explain) {
    if (const auto explained = explain(error)) return *explained;
  }
  if (const auto* of_files = dynamic_cast<const std::filesystem::filesystem_error*>(&error)) {
    return IoError("cannot use '" + of_files->path1().string() + "': " + of_files->code().message());
  }
  if (dynamic_cast<const std::bad_alloc*>(&error))
    return Error(kExitOutOfMemory, Diagnostic{"out of memory", {}, {}, {}});
  return Error(kExitBug, Diagnostic{error.what(), {}, {}, {}});
}

}  // namespace pe::support

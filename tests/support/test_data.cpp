#include "support/test_data.h"

#include <cstdlib>

namespace pe::test {

std::filesystem::path source_root() { return PE_SOURCE_ROOT; }
std::filesystem::path build_root() { return PE_BUILD_ROOT; }

std::optional<std::filesystem::path> test_data(const std::string& name) {
  const char* folder = std::getenv("PE_TEST_DATA");
  const auto path = (folder ? std::filesystem::path(folder) : source_root().parent_path() / "shared" / "data") / name;
  return std::filesystem::exists(path) ? std::optional(path) : std::nullopt;
}

}  // namespace pe::test

#include "pipeline/file/shipped.h"

#include <system_error>

#include "support/process.h"

namespace pe::pipeline {

std::filesystem::path shipped_folder() {
  const std::filesystem::path programs = support::own_executable().parent_path();
  for (const char* way : {"../share/pe-pipeline", "../.."}) {
    std::filesystem::path folder = (programs / way).lexically_normal();
    if (!folder.has_filename()) folder = folder.parent_path();  // "clone/" of "clone/build/stages/../.."
    std::error_code error;
    if (std::filesystem::is_regular_file(folder / "configs/tokenize.yml", error) &&
        std::filesystem::is_regular_file(folder / "pipelines/quickstart.yml", error))
      return folder;
  }
  return {};
}

}  // namespace pe::pipeline

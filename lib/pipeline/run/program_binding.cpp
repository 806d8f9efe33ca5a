#include "pipeline/run/program_binding.h"

namespace pe::pipeline {

void bind_to_program(Json& document, const StageDescription& stage, bool exact) {
  document["version"] = stage.version;
  document["build_id"] = stage.build_id;
  if (exact) document["build"] = stage.program_digest;
}

}  // namespace pe::pipeline

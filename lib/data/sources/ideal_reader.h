/// @file
/// `pe-ideal-reader`: the value of more context in generated stories. Their generator knows the facts that each
/// sentence repeats. A reader with a context of n bytes must guess a fact that was last said farther away.
#pragma once

#include <cstdint>

#include "artifact/workspace.h"
#include "support/config.h"

namespace pe::data {

struct IdealReaderConfig {
  std::int64_t words = 1'000'000;
  void describe(support::FieldVisitor& v);
};

/// Reads how the input `raw` was generated, generates its stories again and writes the output `scores`. Its table
/// `ideal_reader` has, by position in the text and by context, the nats per byte that such a reader loses to one who
/// remembers everything. They are a lower limit: chance repetitions and the frequency of events are not counted.
/// @throws ArtifactError when the text was not generated
void ideal_reader(const IdealReaderConfig& config, artifact::Workspace& workspace);

}  // namespace pe::data

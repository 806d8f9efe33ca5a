/// @file
/// Whether stages are still the programs that their tasks were planned with. A run lasts for hours and a submission
/// waits for days, and people edit and rebuild meanwhile; a result under the old program's key must not come from the
/// new one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "pipeline/file/graph.h"
#include "support/file_stamp.h"

namespace pe::pipeline {

class ProgramWatch {
 public:
  enum class State {
    kSame,   ///< Or another build of the same name, result version and revisions.
    kOther,  ///< Another result version; where the build is in the key, another build.
    kGone,   ///< Not there, or it does not describe itself: a linker or an editor may be writing it.
  };
  struct Answer {
    State state = State::kSame;
    std::string why;  ///< it is not the same: "pe-train: result version 3 now, planned with 2"
  };

  /// Costs a stat of each file of the program. It is read again only where one of these differs from the last look, and
  /// asked to describe itself only where the bytes differ. A stage without an executable is the same. Never throws an
  /// Error.
  /// @param exact  the build is in the key (`code: build`)
  Answer look(const StageDescription& stage, bool exact);

 private:
  struct ProgramState {
    std::vector<support::FileRead> files;
    std::string digest;
    std::string described;  ///< the digest of the build that `other` describes
    std::string other;      ///< its difference in name, version or revisions; empty: none
  };
  void read(const StageDescription& stage, ProgramState& seen);

  std::map<std::string, ProgramState> seen_;  // by executable
};

}  // namespace pe::pipeline

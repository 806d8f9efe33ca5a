/// @file
/// Peers run without the variables that model::prepare sets for our programs: some forbid a library's fastest
/// instructions.
#pragma once

#include <string>
#include <vector>

namespace pe::test {

/// The first words of a command that runs a peer.
inline std::vector<std::string> peer_environment() {
  std::vector<std::string> words{"/usr/bin/env"};
  for (const char* name : {"ONEDNN_MAX_CPU_ISA", "ATEN_CPU_CAPABILITY", "MKL_CBWR", "GOMP_SPINCOUNT"})
    words.insert(words.end(), {"-u", name});
  return words;
}

}  // namespace pe::test

/// @file
/// Plug-ins: modules that a program loads when it needs them. Each offers a table of functions by the C function
/// `<symbol>_table`, and by `<symbol>_layout` the hash of the header that describes the table.
#pragma once

#include <string>

namespace pe::support {

struct PluginRequest {
  std::string folder, name;      ///< "cuda", "pe-cuda": lib/cuda/pe-cuda.so, as `find_plugin` finds it
  std::string symbol;            ///< "pe_cuda"
  std::string layout;            ///< the hash that this program was built with (plugin_layouts.h)
  std::string reason;            ///< Why it is needed: "compute.ranks is 2".
  std::string if_absent;         ///< A way out where this build has none.
  std::string if_unusable;       ///< A way out where it does not load.
  bool private_symbols = false;  ///< the plug-in and its libraries look symbols up in themselves first, and offer none
};

/// The table. The module stays loaded. Its symbols are global unless they are private: MPI's components look for them
/// there.
/// @throws ConfigError where there is no such plug-in. Also where it does not load, with the loader's message, and
/// where it was built with another header than this program.
const void* load_plugin(const PluginRequest& request);

}  // namespace pe::support

#include "support/plugin.h"

#include <dlfcn.h>

#include "support/error.h"
#include "support/process.h"
#include "support/text.h"

namespace pe::support {

namespace {

// The sanitizers' allocator must be found first, so their builds cannot have RTLD_DEEPBIND.
#if PE_SANITIZED
constexpr int kPrivate = RTLD_LOCAL;
#else
constexpr int kPrivate = RTLD_LOCAL | RTLD_DEEPBIND;
#endif

}  // namespace

const void* load_plugin(const PluginRequest& request) {
  const std::string file = find_plugin(request.folder, request.name).string();
  if (file.empty())
    throw ConfigError(cat(request.reason, ", but this build has no ", request.name, ".so"), {}, request.if_absent);
  void* module = ::dlopen(file.c_str(), RTLD_NOW | (request.private_symbols ? kPrivate : RTLD_GLOBAL));
  if (module == nullptr) {
    const char* why = ::dlerror();
    throw ConfigError(cat(request.reason, ", but ", file, " does not load: ", why == nullptr ? "unknown reason" : why),
                      {}, request.if_unusable);
  }
  const auto layout = reinterpret_cast<const char* (*)()>(::dlsym(module, (request.symbol + "_layout").c_str()));
  const auto table = reinterpret_cast<const void* (*)()>(::dlsym(module, (request.symbol + "_table").c_str()));
  const std::string found = layout == nullptr ? "none" : std::string(layout()).substr(0, 12);
  if (table == nullptr || layout == nullptr || layout() != request.layout) {
    throw ConfigError(
        cat(file, " is of another build: its interface is ", found, ", expected ", request.layout.substr(0, 12)), {},
        "build again");
  }
  return table();
}

}  // namespace pe::support

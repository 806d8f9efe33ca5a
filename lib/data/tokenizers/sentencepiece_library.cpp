#include "data/tokenizers/sentencepiece_library.h"

#include <dlfcn.h>

#include "support/error.h"
#include "support/process.h"
#include "support/text.h"

namespace pe::data {

namespace {

using sentencepiece_plugin::Table;
using support::ArtifactError;
using support::cat;

// The library looks its symbols up in itself first; sanitizers, whose allocator it must see, forbid that.
#if PE_SANITIZED
constexpr int kPrivate = RTLD_LOCAL;
#else
constexpr int kPrivate = RTLD_LOCAL | RTLD_DEEPBIND;
#endif

const Table& load_library() {
  const std::filesystem::path plugin = support::find_plugin("sentencepiece", "pe-sentencepiece");
  if (plugin.empty()) throw ArtifactError("the sentencepiece plug-in (pe-sentencepiece.so) was not found; build again");
  void* handle = ::dlopen(plugin.c_str(), RTLD_NOW | kPrivate);
  if (handle == nullptr) {
    const char* why = ::dlerror();
    throw ArtifactError(cat(plugin.string(), " does not load: ", why == nullptr ? "unknown reason" : why));
  }
  using Entry = const Table* (*)();
  const auto entry = reinterpret_cast<Entry>(::dlsym(handle, sentencepiece_plugin::kEntry));
  const Table* table = entry == nullptr ? nullptr : entry();
  if (table == nullptr || table->abi != sentencepiece_plugin::kAbi) {
    throw ArtifactError(cat(plugin.string(), " is of another build: it has interface ", table == nullptr ? -1 : table->abi,
                            ", expected ", sentencepiece_plugin::kAbi, "; build again"));
  }
  return *table;
}

}  // namespace

const Table& sentencepiece_library() {
  static const Table& table = load_library();
  return table;
}

}  // namespace pe::data

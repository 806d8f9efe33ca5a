#include "data/tokenizers/sentencepiece_library.h"

#include "support/plugin.h"
#include "support/plugin_layouts.h"

namespace pe::data {

const sentencepiece_plugin::Table& sentencepiece_library() {
  static const void* const table = support::load_plugin({.folder = "sentencepiece",
                                                         .name = "pe-sentencepiece",
                                                         .symbol = "pe_sentencepiece",
                                                         .layout = PE_SENTENCEPIECE_LAYOUT,
                                                         .reason = "a sentencepiece model is needed",
                                                         .if_absent = "build again",
                                                         .if_unusable = "install libsentencepiece0",
                                                         .private_symbols = true});
  return *static_cast<const sentencepiece_plugin::Table*>(table);
}

}  // namespace pe::data

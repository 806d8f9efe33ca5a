// The entry that libFuzzer calls; PE_FUZZ_TARGET names the reader.
#include <cstddef>
#include <cstdint>

#include "fuzz/targets.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  pe::fuzz::PE_FUZZ_TARGET({reinterpret_cast<const char*>(data), size});
  return 0;
}

/// @file
/// Files of llama.cpp (GGUF, version 3): named values, then tensors at multiples of 32 bytes. The reader believes
/// nothing: every count, length and offset is checked before it is used.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "interop/safetensors.h"

namespace pe::interop {

/// Whole numbers are written as UINT32 and real ones as FLOAT32: llama.cpp takes no others. An array that was read
/// and has elements of another type is std::monostate.
using GgufValue = std::variant<std::monostate, std::int64_t, double, bool, std::string, std::vector<std::int32_t>,
                               std::vector<float>, std::vector<std::string>>;
using GgufValues = std::map<std::string, GgufValue>;

struct GgufHeader {
  GgufValues values;
  std::vector<SafetensorsEntry> tensors;  ///< shapes are row-major, as in safetensors; the file has them reversed
};

/// @param file  the whole file. @param where  names it in messages.
/// @throws ArtifactError where the file is cut, has another version, or names a value or tensor twice. The same for a
/// count that the file cannot hold, a tensor type other than F32, F16 and BF16, and tensors that overlap.
GgufHeader parse_gguf(std::string_view file, const std::string& where);

/// Tensors keep their order; their dtypes are F32, F16 and BF16. The file is synced. @throws IoError
void write_gguf(const std::filesystem::path& path, const GgufValues& values,
                const std::vector<SafetensorsTensor>& tensors);

}  // namespace pe::interop

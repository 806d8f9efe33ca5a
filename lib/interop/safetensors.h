/// @file
/// Files of Hugging Face weights (safetensors): a length of 8 bytes, a JSON header, and the tensors one after another.
/// The reader believes nothing: every length and offset is checked before it is used.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "support/files.h"

namespace pe::interop {

/// Bytes of one number of a dtype by its name ("F32", "BF16", …); 0 for one that is unknown here.
std::size_t safetensors_dtype_bytes(std::string_view dtype);

struct SafetensorsEntry {
  std::string name;
  std::string dtype;                 ///< "F32", "BF16", "F16", "F64", "I64", …
  std::vector<std::int64_t> shape;   ///< empty for a scalar
  std::uint64_t begin = 0, end = 0;  ///< bytes of the file
  std::uint64_t count() const;       ///< of numbers
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
};

/// @param file  the whole file. @param where  names it in messages.
/// @throws ArtifactError where the file is cut, or its header is no JSON or has a name twice. The same for an unknown
/// dtype, and for a size that does not fit its shape. The same where tensors overlap, leave a gap, or miss the file's
/// end.
SafetensorsHeader parse_safetensors(std::string_view file, const std::string& where);

/// The numbers of a tensor as float32. @throws ArtifactError for a dtype that is no real number.
std::vector<float> to_floats(std::string_view dtype, std::string_view bytes, const std::string& where);

using ByteSink = std::function<void(std::string_view)>;

/// A tensor to write. `bytes` is called once, when the tensor is written. It gives row-major little-endian bytes to its
/// sink, piece by piece, so that a large tensor is not in memory twice.
struct SafetensorsTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::function<void(const ByteSink&)> bytes;
};

/// Numbers as the bytes of a dtype: "F32", or rounded to nearest even "BF16" or "F16".
std::string from_floats(std::string_view dtype, std::span<const float> values);

/// All of `bytes` at the file's position. @throws IoError
void write_bytes(int fd, std::string_view bytes, const std::filesystem::path& path);
/// The same for a tensor. @return how many bytes it has
std::uint64_t write_tensor(int fd, const SafetensorsTensor& tensor, const std::filesystem::path& path);

/// The same tensors in any order give the same bytes: wide dtypes first, then by name. The file is synced.
/// @throws IoError
void write_safetensors(const std::filesystem::path& path, std::vector<SafetensorsTensor> tensors,
                       const std::map<std::string, std::string>& metadata);

}  // namespace pe::interop

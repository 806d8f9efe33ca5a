/// @file
/// How two artifacts differ: which datasets and attributes, how many elements, and how far apart the numbers are. The
/// recipe (`/pe/made_by`) is no content and is left out. Nothing is loaded whole; pieces are read and compared one by
/// one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "artifact/h5.h"

namespace pe::artifact {

struct DiffOptions {
  /// Numbers that are at most this many units in the last place apart count as equal; integers must be equal.
  std::uint64_t ulp = 0;
  /// Compare only objects at or below one of these paths ("/weights"); for a collection "member" or "member:/dataset".
  /// Empty: all.
  std::vector<std::string> only;
};

struct Difference {
  enum class What {
    kOnlyInFirst,
    kOnlyInSecond,
    kType,  ///< a group against a dataset, or datasets of other types
    kShape,
    kAttribute,  ///< `path` ends in "@name"
    kValues,     ///< of a dataset
    kBytes,      ///< of a file that is no HDF5
  };
  What what = What::kValues;
  std::string path;             ///< "/weights/wte"; of a member "data.h5:/tokens".
  std::string first, second;    ///< Descriptions of both: type, shape, or the values at the first difference.
  std::uint64_t elements = 0;   ///< Elements of the dataset, or bytes of the file.
  std::uint64_t differing = 0;  ///< Elements that differ by more than `ulp`.
  std::uint64_t where = 0;      ///< First of them, counted in row-major order.
  /// Of reals: the largest distance in units of the last place, counted in steps of representable numbers through
  /// zero; kFar where a NaN meets a number. 0 for types that are not real.
  std::uint64_t largest_ulp = 0;
  double largest_absolute = 0;  ///< of numbers
  static constexpr std::uint64_t kFar = ~std::uint64_t{0};
};

/// "only in the first", "shape", …
std::string_view what_name(Difference::What what);

struct ArtifactDiff {
  std::vector<Difference> differences;
  std::uint64_t compared = 0;  ///< datasets, or files that are no HDF5
  bool same() const { return differences.empty(); }
};

/// Compares two files or two folders of collections. @throws ArtifactError when one cannot be read, or a file is
/// compared with a folder.
ArtifactDiff diff_artifacts(const std::filesystem::path& first, const std::filesystem::path& second,
                            const DiffOptions& options = {});

/// Number of representable values between two numbers; 0 for equal ones (-0 and 0 are), kFar for a NaN and a number.
std::uint64_t ulp_distance(float a, float b);
std::uint64_t ulp_distance(double a, double b);
/// Distance of two 16-bit numbers, given as their bits: bfloat16 and float16 alike, since both are sign and magnitude.
std::uint64_t ulp_distance_16(std::uint16_t a, std::uint16_t b, bool bfloat);

}  // namespace pe::artifact

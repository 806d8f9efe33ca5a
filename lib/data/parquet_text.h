/// @file
/// One text column of a Parquet file, row by row. Arrow is used in the source alone.
///
/// Memory stays at about one page, whatever the row groups are; allocations are capped by the file's size, so that a
/// damaged file ends in a message. Page checksums are verified where a file has them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace pe::data {

class ParquetText {
 public:
  /// @throws ArtifactError when the file is no Parquet, is encrypted, or lacks the column (naming those present), or the
  /// column is not flat text.
  ParquetText(const std::filesystem::path& path, const std::string& column);
  ~ParquetText();

  std::uint64_t rows() const;   ///< as the file claims
  /// The next row; a null has no text. The view lives until the next call. False at the end. @throws ArtifactError
  bool next(std::optional<std::string_view>& text);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pe::data

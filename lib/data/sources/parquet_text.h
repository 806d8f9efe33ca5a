/// @file
/// One text column of a Parquet file, row by row, and the columns that a filter looks at. Arrow is used in the source
/// alone.
///
/// Memory stays at about one page, whatever the row groups are; allocations are capped by the file's size, so that a
/// damaged file ends in a message. Page checksums are verified where a file has them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "data/sources/row_filter.h"

namespace pe::data {

class ParquetText {
 public:
  /// @throws IoError when the file cannot be read. ArtifactError when it is no Parquet, is encrypted, lacks a column
  /// (naming those present), the column is not flat text, or a filter compares a column with a value of another type.
  ParquetText(const std::filesystem::path& path, const std::string& column, const RowFilter& filter = {});
  ~ParquetText();

  /// The next row; a null has no text. The view lives until the next call. False at the end. @throws ArtifactError
  bool next(std::optional<std::string_view>& text);
  /// Whether the filter keeps the row that `next` gave.
  bool kept() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pe::data

/// @file
/// Tables with typed columns, as metrics and evaluation tables hold them (doc/format-tables.md). A cell may be missing;
/// that is stated, and never a 0 or a NaN with another meaning.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "artifact/kind.h"
#include "artifact/workspace.h"

namespace pe::artifact::h5 {
class File;
}

namespace pe::artifact {

enum class ColumnType { kInteger, kReal, kText };
std::string_view column_type_name(ColumnType type);  ///< "integer", "real", "text"

struct ColumnSpec {
  std::string name;
  ColumnType type = ColumnType::kReal;
  std::string unit;  ///< "tokens", "nats", "bits/byte", …; empty when it has none
};

/// A value in a row; monostate is a missing one. Any integer or real type, text, and std::nullopt convert.
class Cell {
 public:
  Cell() = default;
  Cell(std::nullopt_t) {}
  template <typename T>
  requires std::is_integral_v<T> Cell(T value) : value_(static_cast<std::int64_t>(value)) {}
  template <typename T>
  requires std::is_floating_point_v<T> Cell(T value) : value_(static_cast<double>(value)) {}
  Cell(std::string value) : value_(std::move(value)) {}
  Cell(std::string_view value) : value_(std::string(value)) {}
  Cell(const char* value) : value_(std::string(value)) {}
  template <typename T>
  Cell(const std::optional<T>& value) {
    if (value) *this = Cell(*value);
  }
  bool missing() const { return value_.index() == 0; }
  const std::variant<std::monostate, std::int64_t, double, std::string>& value() const { return value_; }

 private:
  std::variant<std::monostate, std::int64_t, double, std::string> value_;
};

/// Columns of equal length. Rows are added whole; columns are read whole.
class Table {
 public:
  Table(std::string name, std::vector<ColumnSpec> columns);

  const std::string& name() const { return name_; }
  const std::vector<ColumnSpec>& columns() const { return columns_; }
  std::size_t rows() const { return rows_; }
  /// @throws Error (bug) when their number or a type does not fit; an integer fits a real column.
  void add_row(std::vector<Cell> cells);

  std::optional<std::size_t> find_column(std::string_view name) const;
  /// @throws ArtifactError that names the table and the nearest column.
  std::size_t column(std::string_view name) const;
  bool missing(std::size_t row, std::size_t column) const { return data_[column].missing[row] != 0; }
  /// The cell, whatever its type.
  Cell cell(std::size_t row, std::size_t column) const;
  /// Whole columns by name; where a cell is missing they hold 0, NaN or "", and `present` says so.
  const std::vector<std::int64_t>& integers(std::string_view name) const;
  /// Also of an integer column, converted.
  std::vector<double> reals(std::string_view name) const;
  const std::vector<std::string>& texts(std::string_view name) const;
  std::vector<bool> present(std::string_view name) const;
  /// Facts that hold for the whole table, kept in order of their names: {"stride": "64"}.
  std::map<std::string, std::string> attributes;

 private:
  struct Data {
    std::vector<std::int64_t> integers;
    std::vector<double> reals;
    std::vector<std::string> texts;
    std::vector<std::uint8_t> missing;
  };
  friend struct TableIo;
  std::string name_;
  std::vector<ColumnSpec> columns_;
  std::vector<Data> data_;
  std::size_t rows_ = 0;
};

/// Several named tables and facts about the whole file, in the order written.
struct Tables {
  std::vector<Table> tables;
  Json facts = Json::object();  ///< subject of the tables: model digest, labels, settings. Content.

  const Table* find(std::string_view name) const;
  /// @throws ArtifactError that names the nearest table.
  const Table& at(std::string_view name) const;
};

/// One file of kind `kind` (metrics or eval-table). Written atomically. @throws IoError
void write_tables(const std::filesystem::path& path, Kind kind, const Recipe& recipe, const Tables& tables);
/// @throws ArtifactError
Tables read_tables(const std::filesystem::path& path, Kind kind);
Tables read_tables(const h5::File& file, Kind kind);

}  // namespace pe::artifact

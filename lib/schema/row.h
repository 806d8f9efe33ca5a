/// @file
/// Rows of tables as structs. A struct names its columns once, in their order; tables are written and read by that
/// list, and nothing else knows a column by its name or its number.
///
///     struct Example {
///       static constexpr const char* kName = "example";
///       static constexpr const char* kMeaning = "The meaning of a row.";
///       std::string task;
///       std::int64_t length = 0;
///       double loss = kMissing;
///       template <typename Row, typename Visitor>
///       static void columns(Row& row, Visitor& column) {
///         column("task", row.task, "", "task");
///         column("L", row.length, "tokens", "context length");
///         column("loss", row.loss, "nats", "nats per token");
///       }
///     };
///
/// Fields are std::string, std::int64_t, double, or an std::optional of the first two. A double that is NaN and an
/// empty optional are missing cells. Reading is lenient: a column or cell that is missing leaves NaN, 0, "" or an empty
/// optional, and numbers and texts are converted. `column(…, kNeeded)` is not: the column has to be there, and so has
/// each integer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "artifact/table.h"
#include "support/missing.h"

namespace pe::schema {

using support::kMissing;

enum Need { kLenient, kNeeded };

struct Column {
  std::string name;
  artifact::ColumnType type = artifact::ColumnType::kReal;
  std::string unit;
  std::string meaning;
};

struct Layout {
  std::string name;
  std::string meaning;
  std::vector<Column> columns;
};

/// The model whose rows a table has: in front of every row of an evaluation.
struct Identity {
  std::string run_id;
  std::string pe;
  std::optional<std::int64_t> seed;
  std::optional<std::int64_t> step;

  template <typename Row, typename Visitor>
  static void columns(Row& row, Visitor& column) {
    column("run_id", row.run_id, "",
           "first 12 digits of the model's content digest; with -ema or -best where these weights of it were measured, "
           "and with the encoding that was laid over them");
    column("pe", row.pe, "", "encoding");
    column("seed", row.seed, "", "seed of the model");
    column("step", row.step, "steps", "optimizer step of the model");
  }
};

/// NaN where there is none.
inline double real_of(const std::optional<std::int64_t>& value) {
  return value ? static_cast<double>(*value) : kMissing;
}

namespace detail {

template <typename Field>
struct ColumnTypeOf;
template <>
struct ColumnTypeOf<double> {
  static constexpr artifact::ColumnType value = artifact::ColumnType::kReal;
};
template <>
struct ColumnTypeOf<std::int64_t> {
  static constexpr artifact::ColumnType value = artifact::ColumnType::kInteger;
};
template <>
struct ColumnTypeOf<std::string> {
  static constexpr artifact::ColumnType value = artifact::ColumnType::kText;
};
template <typename T>
struct ColumnTypeOf<std::optional<T>> : ColumnTypeOf<T> {};

artifact::Cell to_cell(double value);  ///< missing for NaN
inline artifact::Cell to_cell(std::int64_t value) { return value; }
inline artifact::Cell to_cell(const std::string& value) { return value; }
template <typename T>
artifact::Cell to_cell(const std::optional<T>& value) {
  return value;
}

void from_cell(const artifact::Cell& cell, double& value);
void from_cell(const artifact::Cell& cell, std::string& value);
void from_cell(const artifact::Cell& cell, std::int64_t& value);
void from_cell(const artifact::Cell& cell, std::optional<std::int64_t>& value);
void from_cell(const artifact::Cell& cell, std::optional<std::string>& value);
[[noreturn]] void no_integer(const std::string& where, std::size_t row, const std::string& name);  ///< ArtifactError

struct ColumnLister {
  std::vector<Column>& columns;
  template <typename Field>
  void operator()(const std::string& name, const Field&, const char* unit, const char* meaning, Need = kLenient) {
    columns.push_back({name, ColumnTypeOf<Field>::value, unit, meaning});
  }
};

struct CellWriter {
  std::vector<artifact::Cell>& cells;
  template <typename Field>
  void operator()(const std::string&, const Field& field, const char*, const char*, Need = kLenient) {
    cells.push_back(to_cell(field));
  }
};

struct ColumnFinder {
  const artifact::Table& table;
  std::vector<std::optional<std::size_t>>& places;
  template <typename Field>
  void operator()(const std::string& name, const Field&, const char*, const char*, Need need = kLenient) {
    places.push_back(need == kNeeded ? table.column(name) : table.find_column(name));
  }
};

template <typename Cells>
struct CellReader {
  const Cells& cell_at;  ///< number of the column → cell
  const std::string& where;
  std::size_t row = 0;
  std::size_t next = 0;
  template <typename Field>
  void operator()(const std::string& name, Field& field, const char*, const char*, Need need = kLenient) {
    const artifact::Cell cell = cell_at(next++);
    if (std::is_same_v<Field, std::int64_t> && need == kNeeded && cell.missing()) no_integer(where, row, name);
    from_cell(cell, field);
  }
};

}  // namespace detail

template <typename T>
std::vector<Column> columns_of() {
  std::vector<Column> columns;
  detail::ColumnLister lister{columns};
  const T row{};
  T::columns(row, lister);
  return columns;
}

template <typename T>
Layout layout_of() {
  return {T::kName, T::kMeaning, columns_of<T>()};
}

/// Appends the row's cells in the order of its columns.
template <typename T>
void append_cells(const T& row, std::vector<artifact::Cell>& cells) {
  detail::CellWriter writer{cells};
  T::columns(row, writer);
}

/// The row whose cells `cell_at` gives by the column's number. @throws ArtifactError where a needed integer is missing.
template <typename T, typename Cells>
T row_from(const Cells& cell_at, const std::string& where, std::size_t number) {
  T row;
  detail::CellReader<Cells> reader{cell_at, where, number};
  T::columns(row, reader);
  return row;
}

/// Rows of a table that was read, as structs.
template <typename T>
class Reader {
 public:
  /// @param table must live as long. @param where for messages.
  /// @throws ArtifactError that names the nearest column when a needed one is not there and there are rows.
  Reader(const artifact::Table& table, std::string where) : table_(table), where_(std::move(where)) {
    if (table_.rows() == 0) return;
    detail::ColumnFinder finder{table_, places_};
    const T row{};
    T::columns(row, finder);
  }
  std::size_t rows() const { return table_.rows(); }
  /// @throws ArtifactError when a needed integer is missing.
  T row(std::size_t number) const {
    const auto cell_at = [&](std::size_t column) {
      return places_[column] ? table_.cell(number, *places_[column]) : artifact::Cell();
    };
    return row_from<T>(cell_at, where_, number);
  }

 private:
  const artifact::Table& table_;
  std::string where_;
  std::vector<std::optional<std::size_t>> places_;
};

/// A table of these rows alone.
template <typename T>
artifact::Table plain_table_of(const std::vector<T>& rows) {
  std::vector<artifact::ColumnSpec> columns;
  for (const Column& column : columns_of<T>()) columns.push_back({column.name, column.type, column.unit});
  artifact::Table table(T::kName, std::move(columns));
  for (const T& row : rows) {
    std::vector<artifact::Cell> cells;
    append_cells(row, cells);
    table.add_row(std::move(cells));
  }
  return table;
}

/// A table of these rows, each behind the identity of its model.
template <typename T>
artifact::Table table_of(const std::vector<T>& rows, const Identity& identity) {
  std::vector<artifact::ColumnSpec> columns;
  for (const Column& column : columns_of<Identity>()) columns.push_back({column.name, column.type, column.unit});
  for (const Column& column : columns_of<T>()) columns.push_back({column.name, column.type, column.unit});
  artifact::Table table(T::kName, std::move(columns));
  for (const T& row : rows) {
    std::vector<artifact::Cell> cells;
    append_cells(identity, cells);
    append_cells(row, cells);
    table.add_row(std::move(cells));
  }
  return table;
}

}  // namespace pe::schema

#include "artifact/table.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <set>

#include "artifact/h5.h"
#include "artifact/header.h"
#include "artifact/misuse.h"
#include "support/error.h"
#include "support/parse_json.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::artifact {

using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

constexpr int kTableFormat = 1;

std::optional<ColumnType> find_column_type(std::string_view name) {
  for (const ColumnType type : {ColumnType::kInteger, ColumnType::kReal, ColumnType::kText}) {
    if (column_type_name(type) == name) return type;
  }
  return std::nullopt;
}

bool valid_name(const std::string& name) {
  return !name.empty() && name.find('/') == std::string::npos && name.find('\0') == std::string::npos && name != "." &&
         name != "missing";
}

}  // namespace

std::string_view column_type_name(ColumnType type) {
  switch (type) {
    case ColumnType::kInteger:
      return "integer";
    case ColumnType::kReal:
      return "real";
    case ColumnType::kText:
      return "text";
  }
  return "?";
}

Table::Table(std::string name, std::vector<ColumnSpec> columns)
    : name_(std::move(name)), columns_(std::move(columns)), data_(columns_.size()) {
  if (!valid_name(name_)) bug(cat("a table cannot be named ", quote(name_)));
  std::set<std::string> seen;
  for (const ColumnSpec& column : columns_) {
    if (!valid_name(column.name) || !seen.insert(column.name).second) {
      bug(cat("table ", name_, ": column ", quote(column.name), " has an invalid or duplicate name"));
    }
  }
}

void Table::add_row(std::vector<Cell> cells) {
  if (cells.size() != columns_.size()) {
    bug(cat("table ", name_, ": a row of ", cells.size(), " cells for ", columns_.size(), " columns"));
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto& value = cells[i].value();
    const ColumnType type = columns_[i].type;
    const bool fits = cells[i].missing() ||
                      (type == ColumnType::kInteger && std::holds_alternative<std::int64_t>(value)) ||
                      (type == ColumnType::kReal && !std::holds_alternative<std::string>(value)) ||
                      (type == ColumnType::kText && std::holds_alternative<std::string>(value));
    if (!fits)
      bug(cat("table ", name_, ": column ", quote(columns_[i].name), " holds ", column_type_name(type),
              ", the cell does not"));
  }
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const auto& value = cells[i].value();
    Data& data = data_[i];
    data.missing.push_back(cells[i].missing());
    switch (columns_[i].type) {
      case ColumnType::kInteger:
        data.integers.push_back(cells[i].missing() ? 0 : std::get<std::int64_t>(value));
        break;
      case ColumnType::kReal:
        data.reals.push_back(cells[i].missing() ? std::numeric_limits<double>::quiet_NaN()
                             : std::holds_alternative<double>(value)
                                 ? std::get<double>(value)
                                 : static_cast<double>(std::get<std::int64_t>(value)));
        break;
      case ColumnType::kText:
        data.texts.push_back(cells[i].missing() ? std::string() : std::get<std::string>(value));
        break;
    }
  }
  ++rows_;
}

std::optional<std::size_t> Table::find_column(std::string_view name) const {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (columns_[i].name == name) return i;
  }
  return std::nullopt;
}

std::size_t Table::column(std::string_view name) const {
  if (const auto found = find_column(name)) return *found;
  std::vector<std::string> names;
  for (const ColumnSpec& column : columns_) names.push_back(column.name);
  throw ArtifactError(cat("table ", quote(name_), " has no column ", quote(name)), support::suggestion(name, names));
}

Cell Table::cell(std::size_t row, std::size_t column) const {
  const Data& data = data_[column];
  if (data.missing[row]) return {};
  switch (columns_[column].type) {
    case ColumnType::kInteger:
      return data.integers[row];
    case ColumnType::kReal:
      return data.reals[row];
    case ColumnType::kText:
      return data.texts[row];
  }
  return {};
}

namespace {

[[noreturn]] void wrong_type(const Table& table, std::string_view column, ColumnType expected, ColumnType found) {
  throw ArtifactError(cat("table ", quote(table.name()), ", column ", quote(column), ": expected ",
                          column_type_name(expected), ", found ", column_type_name(found)));
}

}  // namespace

const std::vector<std::int64_t>& Table::integers(std::string_view name) const {
  const std::size_t at = column(name);
  if (columns_[at].type != ColumnType::kInteger) wrong_type(*this, name, ColumnType::kInteger, columns_[at].type);
  return data_[at].integers;
}

std::vector<double> Table::reals(std::string_view name) const {
  const std::size_t at = column(name);
  if (columns_[at].type == ColumnType::kReal) return data_[at].reals;
  if (columns_[at].type == ColumnType::kText) wrong_type(*this, name, ColumnType::kReal, ColumnType::kText);
  std::vector<double> values(rows_);
  for (std::size_t i = 0; i < rows_; ++i) {
    values[i] =
        data_[at].missing[i] ? std::numeric_limits<double>::quiet_NaN() : static_cast<double>(data_[at].integers[i]);
  }
  return values;
}

const std::vector<std::string>& Table::texts(std::string_view name) const {
  const std::size_t at = column(name);
  if (columns_[at].type != ColumnType::kText) wrong_type(*this, name, ColumnType::kText, columns_[at].type);
  return data_[at].texts;
}

std::vector<bool> Table::present(std::string_view name) const {
  const Data& data = data_[column(name)];
  std::vector<bool> present(rows_);
  for (std::size_t i = 0; i < rows_; ++i) present[i] = data.missing[i] == 0;
  return present;
}

const Table* Tables::find(std::string_view name) const {
  for (const Table& table : tables) {
    if (table.name() == name) return &table;
  }
  return nullptr;
}

const Table& Tables::at(std::string_view name) const {
  if (const Table* table = find(name)) return *table;
  std::vector<std::string> names;
  for (const Table& table : tables) names.push_back(table.name());
  throw ArtifactError(cat("there is no table ", quote(name)), support::suggestion(name, names));
}

/// Tables to groups and back; a friend, since it fills columns whole.
struct TableIo {
  static void write(h5::Group& tables, const Table& table) {
    h5::Group group = tables.create_group(table.name());
    std::vector<std::string> order;
    for (const ColumnSpec& column : table.columns()) order.push_back(column.name);
    group.set_integer("rows", static_cast<std::int64_t>(table.rows()));
    group.write_text("columns", Json(order).dump());
    group.write_text("attributes", Json(table.attributes).dump());
    for (std::size_t i = 0; i < table.columns_.size(); ++i) {
      const ColumnSpec& spec = table.columns_[i];
      const Table::Data& data = table.data_[i];
      const std::string name = "data/" + spec.name;
      h5::Dataset written = spec.type == ColumnType::kInteger ? group.write(name, data.integers)
                            : spec.type == ColumnType::kReal  ? group.write(name, data.reals)
                                                              : group.write_texts(name, data.texts);
      written.set_text("type", column_type_name(spec.type));
      written.set_text("unit", spec.unit);
      if (std::find(data.missing.begin(), data.missing.end(), 1) != data.missing.end()) {
        group.write("missing/" + spec.name, data.missing);
      }
    }
  }

  static Table read(const h5::Group& group, const std::string& name) {
    const Json order = support::parse_json(group.read_text("columns"));
    const Json attributes = support::parse_json(group.read_text("attributes"));
    const std::int64_t rows = group.integer("rows");
    std::vector<ColumnSpec> specs;
    std::vector<h5::Dataset> columns;  // opened once: opening takes longer than reading
    std::set<std::string> seen;
    if (!order.is_array() || !attributes.is_object() || rows < 0) {
      throw ArtifactError(cat(group.where(), ": 'columns', 'attributes' or 'rows' has the wrong type"));
    }
    const h5::Group data_group = order.empty() ? group : group.open_group("data");  // its name is looked up once
    for (const Json& item : order) {
      if (!item.is_string() || !valid_name(item.get<std::string>()) || !seen.insert(item.get<std::string>()).second) {
        throw ArtifactError(cat(group.where(), ": 'columns' holds an invalid or duplicate name"));
      }
      const h5::Dataset column = data_group.open_dataset(item.get<std::string>());
      const std::string word = column.text("type");
      const auto type = find_column_type(word);
      if (!type) throw ArtifactError(cat(column.where(), ": unknown column type ", quote(word)));
      specs.push_back({item.get<std::string>(), *type, column.text("unit")});
      columns.push_back(column);
    }
    if (rows > 0 && specs.empty()) throw ArtifactError(cat(group.where(), ": has ", rows, " rows and no column"));
    Table table(name, specs);
    table.rows_ = static_cast<std::size_t>(rows);
    for (const auto& [key, value] : attributes.items()) {
      if (value.is_string()) table.attributes[key] = value.get<std::string>();
    }
    const h5::Shape shape{static_cast<std::uint64_t>(rows)};
    std::optional<h5::Group> missing;
    std::vector<std::string> with_missing;  // sorted
    if (group.has("missing")) {
      missing = group.open_group("missing");
      with_missing = missing->names();
    }
    for (std::size_t i = 0; i < specs.size(); ++i) {
      Table::Data& data = table.data_[i];
      const h5::Dataset& column = columns[i];
      switch (specs[i].type) {
        case ColumnType::kInteger:
          column.require(h5::Type::kI64, shape);
          data.integers = column.read<std::int64_t>();
          break;
        case ColumnType::kReal:
          column.require(h5::Type::kF64, shape);
          data.reals = column.read<double>();
          break;
        case ColumnType::kText:
          column.require(h5::Type::kText, shape);
          data.texts = column.read_texts();
          break;
      }
      if (std::binary_search(with_missing.begin(), with_missing.end(), specs[i].name)) {
        const h5::Dataset marks = missing->open_dataset(specs[i].name);
        marks.require(h5::Type::kU8, shape);
        data.missing = marks.read<std::uint8_t>();
      } else {
        data.missing.assign(table.rows_, 0);
      }
    }
    return table;
  }
};

void write_tables(const std::filesystem::path& path, Kind kind, const Recipe& recipe, const Tables& tables) {
  write_artifact(path, kind, kTableFormat, recipe, [&](h5::Group& root) {
    root.write_text("facts", tables.facts.dump());
    std::vector<std::string> order;
    for (const Table& table : tables.tables) order.push_back(table.name());
    root.write_text("order", Json(order).dump());
    h5::Group group = root.create_group("tables");
    for (const Table& table : tables.tables) TableIo::write(group, table);
  });
}

Tables read_tables(const std::filesystem::path& path, Kind kind) { return read_tables(h5::File::open(path), kind); }

Tables read_tables(const h5::File& file, Kind kind) {
  const std::filesystem::path& path = file.path();
  require_kind(file, kind, kTableFormat);
  const h5::Group root = file.root();
  Tables tables;
  tables.facts = support::parse_json(root.read_text("facts"));
  const Json order = support::parse_json(root.read_text("order"));
  if (tables.facts.is_discarded() || !order.is_array()) {
    throw ArtifactError(cat(quote(path.string()), ": /facts or /order holds unexpected JSON"));
  }
  const h5::Group group = root.open_group("tables");
  std::set<std::string> seen;
  for (const Json& name : order) {
    if (!name.is_string() || !valid_name(name.get<std::string>()) || !seen.insert(name.get<std::string>()).second) {
      throw ArtifactError(cat(quote(path.string()), ": /order holds an invalid or duplicate name"));
    }
    tables.tables.push_back(TableIo::read(group.open_group(name.get<std::string>()), name.get<std::string>()));
  }
  return tables;
}

}  // namespace pe::artifact

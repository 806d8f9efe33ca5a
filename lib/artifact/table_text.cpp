#include "artifact/table_text.h"

#include <algorithm>
#include <set>
#include <type_traits>

#include "support/escaped.h"
#include "support/text.h"

namespace pe::artifact {

using support::cat;
using support::display_width;

namespace {

/// A longer text is no cell, but a passage.
constexpr std::size_t kLongestCell = 32;

std::string cell_text(const Cell& cell) {
  return std::visit(
      [](const auto& value) -> std::string {
        using Value = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<Value, std::monostate>) return "-";
        if constexpr (std::is_same_v<Value, std::int64_t>) return std::to_string(value);
        if constexpr (std::is_same_v<Value, double>) return fmt::format("{:.4g}", value);
        if constexpr (std::is_same_v<Value, std::string>) return support::escaped(value);
      },
      cell.value());
}

/// The rows that are shown: all, or as many of the first as of the last.
struct Shown {
  explicit Shown(std::size_t rows, std::size_t most)
      : first(rows <= most ? rows : (most + 1) / 2), last_from(rows <= most ? rows : rows - most / 2), rows(rows) {}
  std::size_t first, last_from, rows;
  template <typename Use, typename Gap>
  void each(const Use& use, const Gap& gap) const {
    for (std::size_t row = 0; row < first; ++row) use(row);
    if (last_from > first) gap(last_from - first);
    for (std::size_t row = last_from; row < rows; ++row) use(row);
  }
};

struct TextColumn {
  std::size_t number = 0;
  ColumnType type = ColumnType::kText;  ///< text is flush left
  std::string name;
  std::vector<std::string> cells;
  std::size_t width = 0;
};

/// The columns of a table, by how they are shown.
struct Columns {
  std::vector<TextColumn> shared;     ///< one value in all rows
  std::vector<TextColumn> differing;  ///< the others, of short values
  std::vector<TextColumn> keys;       ///< the first differing ones: they identify a row
  std::vector<TextColumn> passages;
};

/// The first columns of integers and texts that tell all rows apart.
std::vector<TextColumn> keys_of(const std::vector<TextColumn>& differing, std::size_t rows) {
  std::vector<TextColumn> keys;
  std::vector<std::string> names(rows);
  for (const TextColumn& column : differing) {
    if (column.type == ColumnType::kReal) continue;
    keys.push_back(column);
    for (std::size_t row = 0; row < names.size(); ++row) names[row] += cat("\n", column.cells[row]);
    if (std::set<std::string>(names.begin(), names.end()).size() == names.size()) break;
  }
  return keys;
}

Columns columns_of(const Table& table) {
  Columns columns;
  for (std::size_t number = 0; number < table.columns().size(); ++number) {
    const ColumnSpec& spec = table.columns()[number];
    TextColumn column{number, spec.type, support::escaped(spec.name), {}, 0};
    std::size_t longest = 0;
    bool shared = true;
    for (std::size_t row = 0; row < table.rows(); ++row) {
      column.cells.push_back(cell_text(table.cell(row, number)));
      longest = std::max(longest, display_width(column.cells.back()));
      shared = shared && column.cells.back() == column.cells.front();
    }
    column.width = std::max(longest, display_width(column.name));
    const bool passage = spec.type == ColumnType::kText &&
                         (spec.name == "prompt" || spec.name == "text" || (!shared && longest > kLongestCell));
    (passage ? columns.passages : shared ? columns.shared : columns.differing).push_back(std::move(column));
  }
  columns.keys = keys_of(columns.differing, table.rows());
  return columns;
}

std::string padded(const TextColumn& column, const std::string& cell) {
  const std::string blanks(column.width - std::min(column.width, display_width(cell)), ' ');
  return column.type == ColumnType::kText ? cell + blanks : blanks + cell;
}

std::string line_of(const std::vector<TextColumn>& columns, const std::vector<std::string>& cells) {
  std::string line;
  for (std::size_t i = 0; i < columns.size(); ++i) line += "  " + padded(columns[i], cells[i]);
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

std::size_t width_of(const std::vector<TextColumn>& columns) {
  std::size_t width = 0;
  for (const TextColumn& column : columns) width += 2 + column.width;
  return width;
}

std::string block_text(const std::vector<TextColumn>& columns, const TableLayout& layout) {
  std::vector<std::string> names;
  for (const TextColumn& column : columns) names.push_back(column.name);
  std::string out = line_of(columns, names);
  Shown(columns.front().cells.size(), layout.rows)
      .each(
          [&](std::size_t row) {
            std::vector<std::string> cells;
            for (const TextColumn& column : columns) cells.push_back(column.cells[row]);
            out += line_of(columns, cells);
          },
          [&](std::size_t left_out) { out += cat("  … ", left_out, left_out == 1 ? " more row\n" : " more rows\n"); });
  return out;
}

/// "  run_id 1a2b, seed 42", in lines that fit.
std::string shared_text(const std::vector<TextColumn>& shared, const TableLayout& layout) {
  std::string out, line;
  for (const TextColumn& column : shared) {
    const std::string part = column.name + " " + column.cells.front();
    if (!line.empty() && 2 + display_width(line) + 2 + display_width(part) > layout.columns) {
      out += "  " + line + ",\n";
      line.clear();
    }
    line += (line.empty() ? "" : ", ") + part;
  }
  return line.empty() ? out : out + "  " + line + "\n";
}

/// The rows, in as many blocks of columns as the width needs; each block begins with the keys.
std::string blocks_text(const Columns& columns, const TableLayout& layout) {
  const bool repeats = 2 * width_of(columns.keys) <= layout.columns;
  std::string out;
  std::vector<TextColumn> block;
  for (const TextColumn& column : columns.differing) {
    const auto is_key = [&](const TextColumn& key) { return key.number == column.number; };
    if (!block.empty() && width_of(block) + 2 + column.width > layout.columns) {
      out += block_text(block, layout) + "\n";
      block.clear();
      if (repeats && std::none_of(columns.keys.begin(), columns.keys.end(), is_key)) block = columns.keys;
    }
    block.push_back(column);
  }
  return block.empty() ? out : out + block_text(block, layout);
}

std::string passages_text(const Table& table, const Columns& columns, const TableLayout& layout) {
  if (columns.passages.empty()) return "";
  std::string out;
  const auto add = [&](std::size_t row) {
    std::vector<std::string> names;
    for (const TextColumn& key : columns.keys)
      names.push_back((key.type == ColumnType::kText ? "" : key.name + " ") + key.cells[row]);
    out += cat(out.empty() ? "" : "\n", names.empty() ? cat("row ", row) : support::join(names, ", "), "\n");
    for (const TextColumn& column : columns.passages) {
      const Cell cell = table.cell(row, column.number);
      const auto* text = std::get_if<std::string>(&cell.value());
      std::string lines;
      for (const std::string& line : support::split(text ? *text : "-", '\n'))
        lines += cat(lines.empty() || line.empty() ? "" : "    ", support::escaped(line), "\n");
      out += cat("  ", column.name, ": ", lines);
    }
  };
  Shown(table.rows(), layout.rows).each(add, [&](std::size_t left_out) { out += cat("\n… ", left_out, " more\n"); });
  return out;
}

}  // namespace

std::string table_text(const Table& table, const TableLayout& layout) {
  const auto rows = static_cast<std::int64_t>(table.rows());
  std::string out =
      cat(support::escaped(table.name()), ": ", support::with_commas(rows), rows == 1 ? " row\n" : " rows\n");
  if (table.rows() == 0) return out;
  const Columns columns = columns_of(table);
  out += shared_text(columns.shared, layout) + blocks_text(columns, layout);
  const std::string passages = passages_text(table, columns, layout);
  return passages.empty() ? out : out + "\n" + passages;
}

std::string tables_text(const Tables& tables, const TableLayout& layout) {
  std::vector<std::string> texts;
  for (const bool first : {true, false}) {
    for (const Table& table : tables.tables) {
      if ((table.name() == "lm_summary") == first) texts.push_back(table_text(table, layout));
    }
  }
  return support::join(texts, "\n");
}

std::string passages_text(const Table& table, const TableLayout& layout) {
  return table.rows() == 0 ? "" : passages_text(table, columns_of(table), layout);
}

}  // namespace pe::artifact

/// @file
/// A table before it is text: typed columns, numbers with their known uncertainty, and reasons where there is no
/// number. CSV has full precision; Markdown, LaTeX and HTML have the digits that a reader should see. A missing number
/// is never 0 and never blank: it is "–", "n/a" or "overflow", and its reason is below the table.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "statistics/estimates.h"
#include "support/json.h"

namespace pe::report {

/// How numbers of a column are printed.
enum class NumberStyle {
  kPerplexity,  ///< 2 decimals below 100, else 3 significant digits; more where an interval deserves them
  kNats,        ///< 4 decimals, also bits per byte
  kSignedNats,  ///< the same with a sign
  kPercent,     ///< a share in percent with 1 decimal
  kSignedPercent,
  kProbability,  ///< p values: 3 decimals, "<0.001"
  kCount,        ///< whole, with thousands separators
  kTokens,       ///< "1.21B"
};

enum class Direction { kNone, kLowerIsBetter, kHigherIsBetter };

struct Column {
  std::string id;  ///< in CSV and report.json; unique in a table
  std::string header;
  std::string group;  ///< neighbours of one group share a header above
  std::string note;   ///< in brackets behind the header
  bool text = false;
  NumberStyle style = NumberStyle::kNats;
  Direction direction = Direction::kNone;  ///< an arrow in the header
};

struct Cell {
  std::string text;    ///< of a text column; else the mark of a missing number
  std::string reason;  ///< why a number is missing
  std::optional<double> number;
  std::optional<double> half_width;              ///< shown as ±
  std::optional<statistics::Interval> interval;  ///< shown in brackets
  std::vector<double> parts;                     ///< single values of a mean or median without an interval
  bool best = false;                             ///< shown in bold
  bool few = false;                              ///< from fewer than 30 documents, trials or items: shown with a dagger

  static Cell of_text(std::string text);
  static Cell of_number(double number);                       ///< not finite: a missing number, "overflow" or "n/a"
  static Cell missing(std::string mark, std::string reason);  ///< mark is such as "n/a"
  static Cell of_known(double number, std::string reason);    ///< not finite: "–", for that reason
};

struct Row {
  std::vector<Cell> cells;
  bool rule_above = false;  ///< begins a group of rows
  std::string variant;      ///< whose row it is, for the page, where no column says it
  /// Behind its numbers: places in Results::runs. Not set: all runs of its encoding, variant and seed.
  std::optional<std::vector<std::size_t>> runs;
  std::vector<std::size_t> trainings;  ///< behind its numbers: places in Results::curves
};

struct Table {
  std::string id;  ///< file name without its ending
  std::string title;
  std::string caption;
  std::vector<Column> columns;
  std::vector<Row> rows;
};

/// Display columns of the longest cell of a text column; 0 for a column of numbers.
std::size_t longest_text(const Table& table, std::size_t column);
/// Whether a column has sentences, which wrap.
bool is_long_text(const Table& table, std::size_t column);
/// " ↓", " ↑", or nothing.
std::string arrow_of(Direction direction);
/// "512 (4×) ↓ [383]".
std::string header_text(const Column& column);
/// A p value with so many decimals, and with more where rounding would move it across 0.05.
std::string p_text(double p, int decimals);
/// A number as its column shows it, without uncertainty; "−" for minus. A perplexity has two digits of `half_width` or
/// more.
std::string format_number(double value, NumberStyle style,
                          double half_width = std::numeric_limits<double>::quiet_NaN());
/// Half of its interval, or of the range of its single values. NaN without either.
double half_width_of(const Cell& cell);
/// The single values of a cell, without brackets; more than five as "16 seeds, 0.0 to 100.0".
std::string parts_text(const Cell& cell, const Column& column);
/// A cell as plain text: "12.34 ± 0.20", "12.40 (12.34, 12.46)", "−0.0123 [−0.0150, −0.0091]", "overflow".
std::string format_cell(const Cell& cell, const Column& column);
/// "overflow: rope (seed 42), L = 1,024: …", one for each missing number, equal reasons joined.
std::vector<std::string> table_notes(const Table& table);

std::string to_csv(const Table& table);  ///< RFC 4180, "\r\n"; a column each for bounds and half widths in use
std::string to_markdown(const Table& table);
/// booktabs and siunitx S columns, each followed by the number's interval or seeds. Where columns are many, each group
/// has a tabular, shrunk to the width of the line where it is wider.
std::string to_latex(const Table& table);
/// The title as a sentence: "Which encoding?", "Perplexity against context length.".
std::string title_sentence(const Table& table);
/// For a paper: without the columns and rows of other protocols. A table that has nothing of `protocol` keeps its
/// columns and rows.
Table with_protocol(Table table, const std::string& protocol, const std::vector<std::string>& protocols);
std::string to_html(const Table& table);  ///< a <figure> with table and notes
Json to_json(const Table& table);

}  // namespace pe::report

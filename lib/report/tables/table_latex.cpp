// Tables for papers: booktabs, numbers in siunitx's S columns, and their known uncertainty in the column after them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "report/tables/table.h"
#include "report/text_escape.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;

constexpr std::size_t kNumbersAcross = 8;  // of a tabular that has groups to be split by
// Of the line's width: the share of all columns of sentences, and the least of each.
constexpr double kForSentences = 0.6, kNarrowest = 0.2;

// siunitx wants plain digits: no thousands separators, and a hyphen for minus.
std::string plain(std::string number) {
  if (const auto at = number.find("−"); at != std::string::npos) number.replace(at, std::string_view("−").size(), "-");
  number.erase(std::remove(number.begin(), number.end(), ','), number.end());
  return number;
}

// siunitx reads neither "<0.001" nor "1.21B": such numbers, and marks of missing ones, are braced text.
bool is_plain_number(const std::string& text) {
  return !text.empty() && text.find_first_not_of("+-0123456789.") == std::string::npos;
}

std::string shown_number(const Cell& cell, const Column& column) {
  return format_number(*cell.number, column.style, half_width_of(cell));
}

// The known uncertainty of a number: its interval, or the single seeds, and the mark of few items.
std::string uncertainty(const Cell& cell, const Column& column) {
  if (!cell.number) return "";
  std::vector<std::string> parts;
  if (cell.few) parts.emplace_back("$^\\dagger$");
  std::optional<statistics::Interval> interval = cell.interval;
  if (cell.half_width && std::isfinite(*cell.half_width))
    interval = statistics::Interval{*cell.number - *cell.half_width, *cell.number + *cell.half_width};
  const auto shown = [&](double value) {
    return escape_latex(format_number(value, column.style, half_width_of(cell)));
  };
  if (interval) parts.push_back(cat("[", shown(interval->low), ", ", shown(interval->high), "]"));
  if (!cell.parts.empty()) parts.push_back(cat("(", escape_latex(parts_text(cell, column)), ")"));
  return parts.empty() ? "" : cat("{\\scriptsize ", support::join(parts, " "), "}");
}

// A cell that begins a row must not look like the optional argument of the line break before it.
std::string guarded(const std::string& text) {
  return !text.empty() && (text[0] == '[' || text[0] == '*') ? "{}" + text : text;
}

// Some columns of a table as one tabular.
class Tabular {
 public:
  Tabular(const Table& table, std::vector<std::size_t> columns) : table_(table), columns_(std::move(columns)) {
    for (const std::size_t i : columns_) {
      wide_.push_back(!table.columns[i].text && std::any_of(table.rows.begin(), table.rows.end(), [&](const Row& row) {
        return !uncertainty(row.cells[i], table.columns[i]).empty();
      }));
    }
  }

  std::string render() const {
    std::string spec;
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      if (is_long_text(table_, columns_[k]))
        spec += wrapped(columns_[k]);
      else
        spec += table_.columns[columns_[k]].text ? "l" : format(columns_[k]) + (wide_[k] ? "@{\\,}l" : "");
    }
    // Shrunk only where it is wider than its column of text.
    std::string text =
        cat("\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%\n\\begin{tabular}{", spec,
            "}\n\\toprule\n", groups(), headers(), "\\midrule\n");
    for (std::size_t r = 0; r < table_.rows.size(); ++r) {
      if (table_.rows[r].rule_above && r > 0) text += "\\midrule\n";
      text += row(table_.rows[r]);
    }
    return text + "\\bottomrule\n\\end{tabular}}\n";
  }

 private:
  // Sentences in one line would be shrunk with the whole table until they cannot be read. Longer ones have more room.
  std::string wrapped(std::size_t column) const {
    double all = 0;
    for (const std::size_t other : columns_)
      all += is_long_text(table_, other) ? static_cast<double>(longest_text(table_, other)) : 0;
    const double width = std::max(kNarrowest, kForSentences * static_cast<double>(longest_text(table_, column)) / all);
    return cat(">{\\raggedright\\arraybackslash}p{", fmt::format("{:.2f}", width), "\\linewidth}");
  }

  // An S column needs its widest number: digits before the point and behind it.
  std::string format(std::size_t column) const {
    std::size_t whole = 1, decimals = 0;
    bool sign = false;
    for (const Row& row : table_.rows) {
      if (!row.cells[column].number) continue;
      std::string number = plain(shown_number(row.cells[column], table_.columns[column]));
      if (!is_plain_number(number)) continue;
      if (number[0] == '+' || number[0] == '-') {
        sign = true;
        number.erase(0, 1);
      }
      const auto point = number.find('.');
      whole = std::max(whole, std::min(point, number.size()));
      if (point != std::string::npos) decimals = std::max(decimals, number.size() - point - 1);
    }
    return cat("S[table-format=", sign ? "+" : "", whole, ".", decimals, "]");
  }

  std::string groups() const {
    std::string text, rules;
    bool any = false;
    std::size_t at = 1;
    for (std::size_t k = 0; k < columns_.size();) {
      const std::string& group = table_.columns[columns_[k]].group;
      std::size_t end = k, across = 0;
      do {
        across += wide_[end] ? 2 : 1;
        ++end;
      } while (end < columns_.size() && !group.empty() && table_.columns[columns_[end]].group == group);
      text += k > 0 ? " & " : "";
      if (!group.empty()) {
        any = true;
        text += cat("\\multicolumn{", across, "}{c}{", escape_latex(group), "}");
        rules += cat("\\cmidrule(lr){", at, "-", at + across - 1, "}");
      } else {
        for (std::size_t extra = 1; extra < across; ++extra) text += " & ";
      }
      at += across;
      k = end;
    }
    return any ? cat(text, " \\\\\n", rules, "\n") : "";
  }

  std::string headers() const {
    std::string text;
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      const Column& column = table_.columns[columns_[k]];
      const std::string header = escape_latex(header_text(column));
      text += cat(k ? " & " : "", wide_[k] ? cat("\\multicolumn{2}{c}{", header, "}") : cat("{", header, "}"));
    }
    return text + " \\\\\n";
  }

  std::string row(const Row& row) const {
    std::string text;
    for (std::size_t k = 0; k < columns_.size(); ++k) {
      const Cell& cell = row.cells[columns_[k]];
      const Column& column = table_.columns[columns_[k]];
      text += k ? " & " : "";
      if (column.text) {
        text += k ? escape_latex(cell.text) : guarded(escape_latex(cell.text));
        continue;
      }
      const std::string number = cell.number ? plain(shown_number(cell, column)) : "";
      if (!cell.number)
        text += cat("{", escape_latex(cell.text), "}");
      else if (is_plain_number(number))
        text += cat(cell.best ? "\\bfseries " : "", number);
      else
        text += cat("{", escape_latex(shown_number(cell, column)), "}");
      if (wide_[k]) text += " & " + uncertainty(cell, column);
    }
    return text + " \\\\\n";
  }

  const Table& table_;
  std::vector<std::size_t> columns_;
  std::vector<bool> wide_;  ///< of each column: its uncertainty has the next column
};

// All columns together, or where they are many a tabular for each group, each with the columns that name the rows.
std::vector<std::vector<std::size_t>> parts_of(const Table& table) {
  std::vector<std::size_t> all, names;
  std::vector<std::string> groups;
  std::size_t numbers = 0;
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    all.push_back(i);
    numbers += !table.columns[i].text;
    if (table.columns[i].group.empty())
      names.push_back(i);
    else if (groups.empty() || groups.back() != table.columns[i].group)
      groups.push_back(table.columns[i].group);
  }
  if (numbers <= kNumbersAcross || groups.size() < 2) return {all};
  std::vector<std::vector<std::size_t>> parts;
  for (const std::string& group : groups) {
    std::vector<std::size_t> own;
    for (const std::size_t i : all) {
      if (table.columns[i].group == group || table.columns[i].group.empty()) own.push_back(i);
    }
    parts.push_back(std::move(own));
  }
  return parts;
}

}  // namespace

std::string to_latex(const Table& table) {
  // A caption is short; the text that it leaves out is below the table. Wide tables, and those with sentences, span
  // both columns of a paper that has two.
  constexpr std::size_t kColumnsOfOne = 6;
  bool wide = false;
  for (std::size_t i = 0; i < table.columns.size(); ++i) wide = wide || is_long_text(table, i);
  for (const auto& columns : parts_of(table)) wide = wide || columns.size() > kColumnsOfOne;
  const std::string place = wide ? "table*" : "table";
  std::string text =
      cat("% Needs \\usepackage{booktabs,siunitx,graphicx} and, with pdflatex, \\usepackage[T1]{fontenc}.\n"
          "% Bold numbers: \\sisetup{detect-weight=true,mode=text}.\n",
          "\\begin{", place, "}\n\\centering\n\\caption{", escape_latex(title_sentence(table)),
          "}\n\\label{tab:", table.id, "}\n");
  bool first = true;
  for (const auto& columns : parts_of(table)) {
    text += first ? "" : "\n\\medskip\n\n";
    text += Tabular(table, columns).render();
    first = false;
  }
  if (!table.caption.empty()) text += cat("\n\\par\\smallskip\\footnotesize ", escape_latex(table.caption), "\n");
  for (const std::string& note : table_notes(table))
    text += cat("\n\\par\\smallskip\\footnotesize ", escape_latex(note), "\n");
  return text + cat("\\end{", place, "}\n");
}

}  // namespace pe::report

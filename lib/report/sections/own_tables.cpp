// Tables of users' stages: each with its first rows, and figures as the report's config asks for them.
#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "report/sections/section.h"
#include "schema/cells.h"
#include "support/error.h"
#include "support/suggest.h"
#include "support/text.h"

namespace pe::report {
namespace {

using support::cat;
using support::quote;

constexpr std::size_t kRowsShown = 30;
/// Columns that name the model; the report has such columns already.
const std::set<std::string> kIdentity{"run_id", "pe", "seed", "step"};

/// A figure that the config asks for, and its text.
struct FigureSpec {
  std::string text, table, x, y, series, facet;
};

FigureSpec parse_figure(const std::string& text) {
  FigureSpec spec{.text = text, .table = {}, .x = {}, .y = {}, .series = {}, .facet = {}};
  const std::vector<std::pair<std::string, std::string FigureSpec::*>> keys{{"table", &FigureSpec::table},
                                                                            {"x", &FigureSpec::x},
                                                                            {"y", &FigureSpec::y},
                                                                            {"series", &FigureSpec::series},
                                                                            {"facet", &FigureSpec::facet}};
  std::vector<std::string> names;
  for (const auto& [name, member] : keys) names.push_back(name);
  for (const std::string& word : support::split(text, ' ')) {
    if (word.empty()) continue;
    const auto equals = word.find('=');
    const std::string name = word.substr(0, equals);
    const auto key = std::find_if(keys.begin(), keys.end(), [&](const auto& one) { return one.first == name; });
    if (equals == std::string::npos || key == keys.end())
      throw support::ConfigError(cat("expected 'table=', 'x=', 'y=', 'series=' or 'facet=' in 'figures', but found ",
                                     quote(word), " in ", quote(text)),
                                 {}, support::suggestion(name, names));
    spec.*key->second = word.substr(equals + 1);
  }
  if (spec.table.empty() || spec.x.empty() || spec.y.empty())
    throw support::ConfigError(cat("a figure of 'figures' needs 'table=', 'x=' and 'y=', but found ", quote(text)), {},
                               "for example 'table=my_entropy x=distance y=entropy series=head facet=layer'");
  return spec;
}

/// Values of one line: seed → x → sum and count of its rows.
using SeriesPoints = std::map<std::string, std::map<double, std::pair<double, double>>>;

/// "layer 2" before "layer 10": a number at the end counts as one.
struct NumbersLast {
  bool operator()(const std::string& a, const std::string& b) const {
    const auto [words_a, number_a] = parts(a);
    const auto [words_b, number_b] = parts(b);
    return std::tie(words_a, number_a, a) < std::tie(words_b, number_b, b);
  }
  static std::pair<std::string, double> parts(const std::string& name) {
    const auto space = name.rfind(' ');
    const auto number = space == std::string::npos ? std::nullopt : support::parse_real(name.substr(space + 1));
    return number && std::isfinite(*number) ? std::pair(name.substr(0, space), *number) : std::pair(name, 0.0);
  }
};

class FigureMaker {
 public:
  FigureMaker(const Results& results, FigureSpec spec, Palette& palette)
      : results_(results), spec_(std::move(spec)), palette_(palette) {
    if (spec_.series.empty()) spec_.series = "encoding";
    if (spec_.facet.empty()) spec_.facet = spec_.series == "encoding" ? "variant" : "encoding";
    const auto tables = results_.tables.find(spec_.table);
    if (tables == results_.tables.end()) {
      std::vector<std::string> known;
      for (const auto& [name, gathered] : results_.tables) known.push_back(name);
      throw support::ConfigError(
          cat("'figures' names the table ", quote(spec_.table), ", which was not gathered (", quote(spec_.text), ")"),
          {}, support::suggestion(spec_.table, known));
    }
    std::set<std::string> encodings, variants;
    for (const GatheredTable& gathered : tables->second) {
      const Run& run = results_.runs[gathered.run];
      if (!run.selected) continue;
      encodings.insert(run.encoding);
      variants.insert(run.variant);
    }
    const auto named = [&](const char* key) { return spec_.series == key || spec_.facet == key; };
    by_encoding_ = encodings.size() > 1 && !named("encoding");
    by_variant_ = variants.size() > 1 && !named("variant");
    for (const GatheredTable& gathered : tables->second) read(gathered);
  }

  Figure make() const {
    Figure figure{.id = cat(spec_.table, "_", spec_.y),
                  .title = cat(spec_.y, " against ", spec_.x, ": ", spec_.table),
                  .x = {.title = spec_.x},
                  .y = {.title = spec_.y}};
    Palette own;  // of series that are no encodings
    for (const auto& [facet, lines] : facets_) {
      Panel panel{.title = facets_.size() > 1 || spec_.facet != "variant" ? facet : ""};
      for (const auto& [name, line] : lines)
        add(panel, name, line, spec_.series == "encoding" ? palette_.look(name) : own.look(name));
      if (!panel.series.empty()) figure.panels.push_back(std::move(panel));
    }
    figure.caption =
        cat("Mean over rows of each model, then over seeds; thin: single seeds; band: 95 % t interval over seeds, from "
            "three on. ",
            seeds_sentence(results_));
    figure.description =
        cat("Line chart of ", spec_.y, " against ", spec_.x, "; the values are in data/", spec_.table, ".csv.");
    return figure;
  }

 private:
  void read(const GatheredTable& gathered) {
    const artifact::Table& table = gathered.table;
    for (const std::string* name : {&spec_.x, &spec_.y, &spec_.series, &spec_.facet}) check_column(table, *name);
    const schema::CellReader cells(table);
    const Run& run = results_.runs[gathered.run];
    if (!run.selected) return;
    // Models are never joined to one line.
    std::vector<std::string> model;
    if (by_encoding_) model.push_back(run.encoding);
    if (by_variant_ && !run.variant.empty()) model.push_back(run.variant);
    const auto text = [&](std::size_t row, const std::string& column) {
      if (column == "encoding") return run.encoding;
      if (column == "variant") return run.variant;
      const std::string value = cells.text(row, column);
      return support::parse_real(value) ? cat(column, " ", value) : value;
    };
    for (std::size_t row = 0; row < table.rows(); ++row) {
      const double x = cells.real(row, spec_.x), y = cells.real(row, spec_.y);
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      std::vector<std::string> facet = model;
      if (std::string own = text(row, spec_.facet); !own.empty()) facet.push_back(std::move(own));
      auto& [sum, count] = facets_[support::join(facet, ", ")][text(row, spec_.series)][run.seed][x];
      sum += y;
      ++count;
    }
  }

  void check_column(const artifact::Table& table, const std::string& name) const {
    if (name == "encoding" || name == "variant" || table.find_column(name)) return;
    std::vector<std::string> known;
    for (const artifact::ColumnSpec& column : table.columns()) known.push_back(column.name);
    throw support::ConfigError(cat("'figures' names the column ", quote(name), ", which table ", quote(spec_.table),
                                   " does not have (", quote(spec_.text), ")"),
                               {}, support::suggestion(name, known));
  }

  static void add(Panel& panel, const std::string& name, const SeriesPoints& line, const Look& look) {
    std::set<double> all;  // places that every seed has
    bool first = true;
    for (const auto& [seed, values] : line) {
      std::set<double> own;
      for (const auto& [x, sum] : values) {
        if (first || all.count(x) != 0) own.insert(x);
      }
      all = std::move(own);
      first = false;
    }
    std::vector<std::string> seeds;
    std::vector<std::vector<double>> values;
    for (const auto& [seed, sums] : line) {
      seeds.push_back(seed);
      values.emplace_back();
      for (const double x : all) values.back().push_back(sums.at(x).first / sums.at(x).second);
    }
    if (all.empty()) return;
    add_arm_series(panel, Arm{name, "", {}}, look, seeds, {all.begin(), all.end()}, values,
                   [](double value) { return value; });
  }

  const Results& results_;
  FigureSpec spec_;
  Palette& palette_;
  bool by_encoding_ = false, by_variant_ = false;  // facets are of one encoding, of one variant
  template <typename T>
  using ByName = std::map<std::string, T, NumbersLast>;
  ByName<ByName<SeriesPoints>> facets_;  // facet → series
};

Cell cell_of(const artifact::Cell& cell) {
  if (const auto* whole = std::get_if<std::int64_t>(&cell.value())) return Cell::of_number(static_cast<double>(*whole));
  if (const auto* real = std::get_if<double>(&cell.value())) return Cell::of_number(*real);
  if (const auto* words = std::get_if<std::string>(&cell.value())) return Cell::of_text(*words);
  return Cell::missing("–", "the table has no value there");
}

Table table_of(const Results& results, const std::string& name, const std::vector<GatheredTable>& gathered) {
  Table table{.id = name, .title = name};
  table.columns = arm_columns(results);
  table.columns.push_back({.id = "seed", .header = "Seed", .text = true});
  std::vector<artifact::ColumnSpec> columns;
  for (const GatheredTable& one : gathered) {
    for (const artifact::ColumnSpec& column : one.table.columns()) {
      const bool known =
          std::any_of(columns.begin(), columns.end(), [&](const auto& own) { return own.name == column.name; });
      if (!known && kIdentity.count(column.name) == 0) columns.push_back(column);
    }
  }
  for (const artifact::ColumnSpec& column : columns) {
    table.columns.push_back(
        {.id = cat("own_", column.name),
         .header = column.unit.empty() ? column.name : cat(column.name, ", ", column.unit),
         .text = column.type == artifact::ColumnType::kText,
         .style = column.type == artifact::ColumnType::kInteger ? NumberStyle::kCount : NumberStyle::kNats});
  }
  std::size_t rows = 0;
  for (const GatheredTable& one : gathered) {
    const Run& run = results.runs[one.run];
    for (std::size_t r = 0; r < one.table.rows(); ++r) {
      if (rows++ >= kRowsShown) continue;
      Row row{.cells = arm_cells(results, {run.encoding, run.variant, {}}),
              .rule_above = r == 0 && !table.rows.empty()};
      row.cells.push_back(Cell::of_text(run.seed));
      for (const artifact::ColumnSpec& column : columns) {
        const auto at = one.table.find_column(column.name);
        row.cells.push_back(cell_of(at && !one.table.missing(r, *at) ? one.table.cell(r, *at) : artifact::Cell()));
      }
      table.rows.push_back(std::move(row));
    }
  }
  table.caption =
      cat(rows > kRowsShown ? cat("The first ", kRowsShown, " of ", support::with_commas(rows), " rows; all")
                            : cat(rows, rows == 1 ? " row, which is" : " rows, which are"),
          rows > kRowsShown ? " are" : "", " in data/", name, ".csv, too.");
  return table;
}

}  // namespace

Section own_tables_section(const Results& results, Palette& palette) {
  Section section{.id = "own_tables", .title = "Tables of own stages"};
  for (const std::string& text : results.figures)
    section.figures.push_back(FigureMaker(results, parse_figure(text), palette).make());
  for (const auto& [name, gathered] : results.tables) {
    if (is_known_table(name)) continue;
    if (Table table = table_of(results, name, gathered); !table.rows.empty())
      section.tables.push_back(std::move(table));
  }
  std::erase_if(section.figures, [](const Figure& figure) { return figure.panels.empty(); });
  return section;
}

}  // namespace pe::report

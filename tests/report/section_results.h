/// @file
/// Results made by hand, and checks of sections and tables.
#pragma once

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "report/sample_results.h"
#include "report/sections/section.h"
#include "schema/row.h"
#include "support/text.h"

namespace pe::report::sample {

inline void add(Results& results, std::size_t run, const std::string& name, std::vector<artifact::ColumnSpec> columns,
                const std::vector<std::vector<artifact::Cell>>& rows) {
  artifact::Table table(name, std::move(columns));
  for (const auto& row : rows) table.add_row(row);
  results.tables[name].push_back({run, "test: " + name, std::move(table)});
}

using Names = std::vector<std::string>;

/// Rows with these columns of a table.
template <typename T>
void add(Results& results, std::size_t run, const Names& names, const std::vector<std::vector<artifact::Cell>>& rows) {
  std::vector<artifact::ColumnSpec> columns;
  for (const std::string& name : names) {
    for (const schema::Column& column : schema::columns_of<T>()) {
      if (column.name == name) columns.push_back({column.name, column.type, ""});
    }
  }
  add(results, run, T::kName, std::move(columns), rows);
}

/// Rows with all columns.
template <typename T>
void add(Results& results, std::size_t run, const std::vector<std::vector<artifact::Cell>>& rows) {
  Names names;
  for (const schema::Column& column : schema::columns_of<T>()) names.push_back(column.name);
  add<T>(results, run, names, rows);
}

/// Rows of the run that was added last.
template <typename T>
void add_rows(Results& results, const std::vector<T>& rows) {
  results.tables[T::kName].push_back(
      {results.runs.size() - 1, std::string("test: ") + T::kName, schema::plain_table_of(rows)});
}

inline Section section_of(const std::string& name, const Results& results) {
  Palette palette;
  for (const SectionEntry& entry : section_table()) {
    if (name == entry.name) return entry.make(results, palette);
  }
  BOOST_FAIL("no section " << name);
  return {};
}

inline const Table& table_of(const Section& section, const std::string& id) {
  for (const Table& table : section.tables) {
    if (table.id == id) return table;
  }
  BOOST_FAIL("no table " << id);
  return section.tables.front();
}

inline const report::Cell& cell_of(const Table& table, std::size_t row, const std::string& column) {
  for (std::size_t i = 0; i < table.columns.size(); ++i) {
    if (table.columns[i].id == column) return table.rows.at(row).cells.at(i);
  }
  BOOST_FAIL("no column " << column);
  return table.rows[0].cells[0];
}

/// Perplexity of several encodings under some protocols and lengths, by document.
struct Perplexities {
  std::vector<std::string> encodings{"rope", "alibi"};
  std::vector<std::string> seeds{"1", "2", "3"};
  std::vector<std::string> protocols{"prefix"};
  std::vector<std::int64_t> lengths{128, 512};
  int documents = 40;
  double better = 0;   ///< nats by which the last encoding is below the others
  double seed_sd = 0;  ///< of every encoding's seeds
  double rest_sd = 0.002;
};

inline Results perplexities(const Perplexities& options) {
  Results results;
  results.train_length = 128;
  results.baseline = options.encodings.front();
  results.variants = {""};
  results.encodings = options.encodings;
  for (std::size_t e = 0; e < options.encodings.size(); ++e) {
    Arm arm{options.encodings[e], "", {}};
    for (const std::string& seed : options.seeds) {
      const std::uint64_t key = support::fnv1a64(options.encodings[e] + "/" + seed);
      arm.runs.push_back(results.runs.size());
      results.runs.push_back({.encoding = options.encodings[e], .seed = seed});
      const double own = noise({21, key}, options.seed_sd);
      for (const std::string& protocol : options.protocols) {
        for (const std::int64_t length : options.lengths) {
          LmCell cell{.run = arm.runs.back(),
                      .protocol = protocol,
                      .length = length,
                      .documents = static_cast<double>(options.documents)};
          for (int d = 0; d < options.documents; ++d) {
            const double mean =
                3 + noise({22, static_cast<std::uint64_t>(d)}, 0.4) + own -
                (e + 1 == options.encodings.size() ? options.better : 0) +
                noise({23, key, static_cast<std::uint64_t>(d), static_cast<std::uint64_t>(length)}, options.rest_sd);
            cell.scores.push_back({100 + d, 100, 300, 100 * mean});
            cell.nll += mean / options.documents;
          }
          results.lm.push_back(std::move(cell));
        }
      }
    }
    results.arms.push_back(std::move(arm));
  }
  return results;
}

}  // namespace pe::report::sample

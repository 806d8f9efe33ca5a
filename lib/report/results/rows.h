/// @file
/// Rows of the scores, table by table.
#pragma once

#include "report/results/results.h"
#include "schema/row.h"

namespace pe::report {

template <typename T>
bool has_table(const Results& results) {
  return results.tables.count(T::kName) != 0;
}

/// Calls `use(run, row)` for every row of a table of the scores, run by run.
template <typename T, typename Use>
void each_row(const Results& results, const Use& use) {
  const auto found = results.tables.find(T::kName);
  if (found == results.tables.end()) return;
  for (const GatheredTable& gathered : found->second) {
    const schema::Reader<T> reader(gathered.table, gathered.where);
    for (std::size_t row = 0; row < reader.rows(); ++row) use(gathered.run, reader.row(row));
  }
}

/// Whether a table has rows of test text. Rows of validation text are then another evaluation, and no further seeds.
template <typename T>
bool has_test_rows(const Results& results) {
  bool found = false;
  each_row<T>(results, [&](std::size_t, const T& row) { found = found || row.corpus != "validation"; });
  return found;
}

}  // namespace pe::report

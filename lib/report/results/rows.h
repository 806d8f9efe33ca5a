/// @file
/// Rows of the scores, table by table.
#pragma once

#include <algorithm>
#include <set>
#include <string>

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

/// Texts of a table that its results leave out. Test text counts, without it validation text, and training
/// text only where it is alone: the others are further evaluations of the same models, and no further seeds.
inline std::set<std::string> unjudged_of(const std::set<std::string>& texts) {
  std::set<std::string> unjudged;
  const auto is_test = [](const std::string& text) { return text != "validation" && text != "train"; };
  const bool has_test = std::any_of(texts.begin(), texts.end(), is_test);
  for (const std::string& text : texts) {
    if (!is_test(text) && (has_test || (text == "train" && texts.size() > 1))) unjudged.insert(text);
  }
  return unjudged;
}

template <typename T>
std::set<std::string> unjudged_texts(const Results& results) {
  std::set<std::string> texts;
  each_row<T>(results, [&](std::size_t, const T& row) { texts.insert(row.corpus); });
  return unjudged_of(texts);
}

/// Every row of the texts that results are judged by.
template <typename T, typename Use>
void each_judged_row(const Results& results, const Use& use) {
  const std::set<std::string> unjudged = unjudged_texts<T>(results);
  each_row<T>(results, [&](std::size_t run, const T& row) {
    if (unjudged.count(row.corpus) == 0) use(run, row);
  });
}

/// A place in a figure, such as a layer. @throws ArtifactError that names the table, for numbers that no model has
std::int64_t place_in_model(const Results& results, std::size_t run, const char* table, const char* column,
                            std::int64_t value);

}  // namespace pe::report

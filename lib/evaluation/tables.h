/// @file
/// The tables that an evaluation writes (artifact kind eval-table): names, columns, meaning. Every row begins with the
/// columns of `identity_columns`, which the stage fills in; tasks give the rest. What is missing is said to be missing.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "artifact/table.h"

namespace pe::evaluation {

struct Column {
  std::string name;
  artifact::ColumnType type = artifact::ColumnType::kReal;
  std::string unit;
  std::string meaning;
};

struct TableLayout {
  std::string name;
  std::string meaning;
  std::vector<Column> columns;   ///< without the identity
};

/// run_id (first 12 digits of the model's content digest, and which weights of it), pe, seed, step.
const std::vector<Column>& identity_columns();

/// lm_*, retrieval_*, algo_*, cost, probe_*, parameters.
const std::vector<TableLayout>& table_layouts();

/// @throws Error (bug) for an unknown name.
const TableLayout& table_layout(const std::string& name);

/// Cells in the order of the layout's columns. A real that is NaN becomes a missing cell when it is written.
using Row = std::vector<artifact::Cell>;

/// The number in a cell; NaN when it is missing or text.
double number(const artifact::Cell& cell);

/// Rows by table name.
using Rows = std::map<std::string, std::vector<Row>>;

/// The artifact's tables: identity before each row, tables in the order of `table_layouts`, only those that have rows.
std::vector<artifact::Table> make_tables(const Rows& rows, const Row& identity);

/// Words of the column `status`.
namespace status {
constexpr const char* kOk = "ok";
constexpr const char* kPositions = "na_positions";     ///< the length is beyond the encoding's positions
constexpr const char* kOverflow = "overflow";          ///< perplexity above 1e4, or not finite
constexpr const char* kSkipped = "skipped_docs";       ///< too few documents are long enough
constexpr const char* kLength = "na_length";           ///< the length cannot hold the task's shortest item
constexpr const char* kVocabulary = "na_vocabulary";   ///< the tokenizer has too few distinct pieces
constexpr const char* kNone = "none";                  ///< there is no such length or position
constexpr const char* kUncovered = "na_uncovered";     ///< lengths that the number needs were not tested
constexpr const char* kMeasure = "na_measure";         ///< the task has no such score
constexpr const char* kNotAcquired = "not_acquired";   ///< below one half at the training length: nothing to compare with
constexpr const char* kSeparator = "na_separator";     ///< the data has no separator
constexpr const char* kReference = "na_reference";     ///< no other model was given, or it cannot say
constexpr const char* kEncoding = "na_encoding";       ///< the model's encoding has no such form
}  // namespace status

}  // namespace pe::evaluation

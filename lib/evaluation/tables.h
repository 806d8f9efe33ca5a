/// @file
/// The tables that an evaluation writes (artifact kind eval-table): names, columns, meaning. Every row begins with the
/// columns of `identity_columns`, which the stage fills in; tasks give the rest. A real that is missing is NaN, never 0.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "support/json.h"

namespace pe::evaluation {

enum class ColumnType { kText, kInteger, kReal };

struct Column {
  std::string name;
  ColumnType type;
  std::string meaning;
};

struct TableLayout {
  std::string name;
  std::string meaning;
  std::vector<Column> columns;   ///< without the identity
};

/// run_id (first 12 digits of the model's content digest), pe, seed, step.
const std::vector<Column>& identity_columns();

/// lm_doc, lm_summary, retrieval_trial, retrieval_summary, algo_trial, algo_summary.
const std::vector<TableLayout>& table_layouts();

/// @throws Error (bug) for an unknown name.
const TableLayout& table_layout(const std::string& name);

/// Cells in the order of the layout's columns. NaN is allowed in reals.
using Row = std::vector<Json>;

/// Rows by table name.
using Rows = std::map<std::string, std::vector<Row>>;

/// Words of the column `status`.
namespace status {
constexpr const char* kOk = "ok";
constexpr const char* kPositions = "na_positions";     ///< the length is beyond the encoding's positions
constexpr const char* kOverflow = "overflow";          ///< perplexity above 1e4, or not finite
constexpr const char* kSkipped = "skipped_docs";       ///< too few documents are long enough
constexpr const char* kLength = "na_length";           ///< the length cannot hold the task's shortest item
constexpr const char* kVocabulary = "na_vocabulary";   ///< the tokenizer has too few distinct pieces
}  // namespace status

}  // namespace pe::evaluation

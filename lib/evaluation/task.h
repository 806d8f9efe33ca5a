/// @file
/// A task of an evaluation: its measure, its options, its rows. One file in the folder of its subject and one line
/// in the list of this folder's meson.build.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "evaluation/documents.h"
#include "evaluation/model_variants.h"
#include "evaluation/scorer.h"
#include "evaluation/settings.h"
#include "evaluation/text_codec.h"
#include "schema/status.h"
#include "schema/tables.h"
#include "support/config.h"
#include "support/progress.h"

namespace pe::model {
class LanguageModel;
}

namespace pe::evaluation {

namespace status = schema::status;

/// Rows in the making. A task's work is cut into items; an item that an interrupted evaluation finished is not done
/// again, its rows come from the journal in the work folder.
class Results {
 public:
  virtual ~Results() = default;

  /// Calls `work` for missing rows, keeps and returns its result. `name` is unique in the evaluation.
  /// @throws Stopped when a stop was requested.
  virtual const schema::Rows& item(const std::string& name, const std::function<schema::Rows()>& work) = 0;

  /// Rows that follow from items and need no journal.
  virtual void add(const schema::Rows& rows) = 0;

  template <typename T>
  void add_row(T row) {
    schema::Rows rows;
    rows.add(std::move(row));
    add(rows);
  }
};

struct TaskContext {
  Scorer& scorer;
  const TextCodec& text;
  const DocumentSource& documents;
  const Settings& settings;
  std::vector<std::int64_t> lengths;  ///< contexts, tokens, ascending
  Results& results;
  support::Progress& progress;
  const ModelVariants* variants = nullptr;  ///< The model under other encodings; null where there is only the scorer.
  const DocumentSource* fitting = nullptr;  ///< Documents to choose a scale on, none of which is tested; may be null.
  const model::LanguageModel* model = nullptr;      ///< Model for probes; null where there is only the scorer.
  const model::LanguageModel* reference = nullptr;  ///< Another model to compare with; may be null.
  std::string reference_name;                       ///< "none 1a2b3c…": its encoding and run id
  Json trained_task = nullptr;  ///< the algorithmic task that the data is of, with its options; null for text
};

class Task {
 public:
  virtual ~Task() = default;
  virtual void describe(support::FieldVisitor& v) = 0;  ///< the group `eval.<task>`
  virtual void run(TaskContext& context) const = 0;
};

struct TaskEntry {
  std::string name;
  std::string summary;
  std::vector<std::string> tables;  ///< that it writes
  std::shared_ptr<Task> (*make)();
};

/// Sorted by name.
const std::vector<TaskEntry>& tasks();

template <typename T>
std::shared_ptr<Task> make_task() {
  return std::make_shared<T>();
}

}  // namespace pe::evaluation

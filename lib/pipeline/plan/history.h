/// @file
/// The store's records of earlier tasks, kept together in one file, so that explanations and estimates do not open
/// thousands of them. A cache: it is made of records, and from scratch where it is damaged or gone.
///
///     <store>/memo/history    mark of the index it was complete for; parts of documents, each once; one entry a record
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/plan/plan.h"
#include "pipeline/store/store.h"
#include "support/files.h"

namespace pe::pipeline {

class History {
 public:
  /// Reads the file; where the index has changed since, reads the missing records and writes the file again. Failing to
  /// write is no error: it only costs time.
  explicit History(const Store& store);

  /// Earlier results of a stage, by StageDescription::name. Texts live as long as this.
  const std::vector<PastTask>& of_stage(std::string_view stage) const;
  /// Every one, by stage.
  const std::map<std::string, std::vector<PastTask>, std::less<>>& stages() const { return by_stage_; }
  /// How many records had to be opened.
  std::size_t opened() const { return opened_; }

 private:
  bool load(std::string* mark);
  void save(const std::string& mark) const;

  fs::path path_;
  support::MappedFile file_;  ///< what most texts below look into
  std::map<std::string, std::vector<PastTask>, std::less<>> by_stage_;
  std::size_t opened_ = 0;
};

}  // namespace pe::pipeline

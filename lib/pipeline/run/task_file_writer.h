/// @file
/// Writes task.json (`pe-task/1`, artifact/workspace.h), for an attempt of a run and for `verify --rerun` alike.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "pipeline/file/stage_description.h"
#include "pipeline/store/store.h"
#include "support/json.h"

namespace pe::pipeline {

/// "model.h5", or the folder "report" of a collection.
std::string file_name(const artifact::OutputRole& output);

class TaskFileWriter {
 public:
  /// `folder` is the attempt's. Unhashed `workers` that are `auto` take `cpus`.
  TaskFileWriter(const StageDescription& stage, const std::string& key, Json config, std::int64_t cpus,
                 std::filesystem::path folder);

  /// Ties the task to the program that its key was made for: the stage refuses with artifact::kExitOtherProgram when it
  /// has another result version. With `exact` another build is refused too.
  void bind_to_program(bool exact);
  void add_input(const Store& store, const std::string& role, const OutputRecord& output, ResultStatus status,
                 const std::map<std::string, std::string>& labels);
  /// The files that a path field of the config names, in the order of the key: folders and globs are listed.
  void name_files(const std::string& field, const std::vector<std::string>& paths) {
    document_["files"][field] = paths;
  }
  /// One that a partial gather does without, and why.
  void add_missing(const InputRecord& input);
  /// Where the outputs go, below out/; makes the folders.
  void name_outputs();
  void add_snapshot(const std::string& label, std::int64_t step);
  /// A snapshot of the same trajectory before all of these from which the stage may continue.
  void name_earlier(const Store& store, std::int64_t step, const std::vector<OutputRecord>& outputs);
  void resume_from(const std::filesystem::path& attempt) { document_["resume"] = attempt.string(); }
  void checkpoint(const Json& policy) { document_["checkpoint"] = policy; }

  std::string text() const;
  /// A file that is not there yet. @throws IoError
  void write_to(const std::filesystem::path& path) const;

 private:
  Json paths_in(const std::filesystem::path& folder) const;
  /// Labels are in task.json where they are in the key: among its inputs, or in the config.
  bool names_labels() const { return stage_.reads_labels || stage_.takes_labels; }

  const StageDescription& stage_;
  std::filesystem::path folder_;
  Json document_;
};

}  // namespace pe::pipeline

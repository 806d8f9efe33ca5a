#include "pipeline/run/task_file_writer.h"

#include <utility>

#include "artifact/kind.h"
#include "pipeline/run/runner.h"
#include "pipeline/store/whole_write.h"
#include "support/files.h"
#include "support/json_text.h"
#include "support/text.h"

namespace pe::pipeline {

namespace fs = std::filesystem;
using support::cat;

namespace {

void fill_workers(const support::Schema& fields, std::int64_t cpus, Json& config) {
  for (const support::Field& field : fields) {
    if (field.type == support::FieldType::kGroup && config.contains(field.name)) {
      fill_workers(field.fields, cpus, config[field.name]);
    } else if (field.name == "workers" && !field.options.hashed && config.contains("workers") &&
               config["workers"].is_null()) {
      config["workers"] = cpus;
    }
  }
}

}  // namespace

std::string file_name(const artifact::OutputRole& output) {
  return output.name + (artifact::is_collection(output.kind) ? "" : ".h5");
}

TaskFileWriter::TaskFileWriter(const StageDescription& stage, const std::string& key, Json config, std::int64_t cpus,
                               fs::path folder)
    : stage_(stage), folder_(std::move(folder)) {
  fill_workers(stage.fields, cpus, config);
  document_ = {{"schema", "pe-task/1"},       {"stage", stage.name},      {"key", key},
               {"config", std::move(config)}, {"inputs", Json::object()}, {"outputs", Json::object()},
               {"work", folder_.string()},    {"resume", nullptr},        {"events_fd", Launch::kEventsDescriptor}};
  for (const artifact::InputRole& input : stage.inputs) document_["inputs"][input.name] = Json::array();
}

void TaskFileWriter::bind_to_program(bool exact) {
  document_["version"] = stage_.version;
  for (const artifact::Revision& revision : stage_.revisions) document_["revisions"][revision.name] = revision.number;
  document_["build_id"] = stage_.build_id;  // for people
  if (exact) document_["build"] = stage_.program_digest;
}

void TaskFileWriter::add_input(const Store& store, const std::string& role, const OutputRecord& output,
                               ResultStatus status, const std::map<std::string, std::string>& labels) {
  Json& inputs = document_["inputs"][role];
  const fs::path folder = folder_ / "inputs" / cat(role, "-", inputs.size());
  Json item{{"path", store.materialise(output, folder).string()}, {"kind", output.kind}, {"digest", output.content}};
  if (names_labels()) item["labels"] = labels;
  if (status == ResultStatus::kDiverged) item["status"] = "diverged";
  inputs.push_back(std::move(item));
}

void TaskFileWriter::add_missing(const InputRecord& input) {
  Json item{{"reason", input.missing}};
  if (names_labels()) {
    item["producer"] = input.producer;
    item["labels"] = input.labels;
  }
  document_["missing"][input.role].push_back(std::move(item));
}

Json TaskFileWriter::paths_in(const fs::path& folder) const {
  support::make_folders(folder);
  Json outputs = Json::object();
  for (const artifact::OutputRole& output : stage_.outputs)
    outputs[output.name] = (folder / file_name(output)).string();
  return outputs;
}

void TaskFileWriter::name_outputs() { document_["outputs"] = paths_in(folder_ / "out"); }

void TaskFileWriter::add_snapshot(const std::string& label, std::int64_t step) {
  document_["snapshots"].push_back({{"label", label}, {"step", step}, {"outputs", paths_in(folder_ / "out" / label)}});
}

void TaskFileWriter::name_earlier(const Store& store, std::int64_t step, const std::vector<OutputRecord>& outputs) {
  Json paths = Json::object();
  for (const OutputRecord& output : outputs)
    paths[output.role] = store.materialise(output, folder_ / "earlier" / output.role).string();
  document_["earlier"] = {{"label", std::to_string(step)}, {"step", step}, {"outputs", std::move(paths)}};
}

// A value a line: stages in sh read it by lines.
std::string TaskFileWriter::text() const { return support::json_text(document_, 1) + "\n"; }

void TaskFileWriter::write_to(const fs::path& path) const { write_new_file(path, text(), false); }

}  // namespace pe::pipeline

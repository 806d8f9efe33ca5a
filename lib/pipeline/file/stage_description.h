/// @file
/// Description of a stage (`pe-stage/1`): its fields, inputs, outputs and habits. `pe-pipeline` knows stages only
/// through this, so that planning links no LibTorch and starts no stage. The description is written at build time next
/// to the executable. It is used when its build id is the one in the ELF file.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "artifact/stage_parts.h"
#include "support/config.h"
#include "support/file_stamp.h"
#include "support/json.h"

namespace pe::pipeline {

struct StageDescription {
  std::string name;     ///< "train"
  std::string program;  ///< "pe-train"
  int version = 1;      ///< result version
  std::vector<artifact::Revision> revisions;
  std::string summary;
  std::string build_id;              ///< Hex of the ELF note, or SHA-256 of a file that has none (a script).
  bool is_script = false;            ///< The executable has no ELF build id.
  std::vector<std::string> plugins;  ///< Loaded while it runs: "cuda/pe-cuda" (support/program.h).
  std::vector<std::string> code;     ///< globs of files that it reads as code, from its own folder: "lib/*.py"
  /// Digest of all its code, plug-ins and `code` included. Recorded always, hashed under `code: build`.
  std::string program_digest;
  std::string release;
  std::vector<artifact::InputRole> inputs;
  std::vector<artifact::OutputRole> outputs;
  support::Schema fields;
  bool resumes = false;
  bool takes_labels = false;
  /// task.json has the labels of its inputs, and so has its key. The default, for stages that do not say.
  bool reads_labels = true;
  std::optional<artifact::Trajectory> trajectory;
  std::optional<artifact::Branch> branch;
  Json costs = Json::object();  ///< name → arithmetic expression over config keys

  Json document;                         ///< as it described itself
  std::string executable;                ///< absolute; empty for a description made in a test
  std::vector<support::FileRead> files;  ///< program_files of the moment when the digest was made
  std::string digest;                    ///< SHA-256 of the description's canonical form

  const artifact::InputRole* find_input(const std::string& role) const;
  const artifact::OutputRole* find_output(const std::string& role) const;
  std::vector<std::string> input_names() const;
  std::vector<std::string> output_names() const;
};

/// Reads a `pe-stage/1` document. `source` is its name in messages.
/// @throws ConfigError when it is none, or of a newer schema.
StageDescription parse_description(Json document, const std::string& source);

/// The files of a program with their present stamps: its executable, plug-ins, the files of `code` and their folders.
/// @throws ConfigError when a glob of `code` matches nothing
std::vector<support::FileRead> program_files(const StageDescription& stage);

/// Finds executables and reads their descriptions, each once.
class StageCatalog {
 public:
  /// `folders` are searched before PATH; usually the one folder that holds `pe-pipeline`.
  explicit StageCatalog(std::vector<std::filesystem::path> folders = {});

  /// The description of the program in a stage's `run`. That is a program in the folders or on PATH, or a path relative
  /// to `root`.
  /// @throws ConfigError at `place` when it is missing, describes nothing, or has a newer schema.
  std::shared_ptr<const StageDescription> find(const std::string& run, const std::filesystem::path& root,
                                               const support::Place& place);

  /// Keeps the answers of stages without a description file in this folder, by the content of the executable.
  /// Failing to write is no error: the stage is asked again.
  void remember_in(std::filesystem::path folder) { memory_ = std::move(folder); }

  /// How long a stage may take to describe itself; by default 30 s.
  void set_patience(double seconds) { patience_s_ = seconds; }

  /// Makes a description known under its program name, without an executable; for tests.
  void add(StageDescription description);

  /// The files that descriptions came from, with their stamps at that time, and places without a file that came before
  /// them in a search. They have no digest: the build id of a program counts.
  const std::vector<support::FileRead>& files() const { return files_; }

 private:
  std::optional<std::filesystem::path> locate(const std::string& run, const std::filesystem::path& root);
  void note(const std::filesystem::path& file);
  void refuse_reserved_name(const StageDescription& stage, const std::filesystem::path& executable,
                            const support::Place& place) const;
  std::vector<std::string> known_programs() const;
  Json ask(const std::filesystem::path& executable, const std::string& content, const support::Place& place);

  std::vector<std::filesystem::path> folders_;
  std::filesystem::path memory_;
  std::map<std::string, std::shared_ptr<const StageDescription>> by_run_;
  std::vector<support::FileRead> files_;
  double patience_s_ = 30;
};

}  // namespace pe::pipeline

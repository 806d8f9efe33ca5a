/// @file
/// A pipeline file (`pe-pipeline/1`) as written: checked for shape, not yet expanded. Values keep their YAML nodes, so
/// that whatever is wrong later can be shown with line and caret.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "pipeline/file/budgets.h"
#include "pipeline/file/sequential.h"
#include "support/file_stamp.h"
#include "support/yaml.h"

namespace pe::pipeline {

struct AxisValue {
  std::string label;
  support::Node value;
};

struct Axis {
  std::string name;
  std::vector<AxisValue> values;
  support::Mark mark;

  std::vector<std::string> labels() const;
};

/// `stage.output@snapshot[axis=label,…]`, as written; may still hold substitutions.
struct ReferenceText {
  std::string text;
  support::Mark mark;
};

/// One axis of an entry of `exclude` or `only`, and the labels that it may have.
struct AxisPattern {
  std::string axis;
  support::Mark mark;
  std::vector<std::string> labels;
  std::vector<support::Mark> label_marks;
};
using CellPattern = std::vector<AxisPattern>;  ///< matches when every axis has one of its labels

struct StageDeclaration {
  std::string label;
  support::Mark mark;
  std::string run;
  support::Mark run_mark;
  std::vector<std::pair<std::string, support::Mark>> over;
  std::vector<Axis> axes;
  std::vector<CellPattern> exclude;
  std::vector<CellPattern> only;
  /// role → references. `needs` holds one a role, `gather` any number, `each` one role at most.
  struct Role {
    std::string name;
    support::Mark mark;
    std::vector<ReferenceText> references;
  };
  std::vector<Role> needs, gather, each;
  std::vector<support::Node> config_files;                       ///< scalars; may hold substitutions
  support::Node set;                                             ///< a map, or null
  std::vector<std::pair<std::string, support::Node>> snapshots;  ///< label → point
  std::vector<support::Mark> snapshot_marks;
  std::optional<Budgets> budgets;                     ///< spread over axes, references and snapshots already
  support::Node resources, retry, checkpoint, slurm;  ///< null when absent
  bool allow_partial = false;
  std::map<std::string, std::string> outputs;  ///< role → friendly name
  support::Mark outputs_mark;
};

struct PipelineFile {
  std::string name, title, description;
  std::filesystem::path path;                 ///< as the user gave it
  support::FileRead read;                     ///< the file in its state of reading; empty for a text without a file
  std::filesystem::path root;                 ///< absolute; start of relative paths
  std::vector<support::Node> default_config;  ///< scalars
  support::Node default_resources, default_retry, default_checkpoint;
  std::string numerics = "exact";     ///< or "tolerant"
  std::string code;                   ///< "result-version", "build"; empty: by the kind of program
  std::string on_diverge = "record";  ///< or "fail"
  std::vector<Axis> axes;
  support::Node vars;       ///< a map, or null
  support::Node resources;  ///< name → map, or null
  support::Node slurm;
  struct Scale {
    std::string name;
    bool is_default = false;
    support::Node vars;
    std::vector<Axis> axes;
    support::Mark mark;
  };
  std::vector<Scale> scales;
  std::vector<std::string> environment;  ///< further environment variables of stages, by name
  std::string claims;                    ///< path, or empty
  std::optional<Sequential> sequential;
  std::vector<StageDeclaration> stages;

  const StageDeclaration* find_stage(const std::string& label) const;
};

/// Checks and reads. @throws ConfigError with every mistake that can be separated.
PipelineFile parse_pipeline_file(std::string_view text, const std::string& name, const std::filesystem::path& root);

PipelineFile read_pipeline_file(const std::filesystem::path& path);

/// The nearest folder at or above the file that holds `configs/`, else its own folder. The search ends below the home
/// and at a folder with version control.
std::filesystem::path find_root(const std::filesystem::path& pipeline_file);

/// The nearest folder at or above `folder` whose `store/` is a store, within the same bounds; else `folder`.
std::filesystem::path find_root_of_store(const std::filesystem::path& folder);

/// An axis from its YAML form (a list of scalars, or a map label → value).
std::optional<Axis> parse_axis(const std::string& name, const support::Mark& mark, const support::Node& node,
                               support::Diagnostics& diagnostics);

/// A reference with its substitutions done.
struct Reference {
  std::string stage, output, snapshot;
  std::vector<std::pair<std::string, std::string>> pins;
};

/// Reads `stage.output@snapshot[axis=label]`. Mistakes go to `diagnostics`, at `mark`.
std::optional<Reference> parse_reference(const std::string& text, const support::Mark& mark,
                                         support::Diagnostics& diagnostics);

}  // namespace pe::pipeline

/// @file
/// The config of an instance: defaults, files, `set` and flags laid over each other, typed by the stage's schema.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "pipeline/expand/mistakes.h"
#include "pipeline/expand/overrides.h"
#include "pipeline/expand/policies.h"
#include "pipeline/expand/stages.h"
#include "pipeline/file/graph.h"
#include "pipeline/file/substitution.h"
#include "support/file_stamp.h"

namespace pe::pipeline {

/// The config files of a pipeline, each read once.
class ConfigFiles {
 public:
  ConfigFiles(const OverriddenPipeline& source, const Stages& stages) : source_(source), stages_(stages) {}
  /// Null when it cannot be read, or holds keys that no stage declares; the error was reported.
  const support::Node* read(const std::string& path, const support::Mark& mark, Mistakes& mistakes);
  /// One that was read; else null.
  const support::Node* known(const std::string& path) const;
  /// The files in the order and state of reading; paths are absolute.
  const std::vector<support::FileRead>& reads() const { return reads_; }

 private:
  void check(const support::Node& file, Mistakes& mistakes) const;
  bool declared_anywhere(const std::string& dotted) const;

  const OverriddenPipeline& source_;
  const Stages& stages_;
  std::map<std::string, std::optional<support::Node>> files_;
  std::vector<support::FileRead> reads_;
};

class ConfigBuilder {
 public:
  /// All must outlive it.
  ConfigBuilder(const OverriddenPipeline& source, const ExpandOptions& options, const Stages& stages,
                const Policies& policies);

  /// Fills config, externals and labels of a task whose inputs (of `producers`) and resources are known. Instances that
  /// agree on the axes that the config uses share it. False when a mistake was reported.
  bool compose(const Stage& stage, const Scope& scope, const std::vector<Task>& producers, Task& task,
               Mistakes& mistakes);
  /// Ends composing: releases the objects that instances shared. `origins_of` answers as before.
  void finish();

  /// Where each value of such a config came from.
  support::Origins origins_of(const Stage& stage, const Scope& scope) const;

  const std::vector<support::FileRead>& files() const { return files_.reads(); }

 private:
  /// The config that instances with the same labels share.
  struct BuiltConfig {
    std::vector<ExternalInput> externals;
    Json compute;     ///< that group as it was written, for other resources
    InstructionSets isa;  ///< values for its `auto`
    /// By cpus and gpus (maybe a share of one): paths absolute, `auto` of compute resolved. Never empty.
    std::map<std::pair<std::int64_t, double>, support::SharedValue<Json>> resolved;
  };
  struct OfStage {
    std::vector<std::string> axes;                           ///< names that its config uses
    std::optional<Json> base;                                ///< below `set`, where it is the same for all instances
    std::unordered_map<std::string, BuiltConfig> by_labels;  ///< of these axes
  };

  /// Reads the files that this instance's config is made of, so that `lay_files` finds them.
  bool read_files(const Stage& stage, const Scope& scope, Mistakes& mistakes);
  std::vector<const support::Node*> file_names(const Stage& stage) const;
  bool same_for_all(const Stage& stage) const;
  Json lay_files(const Stage& stage, const Scope& scope, support::Origins* origins,
                 support::Diagnostics& diagnostics) const;
  void apply_sets(const Stage& stage, const Scope& scope, Json& config, support::Origins* origins,
                  support::Diagnostics& diagnostics) const;
  void lay_checkpoint(const Stage& stage, const Scope& scope, Json& config, support::Diagnostics& diagnostics) const;
  void lay_budget(const Stage& stage, const Scope& scope, Json& config, support::Origins* origins,
                  support::Diagnostics& diagnostics) const;
  void check_budget(const Stage& stage, const Scope& scope, const Json& config,
                    support::Diagnostics& diagnostics) const;
  void lay_claims(const Stage& stage, Json& config) const;
  void lay_sequential(const Stage& stage, Json& config) const;
  std::vector<ExternalInput> make_paths_absolute(const Stage& stage, Json& config) const;
  std::optional<Json> config_of(const Stage& stage, const Scope& scope, Mistakes& mistakes);
  void give_labels(const Stage& stage, const std::vector<Task>& producers, Task& task) const;
  Json left_out(const Task& task) const;
  InstructionSets isa_of(const Stage& stage, Mistakes& mistakes) const;

  const OverriddenPipeline& source_;
  const ExpandOptions& options_;
  const Policies& policies_;
  std::filesystem::path folder_;  ///< folder of relative paths in flags
  ConfigFiles files_;
  std::vector<OfStage> stages_;  ///< by index
};

}  // namespace pe::pipeline

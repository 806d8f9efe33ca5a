/// @file
/// Stages that exist only as descriptions, and a folder with the grid that planning tests expand.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pipeline/expand/expand.h"
#include "pipeline/file/stage_description.h"
#include "pipeline/plan/externals.h"
#include "pipeline/plan/key.h"
#include "pipeline/plan/plan.h"
#include "support/config.h"
#include "support/hash.h"
#include "support/json.h"
#include "support/temp_folder.h"
#include "support/text.h"

namespace pe::test {

/// Descriptions of pe-fetch, pe-tokenize, pe-train, pe-branch-decay, pe-drop-pe, pe-evaluate and pe-report, as JSON.
std::vector<Json> stage_documents();

/// A catalog that knows them.
pipeline::StageCatalog stage_catalog();

/// The grid of 900 tasks: eight encodings, two sizes, three seeds, decays, drops, three suites of evaluation.
extern const char* const kGrid;

/// A root folder with `configs/`, and pipelines written into it.
class GridFolder {
 public:
  GridFolder();
  void write(const std::string& name, const std::string& text) const;
  std::filesystem::path path(const std::string& name) const { return folder_ / name; }
  const std::filesystem::path& root() const { return folder_.path(); }

  /// Expands a pipeline file's text; options that name nothing are the defaults of a machine with AVX2.
  pipeline::Graph expand(const std::string& text, const pipeline::ExpandOptions& options = plain_options()) const;
  /// The same with external inputs hashed and plan keys filled in.
  pipeline::Graph keyed(const std::string& text, const pipeline::ExpandOptions& options = plain_options()) const;
  /// The text that a person sees when it is refused; empty when it is not. Paths of the folder are shown as ROOT.
  std::string refusal(const std::string& text, const pipeline::ExpandOptions& options = plain_options()) const;

  static pipeline::ExpandOptions plain_options();

 private:
  TempFolder folder_;
};

/// The part of the grid with two encodings, one size and one seed.
pipeline::ExpandOptions few(std::vector<std::string> set = {});

/// The text with one part replaced, which it must have.
std::string replaced(std::string text, const std::string& from, const std::string& to);

const pipeline::Task& find_task(const pipeline::Graph& graph, const std::string& id);
std::size_t index_of(const pipeline::Graph& graph, const std::string& id);
std::size_t count_label(const pipeline::Graph& graph, const std::string& label);
std::size_t count_edges(const pipeline::Graph& graph);

/// A store in memory. `make` gives a task the result that a stage would have made: contents derive from the task key.
class FakeStore : public pipeline::StoreView {
 public:
  std::optional<pipeline::Result> find(const pipeline::ResultKey& key) const override;
  bool complete(const pipeline::Result& result) const override;
  std::optional<std::string> hint(const std::string& plan_key) const override;
  bool has_object(const std::string& digest) const override;
  const std::vector<pipeline::PastTask>& past_tasks(const std::string& stage) const override;

  /// Makes the results of tasks that a plan runs, in order, as `run` would; returns the ids.
  std::vector<std::string> run(const pipeline::Graph& graph, const pipeline::PlanOptions& options = {});

  std::map<pipeline::ResultKey, pipeline::Result> results;
  std::map<std::string, std::string> hints;
  std::map<std::string, bool> objects;
  std::map<std::string, std::vector<pipeline::PastTask>> past;
  /// Contents of a stage's outputs, to make them equal or different: stage name → content; otherwise the key's.
  std::map<std::string, std::string> fixed_content;
  int clock = 0;

 private:
  std::set<std::string> pipelines_;  ///< names that `past` points to
};

}  // namespace pe::test

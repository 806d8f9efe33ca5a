/// @file
/// Names for people: links in `out/<pipeline>/` to the store's objects, and reports as folders of their own in
/// `reports/<pipeline>/<run id>/`, with `latest` pointing at the newest. Both can be deleted and are made again.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pipeline/file/graph.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

/// One artifact that a person may look for.
struct ViewItem {
  std::size_t task = 0;
  std::string snapshot;  ///< label, or empty
  OutputRecord output;
};

/// The links of `outputs`, usually `<root>/out`. An artifact is called `<stage>/<axis=label,…>[@snapshot][.role]`, or
/// `<stage>/<name>[@snapshot]` where the pipeline file gives its output a name, which may hold '/'. Files end in `.h5`.
/// Names that are no names, or that two artifacts of the pipeline share, are put aside for the long ones.
class View {
 public:
  View(const Graph& graph, const Store& store, std::filesystem::path outputs);
  /// Makes the link; one that is right already stays. @throws IoError
  void show(const ViewItem& item);
  /// What is odd about names, each once.
  std::vector<std::string> take_odd();

 private:
  std::filesystem::path given_path(const Task& task, const std::string& role, const std::string& snapshot,
                                   bool collection) const;

  const Graph& graph_;
  const Store& store_;
  std::filesystem::path outputs_;
  std::map<std::filesystem::path, std::size_t> takers_;  // of given names
  std::set<std::filesystem::path> folders_;              // that are there
  std::set<std::string> told_;
  std::vector<std::string> odd_;
};

/// Shows all of them. Returns what is odd.
std::vector<std::string> write_view(const Graph& graph, const Store& store, const std::vector<ViewItem>& items,
                                    const std::filesystem::path& outputs);

/// Copies the reports among `items` to `<reports>/<pipeline>/<run id>/` and turns `latest`, unless `latest` already
/// shows these contents. Returns the folders that are current, one a report. `expected` reports belong to the run, also
/// some that are not there yet: the only one is the folder itself, several stand side by side in it. 0: as many as given.
std::vector<std::string> write_reports(const Graph& graph, const Store& store, const std::vector<ViewItem>& items,
                                       const std::filesystem::path& reports, const std::string& run_id,
                                       std::size_t expected = 0);

/// Remembers what the view shows, so that a run with nothing to do can tell that it still stands.
void write_view_mark(const Graph& graph, const std::filesystem::path& outputs, const std::vector<std::string>& reports);
/// The report folders of the mark. False when there is no mark or one of them is gone.
bool view_stands(const std::filesystem::path& outputs, const std::string& pipeline, std::vector<std::string>* reports);

/// The file of a report folder that a person opens first: "report.html", "index.html", "report.md", else the folder.
std::filesystem::path front_page(const std::filesystem::path& report);
/// What the report says of itself in a line or two: its member "result.txt". Empty when it has none.
std::vector<std::string> result_lines(const std::filesystem::path& report);

}  // namespace pe::pipeline

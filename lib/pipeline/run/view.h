/// @file
/// Names for people: links in `out/<pipeline>/` to the store's objects, and reports as folders of their own in
/// `reports/<pipeline>/<run id>/`, with `latest` pointing at the newest. Both can be deleted and are made again. Only
/// links and folders of links are replaced: anything else that has one of the names is moved to `NAME.old-<run id>`.
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "pipeline/file/graph.h"
#include "pipeline/plan/plan.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

/// One artifact that a person may look for.
struct ViewItem {
  std::size_t task = 0;
  std::string snapshot;  ///< label, or empty
  OutputRecord output;
};

/// The artifacts of a plan that are in the store.
std::vector<ViewItem> items_of(const Graph& graph, const Plan& plan);

/// The links of `outputs`, usually `<root>/out`. An artifact is called `<stage>/<axis=label,…>[@snapshot][.role]`, or
/// `<stage>/<name>[@snapshot]` where the pipeline file gives its output a name, which may hold '/'. Files end in `.h5`.
/// A given name that is no valid name, or that two artifacts of the pipeline share, gives way to the long one. A long
/// name of more than 200 bytes ends with a digest.
class View {
 public:
  View(const Graph& graph, const Store& store, std::filesystem::path outputs, std::string run_id);
  /// Makes the link; one that is right already stays. @throws IoError
  void show(const ViewItem& item);
  /// For people: odd names, each once, and files of the user that were moved.
  std::vector<std::string> take_odd();
  /// Remembers what was shown, so that a run with nothing to do can tell that it is still there. @throws IoError
  void write_mark(const std::vector<std::string>& reports) const;

 private:
  std::filesystem::path given_path(const Task& task, const std::string& role, const std::string& snapshot,
                                   bool collection) const;

  const Graph& graph_;
  const Store& store_;
  std::filesystem::path outputs_;  // of this pipeline
  std::string run_id_;
  std::map<std::filesystem::path, std::size_t> takers_;  // of given names
  std::set<std::filesystem::path> folders_;              // that are there
  std::set<std::string> told_;
  std::vector<std::string> odd_;
};

/// The reports of a run. The only one is the folder `<reports>/<pipeline>/<run id>` itself, several are folders in it.
class Reports {
 public:
  /// `expected` belong to the run, also some that are not there yet.
  Reports(const Graph& graph, const Store& store, const std::filesystem::path& reports, std::string run_id,
          std::size_t expected);
  /// Copies one, unless `latest` shows its contents already. @throws IoError, also when an object of it is damaged
  void add(const ViewItem& item);
  /// Turns `latest` to the run's folder, unless it shows what was added already. Returns the folders that are current,
  /// one a report. @throws IoError
  std::vector<std::string> finish();
  std::vector<std::string> take_odd();

 private:
  std::string place_of(const ViewItem& item) const;
  void copy(const std::string& place, const std::string& manifest);

  const Graph& graph_;
  const Store& store_;
  std::filesystem::path base_;
  std::string run_id_;
  std::size_t expected_;
  std::map<std::string, std::string> latest_;  // what `latest` shows: place → content
  std::map<std::string, ViewItem> added_;      // by place
  std::set<std::string> copied_;               // places in the run's folder
  std::vector<std::string> odd_;
};

/// How many reports the needed tasks of a plan make.
std::size_t count_reports(const Graph& graph, const Plan& plan);

struct Shown {
  std::vector<std::string> reports;  ///< folders that are current
  std::vector<std::string> odd;      ///< for people: odd names, files that were moved, and failures
};

/// Names everything that a plan found below `root`. `whole`: it is a plan of the whole pipeline. Names decide nothing,
/// so no failure is thrown.
Shown show_all(const Graph& graph, const Plan& plan, const Store& store, const std::filesystem::path& root,
               const std::string& run_id, bool whole);

/// The report folders of the mark. False when there is no mark, a report is gone, or a folder of links has changed.
bool view_stands(const std::filesystem::path& outputs, const std::string& pipeline, std::vector<std::string>* reports);

/// The file of a report folder that a person opens first: "report.html", "index.html", "report.md", else the folder.
std::filesystem::path front_page(const std::filesystem::path& report);
/// What the report says of itself in a line or two: its member "result.txt". Empty when it has none.
std::vector<std::string> result_lines(const std::filesystem::path& report);

}  // namespace pe::pipeline

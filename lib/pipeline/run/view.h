/// @file
/// Names for people: links in `out/<pipeline>/` to the store's objects, and reports as separate folders in
/// `reports/<pipeline>/<run id>/`, with `latest` pointing at the reports of the last plan. Both can be deleted and are
/// made again. Only links and folders of links are replaced: anything else that has one of the names is moved to
/// `NAME.old-<run id>`. One `out/<pipeline>/` never mixes results of different settings (`settings_of_view`).
#pragma once

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <unordered_set>
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

/// All inputs of the names in out/ except the choice of tasks. These are the store, --set and --scale, and by name the
/// pipeline's files, input files and programs with their contents. Plans that agree wherever both have an entry share a
/// view: slices of one pipeline do, before and after an edit do not.
std::map<std::string, std::string> settings_of_view(const Graph& graph, const Store& store);

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
  /// After all links are made: removes links to results of other settings. Where `whole`, it remembers the view, so
  /// that a run with nothing to do can find that it is still there. `id` is `view_id`. @throws IoError
  void finish(const std::vector<std::string>& reports, const std::string& id, bool whole);
  /// Links that had another target before, and links that were taken away.
  std::size_t replaced() const { return replaced_; }
  std::size_t removed() const { return removed_; }
  const std::filesystem::path& folder() const { return outputs_; }
  /// Where an artifact has its name, below `folder()`.
  std::filesystem::path path_of(const ViewItem& item);

 private:
  void remove_others(const std::filesystem::path& folder);
  std::filesystem::path given_path(const Task& task, const std::string& role, const std::string& snapshot,
                                   bool collection) const;

  const Graph& graph_;
  const Store& store_;
  std::filesystem::path outputs_;  // of this pipeline
  std::string run_id_;
  std::map<std::filesystem::path, std::size_t> takers_;  // of given names
  std::set<std::filesystem::path> folders_;              // that are there
  std::unordered_set<std::size_t> shown_;                // hashes of the paths that were shown
  std::size_t replaced_ = 0, removed_ = 0;
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
  /// Where the folder of an earlier run holds just these reports, turns `latest` to it; nothing is copied then.
  /// @throws IoError
  void show_again(const std::vector<ViewItem>& items);
  /// Turns `latest` to the run's folder, unless it shows what was added already. Returns the folders that are current,
  /// one a report. @throws IoError
  std::vector<std::string> finish();
  /// Whether `latest` showed something else before.
  bool turned() const { return turned_; }
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
  bool turned_ = false;
  std::vector<std::string> odd_;
};

/// How many reports the needed tasks of a plan make.
std::size_t count_reports(const Graph& graph, const Plan& plan);

struct ViewChange {
  std::vector<std::string> reports;  ///< folders that are current
  std::vector<std::string> odd;      ///< for people: odd names, files that were moved, and failures
  std::string relinked;              ///< for people: the names that show something else now; empty when none does
};

/// "2 links in out/grid replaced, reports/grid/latest turned": what changed, relative to `root`; empty where nothing
/// did.
std::string relinked_text(const View& view, const Reports& reports, const std::filesystem::path& root);

/// Names everything that a plan found below `root`. `whole`: it is a plan of the whole pipeline. Names decide nothing,
/// so no failure is thrown.
ViewChange show_all(const Graph& graph, const Plan& plan, const Store& store, const std::filesystem::path& root,
                    const std::string& run_id, bool whole);

/// Tells views apart: a digest of the store's place and of the artifacts that a plan shows, with their names.
std::string view_id(const Graph& graph, const Plan& plan, const Store& store);
std::string view_id(const Graph& graph, const std::vector<ViewItem>& items, const Store& store);

/// The report folders of the mark. False when there is no mark, it is of another view, a report is gone, `latest` shows
/// another one, or a folder of links has changed. `root` holds out/ and reports/; `id` is `view_id`.
bool view_stands(const std::filesystem::path& root, const std::string& pipeline, const std::string& id,
                 std::vector<std::string>* reports);

/// The file of a report folder that a person opens first: "report.html", "index.html", "report.md", else the folder.
std::filesystem::path front_page(const std::filesystem::path& report);
/// The result of a report in a line or two: its member "result.txt". Empty when it has none.
std::vector<std::string> result_lines(const std::filesystem::path& report);

}  // namespace pe::pipeline

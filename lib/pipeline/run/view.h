/// @file
/// Names for people: links in `out/<pipeline>/` to the store's objects, and reports as folders of their own in
/// `reports/<pipeline>/<run id>/`, with `latest` pointing at the newest. Both can be deleted and are made again.
#pragma once

#include <filesystem>
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

/// Makes the links; those that are right already stay. `outputs` is the folder, usually `<root>/out`. An artifact is
/// called `<stage>/<axis=label,…>[@snapshot][.role]`, or `<stage>/<name>[@snapshot]` where the pipeline file gives its
/// output a name, which may hold '/'. Files end in `.h5`. Names that are no names, or that two artifacts share, are put
/// aside for the long ones; what is returned says so, each once.
std::vector<std::string> write_view(const Graph& graph, const Store& store, const std::vector<ViewItem>& items,
                const std::filesystem::path& outputs);

/// Copies the reports among `items` to `<reports>/<pipeline>/<run id>/` and turns `latest`, unless `latest` already
/// shows these contents. Returns the folders that are current, one a report.
std::vector<std::string> write_reports(const Graph& graph, const Store& store, const std::vector<ViewItem>& items,
                                       const std::filesystem::path& reports, const std::string& run_id);

/// Remembers what the view shows, so that a run with nothing to do can tell that it still stands.
void write_view_mark(const Graph& graph, const std::filesystem::path& outputs, const std::vector<std::string>& reports);
/// The report folders of the mark. False when there is no mark or one of them is gone.
bool view_stands(const std::filesystem::path& outputs, const std::string& pipeline, std::vector<std::string>* reports);

/// The file of a report folder that a person opens first: "report.html", "index.html", "report.md", else the folder.
std::filesystem::path front_page(const std::filesystem::path& report);

}  // namespace pe::pipeline

/// @file
/// One page with everything: pictures, tables, data and script are in it, so it opens from a file, without a network,
/// and reads whole without JavaScript. On demand a figure comes alive (Chart.js, from Debian's libjs-chart.js).
#pragma once

#include <string>
#include <vector>

#include "report/sections/section.h"

namespace pe::report {

struct PageFigure {
  const Figure* figure = nullptr;
  std::vector<std::string> panels;  ///< SVG elements; fewer than the figure has when a page would grow too large
};

struct PageSection {
  const Section* section = nullptr;
  std::vector<PageFigure> figures;
};

struct Page {
  std::string title;
  std::string lead;
  Json study;  ///< encodings, seeds, axes, variants, runs, trainings and configs, for filters and the drawer of numbers
  std::vector<PageSection> sections;
};

/// HTML 5. Same input, same bytes.
std::string render_page(const Page& page);

}  // namespace pe::report

#include "report/page/html.h"

#include <algorithm>

#include "report/text_escape.h"
#include "support/json_text.h"
#include "support/text.h"
#include "support/version.h"

namespace pe::report {
namespace {

using support::cat;

/// The page is the same on every machine. `pe-pipeline run` fills this place in the copy in reports/ with the origins
/// of results.
constexpr const char kNoOrigins[] = "<!--origins-->\n";

constexpr const char kStyle[] =
#include "page.css.inc"
    ;
constexpr const char kScript[] =
#include "page.js.inc"
    ;
constexpr const char kTableScript[] =
#include "table.js.inc"
    ;
constexpr const char kStudyScript[] =
#include "study.js.inc"
    ;
constexpr const char kChartJs[] =
#include "chart.min.js.inc"
    ;
constexpr const char kChartJsLicence[] =
#include "chart_copyright.inc"
    ;

std::string figure_html(const PageFigure& shown, const std::string& section_title) {
  const Figure& figure = *shown.figure;
  const bool live = figure.kind == Figure::Kind::kLines;
  std::string text =
      cat("<figure id=\"figure-", escape_html(figure.id), "\"",
          live ? cat(" data-live=\"", escape_html(figure.id), "\"") : "", ">\n",
          figure.title == section_title ? std::string() : cat("<h3>", escape_html(figure.title), "</h3>\n"),
          figure.setting.empty() ? std::string() : cat("<p class=\"setting\">", escape_html(figure.setting), "</p>\n"),
          "<div class=\"panels\">\n");
  for (std::size_t i = 0; i < shown.panels.size(); ++i) {
    const Panel& panel = figure.panels[i];
    std::string whose;
    if (!panel.encoding.empty()) whose += cat(" data-encoding=\"", escape_html(panel.encoding), "\"");
    if (!panel.encoding.empty() && !panel.variant.empty())
      whose += cat(" data-variant=\"", escape_html(panel.variant), "\"");
    text += cat("<div", whose, ">", shown.panels[i], "</div>\n");
  }
  text += "</div>\n<figcaption>" + escape_html(figure.caption);
  if (shown.panels.size() < figure.panels.size()) {
    text += escape_html(cat(" The first ", shown.panels.size(), " of ", figure.panels.size(),
                            " panels are shown; all are in figures/", figure.id, ".svg."));
  }
  const std::string file = escape_html(figure.id);
  return cat(text, " <span class=\"files\"><a href=\"figures/", file, ".svg\">SVG</a> <a href=\"figures/", file,
             ".pdf\">PDF</a> <a href=\"data/figure_", file, ".csv\">CSV</a></span></figcaption>\n</figure>\n");
}

constexpr std::size_t kFindingsShown = 8;

/// Failed checks and missing results limit all other findings, so they are never folded.
bool limits_findings(const Section& section) { return section.id == "checks" || section.id == "inventory"; }

std::string findings_html(const Page& page) {
  struct Item {
    std::string html;
    bool limits;
  };
  std::vector<Item> items;
  for (const PageSection& shown : page.sections) {
    for (const std::string& finding : shown.section->findings) {
      std::string sentence = clean_text(finding);
      if (!sentence.empty() && sentence[0] >= 'a' && sentence[0] <= 'z')
        sentence[0] = static_cast<char>(sentence[0] - 'a' + 'A');
      items.push_back({"<li>" + escape_html(sentence) + "</li>\n", limits_findings(*shown.section)});
    }
  }
  if (items.empty()) return "";
  const auto limiting =
      static_cast<std::size_t>(std::count_if(items.begin(), items.end(), [](const Item& item) { return item.limits; }));
  const std::size_t others = kFindingsShown - std::min(limiting, kFindingsShown);
  std::string shown, folded;
  std::size_t count = 0, more = 0;
  for (const Item& item : items) {
    const bool fold = !item.limits && count++ >= others;
    more += fold;
    (fold ? folded : shown) += item.html;
  }
  std::string text = cat("<section class=\"findings\" aria-label=\"Findings\">\n<ul>\n", shown, "</ul>\n");
  if (more > 0) text += cat("<details>\n<summary>", more, " more</summary>\n<ul>\n", folded, "</ul>\n</details>\n");
  return text + "</section>\n";
}

}  // namespace

std::string render_page(const Page& page) {
  std::string text =
      cat("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          escape_html(page.title), "</title>\n<style>\n", kStyle, "</style>\n</head>\n<body>\n<header>\n<h1>",
          escape_html(page.title), "</h1>\n<p class=\"lead\">", escape_html(page.lead), "</p>\n", kNoOrigins,
          "</header>\n<nav aria-label=\"Sections\">\n<details open>\n<summary>Contents</summary>\n<ul>\n");
  for (const PageSection& shown : page.sections) {
    text +=
        cat("<li><a href=\"#", escape_html(shown.section->id), "\">", escape_html(shown.section->title), "</a></li>\n");
  }
  text += "<li><a href=\"#about\">About</a></li>\n</ul>\n</details>\n</nav>\n<main>\n";

  text += findings_html(page);

  Json figures = Json::object();
  for (const PageSection& shown : page.sections) {
    text += cat("<section id=\"", escape_html(shown.section->id), "\">\n<h2>", escape_html(shown.section->title),
                "</h2>\n");
    for (const std::string& paragraph : shown.section->paragraphs) text += "<p>" + escape_html(paragraph) + "</p>\n";
    for (const PageFigure& figure : shown.figures) {
      text += figure_html(figure, shown.section->title);
      if (figure.figure->kind == Figure::Kind::kLines)
        figures[figure.figure->id] = figure_json(*figure.figure, 400, figure.panels.size());
    }
    for (const Table& table : shown.section->tables) text += to_html(table);
    text += "</section>\n";
  }
  text += cat(
      "</main>\n<footer>\n<section id=\"about\">\n<h2>About</h2>\n<p>Made by pe-pipeline " PE_VERSION
      ". Figures are also in <code>figures/</code> (SVG, PDF, PNG), tables in <code>tables/</code> (CSV, Markdown, "
      "LaTeX), all data behind them in "
      "<code>data/</code>, and the numbers also in <code>report.json</code>, next to this page. Static pictures: "
      "gnuplot. Interactive charts: Chart.js, "
      "in this page; its licence:</p>\n<details>\n<summary>Licence of Chart.js</summary>\n<pre>",
      [] {
        std::string licence;  // a text of several lines: cleaned line by line
        for (const std::string& line : support::split(kChartJsLicence, '\n')) licence += escape_html(line) + "\n";
        return licence;
      }(),
      "</pre>\n</details>\n</section>\n</footer>\n");
  const auto data_of = [](const char* id, const Json& json) {
    return cat("<script type=\"application/json\" id=\"", id, "\">", escape_json_script(support::json_text(json)),
               "</script>\n");
  };
  text += cat("<script>\n", kTableScript, "</script>\n", data_of("study", page.study), "<script>\n", kStudyScript,
              "</script>\n");
  if (!figures.empty()) {
    text += cat(data_of("figures", figures), "<script>\n", kChartJs, "\n</script>\n<script>\n", kScript, "</script>\n");
  }
  return text + "</body>\n</html>\n";
}

}  // namespace pe::report

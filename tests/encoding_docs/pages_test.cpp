// doc/encodings/ equals the output of the present code; texts by their letters, figures by their data.
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <sstream>

#include "encoding_docs/figures.h"
#include "encoding_docs/pages.h"
#include "report/figures/gnuplot.h"
#include "support/files.h"
#include "support/process.h"
#include "support/test_data.h"

using namespace pe;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(pages)

BOOST_AUTO_TEST_CASE(the_pages_of_the_encodings_are_up_to_date) {
  const fs::path folder = test::source_root() / "doc/encodings";
  for (const auto& [name, text] : encoding_docs::generated_texts()) {
    BOOST_TEST_CONTEXT("to bring them up to date: pe-encodings pages --out doc/encodings") {
      if (!fs::exists(folder / name)) {
        BOOST_TEST(false, "doc/encodings/" << name << " is missing");
        continue;
      }
      const std::string there = support::read_file(folder / name);
      BOOST_TEST((there == text), "doc/encodings/" << name << " is out of date");
      std::istringstream lines(name.ends_with(".md") ? text : "");
      for (std::string line; std::getline(lines, line);) {  // a newline in a default would cut its row
        if (line.starts_with("| ")) BOOST_TEST(line.ends_with(" |"), name << " has half a row: " << line);
      }
    }
  }
  for (const encodings::EncodingEntry& entry : encodings::encodings()) {
    const fs::path file = folder / "figures" / (entry.name + ".svg");
    BOOST_REQUIRE_MESSAGE(fs::exists(file), entry.name << " has no figure");
    if (!support::find_program("gnuplot")) continue;
    BOOST_TEST(encoding_docs::is_same_figure(support::read_file(file),
                                             report::render_svg(encoding_docs::encoding_figure(entry))),
               file.filename().string() << " is out of date: pe-encodings pages --out doc/encodings");
  }
}

BOOST_AUTO_TEST_CASE(every_encoding_has_a_row_of_costs) {
  const std::string table = support::read_file(test::source_root() / "doc/performance-encodings.csv");
  for (const encodings::EncodingEntry& entry : encodings::encodings()) {
    BOOST_TEST(table.find("\n" + entry.name + ",") != std::string::npos,
               "doc/performance-encodings.csv has no row of "
                   << entry.name << "; measure it: build/tests/benchmarks/encodings --only " << entry.name);
  }
  for (const char* option : {"rope+canon_abcd", "rope+gate_headwise", "rope+gate_elementwise"}) {
    BOOST_TEST(table.find(std::string("\n") + option + ",") != std::string::npos, option);
  }
}

BOOST_AUTO_TEST_CASE(no_page_is_left_of_an_encoding_that_is_gone) {
  for (const auto& file : fs::directory_iterator(test::source_root() / "doc/encodings")) {
    const std::string name = file.path().stem().string();
    if (file.path().extension() != ".md" || name == "README" || name == "guide" || name == "pitfalls") continue;
    BOOST_TEST((encodings::find_encoding(name) != nullptr), name);
  }
}

BOOST_AUTO_TEST_CASE(a_figure_shows_what_the_code_computes) {
  const report::Figure alibi = encoding_docs::encoding_figure(*encodings::find_encoding("alibi"));
  BOOST_REQUIRE(alibi.panels.size() == 1);  // it sees distances alone
  BOOST_REQUIRE(alibi.panels[0].series.size() == 4);
  for (const report::Point& point : alibi.panels[0].series[0].points) {
    BOOST_TEST(std::abs(point.y - (1 - point.x / 4)) < 1e-3 * std::max(1.0, std::abs(point.y)));  // slope 2^-2
  }
  // Where absolute places matter there is a panel that shows it.
  BOOST_TEST(encoding_docs::encoding_figure(*encodings::find_encoding("learned")).panels.size() == 2);
  BOOST_TEST(encoding_docs::encoding_figure(*encodings::find_encoding("ssmax")).panels.size() == 2);
  BOOST_TEST(encoding_docs::encoding_figure(*encodings::find_encoding("rope")).panels.size() == 1);
}

BOOST_AUTO_TEST_CASE(figures_differ_when_their_numbers_do) {
  const std::string a = "<path d='M45.5,213.6 L-3,4'/>";
  BOOST_TEST(encoding_docs::is_same_figure(a, "<path d='M45.8,213.2 L-3,4'/>"));
  BOOST_TEST(!encoding_docs::is_same_figure(a, "<path d='M46.5,213.6 L-3,4'/>"));
  BOOST_TEST(!encoding_docs::is_same_figure(a, "<path d='M45.5,213.6 L3,4'/>"));
  BOOST_TEST(!encoding_docs::is_same_figure(a, "<path d='M45.5,213.6'/>"));
  BOOST_TEST(!encoding_docs::is_same_figure(a, "<rect d='M45.5,213.6 L-3,4'/>"));
}

BOOST_AUTO_TEST_SUITE_END()

// Every table of a report as LaTeX reads it: pdflatex and xelatex compile them, names of any kind included.
#include <boost/test/unit_test.hpp>

#include "report/page/report.h"
#include "report/section_results.h"
#include "support/files.h"
#include "support/process.h"
#include "support/temp_folder.h"

using namespace pe;
using namespace pe::report;

namespace {

struct Has {
  const char* program;
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(support::find_program(program).has_value());
    if (!result) result.message() << program << " is not installed";
    return result;
  }
};

std::string all_tables() {
  test::TempFolder folder;
  std::string tables;
  const auto add = [&](const std::vector<Section>& sections) {
    for (const Section& section : sections) {
      for (const Table& table : section.tables) tables += to_latex(table) + "\\clearpage\n";
    }
  };
  for (const std::vector<int>& seeds : {std::vector<int>{1, 2}, std::vector<int>{1, 2, 3}}) {
    const auto inputs = folder / std::to_string(seeds.size());
    std::filesystem::create_directories(inputs);
    add(make_sections(read_results(
        {}, sample::write_inputs(inputs, {.encodings = {"none", "rope", "learned"}, .seeds = seeds, .documents = 8}))));
  }
  const std::vector<std::string> names{"a_b & {x} \\y $z$ 100% #1 ^ ~", "[b] 位置編碼",
                                       "caf\xC3\xA9 ≈ √2 “q” <i> \"w\""};
  add(make_sections(sample::perplexities(
      {.encodings = names, .protocols = {"prefix", "sliding", "anchored"}, .lengths = {128, 256, 512, 1024}})));
  return tables;
}

void compiles(const char* program, const std::string& preamble) {
  test::TempFolder folder;
  support::write_file_atomically(
      folder / "tables.tex",
      "\\documentclass[twocolumn]{article}\n" + preamble +
          "\\usepackage{booktabs,siunitx,graphicx}\n\\sisetup{detect-weight=true,mode=text}\n\\extrafloats{100}\n"
          "\\begin{document}\n" +
          all_tables() + "\\end{document}\n",
      false);
  const auto done = support::capture({program, "-interaction=nonstopmode", "-halt-on-error",
                                      "-output-directory=" + folder.path().string(), (folder / "tables.tex").string()});
  const bool well = done.status.code == 0 && std::filesystem::exists(folder / "tables.pdf");
  std::string log = done.out;
  if (const auto at = log.find("\n!"); at != std::string::npos) log = log.substr(at, 600);
  BOOST_TEST(well, log);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(latex)

BOOST_AUTO_TEST_CASE(pdflatex_compiles_every_table, *boost::unit_test::precondition(Has{"pdflatex"})) {
  compiles("pdflatex", "\\usepackage[T1]{fontenc}\n");
}

BOOST_AUTO_TEST_CASE(xelatex_compiles_every_table, *boost::unit_test::precondition(Has{"xelatex"})) {
  compiles("xelatex", "");
}

BOOST_AUTO_TEST_SUITE_END()

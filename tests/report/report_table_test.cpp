#include "report/tables/table.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

using namespace pe::report;

namespace {

Table sample() {
  Table table{.id = "t", .title = "A & B", .caption = "n = 3"};
  table.columns = {{.id = "name", .header = "Name", .text = true},
                   {.id = "ppl",
                    .header = "128 (1×)",
                    .group = "prefix",
                    .style = NumberStyle::kPerplexity,
                    .direction = Direction::kLowerIsBetter},
                   {.id = "ppl2", .header = "256 (2×)", .group = "prefix", .style = NumberStyle::kPerplexity}};
  Cell best = Cell::of_number(12.344);
  best.best = true;
  best.half_width = 0.2;
  Cell two = Cell::of_number(99.5);
  two.parts = {99.0, 100.0};
  table.rows = {{{Cell::of_text("a_b"), best, two}},
                {{Cell::of_text("c,d"), Cell::missing("overflow", "perplexity above 10,000 or not finite"),
                  Cell::of_number(1234.5)},
                 true}};
  return table;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(report_table)

BOOST_AUTO_TEST_CASE(numbers_have_the_digits_that_their_kind_deserves) {
  BOOST_TEST(format_number(12.344, NumberStyle::kPerplexity) == "12.34");
  BOOST_TEST(format_number(123.4, NumberStyle::kPerplexity) == "123");
  BOOST_TEST(format_number(1234.5, NumberStyle::kPerplexity) == "1230");
  BOOST_TEST(format_number(1029.79, NumberStyle::kPerplexity, 0.05) == "1029.790");  // two digits of its interval
  BOOST_TEST(format_number(1030.16, NumberStyle::kPerplexity, 4) == "1030.2");
  BOOST_TEST(format_number(1234.5, NumberStyle::kPerplexity, 300) == "1230");
  BOOST_TEST(format_number(12.344, NumberStyle::kPerplexity, 3) == "12.34");  // never fewer than without
  BOOST_TEST(format_number(99.996, NumberStyle::kPerplexity) == "100");
  BOOST_TEST(format_number(-0.01234, NumberStyle::kSignedNats) == "−0.0123");
  BOOST_TEST(format_number(0.01234, NumberStyle::kSignedNats) == "+0.0123");
  BOOST_TEST(format_number(-0.00001, NumberStyle::kSignedNats) == "0.0000");
  BOOST_TEST(format_number(0.1234, NumberStyle::kPercent) == "12.3");
  BOOST_TEST(format_number(0.0002, NumberStyle::kProbability) == "<0.001");
  BOOST_TEST(format_number(1234567, NumberStyle::kCount) == "1,234,567");
}

BOOST_AUTO_TEST_CASE(a_number_that_is_none_is_never_shown_as_one) {
  BOOST_TEST(Cell::of_number(std::nan("")).text == "n/a");
  BOOST_TEST(!Cell::of_number(std::nan("")).number.has_value());
  BOOST_TEST(Cell::of_number(std::numeric_limits<double>::infinity()).text == "overflow");
}

BOOST_AUTO_TEST_CASE(csv_has_full_precision_and_says_what_is_missing) {
  BOOST_TEST(to_csv(sample()) ==
             "name,ppl,ppl_half_width,ppl2,missing\r\n"
             "a_b,12.344,0.2,99.5,\r\n"
             "\"c,d\",,,1234.5,\"ppl: overflow (perplexity above 10,000 or not finite)\"\r\n");
}

BOOST_AUTO_TEST_CASE(markdown_shows_bold_uncertainty_and_reasons) {
  const std::string text = to_markdown(sample());
  BOOST_TEST(text.find("| a\\_b | **12.34 ± 0.20** | 99.50 (99.00, 100.00) |") != std::string::npos, text);
  BOOST_TEST(text.find("| c,d | overflow | 1230 |") != std::string::npos, text);
  BOOST_TEST(text.find("- overflow: perplexity above 10,000 or not finite — c,d, prefix 128 (1×)") != std::string::npos,
             text);
}

BOOST_AUTO_TEST_CASE(latex_has_rules_s_columns_and_escapes) {
  const std::string text = to_latex(sample());
  BOOST_TEST(text.find("\\begin{tabular}{lS[table-format=2.2]@{\\,}lS[table-format=4.2]@{\\,}l}") != std::string::npos,
             text);
  BOOST_TEST(text.find("\\multicolumn{4}{c}{prefix} \\\\\n\\cmidrule(lr){2-5}") != std::string::npos, text);
  BOOST_TEST(text.find("\\multicolumn{2}{c}{128 (1$\\times$) $\\downarrow$}") != std::string::npos, text);
  // Intervals and both seeds are there; parentheses behind a number, which readers take for a standard error, are not.
  BOOST_TEST(
      text.find(
          "a\\_b & \\bfseries 12.34 & {\\scriptsize [12.14, 12.54]} & 99.50 & {\\scriptsize (99.00, 100.00)} \\\\") !=
          std::string::npos,
      text);
  BOOST_TEST(text.find("c,d & {overflow} &  & 1230 &  \\\\") != std::string::npos, text);
  BOOST_TEST(text.find("\\caption{A \\& B.}") != std::string::npos, text);
  BOOST_TEST(text.find("\\footnotesize n = 3\n") != std::string::npos, text);
  BOOST_TEST(text.find("\\begin{table}\n") != std::string::npos, text);  // three columns need one of a paper
}

BOOST_AUTO_TEST_CASE(latex_of_many_columns_is_a_tabular_for_each_group) {
  Table table{.id = "wide", .title = "Wide", .caption = "n = 3"};
  table.columns = {{.id = "name", .header = "Name", .text = true}};
  Row row{.cells = {Cell::of_text("[a]")}};
  for (const char* group : {"prefix", "blocks", "sliding"}) {
    for (int length = 1; length <= 4; ++length) {
      table.columns.push_back({.id = group + std::to_string(length), .header = std::to_string(length), .group = group});
      row.cells.push_back(Cell::of_number(length));
    }
  }
  table.rows = {row};
  const std::string text = to_latex(table);
  std::size_t count = 0;
  for (std::size_t at = text.find("\\begin{tabular}"); at != std::string::npos;
       at = text.find("\\begin{tabular}", at + 1))
    ++count;
  BOOST_TEST(count == 3u);
  BOOST_TEST(text.find("{}[a] & 1.0000") != std::string::npos, text);  // no optional argument of the line break
}

BOOST_AUTO_TEST_CASE(latex_wraps_sentences_across_the_page) {
  Table table{.id = "t", .title = "Checks"};
  table.columns = {{.id = "verdict", .header = "Verdict", .text = true},
                   {.id = "reason", .header = "Reason", .text = true}};
  table.rows = {{.cells = {Cell::of_text("fail"), Cell::of_text(std::string(60, 'a'))}}};
  BOOST_TEST(to_latex(table).find("\\begin{tabular}{ll}") != std::string::npos, to_latex(table));
  table.rows[0].cells[1] = Cell::of_text(std::string(61, 'a'));
  const std::string text = to_latex(table);
  BOOST_TEST(text.find("\\begin{tabular}{l>{\\raggedright\\arraybackslash}p{0.60\\linewidth}}") != std::string::npos,
             text);
  BOOST_TEST(text.find("\\begin{table*}\n") != std::string::npos, text);
  table.rows[0].cells[0] = Cell::of_text(std::string(600, 'b'));
  BOOST_TEST(to_latex(table).find("p{0.54\\linewidth}>{\\raggedright\\arraybackslash}p{0.20\\linewidth}}") !=
                 std::string::npos,
             to_latex(table));
}

BOOST_AUTO_TEST_CASE(html_names_rows_and_explains_what_is_missing) {
  const std::string text = to_html(sample());
  BOOST_TEST(text.find("<th scope=\"colgroup\" colspan=\"2\">prefix</th>") != std::string::npos, text);
  BOOST_TEST(text.find("<b>12.34</b><small> ± 0.20</small>") != std::string::npos, text);
  BOOST_TEST(text.find("title=\"perplexity above 10,000 or not finite\"") != std::string::npos, text);
}

BOOST_AUTO_TEST_CASE(html_names_the_results_behind_a_row) {
  Table table{.id = "t", .title = "Runs"};
  table.columns = {{.id = "encoding", .header = "Encoding", .text = true}, {.id = "loss", .header = "Loss"}};
  Row row{.cells = {Cell::of_text("rope"), Cell::of_number(1)}};
  table.rows = {row};
  BOOST_TEST(to_html(table).find("<tr data-encoding=\"rope\">") != std::string::npos, to_html(table));
  row.variant = "drop, d50";
  row.runs = {};
  row.trainings = {4, 12};
  table.rows = {row};
  BOOST_TEST(to_html(table).find("<tr data-variant=\"drop, d50\" data-encoding=\"rope\" data-trainings=\"4 12\">") !=
                 std::string::npos,
             to_html(table));
  row.runs = std::vector<std::size_t>{};  // none
  table.rows = {row};
  BOOST_TEST(to_html(table).find("data-runs=\"\" data-trainings=\"4 12\"") != std::string::npos, to_html(table));
}

BOOST_AUTO_TEST_CASE(a_paper_has_one_protocol_and_a_title_one_mark_at_its_end) {
  Table table{.id = "t", .title = "Which one?"};
  table.columns = {{.id = "encoding", .header = "Encoding", .text = true},
                   {.id = "a", .header = "128", .group = "anchored"},
                   {.id = "s", .header = "128", .group = "sliding"}};
  table.rows = {{.cells = {Cell::of_text("rope"), Cell::of_number(1), Cell::of_number(2)}}};
  const std::vector<std::string> protocols{"anchored", "sliding"};
  const Table one = with_protocol(table, "sliding", protocols);
  BOOST_TEST(one.columns.size() == 2u);
  BOOST_TEST(*one.rows[0].cells[1].number == 2);
  BOOST_TEST(with_protocol(table, "blocks", protocols).columns.size() == 3u);  // it has none of it
  BOOST_TEST(to_latex(one).find("Which one?}") != std::string::npos);
  table.columns = {{.id = "protocol", .header = "Protocol", .text = true}, {.id = "n", .header = "n"}};
  table.rows = {{.cells = {Cell::of_text("anchored"), Cell::of_number(1)}},
                {.cells = {Cell::of_text("sliding"), Cell::of_number(2)}}};
  BOOST_TEST(with_protocol(table, "anchored", protocols).rows.size() == 1u);
  BOOST_TEST(title_sentence({.id = "t", .title = "Loss"}) == "Loss.");
}

BOOST_AUTO_TEST_SUITE_END()

#include "report/text_escape.h"

#include <boost/test/unit_test.hpp>

using namespace pe::report;

BOOST_AUTO_TEST_SUITE(text_escape)

BOOST_AUTO_TEST_CASE(nothing_of_a_label_is_markup) {
  BOOST_TEST(escape_html("a<b> & \"c\" 'd'") == "a&lt;b&gt; &amp; &quot;c&quot; &#39;d&#39;");
  BOOST_TEST(escape_markdown("a|b*c_d`e") == "a\\|b\\*c\\_d\\`e");
  BOOST_TEST(escape_latex("50% of $x_1^2$ {a} \\b #1 ~") ==
             "50\\% of \\$x\\_1\\textasciicircum{}2\\$ \\{a\\} \\textbackslash{}b \\#1 \\textasciitilde{}");
}

BOOST_AUTO_TEST_CASE(signs_of_ours_are_latex) {
  BOOST_TEST(escape_latex("Δ ≥ −1 ↓") == "$\\Delta$ $\\geq$ $-$1 $\\downarrow$");
  BOOST_TEST(escape_latex("≈ 2.3 † √ “x”") == "$\\approx$ 2.3 $^\\dagger$ $\\surd$ ``x''");
  BOOST_TEST(escape_latex("café 位") == "café \\texttt{U+4F4D}");
}

BOOST_AUTO_TEST_CASE(marks_of_code_are_no_quotes_in_latex) {
  BOOST_TEST(escape_latex("axis `learning_rate`, and `a`") == "axis \\texttt{learning\\_rate}, and \\texttt{a}");
  BOOST_TEST(escape_latex("one ` alone") == "one \\textasciigrave{} alone");
  BOOST_TEST(escape_latex("``") == "\\textasciigrave{}\\textasciigrave{}");
}

BOOST_AUTO_TEST_CASE(csv_is_quoted_only_where_it_must_be) {
  BOOST_TEST(quote_csv("plain text") == "plain text");
  BOOST_TEST(quote_csv("a,b") == "\"a,b\"");
  BOOST_TEST(quote_csv("say \"x\"") == "\"say \"\"x\"\"\"");
  BOOST_TEST(quote_csv("two\nlines") == "\"two\nlines\"");
}

BOOST_AUTO_TEST_CASE(gnuplot_text_ends_where_we_end_it) {
  BOOST_TEST(quote_gnuplot("it's `date` $(rm) \\n") == "'it''s `date` $(rm) \\n'");
  BOOST_TEST(quote_gnuplot("a\nb") == "'a b'");
}

BOOST_AUTO_TEST_CASE(ill_formed_bytes_and_controls_are_replaced) {
  BOOST_TEST(clean_text("a\xff\x01"
                        "b") ==
             "a\xEF\xBF\xBD\xEF\xBF\xBD"
             "b");
  BOOST_TEST(clean_text("位置 é") == "位置 é");
}

BOOST_AUTO_TEST_CASE(json_cannot_end_its_script_element) {
  BOOST_TEST(escape_json_script("\"</script>\"") == "\"\\u003c/script>\"");
}

BOOST_AUTO_TEST_SUITE_END()

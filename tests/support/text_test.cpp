#include "support/text.h"
#include "support/escaped.h"

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "support/json.h"
#include "support/test_data.h"

using namespace pe::support;

BOOST_AUTO_TEST_SUITE(text)

BOOST_AUTO_TEST_CASE(whole_numbers_are_read_as_people_write_them) {
  BOOST_TEST(parse_integer("2.4e9").value() == 2'400'000'000);
  BOOST_TEST(parse_integer("1_000_000").value() == 1'000'000);
  BOOST_TEST(parse_integer("017").value() == 17);
  BOOST_TEST(parse_integer("300M", Suffixes::kCount).value() == 300'000'000);
  BOOST_TEST(parse_integer("2.4B", Suffixes::kCount).value() == 2'400'000'000);
  BOOST_TEST(parse_integer("8K", Suffixes::kBytes).value() == 8192);
  BOOST_TEST(parse_integer("1.5G", Suffixes::kBytes).value() == 1'610'612'736);
  BOOST_TEST(parse_integer("-3").value() == -3);
  BOOST_TEST(parse_integer("0e100").value() == 0);
  BOOST_TEST(parse_integer("9223372036854775807").value() == INT64_MAX);
  BOOST_TEST(parse_integer("-9223372036854775808").value() == INT64_MIN);
}

BOOST_AUTO_TEST_CASE(what_is_no_whole_number_is_refused_with_its_reason) {
  std::string why;
  for (const char* text : {"0.5", "1e-3", "1.5k"}) {
    BOOST_TEST(!parse_integer(text, Suffixes::kNone, &why));
    BOOST_TEST(why == "is not a whole number");
  }
  for (const char* text :
       {"9223372036854775808", "1e19", "1e99999999999999999999", "99999999999999999999999999999999999999999"}) {
    BOOST_TEST(!parse_integer(text, Suffixes::kNone, &why));
    BOOST_TEST(why == "does not fit into 64 bits");
  }
  BOOST_TEST(!parse_integer("316912650057057350374175801345G", Suffixes::kBytes, &why));
  BOOST_TEST(why == "does not fit into 64 bits");
  for (const char* text : {"", "-", "abc", "1__0", "_1", "1_", "0x10", "12:30", "1e", "1 2", "3K"}) {
    BOOST_TEST(!parse_integer(text, Suffixes::kCount), text);
  }
}

BOOST_AUTO_TEST_CASE(reals_and_durations_are_read) {
  BOOST_TEST(parse_real("1e-3").value() == 0.001);
  BOOST_TEST(parse_real("3").value() == 3.0);
  BOOST_TEST(parse_real("10m", Suffixes::kSeconds).value() == 600.0);
  BOOST_TEST(parse_real("250ms", Suffixes::kSeconds).value() == 0.25);
  BOOST_TEST(std::isnan(parse_real(".nan").value()));
  BOOST_TEST(!parse_real("nan"));
  BOOST_TEST(!parse_real("1e400"));
  BOOST_TEST(parse_real("1e-400").value() == 0.0);
}

BOOST_AUTO_TEST_CASE(the_shortest_text_of_a_real_reads_back) {
  for (const double value : {0.1, 1e-5, 3e300, -2.5, 1.0 / 3, 5e-324}) {
    BOOST_TEST(parse_real(shortest(value)).value() == value);
  }
  BOOST_TEST(shortest(0.001) == "0.001");
}

BOOST_AUTO_TEST_CASE(figures_are_short) {
  BOOST_TEST(short_count(58'700'000) == "58.7M");
  BOOST_TEST(short_count(1'208'000'000) == "1.21B");
  BOOST_TEST(short_count(999'600) == "1.00M");
  BOOST_TEST(short_count(820) == "820");
  BOOST_TEST(with_commas(-1234567) == "-1,234,567");
  BOOST_TEST(with_commas(123) == "123");
  BOOST_TEST(short_bytes(3.2 * (1 << 30)) == "3.2 GiB");
  BOOST_TEST(short_duration(0.004) == "4 ms");
  BOOST_TEST(short_duration(190) == "3 min 10 s");
}

BOOST_AUTO_TEST_CASE(ill_formed_utf8_is_found_at_its_first_byte) {
  BOOST_TEST(find_invalid_utf8("plain ascii, long enough for words") == std::string::npos);
  BOOST_TEST(find_invalid_utf8("\xC3\xBC \xE2\x82\xAC \xF0\x9F\x98\x80") == std::string::npos);
  BOOST_TEST(find_invalid_utf8("ab\xC0\xAF") == 2u);            // overlong
  BOOST_TEST(find_invalid_utf8("12345678\xED\xA0\x80") == 8u);  // surrogate
  BOOST_TEST(find_invalid_utf8("\xF4\x90\x80\x80") == 0u);      // beyond U+10FFFF
  BOOST_TEST(find_invalid_utf8("a\xE2\x82") == 1u);             // cut off
}

BOOST_AUTO_TEST_CASE(each_maximal_bad_part_becomes_one_replacement) {
  // The example of the Unicode standard, table 3-8.
  const std::string input =
      "a\xF1\x80\x80\xE1\x80\xC2"
      "b\x80"
      "c\x80\xBF"
      "d";
  const std::string r = "\xEF\xBF\xBD";
  BOOST_TEST(replace_invalid_utf8(input) == "a" + r + r + r + "b" + r + "c" + r + r + "d");
}

BOOST_AUTO_TEST_CASE(quoting_shows_control_characters) {
  BOOST_TEST(quote("a\nb\x01") == "'a\\nb\\x01'");
  BOOST_TEST(quote("é\xff\xc2\x9b") == "'é\\xff\\xc2\\x9b'");  // what is not UTF-8, and a control of terminals
  BOOST_TEST(escaped("abcdef", 3) == "abc…");
  BOOST_TEST(display_width("\xE6\x97\xA5"
                           "x\xC3\xBC") == 4u);
}

BOOST_AUTO_TEST_SUITE_END()

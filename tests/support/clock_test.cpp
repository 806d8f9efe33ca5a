// How points in time are written: in UTC, whatever the machine's time zone.
#include <boost/test/unit_test.hpp>

#include "support/clock.h"

using namespace pe::support;

BOOST_AUTO_TEST_SUITE(clock_text)

BOOST_AUTO_TEST_CASE(times_are_written_in_utc) {
  BOOST_TEST(utc_text(0) == "1970-01-01T00:00:00Z");
  BOOST_TEST(utc_text(1763754312.0) == "2025-11-21T19:45:12Z");
  BOOST_TEST(utc_text(951782399.875) == "2000-02-28T23:59:59Z");
  BOOST_TEST(utc_date(951782400) == "2000-02-29");
}

BOOST_AUTO_TEST_CASE(milliseconds_are_cut_and_not_rounded_up) {
  BOOST_TEST(utc_text(1763754312.25, true) == "2025-11-21T19:45:12.250Z");
  BOOST_TEST(utc_text(1763754312.9999, true) == "2025-11-21T19:45:12.999Z");
}

BOOST_AUTO_TEST_CASE(now_lies_after_this_was_written) { BOOST_TEST(unix_time() > 1763754312.0); }

BOOST_AUTO_TEST_SUITE_END()

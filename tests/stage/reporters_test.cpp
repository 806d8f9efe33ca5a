#include "stage/reporters.h"

#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <sstream>

#include "support/json.h"

using namespace pe::stage;
using pe::Json;

BOOST_AUTO_TEST_SUITE(reporters)

BOOST_AUTO_TEST_CASE(events_are_json_lines_in_order) {
  int ends[2];
  BOOST_REQUIRE(::pipe(ends) == 0);
  {
    const auto reporter = make_event_reporter(ends[1]);
    reporter->event({{"event", "snapshot"}, {"step", 3}});
    reporter->advance("train", 1, 10, {{"loss", 2.5}});
    reporter->advance("train", 2, 10, {{"loss", 2.4}});  // too soon to be shown
    reporter->advance("train", 10, 10, {{"loss", std::nan("")}});
    reporter->advance("files listed", 1000, 0);
    reporter->advance("files listed", 2000, 0);             // neither is one without a total
    reporter->event({{"event", "bad"}, {"text", "\xFF"}});  // bytes that are not UTF-8 must not break the line
  }
  ::close(ends[1]);
  char buffer[4096];
  const ssize_t count = ::read(ends[0], buffer, sizeof buffer);
  ::close(ends[0]);
  std::istringstream lines(std::string(buffer, static_cast<std::size_t>(count)));
  std::vector<Json> events;
  for (std::string line; std::getline(lines, line);) events.push_back(Json::parse(line));
  BOOST_REQUIRE(events.size() == 5u);
  BOOST_TEST(events[0].at("event") == "snapshot");
  BOOST_TEST(events[1].at("detail").at("loss") == 2.5);
  BOOST_TEST(events[2].at("done") == 10);
  BOOST_TEST(events[3].at("done") == 1000);
  BOOST_TEST(events[4].at("event") == "bad");
}

BOOST_AUTO_TEST_SUITE_END()

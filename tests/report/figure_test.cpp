#include "report/figures/figure.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <set>

using namespace pe::report;
namespace tt = boost::test_tools;

BOOST_AUTO_TEST_SUITE(figure)

BOOST_AUTO_TEST_CASE(labels_keep_their_distance_and_move_as_little_as_they_can) {
  const auto placed = spread_labels({10, 10.2, 10.1, 50}, 2, 0, 100);
  BOOST_TEST(placed[3] == 50.0);
  BOOST_TEST(placed[2] - placed[0] == 2.0, tt::tolerance(1e-12));
  BOOST_TEST(placed[1] - placed[2] == 2.0, tt::tolerance(1e-12));
  BOOST_TEST((placed[0] + placed[1] + placed[2]) / 3 == 10.1, tt::tolerance(1e-12));
}

BOOST_AUTO_TEST_CASE(labels_stay_inside) {
  const auto placed = spread_labels({-5, 0, 99, 120}, 3, 0, 100);
  BOOST_TEST(placed[0] == 0.0);
  BOOST_TEST(placed[1] == 3.0);
  BOOST_TEST(placed[2] == 97.0);
  BOOST_TEST(placed[3] == 100.0);
  BOOST_TEST(spread_labels({}, 3, 0, 100).empty());
}

BOOST_AUTO_TEST_CASE(names_are_chosen_and_drawn_singly_by_the_leading_panel) {
  const auto line = [](const char* name, double y) {
    return Series{.name = name, .role = Series::Role::kMain, .points = {{.x = 1, .y = y}}};
  };
  Figure figure{.id = "f", .title = "Loss", .lead = 1};
  figure.panels = {{.title = "prefix", .series = {line("a", 1), line("b", 2), line("c", 3)}},
                   {.title = "anchored", .series = {line("a", 3), line("b", 1)}}};
  BOOST_TEST((leading_names(figure, "", 2) == std::vector<std::string>{"b", "a"}));
  const Figure each = small_multiples(figure);
  BOOST_TEST(each.title == "Loss, anchored");
  BOOST_REQUIRE(each.panels.size() == 2u);
  BOOST_TEST(each.panels[0].encoding == "a");
  BOOST_TEST(each.panels[0].series[0].points[0].y == 3);
  BOOST_TEST(figure_json(each, 10, 1).at("panels").size() == 1u);
}

BOOST_AUTO_TEST_CASE(lengths_are_ticked_with_all_their_digits) {
  const Axis axis{.title = {}, .scale = Scale::kLog2};
  const Range range = range_of(axis, {512, 1024, 2048, 16384});
  BOOST_REQUIRE(range.ticks.size() == 6u);
  BOOST_TEST(range.ticks[0].label == "512");
  BOOST_TEST(range.ticks[1].label == "1,024");
  BOOST_TEST(range.ticks[5].label == "16,384");
  BOOST_TEST(range.high > 16384);  // the last tick is inside, whatever rounding does
}

BOOST_AUTO_TEST_CASE(perplexities_are_ticked_1_2_5) {
  const Axis axis{.title = {}, .scale = Scale::kLog10};
  std::vector<std::string> labels;
  for (const Tick& tick : ticks_of(axis, 18, 120, 5)) labels.push_back(tick.label);
  BOOST_TEST(labels == (std::vector<std::string>{"20", "50", "100"}), tt::per_element());
  BOOST_TEST(ticks_of(axis, 30, 41, 5).size() >= 3u);  // a narrow range still gets ticks
}

BOOST_AUTO_TEST_CASE(differences_of_both_signs_have_a_logarithmic_axis) {
  const Axis axis{.title = {}, .scale = Scale::kSigned};
  std::vector<std::string> labels;
  for (const Tick& tick : ticks_of(axis, -0.3, 2, 5)) labels.push_back(tick.label);
  BOOST_TEST(labels == (std::vector<std::string>{"−0.1", "−0.01", "0", "0.01", "0.1", "1"}), tt::per_element());
  BOOST_TEST(ticks_of(axis, -0.004, 0.003, 5).size() >= 3u);  // a narrow range is linear
  double before = -1;
  for (const double value : {-0.3, -0.002, 0.0, 0.02, 2.0}) {
    const double position = position_in(axis.scale, -0.3, 2, value);
    BOOST_TEST(position > before);
    before = position;
  }
  BOOST_TEST(position_in(axis.scale, -0.3, 2, -0.3) == 0);
  BOOST_TEST(before == 1);
  // Half of the height for values below 0.05, where a linear axis has a fortieth.
  BOOST_TEST(position_in(axis.scale, 0, 2, 0.05) > 0.38);
  BOOST_TEST(figure_json({.id = "f", .title = "", .y = axis}, 10).at("y").at("scale") == "linear");
}

BOOST_AUTO_TEST_CASE(tokens_share_one_unit) {
  const Axis axis{.title = {}, .scale = Scale::kLinear, .ticks = TickStyle::kCount};
  std::vector<std::string> labels;
  for (const Tick& tick : ticks_of(axis, 0, 1.1e6, 5)) labels.push_back(tick.label);
  BOOST_TEST(labels == (std::vector<std::string>{"0", "0.5M", "1M"}), tt::per_element());
}

BOOST_AUTO_TEST_CASE(a_single_value_and_no_value_have_a_range) {
  for (const Scale scale : {Scale::kLinear, Scale::kLog2, Scale::kLog10, Scale::kSigned}) {
    for (const std::vector<double>& values : {std::vector<double>{}, {128}, {NAN, INFINITY}}) {
      const Range range = range_of({.title = {}, .scale = scale}, values);
      BOOST_TEST(range.low < range.high);
      BOOST_TEST(std::isfinite(range.low));
      BOOST_TEST(std::isfinite(range.high));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_line_that_leaves_is_cut_where_it_leaves) {
  const ClippedLine clipped = clip_line({{1, 10}, {2, 20}, {4, 2000}}, Scale::kLinear, Scale::kLog10, 5, 200);
  BOOST_REQUIRE(clipped.pieces.size() == 1u);
  BOOST_TEST(clipped.leaves_top);
  BOOST_TEST(clipped.exit_x == 3.0, tt::tolerance(1e-9));  // half way from 20 to 2000 on the scale
  BOOST_TEST(clipped.pieces[0].back().y == 200.0);
  BOOST_TEST(clipped.last_y == 2000.0);
}

BOOST_AUTO_TEST_CASE(overflow_goes_to_the_top_and_gaps_split) {
  const ClippedLine overflow = clip_line({{1, 10}, {2, INFINITY}}, Scale::kLinear, Scale::kLog10, 5, 200);
  BOOST_TEST(overflow.leaves_top);
  BOOST_TEST(overflow.pieces.at(0).back().x == 2.0);
  BOOST_TEST(overflow.pieces.at(0).back().y == 200.0);
  const ClippedLine gap = clip_line({{1, 10}, {2, NAN}, {3, 12}, {4, 13}}, Scale::kLinear, Scale::kLog10, 5, 200);
  BOOST_TEST(gap.pieces.size() == 2u);
  BOOST_TEST(!gap.leaves_top);
}

BOOST_AUTO_TEST_CASE(bands_are_clamped_by_us) {
  const auto pieces = clamp_band({{.x = 1, .y = 10, .low = 8, .high = 12}, {.x = 2, .y = 100, .low = 50, .high = 9000}},
                                 Scale::kLinear, Scale::kLog10, 5, 200);
  BOOST_REQUIRE(pieces.size() == 1u);
  BOOST_TEST(pieces[0].size() > 20u);
  for (const Point& point : pieces[0]) {
    BOOST_TEST(point.low >= 5);
    BOOST_TEST(point.high <= 200);
    BOOST_TEST(point.low <= point.high);
  }
}

BOOST_AUTO_TEST_CASE(thinning_keeps_ends_and_extremes) {
  std::vector<Point> points;
  for (int i = 0; i < 5000; ++i) points.push_back({static_cast<double>(i), i == 1234 ? 99.0 : std::sin(i * 0.01)});
  const auto kept = thin(points, 200);
  BOOST_TEST(kept.size() <= 200u);
  BOOST_TEST(kept.front().x == 0.0);
  BOOST_TEST(kept.back().x == 4999.0);
  BOOST_TEST(std::any_of(kept.begin(), kept.end(), [](const Point& p) { return p.y == 99.0; }));
}

BOOST_AUTO_TEST_CASE(no_colour_comes_twice_among_names_that_are_told_apart) {
  std::vector<std::string> names{"none", "rope", "rope_ssmax", "log_alibi", "t5", "fire", "cope"};
  for (int i = 0; i < 40; ++i) names.push_back("own_" + std::to_string(i));
  Palette palette({"own_3 #0072b2 square solid"});
  palette.tell_apart(names);
  std::set<std::string> colours;
  for (const std::string& name : names) BOOST_TEST(colours.insert(palette.look(name).colour).second, name);
  BOOST_TEST(palette.look("own_3").colour == "#0072b2");  // as it was asked for
  BOOST_TEST(palette.look("none").colour == "#000000");   // the first to have it
  // More names than there are colours: some keep a colour that another one has.
  for (int i = 0; i < 1200; ++i) names.push_back("more_" + std::to_string(i));
  Palette many;
  many.tell_apart(names);
  std::set<std::string> used;
  for (const std::string& name : names) used.insert(many.look(name).colour);
  BOOST_TEST(used.size() > 300u);
}

BOOST_AUTO_TEST_CASE(an_unlisted_encoding_takes_a_look_that_is_free) {
  Palette palette({"mine #123456 square-open dotted"});
  BOOST_TEST(palette.look("mine").colour == "#123456");
  const Look first = palette.look("new one"), second = palette.look("another");
  BOOST_TEST((first.colour != second.colour || first.shape != second.shape || first.dash != second.dash));
  BOOST_TEST(palette.look("new one").colour == first.colour);
  BOOST_CHECK_EXCEPTION(parse_look("rope blue circle solid"), std::exception, [](const std::exception& e) {
    return std::string(e.what()).find("#RRGGBB") != std::string::npos;
  });
  BOOST_CHECK_EXCEPTION(parse_look("rope #000000 cirle solid"), std::exception, [](const std::exception& e) {
    return std::string(e.what()).find("did you mean 'circle'") != std::string::npos;
  });
}

BOOST_AUTO_TEST_SUITE_END()

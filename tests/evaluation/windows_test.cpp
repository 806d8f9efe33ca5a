#include "evaluation/windows.h"

#include <boost/test/unit_test.hpp>
#include <vector>

using namespace pe::evaluation;

namespace {

using Windows = std::vector<Window>;

/// Every token is scored once, in order, without gaps.
void covers(const Windows& windows, std::int64_t n, std::int64_t next = 0) {
  for (const Window& window : windows) {
    BOOST_TEST(window.score_begin == next);
    BOOST_TEST(window.begin <= window.score_begin);
    BOOST_TEST(window.end == window.score_end);
    next = window.score_end;
  }
  BOOST_TEST(next == n);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(windows_of_a_document)

BOOST_AUTO_TEST_CASE(sliding_windows_have_their_golden_extents) {
  BOOST_CHECK(
      (windows(Protocol::kSliding, 10, 4, 2) == Windows{{0, 4, 0, 4}, {2, 6, 4, 6}, {4, 8, 6, 8}, {6, 10, 8, 10}}));
  BOOST_CHECK((windows(Protocol::kSliding, 10, 4, 4) == Windows{{0, 4, 0, 4}, {4, 8, 4, 8}, {8, 10, 8, 10}}));
  BOOST_CHECK(
      (windows(Protocol::kSliding, 11, 4, 3) == Windows{{0, 4, 0, 4}, {3, 7, 4, 7}, {6, 10, 7, 10}, {9, 11, 10, 11}}));
}

BOOST_AUTO_TEST_CASE(sliding_scores_every_token_once) {
  for (std::int64_t n : {1, 3, 4, 5, 17, 64, 65}) {
    for (std::int64_t length : {1, 2, 4, 16, 64}) {
      for (std::int64_t stride = 1; stride <= length; ++stride) {
        covers(windows(Protocol::kSliding, n, length, stride), n);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(sliding_without_overlap_equals_blocks_but_for_the_short_tail) {
  BOOST_CHECK(windows(Protocol::kSliding, 96, 32, 32) == windows(Protocol::kBlocks, 96, 32, 32));
  BOOST_CHECK(windows(Protocol::kSliding, 100, 64, 64) == windows(Protocol::kBlocks, 100, 64, 64));
  Windows sliding = windows(Protocol::kSliding, 100, 40, 40);
  BOOST_TEST(sliding.back().end - sliding.back().begin == 20);
  sliding.pop_back();
  BOOST_CHECK(sliding == windows(Protocol::kBlocks, 100, 40, 40));
}

BOOST_AUTO_TEST_CASE(blocks_keep_a_tail_of_thirty_two_tokens) {
  BOOST_TEST(windows(Protocol::kBlocks, 64 + 32, 64, 64).size() == 2);
  BOOST_TEST(windows(Protocol::kBlocks, 64 + 31, 64, 64).size() == 1);
}

BOOST_AUTO_TEST_CASE(all_protocols_agree_on_a_document_within_one_window) {
  for (std::int64_t n : {1, 5, 31, 32, 64}) {
    const Windows one = {{0, n, 0, n}};
    for (Protocol protocol : {Protocol::kPrefix, Protocol::kBlocks, Protocol::kSliding}) {
      BOOST_CHECK(windows(protocol, n, 64, 16) == one);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_prefix_is_one_window) {
  BOOST_CHECK((windows(Protocol::kPrefix, 100, 40, 1) == Windows{{0, 40, 0, 40}}));
}

BOOST_AUTO_TEST_CASE(an_empty_document_has_no_windows) {
  for (Protocol protocol : {Protocol::kPrefix, Protocol::kBlocks, Protocol::kSliding}) {
    BOOST_TEST(windows(protocol, 0, 64, 16).empty());
  }
}

BOOST_AUTO_TEST_CASE(the_default_stride_is_256_from_1024_tokens_on) {
  BOOST_TEST(default_stride(1024) == 256);
  BOOST_TEST(default_stride(16384) == 256);
  BOOST_TEST(default_stride(512) == 128);
  BOOST_TEST(default_stride(3) == 1);
}

BOOST_AUTO_TEST_CASE(rolling_windows_predict_every_token_once_and_are_whole) {
  // The token before a window is part of it, and the last one is not fed: four tokens from four.
  BOOST_CHECK((rolling_windows(13, 4) == Windows{{0, 5, 1, 5}, {4, 9, 5, 9}, {8, 13, 9, 13}}));
  BOOST_CHECK((rolling_windows(11, 4) == Windows{{0, 5, 1, 5}, {4, 9, 5, 9}, {6, 11, 9, 11}}));
  BOOST_CHECK((rolling_windows(3, 4) == Windows{{0, 3, 1, 3}}));
  BOOST_CHECK((rolling_windows(12, 4, 8) == Windows{{7, 12, 8, 12}}));
  for (std::int64_t n : {2, 17, 64, 65}) {
    for (std::int64_t length : {1, 2, 3, 16, 64}) covers(rolling_windows(n, length), n, 1);
  }
}

BOOST_AUTO_TEST_CASE(sliding_goes_on_where_a_piece_before_ended) {
  const Windows whole = windows(Protocol::kSliding, 48, 8, 4);
  Windows parts;
  for (std::int64_t piece = 0; piece < 3; ++piece) {  // pieces of 16 tokens, of which up to 8 are read again
    const std::int64_t history = std::min<std::int64_t>(8, 16 * piece), origin = 16 * piece - history;
    for (const Window& window : sliding_windows(history + 16, 8, 4, history)) {
      parts.push_back(
          {window.begin + origin, window.end + origin, window.score_begin + origin, window.score_end + origin});
    }
  }
  BOOST_CHECK(parts == whole);
}

BOOST_AUTO_TEST_CASE(anchored_windows_of_all_lengths_end_with_the_same_targets) {
  for (const std::int64_t end : anchors(7, 5000, 1024, 4)) {
    BOOST_TEST(end >= 1024);
    BOOST_TEST(end <= 5000);
    for (std::int64_t length : {64, 128, 1024}) {
      BOOST_CHECK((anchored_windows(end, length, 32) == Windows{{end - length, end, end - 32, end}}));
    }
    // A short window cannot score them all with half of it before them, so several do, one after the other.
    BOOST_CHECK((anchored_windows(end, 32, 40) == Windows{{end - 56, end - 24, end - 40, end - 24},
                                                          {end - 40, end - 8, end - 24, end - 8},
                                                          {end - 32, end, end - 8, end}}));
  }
  BOOST_TEST(anchors(7, 5000, 1024, 4).size() == 4u);
  BOOST_TEST(anchors(7, 5000, 1024, 4) == anchors(7, 5000, 1024, 4), boost::test_tools::per_element());
  BOOST_TEST((anchors(7, 5000, 1024, 4) != anchors(8, 5000, 1024, 4)));
  BOOST_TEST(anchors(7, 1024, 1024, 4) == std::vector<std::int64_t>{1024}, boost::test_tools::per_element());
  BOOST_TEST(targets_within(256, 64) == 32);
  BOOST_TEST(targets_within(256, 4096) == 256);
}

BOOST_AUTO_TEST_CASE(a_tail_is_the_end_of_a_prefix) {
  BOOST_CHECK((tail_window(1000, 512, 256) == Window{0, 512, 256, 512}));
  BOOST_CHECK((tail_window(100, 512, 256) == Window{0, 100, 0, 100}));
}

BOOST_AUTO_TEST_SUITE_END()

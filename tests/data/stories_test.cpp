#include "data/sources/stories.h"

#include <boost/test/unit_test.hpp>

#include <cmath>
#include <set>

#include "artifact/eval_table.h"
#include "artifact/raw_text.h"
#include "data/sources/document_source.h"
#include "data/sources/fetch.h"
#include "data/sources/ideal_reader.h"
#include "support/error.h"
#include "support/temp_folder.h"
#include "support/text.h"

using namespace pe;
using data::make_story;
using data::Story;

BOOST_AUTO_TEST_SUITE(stories)

namespace {

std::int64_t words_of(const std::string& text) {
  std::int64_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n';
    words += !space && !inside;
    inside = !space;
  }
  return words;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_story_depends_on_its_seed_and_number_alone) {
  const Story again = make_story(7, 123, 50, 20000);
  make_story(7, 5, 50, 20000);
  BOOST_TEST(make_story(7, 123, 50, 20000).text == again.text);
  std::set<std::string> texts;
  for (std::uint64_t i = 0; i < 200; ++i) texts.insert(make_story(7, i, 50, 20000).text);
  texts.insert(make_story(8, 0, 50, 20000).text);
  BOOST_TEST(texts.size() == 201u);
}

BOOST_AUTO_TEST_CASE(lengths_keep_their_bounds_and_are_counted_right) {
  for (const auto& [low, high] : {std::pair{50, 20000}, {50, 200}, {1000, 1150}, {19850, 20000}}) {
    const int count = low > 10000 ? 20 : 500;
    for (int i = 0; i < count; ++i) {
      const Story story = make_story(3, static_cast<std::uint64_t>(i), low, high);
      BOOST_REQUIRE(story.words == words_of(story.text));
      BOOST_REQUIRE(story.words >= low);
      BOOST_REQUIRE(story.words <= high);
    }
  }
}

BOOST_AUTO_TEST_CASE(one_story_in_twenty_says_a_line_twice_word_for_word) {
  int repeated = 0;
  for (std::uint64_t i = 0; i < 2000; ++i) {
    const Story story = make_story(11, i, 50, 2000);
    if (story.repeated_line.empty()) continue;
    ++repeated;
    const std::size_t first = story.text.find(story.repeated_line);
    BOOST_REQUIRE(first != std::string::npos);
    BOOST_REQUIRE(story.text.find(story.repeated_line, first + 1) != std::string::npos);
  }
  BOOST_TEST(repeated > 60);
  BOOST_TEST(repeated < 140);
}

BOOST_AUTO_TEST_CASE(what_is_asked_was_said_before) {
  int questions = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const std::string text = make_story(5, i, 200, 3000).text;
    const std::string mark = "It was number ";
    for (std::size_t at = text.find(mark); at != std::string::npos; at = text.find(mark, at + 1)) {
      const std::string number = text.substr(at + mark.size(), text.find('.', at) - at - mark.size());
      BOOST_REQUIRE(text.find("number " + number) < at);
      ++questions;
    }
  }
  BOOST_TEST(questions > 100);
}

BOOST_AUTO_TEST_CASE(the_supply_ends_with_the_story_that_reaches_its_words) {
  const auto source = data::make_story_source({.seed = 1, .words = 5000});
  data::DocumentSource::Item item;
  std::int64_t words = 0, last = 0;
  while (source->next(item) == data::DocumentSource::Outcome::kDocument) words += last = words_of(item.text);
  BOOST_TEST(words >= 5000);
  BOOST_TEST(words - last < 5000);
}

BOOST_AUTO_TEST_CASE(what_a_sentence_says_again_stands_that_far_before_it) {
  std::size_t recalls = 0, numbers = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const Story story = make_story(5, i, 200, 3000);
    for (const data::Recall& recall : story.recalls) {
      ++recalls;
      BOOST_REQUIRE(recall.nats >= 0);
      BOOST_REQUIRE(recall.distance >= 0);
      BOOST_REQUIRE(recall.distance <= recall.at);
      BOOST_REQUIRE(recall.at <= static_cast<std::int64_t>(story.text.size()));
      if (std::abs(recall.nats - std::log(99.0)) > 1e-12) continue;  // a number on a door
      // The sentence says a number word that the text also has where it was last said, or right before.
      const auto sentence = story.text.substr(static_cast<std::size_t>(recall.at));
      const std::string mark = sentence.find("number ") < 160 ? "number " : "the number on ";
      BOOST_REQUIRE(sentence.find(mark) != std::string::npos);
      const std::string before = story.text.substr(0, static_cast<std::size_t>(recall.at - recall.distance));
      BOOST_REQUIRE(before.find("number ") != std::string::npos);
      ++numbers;
    }
  }
  BOOST_TEST(recalls > 10000u);
  BOOST_TEST(numbers > 300u);
}

BOOST_AUTO_TEST_CASE(the_value_of_context_agrees_with_an_independent_count) {
  // Counted by other code over facts that sentences ask for, without names: a lower bound. Nats per token of 4.375
  // bytes.
  const struct { double tokens, counted; } contexts[] = {{128, 0.129}, {512, 0.042}, {2048, 0.003}};
  constexpr double kBytes = 4.375;
  double bytes = 0, lost[3] = {};
  for (std::uint64_t index = 0; index < 200; ++index) {
    const Story story = make_story(1, index, 1600, 4000);
    bytes += static_cast<double>(story.text.size());
    for (const data::Recall& recall : story.recalls) {
      for (int i = 0; i < 3; ++i) {
        if (static_cast<double>(recall.distance) > contexts[i].tokens * kBytes) lost[i] += recall.nats;
      }
    }
  }
  for (int i = 0; i < 3; ++i) {
    const double ours = lost[i] / bytes * kBytes;
    BOOST_TEST_MESSAGE(contexts[i].tokens << " tokens: " << ours << " nats per token");
    BOOST_TEST(ours >= 0.9 * contexts[i].counted);
    BOOST_TEST(ours <= 1.4 * contexts[i].counted);
  }
}

BOOST_AUTO_TEST_CASE(an_ideal_reader_loses_less_with_more_context) {
  const test::TempFolder folder;
  artifact::Workspace workspace;
  workspace.progress = &support::silent_progress();
  workspace.outputs["raw"] = folder / "raw";
  const Json told{{"source", "generated"}, {"generated", {{"seed", 3}, {"words", 200000}, {"max_words", 20000}}}};
  const auto config = support::make_config<data::FetchConfig>(told);
  workspace.recipe.config = told;
  data::fetch(config, workspace);
  workspace.inputs["raw"] = {{folder / "raw", artifact::Kind::kRawText, "", {}}};
  workspace.outputs["scores"] = folder / "scores.h5";
  data::ideal_reader({.words = 200000}, workspace);
  const artifact::Table table =
      artifact::read_eval_tables(artifact::h5::File::open(folder / "scores.h5")).at("ideal_reader");
  const auto position = table.reals("position"), context = table.reals("context"), nats = table.reals("nats_per_byte");
  for (std::size_t row = 1; row < table.rows(); ++row) {
    if (position[row] == position[row - 1]) BOOST_TEST(nats[row] <= nats[row - 1]);
    BOOST_TEST(context[row] <= position[row]);
  }
  // With some 500 bytes of context, a reader of text that has 4,096 bytes before it loses at least 0.01 nats per byte.
  // It loses at most all that names, numbers and places could save.
  for (std::size_t row = 0; row < table.rows(); ++row) {
    if (position[row] != 4096 || context[row] != 512) continue;
    BOOST_TEST(nats[row] > 0.01);
    BOOST_TEST(nats[row] < 0.2);
  }
  workspace.inputs["raw"] = {{folder / "own", artifact::Kind::kRawText, "", {}}};
  workspace.outputs["raw"] = folder / "own";
  workspace.recipe.config = {{"source", "local"}};
  artifact::RawTextWriter(folder / "own", workspace.recipe).finish();
  BOOST_CHECK_THROW(data::ideal_reader({}, workspace), support::ArtifactError);
}

BOOST_AUTO_TEST_SUITE_END()

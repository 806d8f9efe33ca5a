// Stories of the small world, read again by a program that knows sentences alone.
#include "evaluation/retrieval/small_world.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <map>
#include <set>
#include <sstream>

using namespace pe::evaluation;

namespace {

using Words = std::vector<std::string>;

Words words_of(std::string text) {
  std::erase_if(text, [](char c) { return c == '.' || c == '?'; });
  std::istringstream in(text);
  Words words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

/// Reads lines one after the other and answers questions that they decide; "" where they do not.
class Reader {
 public:
  void read(const std::string& line) {
    const Words w = words_of(line);
    if (w[1] == "went") {
      place_[w[0]] = w[4];
      for (const auto& [thing, holder] : holder_) {
        if (holder == w[0]) seen_at(thing, w[4]);
      }
    } else if (w[1] == "took") {
      holder_[w[3]] = w[0];
      seen_at(w[3], place_[w[0]]);
    } else if (w[1] == "put") {
      holder_.erase(w[3]);
    } else if (w[1] == "handed") {
      holder_[w[3]] = w[5];
      handed_.push_back({w[0], w[3], w[5]});
    } else {  // The a lies way of the b
      beside_.push_back({w[1], w[3], w[6]});
    }
  }

  std::string answer(const std::string& question) {
    const Words w = words_of(question);
    if (w[0] == "Where" && w[1] == "is") return w[2] == "the" ? last(w[3]) : place_[w[2]];
    if (w[0] == "Where") {  // Where was the thing before the place
      const Words& path = path_[w[3]];
      for (std::size_t i = path.size(); i-- > 1;) {
        if (path[i] == w[6]) return path[i - 1];
      }
      return "";
    }
    if (w[0] == "What" && w[1] == "lies")
      return only([&](const Words& b) { return b[1] == w[2] && b[2] == w[5]; }, beside_, 0);
    if (w[0] == "The") return only([&](const Words& b) { return b[0] == w[1] && b[1] == w[3]; }, beside_, 2);
    if (w[0] == "Who") return only([&](const Words& h) { return h[1] == w[3] && h[2] == w[5]; }, handed_, 0);
    if (w[0] == "What") return only([&](const Words& h) { return h[0] == w[2] && h[2] == w[5]; }, handed_, 1);
    return only([&](const Words& h) { return h[0] == w[3] && h[1] == w[6]; }, handed_,
                2);  // To whom did P hand the thing
  }

 private:
  void seen_at(const std::string& thing, const std::string& place) {
    Words& path = path_[thing];
    if (path.empty() || path.back() != place) path.push_back(place);
  }
  std::string last(const std::string& thing) { return path_[thing].empty() ? "" : path_[thing].back(); }
  template <typename Test>
  static std::string only(const Test& test, const std::vector<Words>& all, std::size_t wanted) {
    std::string found;
    for (const Words& one : all) {
      if (!test(one)) continue;
      if (!found.empty()) return "";
      found = one[wanted];
    }
    return found;
  }

  std::map<std::string, std::string> place_, holder_;
  std::map<std::string, Words> path_;
  std::vector<Words> handed_, beside_;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(small_world)

BOOST_AUTO_TEST_CASE(lines_alone_decide_every_question) {
  const std::pair<std::size_t, std::size_t> lengths[] = {{2, 8}, {4, 12}, {6, 16}, {2, 2}, {2, 6}};
  for (int task = 1; task <= kWorldTasks; ++task) {
    std::map<std::string, int> answers;
    int known = 0;
    for (std::uint64_t i = 0; i < 1000; ++i) {
      pe::support::Xoshiro random(pe::support::make_key({static_cast<std::uint64_t>(task), i}));
      const WorldStory story = draw_story(task, random);
      Reader all, some;
      for (std::size_t line = 0; line < story.lines.size(); ++line) {
        all.read(story.lines[line]);
        const bool decides = std::count(story.deciding.begin(), story.deciding.end(), line) != 0;
        if (!decides) some.read(story.lines[line]);
      }
      BOOST_REQUIRE_MESSAGE(all.answer(story.question) == story.answer,
                            story.question << " " << story.answer << ", not " << all.answer(story.question));
      known += some.answer(story.question) == story.answer;
      BOOST_TEST(story.lines.size() >= lengths[task - 1].first);
      BOOST_TEST(story.lines.size() <= lengths[task - 1].second);
      BOOST_TEST(story.sort.size() == 8u);
      BOOST_TEST(std::count(story.sort.begin(), story.sort.end(), story.answer) == 1);
      ++answers[story.answer];
    }
    BOOST_TEST(known == 0, "task " << task << ": " << known << " answers are known without the lines that decide");
    BOOST_TEST(answers.size() >= 8u);
  }
}

BOOST_AUTO_TEST_CASE(a_story_depends_on_its_key_alone) {
  for (int task = 1; task <= kWorldTasks; ++task) {
    std::set<std::string> different;
    for (std::uint64_t i = 0; i < 50; ++i) {
      pe::support::Xoshiro one(i), again(i);
      const WorldStory a = draw_story(task, one), b = draw_story(task, again);
      BOOST_TEST((a.lines == b.lines && a.question == b.question && a.answer == b.answer));
      different.insert(a.lines[0] + a.question);
    }
    BOOST_TEST(different.size() > 30u);
  }
}

BOOST_AUTO_TEST_SUITE_END()

#include "evaluation/retrieval/small_world.h"

#include <algorithm>
#include <array>
#include <optional>

#include "support/text.h"

namespace pe::evaluation {

namespace {

using support::cat;

const std::vector<std::string> kPeople = {"Anna", "Ben", "Clara", "David", "Emma", "Felix", "Grace", "Henry"};
const std::vector<std::string> kPlaces = {"kitchen", "garden", "garage", "attic",
                                          "cellar",  "hall",   "office", "library"};
const std::vector<std::string> kThings = {"lamp", "book", "ball", "cup", "key", "coat", "box", "map"};
const std::vector<std::string> kDirections = {"north", "south", "east", "west"};
constexpr int kEach = 8;
constexpr int kNobody = -1, kUnknown = -1;

int below(support::Xoshiro& random, std::size_t bound) { return static_cast<int>(random.below(bound)); }
const std::string& name(const std::vector<std::string>& of, int which) { return of[static_cast<std::size_t>(which)]; }

template <typename T>
const T& one_of(const std::vector<T>& all, support::Xoshiro& random) {
  return all[random.below(all.size())];
}

enum class Kind { kGo, kTake, kPut, kHand };

struct Event {
  Kind kind;
  int person = 0, place = 0, thing = 0, other = 0;

  std::string text() const {
    switch (kind) {
      case Kind::kGo:
        return cat(name(kPeople, person), " went to the ", name(kPlaces, place), ".");
      case Kind::kTake:
        return cat(name(kPeople, person), " took the ", name(kThings, thing), ".");
      case Kind::kPut:
        return cat(name(kPeople, person), " put the ", name(kThings, thing), " down.");
      case Kind::kHand:
        return cat(name(kPeople, person), " handed the ", name(kThings, thing), " to ", name(kPeople, other), ".");
    }
    return "";
  }
};

/// A place where a thing has been, and the lines that say so.
struct Stay {
  int place;
  std::vector<std::size_t> lines;
};

/// Follows events, and keeps the facts that the lines alone state.
class World {
 public:
  explicit World(support::Xoshiro& random) {
    for (int& place : lies_) place = below(random, kEach);  // the first places are never stated
    people_.fill(kUnknown);
    holder_.fill(kNobody);
    moved_.fill(0);
  }

  /// Draws one of the kinds that are possible now, and then one of all events of that kind.
  Event draw(support::Xoshiro& random, bool moves_only) const {
    std::vector<std::vector<Event>> kinds(4);
    for (int p = 0; p < kEach; ++p) {
      for (int place = 0; place < kEach; ++place) {
        if (people_[at(p)] != place) kinds[0].push_back({Kind::kGo, p, place});
      }
      if (moves_only || people_[at(p)] == kUnknown) continue;
      for (int thing = 0; thing < kEach; ++thing) {
        if (holder_[at(thing)] == kNobody && lies_[at(thing)] == people_[at(p)])
          kinds[1].push_back({Kind::kTake, p, 0, thing});
        if (holder_[at(thing)] != p) continue;
        kinds[2].push_back({Kind::kPut, p, 0, thing});
        for (int other = 0; other < kEach; ++other) {
          if (other != p && people_[at(other)] == people_[at(p)]) kinds[3].push_back({Kind::kHand, p, 0, thing, other});
        }
      }
    }
    std::erase_if(kinds, [](const auto& kind) { return kind.empty(); });
    return one_of(one_of(kinds, random), random);
  }

  void apply(const Event& event, std::size_t line) {
    if (event.kind == Kind::kGo) {
      people_[at(event.person)] = event.place;
      moved_[at(event.person)] = line;
      for (int thing = 0; thing < kEach; ++thing) {
        if (holder_[at(thing)] != event.person) continue;
        lies_[at(thing)] = event.place;
        std::vector<std::size_t> lines = held_[at(thing)];
        lines.push_back(line);
        stays_[at(thing)].push_back({event.place, lines});
      }
      return;
    }
    std::vector<std::size_t>& held = held_[at(event.thing)];
    if (event.kind == Kind::kTake) {
      holder_[at(event.thing)] = event.person;
      held = {line};
      if (auto& stays = stays_[at(event.thing)]; stays.empty())
        stays.push_back({lies_[at(event.thing)], {moved_[at(event.person)], line}});
      else  // who takes it is where it lies: both lines tell the place again
        stays.back().lines.insert(stays.back().lines.end(), {moved_[at(event.person)], line});
    } else if (event.kind == Kind::kPut) {
      holder_[at(event.thing)] = kNobody;
      held.push_back(line);
      stays_[at(event.thing)].back().lines.push_back(line);
    } else {
      holder_[at(event.thing)] = event.other;
      held.push_back(line);
      // The present owner got it in another line.
      for (const std::size_t also : {line, moved_[at(event.other)]})
        stays_[at(event.thing)].back().lines.push_back(also);
    }
  }

  int place_of(int person) const { return people_[at(person)]; }
  std::size_t moved(int person) const { return moved_[at(person)]; }
  /// Empty where no line mentions it.
  const std::vector<Stay>& stays(int thing) const { return stays_[at(thing)]; }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  std::array<int, kEach> people_{}, lies_{}, holder_{};
  std::array<std::size_t, kEach> moved_{};            // line of the last move
  std::array<std::vector<std::size_t>, kEach> held_;  // lines by which its holder has it
  std::array<std::vector<Stay>, kEach> stays_;
};

void decide(WorldStory& story, std::vector<std::size_t> lines) {
  std::sort(lines.begin(), lines.end());
  lines.erase(std::unique(lines.begin(), lines.end()), lines.end());
  story.deciding = std::move(lines);
}

struct WorldScene {
  World world;
  std::vector<Event> events;
};

WorldScene tell(support::Xoshiro& random, int least, int most, bool moves_only, WorldStory& story) {
  WorldScene told{World(random), {}};
  const int count = least + below(random, static_cast<std::size_t>(most - least + 1));
  for (int i = 0; i < count; ++i) {
    told.events.push_back(told.world.draw(random, moves_only));
    told.world.apply(told.events.back(), static_cast<std::size_t>(i));
    story.lines.push_back(told.events.back().text());
  }
  return told;
}

std::optional<WorldStory> where_is_somebody(support::Xoshiro& random) {
  WorldStory story;
  const WorldScene told = tell(random, 2, 8, true, story);
  const int person = one_of(told.events, random).person;
  story.question = cat("Where is ", name(kPeople, person), "?");
  story.answer = name(kPlaces, told.world.place_of(person));
  story.sort = kPlaces;
  decide(story, {told.world.moved(person)});
  return story;
}

/// Things that have been at so many places, by the lines.
std::vector<int> things_with(const World& world, std::size_t stays) {
  std::vector<int> things;
  for (int thing = 0; thing < kEach; ++thing) {
    if (world.stays(thing).size() >= stays) things.push_back(thing);
  }
  return things;
}

std::optional<WorldStory> where_is_a_thing(support::Xoshiro& random) {
  WorldStory story;
  const WorldScene told = tell(random, 4, 12, false, story);
  const std::vector<int> things = things_with(told.world, 1);
  if (things.empty()) return std::nullopt;
  const int thing = one_of(things, random);
  const Stay& last = told.world.stays(thing).back();
  story.question = cat("Where is the ", name(kThings, thing), "?");
  story.answer = name(kPlaces, last.place);
  story.sort = kPlaces;
  decide(story, last.lines);
  return story;
}

std::optional<WorldStory> where_was_a_thing(support::Xoshiro& random) {
  WorldStory story;
  const WorldScene told = tell(random, 6, 16, false, story);
  const std::vector<int> things = things_with(told.world, 2);
  if (things.empty()) return std::nullopt;
  const int thing = one_of(things, random);
  const std::vector<Stay>& stays = told.world.stays(thing);
  const int place = stays[1 + random.below(stays.size() - 1)].place;
  std::size_t last = stays.size() - 1;  // when it last came there
  while (stays[last].place != place) --last;
  if (last == 0) return std::nullopt;
  story.question = cat("Where was the ", name(kThings, thing), " before the ", name(kPlaces, place), "?");
  story.answer = name(kPlaces, stays[last - 1].place);
  story.sort = kPlaces;
  std::vector<std::size_t> lines = stays[last].lines;
  lines.insert(lines.end(), stays[last - 1].lines.begin(), stays[last - 1].lines.end());
  decide(story, lines);
  return story;
}

std::optional<WorldStory> what_lies_beside(support::Xoshiro& random) {
  WorldStory story;
  const std::vector<std::uint64_t> places = random.sample(kEach, 3), ways = random.sample(kDirections.size(), 2);
  const std::string& middle = kPlaces[places[2]];
  for (std::size_t i = 0; i < 2; ++i)
    story.lines.push_back(cat("The ", kPlaces[places[i]], " lies ", kDirections[ways[i]], " of the ", middle, "."));
  const std::size_t asked = random.below(2);
  if (random.below(2) == 0) {
    story.question = cat("What lies ", kDirections[ways[asked]], " of the ", middle, "?");
    story.answer = kPlaces[places[asked]];
  } else {
    story.question = cat("The ", kPlaces[places[asked]], " lies ", kDirections[ways[asked]], " of what?");
    story.answer = middle;
  }
  story.sort = kPlaces;
  decide(story, {asked});
  return story;
}

std::optional<WorldStory> who_gave_what(support::Xoshiro& random) {
  WorldStory story;
  const WorldScene told = tell(random, 2, 6, false, story);
  std::vector<std::size_t> handed;
  for (std::size_t i = 0; i < told.events.size(); ++i) {
    if (told.events[i].kind == Kind::kHand) handed.push_back(i);
  }
  if (handed.empty()) return std::nullopt;
  const std::size_t line = one_of(handed, random);
  const Event& event = told.events[line];
  const std::size_t asked = random.below(3);
  // The name in the question must refer to one line.
  for (const std::size_t other : handed) {
    const Event& also = told.events[other];
    const bool alike = asked == 0   ? also.thing == event.thing && also.other == event.other
                       : asked == 1 ? also.person == event.person && also.other == event.other
                                    : also.person == event.person && also.thing == event.thing;
    if (other != line && alike) return std::nullopt;
  }
  const std::string &from = name(kPeople, event.person), &to = name(kPeople, event.other),
                    &thing = name(kThings, event.thing);
  story.question = asked == 0   ? cat("Who handed the ", thing, " to ", to, "?")
                   : asked == 1 ? cat("What did ", from, " hand to ", to, "?")
                                : cat("To whom did ", from, " hand the ", thing, "?");
  story.answer = asked == 0 ? from : asked == 1 ? thing : to;
  story.sort = asked == 1 ? kThings : kPeople;
  decide(story, {line});
  return story;
}

}  // namespace

WorldStory draw_story(int task, support::Xoshiro& random) {
  for (;;) {  // until the lines decide the question
    std::optional<WorldStory> story = task == 1   ? where_is_somebody(random)
                                      : task == 2 ? where_is_a_thing(random)
                                      : task == 3 ? where_was_a_thing(random)
                                      : task == 4 ? what_lies_beside(random)
                                                  : who_gave_what(random);
    if (story) return std::move(*story);
  }
}

const std::vector<std::string>& world_names() {
  static const std::vector<std::string> names = {"qa1", "qa2", "qa3", "qa4", "qa5"};
  return names;
}

Question world_question(const WorldStory& story, support::Xoshiro& random) {
  std::vector<double> depths;
  for (std::size_t i = 0; i < story.lines.size(); ++i) depths.push_back(random.uniform());
  std::sort(depths.begin(), depths.end());
  Question question;
  for (std::size_t i = 0; i < story.lines.size(); ++i) {
    const bool decides = std::find(story.deciding.begin(), story.deciding.end(), i) != story.deciding.end();
    question.facts.push_back({story.lines[i] + "\n", depths[i], decides});
  }
  question.question = story.question + " Answer:";
  question.answers = {" " + story.answer};
  for (const std::string& word : story.sort) {
    if (word != story.answer) question.others.push_back(" " + word);
  }
  return question;
}

}  // namespace pe::evaluation

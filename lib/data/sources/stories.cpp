#include "data/sources/stories.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string_view>
#include <vector>

#include "data/sources/document_source.h"
#include "support/hash.h"
#include "support/random.h"
#include "support/text.h"

namespace pe::data {

using support::cat;
using support::Xoshiro;

namespace {

using Words = std::vector<std::string_view>;

const Words kNames{"Ada",   "Anton",  "Bea",   "Bruno",  "Carla", "Cosmo",  "Dalia", "Denis", "Edda", "Emil",
                   "Fanny", "Felix",  "Greta", "Gustav", "Hanna", "Henrik", "Ida",   "Ivo",   "Jana", "Jonas",
                   "Karin", "Konrad", "Lena",  "Linus",  "Mara",  "Milo",   "Nadia", "Nils",  "Olga", "Oskar",
                   "Paula", "Pavel",  "Rita",  "Ruben",  "Selma", "Simon",  "Tilda", "Tom",   "Ulla", "Urban",
                   "Vera",  "Viktor", "Wanda", "Willem", "Yara",  "Yusuf",  "Zelda", "Zeno"};
const Words kTrades{"baker",  "miller",   "sailor", "teacher", "gardener", "smith",  "weaver", "painter",
                    "doctor", "shepherd", "joiner", "cook",    "clerk",    "fisher", "tailor", "potter"};
const Words kPlaces{"mill",   "market",  "harbour", "school", "garden", "forge",     "library",
                    "bakery", "bridge",  "chapel",  "castle", "forest", "station",   "theatre",
                    "farm",   "orchard", "tower",   "inn",    "museum", "lighthouse"};
const Words kColours{"red", "blue", "green", "yellow", "white", "black", "silver", "golden", "brown", "grey"};
const Words kMatters{"brass",   "wooden", "glass", "old",     "tiny",   "heavy",
                     "painted", "broken", "round", "striped", "velvet", "copper"};
const Words kThings{"key",      "lamp",  "book", "ring",    "whistle", "map",     "clock",  "cup",
                    "coin",     "kite",  "drum", "mirror",  "knife",   "doll",    "letter", "basket",
                    "umbrella", "spoon", "bell", "compass", "shell",   "feather", "candle", "scarf"};
const Words kHolders{"box", "drawer", "chest", "cupboard", "barrel", "bag", "jar", "crate", "trunk", "basket"};
const Words kMoods{"glad", "tired", "curious", "worried", "proud", "calm", "hungry", "sleepy", "cheerful", "quiet"};
const Words kSkies{
    "The sun stood high over the roofs", "A soft rain fell on the street", "The wind came from the sea",
    "Fog hung between the houses",       "Snow lay on every step",         "The evening was warm and still",
    "Thunder rolled behind the hills",   "The first stars came out"};
const Words kAsides{"and nobody hurried",
                    "and a dog barked somewhere",
                    "while the bells rang the hour",
                    "and the river went on its way",
                    "and the lamps were lit",
                    "while children ran past",
                    "and the smell of bread was in the air",
                    "and the cat slept through it all"};
const Words kRhymeStarts{"Turn the wheel and", "Lift the latch and", "Light the lamp and",
                         "Ring the bell and",  "Close the gate and", "Row the boat and"};
const Words kRhymeMiddles{"count the stars", "call the rain",   "wake the hill",
                          "hush the owl",    "follow the crow", "mind the tide"};
const Words kRhymeEnds{"before the morning finds the door",  "until the river knows your name",
                       "when seven ravens cross the moon",   "and never tell the miller why",
                       "for winter keeps what summer lends", "so every traveller comes home"};
// Family names and villages are put together from two parts, so that some words are rare, as in real text.
const Words kNameHeads{"Ash",   "Birch", "Black", "Brook", "Clay", "Cran", "Dun", "East",  "Elm",  "Fair",
                       "Fen",   "Gar",   "Glen",  "Hart",  "Haw",  "Hol",  "Kel", "Kings", "Lang", "Lin",
                       "March", "Mill",  "Nor",   "Oak",   "Pem",  "Quen", "Rad", "Red",   "Sand", "Stan",
                       "Tarn",  "Thorn", "Under", "Wal",   "West", "Whit", "Win", "Wood",  "Yar",  "York"};
const Words kNameTails{"well", "ford", "bury",  "field", "wick",  "man",   "stone", "worth",
                       "land", "mark", "hurst", "croft", "dale",  "more",  "ner",   "son",
                       "rick", "shaw", "gate",  "lock",  "smith", "water", "beck",  "low"};
const Words kVillageTails{"ton",     "ham",   "by",    "mouth", "bridge", "haven",
                          "minster", "stead", "combe", "over",  "burgh",  "thorpe"};
const Words kAdverbs{"slowly",         "quickly",      "gladly",      "silently",     "carefully",   "at once",
                     "without a word", "with a smile", "before noon", "after supper", "in the rain", "by moonlight",
                     "twice",          "reluctantly",  "happily",     "nervously"};
const Words kFoods{"soup",  "bread",     "cheese",  "apples",  "porridge", "honey",  "pancakes", "fish",
                   "plums", "dumplings", "cabbage", "walnuts", "cherries", "butter", "noodles",  "pumpkin"};
const Words kBeasts{"goose", "donkey", "spaniel", "sparrow", "hedgehog", "pony",    "tortoise", "squirrel",
                    "heron", "goat",   "kitten",  "badger",  "rooster",  "swallow", "otter",    "fox"};
const Words kBeastDeeds{"followed",   "watched",        "ran from", "slept beside", "stole breakfast from",
                        "waited for", "barely noticed", "trusted"};
const Words kWorks{"mended the fence", "counted the sacks",    "swept the stairs",    "wrote a long list",
                   "carried water",    "painted the shutters", "sharpened the tools", "told a joke",
                   "planted beans",    "folded the sails",     "measured the room",   "polished the windows",
                   "studied the sky",  "sorted buttons",       "built a small wall",  "practised the fiddle",
                   "hummed a tune",    "chopped firewood"};
const Words kThoughts{"that summer would be short",
                      "that strangers often mean well",
                      "that the road was longer than it looked",
                      "that nothing gets lost for ever",
                      "that promises should be kept",
                      "that the old clock ran late",
                      "that a good neighbour is worth more than gold",
                      "that the harvest might fail",
                      "that somebody had left the window open",
                      "that yesterday had been easier",
                      "that silence is also an answer",
                      "that there was still time"};
const Words kOnes{"zero",     "one",     "two",     "three",     "four",     "five",    "six",
                  "seven",    "eight",   "nine",    "ten",       "eleven",   "twelve",  "thirteen",
                  "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"};
const Words kTens{"", "", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"};

std::string number_word(std::uint64_t n) {
  if (n < 20) return std::string(kOnes[n]);
  return n % 10 == 0 ? std::string(kTens[n / 10]) : cat(kTens[n / 10], "-", kOnes[n % 10]);
}

std::int64_t count_words(std::string_view text) {
  std::int64_t words = 0;
  bool inside = false;
  for (const char c : text) {
    const bool space = c == ' ' || c == '\n';
    words += !space && !inside;
    inside = !space;
  }
  return words;
}

struct Person {
  std::string name;
  std::string family;
  std::string trade;
  std::string number;  // on the door
  std::size_t place = 0;
};

struct Thing {
  std::string name;  // "the brass key", without the article
  bool carried = false;
  std::size_t holder = 0;  // a person, when carried
  std::size_t place = 0;   // else
  std::string container;   // "blue box"; empty: it is in the open
  std::size_t finder = 0;  // who brought it into the story
  std::size_t first_place = 0;
  bool known = false;  // it was mentioned
};

/// The kinds of facts that a sentence may repeat.
enum class Fact {
  kName,
  kFamily,
  kTrade,
  kNumber,
  kWhere,
  kThing,
  kThingWhere,
  kContainer,
  kOrigin,
  kPlace,
  kVillage,
  kLine
};
constexpr std::size_t kFacts = 12, kMostOfAKind = 16;

/// The world of one story, and the sentences that change it or ask about it.
class Teller {
 public:
  Teller(std::uint64_t key, std::int64_t target) : random_(key), target_(target) {
    const auto people = static_cast<std::size_t>(2 + random_.below(std::clamp<std::int64_t>(target / 150, 1, 5)));
    const auto things = static_cast<std::size_t>(2 + random_.below(std::clamp<std::int64_t>(target / 120, 1, 9)));
    const auto places = static_cast<std::size_t>(3 + random_.below(std::clamp<std::int64_t>(target / 150, 1, 6)));
    const auto names = random_.sample(kNames.size(), people);
    const auto where = random_.sample(kPlaces.size(), places);
    for (const auto place : where) places_.emplace_back(kPlaces[place]);
    for (const auto name : names) {
      Person person;
      person.name = kNames[name];
      person.family = cat(pick(kNameHeads), pick(kNameTails));
      person.trade = pick(kTrades);
      person.number = number_word(1 + random_.below(99));
      person.place = any_place();
      people_.push_back(std::move(person));
    }
    village_ = cat(pick(kNameHeads), pick(kVillageTails));
    for (const auto thing : random_.sample(kThings.size(), things)) {
      Thing made;
      made.name = cat(random_.below(2) ? pick(kColours) : pick(kMatters), " ", kThings[thing]);
      things_.push_back(made);
    }
    if (random_.below(20) == 0) {
      line_ = cat(pick(kRhymeStarts), " ", pick(kRhymeMiddles), ", ", pick(kRhymeEnds), ".");
    }
  }

  Story tell() {
    opening();
    const std::string end = ending();
    const std::int64_t end_words = count_words(end);
    while (words_ + end_words < target_) {
      if (!line_.empty() && line_told_ == 0 && words_ * 5 >= target_) {
        sing("sang an old line");
      } else if (!line_.empty() && line_told_ == 1 && words_ * 4 >= target_ * 3) {
        sing("remembered the old line and sang it again");
      } else {
        event();
      }
    }
    if (!line_.empty()) {
      while (line_told_ < 2) sing(line_told_ == 0 ? "sang an old line" : "remembered the old line and sang it again");
    }
    new_paragraph();
    say(end);
    Story story;
    story.text = std::move(text_);
    story.words = words_;
    story.repeated_line = line_;
    story.recalls = std::move(recalls_);
    return story;
  }

 private:
  std::string_view pick(const Words& words) { return words[random_.below(words.size())]; }
  std::size_t any_place() { return static_cast<std::size_t>(random_.below(places_.size())); }

  void new_paragraph() {
    if (!text_.empty() && !fresh_) text_ += "\n\n";
    fresh_ = true;
    in_paragraph_ = 0;
  }

  void say(std::string_view sentence) {
    if (!fresh_) text_ += ' ';
    fresh_ = false;
    text_ += sentence;
    words_ += count_words(sentence);
    ++in_paragraph_;
    for (const std::size_t fact : said_) said_at_[fact] = size();
    said_.clear();
  }

  std::int64_t size() const { return static_cast<std::int64_t>(text_.size()); }

  /// The next sentence says this, which is one of so many for a reader who does not remember it.
  void says(Fact fact, std::size_t of, double options) {
    const std::size_t at = static_cast<std::size_t>(fact) * kMostOfAKind + of;
    if (said_at_[at] > 0) recalls_.push_back({size(), size() - said_at_[at], std::log(options)});
    said_.push_back(at);
  }
  /// Who was introduced is known to a reader who remembers everything, and any name may come for one who does not.
  void names(std::size_t person) {
    says(Fact::kName, person,
         static_cast<double>(kNames.size()) / static_cast<double>(std::max<std::size_t>(introduced_, 1)));
  }
  void names(const Person& person) { names(static_cast<std::size_t>(&person - people_.data())); }
  void says_of(Fact fact, const Person& person, double options) {
    says(fact, static_cast<std::size_t>(&person - people_.data()), options);
  }
  void says_trade(const Person& person) { says_of(Fact::kTrade, person, static_cast<double>(kTrades.size())); }
  void says_number(const Person& person) { says_of(Fact::kNumber, person, 99); }
  void says_family(const Person& person) {
    says_of(Fact::kFamily, person, static_cast<double>(kNameHeads.size() * kNameTails.size()));
  }
  void says_village() { says(Fact::kVillage, 0, static_cast<double>(kNameHeads.size() * kVillageTails.size())); }
  /// Where a person is, which the last sentence that moved them said.
  void says_where(const Person& person) { says_of(Fact::kWhere, person, static_cast<double>(places_.size())); }
  void names_place(std::size_t place) {
    says(Fact::kPlace, place, static_cast<double>(kPlaces.size()) / static_cast<double>(places_.size()));
  }
  void names(const Thing& thing) {
    const double all = static_cast<double>((kColours.size() + kMatters.size()) * kThings.size());
    says_of(Fact::kThing, thing, all / static_cast<double>(std::max<std::size_t>(known_, 1)));
  }
  void says_of(Fact fact, const Thing& thing, double options) {
    says(fact, static_cast<std::size_t>(&thing - things_.data()), options);
  }
  void says_where(const Thing& thing) {
    says_of(Fact::kThingWhere, thing, static_cast<double>(thing.carried ? introduced_ : places_.size()));
    if (!thing.container.empty())
      says_of(Fact::kContainer, thing, static_cast<double>(kColours.size() * kHolders.size()));
  }
  /// Something changed: the sentence says it for the first time.
  void changes(Fact fact, std::size_t of) { said_at_[static_cast<std::size_t>(fact) * kMostOfAKind + of] = 0; }
  void moves(const Person& person) {
    changes(Fact::kWhere, static_cast<std::size_t>(&person - people_.data()));
    says_where(person);
    names_place(person.place);
  }
  void moves(const Thing& thing) {
    const auto of = static_cast<std::size_t>(&thing - things_.data());
    changes(Fact::kThingWhere, of);
    changes(Fact::kContainer, of);
    says_where(thing);
  }

  /// "an old map", "a brass key".
  static std::string with_article(const std::string& name) {
    return cat(std::string_view("aeiou").find(name[0]) == std::string_view::npos ? "a " : "an ", name);
  }

  std::string whereabouts(const Thing& thing) const {
    if (thing.carried) return cat("with ", people_[thing.holder].name);
    return thing.container.empty() ? cat("at the ", places_[thing.place])
                                   : cat("in the ", thing.container, " at the ", places_[thing.place]);
  }

  void opening() {
    const Person& first = people_[0];
    names(first);
    says_family(first);
    says_trade(first);
    says_number(first);
    says_village();
    moves(first);
    say(cat(first.name, " ", first.family, " was a ", first.trade, " in ", village_, " and lived at number ",
            first.number, ", near the ", places_[first.place], "."));
    introduced_ = 1;
    introduce();
    bring(0);
  }

  /// The next person, while there are some who were not named yet.
  void introduce() {
    const Person& person = people_[introduced_];
    names(person);
    says_family(person);
    says_trade(person);
    says_number(person);
    switch (random_.below(3)) {
      case 0:
        say(cat(person.name, " ", person.family, ", the ", person.trade, ", lived at number ", person.number, "."));
        break;
      case 1:
        say(cat("There was also ", person.name, " ", person.family, ", a ", person.trade,
                ", whose door had the number ", person.number, "."));
        break;
      default:
        say(cat("At number ", person.number, " lived ", person.name, " ", person.family, " the ", person.trade, "."));
    }
    ++introduced_;
  }

  /// A thing comes into the story.
  void bring(std::size_t number) {
    Thing& thing = things_[number];
    thing.known = true;
    thing.finder = static_cast<std::size_t>(random_.below(introduced_));
    thing.first_place = thing.place = any_place();
    Person& finder = people_[thing.finder];
    finder.place = thing.place;
    thing.carried = true;
    thing.holder = thing.finder;
    names(finder);
    names(thing);
    moves(finder);
    moves(thing);
    says_of(Fact::kOrigin, thing, static_cast<double>(places_.size() * introduced_));
    switch (random_.below(3)) {
      case 0:
        say(cat("One day ", finder.name, " found ", with_article(thing.name), " at the ", places_[thing.place], "."));
        break;
      case 1:
        say(cat("At the ", places_[thing.place], " ", finder.name, " came upon ", with_article(thing.name),
                " and took it along."));
        break;
      default:
        say(cat(finder.name, " bought ", with_article(thing.name), " from a stranger at the ", places_[thing.place],
                "."));
    }
    ++known_;
  }

  Thing& known_thing() {
    std::size_t at = static_cast<std::size_t>(random_.below(known_));
    for (Thing& thing : things_) {
      if (thing.known && at-- == 0) return thing;
    }
    return things_[0];
  }

  void event() {
    if (in_paragraph_ >= 4 + random_.below(5)) new_paragraph();
    if (introduced_ < people_.size() && random_.below(6) == 0) return introduce();
    if (known_ < things_.size() && random_.below(8) == 0) {
      for (std::size_t i = 0; i < things_.size(); ++i) {
        if (!things_[i].known) return bring(i);
      }
    }
    switch (random_.below(18)) {
      case 0:
        return sky();
      case 1:
        return mood();
      case 2:
      case 3:
        return walk();
      case 4:
      case 5:
        return put_or_take();
      case 6:
        return hand_over();
      case 7:
      case 8:
        return ask_where();
      case 9:
        return ask_number();
      case 10:
        return ask_trade();
      case 11:
        return ask_family();
      case 12:
        return eat();
      case 13:
        return beast();
      case 14:
      case 15:
        return work();
      case 16:
        return think();
      default:
        return recall_origin();
    }
  }

  std::size_t present() { return static_cast<std::size_t>(random_.below(introduced_)); }
  std::size_t another(std::size_t than) {
    const auto drawn = static_cast<std::size_t>(random_.below(introduced_ - 1));
    return drawn + (drawn >= than);
  }

  void sky() { say(cat(pick(kSkies), ", ", pick(kAsides), ".")); }

  void mood() {
    const Person& person = people_[present()];
    names(person);
    if (random_.below(2)) {
      say(cat(person.name, " was ", pick(kMoods), " that day, ", pick(kAsides), "."));
    } else {
      says_where(person);
      say(cat("\"I am ", pick(kMoods), ",\" said ", person.name, ", and sat down near the ", places_[person.place],
              "."));
    }
  }

  void walk() {
    Person& person = people_[present()];
    const std::size_t from = person.place;
    person.place = any_place();
    names(person);
    if (person.place == from) {
      says_where(person);
      say(cat(person.name, " stayed at the ", places_[from], " for a while."));
    } else if (random_.below(2)) {
      says_where(person);
      moves(person);
      say(cat(person.name, " walked from the ", places_[from], " to the ", places_[person.place], "."));
    } else {
      moves(person);
      say(cat("Then ", person.name, " went to the ", places_[person.place], ", ", pick(kAsides), "."));
    }
  }

  void put_or_take() {
    Thing& thing = known_thing();
    if (thing.carried) {
      const Person& person = people_[thing.holder];
      names(person);
      names(thing);
      says_where(person);
      says_where(thing);
      thing.carried = false;
      thing.place = person.place;
      thing.container = random_.below(3) ? cat(pick(kColours), " ", pick(kHolders)) : "";
      moves(thing);
      if (thing.container.empty()) {
        say(cat(person.name, " left the ", thing.name, " at the ", places_[thing.place], "."));
      } else {
        say(cat(person.name, " put the ", thing.name, " in a ", thing.container, " at the ", places_[thing.place],
                "."));
      }
    } else {
      const std::size_t who = present();
      Person& person = people_[who];
      person.place = thing.place;
      names(person);
      names(thing);
      says_where(thing);
      moves(person);
      const std::string sentence = cat(person.name, " came to the ", places_[thing.place], " and took the ", thing.name,
                                       thing.container.empty() ? "" : cat(" out of the ", thing.container), ".");
      thing.carried = true;
      thing.holder = who;
      thing.container.clear();
      moves(thing);
      say(sentence);
    }
  }

  void hand_over() {
    Thing& thing = known_thing();
    if (!thing.carried) return put_or_take();
    const std::size_t to = another(thing.holder);
    Person& giver = people_[thing.holder];
    people_[to].place = giver.place;
    names(giver);
    names(to);
    names(thing);
    says_where(giver);
    says_where(thing);
    moves(people_[to]);
    thing.holder = to;
    moves(thing);
    say(cat(giver.name, " met ", people_[to].name, " at the ", places_[giver.place], " and handed over the ",
            thing.name, "."));
  }

  void ask_where() {
    const Thing& thing = known_thing();
    const std::size_t asker = present();
    const std::size_t answerer = another(asker);
    names(thing);
    names(asker);
    names(answerer);
    says_where(thing);
    if (thing.carried && thing.holder == answerer) {
      say(cat("\"Where is the ", thing.name, "?\" asked ", people_[asker].name, ". \"I have it with me,\" said ",
              people_[answerer].name, "."));
    } else if (thing.carried && thing.holder == asker) {
      say(cat("\"Who has the ", thing.name, "?\" asked ", people_[answerer].name, ". \"I do,\" said ",
              people_[asker].name, "."));
    } else {
      say(cat("\"Where is the ", thing.name, "?\" asked ", people_[asker].name, ". \"It is ", whereabouts(thing),
              ",\" said ", people_[answerer].name, "."));
    }
  }

  void ask_number() {
    const std::size_t asker = present();
    const Person& person = people_[another(asker)];
    names(person);
    names(asker);
    says_number(person);
    say(cat("\"What is the number on ", person.name, "'s door?\" asked ", people_[asker].name, ". It was number ",
            person.number, "."));
  }

  void ask_trade() {
    const Person& person = people_[present()];
    names(person);
    says_trade(person);
    if (random_.below(2)) {
      say(cat("Everybody knew that ", person.name, " was a ", person.trade, "."));
    } else {
      says_number(person);
      say(cat("\"You are the ", person.trade, " from number ", person.number, ",\" somebody said to ", person.name,
              "."));
    }
  }

  void ask_family() {
    const Person& person = people_[present()];
    names(person);
    if (random_.below(4) == 0) {
      says_village();
      say(cat("\"Which village is this?\" asked a traveller. \"This is ", village_, ",\" said ", person.name, "."));
    } else {
      says_family(person);
      say(cat("\"What is your family name?\" a traveller asked ", person.name, ". \"My name is ", person.name, " ",
              person.family, ",\" was the answer."));
    }
  }

  void eat() {
    const Person& person = people_[present()];
    const Person& other = people_[another(static_cast<std::size_t>(&person - people_.data()))];
    names(person);
    names(other);
    says_village();
    say(cat(person.name, " and ", other.name, " ate ", pick(kFoods), " with ", pick(kFoods), " and talked about ",
            village_, "."));
  }

  void beast() {
    say(cat("The ", pick(kBeasts), " ", pick(kBeastDeeds), " ", people_[present()].name, ", ", pick(kAsides), "."));
  }

  void work() {
    const Person& person = people_[present()];
    names(person);
    say(cat(person.name, " ", pick(kWorks), " ", pick(kAdverbs), "."));
  }

  void think() { say(cat(people_[present()].name, " thought ", pick(kThoughts), ".")); }

  void recall_origin() {
    const Thing& thing = known_thing();
    names(thing);
    names(thing.finder);
    says_of(Fact::kOrigin, thing, static_cast<double>(places_.size() * introduced_));
    say(cat(people_[another(thing.finder)].name, " still remembered that ", people_[thing.finder].name,
            " had brought the ", thing.name, " from the ", places_[thing.first_place], "."));
  }

  void sing(std::string_view how) {
    new_paragraph();
    say(cat(people_[present()].name, " ", how, ":"));
    text_ += '\n';
    fresh_ = true;
    says(Fact::kLine, 0, static_cast<double>(kRhymeStarts.size() * kRhymeMiddles.size() * kRhymeEnds.size()));
    say(line_);
    new_paragraph();
    ++line_told_;
  }

  /// Drawn before the middle is written, so that it names only facts that never change.
  std::string ending() {
    const Person& person = people_[0];
    switch (random_.below(3)) {
      case 0:
        return cat("So ", person.name, " the ", person.trade, " went home to number ", person.number, ".");
      case 1:
        return cat("At last the lamp went out at number ", person.number, ", and ", person.name, " slept.");
      default:
        return cat("And that is all there is to tell of ", person.name, ", the ", person.trade, " of ", village_, ".");
    }
  }

  Xoshiro random_;
  std::int64_t target_;
  std::string village_;
  std::vector<std::string> places_;
  std::vector<Person> people_;
  std::vector<Thing> things_;
  std::string line_;
  int line_told_ = 0;
  std::string text_;
  std::int64_t words_ = 0;
  std::uint64_t in_paragraph_ = 0;
  bool fresh_ = true;
  std::array<std::int64_t, kFacts * kMostOfAKind>
      said_at_{};                  ///< the end of the last sentence that said it; 0: none did
  std::vector<std::size_t> said_;  ///< by the next sentence
  std::vector<Recall> recalls_;
  std::size_t introduced_ = 0, known_ = 0;
};

/// Overrun of a story over its target: the last sentence, and a line that is repeated at the very end.
constexpr std::int64_t kOverrun = 90;

class StorySource : public DocumentSource {
 public:
  explicit StorySource(const StoryOptions& options) : options_(options) {}

  Outcome next(Item& item) override {
    if (words_ >= options_.words) return Outcome::kEnd;
    const Story story =
        make_story(static_cast<std::uint64_t>(options_.seed), index_, options_.min_words, options_.max_words);
    item.text = story.text;
    item.source = "stories";
    item.row = index_++;
    words_ += story.words;
    return Outcome::kDocument;
  }
  std::int64_t done() const override { return std::min(words_, options_.words); }
  std::int64_t total() const override { return options_.words; }
  std::string unit() const override { return "words"; }

 private:
  StoryOptions options_;
  std::int64_t words_ = 0;
  std::uint64_t index_ = 0;
};

}  // namespace

Story make_story(std::uint64_t seed, std::uint64_t index, std::int64_t min_words, std::int64_t max_words) {
  const std::uint64_t key = support::make_key({seed, support::fnv1a64("story"), index});
  Xoshiro lengths(support::make_key({key, support::fnv1a64("length")}));
  // The inverse of the distribution function of w^(-3/2) on [lowest, highest]; sqrt is exact everywhere.
  const double lowest = static_cast<double>(min_words);
  const double highest = static_cast<double>(std::max(min_words, max_words - kOverrun));
  const double root = 1 - lengths.uniform() * (1 - std::sqrt(lowest / highest));
  const auto target = static_cast<std::int64_t>(std::floor(std::min(highest, lowest / (root * root))));
  return Teller(key, std::max(target, min_words)).tell();
}

std::unique_ptr<DocumentSource> make_story_source(const StoryOptions& options) {
  return std::make_unique<StorySource>(options);
}

}  // namespace pe::data

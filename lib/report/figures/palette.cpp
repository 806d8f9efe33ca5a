#include "report/figures/palette.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "support/config.h"
#include "support/error.h"
#include "support/suggest.h"
#include "support/text.h"
#include "support/yaml.h"

namespace pe::report {
namespace {

constexpr const char* kBuiltIn =
#include "encodings_palette.yml.inc"
    ;

const std::array<const char*, 7> kColours{"#000000", "#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7"};
/// For names whose own colour is taken: Tol's muted colours that differ from the seven.
const std::array<const char*, 8> kMoreColours{"#882255", "#999933", "#332288", "#AA4499",
                                              "#117733", "#661100", "#6F7F8F", "#B8860B"};
const std::vector<std::string> kShapes{"circle", "square", "triangle", "triangle-down", "diamond", "pentagon"};
const std::vector<std::string> kDashes{"solid", "dashed", "dotted", "dash-dotted"};

std::size_t index_of(const std::vector<std::string>& words, const std::string& word, std::string_view entry) {
  const auto found = std::find(words.begin(), words.end(), word);
  if (found == words.end()) {
    throw support::ConfigError(
        support::cat("unknown word ", support::quote(word), " in the palette entry ", support::quote(entry)), {},
        support::suggestion(word, words));
  }
  return static_cast<std::size_t>(found - words.begin());
}

/// A colour of middle lightness with that hue in degrees: "#RRGGBB".
std::string hue(double degrees) {
  const auto part = [&](double shift) {
    const double k = std::fmod(degrees / 30 + shift, 12);
    return static_cast<int>(std::lround(255 * (0.42 - 0.26 * std::max(-1.0, std::min({k - 3, 9 - k, 1.0})))));
  };
  return fmt::format("#{:02X}{:02X}{:02X}", part(0), part(8), part(4));
}

bool same(const Look& a, const Look& b) {
  return a.colour == b.colour && a.shape == b.shape && a.open == b.open && a.dash == b.dash;
}

}  // namespace

std::pair<std::string, Look> parse_look(std::string_view entry) {
  std::vector<std::string> words;
  for (std::string& word : support::split(entry, ' ')) {
    if (!word.empty()) words.push_back(std::move(word));
  }
  if (words.size() != 4) {
    throw support::ConfigError(
        support::cat("a palette entry is 'encoding #RRGGBB shape dash', but found ", support::quote(entry)), {},
        "for example 'rope #0072B2 triangle solid'");
  }
  Look look;
  look.colour = words[1];
  const bool hexadecimal = look.colour.size() == 7 && look.colour[0] == '#' &&
                           look.colour.find_first_not_of("0123456789abcdefABCDEF", 1) == std::string::npos;
  if (!hexadecimal) {
    throw support::ConfigError(support::cat("expected a colour as #RRGGBB, but found ", support::quote(words[1]),
                                            " in the palette entry ", support::quote(entry)));
  }
  constexpr std::string_view kOpen = "-open";
  if (words[2].size() > kOpen.size() && words[2].ends_with(kOpen)) {
    look.open = true;
    words[2].resize(words[2].size() - kOpen.size());
  }
  look.shape = static_cast<Shape>(index_of(kShapes, words[2], entry));
  look.dash = static_cast<Dash>(index_of(kDashes, words[3], entry));
  return {words[0], look};
}

Palette::Palette(const std::vector<std::string>& entries) {
  const support::Node document = support::parse_yaml(kBuiltIn, "configs/encodings_palette.yml");
  for (const support::Node& entry : document.find("palette")->items) looks_.push_back(parse_look(entry.text));
  for (const std::string& entry : entries) {
    auto [name, look] = parse_look(entry);
    chosen_.insert(name);
    const auto listed =
        std::find_if(looks_.begin(), looks_.end(), [&name = name](const auto& known) { return known.first == name; });
    if (listed != looks_.end()) {
      listed->second = look;
    } else {
      looks_.emplace_back(std::move(name), look);
    }
  }
}

void Palette::tell_apart(const std::vector<std::string>& names) {
  std::set<std::string> taken;
  std::vector<Look*> twice;
  for (const std::string& name : names) look(name);
  for (const bool chosen : {true, false}) {
    for (const std::string& name : names) {
      if ((chosen_.count(name) != 0) != chosen) continue;
      const auto own =
          std::find_if(looks_.begin(), looks_.end(), [&name = name](const auto& known) { return known.first == name; });
      if (!taken.insert(own->second.colour).second && !chosen) twice.push_back(&own->second);
    }
  }
  std::vector<std::string> free(kColours.begin(), kColours.end());
  free.insert(free.end(), kMoreColours.begin(), kMoreColours.end());
  std::size_t next = 0;
  for (Look* own : twice) {
    // Beyond the listed ones: hues a golden angle apart. There are fewer hues than names may be; the rest keep theirs.
    constexpr std::size_t kTurn = 2000;
    std::string colour;
    for (std::size_t tries = 0; colour.empty(); ++next) {
      if (tries++ == kTurn) return;
      colour = next < free.size() ? free[next] : hue(137.508 * static_cast<double>(next));
      if (!taken.insert(colour).second) colour.clear();
    }
    own->colour = colour;
  }
}

const Look& Palette::look(const std::string& encoding) {
  for (const auto& [name, look] : looks_) {
    if (name == encoding) return look;
  }
  // All colours with one shape and dash before any colour comes again.
  for (std::size_t i = 0; i < 1000; ++i) {
    Look look;
    look.colour = kColours[i % kColours.size()];
    look.shape = static_cast<Shape>((i / kColours.size() + i) % kShapes.size());
    look.dash = static_cast<Dash>(2 - (i / kColours.size()) % 2);
    look.open = (i / (2 * kColours.size())) % 2 != 0;
    const bool taken =
        std::any_of(looks_.begin(), looks_.end(), [&](const auto& known) { return same(known.second, look); });
    if (!taken || i == 999) return looks_.emplace_back(encoding, look).second;
  }
  return looks_.back().second;  // not reached
}

}  // namespace pe::report

/// @file
/// One look per encoding, the same in every figure: colour, marker and dash, so that prints in grey can be read too.
/// The looks come from configs/encodings_palette.yml, which is built into the program; a report's config may change
/// some.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pe::report {

enum class Shape { kCircle, kSquare, kTriangle, kTriangleDown, kDiamond, kPentagon };
enum class Dash { kSolid, kDashed, kDotted, kDashDotted };

struct Look {
  std::string colour = "#000000";  ///< "#RRGGBB"
  Shape shape = Shape::kCircle;
  bool open = false;  ///< outlined marker
  Dash dash = Dash::kSolid;
};

/// "rope #0072B2 triangle solid" → name and look. @throws ConfigError that says what is wrong with the entry.
std::pair<std::string, Look> parse_look(std::string_view entry);

class Palette {
 public:
  /// The built-in looks, then `entries` over them. @throws ConfigError
  explicit Palette(const std::vector<std::string>& entries = {});
  /// Of a listed encoding, or of the next that is not listed: first come, first served, so ask in a fixed order.
  const Look& look(const std::string& encoding);
  /// Gives these names colours that differ, so that none comes twice in a figure: a name whose colour an earlier one
  /// has takes a free one. Looks of `entries` do not change.
  void tell_apart(const std::vector<std::string>& names);

 private:
  std::vector<std::pair<std::string, Look>> looks_;
  std::set<std::string> chosen_;  ///< names of `entries`
};

}  // namespace pe::report

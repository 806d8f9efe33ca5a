/// @file
/// Whether to colour, and how. In this order: `--color=always|never`, NO_COLOR (set and not empty), CLICOLOR_FORCE or
/// FORCE_COLOR (set, neither empty nor 0), CLICOLOR=0 (never), then whether the stream is a terminal that is not
/// "dumb".
#pragma once

#include <string>
#include <string_view>

namespace pe::cli {

bool use_color(std::string_view flag, int fd);

/// Paints or leaves alone.
class Style {
 public:
  explicit Style(bool color = false) : color_(color) {}
  std::string good(std::string_view text) const { return paint("32", text); }
  std::string bad(std::string_view text) const { return paint("31;1", text); }
  std::string warn(std::string_view text) const { return paint("33", text); }
  std::string dim(std::string_view text) const { return paint("2", text); }
  std::string bold(std::string_view text) const { return paint("1", text); }
  std::string name(std::string_view text) const { return paint("36", text); }
  bool color() const { return color_; }

 private:
  std::string paint(std::string_view code, std::string_view text) const;
  bool color_;
};

}  // namespace pe::cli

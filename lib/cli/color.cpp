#include "cli/color.h"

#include <unistd.h>

#include "support/environment.h"
#include "support/text.h"

namespace pe::cli {

using support::variable;

bool use_color(std::string_view flag, int fd) {
  if (flag == "always") return true;
  if (flag == "never") return false;
  if (!variable("NO_COLOR").empty()) return false;
  for (const char* name : {"CLICOLOR_FORCE", "FORCE_COLOR"}) {
    if (!variable(name).empty() && variable(name) != "0") return true;
  }
  if (variable("CLICOLOR") == "0") return false;
  return ::isatty(fd) == 1 && variable("TERM") != "dumb";
}

std::string Style::paint(std::string_view code, std::string_view text) const {
  if (!color_ || text.empty()) return std::string(text);
  return support::cat("\033[", code, "m", text, "\033[0m");
}

}  // namespace pe::cli

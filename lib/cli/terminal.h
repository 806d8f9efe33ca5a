/// @file
/// A panel at the bottom of a terminal: a few lines that are redrawn in place, while other lines scroll past above it.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace pe::cli {

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};

/// Size of the terminal behind `fd`; 80 by 24 when it is unknown.
TerminalSize terminal_size(int fd);

/// A terminal that can be drawn on: `fd` is one, and TERM is not "dumb".
bool can_draw(int fd);

/// Cut to `columns`, colour sequences not counted; a cut line ends with '…' and without colour.
std::string fit(std::string_view line, int columns);

/// Control characters other than newline and tab made visible, so that no text of a stage or a path moves the cursor.
std::string harmless(std::string_view text);

/// Lines that do not fit are cut, and the window may change its size at any time. A window that became narrower has
/// broken the drawn lines, in a way that depends on the terminal. The window is then cleared, and permanent lines are
/// printed again as far as they fit.
class Panel {
 public:
  explicit Panel(int fd);
  /// Takes the panel away and shows the cursor again.
  ~Panel();
  Panel(const Panel&) = delete;
  /// Replaces the text of the panel; at most the window's height, cut to its width. Nothing is written without a
  /// change.
  void show(const std::vector<std::string>& lines);
  /// Lines that stay, above the panel.
  void print(std::string_view text);
  void clear();

 private:
  /// Bytes that remove the panel from the screen, or, after the window became narrower, clear everything.
  std::string erase(const TerminalSize& size);
  int fd_;
  std::vector<std::string> lines_;
  std::deque<std::string> kept_;  // the last lines that were printed above
  bool hidden_ = false;
};

}  // namespace pe::cli

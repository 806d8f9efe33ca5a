/// @file
/// A panel at the bottom of a terminal: a few lines that are redrawn in place, while other lines scroll past above it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pe::cli {

struct TerminalSize {
  int columns = 80;
  int rows = 24;
};

/// Of the terminal behind `fd`; 80 by 24 when it does not say.
TerminalSize terminal_size(int fd);

/// A terminal that can be drawn on: `fd` is one, and TERM is not "dumb".
bool can_draw(int fd);

/// Cut to `columns`, colour sequences not counted; a cut line ends with '…' and without colour.
std::string fit(std::string_view line, int columns);

/// Control characters other than newline and tab made visible, so that no text of a stage or a path moves the cursor.
std::string harmless(std::string_view text);

class Panel {
 public:
  explicit Panel(int fd) : fd_(fd) {}
  /// Takes the panel away and shows the cursor again.
  ~Panel() { clear(); }
  Panel(const Panel&) = delete;
  /// Replaces what the panel shows; at most the window's height, cut to its width. Nothing is written when nothing
  /// changed.
  void show(const std::vector<std::string>& lines);
  /// Lines that stay, above the panel.
  void print(std::string_view text);
  void clear();

 private:
  std::string erase() const;
  int fd_;
  std::vector<std::string> lines_;
  bool hidden_ = false;
};

}  // namespace pe::cli

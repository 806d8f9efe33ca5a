#include "cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>

#include "support/text.h"

namespace pe::cli {

namespace {

void write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::write(fd, text.data(), text.size());
    if (count < 0) {
      if (errno == EINTR) continue;
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace

TerminalSize terminal_size(int fd) {
  winsize size{};
  TerminalSize out;
  if (::ioctl(fd, TIOCGWINSZ, &size) == 0) {
    if (size.ws_col > 0) out.columns = size.ws_col;
    if (size.ws_row > 0) out.rows = size.ws_row;
  }
  return out;
}

bool can_draw(int fd) {
  const char* term = std::getenv("TERM");
  return ::isatty(fd) == 1 && term && *term && std::string_view(term) != "dumb";
}

std::string fit(std::string_view line, int columns) {
  std::string out;
  int width = 0;
  bool colored = false;
  for (std::size_t i = 0; i < line.size();) {
    if (line[i] == '\033') {
      const auto end = line.find('m', i);
      if (end == std::string_view::npos) break;
      out.append(line.substr(i, end + 1 - i));
      colored = line.substr(i, end + 1 - i) != "\033[0m";
      i = end + 1;
      continue;
    }
    std::size_t length = 1;
    while (i + length < line.size() && (static_cast<unsigned char>(line[i + length]) & 0xC0) == 0x80) ++length;
    const std::string_view symbol = line.substr(i, length);
    const int needs = static_cast<int>(support::display_width(symbol));
    // The mark of a cut takes the last column, so a symbol fits there only if it is the last one.
    const bool last = i + length == line.size() || line.substr(i + length) == "\033[0m";
    if (width + needs > columns - (last ? 0 : 1)) {
      if (columns > 0) out += "…";
      if (colored) out += "\033[0m";
      return out;
    }
    out.append(symbol);
    width += needs;
    i += length;
  }
  return out;
}

std::string harmless(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) {
      out += '^';
      out += static_cast<char>(byte ^ 0x40);
    } else {
      out += c;
    }
  }
  return out;
}

std::string Panel::erase() const {
  if (lines_.empty()) return "";
  // The cursor rests at the end of the last line.
  std::string out = "\r";
  if (lines_.size() > 1) out += support::cat("\033[", lines_.size() - 1, "A");
  return out + "\033[J";
}

void Panel::show(const std::vector<std::string>& lines) {
  const TerminalSize size = terminal_size(fd_);
  std::vector<std::string> fitted;
  for (const std::string& line : lines) {
    if (static_cast<int>(fitted.size()) + 1 >= std::max(size.rows, 2)) break;
    fitted.push_back(fit(line, std::max(size.columns - 1, 1)));
  }
  if (fitted == lines_) return;
  std::string out = erase();
  if (!hidden_) out = "\033[?25l" + out;
  hidden_ = true;
  for (std::size_t i = 0; i < fitted.size(); ++i) out += (i == 0 ? "" : "\n") + fitted[i];
  lines_ = std::move(fitted);
  write_all(fd_, out);
}

void Panel::print(std::string_view text) {
  std::string out = erase();
  out.append(text);
  if (!text.empty() && text.back() != '\n') out += '\n';
  for (std::size_t i = 0; i < lines_.size(); ++i) out += (i == 0 ? "" : "\n") + lines_[i];
  write_all(fd_, out);
}

void Panel::clear() {
  std::string out = erase();
  if (hidden_) out += "\033[?25h";
  hidden_ = false;
  lines_.clear();
  if (!out.empty()) write_all(fd_, out);
}

}  // namespace pe::cli

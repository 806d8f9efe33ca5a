#include "cli/terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>

#include "support/files.h"
#include "support/text.h"

namespace pe::cli {

namespace {

/// Columns of a line, colour sequences not counted.
std::size_t width_of(std::string_view line) {
  std::string plain;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\033') {
      plain += line[i];
      continue;
    }
    const auto end = line.find('m', i);
    if (end == std::string_view::npos) break;
    i = end;
  }
  return support::display_width(plain);
}

// Ctrl-Z: the shell gets its cursor back, and after `fg` the panel is drawn again at the new cursor.
std::atomic<int> drawing_fd{-1};
std::atomic<bool> came_back{false};

void on_suspend(int) {
  const int saved = errno;
  constexpr char kShowCursor[] = "\033[?25h\n";
  if (const int fd = drawing_fd; fd >= 0) (void)!::write(fd, kShowCursor, sizeof kShowCursor - 1);
  struct sigaction action {};
  sigemptyset(&action.sa_mask);
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGTSTP, &action, nullptr);
  sigset_t only;
  sigemptyset(&only);
  sigaddset(&only, SIGTSTP);
  ::raise(SIGTSTP);
  ::sigprocmask(SIG_UNBLOCK, &only, nullptr);  // stops here
  action.sa_handler = on_suspend;
  ::sigaction(SIGTSTP, &action, nullptr);
  came_back = true;
  errno = saved;
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
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) >= 0x80 &&
        static_cast<unsigned char>(text[i + 1]) < 0xa0) {
      // U+0080 to U+009F: to some terminals an escape and the character 64 below.
      out += "^[";
      out += static_cast<char>(static_cast<unsigned char>(text[++i]) - 0x40);
    } else if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) {
      out += '^';
      out += static_cast<char>(byte ^ 0x40);
    } else {
      out += c;
    }
  }
  return out;
}

Panel::Panel(int fd) : fd_(fd) {
  if (!can_draw(fd)) return;
  drawing_fd = fd;
  struct sigaction action {};
  sigemptyset(&action.sa_mask);
  action.sa_handler = on_suspend;
  ::sigaction(SIGTSTP, &action, nullptr);
}

Panel::~Panel() {
  clear();
  if (drawing_fd.exchange(-1) >= 0) ::signal(SIGTSTP, SIG_DFL);
}

std::string Panel::erase(const TerminalSize& size) {
  if (came_back.exchange(false)) {
    lines_.clear();
    hidden_ = false;
  }
  if (lines_.empty()) return "";
  std::size_t widest = 0;
  for (const std::string& line : lines_) widest = std::max(widest, width_of(line));
  if (static_cast<int>(widest) > size.columns) {
    std::string above;
    int room = size.rows - static_cast<int>(std::min<std::size_t>(lines_.size(), static_cast<std::size_t>(size.rows)));
    for (auto line = kept_.rbegin(); line != kept_.rend(); ++line) {
      room -= std::max(1, (static_cast<int>(width_of(*line)) + size.columns - 1) / std::max(size.columns, 1));
      if (room < 0) break;
      above.insert(0, *line + "\n");
    }
    return "\033[H\033[2J" + above;
  }
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
  if (fitted == lines_ && !came_back) return;
  std::string out = erase(size);
  if (!hidden_) out = "\033[?25l" + out;
  hidden_ = true;
  for (std::size_t i = 0; i < fitted.size(); ++i) out += (i == 0 ? "" : "\n") + fitted[i];
  lines_ = std::move(fitted);
  support::write_whole(fd_, out);
}

void Panel::print(std::string_view text) {
  constexpr std::size_t kMostKept = 300;
  const TerminalSize size = terminal_size(fd_);
  std::string out = erase(size);
  out.append(text);
  if (!text.empty() && text.back() != '\n') out += '\n';
  std::string_view rest = text;
  while (!rest.empty()) {
    const auto end = rest.find('\n');
    kept_.emplace_back(rest.substr(0, end));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    if (kept_.size() > kMostKept) kept_.pop_front();
  }
  // Redrawn for the present window: it may have become narrower since.
  for (std::string& line : lines_) line = fit(line, std::max(size.columns - 1, 1));
  for (std::size_t i = 0; i < lines_.size(); ++i) out += (i == 0 ? "" : "\n") + lines_[i];
  support::write_whole(fd_, out);
}

void Panel::clear() {
  std::string out = erase(terminal_size(fd_));
  if (hidden_) out += "\033[?25h";
  hidden_ = false;
  lines_.clear();
  if (!out.empty()) support::write_whole(fd_, out);
}

}  // namespace pe::cli

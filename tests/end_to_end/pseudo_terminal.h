/// @file
/// A terminal without a person, and its screen as text: enough of a terminal to test our programs.
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

namespace pe::test {

/// The screen of a terminal: characters in rows, with the parts of ECMA-48 that our programs use. A line that does not
/// fit continues in the next row, as in every terminal. `scrolled` holds rows that left at the top.
class Screen {
 public:
  Screen(int columns, int rows) : columns_(columns), rows_(static_cast<std::size_t>(rows), blank()) {}

  /// A piece may be cut within a character or sequence: the rest waits for the next piece.
  void write(const std::string& text) {
    pending_ += text;
    std::size_t i = 0;
    while (i < pending_.size() && whole(i)) i = take(pending_, i);
    pending_.erase(0, i);
  }
  /// As a terminal that breaks long lines again (most do): rows are joined and broken again; the cursor's row stays in
  /// view.
  void resize(int columns, int rows) {
    std::vector<std::u32string> fresh;
    std::size_t cursor_row = 0;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      std::u32string text = rows_[r];
      while (!text.empty() && text.back() == U' ' && !(r == row_ && text.size() <= column_)) text.pop_back();
      do {
        std::u32string part = text.substr(0, static_cast<std::size_t>(columns));
        text.erase(0, part.size());
        part.resize(static_cast<std::size_t>(columns), U' ');
        fresh.push_back(part);
      } while (!text.empty());
      if (r == row_) cursor_row = fresh.size() - 1;
    }
    fresh.resize(cursor_row + 1);
    columns_ = columns;
    while (cursor_row >= static_cast<std::size_t>(rows)) {
      scrolled.push_back(text_of(fresh.front()));
      fresh.erase(fresh.begin());
      --cursor_row;
    }
    fresh.resize(static_cast<std::size_t>(rows), blank());
    rows_ = std::move(fresh);
    row_ = cursor_row;
    column_ = std::min(column_, static_cast<std::size_t>(columns - 1));
  }
  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    for (const auto& row : rows_) out.push_back(text_of(row));
    while (!out.empty() && out.back().empty()) out.pop_back();
    return out;
  }
  std::string text() const {
    std::string out;
    for (const std::string& line : lines()) out += line + "\n";
    return out;
  }
  bool cursor_shown() const { return cursor_shown_; }
  bool wrapped() const { return wrapped_; }  ///< something was written past the right edge
  std::vector<std::string> scrolled;

 private:
  std::u32string blank() const { return std::u32string(static_cast<std::size_t>(columns_), U' '); }

  static std::string text_of(std::u32string row) {
    while (!row.empty() && row.back() == U' ') row.pop_back();
    std::string out;
    for (const char32_t c : row) {
      if (c < 0x80) {
        out += static_cast<char>(c);
      } else if (c < 0x800) {
        out += static_cast<char>(0xC0 | (c >> 6));
        out += static_cast<char>(0x80 | (c & 0x3F));
      } else {
        out += static_cast<char>(0xE0 | (c >> 12));
        out += static_cast<char>(0x80 | ((c >> 6) & 0x3F));
        out += static_cast<char>(0x80 | (c & 0x3F));
      }
    }
    return out;
  }

  bool whole(std::size_t i) const {
    const auto c = static_cast<unsigned char>(pending_[i]);
    if (c != '\033') return c < 0xC0 || i + (c >= 0xE0 ? 3u : 2u) <= pending_.size();
    if (i + 1 >= pending_.size()) return false;
    if (pending_[i + 1] == ']') return pending_.find('\007', i) != std::string::npos;
    if (pending_[i + 1] != '[') return i + 2 < pending_.size() || pending_[i + 1] != '(';
    return pending_.find_first_of("ABCDEFGHIJKLMNOPQRSTUVWXYZ@abcdefghijklmnopqrstuvwxyz`~", i + 2) !=
           std::string::npos;
  }

  void line_feed() {
    if (++row_ < rows_.size()) return;
    scrolled.push_back(text_of(rows_.front()));
    rows_.erase(rows_.begin());
    rows_.push_back(blank());
    row_ = rows_.size() - 1;
  }

  std::size_t take(const std::string& text, std::size_t i) {
    const auto c = static_cast<unsigned char>(text[i]);
    if (c == '\033' && i + 1 < text.size() && text[i + 1] == '[') return sequence(text, i + 2);
    if (c == '\033') {  // window titles, character sets, keypad modes
      if (text[i + 1] == ']') return text.find('\007', i) + 1;
      return i + (text[i + 1] == '(' ? 3 : 2);
    }
    if (c == '\b') {
      if (column_ > 0) --column_;
      return i + 1;
    }
    if (c == '\r') {
      column_ = 0;
      return i + 1;
    }
    if (c == '\n') {
      line_feed();
      return i + 1;
    }
    if (c < 0x20) return i + 1;
    char32_t symbol = c;
    std::size_t length = 1;
    if (c >= 0xE0) {
      length = 3;
      symbol = (c & 0x0Fu) << 12 | (static_cast<unsigned char>(text[i + 1]) & 0x3Fu) << 6 |
               (static_cast<unsigned char>(text[i + 2]) & 0x3Fu);
    } else if (c >= 0xC0) {
      length = 2;
      symbol = (c & 0x1Fu) << 6 | (static_cast<unsigned char>(text[i + 1]) & 0x3Fu);
    }
    if (column_ == static_cast<std::size_t>(columns_)) {
      wrapped_ = true;
      column_ = 0;
      line_feed();
    }
    rows_[row_][column_++] = symbol;
    return i + length;
  }

  std::size_t sequence(const std::string& text, std::size_t i) {
    std::string numbers;
    while (i < text.size() && (text[i] < '@' || text[i] > '~')) numbers += text[i++];
    const char final_byte = i < text.size() ? text[i] : 'm';
    const int count = std::max(1, ::atoi(numbers.c_str()));
    switch (final_byte) {
      case 'A':
        row_ -= std::min<std::size_t>(row_, static_cast<std::size_t>(count));
        break;
      case 'B':
        row_ = std::min(row_ + static_cast<std::size_t>(count), rows_.size() - 1);
        break;
      case 'C':
        column_ = std::min(column_ + static_cast<std::size_t>(count), static_cast<std::size_t>(columns_ - 1));
        break;
      case 'D':
        column_ -= std::min<std::size_t>(column_, static_cast<std::size_t>(count));
        break;
      case 'P':
        for (int k = 0; k < count && column_ < rows_[row_].size(); ++k) {
          rows_[row_].erase(column_, 1);
          rows_[row_].push_back(U' ');
        }
        break;
      case '@':
        rows_[row_].insert(column_, static_cast<std::size_t>(count), U' ');
        rows_[row_].resize(static_cast<std::size_t>(columns_));
        break;
      case 'H':
        row_ = column_ = 0;
        break;
      case 'J':
        if (numbers == "2") {
          for (auto& row : rows_) row = blank();
        } else {
          for (std::size_t k = column_; k < rows_[row_].size(); ++k) rows_[row_][k] = U' ';
          for (std::size_t k = row_ + 1; k < rows_.size(); ++k) rows_[k] = blank();
        }
        break;
      case 'K':
        for (std::size_t k = column_; k < rows_[row_].size(); ++k) rows_[row_][k] = U' ';
        break;
      case 'h':
      case 'l':
        if (numbers == "?25") cursor_shown_ = final_byte == 'h';
        break;
      default:
        break;
    }
    return i + 1;
  }

  int columns_;
  std::string pending_;
  std::vector<std::u32string> rows_;
  std::size_t row_ = 0, column_ = 0;
  bool cursor_shown_ = true;
  bool wrapped_ = false;
};

/// A program in a terminal of a given size. Its output goes to the screen; newlines become CR LF as ever.
class PseudoTerminal {
 public:
  PseudoTerminal(int columns, int rows, const std::vector<std::string>& command, const std::string& folder = "")
      : screen(columns, rows) {
    master_ = ::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    if (master_ < 0 || ::grantpt(master_) != 0 || ::unlockpt(master_) != 0) return;
    set_size(columns, rows);
    const std::string name = ::ptsname(master_);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::setsid();
      const int slave = ::open(name.c_str(), O_RDWR);
      ::ioctl(slave, TIOCSCTTY, 0);
      for (int fd = 0; fd < 3; ++fd) ::dup2(slave, fd);
      if (slave > 2) ::close(slave);
      if (!folder.empty() && ::chdir(folder.c_str()) != 0) ::_exit(126);
      std::vector<char*> words;
      for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
      words.push_back(nullptr);
      ::execvp(words[0], words.data());
      ::_exit(127);
    }
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  ~PseudoTerminal() {
    if (pid_ > 0 && !ended_) {
      ::kill(pid_, SIGKILL);
      wait();
    }
    if (master_ >= 0) ::close(master_);
  }
  void resize(int columns, int rows) {
    read_for(0);
    screen.resize(columns, rows);
    set_size(columns, rows);
  }
  void type(const std::string& text) { (void)!::write(master_, text.data(), text.size()); }
  /// Reads output that comes within the time. False when the program is gone.
  bool read_for(double seconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (true) {
      pollfd one{master_, POLLIN, 0};
      const auto left =
          std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
      if (::poll(&one, 1, static_cast<int>(std::max<long>(left, 0))) <= 0) return true;
      char buffer[65536];
      const ssize_t count = ::read(master_, buffer, sizeof buffer);
      if (count <= 0) return false;
      written.append(buffer, static_cast<std::size_t>(count));
      screen.write(std::string(buffer, static_cast<std::size_t>(count)));
    }
  }
  /// Reads until the screen shows a text. False after `seconds`.
  bool read_until(const std::string& text, double seconds) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (screen.text().find(text) == std::string::npos) {
      if (std::chrono::steady_clock::now() > until || !read_for(0.05))
        return screen.text().find(text) != std::string::npos;
    }
    return true;
  }
  /// Reads to the end and returns the exit code.
  int wait() {
    while (read_for(0.2)) {
      int status = 0;
      if (::waitpid(pid_, &status, WNOHANG) == pid_) {
        ended_ = true;
        read_for(0);
        return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      }
    }
    int status = 0;
    ::waitpid(pid_, &status, 0);
    ended_ = true;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  pid_t pid() const { return pid_; }

  Screen screen;
  std::string written;

 private:
  void set_size(int columns, int rows) const {
    winsize size{};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = static_cast<unsigned short>(rows);
    ::ioctl(master_, TIOCSWINSZ, &size);
  }
  int master_ = -1;
  pid_t pid_ = -1;
  bool ended_ = false;
};

}  // namespace pe::test

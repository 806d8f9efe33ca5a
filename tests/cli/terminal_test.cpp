#include "cli/terminal.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>
#include <boost/test/unit_test.hpp>

#include "cli/color.h"

using namespace pe::cli;  // NOLINT

namespace {

/// A terminal of a given size, without a person.
struct FakeTerminal {
  int master, slave;
  FakeTerminal(int columns, int rows) {
    master = ::posix_openpt(O_RDWR | O_NOCTTY);
    BOOST_REQUIRE(master >= 0);
    BOOST_REQUIRE((::grantpt(master) == 0 && ::unlockpt(master) == 0));
    slave = ::open(::ptsname(master), O_RDWR | O_NOCTTY);
    BOOST_REQUIRE(slave >= 0);
    termios raw{};
    ::tcgetattr(slave, &raw);
    ::cfmakeraw(&raw);
    ::tcsetattr(slave, TCSANOW, &raw);
    winsize size{};
    size.ws_col = static_cast<unsigned short>(columns);
    size.ws_row = static_cast<unsigned short>(rows);
    ::ioctl(master, TIOCSWINSZ, &size);
    ::fcntl(master, F_SETFL, O_NONBLOCK);
  }
  ~FakeTerminal() {
    ::close(slave);
    ::close(master);
  }
  std::string written() const {
    ::usleep(2000);
    std::string text(65536, '\0');
    const ssize_t count = ::read(master, text.data(), text.size());
    text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
    return text;
  }
};

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++found;
  return found;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(terminal)

BOOST_AUTO_TEST_CASE(lines_are_cut_to_the_window_without_counting_colours) {
  BOOST_TEST(fit("abcdef", 6) == "abcdef");
  BOOST_TEST(fit("abcdefg", 6) == "abcde…");
  BOOST_TEST(fit("\033[31mabc\033[0m", 3) == "\033[31mabc\033[0m");
  BOOST_TEST(fit("\033[31mabcdef\033[0m", 3) == "\033[31mab…\033[0m");
  BOOST_TEST(fit("日本語", 4) == "日…");
  BOOST_TEST(fit("x", 0) == "");
}

BOOST_AUTO_TEST_CASE(text_of_a_stage_cannot_move_the_cursor) {
  BOOST_TEST(harmless("a\033[2Jb\rc\nd\te\x7f") == "a^[[2Jb^Mc\nd\te^?");
  // U+009B, which starts a sequence on its own; no part of another character.
  BOOST_TEST(harmless("\xc2\x9b"
                      "31m é \xc2\xa0") == "^[[31m é \xc2\xa0");
}

BOOST_AUTO_TEST_CASE(the_panel_is_no_taller_and_no_wider_than_the_window_and_goes_away) {
  const FakeTerminal window(20, 5);
  {
    Panel panel(window.slave);
    panel.show({std::string(50, 'x'), "2", "3", "4", "5", "6", "7"});
    std::string text = window.written();
    BOOST_TEST(count(text, "\n") == 3u);  // four lines
    BOOST_TEST(text.find(std::string(20, 'x')) == std::string::npos);
    BOOST_TEST(text.find("\033[?25l") != std::string::npos);
    panel.show({std::string(50, 'x'), "2", "3", "4", "5", "6", "7"});
    BOOST_TEST(window.written() == "");
    panel.print("a line that stays");
    text = window.written();
    BOOST_TEST(text.find("\033[3A\033[J") != std::string::npos);
    BOOST_TEST(text.find("a line that stays\n") != std::string::npos);
  }
  BOOST_TEST(window.written().find("\033[?25h") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(colour_follows_flag_then_environment_then_terminal) {
  const FakeTerminal window(80, 24);
  for (const char* name : {"NO_COLOR", "CLICOLOR_FORCE", "FORCE_COLOR"}) ::unsetenv(name);
  ::setenv("TERM", "xterm", 1);
  BOOST_TEST(use_color("auto", window.slave));
  ::setenv("TERM", "dumb", 1);
  BOOST_TEST(!use_color("auto", window.slave));
  ::setenv("CLICOLOR_FORCE", "1", 1);
  BOOST_TEST(use_color("auto", window.slave));
  ::setenv("NO_COLOR", "1", 1);
  BOOST_TEST(!use_color("auto", window.slave));
  BOOST_TEST(use_color("always", window.slave));
  ::unsetenv("NO_COLOR");
  BOOST_TEST(!use_color("never", window.slave));
  ::unsetenv("CLICOLOR_FORCE");
  BOOST_TEST(Style(false).bad("x") == "x");
  BOOST_TEST(Style(true).good("x") == "\033[32mx\033[0m");
}

BOOST_AUTO_TEST_SUITE_END()

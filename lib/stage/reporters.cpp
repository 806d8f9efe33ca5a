#include "stage/reporters.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <mutex>

#include "cli/terminal.h"
#include "support/environment.h"
#include "support/files.h"
#include "support/json_text.h"
#include "support/progress_format.h"
#include "support/text.h"

namespace pe::stage {

namespace {

using Clock = std::chrono::steady_clock;

std::string progress_line(std::string_view what, std::int64_t done, std::int64_t total, const Json& detail,
                          double seconds, std::int64_t first) {
  std::string line = support::cat(what, " ", support::with_commas(done));
  if (total > 0) line += support::cat("/", support::with_commas(total));
  // Early in the line, since a narrow terminal cuts its end.
  if (total > done && done > first && seconds > 1) {
    const double left = seconds / static_cast<double>(done - first) * static_cast<double>(total - done);
    line += "  " + support::short_duration(left) + " left";
  }
  for (const auto& [name, value] : support::figures_in_order(detail))
    line += "  " + support::format_metric(name, value);
  return line;
}

/// Shared by both: how often something is shown, and since when the present activity runs.
class Pace {
 public:
  explicit Pace(std::chrono::milliseconds interval) : interval_(interval) {}
  bool due(std::string_view what, std::int64_t done, std::int64_t total) {
    const auto now = Clock::now();
    if (what != what_) {
      what_ = what;
      started_ = now;
      first_ = done;
      shown_ = {};
    }
    const bool is_last = total > 0 && done >= total;  // a total of 0 is unknown
    if (!is_last && shown_ != Clock::time_point{} && now - shown_ < interval_) return false;
    shown_ = now;
    return true;
  }
  double seconds() const { return std::chrono::duration<double>(Clock::now() - started_).count(); }
  std::int64_t first() const { return first_; }

 private:
  std::chrono::milliseconds interval_;
  std::string what_;
  Clock::time_point started_, shown_;
  std::int64_t first_ = 0;
};

class HumanReporter : public support::Progress {
 public:
  explicit HumanReporter(const std::string& how)
      : quiet_(how == "none"),
        live_(how == "auto" && ::isatty(2) && support::variable("TERM") != "dumb"),
        pace_(std::chrono::milliseconds(live_ ? 100 : 5000)) {}
  ~HumanReporter() override { clear(); }

  void note(std::string_view line) override { print(line); }
  void warn(std::string_view line) override { print(support::cat("warning: ", line)); }
  void advance(std::string_view what, std::int64_t done, std::int64_t total, const Json& detail) override {
    const std::scoped_lock lock(mutex_);
    if (quiet_ || !pace_.due(what, done, total)) return;
    std::string line = progress_line(what, done, total, detail, pace_.seconds(), pace_.first());
    if (!live_) {
      std::fprintf(stderr, "%s\n", line.c_str());
      return;
    }
    winsize size{};
    const int width = ::ioctl(2, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
    std::fprintf(stderr, "\r\033[K%s", cli::fit(line, width - 1).c_str());
    drawn_ = true;
  }
  void event(const Json&) override {}

 private:
  void clear() {
    if (drawn_) std::fputs("\r\033[K", stderr);
    drawn_ = false;
  }
  void print(std::string_view line) {
    const std::scoped_lock lock(mutex_);
    if (quiet_) return;
    clear();
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  }

  bool quiet_, live_, drawn_ = false;
  Pace pace_;
  std::mutex mutex_;
};

class EventReporter : public support::Progress {
 public:
  explicit EventReporter(int fd) : fd_(fd), pace_(std::chrono::milliseconds(250)) {}

  void note(std::string_view line) override {
    event({{"event", "note"}, {"text", line}});
    std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data());
  }
  void warn(std::string_view line) override {
    event({{"event", "warn"}, {"text", line}});
    std::fprintf(stderr, "warning: %.*s\n", static_cast<int>(line.size()), line.data());
  }
  void advance(std::string_view what, std::int64_t done, std::int64_t total, const Json& detail) override {
    {
      const std::scoped_lock lock(mutex_);
      if (!pace_.due(what, done, total)) return;
    }
    Json line = {{"event", "progress"}, {"what", what}, {"done", done}, {"total", total}};
    if (detail.is_object() && !detail.empty()) line["detail"] = detail;
    event(line);
  }
  void event(const Json& event) override {
    const std::scoped_lock lock(mutex_);
    if (!support::write_whole(fd_, support::json_text(event) + "\n") && errno == EPIPE)
      support::request_stop(15);  // no process reads any more: this is an orphan
  }

 private:
  int fd_;
  Pace pace_;
  std::mutex mutex_;
};

}  // namespace

std::unique_ptr<support::Progress> make_human_reporter(const std::string& how) {
  return std::make_unique<HumanReporter>(how);
}

std::unique_ptr<support::Progress> make_event_reporter(int fd) { return std::make_unique<EventReporter>(fd); }

}  // namespace pe::stage

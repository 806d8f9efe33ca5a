/// @file
/// Events that no stage should write and some stage will.
#pragma once

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "support/json.h"
#include "support/random.h"

namespace pe::test {

/// Events of every name that the run, its display and its readers know, with members of every name they look at, of
/// unexpected types.
class OddEvents {
 public:
  explicit OddEvents(std::uint64_t seed) : random_(support::make_key({11, seed})) {}

  Json next() {
    static const std::vector<std::string> names = {
        "plan",  "start",   "progress", "checkpoint", "snapshot",  "publish", "reuse",   "exit",
        "retry", "requeue", "conflict", "fail",       "block",     "wait",    "note",    "warn",
        "stop",  "end",     "machine",  "memory",     "submitted", "",        "\x1b[2J", "naïve name"};
    static const std::vector<std::string> members = {
        "resumed", "waits",    "gpus",           "text",           "reason",  "class", "tail",   "log",    "rerun",
        "bytes",   "snapshot", "status",         "step",           "done",    "total", "what",   "detail", "owner",
        "file",    "first",    "level",          "running",        "key",     "task",  "seq",    "time",   "crc",
        "event",   "delay_s",  "inherited_from", "peak_rss_bytes", "attempt", "build", "device", "code",   "signal",
        ""};
    if (pick(50) == 0) return value(3);
    Json event = Json::object();
    const std::size_t count = pick(6);
    for (std::size_t i = 0; i < count; ++i) event[members[pick(members.size())]] = value(3);
    if (pick(20) != 0) event["event"] = pick(8) == 0 ? text() : names[pick(names.size())];
    return event;
  }

 private:
  std::size_t pick(std::size_t n) { return random_.below(n); }
  std::string text() {
    static const std::vector<std::string> texts = {"",
                                                   "x",
                                                   "\n",
                                                   "a\nb",
                                                   "\x1b]0;title\x07",
                                                   "\xc2\x9b"
                                                   "31m",
                                                   "\xff\xfe",
                                                   "diverged",
                                                   "é",
                                                   std::string(300, 'n'),
                                                   std::string(1, '\0')};
    return texts[pick(texts.size())];
  }
  Json value(int depth) {
    switch (pick(depth > 0 ? 12 : 9)) {
      case 0:
        return nullptr;
      case 1:
        return pick(2) == 0;
      case 2:
        return std::numeric_limits<std::int64_t>::min();
      case 3:
        return std::numeric_limits<std::uint64_t>::max();
      case 4:
        return -1e308;
      case 5:
        return 1e308;
      case 6:
        return pick(1000);
      case 7:
        return 0.5;
      case 8:
        return text();
      case 9: {
        Json list = Json::array();
        for (std::size_t i = pick(4); i > 0; --i) list.push_back(value(depth - 1));
        return list;
      }
      default: {
        Json object = Json::object();
        for (std::size_t i = pick(4); i > 0; --i) object[pick(2) ? "tokens_per_second" : text()] = value(depth - 1);
        return object;
      }
    }
  }
  support::Xoshiro random_;
};

}  // namespace pe::test

#include "pipeline/store/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <optional>
#include <utility>

#include "pipeline/store/whole_write.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/fault_point.h"
#include "support/hash.h"
#include "support/share_out.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

constexpr std::string_view kCrcKey = ",\"crc\":\"";

std::string crc_of(std::string_view text) {
  char hex[9];
  std::snprintf(hex, sizeof hex, "%08x", support::crc32c(text.data(), text.size()));
  return hex;
}

/// Takes the fields of a JournalEvent out of a line as it is read.
class EventReader : public nlohmann::json_sax<Json> {
 public:
  explicit EventReader(JournalEvent& event) : event_(event) {}
  /// Whether the line was an object with what each event has.
  bool whole() const { return has_seq_ && has_time_; }

  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    static constexpr std::pair<std::string_view, std::string JournalEvent::*> kTexts[] = {
        {"event", &JournalEvent::event}, {"task", &JournalEvent::task},     {"key", &JournalEvent::key},
        {"log", &JournalEvent::log},     {"reason", &JournalEvent::reason}, {"class", &JournalEvent::outcome}};
    const std::string_view view = name;
    text_ = nullptr;
    for (const auto& [text, field] : kTexts) {
      if (view == text) text_ = &(event_.*field);
    }
    number_ = view == "time"      ? Number::kTime
              : view == "seq"     ? Number::kSeq
              : view == "attempt" ? Number::kAttempt
                                  : Number::kNone;
    has_time_ = has_time_ || number_ == Number::kTime;
    has_seq_ = has_seq_ || number_ == Number::kSeq;
    event_.snapshot = event_.snapshot || view == "snapshot";
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ == 1 && text_) *text_ = std::move(text);
    return true;
  }
  bool number_integer(number_integer_t number) override { return take(static_cast<double>(number), number); }
  bool number_unsigned(number_unsigned_t number) override {
    return take(static_cast<double>(number), static_cast<std::int64_t>(number));
  }
  bool number_float(number_float_t number, const string_t&) override {
    return take(number, static_cast<std::int64_t>(number));
  }
  bool start_object(std::size_t) override { return open(); }
  bool start_array(std::size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool open() { return ++depth_ > 0; }
  bool close() {
    --depth_;
    return true;
  }
  bool take(double number, std::int64_t whole) {
    if (depth_ != 1) return true;
    if (number_ == Number::kTime) event_.time = number;
    if (number_ == Number::kSeq) event_.seq = whole;
    if (number_ == Number::kAttempt) event_.attempt = static_cast<int>(whole);
    return true;
  }

  enum class Number { kNone, kTime, kSeq, kAttempt };

  JournalEvent& event_;
  std::string* text_ = nullptr;  // the fields that the key at hand fills
  Number number_ = Number::kNone;
  int depth_ = 0;
  bool has_seq_ = false, has_time_ = false;
};

std::optional<Json> parsed(std::string_view line, const Json*) {
  Json event = Json::parse(line, nullptr, false);
  if (!event.is_object() || !event.contains("seq") || !event.contains("time")) return std::nullopt;
  return event;
}

std::optional<JournalEvent> parsed(std::string_view line, const JournalEvent*) {
  JournalEvent event;
  EventReader reader(event);
  if (!Json::sax_parse(line.begin(), line.end(), &reader) || !reader.whole()) return std::nullopt;
  return event;
}

template <typename Event>
std::vector<Event> parse_lines(std::string_view bytes, std::size_t& skipped) {
  std::vector<Event> events;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const std::string_view line = bytes.substr(0, end);
    bytes = end == std::string_view::npos ? std::string_view() : bytes.substr(end + 1);
    const auto at = line.rfind(kCrcKey);
    const bool whole = end != std::string_view::npos && at != std::string_view::npos &&
                       line.size() == at + kCrcKey.size() + 10 &&
                       line.substr(at + kCrcKey.size(), 8) == crc_of(line.substr(0, at));
    auto event = whole ? parsed(line, static_cast<const Event*>(nullptr)) : std::nullopt;
    if (event)
      events.push_back(*std::move(event));
    else
      ++skipped;
  }
  return events;
}

struct Place {
  double time;
  std::int64_t seq;
};
Place place_of(const Json& event) { return {event.at("time"), event.at("seq")}; }
Place place_of(const JournalEvent& event) { return {event.time, event.seq}; }

/// Every journal of a run, merged; events of one time and number in the order of their files.
template <typename Event>
std::vector<Event> merged(const std::filesystem::path& run_folder, std::size_t* skipped) {
  constexpr std::size_t kFiles = 64;  // a part for a thread: some milliseconds
  std::vector<std::filesystem::path> files;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(run_folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("journal.", 0) == 0 && name.ends_with(".jsonl")) files.push_back(entry.path());
  }
  std::vector<std::vector<Event>> parts(files.size());
  std::atomic<std::size_t> bad = 0;
  support::share_out(files.size(), kFiles, [&](std::size_t begin, std::size_t end) {
    std::size_t bad_here = 0;
    for (std::size_t i = begin; i < end; ++i) parts[i] = parse_lines<Event>(support::read_file(files[i]), bad_here);
    bad += bad_here;
  });
  if (skipped) *skipped += bad;
  // Places are sorted instead of events, which are large.
  std::vector<std::pair<Place, Event*>> order;
  for (auto& part : parts) {
    for (Event& event : part) order.emplace_back(place_of(event), &event);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first.time != b.first.time ? a.first.time < b.first.time : a.first.seq < b.first.seq;
  });
  std::vector<Event> events;
  events.reserve(order.size());
  for (const auto& [place, event] : order) events.push_back(std::move(*event));
  return events;
}

}  // namespace

std::string journal_line(const Json& event) {
  // A stage's text may hold bytes that are no UTF-8; a journal must not fail for it.
  std::string text = event.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();
  const std::string crc = crc_of(text);
  return support::cat(text, kCrcKey, crc, "\"}\n");
}

Journal::Journal(const std::filesystem::path& run_folder)
    : path_(run_folder / support::cat("journal.", host_name(), ".", ::getpid(), ".jsonl")) {
  file_ = support::Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file_) support::throw_errno("create", path_.string(), true);
}

bool Journal::append(Json event) {
  if (!file_) return false;
  event["seq"] = ++seq_;
  event["time"] = support::unix_time();
  // Behind a torn line a new one begins, or two would be lost.
  const std::string line = (torn_ ? "\n" : "") + journal_line(event);
  support::fault_point("append journal");
  const bool whole = write_whole(file_.get(), line);
  torn_ = !whole;
  return whole;
}

std::vector<Json> parse_journal(std::string_view bytes, std::size_t* skipped) {
  std::size_t bad = 0;
  std::vector<Json> events = parse_lines<Json>(bytes, bad);
  if (skipped) *skipped += bad;
  return events;
}

std::vector<Json> read_journal(const std::filesystem::path& run_folder, std::size_t* skipped) {
  return merged<Json>(run_folder, skipped);
}

std::vector<JournalEvent> read_journal_events(const std::filesystem::path& run_folder, std::size_t* skipped) {
  return merged<JournalEvent>(run_folder, skipped);
}

}  // namespace pe::pipeline

#include "pipeline/store/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>
#include <variant>

#include "pipeline/store/whole_write.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/fault_point.h"
#include "support/folders.h"
#include "support/hash.h"
#include "support/json_text.h"
#include "support/parallel_chunks.h"
#include "support/parse_json.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

constexpr std::string_view kCrcKey = ",\"crc\":\"";

std::string crc_of(std::string_view text) {
  char hex[9];
  std::snprintf(hex, sizeof hex, "%08x", support::crc32c(text.data(), text.size()));
  return hex;
}

/// Reads the fields of a JournalEvent from a line without a tree of JSON.
class EventReader : public nlohmann::json_sax<Json> {
 public:
  explicit EventReader(JournalEvent& event) : event_(event) {}
  /// Whether the line was an object with the fields of every event.
  bool whole() const { return has_seq_ && has_time_; }

  bool key(string_t& name) override {
    if (depth_ != 1) return true;
    static const std::unordered_map<std::string_view, Field> kFields = {
        {"time", &JournalEvent::time},       {"seq", &JournalEvent::seq},
        {"event", &JournalEvent::event},     {"task", &JournalEvent::task},
        {"key", &JournalEvent::key},         {"log", &JournalEvent::log},
        {"reason", &JournalEvent::reason},   {"class", &JournalEvent::outcome},
        {"attempt", &JournalEvent::attempt}, {"snapshot", &JournalEvent::snapshot},
        {"resumed", &JournalEvent::resumed}, {"cpus", &JournalEvent::cpus},
        {"gpus", &JournalEvent::gpus},       {"cpu_s", &JournalEvent::cpu_s},
        {"bytes", &JournalEvent::bytes},     {"peak_rss_bytes", &JournalEvent::peak_rss_bytes}};
    const auto found = kFields.find(name);
    field_ = found == kFields.end() ? Field() : found->second;
    has_time_ = has_time_ || name == "time";
    has_seq_ = has_seq_ || name == "seq";
    return true;
  }
  bool string(string_t& text) override {
    const auto* list = std::get_if<std::vector<std::string> JournalEvent::*>(&field_);
    if (list && depth_ == 2) (event_.*(*list)).push_back(text);
    return take<std::string>(text);
  }
  bool number_integer(number_integer_t number) override { return take<double>(number) && take<std::int64_t>(number); }
  bool number_unsigned(number_unsigned_t number) override { return take<double>(number) && take<std::int64_t>(number); }
  bool number_float(number_float_t number, const string_t&) override {
    return take<double>(number) && take<std::int64_t>(number);
  }
  bool boolean(bool value) override { return take<bool>(value); }
  bool null() override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return ++depth_ > 0; }
  bool start_array(std::size_t) override { return ++depth_ > 0; }
  bool end_object() override { return --depth_ >= 0; }
  bool end_array() override { return --depth_ >= 0; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  template <typename T, typename Value>
  bool take(const Value& value) {
    const auto* field = std::get_if<T JournalEvent::*>(&field_);
    if (field && depth_ == 1) event_.*(*field) = static_cast<T>(value);
    return true;
  }

  using Field = std::variant<std::monostate, double JournalEvent::*, std::int64_t JournalEvent::*, bool JournalEvent::*,
                             std::string JournalEvent::*, std::vector<std::string> JournalEvent::*>;
  JournalEvent& event_;
  Field field_;  // of the present key
  int depth_ = 0;
  bool has_seq_ = false, has_time_ = false;
};

std::optional<Json> parsed(std::string_view line, const Json*) {
  Json event = support::parse_json(line);
  if (!event.is_object() || !event.contains("seq") || !event.contains("time")) return std::nullopt;
  return event;
}

std::optional<JournalEvent> parsed(std::string_view line, const JournalEvent*) {
  JournalEvent event;
  EventReader reader(event);
  if (!Json::sax_parse(line.begin(), line.end(), &reader) || !reader.whole()) return std::nullopt;
  return event;
}

/// The event of a line without its end; nothing when the line is damaged.
template <typename Event>
std::optional<Event> event_of(std::string_view line) {
  const auto at = line.rfind(kCrcKey);
  const bool whole = at != std::string_view::npos && line.size() == at + kCrcKey.size() + 10 &&
                     line.substr(at + kCrcKey.size(), 8) == crc_of(line.substr(0, at));
  return whole ? parsed(line, static_cast<const Event*>(nullptr)) : std::nullopt;
}

/// Takes the whole lines off `text`, and counts the damaged ones.
template <typename Event>
std::vector<Event> take_lines(std::string& text, std::size_t& damaged) {
  std::vector<Event> events;
  std::size_t from = 0;
  for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', from)) {
    if (auto event = event_of<Event>(std::string_view(text).substr(from, end - from)))
      events.push_back(*std::move(event));
    else
      ++damaged;
    from = end + 1;
  }
  text.erase(0, from);
  return events;
}

/// Place of an event among the events of all journals.
using Place = std::pair<double, std::int64_t>;  // time, sequence number
Place place_of(const Json& event) { return {event.at("time"), event.at("seq")}; }
Place place_of(const JournalEvent& event) { return {event.time, event.seq}; }

/// Reads a journal block by block. Its file is open only meanwhile, since a run may have 10,000 journals.
template <typename Event>
class JournalReader {
 public:
  JournalReader(std::filesystem::path path, std::size_t block_bytes) : path_(std::move(path)), block_(block_bytes) {}

  /// Reads a block when all events were taken. False at the end of the file.
  bool read() {
    while (next_ == events_.size() && !ended_) {
      const std::size_t kept = text_.size();
      text_.resize(kept + block_);
      const support::Descriptor file = support::open_regular(path_);
      const ssize_t got = ::pread(file.get(), text_.data() + kept, block_, offset_);
      if (got < 0) support::throw_errno("read", path_.string());
      ended_ = static_cast<std::size_t>(got) < block_;
      offset_ += got;
      text_.resize(kept + static_cast<std::size_t>(got));
      events_ = take_lines<Event>(text_, damaged_);
      next_ = 0;
      if (!ended_) continue;
      if (!text_.empty()) ++damaged_;
      text_ = std::string();
    }
    return next_ < events_.size();
  }
  /// Place of the next event. A clock that was set back moves no event before another of its journal.
  Place place() {
    Place place = place_of(events_[next_]);
    place.first = latest_ = std::max(latest_, place.first);
    return place;
  }
  const Event& take() { return events_[next_++]; }
  std::size_t damaged() const { return damaged_; }

 private:
  std::filesystem::path path_;
  std::size_t block_;
  off_t offset_ = 0;
  std::string text_;  // begin of a line whose end was not read yet
  bool ended_ = false;
  std::vector<Event> events_;
  std::size_t next_ = 0, damaged_ = 0;
  double latest_ = 0;
};

/// Merges the journals of a run; events of one place in the order of their files.
template <typename Event>
void each_event(const std::filesystem::path& run_folder, std::size_t* skipped,
                const std::function<void(const Event&)>& take) {
  constexpr std::size_t kAtOnce = 16 << 20;  // bytes of all journals
  std::vector<std::filesystem::path> files;
  for (const std::string& name : support::list_folder(run_folder)) {
    if (name.rfind("journal.", 0) == 0 && name.ends_with(".jsonl")) files.push_back(run_folder / name);
  }
  std::vector<JournalReader<Event>> readers;
  for (const auto& file : files)
    readers.emplace_back(file, std::clamp<std::size_t>(kAtOnce / files.size(), 4096, 1 << 20));
  support::parallel_chunks(readers.size(), 64, [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) readers[i].read();
  });
  std::set<std::pair<Place, std::size_t>> next;  // of each reader with further events
  const auto enter = [&](std::size_t i) {
    if (readers[i].read()) next.emplace(readers[i].place(), i);
  };
  for (std::size_t i = 0; i < readers.size(); ++i) enter(i);
  while (!next.empty()) {
    const std::size_t i = next.extract(next.begin()).value().second;
    take(readers[i].take());
    enter(i);
  }
  for (const auto& reader : readers) {
    if (skipped) *skipped += reader.damaged();
  }
}

}  // namespace

std::string journal_line(const Json& event) {
  // A stage's text may hold bytes that are no UTF-8; a journal must not fail for it.
  std::string text = support::json_text(event);
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
  const bool whole = support::write_whole(file_.get(), line);
  torn_ = !whole;
  return whole;
}

std::vector<Json> parse_journal(std::string_view bytes, std::size_t* skipped) {
  std::string text(bytes);
  std::size_t damaged = 0;
  std::vector<Json> events = take_lines<Json>(text, damaged);
  if (skipped) *skipped += damaged + !text.empty();
  return events;
}

std::vector<Json> read_journal(const std::filesystem::path& run_folder, std::size_t* skipped) {
  std::vector<Json> events;
  each_event<Json>(run_folder, skipped, [&](const Json& event) { events.push_back(event); });
  return events;
}

void each_journal_event(const std::filesystem::path& run_folder, const std::function<void(const JournalEvent&)>& take,
                        std::size_t* skipped) {
  each_event<JournalEvent>(run_folder, skipped, take);
}

}  // namespace pe::pipeline

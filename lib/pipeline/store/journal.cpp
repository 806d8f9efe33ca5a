#include "pipeline/store/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <optional>
#include <utility>

#include "pipeline/store/whole_write.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/fault_point.h"
#include "support/hash.h"
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
    static constexpr std::pair<std::string_view, std::string JournalEvent::*> kTexts[] = {
        {"event", &JournalEvent::event},
        {"task", &JournalEvent::task},
        {"key", &JournalEvent::key},
        {"log", &JournalEvent::log},
        {"reason", &JournalEvent::reason},
        {"class", &JournalEvent::outcome},
        {"snapshot", &JournalEvent::snapshot_label}};
    const std::string_view view = name;
    text_ = nullptr;
    for (const auto& [text, field] : kTexts) {
      if (view == text) text_ = &(event_.*field);
    }
    number_ = view == "time"             ? Number::kTime
              : view == "seq"            ? Number::kSeq
              : view == "attempt"        ? Number::kAttempt
              : view == "cpus"           ? Number::kCpus
              : view == "cpu_s"          ? Number::kCpuTime
              : view == "peak_rss_bytes" ? Number::kPeak
              : view == "bytes"          ? Number::kBytes
                                         : Number::kNone;
    in_gpus_ = view == "gpus";
    resumed_ = view == "resumed";
    has_time_ = has_time_ || number_ == Number::kTime;
    has_seq_ = has_seq_ || number_ == Number::kSeq;
    event_.snapshot = event_.snapshot || view == "snapshot";
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ == 1 && text_) *text_ = std::move(text);
    if (depth_ == 2 && in_gpus_) event_.gpus.push_back(std::move(text));
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
  bool boolean(bool value) override {
    if (depth_ == 1 && resumed_) event_.resumed = value;
    return true;
  }
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
    if (number_ == Number::kCpus) event_.cpus = whole;
    if (number_ == Number::kCpuTime) event_.cpu_s = number;
    if (number_ == Number::kPeak) event_.peak_rss_bytes = whole;
    if (number_ == Number::kBytes) event_.bytes = static_cast<std::uint64_t>(std::max<std::int64_t>(0, whole));
    return true;
  }

  enum class Number { kNone, kTime, kSeq, kAttempt, kCpus, kCpuTime, kPeak, kBytes };

  JournalEvent& event_;
  std::string* text_ = nullptr;  // the fields that the present key fills
  Number number_ = Number::kNone;
  int depth_ = 0;
  bool in_gpus_ = false, resumed_ = false;  // whether the key at hand is that
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

template <typename Event>
std::vector<Event> parse_lines(std::string_view bytes, std::size_t& skipped) {
  std::vector<Event> events;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    auto event = end == std::string_view::npos ? std::nullopt : event_of<Event>(bytes.substr(0, end));
    bytes = end == std::string_view::npos ? std::string_view() : bytes.substr(end + 1);
    if (event)
      events.push_back(*std::move(event));
    else
      ++skipped;
  }
  return events;
}

/// Place of an event among the events of all journals.
struct Place {
  double time;
  std::int64_t seq;
  bool operator<(const Place& other) const { return time != other.time ? time < other.time : seq < other.seq; }
};
Place place_of(const Json& event) { return {event.at("time"), event.at("seq")}; }
Place place_of(const JournalEvent& event) { return {event.time, event.seq}; }

/// The places of one journal's events, in their order: a clock that was set back moves none before another.
class Places {
 public:
  template <typename Event>
  Place next(const Event& event) {
    Place place = place_of(event);
    place.time = latest_ = std::max(latest_, place.time);
    return place;
  }

 private:
  double latest_ = 0;
};

std::vector<std::filesystem::path> journals_of(const std::filesystem::path& run_folder) {
  std::vector<std::filesystem::path> files;
  for (const std::string& name : support::list_folder(run_folder)) {
    if (name.rfind("journal.", 0) == 0 && name.ends_with(".jsonl")) files.push_back(run_folder / name);
  }
  return files;
}

/// Journals, merged; events of one time and number in the order of their files.
template <typename Event>
std::vector<Event> merged(const std::vector<std::filesystem::path>& files, std::size_t* skipped) {
  constexpr std::size_t kFiles = 64;  // a part for a thread: some milliseconds
  std::vector<std::vector<Event>> parts(files.size());
  std::atomic<std::size_t> bad = 0;
  support::parallel_chunks(files.size(), kFiles, [&](std::size_t begin, std::size_t end) {
    std::size_t bad_here = 0;
    for (std::size_t i = begin; i < end; ++i) parts[i] = parse_lines<Event>(support::read_file(files[i]), bad_here);
    bad += bad_here;
  });
  if (skipped) *skipped += bad;
  // Places are sorted instead of events, which are large.
  std::vector<std::pair<Place, Event*>> order;
  for (auto& part : parts) {
    Places places;
    for (Event& event : part) order.emplace_back(places.next(event), &event);
  }
  std::stable_sort(order.begin(), order.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<Event> events;
  events.reserve(order.size());
  for (const auto& [place, event] : order) events.push_back(std::move(*event));
  return events;
}

/// Position of an event.
struct Line {
  Place place;
  std::size_t file;
  std::int64_t offset;
  std::size_t size;  // without its end
};

std::string read_at(const support::Descriptor& file, std::int64_t offset, std::size_t size) {
  std::string bytes(size, '\0');
  std::size_t have = 0;
  while (have < size) {
    const ssize_t got = ::pread(file.get(), bytes.data() + have, size - have, offset + static_cast<std::int64_t>(have));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;  // cut off meanwhile, or unreadable: what is missing is damaged
    have += static_cast<std::size_t>(got);
  }
  bytes.resize(have);
  return bytes;
}

support::Descriptor opened(const std::filesystem::path& path) {
  support::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) support::throw_errno("open", path.string(), false);
  return file;
}

/// Every event of a file, a block at a time. @param take  of the event, where its line begins, and its length without
/// its end
template <typename Take>
void each_line(const std::filesystem::path& path, std::size_t& skipped, const Take& take) {
  constexpr std::size_t kBlock = 1 << 20;
  const support::Descriptor file = opened(path);
  std::string rest;
  std::int64_t begin = 0;  // of `rest`, in the file
  while (true) {
    const std::string block = read_at(file, begin + static_cast<std::int64_t>(rest.size()), kBlock);
    rest += block;
    std::size_t from = 0;
    for (auto end = rest.find('\n'); end != std::string::npos; end = rest.find('\n', from)) {
      const std::size_t size = end - from;
      if (const auto event = event_of<JournalEvent>(std::string_view(rest).substr(from, size)))
        take(*event, begin + static_cast<std::int64_t>(from), size);
      else
        ++skipped;
      from = end + 1;
    }
    rest.erase(0, from);
    begin += static_cast<std::int64_t>(from);
    if (block.empty()) break;
  }
  if (!rest.empty()) ++skipped;
}

/// Merges long journals: the order first, by their lines' places, then line by line.
void each_of_long(const std::vector<std::filesystem::path>& files, const std::function<void(const JournalEvent&)>& take,
                  std::size_t* skipped) {
  constexpr std::size_t kAtOnce = 1 << 20;  // bytes of lines that follow each other in one file
  std::vector<Line> lines;
  std::size_t bad = 0;
  for (std::size_t i = 0; i < files.size(); ++i) {
    Places places;
    each_line(files[i], bad, [&](const JournalEvent& event, std::int64_t offset, std::size_t size) {
      lines.push_back({places.next(event), i, offset, size});
    });
  }
  if (skipped) *skipped += bad;
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) { return a.place < b.place; });
  support::Descriptor file;
  std::size_t open = files.size();
  for (std::size_t i = 0; i < lines.size();) {
    std::size_t last = i;
    const auto end_of = [&](std::size_t k) { return lines[k].offset + static_cast<std::int64_t>(lines[k].size) + 1; };
    while (last + 1 < lines.size() && lines[last + 1].file == lines[i].file && lines[last + 1].offset == end_of(last) &&
           end_of(last + 1) - lines[i].offset <= static_cast<std::int64_t>(kAtOnce))
      ++last;
    if (open != lines[i].file) {
      open = lines[i].file;
      file = opened(files[open]);
    }
    const std::string bytes = read_at(file, lines[i].offset, static_cast<std::size_t>(end_of(last) - lines[i].offset));
    for (const std::int64_t begin = lines[i].offset; i <= last; ++i) {
      const auto from = static_cast<std::size_t>(lines[i].offset - begin);
      const auto event = from > bytes.size()
                             ? std::nullopt
                             : event_of<JournalEvent>(std::string_view(bytes).substr(from, lines[i].size));
      if (event)
        take(*event);
      else if (skipped)
        ++*skipped;
    }
  }
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
  return merged<Json>(journals_of(run_folder), skipped);
}

void each_journal_event(const std::filesystem::path& run_folder, const std::function<void(const JournalEvent&)>& take,
                        std::size_t* skipped) {
  constexpr std::uintmax_t kShort = 24 << 20;  // bytes; what they hold takes a few times that, and is parsed once
  const std::vector<std::filesystem::path> files = journals_of(run_folder);
  if (files.size() == 1) {
    std::size_t bad = 0;
    each_line(files.front(), bad, [&](const JournalEvent& event, std::int64_t, std::size_t) { take(event); });
    if (skipped) *skipped += bad;
    return;
  }
  std::uintmax_t bytes = 0;
  for (const auto& file : files) {
    std::error_code error;
    const std::uintmax_t size = std::filesystem::file_size(file, error);
    if (!error) bytes += size;
  }
  if (bytes > kShort) return each_of_long(files, take, skipped);
  for (const JournalEvent& event : merged<JournalEvent>(files, skipped)) take(event);
}

}  // namespace pe::pipeline

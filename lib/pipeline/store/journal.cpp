#include "pipeline/store/journal.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>

#include "pipeline/store/whole_write.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::pipeline {

namespace {

constexpr std::string_view kCrcKey = ",\"crc\":\"";

std::string crc_of(std::string_view text) {
  char hex[9];
  std::snprintf(hex, sizeof hex, "%08x", support::crc32c(text.data(), text.size()));
  return hex;
}

}  // namespace

double unix_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string utc_text(double unix_seconds, bool milliseconds) {
  const auto whole = static_cast<std::time_t>(unix_seconds);
  std::tm parts{};
  ::gmtime_r(&whole, &parts);
  char text[40];
  const std::size_t size = std::strftime(text, 32, "%Y-%m-%dT%H:%M:%S", &parts);
  const int fraction = static_cast<int>((unix_seconds - static_cast<double>(whole)) * 1000);
  if (milliseconds)
    std::snprintf(text + size, sizeof text - size, ".%03dZ", fraction);
  else
    std::snprintf(text + size, sizeof text - size, "Z");
  return text;
}

std::string journal_line(const Json& event) {
  // A stage's text may hold bytes that are no UTF-8; a journal must not fail for it.
  std::string text = event.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.pop_back();
  const std::string crc = crc_of(text);
  return support::cat(text, kCrcKey, crc, "\"}\n");
}

Journal::Journal(const std::filesystem::path& run_folder, std::function<void(std::string_view)> before_step)
    : path_(run_folder / support::cat("journal.", host_name(), ".", ::getpid(), ".jsonl")),
      before_step_(std::move(before_step)) {
  file_ = support::Descriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file_) support::throw_errno("create", path_.string(), true);
}

bool Journal::append(Json event) {
  if (!file_) return false;
  event["seq"] = ++seq_;
  event["time"] = unix_time();
  // Behind a torn line a new one begins, or two would be lost.
  const std::string line = (torn_ ? "\n" : "") + journal_line(event);
  if (before_step_) before_step_("append journal");
  const bool whole = write_whole(file_.get(), line);
  torn_ = !whole;
  return whole;
}

std::vector<Json> parse_journal(std::string_view bytes, std::size_t* skipped) {
  std::vector<Json> events;
  while (!bytes.empty()) {
    const auto end = bytes.find('\n');
    const std::string_view line = bytes.substr(0, end);
    bytes = end == std::string_view::npos ? std::string_view() : bytes.substr(end + 1);
    const auto at = line.rfind(kCrcKey);
    bool good = end != std::string_view::npos && at != std::string_view::npos &&
                line.size() == at + kCrcKey.size() + 10 &&
                line.substr(at + kCrcKey.size(), 8) == crc_of(line.substr(0, at));
    if (good) {
      Json event = Json::parse(line, nullptr, false);
      good = event.is_object() && event.contains("seq") && event.contains("time");
      if (good) events.push_back(std::move(event));
    }
    if (!good && skipped) ++*skipped;
  }
  return events;
}

std::vector<Json> read_journal(const std::filesystem::path& run_folder, std::size_t* skipped) {
  std::vector<Json> events;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(run_folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("journal.", 0) != 0 || entry.path().extension() != ".jsonl") continue;
    for (Json& event : parse_journal(support::read_file(entry.path()), skipped)) events.push_back(std::move(event));
  }
  std::stable_sort(events.begin(), events.end(), [](const Json& a, const Json& b) {
    const double x = a.at("time"), y = b.at("time");
    return x != y ? x < y : a.at("seq").get<std::int64_t>() < b.at("seq").get<std::int64_t>();
  });
  return events;
}

}  // namespace pe::pipeline

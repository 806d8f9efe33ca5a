#include "training/tensorboard.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

#include "support/files.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::training {
namespace {

/// Field numbers of the messages that we write.
enum EventField { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7 };
enum SummaryField { kValue = 1 };
enum ValueField { kTag = 1, kSimpleValue = 2 };
enum SessionField { kStatus = 1 };
constexpr std::uint64_t kSessionStart = 1;

enum Wire { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

void append_raw(std::string& to, auto value) {  // x86-64 is little-endian, as the format is
  char bytes[sizeof value];
  std::memcpy(bytes, &value, sizeof value);
  to.append(bytes, sizeof value);
}

void append_varint(std::string& to, std::uint64_t value) {
  for (; value >= 128; value >>= 7) to.push_back(static_cast<char>(value | 128));
  to.push_back(static_cast<char>(value));
}

void append_key(std::string& to, int field, Wire wire) {
  append_varint(to, static_cast<std::uint64_t>(field) << 3 | wire);
}

void append_bytes(std::string& to, int field, std::string_view bytes) {
  append_key(to, field, kBytes);
  append_varint(to, bytes.size());
  to.append(bytes);
}

/// The CRC of data that holds CRCs itself would be weak; the format rotates and shifts it for that.
std::uint32_t masked_crc(std::string_view bytes) {
  const std::uint32_t crc = support::crc32c(bytes.data(), bytes.size());
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

std::string event_at(double time, std::int64_t step) {
  std::string event;
  append_key(event, kWallTime, kFixed64);
  append_raw(event, time);
  if (step != 0) {
    append_key(event, kStep, kVarint);
    append_varint(event, static_cast<std::uint64_t>(step));
  }
  return event;
}

}  // namespace

std::string tensorboard_record(std::string_view payload) {
  std::string record;
  append_raw(record, static_cast<std::uint64_t>(payload.size()));
  append_raw(record, masked_crc(record));
  record.append(payload);
  append_raw(record, masked_crc(payload));
  return record;
}

std::string first_event(double time) {
  std::string event = event_at(time, 0);
  append_bytes(event, kFileVersion, "brain.Event:2");
  return event;
}

EventFile::EventFile(const std::filesystem::path& folder, double time) {
  static std::atomic<int> counter{0};
  char host[64] = "";
  ::gethostname(host, sizeof host - 1);
  path_ = folder / fmt::format("events.out.tfevents.{:010}.{}.{}.{}", static_cast<std::int64_t>(time), host, ::getpid(),
                               counter++);
  support::append_file(path_, tensorboard_record(first_event(time)));
}

void EventFile::add(double time, std::int64_t step, std::span<const Scalar> scalars) const {
  std::string summary;
  for (const Scalar& scalar : scalars) {
    std::string value;
    append_bytes(value, kTag, scalar.tag);
    append_key(value, kSimpleValue, kFixed32);
    append_raw(value, static_cast<float>(scalar.value));
    append_bytes(summary, kValue, value);
  }
  std::string event = event_at(time, step);
  append_bytes(event, kSummary, summary);
  support::append_file(path_, tensorboard_record(event));
}

void EventFile::restart(double time, std::int64_t step) const {
  std::string session;
  append_key(session, kStatus, kVarint);
  append_varint(session, kSessionStart);
  std::string event = event_at(time, step);
  append_bytes(event, kSessionLog, session);
  support::append_file(path_, tensorboard_record(event));
}

}  // namespace pe::training

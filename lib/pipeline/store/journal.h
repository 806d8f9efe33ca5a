/// @file
/// Events of a run, one JSON object a line, in `runs/<run id>/journal.<host>.<pid>.jsonl`. Each line has a sequence
/// number, a time, and at its end the CRC-32C of the preceding bytes:
/// {"seq":1,"time":…,"event":"start",…,"crc":"0a1b2c3d"}. Written with one `write`; a torn or damaged line is skipped
/// by readers. Several files of one run merge by time, then sequence, and each keeps its own order.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/store/host.h"
#include "support/files.h"
#include "support/json.h"

namespace pe::pipeline {

class Journal {
 public:
  Journal() = default;
  explicit Journal(const std::filesystem::path& run_folder);
  /// Adds "seq", "time" and "crc". A full disk is not fatal: the journal records, it does not decide. False then.
  bool append(Json event);
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  support::Descriptor file_;
  std::int64_t seq_ = 0;
  bool torn_ = false;  // the last line was not written whole
};

/// A line for readers of very many lines: no tree of JSON is made. A field that a line lacks, or has in another type,
/// is empty.
struct JournalEvent {
  double time = 0;
  std::int64_t seq = 0;
  std::string event, task, key, log, reason;
  std::string outcome;  ///< "class" of an exit
  std::int64_t attempt = 0;
  std::string snapshot;             ///< label of a published snapshot
  bool resumed = false;             ///< of a start
  std::int64_t cpus = 0;            ///< of a start
  std::vector<std::string> gpus;    ///< of a start
  double cpu_s = 0;                 ///< of an exit
  std::int64_t peak_rss_bytes = 0;  ///< of an exit
  std::int64_t bytes = 0;           ///< of a publish
};

std::string journal_line(const Json& event);
/// The events of one file's bytes, damaged lines left out; `skipped` counts these.
std::vector<Json> parse_journal(std::string_view bytes, std::size_t* skipped = nullptr);
/// Every journal of a run, merged.
std::vector<Json> read_journal(const std::filesystem::path& run_folder, std::size_t* skipped = nullptr);
/// Passes on the same events in the same order. A submission of 10,000 elements has as many journals, of a few lines
/// each. A run of 100,000 tasks has a long journal, of which only a part is in memory at a time.
void each_journal_event(const std::filesystem::path& run_folder, const std::function<void(const JournalEvent&)>& take,
                        std::size_t* skipped = nullptr);

}  // namespace pe::pipeline

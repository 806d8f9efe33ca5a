/// @file
/// Garbage: what a store may drop, in which order, and how that is safe while others work.
///
/// Kept always:
///
///     Results that a pin names, and anything younger than the grace.
///     Results of live runs, of runs within the grace, and of tasks with a lease.
///     Results of the newest N complete runs of each pipeline (N is 1 without --keep-last), and of later runs.
///
/// Runs with another scale, axis or --set are counted apart. A run that found everything there counts (uses.h).
/// Everything else goes to the trash, and leaves it after the grace.
///
/// A folder or a file with records that cannot be read is an error, and then nothing is dropped.
///
/// Order: leftovers without references come first. Then come runs beyond the newest of each pipeline that protect
/// nothing, and then the logs of tasks that no kept run names. Then come remembered plans that are old. Under a size
/// limit rotating checkpoints follow, of finished trainings and of trainings that no kept run names. Last come results,
/// cheapest to make again for their space first.
///
/// During a run: an object that is published again is made young by publishing and stays. Before every drop the runs
/// are looked at again, and inputs of one that began meanwhile are brought back from the trash.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pipeline/store/store.h"

namespace pe::pipeline {

struct GarbageOptions {
  double grace_s = 24 * 3600;
  std::optional<std::uint64_t> max_bytes;  ///< Drop results until objects and work folders fit.
  std::optional<std::size_t> keep_last;    ///< Drop results that were used before the newest N complete runs only.
  std::size_t keep_runs = 50;    ///< Folders of runs kept of each pipeline, besides runs that protect results.
  std::size_t keep_memos = 200;  ///< Remembered plans (a dropped one costs reading everything once).
  bool by_age = false;           ///< oldest first, instead of cheapest to make again
  bool dry_run = false;
};

struct Deletion {
  enum class What { kTrash, kLeftover, kRun, kLog, kMemo, kCheckpoint, kResult };
  What what = What::kLeftover;
  std::string name;  ///< task of a result, id of a run, else a path in the store
  std::string key;   ///< of a result
  std::int64_t step = -1;
  std::uint64_t bytes = 0;  ///< that this frees
  double hours = 0;         ///< that making it took: GPU-hours, or hours where no GPU was held
  std::string why;
};
std::string_view what_name(Deletion::What what);  ///< "trash", "leftover", "run", "log", "memo", "checkpoint", "result"

struct GarbageReport {
  std::vector<Deletion> dropped;
  std::uint64_t bytes_before = 0;  ///< objects, work folders, runs and memos
  std::uint64_t bytes_after = 0;
  std::uint64_t to_trash = 0;
  std::uint64_t deleted = 0;  ///< from the trash, for good
  std::size_t results = 0;    ///< in the store, before
  std::size_t known = 0;      ///< of them, those whose bytes are not all here; dropping them frees little
  std::size_t runs = 0;       ///< folders of runs, before
  std::size_t kept_by_pins = 0, kept_by_runs = 0, kept_by_grace = 0;
  std::size_t restored = 0;        ///< brought back for a run that began meanwhile
  bool fits = true;                ///< false: --max-size cannot be reached without dropping what must be kept
  std::vector<std::string> notes;  ///< why something was left alone
};

/// @throws IoError; when something cannot be read, before anything was dropped
GarbageReport collect_garbage(Store& store, const GarbageOptions& options);

}  // namespace pe::pipeline

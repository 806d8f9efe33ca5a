#include "training/resume.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/folders.h"
#include "support/text.h"

namespace pe::training {
namespace {

using support::cat;

struct CheckpointFile {
  std::int64_t step = 0;
  std::filesystem::path path;
  std::filesystem::path metrics;  ///< of a snapshot
};

/// Newest first. @throws IoError: a folder that cannot be listed is no folder without checkpoints
std::vector<CheckpointFile> checkpoints_in(const std::filesystem::path& folder) {
  std::vector<CheckpointFile> found;
  for (const std::string& name : support::list_folder(folder)) {
    const std::filesystem::path path = folder / name;
    if (name.rfind("step-", 0) != 0 || path.extension() != ".h5") continue;
    const auto step = support::parse_integer(path.stem().string().substr(5));
    if (step) found.push_back({*step, path, {}});
  }
  std::sort(found.begin(), found.end(),
            [](const CheckpointFile& a, const CheckpointFile& b) { return a.step > b.step; });
  return found;
}

std::vector<std::filesystem::path> folders_of(const artifact::Workspace& workspace) {
  std::vector<std::filesystem::path> folders{workspace.work / "checkpoints"};
  if (workspace.resume && *workspace.resume != workspace.work) folders.push_back(*workspace.resume / "checkpoints");
  return folders;
}

/// Every checkpoint that a run may resume from, newest first.
std::vector<CheckpointFile> candidates(const std::vector<std::filesystem::path>& folders,
                                       const std::optional<artifact::Snapshot>& earlier) {
  std::vector<CheckpointFile> found;
  for (const auto& folder : folders) {
    const std::vector<CheckpointFile> more = checkpoints_in(folder);
    found.insert(found.end(), more.begin(), more.end());
  }
  if (earlier && earlier->outputs.count("model") && earlier->outputs.count("metrics")) {
    found.push_back({earlier->step, earlier->outputs.at("model"), earlier->outputs.at("metrics")});
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const CheckpointFile& a, const CheckpointFile& b) { return a.step > b.step; });
  return found;
}

/// The first difference that makes a checkpoint one of another run; empty when it is of this one. A snapshot has no
/// schedule: a caller that passes it as earlier knows the schedule from its key.
std::string difference(const artifact::CheckpointMeta& found, const artifact::CheckpointMeta& expected,
                       bool is_snapshot) {
  const auto unlike = [](const char* what, const Json& a, const Json& b) {
    return cat(what, " ", a.dump(), " and not ", b.dump());
  };
  if (found.model != expected.model) return unlike("model", found.model, expected.model);
  if (found.encoding != expected.encoding) return unlike("encoding", found.encoding, expected.encoding);
  if (found.optimizer != expected.optimizer) return unlike("optimizer", found.optimizer, expected.optimizer);
  if (found.data != expected.data) return unlike("data order", found.data, expected.data);
  if (found.data_digest != expected.data_digest) return unlike("data", found.data_digest, expected.data_digest);
  if (found.parents != expected.parents) return unlike("parents", found.parents, expected.parents);
  const Json empty = Json::object();
  const Json a = found.extra.value("branch", empty), b = expected.extra.value("branch", empty);
  if (a != b) return unlike("branch", a, b);
  const Json c = found.extra.value("run", empty), d = expected.extra.value("run", empty);
  if (c != d && !is_snapshot) return unlike("schedule", c, d);
  return "";
}

}  // namespace

void prefetch_checkpoint(const artifact::Workspace& workspace) {
  const std::vector<CheckpointFile> found = candidates(folders_of(workspace), workspace.earlier);
  if (found.empty()) return;
  // In a thread, since the calls block while the disk's queue is full. The reader of the file reports errors.
  std::thread([path = found.front().path] {
    const support::Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat about {};
    if (!fd || ::fstat(fd.get(), &about) != 0) return;
    constexpr off_t kPiece = off_t{32} << 20;
    for (off_t at = 0; at < about.st_size; at += kPiece) ::posix_fadvise(fd.get(), at, kPiece, POSIX_FADV_WILLNEED);
  }).detach();
}

ResumeStore::ResumeStore(const artifact::Workspace& workspace, const CheckpointConfig& config,
                         support::Progress& progress)
    : folders_(folders_of(workspace)), earlier_(workspace.earlier), config_(config), progress_(progress) {}

ResumeStore::~ResumeStore() {
  if (writer_.valid()) writer_.wait();
}

void ResumeStore::save(std::int64_t step, std::optional<std::int64_t> best, Write write) {
  wait();
  support::make_folders(folders_.front());
  step_ = step;
  writer_ = std::async(std::launch::async, [this, step, best, write = std::move(write)] {
    const std::filesystem::path path = folders_.front() / cat("step-", step, ".h5");
    const double begin = support::steady_s();
    write(path);
    const double seconds = support::steady_s() - begin;
    std::error_code ignored;
    const WriteReport written{step, seconds, std::filesystem::file_size(path, ignored)};
    tidy(step, best);
    return written;
  });
}

void ResumeStore::wait() {
  if (!writer_.valid()) return;
  try {
    written_ = writer_.get();
    last_ = step_;
  } catch (support::Error& error) {
    error.add_context(last_ ? cat("while writing the checkpoint of step ", step_, "; the one of step ", *last_,
                                  " is unchanged, and the same command continues from it")
                            : cat("while writing the checkpoint of step ", step_, ", the first one"));
    throw;
  }
}

std::optional<ResumeStore::WriteReport> ResumeStore::written() { return std::exchange(written_, std::nullopt); }

void ResumeStore::check() {
  if (writer_.valid() && writer_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) wait();
}

void ResumeStore::tidy(std::int64_t step, std::optional<std::int64_t> best) const {
  std::error_code ignored;
  for (const auto& path : damaged_) {
    if (path.parent_path() == folders_.front() && path.filename() != cat("step-", step, ".h5"))
      std::filesystem::remove(path, ignored);
  }
  std::int64_t newest = 0;
  for (const CheckpointFile& found : checkpoints_in(folders_.front())) {
    if (found.step > step) continue;  // of another run in the same folder: not ours to remove
    const bool pinned = config_.pin_every > 0 && found.step % config_.pin_every == 0;
    if (newest++ < config_.keep || pinned || found.step == best) continue;
    std::filesystem::remove(found.path, ignored);
  }
  // Killed writers leave temporary files next to the final names; this attempt is the folder's only writer.
  for (const auto& entry : std::filesystem::directory_iterator(folders_.front(), ignored)) {
    if (entry.path().filename().string().find(".h5.tmp.") != std::string::npos)
      std::filesystem::remove(entry.path(), ignored);
  }
}

/// Checkpoints up to `step` in the folder to resume from get a second name here. Falling back and keeping then work
/// across attempts, whatever happens to that folder. Without hard links, as of another file system or another user's
/// files, the one of `step` is copied.
void ResumeStore::adopt(std::int64_t step) const {
  if (folders_.size() < 2) return;
  support::make_folders(folders_.front());
  for (const CheckpointFile& found : checkpoints_in(folders_.back())) {
    if (found.step > step || damaged_.count(found.path)) continue;
    const std::filesystem::path own = folders_.front() / found.path.filename();
    std::error_code error;
    std::filesystem::create_hard_link(found.path, own, error);
    if (!error || error == std::errc::file_exists || found.step != step) continue;
    const std::filesystem::path copy = cat(own.string(), ".tmp.adopted");
    std::filesystem::copy_file(found.path, copy, std::filesystem::copy_options::overwrite_existing, error);
    if (!error) std::filesystem::rename(copy, own, error);
    if (error) {
      std::error_code ignored;
      std::filesystem::remove(copy, ignored);
      progress_.warn(cat("no copy of ", found.path.string(), " is kept: ", error.message()));
    }
  }
}

bool ResumeStore::restore(
    const artifact::CheckpointMeta& expected, std::int64_t after, std::int64_t until,
    const std::function<void(const artifact::CheckpointReader&, const std::filesystem::path* metrics)>& load) {
  for (const CheckpointFile& candidate : candidates(folders_, earlier_)) {
    if (candidate.step <= after || candidate.step > until) continue;
    try {
      const artifact::CheckpointReader checkpoint(candidate.path);
      const bool is_snapshot = !candidate.metrics.empty();
      std::string other = difference(checkpoint.meta(), expected, is_snapshot);
      if (other.empty() && checkpoint.meta().step != candidate.step) other = cat("step ", checkpoint.meta().step);
      if (!other.empty()) {
        progress_.warn(cat(candidate.path.string(), " is of another run (", other, "); passed over"));
        continue;
      }
      load(checkpoint, is_snapshot ? &candidate.metrics : nullptr);
      last_ = candidate.step;
      adopt(candidate.step);
      return true;
    } catch (const support::ArtifactError& error) {
      progress_.warn(cat("passing over a checkpoint that cannot be used: ", error.what()));
      damaged_.insert(candidate.path);
    }
  }
  return false;
}

}  // namespace pe::training

#include "training/resume.h"

#include <algorithm>

#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::training {
namespace {

using support::cat;

struct Found {
  std::int64_t step = 0;
  std::filesystem::path path;
};

/// Newest first.
std::vector<Found> checkpoints_in(const std::filesystem::path& folder) {
  std::vector<Found> found;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    if (name.rfind("step-", 0) != 0 || entry.path().extension() != ".h5") continue;
    const auto step = support::parse_integer(entry.path().stem().string().substr(5));
    if (step) found.push_back({*step, entry.path()});
  }
  std::sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.step > b.step; });
  return found;
}

/// The first thing in which a checkpoint is of another run; empty when it is of this one.
std::string difference(const artifact::CheckpointMeta& found, const artifact::CheckpointMeta& expected) {
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
  if (c != d) return unlike("schedule", c, d);
  return "";
}

}  // namespace

ResumeStore::ResumeStore(const artifact::Workspace& workspace, std::int64_t keep, support::Progress& progress)
    : folders_{workspace.work / "checkpoints"}, keep_(keep), progress_(progress) {
  if (workspace.resume && *workspace.resume != workspace.work) folders_.push_back(*workspace.resume / "checkpoints");
}

void ResumeStore::save(std::int64_t step, const std::function<void(const std::filesystem::path&)>& write) {
  support::make_folders(folders_.front());
  write(folders_.front() / cat("step-", step, ".h5"));
  const std::vector<Found> found = checkpoints_in(folders_.front());
  for (std::size_t i = static_cast<std::size_t>(keep_); i < found.size(); ++i) {
    std::error_code ignored;
    std::filesystem::remove(found[i].path, ignored);
  }
  // What killed writers left beside their final names; this attempt is the folder's only writer.
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folders_.front(), ignored)) {
    if (entry.path().filename().string().find(".h5.tmp.") != std::string::npos) std::filesystem::remove(entry.path(), ignored);
  }
}

void ResumeStore::restore(const artifact::CheckpointMeta& expected, std::int64_t after, std::int64_t until,
                          const std::function<void(const artifact::CheckpointReader&)>& load) {
  std::vector<Found> found;
  for (const auto& folder : folders_) {
    const std::vector<Found> more = checkpoints_in(folder);
    found.insert(found.end(), more.begin(), more.end());
  }
  std::stable_sort(found.begin(), found.end(), [](const Found& a, const Found& b) { return a.step > b.step; });
  for (const Found& candidate : found) {
    if (candidate.step <= after || candidate.step > until) continue;
    try {
      const artifact::CheckpointReader checkpoint(candidate.path);
      const std::string other = difference(checkpoint.meta(), expected);
      if (!other.empty()) {
        progress_.warn(cat(candidate.path.string(), " is of another run (", other, "); passed over"));
        continue;
      }
      checkpoint.verify();
      load(checkpoint);
      return;
    } catch (const support::ArtifactError& error) {
      progress_.warn(cat("passing over a checkpoint that cannot be used: ", error.what()));
    }
  }
}

}  // namespace pe::training

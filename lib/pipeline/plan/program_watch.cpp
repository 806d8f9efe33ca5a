#include "pipeline/plan/program_watch.h"

#include <algorithm>
#include <filesystem>

#include "support/error.h"
#include "support/program.h"
#include "support/text.h"

namespace pe::pipeline {

using support::cat;

namespace {

constexpr double kPatience_s = 10;  // to describe itself, while a run waits

bool stand(const std::vector<support::FileRead>& files) {
  return !files.empty() && std::all_of(files.begin(), files.end(), [](const support::FileRead& file) {
    return file.stamp.settled() && support::stamp_of(file.path.c_str()) == file.stamp;
  });
}

bool same_revisions(const StageDescription& a, const StageDescription& b) {
  return std::equal(a.revisions.begin(), a.revisions.end(), b.revisions.begin(), b.revisions.end(),
                    [](const artifact::Revision& one, const artifact::Revision& other) {
                      return one.name == other.name && one.when == other.when && one.number == other.number;
                    });
}

/// How the present program differs from `planned` in its name, version or revisions. Empty: not at all.
std::string difference(const StageDescription& planned) {
  StageCatalog catalog;
  catalog.set_patience(kPatience_s);
  const auto now = catalog.find(planned.executable, {}, {});
  if (now->name != planned.name)
    return cat("it is the stage ", support::quote(now->name), " now, planned as ", support::quote(planned.name));
  if (now->version != planned.version)
    return cat("result version ", now->version, " now, planned with ", planned.version);
  return same_revisions(*now, planned) ? "" : "other revisions now than it was planned with";
}

}  // namespace

void ProgramWatch::read(const StageDescription& stage, ProgramState& seen) {
  const std::filesystem::path executable = stage.executable;
  seen.files = program_files(stage);  // looked at before they are read
  seen.digest = support::program_digest(executable, stage.plugins, stage.code);
}

ProgramWatch::Answer ProgramWatch::look(const StageDescription& stage, bool exact) {
  if (stage.executable.empty()) return {};
  ProgramState& seen =
      seen_.try_emplace(stage.executable, ProgramState{stage.files, stage.program_digest, {}, {}}).first->second;
  std::error_code error;
  if (!std::filesystem::is_regular_file(stage.executable, error))
    return {State::kGone, cat(stage.program, ": ", support::quote(stage.executable), " is gone")};
  try {
    if (!stand(seen.files)) read(stage, seen);
    if (seen.digest == stage.program_digest) return {};
    if (exact) return {State::kOther, cat(stage.program, ": another build now (code: build)")};
    if (seen.described != seen.digest) {
      seen.other = difference(stage);
      seen.described = seen.digest;
    }
    if (seen.other.empty()) return {};
    return {State::kOther, cat(stage.program, ": ", seen.other)};
  } catch (const support::Error& problem) {
    return {State::kGone, cat(stage.program, ": ", problem.diagnostics().front().message)};
  }
}

}  // namespace pe::pipeline

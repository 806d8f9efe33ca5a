#include "pipeline/store/store.h"

#include <algorithm>

#include "artifact/workspace.h"
#include "pipeline/store/attempt.h"
#include "pipeline/store/record_cache.h"
#include "pipeline/store/stamp_memo.h"
#include "support/error.h"
#include "support/folders.h"
#include "support/text.h"

namespace pe::pipeline {

struct Store::Parts {
  Parts(const fs::path& root, StoreOptions options) : folder(root, options) {}

  StoreFolder folder;
  Objects objects{folder};
  Records records{folder, objects};
  RecordCache cache{folder, records};
};

Store::Store(const fs::path& root, StoreOptions options) : parts_(std::make_unique<Parts>(root, options)) {}
Store::~Store() = default;
Store::Store(Store&&) noexcept = default;
Store& Store::operator=(Store&&) noexcept = default;

const fs::path& Store::root() const { return parts_->folder.root(); }
bool Store::durable() const { return parts_->folder.durable(); }
std::vector<std::string> Store::take_warnings() const { return parts_->folder.take_warnings(); }

// ---- results ------------------------------------------------------------------------------------------------------

std::optional<Result> Store::find(const ResultKey& key, bool strict) const {
  const PackedResult found = find_packed(key, strict);
  return found ? std::optional(found.unpack()) : std::nullopt;
}

PackedResult Store::find_packed(const ResultKey& key, bool strict) const { return parts_->cache.find(key, strict); }
std::vector<PastTask> Store::past_tasks() const { return parts_->cache.past_tasks(); }
void Store::refresh_cache() const { parts_->cache.refresh(); }
std::optional<Record> Store::read(const ResultKey& key, bool strict) const { return parts_->records.read(key, strict); }
fs::path Store::record_path(const ResultKey& key) const { return parts_->folder.record(key); }
std::vector<ResultKey> Store::keys() const { return parts_->records.keys(); }

std::vector<std::int64_t> Store::steps(const std::string& trajectory_key) const {
  return parts_->records.steps(trajectory_key);
}

std::vector<ResultKey> Store::matching(const std::string& prefix) const {
  std::vector<ResultKey> found;
  if (prefix.size() < 4 || prefix.find_first_not_of("0123456789abcdef") != std::string::npos) return found;
  const auto begins = [&](const std::string& text) { return text.rfind(prefix, 0) == 0; };
  for (const ResultKey& key : keys()) {
    bool match = begins(key.key);
    if (!match) {
      const auto result = find(key);
      if (!result) continue;
      match = begins(result->plan_key) ||
              std::any_of(result->outputs.begin(), result->outputs.end(),
                          [&](const OutputRecord& output) { return begins(output.object) || begins(output.content); });
    }
    if (match) found.push_back(key);
  }
  return found;
}

PublishResult Store::commit(const Record& record, Standing standing) const {
  return parts_->records.place(record, standing);
}

bool Store::forget(const ResultKey& key) {
  if (!parts_->records.exists(key)) return false;
  parts_->records.drop(key);
  return true;
}

std::optional<std::string> Store::hint(const std::string& plan_key) const { return parts_->cache.hint(plan_key); }
void Store::set_hint(const std::string& plan_key, const std::string& key) { parts_->cache.set_hint(plan_key, key); }

// ---- objects ------------------------------------------------------------------------------------------------------

bool Store::complete(const Result& result, bool strict) const {
  return parts_->objects.complete(result.outputs, strict);
}
Presence Store::presence(Result& result, bool strict) const {
  return presence_of(result, [&](const Result& part) { return complete(part, strict); });
}
bool Store::has_object(const std::string& digest) const { return parts_->objects.has(digest); }
bool Store::make_young(const std::string& digest) { return parts_->objects.make_young(digest); }
fs::path Store::object_path(const std::string& digest) const { return parts_->folder.object(digest); }
bool Store::is_verified(const OutputRecord& output) const { return parts_->objects.is_verified(output); }
void Store::discard_object(const std::string& digest) { parts_->objects.discard(digest); }

OutputRecord Store::publish_output(const StageOutput& produced, const artifact::Recipe* expected) const {
  return parts_->objects.publish(produced, expected);
}

void Store::export_object(const std::string& digest, const fs::path& to) const {
  parts_->objects.export_copy(digest, to);
}

void Store::import_object(const fs::path& from, const std::string& digest) {
  parts_->objects.import_copy(from, digest);
}

std::vector<std::string> Store::damaged(const OutputRecord& output, Reread reread,
                                        const std::function<bool(std::uint64_t)>& go_on) const {
  return parts_->objects.damaged(output, reread, go_on);
}

fs::path Store::materialise(const OutputRecord& output, const fs::path& folder) const {
  return parts_->objects.materialise(output, folder);
}

fs::path Store::move_to_trash(const fs::path& path) {
  parts_->objects.forget_proofs();
  return parts_->folder.move_to_trash(path);
}

void Store::tidy_memos() const {
  parts_->objects.tidy_memo();
  StampMemo::of_inputs(root()).drop_stale();
}

// ---- attempts and runs --------------------------------------------------------------------------------------------

fs::path Store::work_folder(const std::string& plan_key) const { return root() / "work" / plan_key; }

std::vector<fs::path> Store::attempts(const std::string& plan_key) const {
  return attempts_below(work_folder(plan_key));
}

fs::path Store::new_attempt(const std::string& plan_key, int* number) {
  return make_attempt(work_folder(plan_key), number);
}

std::vector<std::string> Store::runs(ClosedRuns closed) const {
  std::vector<std::string> ids;
  for (const std::string& name : support::list_folder(runs_folder())) {
    try {
      if (support::is_there(runs_folder() / name / "plan.json")) ids.push_back(name);
    } catch (const support::IoError& error) {
      if (!is_denied(error)) throw;
      if (closed == ClosedRuns::kIncluded) ids.push_back(name);
    }
  }
  return ids;
}

}  // namespace pe::pipeline

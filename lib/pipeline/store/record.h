/// @file
/// The store's record of one result: written once, last of all, when its objects are in place. A result without a
/// record does not exist.
///
/// Two kinds of keys name a result: the task key of a task, and a point (trajectory key, step) of a training whose
/// snapshots are separate artifacts. Either is made of content digests, so equal inputs lead to the same result,
/// whichever task produced them.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "support/json.h"

namespace pe::pipeline {

struct ResultKey {
  std::string key;         ///< 64 hex digits: task key, or trajectory key with input contents
  std::int64_t step = -1;  ///< of a snapshot; -1 for a task
  auto operator<=>(const ResultKey&) const = default;
  bool is_snapshot() const { return step >= 0; }
  /// "3fa9c2d1e0b4", or "3fa9c2d1e0b4@100".
  std::string short_name() const;
};

enum class ResultStatus {
  kDone,
  kDiverged,  ///< the stage published what it had and said that training diverged; descendants inherit it
};

/// One published artifact.
struct OutputRecord {
  std::string role;
  std::string kind;         ///< "checkpoint", …; artifact/kind.h
  std::string object;       ///< file digest: the object's name; of a collection, its manifest's
  std::string content;      ///< content digest: what readers' keys are made of
  std::uint64_t bytes = 0;  ///< of the file, or of all members and the manifest
  bool collection = false;
  bool is_volatile = false;          ///< Measured quantities: outside early cutoff, conflicts and verify.
  bool absent = false;               ///< The record came without the bytes: known, and not here unless they came later.
  std::vector<std::string> members;  ///< Objects of a collection's members, without the manifest; empty for a file.
  std::vector<std::uint64_t> member_bytes;  ///< Their sizes, as many; none in a record of an earlier version.

  /// Size of the object: of a collection, of its manifest. Nothing where the record does not say it.
  std::optional<std::uint64_t> object_bytes() const;
  bool operator==(const OutputRecord&) const = default;
};

/// One artifact that was read. `digest` is empty when the producer failed and the reader allows partial input.
struct InputRecord {
  std::string role;
  std::string digest;                         ///< content digest
  std::string producer;                       ///< id of the producing task, "trunk[seed=42]@b25"
  std::map<std::string, std::string> labels;  ///< axis → label, and "stage"
  std::string missing;                        ///< why it is absent
};

struct Record {
  ResultKey key;
  std::string plan_key;
  std::string stage;  ///< kind of the stage: "train"
  int version = 0;    ///< its result version
  std::string task;   ///< id of the task that made it, for people
  ResultStatus status = ResultStatus::kDone;
  std::vector<OutputRecord> outputs;
  std::vector<InputRecord> inputs;
  Json preimage;                   ///< the document that the key is the hash of
  Json config;                     ///< complete
  Json occasion = Json::object();  ///< host, times, attempts, wall seconds, build id, run id, paths: in no key

  /// Null when the role was not produced.
  const OutputRecord* output(std::string_view role) const;
};

/// Index entry of a record: enough to reuse the result without opening the record.
struct Result {
  ResultStatus status = ResultStatus::kDone;
  std::string plan_key;
  double wall_s = 0;  ///< how long making it took; orders later runs
  std::vector<OutputRecord> outputs;
  const OutputRecord* output(std::string_view role) const;
};

std::string_view status_name(ResultStatus status);  ///< "done", "diverged"

/// How much of a result is in the store.
enum class Presence {
  kHere,   ///< every object
  kKnown,  ///< its contents are known, and the bytes of some outputs never came (OutputRecord::absent)
  kGone,   ///< an object is missing that was here
};

/// Asks `complete(result)` whether all objects of a result are there. Outputs that are here lose their mark `absent`.
template <typename Complete>
Presence presence_of(Result& result, const Complete& complete) {
  const auto is_here = [&](const OutputRecord& output) {
    Result one;
    one.outputs = {output};
    return complete(one);
  };
  const bool whole = complete(result);
  bool known = false;
  for (OutputRecord& output : result.outputs) {
    if (!output.absent) {
      if (!whole && !is_here(output)) return Presence::kGone;
      continue;
    }
    output.absent = !whole && !is_here(output);
    known = known || output.absent;
  }
  return whole || !known ? Presence::kHere : Presence::kKnown;
}

/// Whether an output that `known` came without is among `outputs` with its bytes.
bool brings_more(const std::vector<OutputRecord>& known, const std::vector<OutputRecord>& outputs);

/// "checkpoint 'model'", or "'model', 'metrics'": the outputs that are not here. Empty when all are.
std::string absent_outputs(const Result& result);

Result to_result(const Record& record);

/// A record as its file has it. Its "check" is the CRC-32C of the rest, so that a record with a flipped bit is no
/// record.
Json to_json(const Record& record);
std::string record_text(const Record& record);
/// @throws ArtifactError naming `where` and the mistake
Record record_from_text(std::string_view text, const std::string& where);

/// Where a result was made, and by which file it came here: "made by run R on host H; imported from F on D". Empty when
/// the record says neither.
std::string origin_of(const Record& record);

/// Entry in a reader's key for an output that a diverged result lacks.
std::string diverged_digest(const ResultKey& key);

/// True when both name the same contents: roles and content digests of the outputs that are not volatile.
bool same_contents(const Record& a, const Record& b);

}  // namespace pe::pipeline

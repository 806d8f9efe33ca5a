/// @file
/// An earlier result, as plans, explanations and estimates see it. In the cache of records (record_cache.h) a row of
/// bytes holds it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "pipeline/store/packed_result.h"
#include "pipeline/store/record.h"

namespace pe::pipeline {

/// An earlier result, for explanations and estimates. The parts of the document that its key is the hash of are
/// deterministic CBOR, so that equal bytes are equal values and most need no decoding.
struct PastTask {
  ResultKey key;
  std::string_view stage;     ///< StageDescription::name
  std::string_view id;        ///< instance id it had
  std::string_view ended;     ///< UTC text that sorts: newer is greater
  std::string_view run;       ///< id of the run that made it
  std::string_view pipeline;  ///< name of the pipeline that asked for it
  int version = 0;
  std::string_view build;
  std::string_view config, externals, inputs;
  double wall_s = 0;
  double expected_s = 0;  ///< Estimate before it ran; 0: none.
  std::int64_t gpus = 0;
  std::string_view device;            ///< Its device, where its stage reports one; empty: not known.
  std::string_view encoding;          ///< Of its model (cost.h).
  double parameters = 0, flops = 0;   ///< Of its model too; 0: not known.
  double tokens = 0;                  ///< Tokens that it trained on; 0: not known.
  std::uint64_t bytes = 0;            ///< Of its outputs.
  std::shared_ptr<const void> owner;  ///< Of the texts.
};

/// Makes one from a document of a record; `id` and `ended` as in PastTask.
PastTask make_past_task(const ResultKey& key, const std::string& stage, const std::string& id, const std::string& ended,
                        const Json& preimage);

/// A checksum, the record's result and its past task.
std::string row_of(const Record& record);
/// None when the row is damaged.
PackedResult result_in(std::string_view row);
/// Its texts look into the row. Empty when the row is damaged, or its record has no preimage.
std::optional<PastTask> past_task_in(const ResultKey& key, std::string_view row);

}  // namespace pe::pipeline

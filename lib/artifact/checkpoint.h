/// @file
/// A model with the state that training resumes from (kind `checkpoint`): named tensors as raw bytes, and metadata. No
/// LibTorch here; the model and training folders turn tensors into spans and back (doc/format-checkpoint.md).
///
/// A tensor's name is its path in the file: "model/embedding", "optim/m/embedding". Each is contiguous, aligned, and
/// carries a CRC-32C that is checked whenever it is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/document_sample.h"
#include "artifact/h5.h"
#include "artifact/workspace.h"

namespace pe::artifact {

enum class Dtype { kF32, kF64, kBF16, kF16, kI64, kI32, kU8 };  ///< stored in the file: bf16 and f16 as uint16
std::string_view dtype_name(Dtype dtype);                       ///< "f32", "f64", "bf16", "f16", "i64", "i32", "u8"
std::optional<Dtype> find_dtype(std::string_view name);
std::size_t dtype_bytes(Dtype dtype);

struct TensorInfo {
  std::string name;
  Dtype dtype = Dtype::kF32;
  std::vector<std::int64_t> shape;  ///< empty for a scalar
  std::uint64_t bytes() const;
};

enum class TrainingStatus { kOk, kDiverged };

/// Metadata for consumers of the model; all of it is content, except `fingerprint`, which snapshots leave empty.
struct CheckpointMeta {
  TrainingStatus status = TrainingStatus::kOk;
  std::int64_t step = 0;  ///< optimizer steps done
  std::int64_t tokens_seen = 0;
  std::int64_t next_sample = 0;       ///< The data position: number of the next sample in the keyed order.
  std::string tokenizer_digest;       ///< of the token shards it was trained on (data/token_shards/token_dataset.h)
  std::string data_digest;            ///< Content digest of those token shards.
  std::string split_rule;             ///< Rule of their split; empty where the data has no such record.
  DocumentSample trained_on;          ///< Sample of the documents that it and its parents were trained on.
  std::vector<std::string> parents;   ///< Content digests of the checkpoints it descends from, oldest first.
  Json model = Json::object();        ///< Model config, complete.
  Json encoding = Json::object();     ///< encoding config, canonical
  Json optimizer = Json::object();    ///< optimizer settings and scalars
  Json data = Json::object();         ///< Window length, batch, seed and all else that fixes the order.
  Json extra = Json::object();        ///< Entries of the stage: branch record, schedule.
  Json fingerprint = Json::object();  ///< library versions, device; in rotating checkpoints only
};

/// Writes tensor by tensor to a temporary file; `finish` syncs and renames. Without `finish` no file remains.
class CheckpointWriter {
 public:
  CheckpointWriter(std::filesystem::path path, const Recipe& recipe, const CheckpointMeta& meta);
  ~CheckpointWriter();
  CheckpointWriter(const CheckpointWriter&) = delete;
  /// `data` is row-major and holds exactly info.bytes(). Each name once; none may begin with "pe/" or "meta/".
  void add(const TensorInfo& info, std::span<const std::byte> data);
  void finish(bool durable = true);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class CheckpointReader {
 public:
  /// Reads header, metadata and the list of tensors. @throws ArtifactError
  explicit CheckpointReader(const std::filesystem::path& path);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&&) noexcept;
  const std::filesystem::path& path() const;
  const CheckpointMeta& meta() const;
  const std::vector<TensorInfo>& tensors() const;  ///< sorted by name
  const TensorInfo* find(std::string_view name) const;
  /// @throws ArtifactError when it is missing (naming the nearest), of another size, or its CRC does not fit.
  void read(std::string_view name, std::span<std::byte> out) const;
  /// As above, checking dtype and shape first; names expected and found.
  void read(const TensorInfo& expected, std::span<std::byte> out) const;
  std::vector<std::byte> read(std::string_view name) const;
  /// As above without the bytes: is it there, of this dtype and shape?
  void require(const TensorInfo& expected) const;

  struct Destination {
    TensorInfo expected;
    std::span<std::byte> out;  ///< expected.bytes()
  };
  /// Many, shared among threads. When some are damaged, the first of them is named; the contents of `out` are then
  /// undefined.
  void read(std::span<const Destination> destinations, int threads) const;
  /// Checks the CRC of every tensor that this reader has not read yet, so that after it the whole file was checked.
  void verify(int threads = 1) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pe::artifact

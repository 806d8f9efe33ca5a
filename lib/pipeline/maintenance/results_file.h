/// @file
/// A packed file of results: records, and the bytes of evaluation tables and metrics, without checkpoints. It is a tar
/// archive in one zstd frame, so `tar --zstd -tvf FILE` lists it. Its members have these names and this order:
///
///     results.json                    pe-results/1: every member below with its SHA-256 and size
///     pipeline.yml                    the pipeline file; may be missing
///     records/<key>.json              records of tasks; records/<key>-<step>.json of snapshots
///     objects/<sha256>                the bytes of outputs that travel
///
/// The same results give the same bytes: they do not depend on the time or place of writing.
///
/// A reader believes nothing. It bounds sizes before it reads, compares names with the list, hashes every byte, and
/// asks for the checksum and the end of the frame.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipeline/maintenance/inventory.h"
#include "pipeline/store/record.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

inline constexpr const char* kResultsEnding = ".tar.zst";

// ---- the archive --------------------------------------------------------------------------------------------------

/// Writes an archive under a temporary name. `close` gives it its final name; without that call no file remains.
class ArchiveWriter {
 public:
  /// @throws IoError
  explicit ArchiveWriter(const std::filesystem::path& path);
  ~ArchiveWriter();
  ArchiveWriter(const ArchiveWriter&) = delete;
  ArchiveWriter& operator=(const ArchiveWriter&) = delete;

  /// `name` has at most 100 bytes.
  void add(const std::string& name, std::string_view bytes);
  /// The bytes of an object. @throws ArtifactError when their digest is another
  void add_object(const std::string& name, const std::filesystem::path& path, const std::string& digest,
                  std::uint64_t bytes);
  /// Size of the file. @throws IoError
  std::uint64_t close(bool durable);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// Reads the members of an archive one after the other.
class ArchiveReader {
 public:
  struct Member {
    std::string name;
    std::uint64_t bytes = 0;
  };
  static constexpr std::uint64_t kMostText = 256u << 20;   ///< bytes of a member that is read into memory
  static constexpr std::uint64_t kMostBytes = 2ull << 30;  ///< bytes of all members

  /// @throws IoError when it cannot be read or is no regular file
  explicit ArchiveReader(const std::filesystem::path& path);
  ~ArchiveReader();
  ArchiveReader(const ArchiveReader&) = delete;
  ArchiveReader& operator=(const ArchiveReader&) = delete;

  /// The next member; nothing after the last. The bytes of the one before must have been taken.
  /// @throws ArtifactError when the file is cut short, damaged, no such archive, or longer than it may be
  std::optional<Member> next();
  /// The bytes of the member that `next` gave last.
  std::string text();
  void each_block(const std::function<void(std::string_view)>& take);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// ---- packing and unpacking -----------------------------------------------------------------------------------------

/// Whether bytes of a kind of artifact are packed. Others are known in the file by their digests.
bool travels(std::string_view kind);

struct PackOptions {
  std::string made_by;        ///< name and version of the program
  std::string pipeline;       ///< name of the pipeline, or empty
  std::string pipeline_text;  ///< its file, or empty
  std::filesystem::path root;  ///< paths of input files below it become relative to it
  bool durable = true;
};

struct PackReport {
  std::size_t results = 0;  ///< records
  std::size_t known = 0;    ///< of them, results without some of their bytes
  std::size_t objects = 0;
  std::uint64_t bytes = 0;  ///< of the file
};

/// Packs results with everything behind them. Paths of this machine are left out of their records: an input file has
/// its path below the root, or its name alone.
/// @throws ArtifactError when an object is gone or damaged; IoError. Then no file is written, and one that was there
/// stays
PackReport pack_results(const Store& from, const Inventory& inventory, const std::vector<std::size_t>& chosen,
                        const std::filesystem::path& file, const PackOptions& options);

struct UnpackReport {
  std::string pipeline, pipeline_text;
  std::vector<ResultKey> keys;  ///< in order
};

/// Unpacks a file into an empty store and checks all of it: keys against recipes, bytes against digests, artifacts
/// against records.
/// @throws ArtifactError that names the file and the mistake; IoError
UnpackReport unpack_results(const std::filesystem::path& file, Store& into);

}  // namespace pe::pipeline

/// @file
/// Where documents come from. One source is one file behind this interface; `pe-fetch` drives it and writes raw text.
/// Fetching from a hub will be a further source (with `make_hub_source`, and files that it brings read by `LocalFiles`).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "support/progress.h"

namespace pe::data {

class DocumentSource {
 public:
  enum class Outcome {
    kDocument,   ///< `item` holds one
    kBad,        ///< a line or row that is no document: `item.problem` says where and why; reading can go on
    kNull,       ///< a row whose text is null
    kEnd,
  };
  struct Item {
    std::string text;
    std::string source;        ///< name relative to what was asked for, with '/'
    std::uint64_t row = 0;     ///< within the source, from 0
    std::string problem;       ///< "file:line: why"
  };
  virtual ~DocumentSource() = default;
  /// @throws ArtifactError when a file is damaged.
  virtual Outcome next(Item& item) = 0;
  /// How far it is, for progress: done and total in units of its own.
  virtual std::int64_t done() const = 0;
  virtual std::int64_t total() const = 0;
  virtual std::string unit() const = 0;
};

struct TextOptions {
  std::string separator;             ///< a line that parts documents; empty: none
  std::int64_t document_bytes = 0;   ///< cut at blank lines into documents of at most this; 0: not
  std::string column = "text";       ///< key or column of .jsonl and .parquet
};

/// Files, folders and globs. What the folders hold besides known extensions goes to `progress` as notes.
/// @throws ConfigError when a path names nothing, or nothing of a known extension.
std::unique_ptr<DocumentSource> make_local_source(const std::vector<std::string>& paths, const TextOptions& options,
                                                  support::Progress& progress);

/// The files that paths stand for, in order.
struct LocalFile {
  std::filesystem::path path;
  std::string name;   ///< relative to the folder or glob root
};
struct LocalFiles {
  std::vector<LocalFile> files;
  std::vector<std::string> notes;   ///< "folder 'x': 12 files of other kinds were left out (.png 10, none 2)"
};
LocalFiles find_local_files(const std::vector<std::string>& paths);

struct StoryOptions {
  std::int64_t seed = 1;
  std::int64_t words = 1'000'000;    ///< the supply ends with the story that reaches it
  std::int64_t min_words = 50;
  std::int64_t max_words = 20'000;
};
std::unique_ptr<DocumentSource> make_story_source(const StoryOptions& options);

}  // namespace pe::data

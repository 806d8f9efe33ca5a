/// @file
/// Where documents come from. One source is one file behind this interface; `pe-fetch` drives it and writes raw text.
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
    kDocument,  ///< `item` holds one.
    kBad,       ///< A line or row: no document or too long (`item.problem`: where and why). Reading can continue.
    kFiltered,  ///< A row that a filter leaves out.
    kNull,      ///< A row whose text is null.
    kEnd,
  };
  struct Item {
    std::string text;
    std::string source;     ///< name relative to the given path, with '/'
    std::uint64_t row = 0;  ///< within the source, from 0
    std::string problem;    ///< "file:line: why", fit to be shown
  };
  virtual ~DocumentSource() = default;
  /// @throws ArtifactError when a file is damaged.
  virtual Outcome next(Item& item) = 0;
  /// Progress: done and total in the source's own units.
  virtual std::int64_t done() const = 0;
  virtual std::int64_t total() const = 0;
  virtual std::string unit() const = 0;
};

struct TextOptions {
  std::string separator;                     ///< a line that parts documents; empty: none
  std::int64_t document_bytes = 0;           ///< cut at blank lines into documents of at most this; 0: not
  bool lines = false;                        ///< every line of a .txt is a document
  std::string column = "text";               ///< key or column of .jsonl and .parquet
  std::vector<std::string> filter;           ///< data/sources/row_filter.h
  std::int64_t longest_document = 32 << 20;  ///< bytes; a longer one is bad
  bool any_bytes = false;                    ///< also texts of .jsonl may be no UTF-8
};

struct LocalFile {
  std::filesystem::path path;
  std::string name;  ///< relative to the folder or glob root, or as the hub has it; its ending says of which kind it is
};

/// Checks names as `make_file_source` does, before the files are there. @throws ConfigError
void check_kinds(const std::vector<LocalFile>& files, const TextOptions& options);

/// The documents of the files, in order. @throws ConfigError when a filter is none, or a file of an unknown kind.
std::unique_ptr<DocumentSource> make_file_source(std::vector<LocalFile> files, const TextOptions& options);

/// Files, folders and globs with the known extensions, by support/file_listing.h. Other files in the folders go to
/// `progress` as notes. Files of one name get the folders by which they differ into their names.
/// @throws ConfigError when a path names nothing, or nothing of a known extension, or a filter is none.
std::unique_ptr<DocumentSource> make_local_source(const std::vector<std::string>& paths, const TextOptions& options,
                                                  support::Progress& progress);

/// The files that paths stand for, in order.
struct LocalFiles {
  std::vector<LocalFile> files;
  std::vector<std::string> notes;  ///< "folder 'x': 12 files of other kinds were left out (.png 10, none 2)"
};
LocalFiles find_local_files(const std::vector<std::string>& paths);

struct StoryOptions {
  std::int64_t seed = 1;
  std::int64_t words = 1'000'000;  ///< the supply ends with the story that reaches it
  std::int64_t min_words = 50;
  std::int64_t max_words = 20'000;
};
std::unique_ptr<DocumentSource> make_story_source(const StoryOptions& options);

}  // namespace pe::data

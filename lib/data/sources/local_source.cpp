#include <algorithm>
#include <map>
#include <set>

#include "data/sources/document_source.h"
#include "data/sources/file_reader.h"
#include "support/error.h"
#include "support/escaped.h"
#include "support/file_listing.h"
#include "support/text.h"

namespace pe::data {

namespace fs = std::filesystem;
using support::cat;
using support::ConfigError;
using support::quote;

namespace {

/// "folder 'x': 3 files of other kinds were left out (.png 2, no extension 1)".
std::string left_out_note(const std::string& where, const std::map<std::string, int>& others) {
  int count = 0;
  std::vector<std::string> parts;
  for (const auto& [extension, number] : others) {
    count += number;
    if (parts.size() < 8)
      parts.push_back(cat(extension.empty() ? "no extension" : support::escaped(extension, 40), " ", number));
  }
  if (others.size() > parts.size()) parts.push_back("…");
  return cat(where, ": ", count, count == 1 ? " file" : " files", " of other kinds ", count == 1 ? "was" : "were",
             " left out (", support::join(parts, ", "), ")");
}

class FileSearch {
 public:
  LocalFiles result;

  void add(const std::string& asked) {
    if (asked.empty()) throw ConfigError("a path is empty");
    const support::ListedFiles listed = support::list_files({asked});
    std::error_code error;
    if (!listed.missing.empty()) {
      if (asked.find_first_of("*?[") != std::string::npos) throw ConfigError(cat(quote(asked), ": nothing matches"));
      throw ConfigError(
          cat(quote(asked), ": there is no such file or folder"), {},
          fs::path(asked).is_absolute() ? "" : cat("it was looked for in ", quote(fs::current_path().string())));
    }
    const bool folder = fs::is_directory(asked, error);
    std::map<std::string, int> others;
    std::size_t taken = 0;
    for (const auto& [name, path] : listed.files) {
      if (recognise(path)) {
        file(path, support::replace_invalid_utf8(name));
        ++taken;
      } else {
        ++others[path.extension().string()];
      }
    }
    if (taken == 0 && !folder && fs::exists(asked, error)) {
      throw ConfigError(cat(quote(asked), ": unknown kind of file"), {}, cat("known are ", kKnownFiles));
    }
    const std::string where = cat(folder ? "folder " : "", quote(asked));
    if (!others.empty()) result.notes.push_back(left_out_note(where, others));
    if (taken == 0)
      throw ConfigError(cat(where, " holds no text that can be read"), {}, cat("known are ", kKnownFiles));
  }

 private:
  void file(const fs::path& path, std::string name) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (!seen_.insert(error ? path : real).second) return;  // named twice
    result.files.push_back({path, std::move(name)});
  }

  std::set<fs::path> seen_;
};

class LocalSource : public DocumentSource {
 public:
  LocalSource(std::vector<LocalFile> files, const TextOptions& options, RowFilter filter)
      : files_(std::move(files)), options_(options), filter_(std::move(filter)) {}

  Outcome next(Item& item) override {
    while (true) {
      if (!reader_) {
        if (at_ >= files_.size()) return Outcome::kEnd;
        reader_ = open_reader(files_[at_].path, files_[at_].name, options_, filter_);
      }
      item.source = files_[at_].name;
      const Outcome outcome = reader_->next(item);
      if (outcome != Outcome::kEnd) return outcome;
      reader_.reset();
      ++at_;
    }
  }
  std::int64_t done() const override { return static_cast<std::int64_t>(at_); }
  std::int64_t total() const override { return static_cast<std::int64_t>(files_.size()); }
  std::string unit() const override { return "files"; }

 private:
  std::vector<LocalFile> files_;
  TextOptions options_;
  RowFilter filter_;
  std::unique_ptr<FileReader> reader_;
  std::size_t at_ = 0;
};

}  // namespace

LocalFiles find_local_files(const std::vector<std::string>& paths) {
  FileSearch search;
  for (const std::string& path : paths) search.add(path);
  return std::move(search.result);
}

std::unique_ptr<DocumentSource> make_file_source(std::vector<LocalFile> files, const TextOptions& options) {
  return std::make_unique<LocalSource>(std::move(files), options, RowFilter(options.filter));
}

std::unique_ptr<DocumentSource> make_local_source(const std::vector<std::string>& paths, const TextOptions& options,
                                                  support::Progress& progress) {
  LocalFiles found = find_local_files(paths);
  for (const std::string& note : found.notes) progress.note(note);
  return make_file_source(std::move(found.files), options);
}

}  // namespace pe::data

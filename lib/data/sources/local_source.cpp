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

/// The folders that all paths begin with.
fs::path common_folder(const std::vector<fs::path>& paths) {
  fs::path common = paths.front().parent_path();
  for (const fs::path& path : paths) {
    const auto end = std::mismatch(common.begin(), common.end(), path.begin(), path.end()).first;
    fs::path shorter;
    for (auto part = common.begin(); part != end; ++part) shorter /= *part;
    common = shorter;
  }
  return common;
}

/// Two paths that were asked for may hold files of one name. Those get the folders by which they differ into their
/// names, since a document is known by the name of its file and its row.
void tell_apart(std::vector<LocalFile>& files) {
  std::map<std::string, std::vector<LocalFile*>> named;
  for (LocalFile& file : files) named[file.name].push_back(&file);
  for (const auto& [name, same] : named) {
    if (same.size() == 1) continue;
    std::vector<fs::path> paths;
    for (const LocalFile* file : same) paths.push_back(fs::absolute(file->path).lexically_normal());
    const fs::path common = common_folder(paths);
    for (std::size_t i = 0; i < same.size(); ++i) {
      const std::string path = paths[i].lexically_relative(common).generic_string();
      const bool valid = support::find_invalid_utf8(path) == std::string_view::npos;
      same[i]->name = valid ? path : support::escaped(path);
    }
  }
  std::map<std::string, const LocalFile*> known;
  for (const LocalFile& file : files) {
    const auto [other, is_new] = known.emplace(file.name, &file);
    if (is_new) continue;
    throw ConfigError(
        cat(quote(support::escaped(other->second->path.string())), " and ", quote(support::escaped(file.path.string())),
            " would both be named ", quote(support::escaped(file.name)), " in the raw text"),
        {}, "rename one of them");
  }
}

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
        file(path, name);
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
  void file(const fs::path& path, const std::string& name) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (!seen_.insert(error ? path : real).second) return;  // named twice
    result.files.push_back({path, support::replace_invalid_utf8(name)});
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
        reader_ = open_reader(files_[at_], options_, filter_);
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
  tell_apart(search.result.files);
  return std::move(search.result);
}

void check_kinds(const std::vector<LocalFile>& files, const TextOptions& options) {
  const RowFilter filter(options.filter);
  for (const LocalFile& file : files) require_kind(file, filter);
}

std::unique_ptr<DocumentSource> make_file_source(std::vector<LocalFile> files, const TextOptions& options) {
  check_kinds(files, options);
  return std::make_unique<LocalSource>(std::move(files), options, RowFilter(options.filter));
}

std::unique_ptr<DocumentSource> make_local_source(const std::vector<std::string>& paths, const TextOptions& options,
                                                  support::Progress& progress) {
  LocalFiles found = find_local_files(paths);
  for (const std::string& note : found.notes) progress.note(note);
  return make_file_source(std::move(found.files), options);
}

}  // namespace pe::data

#include <glob.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "artifact/raw_text.h"
#include "data/byte_stream.h"
#include "data/document_source.h"
#include "data/parquet_text.h"
#include "support/error.h"
#include "support/json.h"
#include "support/text.h"

namespace pe::data {

namespace fs = std::filesystem;
using support::cat;
using support::ConfigError;
using support::quote;

namespace {

constexpr std::size_t kLongestDocument = artifact::kRawTextMemberBytes;
constexpr std::string_view kKnown = ".txt, .jsonl (both plain, .gz or .zst), .parquet";

enum class Format { kText, kJsonLines, kParquet };
struct Recognised {
  Format format;
  Compression compression;
};

std::optional<Recognised> recognise(const fs::path& path) {
  std::string name = path.filename().string();
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return c < 128 ? std::tolower(c) : c; });
  const auto ends = [&](std::string_view tail) { return name.size() > tail.size() && std::string_view(name).ends_with(tail); };
  for (const auto& [tail, compression] : {std::pair{".gz", Compression::kGzip}, std::pair{".zst", Compression::kZstd}, std::pair{"", Compression::kNone}}) {
    if (ends(cat(".txt", tail))) return Recognised{Format::kText, compression};
    if (ends(cat(".jsonl", tail))) return Recognised{Format::kJsonLines, compression};
  }
  if (ends(".parquet")) return Recognised{Format::kParquet, Compression::kNone};
  return std::nullopt;
}

std::string utf8_name(const fs::path& name) { return support::replace_invalid_utf8(name.generic_string()); }

/// "folder 'x': 3 files of other kinds were left out (.png 2, no extension 1)".
std::string left_out_note(const std::string& where, const std::map<std::string, int>& others) {
  int count = 0;
  std::vector<std::string> parts;
  for (const auto& [extension, number] : others) {
    count += number;
    if (parts.size() < 8) parts.push_back(cat(extension.empty() ? "no extension" : extension, " ", number));
  }
  if (others.size() > parts.size()) parts.push_back("…");
  return cat(where, ": ", count, count == 1 ? " file" : " files", " of other kinds ", count == 1 ? "was" : "were",
             " left out (", support::join(parts, ", "), ")");
}

class FileSearch {
 public:
  LocalFiles result;

  void add(const std::string& asked) {
    std::error_code error;
    const fs::path path(asked);
    if (asked.empty()) throw ConfigError("a path is empty");
    // A name that exists is that name, even if it holds '*' or '['.
    if (fs::is_directory(path, error)) {
      folder(path);
    } else if (fs::exists(path, error)) {
      if (!recognise(path)) throw ConfigError(cat(quote(asked), ": unknown kind of file"), {}, cat("known are ", kKnown));
      file(path, utf8_name(path.filename()));
    } else if (asked.find_first_of("*?[") != std::string::npos) {
      glob_pattern(asked);
    } else {
      throw ConfigError(cat(quote(asked), ": there is no such file or folder"), {},
                        path.is_absolute() ? "" : cat("it was looked for in ", quote(fs::current_path().string())));
    }
  }

 private:
  void file(const fs::path& path, std::string name) {
    std::error_code error;
    const fs::path real = fs::canonical(path, error);
    if (!seen_.insert(error ? path : real).second) return;   // named twice
    result.files.push_back({path, std::move(name)});
  }

  void folder(const fs::path& root) {
    std::vector<fs::path> found;
    std::map<std::string, int> others;
    std::error_code error;
    fs::recursive_directory_iterator walk(root, error);
    if (error) throw support::IoError(cat("cannot read folder ", quote(root.string()), ": ", error.message()));
    for (const fs::recursive_directory_iterator end; walk != end; walk.increment(error)) {
      if (error) throw support::IoError(cat("cannot read folder ", quote(root.string()), ": ", error.message()));
      if (walk->path().filename().string().starts_with(".")) {
        if (walk->is_directory(error)) walk.disable_recursion_pending();
        continue;
      }
      if (!walk->is_regular_file(error)) continue;
      if (recognise(walk->path())) {
        found.push_back(walk->path());
      } else {
        ++others[utf8_name(walk->path().extension())];
      }
    }
    sort(found);
    if (!others.empty()) result.notes.push_back(left_out_note(cat("folder ", quote(root.string())), others));
    if (found.empty()) {
      throw ConfigError(cat("folder ", quote(root.string()), " holds no text that can be read"), {}, cat("known are ", kKnown));
    }
    for (const fs::path& path : found) file(path, utf8_name(path.lexically_relative(root)));
  }

  void glob_pattern(const std::string& pattern) {
    ::glob_t matches{};
    const int status = ::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &matches);
    std::vector<fs::path> found(matches.gl_pathv, matches.gl_pathv + (status == 0 ? matches.gl_pathc : 0));
    ::globfree(&matches);
    if (status == GLOB_NOMATCH) throw ConfigError(cat(quote(pattern), ": nothing matches"));
    if (status != 0) throw support::IoError(cat("cannot read what ", quote(pattern), " matches"));
    sort(found);
    fs::path root = fs::path(pattern.substr(0, pattern.find_first_of("*?["))).parent_path();
    std::map<std::string, int> others;
    std::size_t taken = 0;
    for (const fs::path& path : found) {
      if (fs::is_directory(path)) {
        folder(path);
        ++taken;
      } else if (recognise(path)) {
        file(path, utf8_name(root.empty() ? path : path.lexically_relative(root)));
        ++taken;
      } else {
        ++others[utf8_name(path.extension())];
      }
    }
    if (!others.empty()) result.notes.push_back(left_out_note(quote(pattern), others));
    if (taken == 0) throw ConfigError(cat(quote(pattern), " matches no text that can be read"), {}, cat("known are ", kKnown));
  }

  /// By bytes, so that the order is the same everywhere.
  static void sort(std::vector<fs::path>& paths) {
    std::sort(paths.begin(), paths.end(), [](const fs::path& a, const fs::path& b) { return a.native() < b.native(); });
  }

  std::set<fs::path> seen_;
};

/// The documents of one file.
class FileReader {
 public:
  using Outcome = DocumentSource::Outcome;
  using Item = DocumentSource::Item;
  virtual ~FileReader() = default;
  virtual Outcome next(Item& item) = 0;
};

[[noreturn]] void too_long(const fs::path& path, const char* what, std::uint64_t line) {
  throw support::ArtifactError(cat(path.string(), ":", line, ": ", what, " is longer than ",
                                   support::short_bytes(static_cast<double>(kLongestDocument))),
                               "cut it with text.separator or text.document_bytes");
}

/// A text file: one document, or several parted by a separator line or cut at blank lines.
class TextFile : public FileReader {
 public:
  TextFile(const fs::path& path, Compression compression, const TextOptions& options)
      : path_(path), options_(options), lines_(open_stream(path, compression)) {}

  Outcome next(Item& item) override {
    std::string line;
    bool complete = true;
    while (!ended_) {
      if (!lines_.next(line, kLongestDocument, complete)) {
        ended_ = true;
        break;
      }
      ++line_number_;
      if (!options_.separator.empty() && content_of(line) == options_.separator) {
        if (cut_end()) return emit(item, text_.size());
        continue;
      }
      const bool blank = support::trim(line).empty();
      if (after_blank_ && !blank) break_at_ = text_.size();
      after_blank_ = blank;
      if (text_.size() + line.size() > kLongestDocument) too_long(path_, "a document", line_number_);
      text_ += line;
      const auto limit = static_cast<std::size_t>(options_.document_bytes);
      if (limit > 0 && text_.size() > limit && break_at_ > 0) return emit(item, break_at_);
    }
    if (text_.empty()) return Outcome::kEnd;
    // What is left may still be two documents: a cut before the last paragraph, and that paragraph.
    const auto limit = static_cast<std::size_t>(options_.document_bytes);
    if (limit > 0 && text_.size() > limit && break_at_ > 0) return emit(item, break_at_);
    return emit(item, text_.size());
  }

 private:
  static std::string_view content_of(std::string_view line) {
    if (line.ends_with('\n')) line.remove_suffix(1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    return line;
  }

  /// At a separator: the line end before it belongs to neither document. False when nothing is left.
  bool cut_end() {
    text_.resize(content_of(text_).size());
    break_at_ = 0;
    after_blank_ = false;
    return !text_.empty();
  }

  Outcome emit(Item& item, std::size_t bytes) {
    item.text.assign(text_, 0, bytes);
    item.row = row_++;
    text_.erase(0, bytes);
    break_at_ = 0;
    return Outcome::kDocument;
  }

  fs::path path_;
  TextOptions options_;
  LineReader lines_;
  std::string text_;            // read and not yet given out
  std::size_t break_at_ = 0;    // where the newest paragraph of text_ begins, if it may be cut there
  bool after_blank_ = false;
  bool ended_ = false;
  std::uint64_t row_ = 0, line_number_ = 0;
};

/// JSON lines: an object a line, its text under one key.
class JsonLinesFile : public FileReader {
 public:
  JsonLinesFile(const fs::path& path, Compression compression, const TextOptions& options)
      : path_(path), options_(options), lines_(open_stream(path, compression)) {}

  Outcome next(Item& item) override {
    bool complete = true;
    while (lines_.next(line_, kLongestDocument, complete)) {
      ++line_number_;
      item.row = line_number_ - 1;
      if (!complete) too_long(path_, "a line", line_number_);
      if (support::trim(line_).empty()) continue;
      std::string why;
      std::size_t column = 0;
      try {
        const Json json = Json::parse(line_);
        const auto found = json.is_object() ? json.find(options_.column) : json.end();
        if (!json.is_object()) {
          why = cat("expected a JSON object, found ", json.type_name());
        } else if (found == json.end()) {
          why = cat("the object has no key ", quote(options_.column));
        } else if (found->is_null()) {
          return Outcome::kNull;
        } else if (!found->is_string()) {
          why = cat("key ", quote(options_.column), ": expected text, found ", found->type_name());
        } else {
          item.text = found->get_ref<const std::string&>();
          return Outcome::kDocument;
        }
      } catch (const Json::parse_error& error) {
        why = reason(error.what());
        column = error.byte;
      }
      item.problem = cat(path_.string(), ":", line_number_, column > 0 ? cat(":", column) : "", ": ", why);
      return Outcome::kBad;
    }
    return Outcome::kEnd;
  }

 private:
  /// Without the library's own prefix and position.
  static std::string reason(std::string text) {
    const std::size_t at = text.find(": ");
    if (text.starts_with("[json") && at != std::string::npos) text = text.substr(at + 2);
    if (text.starts_with("syntax error")) text = "no valid JSON" + text.substr(text.find(" - ") == std::string::npos ? 12 : text.find(" - "));
    // The last token read may be as long as the line, and hold bytes that are no UTF-8.
    text = support::replace_invalid_utf8(text);
    if (text.size() > 200) {
      std::size_t end = 200;
      while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
      text = text.substr(0, end) + "…";
    }
    return text;
  }

  fs::path path_;
  TextOptions options_;
  LineReader lines_;
  std::string line_;
  std::uint64_t line_number_ = 0;
};

class ParquetFile : public FileReader {
 public:
  ParquetFile(const fs::path& path, const TextOptions& options) : rows_(path, options.column) {}

  Outcome next(Item& item) override {
    std::optional<std::string_view> text;
    if (!rows_.next(text)) return Outcome::kEnd;
    item.row = row_++;
    if (!text) return Outcome::kNull;
    item.text = *text;
    return Outcome::kDocument;
  }

 private:
  ParquetText rows_;
  std::uint64_t row_ = 0;
};

class LocalSource : public DocumentSource {
 public:
  LocalSource(LocalFiles files, const TextOptions& options) : files_(std::move(files.files)), options_(options) {}

  Outcome next(Item& item) override {
    while (true) {
      if (!reader_) {
        if (at_ >= files_.size()) return Outcome::kEnd;
        const fs::path& path = files_[at_].path;
        const auto kind = recognise(path);
        switch (kind->format) {
          case Format::kText: reader_ = std::make_unique<TextFile>(path, kind->compression, options_); break;
          case Format::kJsonLines: reader_ = std::make_unique<JsonLinesFile>(path, kind->compression, options_); break;
          case Format::kParquet: reader_ = std::make_unique<ParquetFile>(path, options_); break;
        }
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
  std::unique_ptr<FileReader> reader_;
  std::size_t at_ = 0;
};

}  // namespace

LocalFiles find_local_files(const std::vector<std::string>& paths) {
  FileSearch search;
  for (const std::string& path : paths) search.add(path);
  return std::move(search.result);
}

std::unique_ptr<DocumentSource> make_local_source(const std::vector<std::string>& paths, const TextOptions& options,
                                                  support::Progress& progress) {
  LocalFiles files = find_local_files(paths);
  for (const std::string& note : files.notes) progress.note(note);
  return std::make_unique<LocalSource>(std::move(files), options);
}

}  // namespace pe::data

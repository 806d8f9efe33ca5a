#include "data/sources/file_reader.h"
#include "support/escaped.h"
#include "support/text.h"

namespace pe::data {

namespace fs = std::filesystem;

namespace {

std::string_view content_of(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

/// Some editors begin a file with a byte order mark, which is no text.
void drop_byte_order_mark(std::string& first_line) {
  if (first_line.starts_with("\xef\xbb\xbf")) first_line.erase(0, 3);
}

/// One document, or several parted by a separator line or cut at blank lines.
class TextFile : public FileReader {
 public:
  TextFile(const fs::path& path, Compression compression, const TextOptions& options)
      : path_(path), options_(options), lines_(open_stream(path, compression)) {}

  Outcome next(Item& item) override {
    const auto limit = static_cast<std::size_t>(options_.document_bytes);
    while (read_line()) {
      const bool whole_line = line_starts_ && complete_;
      if (!options_.separator.empty() && whole_line && content_of(line_) == options_.separator) {
        skipping_ = false;
        if (cut_end()) return emit(item, text_.size());
        continue;
      }
      const bool blank = support::trim(line_).empty();
      const bool paragraph = after_blank_ && !blank && line_starts_;
      after_blank_ = blank;
      if (skipping_ && !(limit > 0 && paragraph)) continue;
      skipping_ = false;
      if (paragraph) break_at_ = text_.size();
      if (text_.size() + line_.size() > static_cast<std::size_t>(options_.longest_document)) {
        if (limit > 0 && break_at_ > 0) {  // the text before the paragraph is a document
          held_ = true;
          return emit(item, break_at_);
        }
        return skip(item);
      }
      if (text_.empty()) {
        text_.swap(line_);  // a line may be as long as a document: it is not held twice
      } else {
        // As in LineReader: long texts are not doubled.
        if (text_.size() > (1 << 20) && text_.size() + line_.size() > text_.capacity())
          text_.reserve(static_cast<std::size_t>(options_.longest_document));
        text_ += line_;
      }
      if (limit > 0 && text_.size() > limit && break_at_ > 0) return emit(item, break_at_);
    }
    if (text_.empty()) return Outcome::kEnd;
    // The rest may still be two documents: a cut before the last paragraph, and that paragraph.
    if (limit > 0 && text_.size() > limit && break_at_ > 0) return emit(item, break_at_);
    return emit(item, text_.size());
  }

 private:
  bool read_line() {
    if (ended_) return false;
    if (held_) return held_ = false, true;
    line_starts_ = complete_;
    // A line may fill a document and no more; what is longer comes in parts.
    ended_ = !lines_.next(line_, static_cast<std::size_t>(options_.longest_document) + 1, complete_);
    if (!ended_ && line_starts_ && ++line_number_ == 1) drop_byte_order_mark(line_);
    return !ended_;
  }

  /// At a separator: the line end before it belongs to neither document. False when nothing is left.
  bool cut_end() {
    text_.resize(content_of(text_).size());
    break_at_ = 0;
    after_blank_ = false;
    return !text_.empty();
  }

  Outcome emit(Item& item, std::size_t bytes) {
    if (bytes == text_.size()) {
      item.text.swap(text_);
      if (text_.capacity() > (1 << 20)) std::string().swap(text_);  // the document before this one is not kept
      text_.clear();
    } else {
      item.text.assign(text_, 0, bytes);
      text_.erase(0, bytes);
    }
    item.row = row_++;
    break_at_ = 0;
    return Outcome::kDocument;
  }

  /// Leaves the document out, to its end.
  Outcome skip(Item& item) {
    std::string().swap(text_);
    break_at_ = 0;
    skipping_ = true;
    item.row = row_++;
    item.problem = too_long(path_, line_number_, options_);
    return Outcome::kBad;
  }

  fs::path path_;
  TextOptions options_;
  LineReader lines_;
  std::string line_;
  std::string text_;          // read and not yet given out
  std::size_t break_at_ = 0;  // where the newest paragraph of text_ begins, if it may be cut there
  bool after_blank_ = false;
  bool skipping_ = false;  // inside a document that is too long
  bool complete_ = true, line_starts_ = true;
  bool held_ = false;  // line_ was read and not yet looked at to its end
  bool ended_ = false;
  std::uint64_t row_ = 0, line_number_ = 0;
};

/// Every line is a document, without its end.
class TextLines : public FileReader {
 public:
  TextLines(const fs::path& path, Compression compression, const TextOptions& options)
      : path_(path), options_(options), lines_(open_stream(path, compression)) {}

  Outcome next(Item& item) override {
    const auto longest = static_cast<std::size_t>(options_.longest_document);
    // As in JsonLinesFile: what is left of a line that was too long is read only now.
    while (!complete_ && lines_.next(item.text, longest + 2, complete_)) {
    }
    complete_ = true;
    if (!lines_.next(item.text, longest + 2, complete_)) return Outcome::kEnd;
    if (line_number_ == 0) drop_byte_order_mark(item.text);
    item.row = line_number_++;
    if (complete_ && content_of(item.text).size() <= longest) {
      item.text.resize(content_of(item.text).size());
      return Outcome::kDocument;
    }
    item.problem = too_long(path_, line_number_, options_);
    return Outcome::kBad;
  }

 private:
  fs::path path_;
  TextOptions options_;
  LineReader lines_;
  bool complete_ = true;
  std::uint64_t line_number_ = 0;
};

}  // namespace

std::unique_ptr<FileReader> open_text_file(const fs::path& path, Compression compression, const TextOptions& options) {
  if (options.lines) return std::make_unique<TextLines>(path, compression, options);
  return std::make_unique<TextFile>(path, compression, options);
}

}  // namespace pe::data

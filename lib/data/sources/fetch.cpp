#include "data/sources/fetch.h"

#include "artifact/raw_text.h"
#include "data/hub/downloads.h"
#include "data/sources/document_source.h"
#include "support/error.h"
#include "support/escaped.h"
#include "support/text.h"

namespace pe::data {

using support::cat;
using support::with_commas;

void FetchConfig::GeneratedText::describe(support::FieldVisitor& v) {
  v.field("seed", seed, "Seed of the stories; another seed gives other stories.", {.min = 0});
  v.field("words", words, "Size of the supply: the story that reaches it is the last.",
          {.unit = "words", .min = 1, .max = 1e12});
  v.field("min_words", min_words, "Shortest story.", {.unit = "words", .min = 50, .max = 20000});
  v.field("max_words", max_words, "Longest story.", {.unit = "words", .min = 200, .max = 20000});
  v.check(max_words >= min_words + 150, "generated.max_words must be at least 150 above generated.min_words");
}

void FetchConfig::Text::describe(support::FieldVisitor& v) {
  v.field("separator", separator, "A line that separates the documents of a .txt, such as <|endoftext|>; empty: none.");
  v.field("document_bytes", document_bytes,
          "Cut a .txt at blank lines into documents of at most this; a longer paragraph stays whole. 0: one document a "
          "file.",
          {.unit = "bytes", .min = 0, .max = 256 << 20});
  v.field("lines", lines, "Make every line of a .txt a document.");
  v.field("column", column, "Key of .jsonl or column of .parquet that holds the text.");
  v.field("filter", filter,
          "Keep only rows for which all of these hold, such as 'int_score >= 3' or 'language == en'.");
  v.field("longest_document", longest_document, "A longer document is bad, and on_bad says what becomes of it.",
          {.unit = "bytes", .min = 1, .max = 256 << 20});
  v.check(!column.empty(), "text.column must name a column");
  v.check(!lines || (separator.empty() && document_bytes == 0),
          "text.lines excludes text.separator and text.document_bytes");
  v.check(document_bytes <= longest_document, "text.document_bytes must not exceed text.longest_document");
}

void FetchConfig::describe(support::FieldVisitor& v) {
  v.choice("source", source, {{"local", Source::kLocal}, {"generated", Source::kGenerated}, {"hub", Source::kHub}},
           "Source of documents: files on this machine, generated stories, or the files of a lock.");
  v.paths("path", path,
          "Files, folders (read recursively, sorted) and globs: .txt, .jsonl (plain, .gz, .zst), .parquet.");
  v.path("lock", lock, "Lock file of the downloads, for source: hub; `pe-hub lock` writes it.");
  v.group("generated", generated, "Generated stories, for source: generated.");
  v.group("text", text, "How files become documents, for source: local and hub.");
  v.choice("on_bad", on_bad, {{"error", OnBad::kError}, {"skip", OnBad::kSkip}},
           "Invalid or over-long rows: end the stage, or count and skip them.");
  v.choice("invalid_utf8", invalid_utf8,
           {{"bad", InvalidUtf8::kBad}, {"replace", InvalidUtf8::kReplace}, {"keep", InvalidUtf8::kKeep}},
           "A text that is not UTF-8: treat it by on_bad, replace invalid bytes by U+FFFD, or keep its bytes.");
  v.field("max_documents", max_documents, "Stop after so many documents; 0: all.", {.min = 0});
  v.field("max_bytes", max_bytes, "Stop before the text grows beyond this; 0: all.", {.unit = "bytes", .min = 0});
  v.check(source != Source::kLocal || !path.empty(), "'path' is empty, and 'source' is local");
  v.check(source != Source::kHub || !lock.empty(), "'lock' is empty, and 'source' is hub");
}

namespace {

struct Counts {
  std::uint64_t bad = 0, null = 0, empty = 0, mended = 0, filtered = 0;
  std::vector<std::string> first_problems;
};

TextOptions text_options(const FetchConfig& config) {
  const FetchConfig::Text& text = config.text;
  return {.separator = text.separator,
          .document_bytes = text.document_bytes,
          .lines = text.lines,
          .column = text.column,
          .filter = text.filter,
          .longest_document = text.longest_document,
          .any_bytes = config.invalid_utf8 != FetchConfig::InvalidUtf8::kBad};
}

std::unique_ptr<DocumentSource> open_source(const FetchConfig& config, support::Progress& progress) {
  const FetchConfig::GeneratedText& told = config.generated;
  switch (config.source) {
    case FetchConfig::Source::kGenerated:
      return make_story_source({told.seed, told.words, told.min_words, told.max_words});
    case FetchConfig::Source::kLocal:
      return make_local_source(config.path, text_options(config), progress);
    case FetchConfig::Source::kHub:
      break;
  }
  const FetchLock lock = FetchLock::read(config.lock);
  std::vector<LocalFile> files;
  for (const LockedFile& file : lock.files) files.push_back({file.path, file.path});
  check_kinds(files, text_options(config));
  DownloadOptions downloads = DownloadOptions::from_environment();
  downloads.verify = true;  // the key promises these bytes, and files may have changed since their arrival
  const std::vector<std::filesystem::path> paths = download_all(lock, downloads, progress);
  for (std::size_t i = 0; i < paths.size(); ++i) files[i].path = paths[i];
  return make_file_source(std::move(files), text_options(config));
}

void report(const Counts& counts, const artifact::RawTextWriter& writer, support::Progress& progress) {
  progress.note(cat("fetched ", with_commas(static_cast<std::int64_t>(writer.documents())), " documents, ",
                    support::short_bytes(static_cast<double>(writer.bytes()))));
  if (counts.filtered > 0)
    progress.note(cat(with_commas(static_cast<std::int64_t>(counts.filtered)), " rows were left out by text.filter"));
  if (counts.null > 0)
    progress.note(cat(with_commas(static_cast<std::int64_t>(counts.null)), " rows without text were left out"));
  if (counts.empty > 0)
    progress.note(cat(with_commas(static_cast<std::int64_t>(counts.empty)), " empty documents were left out"));
  if (counts.mended > 0) {
    progress.warn(cat(with_commas(static_cast<std::int64_t>(counts.mended)),
                      " documents were not UTF-8; invalid bytes were replaced by U+FFFD"));
  }
  if (counts.bad > 0) {
    progress.warn(cat(with_commas(static_cast<std::int64_t>(counts.bad)),
                      " bad lines or rows were skipped, first: ", support::join(counts.first_problems, "; ")));
  }
}

}  // namespace

void fetch(const FetchConfig& config, artifact::Workspace& workspace) {
  support::Progress& progress = *workspace.progress;
  const std::unique_ptr<DocumentSource> source = open_source(config, progress);

  artifact::RawTextWriter writer(workspace.output("raw"), workspace.recipe);
  Counts counts;
  const auto bad = [&](const std::string& problem) {
    if (config.on_bad == FetchConfig::OnBad::kError) {
      throw support::ArtifactError(problem, "on_bad: skip leaves such documents out and counts them");
    }
    ++counts.bad;
    if (counts.first_problems.size() < 3) counts.first_problems.push_back(problem);
  };

  DocumentSource::Item item;
  const auto show = [&] {
    progress.advance(source->unit(), source->done(), source->total(),
                     {{"documents", writer.documents()}, {"bytes", writer.bytes()}});
  };
  while (true) {
    if (support::stop_requested()) throw support::StopRequest(false);
    show();
    if (config.max_documents > 0 && writer.documents() >= static_cast<std::uint64_t>(config.max_documents)) break;
    const DocumentSource::Outcome outcome = source->next(item);
    if (outcome == DocumentSource::Outcome::kEnd) break;
    if (outcome == DocumentSource::Outcome::kNull) {
      ++counts.null;
      continue;
    }
    if (outcome == DocumentSource::Outcome::kFiltered) {
      ++counts.filtered;
      continue;
    }
    if (outcome == DocumentSource::Outcome::kBad) {
      bad(item.problem);
      continue;
    }
    if (item.text.empty()) {
      ++counts.empty;
      continue;
    }
    if (config.invalid_utf8 != FetchConfig::InvalidUtf8::kKeep) {
      if (const std::size_t at = support::find_invalid_utf8(item.text); at != std::string::npos) {
        if (config.invalid_utf8 == FetchConfig::InvalidUtf8::kBad) {
          bad(cat(support::escaped(item.source), ", document ", item.row, ": byte ", at, " (",
                  fmt::format("0x{:02x}", static_cast<unsigned char>(item.text[at])), ") is not UTF-8"));
          continue;
        }
        item.text = support::replace_invalid_utf8(item.text);
        ++counts.mended;
      }
    }
    if (config.max_bytes > 0 && writer.bytes() + item.text.size() > static_cast<std::uint64_t>(config.max_bytes)) {
      if (writer.documents() > 0) break;
      throw support::ConfigError(cat("max_bytes is ", config.max_bytes, ", and the first document has ",
                                     item.text.size(), " bytes: ", support::escaped(item.source)),
                                 {}, "raise max_bytes, or set text.document_bytes");
    }
    writer.add(item.text, item.source, item.row);
  }
  if (writer.documents() == 0) {
    throw support::ArtifactError(cat("the source holds no documents (", counts.null, " without text, ", counts.empty,
                                     " empty, ", counts.filtered, " left out by text.filter, ", counts.bad, " bad)"));
  }
  // The last line of progress has the final counts, also where a limit ended the loop.
  const auto documents = static_cast<std::int64_t>(writer.documents());
  progress.advance("documents", documents, documents, {{"bytes", writer.bytes()}});
  writer.finish();
  report(counts, writer, progress);
}

}  // namespace pe::data

#include "data/token_shards/inspect.h"

#include <algorithm>
#include <map>
#include <optional>

#include "artifact/collection.h"
#include "artifact/h5.h"
#include "artifact/header.h"
#include "artifact/raw_text.h"
#include "artifact/table_text.h"
#include "artifact/tokenizer_record.h"
#include "data/sources/length_histogram.h"
#include "data/token_shards/token_dataset.h"
#include "data/tokenizers/tokenizer.h"
#include "support/error.h"
#include "support/escaped.h"
#include "support/text.h"

namespace pe::data {

namespace fs = std::filesystem;
using artifact::Kind;
using support::cat;
using support::with_commas;

namespace {

std::string number(std::uint64_t value) { return with_commas(static_cast<std::int64_t>(value)); }

std::string inspect_raw_text(const fs::path& folder, const InspectOptions& options) {
  artifact::RawTextReader reader(folder);
  std::string text = cat("raw text: ", number(reader.documents()), " documents, ", number(reader.bytes()), " bytes\n");
  LengthHistogram lengths;
  std::map<std::string, std::uint64_t, std::less<>> sources;
  std::string first;
  artifact::RawTextReader::Document document;
  while (reader.next(document)) {
    lengths.add(document.text.size());
    if (const auto found = sources.find(document.source); found != sources.end())
      ++found->second;
    else if (sources.size() < 1000)
      sources.emplace(document.source, 1);
    if (static_cast<std::int64_t>(document.index) >= options.documents) continue;
    first += cat("\ndocument ", document.index, " of ", support::escaped(document.source, 200), ", ",
                 number(document.text.size()), " bytes\n",
                 support::escaped(document.text.substr(0, static_cast<std::size_t>(4 * options.characters)),
                                  static_cast<std::size_t>(options.characters)),
                 "\n");
  }
  int shown = 0;
  for (const auto& [name, count] : sources) {
    if (++shown > 20) {
      text += "  …\n";
      break;
    }
    text += cat("  ", support::escaped(name, 200), ": ", number(count), " documents\n");
  }
  return text + "bytes a document\n" + lengths.bars("bytes") + first;
}

std::string inspect_token_shards(const fs::path& folder, const InspectOptions& options) {
  const TokenDataset dataset(folder);
  const artifact::TokenizerRecord& record = dataset.tokenizer();
  const artifact::DatasetTotals& totals = dataset.totals();
  std::string text = cat("token shards: tokenizer ", record.kind, ", vocabulary ",
                         number(static_cast<std::uint64_t>(record.vocabulary)), ", ", record.library, "\n");
  std::uint64_t tokens = 0;
  for (const Split split : artifact::kAllSplits) {
    const artifact::SplitTotals& of = totals.splits[static_cast<std::size_t>(split)];
    text += cat("  ", artifact::split_name(split), ": ", number(of.documents), " documents, ", number(of.tokens),
                " tokens, ", number(of.bytes), " bytes\n");
    tokens += of.tokens;
  }
  text += cat("  of ", number(totals.read), " documents read: ", number(totals.duplicates), " duplicates, ",
              number(totals.empty), " empty, ", number(totals.too_short), " too short, ", number(totals.invalid_utf8),
              " not UTF-8\n");
  if (totals.unknown_tokens > 0) {
    text += fmt::format(
        "  {} tokens ({:.2f} %) are unknown to the tokenizer\n", number(totals.unknown_tokens),
        100.0 * static_cast<double>(totals.unknown_tokens) / static_cast<double>(std::max<std::uint64_t>(1, tokens)));
  }
  for (const Split split : artifact::kAllSplits) {
    if (artifact::split_name(split) != options.split) continue;
    LengthHistogram lengths;
    for (std::uint64_t i = 0; i < dataset.documents(split); ++i) lengths.add(dataset.document(split, i).tokens);
    text += cat("tokens per document of ", options.split, "\n", lengths.bars("tokens"));
    const auto tokenizer = make_tokenizer(record, folder.string());
    for (std::uint64_t i = 0; i < std::min(dataset.documents(split),
                                           static_cast<std::uint64_t>(std::max<std::int64_t>(0, options.documents)));
         ++i) {
      const TokenDataset::Document document = dataset.document(split, i);
      const std::size_t count = static_cast<std::size_t>(
          std::min<std::uint64_t>(document.tokens, static_cast<std::uint64_t>(options.characters)));
      std::vector<std::int32_t> ids(count);
      dataset.read(split, document.first, std::span(ids));
      std::vector<std::string> shown;
      for (std::size_t k = 0; k < std::min<std::size_t>(count, 16); ++k) shown.push_back(std::to_string(ids[k]));
      text += cat("\ndocument ", i, " (", document.index, " of the raw text), ", number(document.tokens), " tokens, ",
                  number(document.bytes), " bytes: ", support::join(shown, " "),
                  document.tokens > shown.size() ? " …" : "", "\n");
      if (!ids.empty() && ids[0] == record.bos_id) ids.erase(ids.begin());
      text += support::escaped(tokenizer->decode(ids), static_cast<std::size_t>(options.characters)) + "\n";
    }
    return text;
  }
  throw support::ConfigError(cat("split ", support::quote(options.split), ": expected train, validation or test"));
}

}  // namespace

namespace {

Kind kind_of_file(const fs::path& path) { return artifact::read_header(artifact::h5::File::open(path)).kind; }

/// The folder of a collection, named by itself, its manifest or a member; nothing for a file without a collection.
std::optional<fs::path> collection_of(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return path;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  if (!fs::exists(folder / artifact::kManifestName, ignored)) return std::nullopt;
  if (path.extension() == ".h5" && !artifact::is_collection(kind_of_file(path))) return std::nullopt;  // no member
  return folder;
}

std::string inspect_tokenizer(const fs::path& path) {
  const artifact::TokenizerRecord record = artifact::read_tokenizer(path);
  const auto tokenizer = make_tokenizer(record, path.string());
  const auto id = [](std::int64_t value) { return value < 0 ? std::string("none") : std::to_string(value); };
  std::uint64_t text = 0, bytes = 0;
  for (std::int64_t i = 0; i < record.vocabulary; ++i) {
    if (!tokenizer->is_text(i)) continue;
    ++text;
    bytes += record.token_bytes[static_cast<std::size_t>(i)];
  }
  return cat("tokenizer ", record.kind, ", ", record.library, "\n  vocabulary ",
             number(static_cast<std::uint64_t>(record.vocabulary)), ", ", number(text), " pieces of text",
             text > 0
                 ? fmt::format(" of {:.2f} bytes on average", static_cast<double>(bytes) / static_cast<double>(text))
                 : "",
             "\n  BOS ", id(record.bos_id), ", EOS ", id(record.eos_id), ", unknown ", id(record.unk_id), ", padding ",
             id(record.pad_id), "\n  digest ", record.digest(), "\n");
}

std::string inspect_tables(const fs::path& path, Kind kind, const InspectOptions& options) {
  const artifact::Tables read = artifact::read_tables(path, kind);
  const artifact::TableLayout layout{.rows = options.rows};
  if (!options.table.empty()) return artifact::table_text(read.at(options.table), layout);
  return read.tables.empty() ? cat(artifact::kind_name(kind), " without tables\n")
                             : artifact::tables_text(read, layout);
}

}  // namespace

std::string inspect(const fs::path& path, const InspectOptions& options) {
  const auto folder = collection_of(path);
  const Kind kind = folder ? artifact::Manifest::read(*folder).kind : kind_of_file(path);
  if (kind == Kind::kEvalTable || kind == Kind::kMetrics) return inspect_tables(path, kind, options);
  if (!options.table.empty()) {
    throw support::ConfigError(cat("expected a file of kind eval-table or metrics, found ", artifact::kind_name(kind)),
                               {"--table", 0, 0, "", 1}, "only these have tables");
  }
  if (kind == Kind::kTokenizer) return inspect_tokenizer(path);
  if (folder && kind == Kind::kRawText) return inspect_raw_text(*folder, options);
  if (folder && kind == Kind::kTokenShards) return inspect_token_shards(*folder, options);
  throw support::ArtifactError(
      cat(support::quote(path.string()),
          ": expected kind raw-text, tokenizer, token-shards, eval-table or metrics, found ", artifact::kind_name(kind),
          folder                          ? ""
          : artifact::is_collection(kind) ? " without its manifest"
                                          : ""),
      "pe-pipeline show tells about any artifact");
}

artifact::TokenizerRecord tokenizer_of(const fs::path& path) {
  const auto folder = collection_of(path);
  if (!folder) return artifact::read_tokenizer(path);
  return artifact::read_tokenizer_record(*folder / "dataset.h5");
}

}  // namespace pe::data

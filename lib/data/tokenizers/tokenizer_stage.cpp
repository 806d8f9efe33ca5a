#include "data/tokenizers/tokenizer_stage.h"

#include <algorithm>
#include <optional>

#include "artifact/tokenizer_record.h"
#include "data/sources/length_histogram.h"
#include "data/tokenizers/byte_level_bpe.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::data {

using support::cat;
using support::with_commas;

void TokenizerStageConfig::describe(support::FieldVisitor& v) {
  describe_fields(v, false);
  v.group("split", split,
          "Documents are split by the SHA-256 of their text, as in pe-tokenize; the tokenizer is trained on the train "
          "split.");
  v.field("summary_bytes", summary_bytes, "Text of the train split that is encoded for the summary; 0: none.",
          {.unit = "bytes", .min = 0, .hashed = false});
}

namespace {

void summarise(const Tokenizer& tokenizer, const SplitRule& rule, artifact::RawTextReader& reader,
               std::int64_t most_bytes, support::Progress& progress) {
  CachedEncoder encoder(tokenizer);
  LengthHistogram lengths;
  std::vector<std::int32_t> ids;
  std::uint64_t bytes = 0, tokens = 0, unknown = 0, documents = 0;
  const double started = support::steady_s();
  artifact::RawTextReader::Document document;
  while (bytes < static_cast<std::uint64_t>(most_bytes) && reader.next(document)) {
    if (support::stop_requested()) throw support::StopRequest(false);
    if (document.text.empty() || support::find_invalid_utf8(document.text) != std::string_view::npos) continue;
    if (rule.of(hash_of(document.text), document.source) != artifact::Split::kTrain) continue;
    encoder.encode(document.text, ids);
    lengths.add(ids.size());
    bytes += document.text.size();
    tokens += ids.size();
    ++documents;
    if (tokenizer.unk_id() >= 0) {
      unknown +=
          static_cast<std::uint64_t>(std::count(ids.begin(), ids.end(), static_cast<std::int32_t>(tokenizer.unk_id())));
    }
  }
  if (tokens == 0) return;
  const double seconds = support::steady_s() - started;
  progress.note(fmt::format("{} documents, {}: {:.3f} bytes per token, {:.1f} MB/s on one thread",
                            with_commas(static_cast<std::int64_t>(documents)),
                            support::short_bytes(static_cast<double>(bytes)),
                            static_cast<double>(bytes) / static_cast<double>(tokens),
                            static_cast<double>(bytes) / 1e6 / std::max(seconds, 1e-9)));
  progress.note(cat("tokens per document, at most: ", lengths.shares()));
  if (unknown > 0) {
    progress.warn(fmt::format("{} tokens ({:.2f} %) are unknown to the tokenizer",
                              with_commas(static_cast<std::int64_t>(unknown)),
                              100.0 * static_cast<double>(unknown) / static_cast<double>(tokens)));
  }
}

}  // namespace

void make_tokenizer_artifact(const TokenizerStageConfig& config, artifact::Workspace& workspace) {
  std::optional<artifact::RawTextReader> reader;
  if (workspace.has_input("raw")) reader.emplace(workspace.input("raw").path);
  const SplitRule rule(config.split);
  const auto tokenizer = choose_tokenizer(config, rule, reader ? &*reader : nullptr, *workspace.progress);
  const artifact::TokenizerRecord record = tokenizer->record();
  artifact::write_tokenizer(workspace.output("tokenizer"), workspace.recipe, record);
  workspace.progress->note(cat("tokenizer ", record.kind, ": vocabulary ", with_commas(record.vocabulary), ", digest ",
                               record.digest().substr(0, 12)));
  if (reader && config.summary_bytes > 0)
    summarise(*tokenizer, rule, *reader, config.summary_bytes, *workspace.progress);
}

std::string export_tokenizer(const artifact::TokenizerRecord& record, const std::filesystem::path& folder) {
  const auto put = [&](const char* name, std::string_view bytes) {
    support::write_file_atomically(folder / name, bytes, true);
    return (folder / name).string();
  };
  if (record.kind == "sentencepiece") {
    support::make_folders(folder);
    return put("tokenizer.model", record.model);
  }
  if (record.kind == kByteLevelBpe) {
    support::make_folders(folder);
    const ByteLevelFiles files = unpack_byte_level(record.model, "the tokenizer");
    if (!files.cut_first.empty())
      throw support::ConfigError("vocab.json and merges.txt cannot say that pieces are cut out of text before words",
                                 {}, "pe-export writes the tokenizer of a model as tokenizer.json");
    return cat(put("vocab.json", files.vocab), ", ", put("merges.txt", files.merges));
  }
  throw support::ConfigError(cat("a tokenizer of kind ", record.kind, " has no files to export"));
}

}  // namespace pe::data

#include "artifact/artifact_check.h"

#include "artifact/checkpoint.h"
#include "artifact/collection.h"
#include "artifact/content_digest.h"
#include "artifact/header.h"
#include "artifact/raw_text.h"
#include "artifact/table.h"
#include "artifact/token_shards.h"
#include "support/error.h"
#include "support/text.h"

namespace pe::artifact {

namespace fs = std::filesystem;
using support::ArtifactError;
using support::cat;
using support::quote;

namespace {

void check_token_shards(const fs::path& folder) {
  const Collection collection(folder, Kind::kTokenShards);
  const Member* dataset = collection.manifest().find("dataset.h5");
  if (dataset == nullptr) throw ArtifactError(cat(quote(folder.string()), ": member dataset.h5 is missing"));
  const TokenizerRecord tokenizer = read_tokenizer_record(collection.path(*dataset));
  const DatasetTotals totals = read_dataset_totals(collection.path(*dataset));
  for (const Split split : kAllSplits) {
    SplitTotals found;
    for (const Member& member : collection.members(cat(split_name(split), "-"))) {
      const h5::File file = h5::File::open(collection.path(member));
      require_kind(file, Kind::kTokenShards, 1);
      const h5::Group root = file.root();
      if (const std::string digest = root.text("tokenizer_digest"); digest != tokenizer.digest()) {
        throw ArtifactError(
            cat(quote(file.path().string()), ": expected tokenizer ", tokenizer.digest(), ", found ", digest));
      }
      const h5::Dataset tokens = root.open_dataset("tokens");
      tokens.require_rank(tokenizer.vocabulary > 65536 ? h5::Type::kU32 : h5::Type::kU16, 1);
      const h5::Dataset bytes = root.open_dataset("doc_bytes");
      bytes.require_rank(h5::Type::kU32, 1);
      root.open_dataset("doc_offsets").require(h5::Type::kU64, {bytes.count() + 1});
      root.open_dataset("doc_index").require(h5::Type::kU64, {bytes.count()});
      found.tokens += tokens.count();
      found.documents += bytes.count();
    }
    const SplitTotals& stated = totals.splits[static_cast<std::size_t>(split)];
    if (found.tokens != stated.tokens || found.documents != stated.documents) {
      throw ArtifactError(cat(quote(folder.string()), ": split ", split_name(split), ": expected ", stated.documents,
                              " documents and ", stated.tokens, " tokens, found ", found.documents, " and ",
                              found.tokens));
    }
  }
}

void check_tables(const Tables& tables, const fs::path& path) {
  if (tables.tables.empty()) throw ArtifactError(cat(quote(path.string()), ": it holds no table"));
}

}  // namespace

void check_artifact(const h5::File& file, Kind kind) {
  if (kind == Kind::kMetrics || kind == Kind::kEvalTable)
    check_tables(read_tables(file, kind), file.path());
  else
    check_artifact(file.path(), kind);
}

void check_artifact(const fs::path& path, Kind kind) {
  switch (kind) {
    case Kind::kRawText:
      static_cast<void>(RawTextReader(path));
      return;
    case Kind::kTokenizer:
      static_cast<void>(read_tokenizer(path));
      return;
    case Kind::kTokenShards:
      check_token_shards(path);
      return;
    case Kind::kCheckpoint:
      static_cast<void>(CheckpointReader(path));
      return;
    case Kind::kMetrics:
    case Kind::kEvalTable:
      check_tables(read_tables(path, kind), path);
      return;
    case Kind::kReport: {
      const Collection report(path, kind);
      if (report.manifest().members.empty())
        throw ArtifactError(cat(quote(path.string()), ": the report has no files"));
      return;
    }
  }
}

std::string artifact_content_digest(const fs::path& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored) || path.filename() == kManifestName) return Manifest::read(path).content_digest();
  return content_digest(path);
}

}  // namespace pe::artifact

#include "artifact/token_shards.h"

#include "artifact/header.h"
#include "support/error.h"
#include "support/hash.h"
#include "support/text.h"

namespace pe::artifact {

using support::ArtifactError;
using support::cat;

namespace {

constexpr int kTokenShardsFormat = 1;

}  // namespace

/// The shard in writing. Ids are narrowed on arrival.
struct TokenShardsWriter::OpenShard {
  bool wide = false;
  std::vector<std::uint16_t> narrow_tokens;
  std::vector<std::uint32_t> wide_tokens;
  std::vector<std::int32_t> labels;
  std::vector<std::uint64_t> offsets{0};
  std::vector<std::uint32_t> bytes;
  std::vector<std::uint64_t> index;
  int number = 0;

  std::uint64_t tokens() const { return offsets.back(); }
};

TokenShardsWriter::TokenShardsWriter(std::filesystem::path folder, const Recipe& recipe,
                                     const TokenizerRecord& tokenizer, std::uint64_t shard_tokens)
    : recipe_(recipe),
      collection_(std::move(folder), Kind::kTokenShards, recipe),
      tokenizer_(tokenizer),
      shard_tokens_(shard_tokens) {
  for (auto& open : open_) {
    open = std::make_unique<OpenShard>();
    open->wide = tokenizer.vocabulary > 65536;
  }
}

TokenShardsWriter::~TokenShardsWriter() = default;

void TokenShardsWriter::add(Split split, const std::int32_t* ids, std::size_t count, std::uint32_t text_bytes,
                            std::uint64_t index, const std::int32_t* labels) {
  const auto at = static_cast<std::size_t>(split);
  OpenShard& open = *open_[at];
  if (open.tokens() > 0 && open.tokens() + count > shard_tokens_) flush(split);
  for (std::size_t i = 0; i < count; ++i) {
    if (ids[i] < 0 || ids[i] >= tokenizer_.vocabulary) {
      throw support::Error(support::kExitBug, support::Diagnostic{cat("id ", ids[i], " is outside the vocabulary of ",
                                                                      tokenizer_.vocabulary)});
    }
  }
  if (labels != nullptr) open.labels.insert(open.labels.end(), labels, labels + count);
  if (open.wide) {
    open.wide_tokens.insert(open.wide_tokens.end(), ids, ids + count);
  } else {
    for (std::size_t i = 0; i < count; ++i) open.narrow_tokens.push_back(static_cast<std::uint16_t>(ids[i]));
  }
  open.offsets.push_back(open.offsets.back() + count);
  open.bytes.push_back(text_bytes);
  open.index.push_back(index);
  totals_[at].documents += 1;
  totals_[at].tokens += count;
  totals_[at].bytes += text_bytes;
}

void TokenShardsWriter::flush(Split split) {
  OpenShard& open = *open_[static_cast<std::size_t>(split)];
  const std::filesystem::path path = collection_.add(fmt::format("{}-{:05}.h5", split_name(split), open.number));
  write_artifact(path, Kind::kTokenShards, kTokenShardsFormat, recipe_,
                 [&](h5::Group& root) {
                   root.set_text("split", split_name(split));
                   root.set_integer("shard", open.number);
                   root.set_integer("vocabulary", tokenizer_.vocabulary);
                   root.set_integer("bos_id", tokenizer_.bos_id);
                   root.set_integer("bos_before_documents", tokenizer_.bos_before_documents ? 1 : 0);
                   root.set_text("tokenizer_digest", tokenizer_.digest());
                   if (open.wide) {
                     root.write("tokens", open.wide_tokens);
                   } else {
                     root.write("tokens", open.narrow_tokens);
                   }
                   if (!open.labels.empty()) root.write("labels", open.labels);
                   root.write("doc_offsets", open.offsets);
                   root.write("doc_bytes", open.bytes);
                   root.write("doc_index", open.index);
                 },
                 {.alignment = 4096, .aligned_from = 4096});
  ++open.number;
  open.narrow_tokens.clear();
  open.wide_tokens.clear();
  open.labels.clear();
  open.offsets.assign(1, 0);
  open.bytes.clear();
  open.index.clear();
}

Manifest TokenShardsWriter::finish(DatasetTotals& totals) {
  for (const Split split : kAllSplits) {
    const auto at = static_cast<std::size_t>(split);
    // Each split has a shard, so that an empty one reads as empty and not as missing.
    if (open_[at]->offsets.size() > 1 || open_[at]->number == 0) flush(split);
    totals.splits[at] = totals_[at];
  }
  write_artifact(collection_.add("dataset.h5"), Kind::kTokenShards, kTokenShardsFormat, recipe_, [&](h5::Group& root) {
    write_tokenizer_group(root, tokenizer_);
    if (window_ > 0) root.set_integer("window", static_cast<std::int64_t>(window_));
    if (!splits_.rule.empty()) {
      h5::Group samples = root.create_group("splits");
      samples.set_text("rule", splits_.rule);
      for (const Split split : kAllSplits) {
        samples.write(std::string(split_name(split)), splits_.documents[static_cast<std::size_t>(split)].hashes());
      }
    }
    h5::Group sums = root.create_group("totals");
    for (const Split split : kAllSplits) {
      h5::Group part = sums.create_group(std::string(split_name(split)));
      const SplitTotals& of = totals.splits[static_cast<std::size_t>(split)];
      part.set_integer("documents", static_cast<std::int64_t>(of.documents));
      part.set_integer("tokens", static_cast<std::int64_t>(of.tokens));
      part.set_integer("bytes", static_cast<std::int64_t>(of.bytes));
    }
    sums.set_integer("read", static_cast<std::int64_t>(totals.read));
    sums.set_integer("duplicates", static_cast<std::int64_t>(totals.duplicates));
    sums.set_integer("empty", static_cast<std::int64_t>(totals.empty));
    sums.set_integer("invalid_utf8", static_cast<std::int64_t>(totals.invalid_utf8));
    sums.set_integer("too_short", static_cast<std::int64_t>(totals.too_short));
    sums.set_integer("unknown_tokens", static_cast<std::int64_t>(totals.unknown_tokens));
  });
  return collection_.finish();
}

TokenizerRecord read_tokenizer_record(const std::filesystem::path& dataset_file) {
  return read_tokenizer(dataset_file, Kind::kTokenShards, kTokenShardsFormat);
}

std::uint64_t read_window(const std::filesystem::path& dataset_file) {
  const h5::File file = h5::File::open(dataset_file);
  require_kind(file, Kind::kTokenShards, kTokenShardsFormat);
  const h5::Group root = file.root();
  if (!root.has_attribute("window")) return 0;
  const std::int64_t window = root.integer("window");
  if (window < 1)
    throw ArtifactError(cat(root.where(), ": invalid window of ", window, " tokens"), "the file is corrupt");
  return static_cast<std::uint64_t>(window);
}

SplitRecord read_split_record(const std::filesystem::path& dataset_file) {
  const h5::File file = h5::File::open(dataset_file);
  require_kind(file, Kind::kTokenShards, kTokenShardsFormat);
  SplitRecord record;
  if (!file.root().has("splits")) return record;
  const h5::Group group = file.root().open_group("splits");
  record.rule = group.text("rule");
  for (const Split split : kAllSplits) {
    const std::string name(split_name(split));
    DocumentSample& sample = record.documents[static_cast<std::size_t>(split)];
    const h5::Dataset hashes = group.open_dataset(name);
    hashes.require_rank(h5::Type::kU64, 1);
    sample = DocumentSample::from_hashes(hashes.read<std::uint64_t>(), hashes.where());
    const std::int64_t documents = file.root().open_group("totals/" + name).integer("documents");
    if (sample.empty() && documents > 0) {
      throw ArtifactError(cat(hashes.where(), ": is empty; expected hashes of ", documents, " documents"),
                          "the file is corrupt");
    }
  }
  return record;
}

DatasetTotals read_dataset_totals(const std::filesystem::path& dataset_file) {
  const h5::File file = h5::File::open(dataset_file);
  require_kind(file, Kind::kTokenShards, kTokenShardsFormat);
  const h5::Group sums = file.root().open_group("totals");
  const auto count = [](const h5::Group& group, const char* name) {
    const std::int64_t value = group.integer(name);
    if (value < 0) throw ArtifactError(cat(group.where(), ": ", name, " is negative"));
    return static_cast<std::uint64_t>(value);
  };
  DatasetTotals totals;
  for (const Split split : kAllSplits) {
    const h5::Group part = sums.open_group(std::string(split_name(split)));
    totals.splits[static_cast<std::size_t>(split)] = {count(part, "documents"), count(part, "tokens"),
                                                      count(part, "bytes")};
  }
  totals.read = count(sums, "read");
  totals.duplicates = count(sums, "duplicates");
  totals.empty = count(sums, "empty");
  totals.invalid_utf8 = count(sums, "invalid_utf8");
  totals.too_short = count(sums, "too_short");
  totals.unknown_tokens = count(sums, "unknown_tokens");
  return totals;
}

}  // namespace pe::artifact

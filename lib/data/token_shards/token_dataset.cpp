#include "data/token_shards/token_dataset.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>

#include "artifact/h5.h"
#include "artifact/header.h"
#include "data/token_shards/widen.h"
#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::data {

namespace fs = std::filesystem;
using artifact::kAllSplits;
using support::ArtifactError;
using support::cat;
using support::quote;
namespace h5 = artifact::h5;

namespace {

/// A table of a shard: mapped, so that ranks share its pages; read into memory only where the file has it in pieces.
template <typename T>
class Table {
 public:
  T operator[](std::size_t i) const {
    T value;
    std::memcpy(&value, from_ + i * sizeof(T), sizeof(T));
    return value;
  }
  std::size_t size() const { return count_; }
  bool empty() const { return count_ == 0; }

  /// Opens the data for a later map; the file is still open.
  void open(const h5::Group& root, const char* name, h5::Type type) {
    const h5::Dataset dataset = root.open_dataset(name);
    dataset.require_rank(type, 1);
    count_ = dataset.count();
    offset_ = dataset.file_offset();
    if (!offset_ && count_ > 0) own_ = root.read<T>(name);
  }
  void map(const support::MappedFile& file, const fs::path& path) {
    if (count_ == 0) return;
    if (offset_ && (file.size() < *offset_ || (file.size() - *offset_) / sizeof(T) < count_)) {
      throw ArtifactError(cat(quote(path.string()), ": the file is shorter than its tables"), "the file is corrupt");
    }
    from_ = offset_ ? file.data() + *offset_ : reinterpret_cast<const std::byte*>(own_.data());
  }

 private:
  const std::byte* from_ = nullptr;
  std::size_t count_ = 0;
  std::optional<std::uint64_t> offset_;
  std::vector<T> own_;
};

struct Shard {
  fs::path path;
  support::MappedFile map;
  const std::byte* tokens = nullptr;
  const std::byte* labels = nullptr;
  std::uint64_t first = 0;  // of its tokens in the split's stream
  std::uint64_t count = 0;
  std::uint64_t first_document = 0;
  Table<std::uint64_t> offsets;  // of documents, within the shard
  Table<std::uint32_t> bytes;
  Table<std::uint64_t> index;
};

struct Stream {
  std::vector<Shard> shards;
  std::uint64_t tokens = 0;
  std::uint64_t documents = 0;
};

/// Bytes of a window to prefetch; more would push the first lines out again.
constexpr std::size_t kMostPrefetched = 16 << 10;

[[noreturn]] void past_the_end(Split split, std::uint64_t end, std::uint64_t tokens) {
  throw support::Error(support::kExitBug,
                       support::Diagnostic{cat("token ", end, " of split ", artifact::split_name(split),
                                               " was asked for, it has ", tokens)});
}

}  // namespace

struct TokenDataset::State {
  artifact::TokenizerRecord tokenizer;
  std::string tokenizer_digest, content_digest;
  artifact::DatasetTotals totals;
  artifact::SplitRecord splits;
  std::array<Stream, 3> streams;
  bool wide = false;
  std::uint64_t window = 0;
  bool labelled = false;

  const Stream& stream(Split split) const { return streams[static_cast<std::size_t>(split)]; }

  Shard open_shard(const fs::path& path, Split split) const {
    Shard shard;
    shard.path = path;
    std::optional<std::uint64_t> offset, label_offset;
    {
      const h5::File file = h5::File::open(path);
      artifact::require_kind(file, artifact::Kind::kTokenShards, 1);
      const h5::Group root = file.root();
      if (const std::string found = root.text("split"); found != artifact::split_name(split)) {
        throw ArtifactError(cat(root.where(), ": expected split ", artifact::split_name(split), ", found ", found));
      }
      if (const std::int64_t found = root.integer("vocabulary"); found != tokenizer.vocabulary) {
        throw ArtifactError(cat(root.where(), ": expected a vocabulary of ", tokenizer.vocabulary, ", found ", found));
      }
      if (const std::string found = root.text("tokenizer_digest"); found != tokenizer_digest) {
        throw ArtifactError(cat(root.where(), ": expected tokenizer ", tokenizer_digest, ", found ", found),
                            "the shard was made with another tokenizer");
      }
      const h5::Dataset tokens = root.open_dataset("tokens");
      tokens.require_rank(wide ? h5::Type::kU32 : h5::Type::kU16, 1);
      shard.count = tokens.count();
      offset = tokens.file_offset();
      if (root.has("labels")) {
        const h5::Dataset labels = root.open_dataset("labels");
        labels.require(h5::Type::kI32, {shard.count});
        label_offset = labels.file_offset();
      }
      shard.offsets.open(root, "doc_offsets", h5::Type::kU64);
      shard.bytes.open(root, "doc_bytes", h5::Type::kU32);
      shard.index.open(root, "doc_index", h5::Type::kU64);
      if (shard.bytes.size() + 1 != shard.offsets.size() || shard.index.size() != shard.bytes.size()) {
        throw ArtifactError(cat(root.where(), "doc_offsets, doc_bytes and doc_index do not fit: ", shard.offsets.size(),
                                ", ", shard.bytes.size(), ", ", shard.index.size()),
                            "the file is corrupt");
      }
    }
    shard.map = support::MappedFile(path);
    shard.offsets.map(shard.map, path);
    shard.bytes.map(shard.map, path);
    shard.index.map(shard.map, path);
    bool rises = shard.offsets[0] == 0 && shard.offsets[shard.offsets.size() - 1] == shard.count;
    for (std::size_t i = 1; rises && i < shard.offsets.size(); ++i) rises = shard.offsets[i - 1] <= shard.offsets[i];
    if (!rises) {
      throw ArtifactError(
          cat(quote(path.string()), ": /doc_offsets do not rise from 0 to the ", shard.count, " tokens of /tokens"),
          "the file is corrupt");
    }
    if (shard.count > 0) {
      if (!offset || shard.map.size() < *offset + shard.count * width()) {
        throw ArtifactError(cat(quote(path.string()), ": the file is shorter than its ", shard.count, " tokens"));
      }
      shard.tokens = shard.map.data() + *offset;
      if (label_offset) {
        if (shard.map.size() < *label_offset + shard.count * 4) {
          throw ArtifactError(cat(quote(path.string()), ": the file is shorter than its ", shard.count, " labels"));
        }
        shard.labels = shard.map.data() + *label_offset;
      }
    }
    return shard;
  }

  /// Calls part(shard, address, ids) for each shard with tokens of [first, first + count), in order.
  void each_part(Split split, std::uint64_t first, std::size_t count, auto&& part) const {
    const Stream& from = stream(split);
    if (count > from.tokens || first > from.tokens - count) past_the_end(split, first + count, from.tokens);
    if (count == 0) return;
    auto shard = std::upper_bound(from.shards.begin(), from.shards.end(), first,
                                  [](std::uint64_t wanted, const Shard& s) { return wanted < s.first; }) -
                 1;
    for (std::size_t done = 0; done < count; ++shard) {
      const std::uint64_t start = first + done - shard->first;
      const auto ids = static_cast<std::size_t>(std::min<std::uint64_t>(shard->count - start, count - done));
      part(*shard, shard->tokens + start * width(), ids);
      done += ids;
    }
  }

  std::size_t width() const { return wide ? 4 : 2; }

  template <typename T>
  void read(Split split, std::uint64_t first, std::span<T> out) const {
    each_part(split, first, out.size(),
              [&, to = out.data()](const Shard& shard, const std::byte* ids, std::size_t count) mutable {
                // Prefetches all lines together: the processor follows a window only to the end of its page.
                prefetch(ids, std::min(count * width(), kMostPrefetched));
                const std::uint32_t largest =
                    wide ? widen<std::uint32_t>(ids, count, to) : widen<std::uint16_t>(ids, count, to);
                // Said here, an id beyond the vocabulary is a damaged shard; in a model it is an index error without a
                // name.
                if (largest >= static_cast<std::uint64_t>(tokenizer.vocabulary)) {
                  throw ArtifactError(cat(quote(shard.path.string()), ": /tokens holds id ", largest,
                                          ", the vocabulary has ", tokenizer.vocabulary),
                                      "the file is corrupt");
                }
                to += count;
              });
  }
};

namespace {

/// A label that no model could say is a damaged shard.
void check_labels(const Shard& shard, std::span<const std::int64_t> labels, std::int64_t vocabulary) {
  for (const std::int64_t label : labels) {
    if (label < -1 || label >= vocabulary) {
      throw ArtifactError(
          cat(quote(shard.path.string()), ": /labels holds ", label, ", the vocabulary has ", vocabulary),
          "the file is corrupt");
    }
  }
}

}  // namespace

bool TokenDataset::has_labels() const { return state_->labelled; }
std::uint64_t TokenDataset::window_tokens() const { return state_->window; }

void TokenDataset::read_labels(Split split, std::uint64_t first, std::span<std::int64_t> out) const {
  const Stream& from = state_->stream(split);
  if (out.size() > from.tokens || first > from.tokens - out.size())
    past_the_end(split, first + out.size(), from.tokens);
  if (out.empty()) return;
  auto shard = std::upper_bound(from.shards.begin(), from.shards.end(), first,
                                [](std::uint64_t wanted, const Shard& s) { return wanted < s.first; }) -
               1;
  for (std::size_t done = 0; done < out.size(); ++shard) {
    const std::uint64_t start = first + done - shard->first;
    const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(shard->count - start, out.size() - done));
    for (std::size_t i = 0; i < count; ++i) {
      std::int32_t label;
      std::memcpy(&label, shard->labels + (start + i) * 4, 4);
      out[done + i] = label;
    }
    check_labels(*shard, out.subspan(done, count), state_->tokenizer.vocabulary);
    done += count;
  }
}

TokenDataset::TokenDataset(const fs::path& folder) : state_(std::make_unique<State>()) {
  const artifact::Collection collection(folder, artifact::Kind::kTokenShards);
  const artifact::Member* dataset = collection.manifest().find("dataset.h5");
  if (dataset == nullptr) throw ArtifactError(cat(quote(folder.string()), ": member dataset.h5 is missing"));
  State& state = *state_;
  state.tokenizer = artifact::read_tokenizer_record(collection.path(*dataset));
  state.tokenizer_digest = state.tokenizer.digest();
  state.totals = artifact::read_dataset_totals(collection.path(*dataset));
  state.splits = artifact::read_split_record(collection.path(*dataset));
  state.content_digest = collection.manifest().content_digest();
  state.wide = state.tokenizer.vocabulary > 65536;
  state.window = artifact::read_window(collection.path(*dataset));
  std::size_t labelled = 0, filled = 0;
  for (const Split split : kAllSplits) {
    Stream& stream = state.streams[static_cast<std::size_t>(split)];
    for (const artifact::Member& member : collection.members(cat(artifact::split_name(split), "-"))) {
      Shard shard = state.open_shard(collection.path(member), split);
      shard.first = stream.tokens;
      shard.first_document = stream.documents;
      if (shard.count > 0) {
        ++filled;
        labelled += shard.labels != nullptr ? 1 : 0;
      }
      stream.tokens += shard.count;
      stream.documents += shard.bytes.size();
      if (!shard.bytes.empty()) stream.shards.push_back(std::move(shard));
    }
    const artifact::SplitTotals& stated = state.totals.splits[static_cast<std::size_t>(split)];
    if (stated.tokens != stream.tokens || stated.documents != stream.documents) {
      throw ArtifactError(cat(quote(folder.string()), ": split ", artifact::split_name(split), ": expected ",
                              stated.documents, " documents and ", stated.tokens, " tokens, found ", stream.documents,
                              " and ", stream.tokens));
    }
  }
  if (labelled != 0 && labelled != filled) {
    throw ArtifactError(
        cat(quote(folder.string()), ": ", labelled, " of ", filled, " shards have /labels; all do or none"),
        "the artifact is corrupt");
  }
  state.labelled = labelled > 0;
}

TokenDataset::~TokenDataset() = default;
TokenDataset::TokenDataset(TokenDataset&&) noexcept = default;

const artifact::TokenizerRecord& TokenDataset::tokenizer() const { return state_->tokenizer; }
const std::string& TokenDataset::tokenizer_digest() const { return state_->tokenizer_digest; }
const std::string& TokenDataset::content_digest() const { return state_->content_digest; }
const artifact::DatasetTotals& TokenDataset::totals() const { return state_->totals; }
const artifact::SplitRecord& TokenDataset::splits() const { return state_->splits; }
std::uint64_t TokenDataset::tokens(Split split) const { return state_->stream(split).tokens; }
std::uint64_t TokenDataset::documents(Split split) const { return state_->stream(split).documents; }

void TokenDataset::read(Split split, std::uint64_t first, std::span<std::int64_t> out) const {
  state_->read(split, first, out);
}
void TokenDataset::read(Split split, std::uint64_t first, std::span<std::int32_t> out) const {
  state_->read(split, first, out);
}

std::uint64_t TokenDataset::windows(Split split, std::int64_t length) const {
  const std::uint64_t tokens = state_->stream(split).tokens;
  return tokens == 0 || length < 1 ? 0 : (tokens - 1) / static_cast<std::uint64_t>(length);
}

void TokenDataset::window(Split split, std::int64_t length, std::uint64_t w, std::span<std::int64_t> out) const {
  if (out.size() != static_cast<std::size_t>(length) + 1) {
    throw support::Error(support::kExitBug,
                         support::Diagnostic{cat("a window of ", length, " + 1 tokens does not fit ", out.size())});
  }
  state_->read(split, w * static_cast<std::uint64_t>(length), out);
}

void TokenDataset::expect_window(Split split, std::int64_t length, std::uint64_t w) const {
  state_->each_part(split, w * static_cast<std::uint64_t>(length), static_cast<std::size_t>(length) + 1,
                    [&](const Shard&, const std::byte* ids, std::size_t count) {
                      prefetch(ids, std::min(count * state_->width(), kMostPrefetched));
                    });
}

TokenDataset::Document TokenDataset::document(Split split, std::uint64_t number) const {
  const Stream& stream = state_->stream(split);
  if (number >= stream.documents) {
    throw support::Error(support::kExitBug,
                         support::Diagnostic{cat("document ", number, " of split ", artifact::split_name(split),
                                                 " was asked for, it has ", stream.documents)});
  }
  const auto shard = std::upper_bound(stream.shards.begin(), stream.shards.end(), number,
                                      [](std::uint64_t wanted, const Shard& s) { return wanted < s.first_document; }) -
                     1;
  const std::size_t at = static_cast<std::size_t>(number - shard->first_document);
  return {shard->first + shard->offsets[at], shard->offsets[at + 1] - shard->offsets[at], shard->bytes[at],
          shard->index[at]};
}

std::uint64_t TokenDataset::text_bytes(std::span<const std::int64_t> tokens, std::size_t first,
                                       bool starts_document) const {
  const artifact::TokenizerRecord& tokenizer = state_->tokenizer;
  std::uint64_t bytes = 0;
  for (std::size_t i = first; i < tokens.size(); ++i) {
    const std::uint16_t of = tokenizer.token_bytes.at(static_cast<std::size_t>(tokens[i]));
    const bool opens = i == 0 ? starts_document : tokenizer.bos_id >= 0 && tokens[i - 1] == tokenizer.bos_id;
    bytes += tokenizer.dummy_prefix && opens && of > 0 ? of - 1u : of;
  }
  return bytes;
}

}  // namespace pe::data

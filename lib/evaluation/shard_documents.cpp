#include "evaluation/shard_documents.h"

#include <algorithm>

#include "support/hash.h"
#include "support/random.h"

namespace pe::evaluation {

namespace {

class ShardDocuments final : public DocumentSource {
 public:
  ShardDocuments(const data::TokenDataset& dataset, const data::Tokenizer& tokenizer, data::Split split)
      : dataset_(dataset), tokenizer_(tokenizer), split_(split), record_(dataset.tokenizer()) {}

  std::string split() const override { return std::string(artifact::split_name(split_)); }
  std::int64_t count() const override { return static_cast<std::int64_t>(dataset_.documents(split_)); }

  std::int64_t tokens(std::int64_t id) const override {
    const auto document = dataset_.document(split_, static_cast<std::uint64_t>(id));
    return static_cast<std::int64_t>(document.tokens) - separators(document);
  }

  /// Hash of the text, so that the order does not depend on the tokenizer.
  std::uint64_t hash(std::int64_t id) const override {
    const std::vector<std::int32_t> ids = text_ids(id, static_cast<std::int64_t>(dataset_.tokens(split_)));
    return support::mix(support::fnv1a64(tokenizer_.decode(ids)));
  }

  Document read(std::int64_t id, std::int64_t limit) const override {
    Document document;
    document.id = id;
    document.ids = text_ids(id, limit);
    document.bytes.reserve(document.ids.size());
    for (const std::int32_t token : document.ids) {
      document.bytes.push_back(record_.token_bytes[static_cast<std::size_t>(token)]);
    }
    // The space that the tokenizer put before the document is no byte of the text.
    if (record_.dummy_prefix && !document.bytes.empty() && document.bytes[0] > 0) --document.bytes[0];
    return document;
  }

  std::vector<std::int32_t> words(std::int64_t id, std::int64_t limit) const override {
    // One token more than asked for: a word ends where white space or nothing follows.
    const Document document = read(id, limit + 1);
    const std::string text = tokenizer_.decode(document.ids);
    std::vector<std::int32_t> words(document.ids.size());
    std::size_t at = 0;
    for (std::size_t token = 0; token < words.size(); ++token) {
      for (const std::size_t end = at + static_cast<std::size_t>(document.bytes[token]); at < end && at < text.size();
           ++at) {
        words[token] += !is_space(text[at]) && (at + 1 == text.size() || is_space(text[at + 1])) ? 1 : 0;
      }
    }
    // Ids whose bytes differ from their text: a piece cut out of a character, or an unknown one.
    std::int64_t bytes = 0;
    for (const std::int32_t of : document.bytes) bytes += of;
    if (bytes != static_cast<std::int64_t>(text.size())) return {};
    words.resize(std::min(words.size(), static_cast<std::size_t>(limit)));
    return words;
  }

 private:
  static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

  /// BOS and EOS around the text; EOS is known by standing last, since no text yields it.
  std::int64_t separators(const data::TokenDataset::Document& document) const {
    std::int64_t around = record_.bos_before_documents ? 1 : 0;
    if (record_.eos_id >= 0 && document.tokens > static_cast<std::uint64_t>(around)) {
      std::int32_t last = 0;
      dataset_.read(split_, document.first + document.tokens - 1, std::span(&last, 1));
      if (last == record_.eos_id) ++around;
    }
    return around;
  }

  std::vector<std::int32_t> text_ids(std::int64_t id, std::int64_t limit) const {
    const auto document = dataset_.document(split_, static_cast<std::uint64_t>(id));
    const std::int64_t n = std::min(limit, static_cast<std::int64_t>(document.tokens) - separators(document));
    std::vector<std::int32_t> ids(static_cast<std::size_t>(std::max<std::int64_t>(n, 0)));
    dataset_.read(split_, document.first + (record_.bos_before_documents ? 1 : 0), std::span(ids));
    return ids;
  }

  const data::TokenDataset& dataset_;
  const data::Tokenizer& tokenizer_;
  data::Split split_;
  const artifact::TokenizerRecord& record_;
};

class TokenizerCodec final : public TextCodec {
 public:
  TokenizerCodec(const data::Tokenizer& tokenizer, bool bos_before_documents)
      : tokenizer_(tokenizer), bos_before_documents_(bos_before_documents) {}

  std::vector<std::int32_t> encode_inside(std::string_view text) const override {
    return tokenizer_.encode_inside(text);
  }

  std::optional<std::int32_t> bos() const override {
    if (!bos_before_documents_ || tokenizer_.bos_id() < 0) return std::nullopt;
    return static_cast<std::int32_t>(tokenizer_.bos_id());
  }

  std::vector<std::int32_t> ordinary_pieces() const override {
    const std::vector<std::int32_t> newline = tokenizer_.encode_inside("\n");
    std::vector<std::int32_t> pieces;
    for (std::int64_t id = 0; id < tokenizer_.vocabulary(); ++id) {
      const auto piece = static_cast<std::int32_t>(id);
      if (tokenizer_.is_text(id) && std::find(newline.begin(), newline.end(), piece) == newline.end()) {
        pieces.push_back(piece);
      }
    }
    return pieces;
  }

 private:
  const data::Tokenizer& tokenizer_;
  bool bos_before_documents_;
};

}  // namespace

std::unique_ptr<DocumentSource> make_shard_documents(const data::TokenDataset& dataset,
                                                     const data::Tokenizer& tokenizer, data::Split split) {
  return std::make_unique<ShardDocuments>(dataset, tokenizer, split);
}

std::unique_ptr<TextCodec> make_codec(const data::Tokenizer& tokenizer, bool bos_before_documents) {
  return std::make_unique<TokenizerCodec>(tokenizer, bos_before_documents);
}

}  // namespace pe::evaluation

// Byte-level BPE against ids of the tokenizers package 0.23.3 (ByteLevelBPETokenizer without a prefix space).
#include "data/tokenizers/byte_level_bpe.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <functional>
#include <map>

#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/json.h"
#include "support/test_data.h"
#include "support/text.h"

using namespace pe;
using data::ByteLevelTokenizer;
using data::CachedEncoder;
using test::HasData;

BOOST_AUTO_TEST_SUITE(byte_level_bpe)

namespace {

const ByteLevelTokenizer& gpt2() {
  static const auto tokenizer =
      data::make_byte_level(data::pack_byte_level({support::read_file(*test::test_data("models/gpt2-vocab.json")),
                                                   support::read_file(*test::test_data("models/gpt2-merges.txt"))},
                                                  "gpt2"),
                            "gpt2");
  return *tokenizer;
}

/// The 256 bytes, and the pieces that `merges` make of them.
Json small_vocab(const std::vector<std::string>& further = {}) {
  Json vocab = Json::object();
  int further_letter = 256, id = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int code = printable ? byte : further_letter++;
    std::string letter;
    if (code < 0x80)
      letter = static_cast<char>(code);
    else
      letter = {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
    vocab[letter] = id++;
  }
  for (const std::string& piece : further) vocab[piece] = id++;
  return vocab;
}

std::unique_ptr<ByteLevelTokenizer> small(const Json& vocab, const std::string& merges) {
  return data::make_byte_level(data::pack_byte_level({vocab.dump(), merges}, "small"), "small");
}

std::vector<std::string> documents(const std::string& text, const std::string& separator) {
  std::vector<std::string> parts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = separator.empty() ? std::string::npos : text.find(separator, at);
    parts.push_back(text.substr(at, end == std::string::npos ? end : end - at));
    at = end == std::string::npos ? text.size() : end + separator.size();
  }
  return parts;
}

}  // namespace

BOOST_AUTO_TEST_CASE(ids_are_those_of_another_implementation,
                     *boost::unit_test::precondition(HasData{"models/gpt2-vocab.json"})) {
  BOOST_TEST(gpt2().encode("Hello, world!") == (std::vector<std::int32_t>{15496, 11, 995, 0}));
  struct Golden {
    const char *file, *separator;
    std::size_t documents, ids;
    const char* sha256;
  };
  const Golden golden[] = {
      {"tinyshakespeare.txt", "", 1, 338025, "0c00ab83dc7f46665805762aa7688fb7852f03f28c4a5d84061871e85ea7c815"},
      {"tinystories.txt", "\n<|endoftext|>\n", 735, 130270,
       "0b8856e824407afe8b728b0973a6a263f7ca9b57d12e02bc10f5828024aaf2dd"},
      {"wikitext2-valid.txt", "\n", 3760, 254899, "0aea0508805eaa2b460635677324f731111490dc4c41335f6c8b7fcfe20a70fc"},
      {"moby-dick.txt", "\n", 22924, 322626, "cceafa569375961775e50322cd0d2a0b1a7b88f187a737402bd36dea22426d25"},
      {"wagahai-ja.txt", "\n", 2344, 553316, "f197ce5ab0db2b18b165eb5d98154b817d74d0c50c668c70738b094cf6878412"},
      {"udhr-multilingual.jsonl", "\n", 64, 618295, "1c325efc23d966e11c7eb20bb375e1f350a85e68b3dc7a83bae635c48a1334d9"},
      {"alice.txt", "", 1, 39622, "c55ad537fa1cc19d3e1544bc87f54348aa0e3127337beab71a499a7dc6469ea8"},
  };
  CachedEncoder cached(gpt2());
  BOOST_TEST(cached.caches());
  for (const Golden& of : golden) {
    const auto texts = documents(support::read_file(*test::test_data(std::string("text/") + of.file)), of.separator);
    support::Sha256 hash;
    std::size_t count = 0;
    std::vector<std::int32_t> ids;
    for (const std::string& text : texts) {
      cached.encode(text, ids);
      hash.update(ids.data(), ids.size() * sizeof ids[0]);
      count += ids.size();
      if (texts.size() < 1000) BOOST_REQUIRE(gpt2().encode(text) == ids);
      BOOST_REQUIRE(gpt2().decode(ids) == text);
    }
    BOOST_TEST(texts.size() == of.documents, of.file);
    BOOST_TEST(count == of.ids, of.file);
    BOOST_TEST(hash.hex() == of.sha256, of.file);
  }
}

BOOST_AUTO_TEST_CASE(its_record_says_what_ids_stand_for,
                     *boost::unit_test::precondition(HasData{"models/gpt2-vocab.json"})) {
  const auto record = gpt2().record();
  BOOST_TEST(record.vocabulary == 50257);
  BOOST_TEST(record.bos_id == 50256);
  BOOST_TEST(record.eos_id == 50256);
  BOOST_TEST(record.token_bytes[50256] == 0u);
  BOOST_TEST(record.token_bytes[995] == 6u);  // " world"
  BOOST_TEST(gpt2().piece(995) == "\xc4\xa0world");
  // <|endoftext|> in a document is letters, never the mark between documents.
  const auto ids = gpt2().encode("a<|endoftext|>b");
  BOOST_TEST(std::count(ids.begin(), ids.end(), 50256) == 0);
  BOOST_TEST(data::make_tokenizer(record, "x")->record().digest() == record.digest());
  // All bytes come back, and token_bytes add up to them.
  for (const std::string& text : {std::string("\0\xff\xfe ab\xc3", 7), std::string("\xf0\x9f\x98"),
                                  std::string(100, '\x80'), std::string(" \n\t \xc2\x85\xe1\x9a\x80 x  y")}) {
    const auto found = gpt2().encode(text);
    BOOST_TEST(gpt2().decode(found) == text);
    std::size_t bytes = 0;
    for (const std::int32_t id : found) bytes += record.token_bytes[static_cast<std::size_t>(id)];
    BOOST_TEST(bytes == text.size());
  }
}

/// Long words go by a queue, short ones by scanning: both must join as the plain definition does.
BOOST_AUTO_TEST_CASE(long_words_join_as_short_ones_do,
                     *boost::unit_test::precondition(HasData{"models/gpt2-vocab.json"})) {
  const std::string merges = support::read_file(*test::test_data("models/gpt2-merges.txt"));
  std::map<std::pair<std::string, std::string>, int> ranks;
  for (const std::string& line : support::split(merges, '\n')) {
    const auto parts = support::split(line, ' ');
    if (parts.size() == 2) ranks.emplace(std::pair(parts[0], parts[1]), static_cast<int>(ranks.size()));
  }
  const Json vocab = Json::parse(support::read_file(*test::test_data("models/gpt2-vocab.json")));
  const auto naive = [&](const std::string& word) {  // ASCII letters are unchanged
    std::vector<std::string> symbols;
    for (const char c : word) symbols.emplace_back(1, c);
    while (true) {
      int best = -1;
      std::size_t at = 0;
      for (std::size_t i = 0; i + 1 < symbols.size(); ++i) {
        const auto found = ranks.find({symbols[i], symbols[i + 1]});
        if (found != ranks.end() && (best < 0 || found->second < best)) best = found->second, at = i;
      }
      if (best < 0) break;
      symbols[at] += symbols[at + 1];
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
    std::vector<std::int32_t> ids;
    for (const std::string& symbol : symbols) ids.push_back(vocab[symbol].get<std::int32_t>());
    return ids;
  };
  std::uint32_t x = 7;
  for (const std::size_t length : {1u, 2u, 47u, 48u, 49u, 50u, 300u, 1000u}) {
    for (int round = 0; round < 5; ++round) {
      std::string word;
      while (word.size() < length) x = x * 1664525 + 1013904223, word += "etaoinshrdluabtheing"[x >> 27 & 15];
      std::vector<std::int32_t> ids;
      gpt2().encode_word(word, ids);
      BOOST_REQUIRE(ids == naive(word));
    }
  }
  // A million bytes of one word are n log n, not n squared.
  BOOST_TEST(gpt2().decode(gpt2().encode(std::string(1'000'000, 'a'))).size() == 1'000'000u);
  BOOST_TEST(gpt2().decode(gpt2().encode(std::string(1'000'000, ' ') + "x")).size() == 1'000'001u);
}

BOOST_AUTO_TEST_CASE(files_that_do_not_fit_are_refused_by_line) {
  const auto says = [](const Json& vocab, const std::string& merges, const std::string& part) {
    try {
      small(vocab, merges);
      BOOST_ERROR("accepted, though " << part);
    } catch (const support::ArtifactError& error) {
      BOOST_TEST(std::string(error.what()).find(part) != std::string::npos, error.what());
    }
  };
  BOOST_TEST(small(small_vocab({"ab", "abc"}), "#version: 0.2\na b\r\nab c\n")->encode("abcab") ==
             (std::vector<std::int32_t>{257, 256}));
  BOOST_TEST(small(small_vocab(), "")->encode("hi").size() == 2u);
  says(Json::array({1}), "", "expected an object");
  says(Json{{"a", Json{{"b", 1}}}}, "", "nested");
  says(Json{{"a", 0}}, "", "byte 0 has no piece");
  Json vocab = small_vocab();
  vocab["zz"] = 300;
  says(vocab, "", "id 300 does not fit");
  vocab["zz"] = 3;
  says(vocab, "", "id 3 occurs twice");
  vocab["zz"] = "3";
  says(vocab, "", "expected an id, found string");
  says(small_vocab({"ab"}), "a b\na b\n", "merges.txt:2: the pair occurs twice");
  says(small_vocab({"ab"}), "a b\na c\n", "merges.txt:2: vocab.json lacks a piece");
  says(small_vocab({"ab"}), "a b c\n", "expected two pieces");
  says(small_vocab({"ab"}), "ab\n", "expected two pieces");
  BOOST_CHECK_THROW(data::make_byte_level("not json", "x"), support::ArtifactError);
  BOOST_CHECK_THROW(data::pack_byte_level({"\xff", ""}, "x"), support::ArtifactError);
}

BOOST_AUTO_TEST_SUITE_END()

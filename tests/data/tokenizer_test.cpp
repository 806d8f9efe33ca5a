#include "data/tokenizers/tokenizer.h"

#include <boost/test/unit_test.hpp>

#include <chrono>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <utility>

#include "data/odd_texts.h"
#include "data/sources/stories.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "data/tokenizers/sentencepiece_words.h"
#include "data/tokenizers/tokenizer_training.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/installed.h"
#include "support/json.h"
#include "support/process.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "support/text.h"
#include "text_without_spaces.h"

using namespace pe;
using data::CachedEncoder;
using data::Tokenizer;
using test::HasData;

BOOST_AUTO_TEST_SUITE(tokenizer)

namespace {

std::string train(std::int64_t vocabulary, bool dummy_prefix = true) {
  std::uint64_t index = 0;
  return data::train_bpe({.vocabulary = vocabulary, .dummy_prefix = dummy_prefix}, [&](std::string& text) {
    if (index == 300) return false;
    text = data::make_story(1, index++, 50, 500).text;
    return true;
  });
}

/// Trained once; sentencepiece takes a while.
const Tokenizer& trained() {
  static const std::unique_ptr<Tokenizer> tokenizer = data::make_sentencepiece(train(1000), "trained");
  return *tokenizer;
}

const std::vector<std::string>& odd_texts() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> made = test::odd_texts();
    made.insert(made.end(), {"\ttab", std::string("nul \0 inside", 12), "1234567890", "</s> <s> <0x0A>",
                             std::string(500, ' '), std::string(300, 'x'),
                             "a\xe2\x96\x81"
                             "b",
                             "a\xe2\x96\x81 b", "\xe2\x96\x81", "fi ﬁ ＡＢＣ …"});
    return made;
  }();
  return texts;
}

}  // namespace

BOOST_AUTO_TEST_CASE(training_gives_the_same_bytes_every_time) { BOOST_TEST((train(600) == train(600))); }

BOOST_AUTO_TEST_CASE(a_vocabulary_that_the_text_cannot_fill_says_what_is_possible) {
  const auto says = [](const char* part) {
    return [part](const support::ConfigError& e) {
      BOOST_TEST_MESSAGE(e.what());
      return std::string(e.what()).find(part) != std::string::npos;
    };
  };
  BOOST_CHECK_EXCEPTION(train(50'000), support::ConfigError, says("are possible with these texts"));
  BOOST_CHECK_EXCEPTION(train(300), support::ConfigError, says("raise vocabulary"));
  const auto nothing = [](std::string&) { return false; };
  BOOST_CHECK_THROW(data::train_bpe({.vocabulary = 300}, nothing), support::ConfigError);
}

BOOST_AUTO_TEST_CASE(texts_are_cut_where_a_run_without_a_space_is_too_long) {
  const auto parts = [](std::string_view text) {
    std::vector<std::size_t> sizes;
    for (; !text.empty(); text.remove_prefix(sizes.back())) {
      sizes.push_back(data::trainable_bytes(text));
      BOOST_REQUIRE(sizes.back() > 0u);
      if (sizes.size() > 9) break;
    }
    return sizes;
  };
  const auto some = [](std::size_t count, const std::string& of) {
    std::string text;
    for (std::size_t i = 0; i < count; ++i) text += of;
    return text;
  };
  const std::string a = some(data::kLongestRun, "あ");
  using Sizes = std::vector<std::size_t>;
  BOOST_TEST((parts("") == Sizes{}));
  BOOST_TEST((parts(a) == Sizes{a.size()}));
  BOOST_TEST((parts(a + "い") == Sizes{a.size(), 3}));
  BOOST_TEST((parts("い" + a + a) == Sizes{a.size(), a.size(), 3}));
  // A space begins another run, and spaces in a row begin one.
  BOOST_TEST((parts(a + " い") == Sizes{a.size() + 4}));
  BOOST_TEST((parts(some(9, some(20'000, "x") + " ")) == Sizes{9 * 20'001}));
  BOOST_TEST((parts(some(70'000, " ")) == Sizes{data::kLongestRun, data::kLongestRun, 70'000 - 2 * data::kLongestRun}));
  const std::string mixed = some(40'000, " \xe2\x96\x81");  // a space mark in the text is a space to the library
  BOOST_TEST(parts(mixed).size() == 3u);
  // Behind a newline where the run has one.
  const std::string first = some(20'000, "う") + "\n", second = some(30'000, "え") + "\n";
  BOOST_TEST((parts(first + second + "お") == Sizes{first.size(), second.size() + 3}));
  BOOST_TEST((parts("\n " + a + "い") == Sizes{a.size() - 1, 6}));
}

/// Japanese has no spaces: a book is one run of characters, and the library ends the process at 65,536 of them,
/// and reads foreign memory from 32,769 on.
BOOST_AUTO_TEST_CASE(a_book_without_spaces_trains_a_tokenizer_and_is_encoded_fast) {
  const std::string book = test::text_without_spaces(110'000);
  bool given = false;
  const std::string model = data::train_bpe({.vocabulary = 500}, [&](std::string& text) {
    text = book;
    return !std::exchange(given, true);
  });
  const auto tokenizer = data::make_sentencepiece(model, "japanese");
  const auto started = std::chrono::steady_clock::now();
  CachedEncoder encoder(*tokenizer);
  std::vector<std::int32_t> ids;
  encoder.encode(book, ids);
  const double took_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  BOOST_TEST_MESSAGE("encoded " << book.size() << " bytes in " << took_s << " s");
  BOOST_TEST(took_s < 10);            // pairs by pairs it would take minutes
  BOOST_TEST(ids.size() < 110'000u);  // characters were joined
  const std::string decoded = tokenizer->decode(ids);
  const auto [here, there] = std::mismatch(decoded.begin(), decoded.end(), book.begin(), book.end());
  BOOST_TEST((decoded == book),
             "byte " << here - decoded.begin() << " of " << decoded.size() << " and " << book.size());
  BOOST_TEST((ids == tokenizer->encode(book)));
}

BOOST_AUTO_TEST_CASE(text_comes_back_byte_for_byte) {
  for (const bool dummy_prefix : {true, false}) {
    const auto own = data::make_sentencepiece(train(600, dummy_prefix), "own");
    BOOST_TEST(own->record().dummy_prefix == dummy_prefix);
    for (const Tokenizer* tokenizer : {&trained(), static_cast<const Tokenizer*>(own.get())}) {
      for (const std::string& text : odd_texts()) {
        if (support::join({text}, "").find("\xe2\x96\x81") != std::string::npos)
          continue;  // a space mark reads as a space
        BOOST_TEST(tokenizer->decode(tokenizer->encode(text)) == text);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_word_cache_gives_the_same_ids) {
  for (const bool dummy_prefix : {true, false}) {
    const auto own = data::make_sentencepiece(train(600, dummy_prefix), "own");
    CachedEncoder cached(*own);
    BOOST_TEST(cached.caches());
    std::vector<std::int32_t> ids;
    for (int round = 0; round < 2; ++round) {
      for (const std::string& text : odd_texts()) {
        cached.encode(text, ids);
        BOOST_TEST(ids == own->encode(text), "text " << support::quote(text));
      }
      for (std::uint64_t i = 0; i < 50; ++i) {
        std::string text = data::make_story(2, i, 50, 500).text;
        // Marks in the text itself, next to spaces and within words.
        for (std::size_t at = i; i % 2 == 1 && at < text.size(); at += 41) {
          if (static_cast<unsigned char>(text[at]) < 0x80) text.replace(at, i % 3 ? 1 : 0, "\xe2\x96\x81");
        }
        cached.encode(text, ids);
        BOOST_REQUIRE(ids == own->encode(text));
      }
    }
  }
}

namespace {

/// Protobuf by hand: the library's classes for it are not installed.
std::string field(int number, std::string_view bytes) {
  std::string out;
  const auto varint = [&](std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
    out += static_cast<char>(value);
  };
  varint(static_cast<std::uint64_t>(number) << 3 | 2);
  varint(bytes.size());
  return out.append(bytes);
}
std::string flag(int number, bool value) {
  std::string out;
  for (const unsigned tag = static_cast<unsigned>(number) << 3; out.empty();) {
    if (tag >= 0x80)
      out += static_cast<char>(tag | 0x80), out += static_cast<char>(tag >> 7);
    else
      out += static_cast<char>(tag);
  }
  return out += static_cast<char>(value);
}

std::string write_model(const std::vector<data::ModelPiece>& pieces, bool byte_fallback, bool dummy_prefix) {
  std::string out;
  for (const data::ModelPiece& piece : pieces) {
    std::string score(4, '\0');
    std::memcpy(score.data(), &piece.score, 4);
    out += field(1, field(1, piece.text) + "\x15" + score + "\x18" + static_cast<char>(piece.type));
  }
  out += field(2, std::string("\x18\x02") + flag(35, byte_fallback));
  return out + field(3, flag(3, dummy_prefix) + flag(4, false) + flag(5, true));
}

/// Pieces of two or three characters over few characters, some of which are no pieces themselves; many equal scores.
std::vector<data::ModelPiece> random_pieces(support::Xoshiro& random, bool byte_fallback) {
  using data::PieceType;
  std::vector<data::ModelPiece> pieces = {
      {"<unk>", 0, PieceType::kUnknown}, {"<s>", 0, PieceType::kControl}, {"</s>", 0, PieceType::kControl}};
  for (int byte = 0; byte < 256 && byte_fallback; ++byte)
    pieces.push_back({fmt::format("<0x{:02X}>", byte), 0, PieceType::kByte});
  std::set<std::string> texts = {"\xe2\x96\x81"};
  const std::vector<std::string> characters = {"a", "b", "c", "\xc3\xa9", "\xe4\xb8\xad", "<"};
  const auto any = [&] { return characters[random.below(characters.size())]; };
  for (const std::string& character : characters) {
    if (random.below(4) > 0) texts.insert(character);
  }
  for (int i = 0; i < 40; ++i) {
    std::string text = random.below(3) == 0 ? "\xe2\x96\x81" : any();
    for (std::uint64_t more = 1 + random.below(3); more > 0; --more) text += any();
    texts.insert(text);
  }
  for (const std::string& text : texts)
    pieces.push_back({text, -static_cast<float>(random.below(12)), PieceType::kNormal});
  if (random.below(2)) pieces.push_back({"\n", 0, PieceType::kUserDefined});
  if (random.below(2) && texts.insert("cb").second) pieces.push_back({"cb", 0, PieceType::kUserDefined});
  return pieces;
}

}  // namespace

/// Models without any training: ids of words are the library's, whatever joins, stays alone or is unknown.
BOOST_AUTO_TEST_CASE(words_of_odd_models_have_the_ids_of_the_library) {
  support::Xoshiro random(11);
  const std::vector<std::string> parts = {"a", "b",  "c",  "\xc3\xa9", "\xe4\xb8\xad",     "<",   "cb",    " ",
                                          " ", "  ", "\n", "z",        "\xf0\x9f\x98\x80", "<s>", "<0x0A>"};
  std::size_t direct = 0;
  for (int model = 0; model < 60; ++model) {
    const bool byte_fallback = model % 2 == 0, dummy_prefix = model % 3 > 0;
    const std::string bytes = write_model(random_pieces(random, byte_fallback), byte_fallback, dummy_prefix);
    const auto tokenizer = data::make_sentencepiece(bytes, "odd");
    const auto words = data::SentencePieceWords::of(data::parse_model(bytes, "odd"));
    BOOST_REQUIRE(words.has_value());
    CachedEncoder cached(*tokenizer);
    BOOST_TEST(cached.caches());
    std::vector<std::int32_t> ids;
    for (int i = 0; i < 60; ++i) {
      std::string text;
      for (std::uint64_t length = random.below(i % 10 == 0 ? 300 : 12); length > 0; --length)
        text += parts[random.below(parts.size())];
      BOOST_REQUIRE(words->encode(text, ids));
      BOOST_REQUIRE_MESSAGE(ids == tokenizer->encode(text), "model " << model << ", text " << support::quote(text));
      cached.encode(text, ids);
      BOOST_REQUIRE_MESSAGE(ids == tokenizer->encode(text), "model " << model << ", text " << support::quote(text));
      direct += !ids.empty();
    }
  }
  BOOST_TEST(direct > 2000u);
}

/// The same by another release of the library, and by models that others trained. Many pairs have one score.
BOOST_AUTO_TEST_CASE(models_of_sentencepiece_have_the_ids_of_its_package,
                     *boost::unit_test::precondition(test::PythonHas{"sentencepiece", test::chosen_python()})) {
  support::Xoshiro random(12);
  std::vector<std::string> texts = odd_texts(), models{train(600)};
  texts.insert(texts.end(),
               {"x\r\ny\r\n\r\n z", "a\u00a0b\u3000c\u2028d", std::string("nul \0 in it", 11), "\x7f\x01\x1b[0m"});
  const std::vector<std::string> parts = {"a",  "b",  "c",    "\xc3\xa9", "\xe4\xb8\xad",     "cb", " ",
                                          "  ", "\n", "\n\n", "z",        "\xf0\x9f\x98\x80", "<",  "\t"};
  for (int i = 0; i < 400; ++i) {
    texts.emplace_back();
    for (std::uint64_t length = random.below(40); length > 0; --length)
      texts.back() += parts[random.below(parts.size())];
  }
  for (int model = 0; model < 12; ++model)
    models.push_back(write_model(random_pieces(random, model % 2 == 0), model % 2 == 0, model % 3 > 0));
  for (const char* name : {"models/mistral-v1-32000.model", "models/bpemb-en-100000.model"}) {
    if (const auto path = test::test_data(name)) models.push_back(support::read_file(*path));
  }
  const test::TempFolder folder;
  std::vector<std::string> command{
      test::chosen_python(), (test::source_root() / "tests/interop/oracles/tokenizers_oracle.py").string(), "pieces"};
  for (const std::string& model : models) {
    command.push_back((folder / std::to_string(command.size())).string());
    support::write_file_atomically(command.back(), model, false);
  }
  const auto ran = support::capture(command, Json(texts).dump(), 256u << 20);
  BOOST_TEST_REQUIRE(ran.status.code == 0, ran.err);
  const Json found = Json::parse(ran.out);
  BOOST_TEST_REQUIRE(found.size() == models.size());
  for (std::size_t model = 0; model < models.size(); ++model) {
    const auto tokenizer = data::make_sentencepiece(models[model], "model");
    CachedEncoder cached(*tokenizer);
    std::vector<std::int32_t> ids;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      cached.encode(texts[i], ids);
      BOOST_TEST(Json(ids) == found[model][i], "model " << model << ", text " << support::quote(texts[i]));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_words_cannot_do_is_left_to_the_library) {
  const auto of = [](const std::vector<data::ModelPiece>& further) {
    std::vector<data::ModelPiece> pieces = {{"<unk>", 0, data::PieceType::kUnknown}, {"\xe2\x96\x81", -1}, {"a", -1}};
    pieces.insert(pieces.end(), further.begin(), further.end());
    return data::SentencePieceWords::of(data::parse_model(write_model(pieces, false, true), "x"));
  };
  BOOST_TEST(of({}).has_value());
  BOOST_TEST(!of({{"b", 0, data::PieceType::kControl}}).has_value());  // found before any other piece
  BOOST_TEST(!of({{"aa", 0, data::PieceType::kUnused}}).has_value());  // taken apart again
  BOOST_TEST(!of({{"\xe2\x96\x81"
                   "b",
                   0, data::PieceType::kUserDefined}})
                  .has_value());
  BOOST_TEST(!of({{"b\xff", 0}}).has_value());
  BOOST_TEST(!of({{"<0x41>", 0, data::PieceType::kByte}}).has_value());  // one byte of 256
  std::vector<std::int32_t> ids;
  BOOST_TEST(!of({})->encode("a\xff", ids));  // the library puts U+FFFD there
  const auto unigram =
      data::parse_model(write_model({{"<unk>", 0, data::PieceType::kUnknown}, {"\xe2\x96\x81", -1}}, false, true), "x");
  data::ParsedModel changed = unigram;
  changed.model_type = data::ModelType::kUnigram;
  BOOST_TEST(!data::SentencePieceWords::of(changed).has_value());
  changed = unigram;
  changed.charsmap_bytes = 10;
  BOOST_TEST(!data::SentencePieceWords::of(changed).has_value());
}

BOOST_AUTO_TEST_CASE(token_bytes_add_up_to_the_text) {
  const auto record = trained().record();
  for (const std::string& text : odd_texts()) {
    if (text.find("\xe2\x96\x81") != std::string::npos) continue;
    const auto ids = trained().encode(text);
    std::size_t bytes = 0;
    for (const std::int32_t id : ids) bytes += record.token_bytes[static_cast<std::size_t>(id)];
    if (record.dummy_prefix && !ids.empty()) --bytes;
    BOOST_TEST(bytes == text.size(), "text " << support::quote(text));
  }
}

BOOST_AUTO_TEST_CASE(parts_of_a_prompt_are_encoded_as_inside_a_text) {
  const auto whole = trained().encode("some words.\nThe number");
  const auto behind = trained().encode_inside("The number");
  BOOST_REQUIRE(whole.size() > behind.size());
  BOOST_TEST(std::equal(behind.rbegin(), behind.rend(), whole.rbegin()));
}

BOOST_AUTO_TEST_CASE(bytes_are_a_tokenizer_too) {
  const auto bytes = data::make_byte_tokenizer();
  const std::string text("\0\xff naïve", 9);
  BOOST_TEST(bytes->encode(text).size() == 9u);
  BOOST_TEST(bytes->decode(bytes->encode(text)) == text);
  BOOST_TEST(bytes->vocabulary() == 258);
  BOOST_TEST(bytes->record().token_bytes[256] == 0u);
  BOOST_TEST(data::make_tokenizer(bytes->record(), "x")->vocabulary() == 258);
  BOOST_TEST(data::make_tokenizer(trained().record(), "x")->record().digest() == trained().record().digest());
}

BOOST_AUTO_TEST_CASE(what_is_no_model_is_refused) {
  const std::string model = train(600);
  for (const std::string& bytes :
       {std::string(), std::string("<html>"), std::string(1000, '\xff'), model.substr(0, model.size() / 2)}) {
    BOOST_CHECK_THROW(data::make_sentencepiece(bytes, "file.model"), support::ArtifactError);
  }
}

/// The library's trie ends the process at a NUL, so none must reach it.
BOOST_AUTO_TEST_CASE(pieces_with_a_nul_are_refused) {
  std::string model = train(600);
  const std::size_t at = model.find("<s>");
  BOOST_REQUIRE(at != std::string::npos);
  model[at + 2] = '\0';
  try {
    data::make_sentencepiece(model, "file.model");
    BOOST_ERROR("it was taken");
  } catch (const support::ArtifactError& error) {
    const std::string what = error.what();
    BOOST_TEST(what.find("'file.model': piece ") != std::string::npos, what);
    BOOST_TEST(what.find(" of the model holds a NUL character") != std::string::npos, what);
  }
}

/// Their digits are an index.
BOOST_AUTO_TEST_CASE(pieces_that_spell_no_byte_are_left_to_the_library) {
  const std::string model = train(600);
  const std::size_t at = model.find("<0x41>");
  BOOST_REQUIRE(at != std::string::npos);
  BOOST_TEST(data::SentencePieceWords::of(data::parse_model(model, "whole")).has_value());
  for (const std::string& piece : {std::string("<0x-1>"), std::string("<0x4G>"), std::string("<0x4a>"),
                                   std::string("<0x 1>"), std::string("<0x41_")}) {
    std::string other = model;
    other.replace(at, piece.size(), piece);
    BOOST_TEST(!data::SentencePieceWords::of(data::parse_model(other, "other")).has_value(), piece);
  }
}

/// The library looks up such a table without asking whether it ends, so a damaged one must not reach it.
BOOST_AUTO_TEST_CASE(damaged_tables_of_normalisation_are_refused,
                     *boost::unit_test::precondition(HasData{"models/spm-test-unigram-1000.model"})) {
  const std::string model = support::read_file(*test::test_data("models/spm-test-unigram-1000.model"));
  const auto parsed = data::parse_model(model, "whole");
  BOOST_TEST(parsed.charsmap_bytes == 237'484u);
  const std::size_t at = model.find(std::string("\0\xB4\x02\0", 4));  // the table begins with the size of its trie
  BOOST_REQUIRE(at != std::string::npos);
  support::Xoshiro random(5);
  int refused = 0;
  for (int i = 0; i < 60; ++i) {
    std::string damaged = model;
    for (int k = 0; k < 50; ++k)
      damaged[at + random.below(i < 30 ? 4 : 177'156)] = static_cast<char>(random.below(256));
    try {
      const auto tokenizer = data::make_sentencepiece(damaged, "damaged.model");
      for (const std::string& text : odd_texts())
        tokenizer->encode(text);  // any ids are fine, and nothing else happens
    } catch (const support::ArtifactError& error) {
      ++refused;
      BOOST_TEST(std::string(error.what()).find("'damaged.model': the model's table of normalisation is corrupt") !=
                     std::string::npos,
                 error.what());
    }
  }
  BOOST_TEST(refused > 30);
}

BOOST_AUTO_TEST_CASE(ids_are_the_golden_ones, *boost::unit_test::precondition(HasData{"models/golden-ids.tsv"})) {
  std::ifstream in(*test::test_data("models/golden-ids.tsv"));
  std::string line;
  std::getline(in, line);
  std::map<std::string, std::unique_ptr<Tokenizer>> tokenizers;
  int compared = 0;
  while (std::getline(in, line)) {
    const auto columns = support::split(line, '\t');
    // Whole books as one document take a second each without the cache; lines and stories cover the same code.
    if (columns[2] == "whole" && columns[1] != "alice.txt") continue;
    if (columns[6] != "yes") continue;  // unigram ids hang on the library's version
    auto& tokenizer = tokenizers[columns[0]];
    if (!tokenizer) {
      const auto path = *test::test_data("models/" + columns[0]);
      tokenizer = data::make_sentencepiece(support::read_file(path), path.string());
    }
    const std::string text = support::read_file(*test::test_data("text/" + columns[1]));
    const std::string separator = columns[2] == "line"  ? "\n"
                                  : columns[2] == "sep" ? "\n<|endoftext|>\n"
                                                        : std::string();
    support::Sha256 hash;
    CachedEncoder encoder(*tokenizer);
    std::vector<std::int32_t> ids;
    std::size_t count = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = separator.empty() ? std::string::npos : text.find(separator, at);
      encoder.encode(std::string_view(text).substr(at, end == std::string::npos ? end : end - at), ids);
      hash.update(ids.data(), ids.size() * sizeof(std::int32_t));
      count += ids.size();
      at = end == std::string::npos ? text.size() : end + separator.size();
    }
    BOOST_TEST(std::to_string(count) == columns[4], columns[0] << " " << columns[1] << " " << columns[2]);
    BOOST_TEST(hash.hex() == columns[7], columns[0] << " " << columns[1] << " " << columns[2]);
    ++compared;
  }
  BOOST_TEST(compared >= 12);
}

BOOST_AUTO_TEST_SUITE_END()

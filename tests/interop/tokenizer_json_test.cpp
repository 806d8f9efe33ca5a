// Tokenizers out and in, compared with the tokenizers package and llama.cpp where a Python on this machine has them.
#include "interop/tokenizer_json.h"

#include <boost/test/unit_test.hpp>

#include "data/odd_texts.h"
#include "data/sources/stories.h"
#include "data/tokenizers/byte_level_bpe.h"
#include "data/tokenizers/sentencepiece_model.h"
#include "data/tokenizers/tokenizer.h"
#include "data/tokenizers/tokenizer_training.h"
#include "interop/gguf.h"
#include "interop/gguf_tokenizer.h"
#include "interop/hf_files.h"
#include "support/error.h"
#include "support/files.h"
#include "support/installed.h"
#include "support/process.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

using namespace pe;
using boost::unit_test::precondition;
using test::chosen_python;
using test::PythonHas;

namespace {

std::vector<std::string> stories() {
  std::vector<std::string> texts;
  for (std::uint64_t i = 0; i < 120; ++i)
    texts.push_back(data::make_story(1, i, 50, 500).text + "  In 1897 it's 3,204.\n\n\tEnd.");
  return texts;
}

std::unique_ptr<data::Tokenizer> trained(bool dummy_prefix) {
  const auto texts = stories();
  std::size_t next = 0;
  return data::make_sentencepiece(data::train_bpe({.vocabulary = 900, .dummy_prefix = dummy_prefix},
                                                  [&](std::string& text) {
                                                    if (next == texts.size()) return false;
                                                    text = texts[next++];
                                                    return true;
                                                  }),
                                  "trained");
}

const std::vector<std::string>& odd_texts() {
  static const std::vector<std::string> texts = [] {
    std::vector<std::string> made = test::odd_texts();
    made.insert(made.end(),
                {"\ttab\t\t", "1234567890 12 345,678.9", "it's we'll I'M they'RE", "x\r\ny\r\n\r\n z",
                 "a\u00a0b\u3000c\u2028d", "½ ² ٣ Ⅷ 7th", "don't  --  stop!!!  (now)\n\n\n  ok", "\n\nThe end.\n"});
    for (int spaces = 1; spaces <= 40; ++spaces) {
      made.push_back("a" + std::string(static_cast<std::size_t>(spaces), ' ') + "b");
      made.push_back(std::string(static_cast<std::size_t>(spaces), ' '));
      made.push_back("a\n" + std::string(static_cast<std::size_t>(spaces), '\n') + " b");
    }
    return made;
  }();
  return texts;
}

Json python(const std::vector<std::string>& words, const Json& input,
            const std::string& oracle = "tokenizers_oracle.py") {
  std::vector<std::string> command{chosen_python(), (test::source_root() / "tests/interop/oracles" / oracle).string()};
  command.insert(command.end(), words.begin(), words.end());
  const auto ran = support::capture(command, input.dump(), 256u << 20);
  BOOST_TEST_REQUIRE(ran.status.code == 0, ran.err);
  return ran.out.empty() ? Json() : Json::parse(ran.out);
}

void compare_ids(const data::Tokenizer& tokenizer, const std::filesystem::path& file,
                 const std::vector<std::string>& texts, const std::string& oracle = "tokenizers_oracle.py") {
  const Json found = python({"ids", file.string()}, texts, oracle);
  BOOST_TEST_REQUIRE(found.at("ids").size() == texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    BOOST_TEST(found.at("ids")[i] == Json(tokenizer.encode(texts[i])), "text " << i << ": " << texts[i].substr(0, 60));
  }
}

std::vector<std::string> many_texts() {
  std::vector<std::string> texts = odd_texts();
  for (const std::string& story : stories()) texts.push_back(story);
  for (const char* name :
       {"text/tinystories.txt", "text/alice.txt", "text/wagahai-ja.txt", "tinystories.txt", "alice.txt"}) {
    if (const auto path = test::test_data(name)) {
      const std::string all = support::read_file(*path);
      std::size_t end = std::min<std::size_t>(all.size(), 30000);
      while (end < all.size() && (static_cast<unsigned char>(all[end]) & 0xC0) == 0x80) ++end;
      std::string text = all.substr(0, end);
      for (std::size_t at = text.find("<|"); at != std::string::npos; at = text.find("<|", at)) text.erase(at, 2);
      texts.push_back(text);  // a text that spells a control token is that token in the package
    }
  }
  return texts;
}

std::string written(const test::TempFolder& folder, const Json& json) {
  support::write_file_atomically(folder / "tokenizer.json", json.dump(), false);
  return (folder / "tokenizer.json").string();
}

/// A file of llama.cpp with the tokenizer and a model of one narrow layer, without which llama.cpp does not load it.
std::string written_for_llama_cpp(const test::TempFolder& folder, const data::Tokenizer& tokenizer) {
  constexpr std::int64_t kWidth = 8;
  interop::GgufValues values = interop::gguf_tokenizer(tokenizer.record(), tokenizer.vocabulary(), "here");
  values.merge(interop::GgufValues{{"general.architecture", "llama"},
                                   {"llama.attention.layer_norm_rms_epsilon", 1e-5},
                                   {"llama.attention.head_count", std::int64_t{1}},
                                   {"llama.block_count", std::int64_t{1}}});
  for (const char* size : {"context", "embedding", "feed_forward"})
    values["llama." + std::string(size) + "_length"] = kWidth;
  std::vector<interop::SafetensorsTensor> tensors;
  const auto add = [&](const std::string& name, const std::vector<std::int64_t>& shape) {
    const std::int64_t count = shape[0] * (shape.size() > 1 ? shape[1] : 1);
    const std::string bytes(static_cast<std::size_t>(4 * count), '\0');
    tensors.push_back({name + ".weight", "F32", shape, [bytes](const interop::ByteSink& sink) { sink(bytes); }});
  };
  add("token_embd", {tokenizer.vocabulary(), kWidth});
  for (const char* name : {"output_norm", "blk.0.attn_norm", "blk.0.ffn_norm"}) add(name, {kWidth});
  for (const char* name : {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
    add(std::string("blk.0.") + name, {kWidth, kWidth});
  interop::write_gguf(folder / "tokenizer.gguf", values, tensors);
  return (folder / "tokenizer.gguf").string();
}

std::string refusal(const Json& json, const interop::TokenizerHints& hints = {}) {
  std::string note;
  try {
    interop::byte_level_from_json(json.dump(), hints, "tokenizer.json", note);
  } catch (const support::ArtifactError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Json added(std::int64_t id, const std::string& content, bool normalized) {
  return {{"id", id},        {"content", content},       {"single_word", false}, {"lstrip", false},
          {"rstrip", false}, {"normalized", normalized}, {"special", false}};
}

/// Runs of spaces as GPT-NeoX has them, and a mark as of Qwen 2.5, where `mark` says.
void add_ordinary_tokens(Json& json, bool mark) {
  auto id = static_cast<std::int64_t>(json["model"]["vocab"].size());
  for (const std::size_t spaces : {2u, 3u, 5u, 8u}) {
    json["added_tokens"].push_back(added(id++, std::string(spaces, ' '), mark));
  }
  if (mark) json["added_tokens"].push_back(added(id++, "<tool  call>", false));
}

std::vector<std::string> texts_with_added_tokens() {
  std::vector<std::string> texts = many_texts();
  for (const char* text :
       {"<tool  call>", "a <tool  call> b", "  <tool  call>  \n x", "<tool  call", "1  <tool  call>2  3",
        "if (x):\n        y = 1\n    z", "it's   the   end     ", "\n  \n   \n"})
    texts.emplace_back(text);
  return texts;
}

Json bytes() { return interop::tokenizer_json(data::make_byte_tokenizer()->record(), "bytes"); }

}  // namespace

BOOST_AUTO_TEST_SUITE(tokenizer_json)

BOOST_AUTO_TEST_CASE(trained_tokenizers_give_the_ids_of_the_package,
                     *precondition(PythonHas{"tokenizers", chosen_python()})) {
  for (const bool prefix : {true, false}) {
    const test::TempFolder folder;
    const auto tokenizer = trained(prefix);
    compare_ids(*tokenizer, written(folder, interop::tokenizer_json(tokenizer->record(), "trained")), many_texts());
  }
}

/// The cache gives the same ids, and they give the text again.
static void check_cached(const data::Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  data::CachedEncoder cached(tokenizer);
  std::vector<std::int32_t> ids;
  for (const std::string& text : texts) {
    cached.encode(text, ids);
    BOOST_TEST(ids == tokenizer.encode(text));
    BOOST_TEST(tokenizer.decode(ids) == text);
  }
}

BOOST_AUTO_TEST_CASE(bytes_give_the_ids_of_the_package, *precondition(PythonHas{"tokenizers", chosen_python()})) {
  const test::TempFolder folder;
  const auto tokenizer = data::make_byte_tokenizer();
  compare_ids(*tokenizer, written(folder, bytes()), many_texts());
}

BOOST_AUTO_TEST_CASE(tokenizers_of_the_package_give_their_ids_here,
                     *precondition(PythonHas{"tokenizers", chosen_python()})) {
  for (const char* kind : {"gpt2", "digits", "llama3", "qwen2"}) {
    BOOST_TEST_CONTEXT(kind) {
      const test::TempFolder folder;
      const std::string file = (folder / "tokenizer.json").string();
      python({"train", kind, file}, stories());
      std::string note;
      const std::string packed = interop::byte_level_from_json(
          support::read_file(file), {.bos = "<|endoftext|>", .eos = "<|endoftext|>", .rows = 700}, file, note);
      const auto tokenizer = data::make_byte_level(packed, file);
      BOOST_TEST(tokenizer->vocabulary() == 700);
      BOOST_TEST(tokenizer->piece(tokenizer->eos_id()) == "<|endoftext|>");
      compare_ids(*tokenizer, file, many_texts());
      // Out again, and the same.
      const test::TempFolder other;
      compare_ids(*tokenizer, written(other, interop::tokenizer_json(tokenizer->record(), "back")), many_texts());
      const auto again = data::make_tokenizer(tokenizer->record(), "again");
      BOOST_TEST(again->record().digest() == tokenizer->record().digest());
      check_cached(*tokenizer, odd_texts());
    }
  }
}

BOOST_AUTO_TEST_CASE(added_tokens_that_are_text_give_the_ids_of_the_package,
                     *precondition(PythonHas{"tokenizers", chosen_python()})) {
  for (const char* kind : {"gpt2", "digits", "llama3", "qwen2"}) {
    BOOST_TEST_CONTEXT(kind) {
      const test::TempFolder folder;
      const std::string file = (folder / "tokenizer.json").string();
      python({"train", kind, file}, stories());
      Json json = Json::parse(support::read_file(file));
      add_ordinary_tokens(json, true);
      written(folder, json);
      std::string note;
      const auto tokenizer =
          data::make_byte_level(interop::byte_level_from_json(json.dump(), {.eos = "<|endoftext|>"}, file, note), file);
      compare_ids(*tokenizer, file, texts_with_added_tokens());
      const test::TempFolder other;
      compare_ids(*tokenizer, written(other, interop::tokenizer_json(tokenizer->record(), "back")),
                  texts_with_added_tokens());
      check_cached(*tokenizer, texts_with_added_tokens());
    }
  }
}

BOOST_AUTO_TEST_CASE(added_tokens_that_are_text_are_cut_out_first) {
  Json json = bytes();
  add_ordinary_tokens(json, true);  // 258 to 261: spaces, 262: the mark
  std::string note;
  const auto read = [&](const Json& of, const interop::TokenizerHints& hints = {}) {
    return data::make_byte_level(interop::byte_level_from_json(of.dump(), hints, "here", note), "here");
  };
  const auto tokenizer = read(json);
  using Ids = std::vector<std::int32_t>;
  BOOST_TEST(tokenizer->encode("a       b") == (Ids{'a', 260, 258, 'b'}));
  BOOST_TEST(tokenizer->encode("<tool  call>  <") == (Ids{262, 258, '<'}));
  BOOST_TEST(tokenizer->encode("\xff  \xfe") == (Ids{255, 258, 254}));
  BOOST_TEST(tokenizer->record().token_bytes.at(262) == 12);
  BOOST_TEST(tokenizer->is_text(260));
  BOOST_TEST(data::make_tokenizer(tokenizer->record(), "again")->encode("   ") == (Ids{259}));
  BOOST_TEST(tokenizer->record().digest() != read(bytes())->record().digest());

  // A control token stays text, also where the file does not call it special.
  BOOST_TEST(read(json, {.eos = "<tool  call>"})->encode("<tool  call>") ==
             (Ids{'<', 't', 'o', 'o', 'l', 258, 'c', 'a', 'l', 'l', '>'}));
  Json special = json;
  special["added_tokens"].back()["special"] = true;
  BOOST_TEST(read(special)->encode("<tool  call>").size() == 11u);

  const auto changed = [&](const char* name, const Json& value) {
    Json other = json;
    other["added_tokens"].back()[name] = value;
    return refusal(other);
  };
  BOOST_TEST(has(changed("lstrip", true), "added token <tool  call>: lstrip, rstrip or single_word is true"));
  BOOST_TEST(has(changed("single_word", true), "expected false where special is false"));
  BOOST_TEST(has(changed("special", 3), "special is 3, expected true or false"));
  special["added_tokens"].back()["lstrip"] = true;
  BOOST_TEST(refusal(special) == "");
}

BOOST_AUTO_TEST_CASE(added_tokens_that_overlap_have_no_form_for_llama_cpp) {
  const auto reason = [](const std::vector<std::string>& pieces) -> std::string {
    Json json = bytes();
    std::int64_t id = 258;
    for (const std::string& piece : pieces) json["added_tokens"].push_back(added(id++, piece, false));
    std::string note;
    const interop::TokenizerHints hints{.eos = json["added_tokens"][1]["content"]};
    const auto tokenizer =
        data::make_byte_level(interop::byte_level_from_json(json.dump(), hints, "here", note), "here");
    try {
      interop::gguf_tokenizer(tokenizer->record(), tokenizer->vocabulary(), "here");
    } catch (const support::ConfigError& error) {
      return error.what();
    }
    return "";
  };
  BOOST_TEST(reason({"  ", "   ", "<tool>", "</tool>"}) == "");
  BOOST_TEST(has(reason({"ab", "bcd"}), "pieces 'ab' and 'bcd' overlap in text"));
}

BOOST_AUTO_TEST_CASE(llama_cpp_gives_our_ids, *precondition(PythonHas{"cyllama, tokenizers", chosen_python()})) {
  std::vector<std::unique_ptr<data::Tokenizer>> tokenizers;
  for (const bool prefix : {true, false}) tokenizers.push_back(trained(prefix));
  tokenizers.push_back(data::make_byte_tokenizer());
  for (const char* kind : {"gpt2", "digits", "llama3", "qwen2"}) {
    const test::TempFolder folder;
    const std::string file = (folder / "tokenizer.json").string();
    python({"train", kind, file}, stories());
    std::string note;
    tokenizers.push_back(data::make_byte_level(
        interop::byte_level_from_json(support::read_file(file), {.eos = "<|endoftext|>"}, file, note), kind));
  }
  if (const auto path = test::test_data("models/mistral-v1-32000.model"))
    tokenizers.push_back(data::make_sentencepiece(support::read_file(*path), "mistral"));
  const test::TempFolder with_spaces;
  python({"train", "gpt2", (with_spaces / "tokenizer.json").string()}, stories());
  Json json = Json::parse(support::read_file(with_spaces / "tokenizer.json"));
  add_ordinary_tokens(json, false);
  std::string note;
  tokenizers.push_back(data::make_byte_level(
      interop::byte_level_from_json(json.dump(), {.eos = "<|endoftext|>"}, "spaces", note), "spaces"));
  for (std::size_t i = 0; i < tokenizers.size(); ++i) {
    BOOST_TEST_CONTEXT("tokenizer " << i) {
      const test::TempFolder folder;
      compare_ids(*tokenizers[i], written_for_llama_cpp(folder, *tokenizers[i]), many_texts(), "llama_cpp_oracle.py");
    }
  }
}

BOOST_AUTO_TEST_CASE(what_has_no_form_is_refused_with_the_reason) {
  const auto reason = [](const artifact::TokenizerRecord& record) -> std::string {
    try {
      interop::tokenizer_json(record, "here");
    } catch (const support::ConfigError& error) {
      return error.what();
    }
    return "";
  };
  if (const auto path = test::test_data("models/spm-test-unigram-1000.model")) {
    BOOST_TEST(has(reason(data::make_sentencepiece(support::read_file(*path), "u")->record()), "is no BPE model"));
  }
  if (const auto path = test::test_data("models/mistral-v1-32000.model")) {
    BOOST_TEST(has(reason(data::make_sentencepiece(support::read_file(*path), "m")->record()), "have one score"));
  }
  artifact::TokenizerRecord unknown;
  unknown.kind = "runes";
  BOOST_CHECK_THROW(interop::tokenizer_json(unknown, "here"), support::Error);
}

BOOST_AUTO_TEST_CASE(rows_beyond_the_last_piece_become_pieces_that_no_text_gives) {
  const auto plain = trained(true);
  const std::int64_t pieces = plain->vocabulary(), rows = pieces + 200;
  const std::vector<std::string> more = interop::unused_row_pieces(pieces, {.rows = rows, .unused_rows = true}, "here");
  BOOST_TEST_REQUIRE(more.size() == 200u);
  const auto padded = data::make_sentencepiece(data::with_unused_pieces(plain->record().model, more), "padded");
  BOOST_TEST(padded->vocabulary() == rows);
  BOOST_TEST(padded->piece(static_cast<std::int32_t>(rows - 1)) == more.back());
  for (const std::string& text : odd_texts()) BOOST_TEST(padded->encode(text) == plain->encode(text), text);
  BOOST_TEST(padded->encode(more[0]) == plain->encode(more[0]));

  const std::string vocab = bytes().at("model").at("vocab").dump();
  const auto rows_of = [&](const interop::TokenizerHints& hints) {
    return data::make_byte_level(interop::byte_level_from_files(vocab, "", hints, "here"), "here")->vocabulary();
  };
  BOOST_TEST(rows_of({.rows = 258}) == 258);
  BOOST_TEST(rows_of({.rows = 300, .unused_rows = true}) == 300);
  BOOST_CHECK_THROW(rows_of({.rows = 300}), support::ArtifactError);
}

BOOST_AUTO_TEST_CASE(the_class_of_a_tokenizer_says_how_vocab_json_is_cut) {
  const test::TempFolder folder;
  support::write_file_atomically(folder / "vocab.json", bytes().at("model").at("vocab").dump(), false);
  support::write_file_atomically(folder / "merges.txt", "#version: 0.2\n", false);
  const auto read = [&](const Json& config, const std::string& architecture, std::int64_t rows = 258) {
    support::write_file_atomically(folder / "tokenizer_config.json", config.dump(), false);
    std::string note;
    const auto record = interop::read_hf_tokenizer(folder.path(), architecture, rows, false, note);
    BOOST_TEST(note.empty() == (data::unpack_byte_level(record.model, "here").words == data::WordRule::kGpt2));
    return data::unpack_byte_level(record.model, "here");
  };
  const auto rule = [&](const Json& config, const std::string& architecture) {
    return data::word_rule_name(read(config, architecture).words);
  };
  BOOST_TEST(rule({{"tokenizer_class", "GPT2TokenizerFast"}}, "llama") == "gpt2");
  BOOST_TEST(rule({{"tokenizer_class", "Qwen2Tokenizer"}}, "llama") == "qwen2");
  BOOST_TEST(rule(Json::object(), "gpt2") == "gpt2");
  BOOST_TEST(rule(Json::object(), "qwen3") == "qwen2");
  const auto reason = [&](const Json& config, const std::string& architecture) -> std::string {
    try {
      read(config, architecture);
    } catch (const support::ArtifactError& error) {
      return error.what();
    }
    return "";
  };
  BOOST_TEST(has(reason({{"tokenizer_class", "LlamaTokenizerFast"}}, "gpt2"), "tokenizer_class is LlamaTokenizerFast"));
  BOOST_TEST(has(reason(Json::object(), "llama"), "the model is 'llama'"));

  // Qwen 2 keeps its control tokens outside vocab.json.
  const auto with = [](const char* id, const Json& token) {
    return Json{{"eos_token", "<|end|>"}, {"added_tokens_decoder", {{id, token}}}};
  };
  BOOST_TEST(has(reason({{"tokenizer_class", "GPT2Tokenizer"}, {"add_prefix_space", true}}, "gpt2"),
                 "add_prefix_space is true; only false is supported"));
  const auto marked = read({{"added_tokens_decoder", {{"258", added(258, "<tool_call>", false)}}}}, "qwen2", 259);
  BOOST_TEST((marked.cut_first == data::CutPieces{{"<tool_call>"}}));
  const auto files = read(with("258", {{"content", "<|end|>"}}), "qwen2", 259);
  BOOST_TEST(files.cut_first.empty());
  BOOST_TEST(files.eos == "<|end|>");
  BOOST_TEST(Json::parse(files.vocab).at("<|end|>") == 258);
  BOOST_TEST(has(reason(with("seven", {{"content", "<|end|>"}}), "qwen2"), "entry seven is no id"));
  BOOST_TEST(has(reason(with("9", {{"content", "a"}}), "qwen2"), "added token a has id 9, in vocab.json"));
}

BOOST_AUTO_TEST_CASE(tokenizers_that_are_not_understood_are_refused) {
  Json good = bytes();
  BOOST_TEST(refusal(good) == "");
  BOOST_TEST(has(refusal(good, {.rows = 300}), "the tokenizer has 258 pieces, the embedding 300 rows"));
  BOOST_TEST(has(refusal(good, {.rows = 200}), "the tokenizer belongs to another model"));
  BOOST_TEST(refusal(good, {.rows = 300, .unused_rows = true}) == "");
  BOOST_TEST(has(refusal(good, {.bos = "<no>", .eos = "</s>"}), "the vocabulary has no piece <no>"));
  BOOST_TEST(has(refusal(Json::array()), "expected a tokenizer with a model"));
  const auto of_text = [](const std::string& text) {
    std::string note;
    try {
      interop::byte_level_from_json(text, {}, "tokenizer.json", note);
    } catch (const support::ArtifactError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  BOOST_TEST(has(of_text("{}}"), "is not JSON"), of_text("{}}"));
  BOOST_TEST(has(of_text(std::string(100, '[')), "nested deeper than 16"), of_text(std::string(100, '[')));
  const auto changed = [&](const char* pointer, const Json& value) {
    Json json = good;
    json[Json::json_pointer(pointer)] = value;
    return refusal(json);
  };
  BOOST_TEST(has(changed("/model/type", "Unigram"), "expected a model of type BPE, found Unigram"));
  BOOST_TEST(has(changed("/model/byte_fallback", true), "put its tokenizer.model into the folder"));
  BOOST_TEST(has(changed("/model/dropout", 0.1), "drop out by chance"));
  BOOST_TEST(has(changed("/normalizer", {{"type", "Lowercase"}}), "normalizer Lowercase is not supported"));
  BOOST_TEST(has(changed("/pre_tokenizer", {{"type", "Metaspace"}}), "pre_tokenizer"));
  BOOST_TEST(has(changed("/pre_tokenizer/add_prefix_space", true), "is not supported"));
  Json words = good;
  words["pre_tokenizer"]["use_regex"] = true;
  const auto with_merges = [&](const Json& merges) {
    words["model"]["merges"] = merges;
    return refusal(words);
  };
  BOOST_TEST(has(with_merges(Json::array({3})), "is no pair of pieces"));
  BOOST_TEST(has(with_merges(Json::array({"a zz"})), "lacks a piece of this merge"));
  BOOST_TEST(has(changed("/model/vocab/a", 3), "occurs twice"));
  BOOST_TEST(has(changed("/added_tokens/0/id", 5), "has id 5, in model.vocab 256"));
  std::string note;
  Json nfc = good;
  nfc["normalizer"] = {{"type", "NFC"}};
  interop::byte_level_from_json(nfc.dump(), {}, "t", note);
  BOOST_TEST(has(note, "NFC is left out"));
}

BOOST_AUTO_TEST_SUITE_END()

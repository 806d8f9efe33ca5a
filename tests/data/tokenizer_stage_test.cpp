#include "data/tokenizers/tokenizer_stage.h"

#include <boost/test/unit_test.hpp>

#include "artifact/artifact_check.h"
#include "artifact/h5.h"
#include "data/raw_texts.h"
#include "data/sources/stories.h"
#include "data/token_shards/inspect.h"
#include "data/token_shards/token_dataset.h"
#include "data/token_shards/tokenize.h"
#include "data/tokenizers/tokenizer_training.h"
#include "support/error.h"
#include "support/files.h"
#include "support/installed.h"
#include "support/peak_memory.h"
#include "support/process.h"
#include "support/recording_progress.h"
#include "support/temp_folder.h"
#include "support/test_data.h"
#include "text_without_spaces.h"

using namespace pe;
using artifact::Kind;
using artifact::TokenizerRecord;
using data::TokenDataset;
using data::TokenizeConfig;
using data::TokenizerStageConfig;
using test::HasData;
using test::PythonHas;
using test::some_stories;
using test::write_raw;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(tokenizer_stage)

namespace {

/// Without `raw` there is no input.
void make(const TokenizerStageConfig& config, const fs::path& raw, const fs::path& out,
          support::Progress& progress = support::silent_progress()) {
  artifact::Workspace workspace;
  if (!raw.empty()) workspace.inputs["raw"] = {{raw, Kind::kRawText, "", {}}};
  workspace.outputs["tokenizer"] = out;
  workspace.progress = &progress;
  data::make_tokenizer_artifact(config, workspace);
}

/// Without `tokenizer` there is no such input.
void tokenize(const TokenizeConfig& config, const fs::path& raw, const fs::path& tokenizer, const fs::path& out) {
  artifact::Workspace workspace;
  workspace.inputs["raw"] = {{raw, Kind::kRawText, "", {}}};
  if (!tokenizer.empty()) workspace.inputs["tokenizer"] = {{tokenizer, Kind::kTokenizer, "", {}}};
  workspace.outputs["data"] = out;
  workspace.progress = &support::silent_progress();
  data::tokenize(config, workspace);
}

TokenizerStageConfig trained_config() {
  TokenizerStageConfig config;
  config.vocabulary = 600;
  return config;
}

TokenizerStageConfig gpt2_config() {
  TokenizerStageConfig config;
  config.tokenizer = data::TokenizerConfig::Tokenizer::kGpt2;
  config.model = test::test_data("models/gpt2-vocab.json")->string();
  config.merges = test::test_data("models/gpt2-merges.txt")->string();
  return config;
}

std::string digest_of(const fs::path& path) { return artifact::artifact_content_digest(path); }

template <typename Error>
auto says(const char* part) {
  return [part](const Error& error) { return std::string(error.what()).find(part) != std::string::npos; };
}

/// The ids that a package gives for the texts, by a Python program that prints them as JSON.
Json ids_of_package(const std::string& program, const fs::path& files, const std::vector<std::string>& texts,
                    const fs::path& folder) {
  support::write_file_atomically(folder / "texts.json", Json(texts).dump(), false);
  const auto ran =
      support::capture({test::chosen_python(), "-c", program, files.string(), (folder / "texts.json").string()});
  BOOST_REQUIRE_MESSAGE(ran.status.code == 0, ran.err);
  return Json::parse(ran.out);
}

}  // namespace

/// Trained once, used for other text: the ids equal that tokenizer's, and data that share it fit one model.
BOOST_AUTO_TEST_CASE(a_tokenizer_of_its_own_serves_many_corpora) {
  const test::TempFolder folder;
  write_raw(folder / "raw", some_stories(300));
  write_raw(folder / "other",
            {"Another text, which the tokenizer has never seen.", "And one more of that kind, for the split."});
  test::RecordingProgress progress;
  make(trained_config(), folder / "raw", folder / "tokenizer.h5", progress);
  BOOST_TEST(progress.has(" of memory\n"), progress.lines);
  BOOST_TEST(progress.has(" bytes per token, "));
  BOOST_TEST(progress.has("tokens per document, at most: "));
  artifact::check_artifact(folder / "tokenizer.h5", Kind::kTokenizer);
  // The same training inside pe-tokenize gives the same tokenizer.
  TokenizeConfig inside;
  inside.vocabulary = 600;
  tokenize(inside, folder / "raw", {}, folder / "inside");
  const TokenizerRecord record = artifact::read_tokenizer(folder / "tokenizer.h5");
  BOOST_TEST(record.digest() == TokenDataset(folder / "inside").tokenizer_digest());

  TokenizeConfig config;
  config.tokenizer = TokenizeConfig::Tokenizer::kInput;
  tokenize(config, folder / "raw", folder / "tokenizer.h5", folder / "a");
  tokenize(config, folder / "other", folder / "tokenizer.h5", folder / "b");
  BOOST_TEST(digest_of(folder / "a") == digest_of(folder / "inside"));
  BOOST_TEST(TokenDataset(folder / "b").tokenizer_digest() == record.digest());
  BOOST_CHECK_EXCEPTION(tokenize(config, folder / "raw", {}, folder / "c"), support::ConfigError,
                        says<support::ConfigError>("tokenizer: input needs an input 'tokenizer'"));
  BOOST_CHECK_EXCEPTION(tokenize(inside, folder / "raw", folder / "tokenizer.h5", folder / "d"), support::ConfigError,
                        says<support::ConfigError>("set tokenizer: input"));
  BOOST_CHECK_EXCEPTION(make(trained_config(), {}, folder / "e.h5"), support::ConfigError,
                        says<support::ConfigError>("tokenizer: bpe needs an input 'raw'"));
}

/// The book of one run: both stages train on it, each in a separate process.
BOOST_AUTO_TEST_CASE(a_split_pattern_that_matches_nothing_ends_the_training) {
  test::TempFolder folder;
  write_raw(folder / "raw", some_stories(300));
  TokenizerStageConfig config = trained_config();
  config.split.test_files = {"txets"};
  try {
    make(config, folder / "raw", folder / "tokenizer.h5");
    BOOST_ERROR("the tokenizer was trained on the text of the test");
  } catch (const support::ConfigError& error) {
    BOOST_TEST(std::string(error.what()).find("no source that keeps a document matches 'txets'") != std::string::npos,
               error.what());
  }
}

BOOST_AUTO_TEST_CASE(text_without_spaces_goes_through_both_stages) {
  const test::TempFolder folder;
  std::vector<std::string> texts = some_stories(20);
  texts.push_back(test::text_without_spaces(110'000));
  write_raw(folder / "raw", texts, 1 << 20);
  TokenizerStageConfig config;
  config.vocabulary = 600;
  config.split = {.validation = 0, .test = 0};
  make(config, folder / "raw", folder / "tokenizer.h5");
  TokenizeConfig inside;
  inside.vocabulary = 600;
  inside.split = config.split;
  inside.check_roundtrip = true;
  tokenize(inside, folder / "raw", {}, folder / "inside");
  const TokenDataset dataset(folder / "inside");
  BOOST_TEST(artifact::read_tokenizer(folder / "tokenizer.h5").digest() == dataset.tokenizer_digest());
}

BOOST_AUTO_TEST_CASE(a_tokenizer_is_told_and_comes_out_as_its_own_files) {
  const test::TempFolder folder;
  write_raw(folder / "raw", some_stories(100));
  make(trained_config(), folder / "raw", folder / "tokenizer.h5");
  const std::string told = data::inspect(folder / "tokenizer.h5", {});
  const auto has = [&](const char* part) { return told.find(part) != std::string::npos; };
  BOOST_TEST(has("tokenizer sentencepiece"), told);
  BOOST_TEST(has("vocabulary 600"));
  BOOST_TEST(has("BOS 1, EOS 2, unknown 0, padding none"));
  const std::string written = data::export_tokenizer(data::tokenizer_of(folder / "tokenizer.h5"), folder / "files");
  BOOST_TEST(written == (folder / "files/tokenizer.model").string());
  // An exported tokenizer is read back as the same tokenizer, and without text to train on.
  TokenizerStageConfig import;
  import.tokenizer = data::TokenizerConfig::Tokenizer::kFile;
  import.model = written;
  make(import, {}, folder / "again.h5");
  BOOST_TEST(digest_of(folder / "again.h5") == digest_of(folder / "tokenizer.h5"));
  // Token shards hold it, too.
  TokenizeConfig config;
  config.tokenizer = TokenizeConfig::Tokenizer::kInput;
  tokenize(config, folder / "raw", folder / "again.h5", folder / "data");
  data::export_tokenizer(data::tokenizer_of(folder / "data"), folder / "of_shards");
  BOOST_TEST(support::read_file(folder / "of_shards/tokenizer.model") ==
             support::read_file(folder / "files/tokenizer.model"));
  BOOST_CHECK_THROW(data::inspect(folder / "files/tokenizer.model", {}), support::ArtifactError);
  BOOST_CHECK_THROW(data::export_tokenizer(data::make_byte_tokenizer()->record(), folder / "none"),
                    support::ConfigError);
  BOOST_TEST(!fs::exists(folder / "none"));
}

BOOST_AUTO_TEST_CASE(its_own_package_reads_an_exported_model,
                     *boost::unit_test::precondition(PythonHas{"sentencepiece", test::chosen_python()})) {
  const test::TempFolder folder;
  const auto texts = some_stories(100);
  write_raw(folder / "raw", texts);
  make(trained_config(), folder / "raw", folder / "tokenizer.h5");
  const TokenizerRecord record = data::tokenizer_of(folder / "tokenizer.h5");
  data::export_tokenizer(record, folder / "files");
  const Json found = ids_of_package(
      "import json, sys, sentencepiece\n"
      "model = sentencepiece.SentencePieceProcessor(model_file=sys.argv[1] + '/tokenizer.model')\n"
      "print(json.dumps([model.encode(text) for text in json.load(open(sys.argv[2], encoding='utf-8'))]))\n",
      folder / "files", texts, folder.path());
  const auto tokenizer = data::make_tokenizer(record, "the artifact");
  BOOST_REQUIRE(found.size() == texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i)
    BOOST_REQUIRE((found[i].get<std::vector<std::int32_t>>() == tokenizer->encode(texts[i])));
}

BOOST_AUTO_TEST_CASE(gpt2_comes_out_as_it_went_in, *boost::unit_test::precondition(HasData{"models/gpt2-vocab.json"})) {
  const test::TempFolder folder;
  make(gpt2_config(), {}, folder / "gpt2.h5");
  data::export_tokenizer(data::tokenizer_of(folder / "gpt2.h5"), folder / "files");
  BOOST_TEST((support::read_file(folder / "files/vocab.json") == support::read_file(gpt2_config().model)));
  BOOST_TEST((support::read_file(folder / "files/merges.txt") == support::read_file(gpt2_config().merges)));
}

BOOST_AUTO_TEST_CASE(the_package_tokenizers_reads_an_exported_gpt2,
                     *boost::unit_test::precondition(HasData{"models/gpt2-vocab.json"}) *
                         boost::unit_test::precondition(PythonHas{"tokenizers", test::chosen_python()})) {
  const test::TempFolder folder;
  make(gpt2_config(), {}, folder / "gpt2.h5");
  const TokenizerRecord record = data::tokenizer_of(folder / "gpt2.h5");
  data::export_tokenizer(record, folder / "files");
  const auto texts = some_stories(50);
  const Json found = ids_of_package(
      "import json, sys\n"
      "from tokenizers import ByteLevelBPETokenizer\n"
      "model = ByteLevelBPETokenizer(sys.argv[1] + '/vocab.json', sys.argv[1] + '/merges.txt')\n"
      "print(json.dumps([model.encode(text).ids for text in json.load(open(sys.argv[2], encoding='utf-8'))]))\n",
      folder / "files", texts, folder.path());
  const auto tokenizer = data::make_tokenizer(record, "the artifact");
  BOOST_REQUIRE(found.size() == texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i)
    BOOST_REQUIRE((found[i].get<std::vector<std::int32_t>>() == tokenizer->encode(texts[i])));
}

BOOST_AUTO_TEST_CASE(memory_is_told_before_training_and_kept_to) {
  test::RecordingProgress enough, short_of;
  data::tell_training_memory(100 << 20, 8LL << 30, enough);
  BOOST_TEST(enough.has("training a tokenizer on 100 MiB of text takes about "), enough.lines);
  BOOST_TEST(!enough.has("warning"));
  data::tell_training_memory(100 << 20, 1LL << 30, short_of);
  BOOST_TEST(short_of.has("warning: training the tokenizer needs about "), short_of.lines);
  BOOST_TEST(short_of.has("1.0 GiB are available; a lower bpe.train_bytes needs less"), short_of.lines);
  std::uint64_t bytes = 0, index = 0;
  const std::int64_t grown = test::peak_growth([&] {
    data::train_bpe({.vocabulary = 1000}, [&](std::string& text) {
      if (bytes > 3'000'000) return false;
      text = data::make_story(1, index++, 200, 800).text;
      bytes += text.size();
      return true;
    });
  });
  BOOST_TEST(grown < data::training_memory(static_cast<std::int64_t>(bytes)));
}

BOOST_AUTO_TEST_CASE(the_summary_says_what_is_unknown_and_what_is_changed,
                     *boost::unit_test::precondition(HasData{"models/bpemb-en-100000.model"})) {
  const test::TempFolder folder;
  std::vector<std::string> texts;
  for (int i = 0; i < 40; ++i) texts.push_back("word " + std::to_string(i) + " \u4e2d\u6587");
  write_raw(folder / "raw", texts);
  TokenizerStageConfig config;
  config.tokenizer = data::TokenizerConfig::Tokenizer::kFile;
  config.model = test::test_data("models/bpemb-en-100000.model")->string();
  test::RecordingProgress progress;
  make(config, folder / "raw", folder / "a.h5", progress);
  BOOST_TEST(progress.has(" %) are unknown to the tokenizer\n"), progress.lines);
  config.model = test::test_data("models/spm-test-unigram-1000.model")->string();
  make(config, {}, folder / "b.h5", progress);
  BOOST_TEST(progress.has("warning: the model normalises text ("), progress.lines);
}

BOOST_AUTO_TEST_CASE(what_is_no_tokenizer_or_damaged_is_refused_with_both_values) {
  const test::TempFolder folder;
  write_raw(folder / "raw", some_stories(60));
  make(trained_config(), folder / "raw", folder / "tokenizer.h5");
  TokenizeConfig config;
  config.tokenizer = TokenizeConfig::Tokenizer::kInput;
  tokenize(config, folder / "raw", folder / "tokenizer.h5", folder / "data");
  BOOST_CHECK_EXCEPTION(artifact::read_tokenizer(folder / "data/dataset.h5"), support::ArtifactError,
                        says<support::ArtifactError>("expected kind tokenizer, found token-shards"));
  // A byte of the model is changed: its pieces no longer have the stated content.
  TokenizerRecord record = artifact::read_tokenizer(folder / "tokenizer.h5");
  const std::size_t at = record.model.find("\xe2\x96\x81the");
  BOOST_REQUIRE(at != std::string::npos);
  record.model[at + 3] = 'X';
  artifact::write_tokenizer(folder / "changed.h5", {}, record);
  BOOST_CHECK_EXCEPTION(tokenize(config, folder / "raw", folder / "changed.h5", folder / "e"), support::ArtifactError,
                        says<support::ArtifactError>(record.content_hash.c_str()));
  record.bos_id = 600;
  artifact::write_tokenizer(folder / "beyond.h5", {}, record);
  BOOST_CHECK_EXCEPTION(artifact::read_tokenizer(folder / "beyond.h5"), support::ArtifactError,
                        says<support::ArtifactError>("id 600 is outside the vocabulary of 600"));
  const std::string whole = support::read_file(folder / "tokenizer.h5");
  for (const std::size_t size : {std::size_t{0}, std::size_t{100}, whole.size() / 2, whole.size() - 1}) {
    support::write_file_atomically(folder / "cut.h5", whole.substr(0, size), false);
    BOOST_CHECK_THROW(artifact::read_tokenizer(folder / "cut.h5"), support::ArtifactError);
  }
}

BOOST_AUTO_TEST_SUITE_END()

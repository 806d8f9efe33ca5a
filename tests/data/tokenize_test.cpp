#include "data/token_shards/tokenize.h"

#include <boost/test/unit_test.hpp>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <set>

#include "artifact/artifact_check.h"
#include "artifact/h5.h"
#include "artifact/header.h"
#include "artifact/raw_text.h"
#include "data/document_tokens.h"
#include "data/raw_texts.h"
#include "data/sources/fetch.h"
#include "data/sources/stories.h"
#include "data/token_shards/seen_texts.h"
#include "data/token_shards/token_dataset.h"
#include "data/tokenizers/tokenizer.h"
#include "data/written_again.h"
#include "support/error.h"
#include "support/files.h"
#include "support/hash.h"
#include "support/peak_memory.h"
#include "support/random.h"
#include "support/recording_progress.h"
#include "support/temp_folder.h"
#include "support/test_data.h"

using namespace pe;
using artifact::Kind;
using artifact::Split;
using data::TokenDataset;
using data::TokenizeConfig;
using support::ArtifactError;
using test::HasData;
using test::some_stories;
using test::write_raw;
namespace fs = std::filesystem;

BOOST_AUTO_TEST_SUITE(tokenize)

namespace {

void run(const TokenizeConfig& config, const fs::path& raw, const fs::path& out,
         support::Progress& progress = support::silent_progress()) {
  artifact::Workspace workspace;
  workspace.inputs["raw"] = {{raw, Kind::kRawText, "", {}}};
  workspace.outputs["data"] = out;
  workspace.progress = &progress;
  data::tokenize(config, workspace);
}

TokenizeConfig bytes_config() {
  TokenizeConfig config;
  config.tokenizer = TokenizeConfig::Tokenizer::kBytes;
  config.workers = 2;
  return config;
}

std::string digest_of(const fs::path& folder) { return artifact::artifact_content_digest(folder); }

/// The first shard of training data written again with other texts and, if asked, wider tokens.
void rewrite_shard(const fs::path& data, const std::map<std::string, std::string>& others, bool wide) {
  test::rewrite_shard(data, others, [wide](artifact::h5::Group& root, const std::vector<std::uint16_t>& tokens) {
    if (wide) {
      root.write("tokens", std::vector<std::uint32_t>(tokens.begin(), tokens.end()));
    } else {
      root.write("tokens", tokens);
    }
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(shards_are_the_same_for_any_number_of_workers) {
  const test::TempFolder folder;
  write_raw(folder / "raw", some_stories(700));
  TokenizeConfig config;
  config.vocabulary = 700;
  config.shard_tokens = 20'000;
  for (const int workers : {1, 4}) {
    config.workers = workers;
    run(config, folder / "raw", folder / std::to_string(workers));
  }
  BOOST_TEST(support::read_file(folder / "1" / "manifest.json") == support::read_file(folder / "4" / "manifest.json"));
  artifact::check_artifact(folder / "1", Kind::kTokenShards);
  artifact::Collection(folder / "1", Kind::kTokenShards).verify();
  BOOST_TEST(TokenDataset(folder / "1").documents(Split::kTrain) > 560u);
}

BOOST_AUTO_TEST_CASE(documents_windows_and_bytes_read_as_they_were_written) {
  const test::TempFolder folder;
  const auto texts = some_stories(300);
  write_raw(folder / "raw", texts);
  TokenizeConfig config;
  config.vocabulary = 600;
  config.shard_tokens = 3000;  // many shards, so that windows cross their borders
  config.workers = 2;
  run(config, folder / "raw", folder / "data");
  const TokenDataset dataset(folder / "data");
  const auto tokenizer = data::make_tokenizer(dataset.tokenizer(), "data");
  std::uint64_t documents = 0;
  for (const Split split : artifact::kAllSplits) {
    std::vector<std::int64_t> stream(dataset.tokens(split));
    dataset.read(split, 0, stream);
    std::vector<std::int64_t> expected;
    std::uint64_t bytes = 0;
    for (std::uint64_t i = 0; i < dataset.documents(split); ++i) {
      const auto document = dataset.document(split, i);
      const auto tokens = test::document_tokens(dataset, split, i);
      BOOST_REQUIRE(tokens.front() == dataset.tokenizer().bos_id);
      const std::vector<std::int32_t> ids(tokens.begin() + 1, tokens.end());
      BOOST_REQUIRE(tokenizer->decode(ids) == texts[document.index]);
      BOOST_REQUIRE(document.bytes == texts[document.index].size());
      BOOST_REQUIRE(dataset.text_bytes(tokens, 1) == document.bytes);
      BOOST_REQUIRE(document.first == expected.size());
      expected.insert(expected.end(), tokens.begin(), tokens.end());
      bytes += document.bytes;
    }
    documents += dataset.documents(split);
    BOOST_TEST((stream == expected));
    BOOST_TEST(dataset.text_bytes(stream, 0, false) == bytes);
    const std::int64_t length = 128;
    const std::uint64_t windows = dataset.windows(split, length);
    BOOST_TEST(windows == (stream.size() - 1) / 128);
    std::vector<std::int64_t> window(129);
    for (std::uint64_t w = 0; w < windows; ++w) {
      dataset.window(split, length, w, window);
      BOOST_REQUIRE(std::equal(window.begin(), window.end(), stream.begin() + static_cast<std::ptrdiff_t>(w * 128)));
    }
    std::vector<std::int64_t> over(stream.size() + 1);
    BOOST_CHECK_THROW(dataset.read(split, 0, over), support::Error);
  }
  BOOST_TEST(documents == 300u);
}

BOOST_AUTO_TEST_CASE(splits_go_by_the_text_and_duplicates_are_counted) {
  const test::TempFolder folder;
  auto texts = some_stories(400);
  write_raw(folder / "one", texts);
  std::reverse(texts.begin(), texts.end());
  texts.insert(texts.begin() + 7, texts[300]);
  texts.push_back(texts[0]);
  write_raw(folder / "two", texts);
  run(bytes_config(), folder / "one", folder / "a");
  run(bytes_config(), folder / "two", folder / "b");
  const TokenDataset a(folder / "a"), b(folder / "b");
  BOOST_TEST(a.totals().duplicates == 0u);
  BOOST_TEST(b.totals().duplicates == 2u);
  BOOST_TEST(b.totals().read == 402u);
  for (const Split split : artifact::kAllSplits) {
    BOOST_TEST(a.documents(split) == b.documents(split));
    std::vector<std::vector<std::int64_t>> x, y;
    for (std::uint64_t i = 0; i < a.documents(split); ++i)
      x.push_back(test::document_tokens(a, split, i)), y.push_back(test::document_tokens(b, split, i));
    std::sort(x.begin(), x.end());
    std::sort(y.begin(), y.end());
    BOOST_TEST((x == y));
  }
  BOOST_TEST(a.documents(Split::kTrain) > 330u);
  BOOST_TEST(a.documents(Split::kValidation) > 2u);
  BOOST_TEST(a.documents(Split::kTest) > 12u);
  TokenizeConfig keep = bytes_config();
  keep.duplicates = TokenizeConfig::Duplicates::kKeep;
  run(keep, folder / "two", folder / "c");
  BOOST_TEST(TokenDataset(folder / "c").totals().duplicates == 0u);
}

BOOST_AUTO_TEST_CASE(duplicates_are_found_within_the_stated_memory) {
  constexpr std::uint64_t kDocuments = 400'000;
  std::uint64_t twice = 0;
  const std::int64_t grown = test::peak_growth([&] {
    data::SeenTexts seen(kDocuments);
    support::Xoshiro random(1);
    for (std::uint64_t i = 0; i < kDocuments; ++i) {
      data::TextHash hash{};
      // Every fourth is one that came before; the second half of a hash tells two texts apart, too.
      const std::uint64_t text[2] = {i % 4 == 3 ? (i - 1) * 0x9E3779B97F4A7C15 : i * 0x9E3779B97F4A7C15,
                                     i % 4 == 2 || i % 4 == 3 ? 7U : i};
      std::memcpy(hash.data(), text, sizeof text);
      twice += seen.insert(hash) ? 0 : 1;
    }
  });
  BOOST_TEST(twice == kDocuments / 4);
  BOOST_TEST(grown < static_cast<std::int64_t>(data::SeenTexts::memory(kDocuments)) + (1 << 20));
  BOOST_TEST(data::SeenTexts::memory(kDocuments) <= 20 * kDocuments + 16);
  data::SeenTexts few(2);
  BOOST_TEST(few.insert({}));  // the hash that marks a free slot
  BOOST_TEST(!few.insert({}));
}

/// Fifteen million documents add less than 50 MB to a rank: mapped memory is shared and can be dropped.
BOOST_AUTO_TEST_CASE(tables_of_documents_are_mapped_and_not_read) {
  const test::TempFolder folder;
  constexpr std::uint64_t kDocuments = 1'000'000;
  {
    artifact::TokenShardsWriter writer(folder / "data", {}, data::make_byte_tokenizer()->record(), 1 << 26);
    for (std::uint64_t i = 0; i < kDocuments; ++i) {
      const std::int32_t ids[] = {256, static_cast<std::int32_t>(i % 256)};
      writer.add(Split::kTrain, ids, 1 + i % 2, 1, i);
    }
    artifact::DatasetTotals totals;
    writer.finish(totals);
  }
  const std::int64_t before = test::status_bytes("RssAnon");
  const TokenDataset dataset(folder / "data");
  const auto last = dataset.document(Split::kTrain, kDocuments - 1);
  std::uint64_t tokens = 0;
  for (std::uint64_t i = 0; i < kDocuments; ++i) tokens += dataset.document(Split::kTrain, i).tokens;
  BOOST_TEST(tokens == 3 * kDocuments / 2);
  BOOST_TEST(test::status_bytes("RssAnon") - before < 3 << 20);  // 20 MB when they are read
  BOOST_TEST(last.index == kDocuments - 1);
  BOOST_TEST(last.tokens == 2u);
  BOOST_TEST(last.first == dataset.tokens(Split::kTrain) - 2);
}

BOOST_AUTO_TEST_CASE(another_key_draws_other_documents_at_the_same_shares) {
  const test::TempFolder folder;
  write_raw(folder / "raw", some_stories(400));
  std::set<std::uint64_t> train[3];
  const char* keys[] = {"", "a", "b"};
  for (int i = 0; i < 3; ++i) {
    TokenizeConfig config = bytes_config();
    config.split.key = keys[i];
    config.split.train = 0.5;
    config.split.validation = 0.25;
    config.split.test = 0.25;
    run(config, folder / "raw", folder / std::to_string(i));
    const TokenDataset dataset(folder / std::to_string(i));
    for (std::uint64_t d = 0; d < dataset.documents(Split::kTrain); ++d)
      train[i].insert(dataset.document(Split::kTrain, d).index);
    BOOST_TEST(train[i].size() > 150u);
    BOOST_TEST(train[i].size() < 250u);
  }
  for (int i = 0; i < 3; ++i) {
    std::vector<std::uint64_t> both;
    std::set_intersection(train[i].begin(), train[i].end(), train[(i + 1) % 3].begin(), train[(i + 1) % 3].end(),
                          std::back_inserter(both));
    BOOST_TEST(both.size() > 60u);  // a quarter of 400, if the draws have nothing to do with each other
    BOOST_TEST(both.size() < 140u);
  }
}

BOOST_AUTO_TEST_CASE(splits_without_a_share_are_meant_to_be_empty) {
  const test::TempFolder folder;
  write_raw(folder / "raw", some_stories(3));
  TokenizeConfig config = bytes_config();
  config.split.train = 1;
  config.split.validation = config.split.test = 0;
  test::RecordingProgress none, some;
  run(config, folder / "raw", folder / "a", none);
  BOOST_TEST(!none.has("is empty"), none.lines);
  config.split.train = 1 - 1e-9;
  config.split.test = 1e-9;
  run(config, folder / "raw", folder / "b", some);
  BOOST_TEST(some.has("warning: split test is empty: there are too few documents"), some.lines);
  BOOST_TEST(!some.has("split validation is empty"), some.lines);
}

/// The record of the splits finds documents of one data set in another, whatever key, shares, files or tokenizer.
BOOST_AUTO_TEST_CASE(splits_are_recorded_so_that_common_documents_are_found) {
  const test::TempFolder folder;
  const auto texts = some_stories(500);
  write_raw(folder / "raw", texts);
  write_raw(folder / "more", some_stories(700));
  TokenizeConfig config = bytes_config();
  run(config, folder / "raw", folder / "a");
  config.split.train = 0.5;
  config.split.validation = 0.25;
  config.split.test = 0.25;
  config.split.key = "x";
  config.tokenizer = TokenizeConfig::Tokenizer::kBpe;
  config.vocabulary = 500;
  run(config, folder / "more", folder / "b");
  const TokenDataset a(folder / "a"), b(folder / "b");
  BOOST_TEST(a.splits().rule == "train 0.9, validation 0.03, test 0.07 by hash");
  BOOST_TEST(b.splits().rule == "train 0.5, validation 0.25, test 0.25 by hash with key 'x'");
  const auto& of_a = a.splits().documents;
  const auto& of_b = b.splits().documents;
  for (const Split split : artifact::kAllSplits) {
    const auto at = static_cast<std::size_t>(split);
    BOOST_TEST(of_a[at].hashes().size() == a.documents(split));  // fewer than a sample holds
    // Documents of a are trained on in b as b's share of them says.
    std::set<std::uint64_t> trained;
    for (std::uint64_t i = 0; i < b.documents(Split::kTrain); ++i) trained.insert(b.document(Split::kTrain, i).index);
    std::uint64_t common = 0;
    for (std::uint64_t i = 0; i < a.documents(split); ++i) common += trained.count(a.document(split, i).index);
    BOOST_TEST(of_a[at].overlap(of_b[0]).compared == a.documents(split));
    BOOST_TEST(of_a[at].overlap(of_b[0]).common == common);
    BOOST_TEST(of_a[at].overlap(of_a[(at + 1) % 3]).common == 0u);
  }
  BOOST_TEST(of_a[0].overlap(of_b[0]).common > 180u);
}

BOOST_AUTO_TEST_CASE(validation_files_are_the_validation_split) {
  const test::TempFolder folder;
  const auto texts = some_stories(60);
  artifact::RawTextWriter writer(folder / "raw", {}, 20'000);  // several members, and files across them
  for (std::size_t i = 0; i < texts.size(); ++i) {
    writer.add(texts[i],
               i < 40   ? "data/train-00000.parquet"
               : i < 50 ? "data/validation-00000.parquet"
                        : "test.txt",
               i);
  }
  writer.finish();
  TokenizeConfig config = bytes_config();
  config.split.validation_files = {"*validation*"};
  config.split.test_files = {"none.txt", "test.txt"};
  BOOST_CHECK_EXCEPTION(run(config, folder / "raw", folder / "a"), support::ConfigError, [](const auto& e) {
    return std::string(e.what()).find("split.test_files: no source that keeps a document matches 'none.txt'") !=
           std::string::npos;
  });
  BOOST_TEST(!fs::exists(folder / "a"));
  config.split.test_files = {"test.txt"};
  run(config, folder / "raw", folder / "b");
  const TokenDataset dataset(folder / "b");
  BOOST_TEST(dataset.documents(Split::kTrain) == 40u);
  BOOST_TEST(dataset.documents(Split::kValidation) == 10u);
  BOOST_TEST(dataset.documents(Split::kTest) == 10u);
  for (std::uint64_t i = 0; i < 10; ++i) BOOST_TEST(dataset.document(Split::kValidation, i).index == 40 + i);
}

BOOST_AUTO_TEST_CASE(a_summary_warns_of_models_that_change_the_text,
                     *boost::unit_test::precondition(HasData{"models/spm-test-unigram-1000.model"})) {
  test::RecordingProgress progress;
  const test::TempFolder folder;
  write_raw(folder / "raw", some_stories(50));
  artifact::Workspace workspace;
  workspace.inputs["raw"] = {{folder / "raw", Kind::kRawText, "", {}}};
  workspace.outputs["data"] = folder / "data";
  workspace.progress = &progress;
  TokenizeConfig config;
  config.tokenizer = TokenizeConfig::Tokenizer::kFile;
  config.model = test::test_data("models/spm-test-unigram-1000.model")->string();
  config.workers = 1;
  data::tokenize(config, workspace);
  BOOST_TEST(progress.has("warning: the model normalises text ("), progress.lines);
  BOOST_TEST(progress.has("tokens per document, at most: "));
  BOOST_TEST(progress.has(" 100.0 %\n"));
  BOOST_TEST(progress.has("the bottleneck"));
}

/// The unknown share is over kept documents: neither duplicates nor documents that are too short count.
BOOST_AUTO_TEST_CASE(unknown_tokens_are_those_of_the_documents_kept,
                     *boost::unit_test::precondition(HasData{"models/bpemb-en-100000.model"})) {
  const test::TempFolder folder;
  const std::string odd = "ab\u00e9\u4e2d\u6587 some words with \u65e5\u672c in them";
  write_raw(folder / "raw", {odd, "plain words only, enough of them to stay", odd, "\u4e2d"});
  TokenizeConfig config;
  config.tokenizer = TokenizeConfig::Tokenizer::kFile;
  config.model = test::test_data("models/bpemb-en-100000.model")->string();
  config.min_tokens = 5;
  config.workers = 1;
  run(config, folder / "raw", folder / "data");
  const TokenDataset dataset(folder / "data");
  BOOST_TEST(dataset.totals().duplicates == 1u);
  BOOST_TEST(dataset.totals().too_short == 1u);
  std::uint64_t unknown = 0;
  for (const Split split : artifact::kAllSplits) {
    std::vector<std::int64_t> stream(dataset.tokens(split));
    dataset.read(split, 0, stream);
    unknown += static_cast<std::uint64_t>(std::count(stream.begin(), stream.end(), dataset.tokenizer().unk_id));
  }
  BOOST_TEST(unknown > 0u);
  BOOST_TEST(dataset.totals().unknown_tokens == unknown);
}

BOOST_AUTO_TEST_CASE(text_that_is_not_utf8_is_handled_as_asked,
                     *boost::unit_test::precondition(HasData{"text/malformed-utf8.tsv"})) {
  const test::TempFolder folder;
  std::vector<std::string> texts;
  std::ifstream in(*test::test_data("text/malformed-utf8.tsv"), std::ios::binary);
  for (std::string line; std::getline(in, line);) texts.push_back(line.substr(line.find('\t') + 1));
  BOOST_TEST(texts.size() == 39u);
  write_raw(folder / "raw", texts);
  TokenizeConfig config = bytes_config();
  BOOST_CHECK_EXCEPTION(run(config, folder / "raw", folder / "a"), ArtifactError,
                        [](const auto& e) { return std::string(e.what()).find("is not UTF-8") != std::string::npos; });
  config.utf8 = TokenizeConfig::Utf8::kSkip;
  config.duplicates = TokenizeConfig::Duplicates::kKeep;
  run(config, folder / "raw", folder / "b");
  const auto skipped = TokenDataset(folder / "b").totals();
  BOOST_TEST(skipped.invalid_utf8 == 18u);
  BOOST_TEST(skipped.splits[0].documents + skipped.splits[1].documents + skipped.splits[2].documents == 21u);
  config.utf8 = TokenizeConfig::Utf8::kReplace;
  run(config, folder / "raw", folder / "c");
  const auto mended = TokenDataset(folder / "c").totals();
  BOOST_TEST(mended.invalid_utf8 == 18u);
  BOOST_TEST(mended.splits[0].documents + mended.splits[1].documents + mended.splits[2].documents == 39u);
}

BOOST_AUTO_TEST_CASE(damaged_shards_are_refused_with_both_values) {
  const test::TempFolder folder;
  write_raw(folder / "raw", some_stories(100));
  run(bytes_config(), folder / "raw", folder / "data");
  TokenizeConfig other;
  other.vocabulary = 500;
  run(other, folder / "raw", folder / "other");
  const auto shard = folder / "data" / "train-00000.h5";
  const auto message = [&] {
    try {
      TokenDataset dataset(folder / "data");
    } catch (const ArtifactError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const std::string whole = support::read_file(shard);
  std::ofstream(shard, std::ios::binary) << whole.substr(0, whole.size() / 2);
  BOOST_TEST(message().find("bytes, found") != std::string::npos);
  std::ofstream(shard, std::ios::binary) << support::read_file(folder / "other" / "train-00000.h5");
  // The manifest is made to fit again, as a careless hand would.
  artifact::Manifest manifest = artifact::Manifest::read(folder / "data");
  for (auto& member : manifest.members) member.bytes = fs::file_size(folder / "data" / member.name);
  std::ofstream(folder / "data" / "manifest.json") << manifest.to_json().dump();
  BOOST_TEST(message().find("expected a vocabulary of 258, found 500") != std::string::npos);
  BOOST_CHECK_THROW(artifact::check_artifact(folder / "data", Kind::kTokenShards), ArtifactError);
}

BOOST_AUTO_TEST_CASE(shards_of_another_dtype_split_or_tokenizer_are_refused_with_both_values) {
  const test::TempFolder folder;
  write_raw(folder / "raw", some_stories(60));
  const auto refused = [&](const std::map<std::string, std::string>& others, bool wide) {
    fs::remove_all(folder / "data");
    run(bytes_config(), folder / "raw", folder / "data");
    rewrite_shard(folder / "data", others, wide);
    try {
      TokenDataset dataset(folder / "data");
    } catch (const ArtifactError& error) {
      return std::string(error.what());
    }
    return std::string("no error");
  };
  const auto has = [](const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
  };
  BOOST_TEST(refused({}, false) == "no error");
  const std::string dtype = refused({}, true);
  BOOST_TEST((has(dtype, "expected uint16") && has(dtype, "found uint32")), dtype);
  BOOST_TEST(has(refused({{"split", "test"}}, false), "expected split train, found test"));
  const std::string tokenizer = refused({{"tokenizer_digest", std::string(64, 'a')}}, false);
  BOOST_TEST((has(tokenizer, "expected tokenizer ") && has(tokenizer, "found " + std::string(64, 'a'))), tokenizer);
}

/// A million documents of one word each: counted and kept, or dropped but for the first, in memory that grows by bytes
/// a document.
BOOST_AUTO_TEST_CASE(a_million_documents_of_one_word_go_through) {
  const test::TempFolder folder;
  constexpr std::uint64_t kDocuments = 1'000'000;
  {
    std::ofstream out(folder / "words.txt", std::ios::binary);
    for (std::uint64_t i = 0; i < kDocuments; ++i) out << "word\n";
  }
  data::FetchConfig fetch;
  fetch.path = {(folder / "words.txt").string()};
  fetch.text.lines = true;
  artifact::Workspace workspace;
  workspace.outputs["raw"] = folder / "raw";
  workspace.progress = &support::silent_progress();
  const std::int64_t fetching = test::peak_growth([&] { data::fetch(fetch, workspace); });
  BOOST_TEST(fetching < 128 << 20);
  TokenizeConfig config = bytes_config();
  run(config, folder / "raw", folder / "one");
  BOOST_TEST(TokenDataset(folder / "one").totals().read == kDocuments);
  BOOST_TEST(TokenDataset(folder / "one").totals().duplicates == kDocuments - 1);
  config.duplicates = TokenizeConfig::Duplicates::kKeep;
  const std::int64_t keeping = test::peak_growth([&] { run(config, folder / "raw", folder / "all"); });
  BOOST_TEST(keeping < 256 << 20);
  const TokenDataset all(folder / "all");
  std::uint64_t documents = 0, tokens = 0;
  for (const Split split : artifact::kAllSplits) documents += all.documents(split), tokens += all.tokens(split);
  BOOST_TEST(documents == kDocuments);
  BOOST_TEST(tokens == 5 * kDocuments);  // BOS and four bytes
}

BOOST_AUTO_TEST_CASE(the_golden_ids_come_through_the_whole_stage,
                     *boost::unit_test::precondition(HasData{"models/golden-ids.tsv"})) {
  const test::TempFolder folder;
  data::FetchConfig fetch;
  fetch.path = {test::test_data("text/tinystories.txt")->string()};
  fetch.text.separator = "<|endoftext|>";
  artifact::Workspace workspace;
  workspace.outputs["raw"] = folder / "raw";
  workspace.progress = &support::silent_progress();
  data::fetch(fetch, workspace);
  // Of sentencepiece 0.2.2, and of tokenizers 0.23.3 for GPT-2's.
  const std::pair<const char*, const char*> models[] = {
      {"mistral-v1-32000.model", "8fce84f38077e3b847b7f8f8cc097db84b2f32af6e3988e3971cfae496a208af"},
      {"bpemb-en-100000.model", "bbb6efba5084be94dd1c731ef8c8b07a68b8f29a7ce6a7d62a61d74c3f821bf7"},
      {"spm-test-unigram-1000.model", "bac7f828a2897bc8f6105ff7472d3172ea10072dcb5d7797e1441357ce8c3a29"},
      {"spm-test-ja-8000.model", "e650b4bd159d48d435211e980755058a048d92b4f617415683e24b55715638ea"},
      {"gpt2-vocab.json", "0b8856e824407afe8b728b0973a6a263f7ca9b57d12e02bc10f5828024aaf2dd"}};
  for (const auto& [model, golden] : models) {
    TokenizeConfig config;
    const bool gpt2 = std::string(model) == "gpt2-vocab.json";
    config.tokenizer = gpt2 ? TokenizeConfig::Tokenizer::kGpt2 : TokenizeConfig::Tokenizer::kFile;
    config.model = test::test_data(std::string("models/") + model)->string();
    if (gpt2) config.merges = test::test_data("models/gpt2-merges.txt")->string();
    config.duplicates = TokenizeConfig::Duplicates::kKeep;
    for (const int workers : {1, 8}) {
      config.workers = workers;
      run(config, folder / "raw", folder / model / std::to_string(workers));
    }
    BOOST_TEST(digest_of(folder / model / "1") == digest_of(folder / model / "8"));
    const TokenDataset dataset(folder / model / "8");
    std::vector<std::vector<std::int64_t>> documents(735);
    for (const Split split : artifact::kAllSplits) {
      for (std::uint64_t i = 0; i < dataset.documents(split); ++i) {
        documents.at(dataset.document(split, i).index) = test::document_tokens(dataset, split, i);
      }
    }
    support::Sha256 hash;
    for (const auto& tokens : documents) {
      for (std::size_t i = dataset.tokenizer().bos_before_documents ? 1 : 0; i < tokens.size(); ++i) {
        const auto id = static_cast<std::uint32_t>(tokens[i]);
        hash.update(&id, sizeof id);
      }
    }
    BOOST_TEST(hash.hex() == golden, model);
  }
}

/// The library that encoded is recorded, and is no content: another release with the same ids makes the same artifact.
BOOST_AUTO_TEST_CASE(the_library_is_named_outside_the_content) {
  const test::TempFolder folder;
  const auto tokenizer = data::make_byte_tokenizer();
  std::string digests[2];
  for (int i = 0; i < 2; ++i) {
    artifact::TokenizerRecord record = tokenizer->record();
    record.library = i == 0 ? "bytes 1" : "bytes 2, of another build";
    const fs::path out = folder / std::to_string(i);
    artifact::TokenShardsWriter writer(out, {}, record, 1000);
    const std::int32_t ids[] = {256, 72, 105};
    writer.add(Split::kTrain, ids, 3, 2, 0);
    artifact::DatasetTotals totals;
    writer.finish(totals);
    digests[i] = digest_of(out);
    BOOST_TEST(TokenDataset(out).tokenizer().library == record.library);
  }
  BOOST_TEST(digests[0] == digests[1]);
}

BOOST_AUTO_TEST_CASE(bytes_that_are_no_utf8_are_replaced_in_every_format) {
  for (const char* name : {"a.jsonl", "a.txt"}) {
    const test::TempFolder folder;
    std::ofstream(folder / name) << (std::string(name) == "a.txt" ? "a\xff"
                                                                    "b"
                                                                  : "{\"text\": \"a\xff"
                                                                    "b\"}\n");
    data::FetchConfig config;
    config.path = {(folder / name).string()};
    artifact::Workspace workspace;
    workspace.progress = &support::silent_progress();
    const auto text = [&](data::FetchConfig::InvalidUtf8 policy, const char* out) {
      config.invalid_utf8 = policy;
      workspace.outputs["raw"] = folder / out;
      data::fetch(config, workspace);
      artifact::RawTextReader reader(folder / out);
      artifact::RawTextReader::Document document;
      BOOST_REQUIRE(reader.next(document));
      return std::string(document.text);
    };
    BOOST_CHECK_THROW(text(data::FetchConfig::InvalidUtf8::kBad, "bad"), ArtifactError);
    BOOST_TEST(text(data::FetchConfig::InvalidUtf8::kReplace, "replaced") ==
                   "a\xef\xbf\xbd"
                   "b",
               name);
    BOOST_TEST(text(data::FetchConfig::InvalidUtf8::kKeep, "kept") ==
                   "a\xff"
                   "b",
               name);
  }
}

BOOST_AUTO_TEST_CASE(fetching_skips_and_counts_only_when_asked) {
  const test::TempFolder folder;
  std::ofstream(folder / "a.jsonl")
      << "{\"text\": \"good\"}\n{\"text\": oops}\n{\"text\": \"\"}\n{\"text\": \"better\"}\n";
  data::FetchConfig config;
  config.path = {(folder / "a.jsonl").string()};
  artifact::Workspace workspace;
  workspace.outputs["raw"] = folder / "one";
  workspace.progress = &support::silent_progress();
  BOOST_CHECK_EXCEPTION(data::fetch(config, workspace), ArtifactError,
                        [](const auto& e) { return std::string(e.what()).find("a.jsonl:2:") != std::string::npos; });
  config.on_bad = data::FetchConfig::OnBad::kSkip;
  workspace.outputs["raw"] = folder / "two";
  data::fetch(config, workspace);
  BOOST_TEST(artifact::RawTextReader(folder / "two").documents() == 2u);
  config.path = {(folder / "nothing").string()};
  workspace.outputs["raw"] = folder / "three";
  BOOST_CHECK_THROW(data::fetch(config, workspace), support::ConfigError);
  BOOST_TEST(!fs::exists(folder / "three"));
}

BOOST_AUTO_TEST_SUITE_END()

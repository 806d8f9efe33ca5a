#include "evaluation/retrieval/mix.h"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <set>

#include "artifact/token_shards.h"
#include "data/document_tokens.h"
#include "data/tokenizers/tokenizer.h"
#include "evaluation/retrieval/word_pairs.h"
#include "evaluation/shard_documents.h"
#include "support/random.h"
#include "support/temp_folder.h"
#include "training/branch_point.h"

using namespace pe;
using namespace pe::evaluation;

namespace {

/// Letters only, so that all digits come from prompts.
std::filesystem::path text_shards(const std::filesystem::path& folder) {
  const auto tokenizer = data::make_byte_tokenizer();
  artifact::TokenShardsWriter shards(folder, {}, tokenizer->record(), 1 << 20);
  for (std::uint64_t document = 0; document < 44; ++document) {
    support::Xoshiro random(document);
    std::vector<std::int32_t> ids = {static_cast<std::int32_t>(tokenizer->bos_id())};
    for (int i = 0; i < 999; ++i) ids.push_back(static_cast<std::int32_t>('a' + random.below(26)));
    const artifact::Split split = document < 40   ? artifact::Split::kTrain
                                  : document < 42 ? artifact::Split::kValidation
                                                  : artifact::Split::kTest;
    shards.add(split, ids.data(), ids.size(), 999, document);
  }
  artifact::DatasetTotals totals;
  shards.finish(totals);
  return folder;
}

data::TokenDataset mixed(const test::TempFolder& folder, const Json& options, const std::string& name = "mixed") {
  if (!std::filesystem::exists(folder / "text")) text_shards(folder / "text");
  artifact::Workspace workspace;
  workspace.inputs["data"] = {{folder / "text", artifact::Kind::kTokenShards, "", {}}};
  workspace.outputs["mixed"] = folder / name;
  workspace.work = folder.path();
  workspace.progress = &support::silent_progress();
  mix(support::make_config<MixConfig>(Json{{"mix", options}}), workspace);
  return data::TokenDataset(folder / name);
}

bool digit(std::int64_t id) { return id >= '0' && id <= '9'; }

}  // namespace

BOOST_AUTO_TEST_SUITE(mix_stage)

BOOST_AUTO_TEST_CASE(a_share_of_the_windows_begins_with_a_prompt_and_the_text_goes_on_behind_it) {
  const test::TempFolder folder;
  const data::TokenDataset text(text_shards(folder / "text"));
  const data::TokenDataset dataset =
      mixed(folder, {{"share", 0.25}, {"length", 128}, {"tasks", {"passkey", "needle"}}});
  BOOST_TEST(dataset.window_tokens() == 128u);
  const std::uint64_t windows = dataset.windows(data::Split::kTrain, 128);
  BOOST_TEST(windows > 312u);  // 40,000 tokens of text alone are 312 windows
  std::vector<std::int64_t> ids(129), joined;
  double prompts = 0;
  for (std::uint64_t w = 0; w < windows; ++w) {
    dataset.window(data::Split::kTrain, 128, w, ids);
    std::size_t behind = 0;
    for (std::size_t i = 0; i < 128; ++i) {
      if (digit(ids[i])) behind = i + 1;
    }
    prompts += behind > 0;
    if (behind > 0) {
      // The answer repeats the number of the fact, and is at the end of the prompt.
      std::string all;
      for (std::size_t i = 0; i < behind; ++i) all += ids[i] < 256 ? std::string(1, static_cast<char>(ids[i])) : "";
      const std::string answer = all.substr(all.rfind(' ') + 1);
      BOOST_TEST((answer.size() == 5u || answer.size() == 7u), answer);
      BOOST_TEST(all.find(answer) < all.size() - answer.size(), all);
      BOOST_TEST(ids[0] == 256);
    }
    joined.insert(joined.end(), ids.begin() + static_cast<std::ptrdiff_t>(behind), ids.begin() + 128);
  }
  const double n = static_cast<double>(windows);
  BOOST_TEST(std::abs(prompts - 0.25 * n) < 4 * std::sqrt(n * 0.25 * 0.75));
  // Without prompts, the rest is the text, whole and in order.
  std::vector<std::int64_t> expected(joined.size());
  text.read(data::Split::kTrain, 0, std::span(expected));
  BOOST_TEST(joined == expected, boost::test_tools::per_element());
  BOOST_TEST(joined.size() > 40000u - 128u);
}

BOOST_AUTO_TEST_CASE(a_window_is_one_document_so_a_training_that_masks_documents_is_rejected) {
  const test::TempFolder folder;
  mixed(folder, {{"share", 0.5}, {"length", 64}});
  artifact::Workspace workspace;
  const auto open = [&](const char* name, training::Documents documents) {
    workspace.inputs["data"] = {{folder / name, artifact::Kind::kTokenShards, "", {}}};
    return training::open_data(workspace, 64, "train.length", documents).windows(data::Split::kTrain, 64);
  };
  BOOST_TEST(open("mixed", training::Documents::kJoined) > 0u);
  BOOST_TEST(open("text", training::Documents::kMasked) > 0u);
  BOOST_CHECK_EXCEPTION(open("mixed", training::Documents::kMasked), support::ArtifactError, [](const auto& error) {
    return std::string(error.what()).find("train.documents: masked has no effect") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(for_tuning_every_window_is_a_prompt) {
  const test::TempFolder folder;
  const data::TokenDataset dataset = mixed(folder, {{"share", 1}, {"length", 64}, {"shortest", 64}, {"windows", 50}});
  std::vector<std::int64_t> ids(65);
  std::set<std::vector<std::int64_t>> different;
  BOOST_TEST(dataset.windows(data::Split::kTrain, 64) == 50u);
  for (std::uint64_t w = 0; w < 50; ++w) {
    dataset.window(data::Split::kTrain, 64, w, ids);
    BOOST_TEST(digit(ids[63]));  // the answer's last digit ends the window
    different.insert({ids.begin(), ids.end()});
  }
  BOOST_TEST(different.size() == 50u);
}

BOOST_AUTO_TEST_CASE(look_up_small_worlds_and_pairs_of_words_can_be_learned_too) {
  const test::TempFolder folder;
  const data::TokenDataset dataset =
      mixed(folder, {{"share", 1}, {"length", 1200}, {"windows", 45}, {"tasks", {"kv_json", "babi", "needle_assoc"}}});
  std::set<std::string> told;
  for (const WordPair& pair : trained_pairs()) told.insert(pair.partner + " goes with " + pair.coded + ".");
  std::vector<std::int64_t> ids(1201);
  int keys = 0, worlds = 0, pairs = 0;
  for (std::uint64_t w = 0; w < 45; ++w) {
    dataset.window(data::Split::kTrain, 1200, w, ids);
    std::string all;
    for (const std::int64_t id : ids) all += id < 256 ? static_cast<char>(id) : '|';
    if (const std::size_t key = all.find("The value of "); key != std::string::npos) {
      ++keys;
      const std::size_t is = all.find(" is ", key);
      const std::string line = all.substr(key + 13, is - key - 13) + ": " + all.substr(is + 4, 5) + ",";
      BOOST_TEST(all.find(line) < key, all);
    } else if (const std::size_t partner = all.find("partner of "); partner != std::string::npos) {
      ++pairs;
      const std::size_t goes = all.find(" goes with "), begin = all.rfind('\n', goes);
      const std::size_t first = begin == std::string::npos ? all.rfind(' ', goes - 1) : begin;
      const std::string line = all.substr(first + 1, all.find('.', goes) - first);
      BOOST_TEST(told.count(line.substr(line.find_last_of(" |", line.find(" goes with ") - 1) + 1)) == 1u, line);
      const std::size_t code = all.find(" code is "), is = all.find("It is ");
      BOOST_TEST(all.substr(code + 9, 5) == all.substr(is + 6, 5), all);
    } else {
      ++worlds;
      BOOST_TEST(all.find("? Answer: ") != std::string::npos, all);
    }
  }
  BOOST_TEST(keys > 5);
  BOOST_TEST(worlds > 5);
  BOOST_TEST(pairs > 5);
}

BOOST_AUTO_TEST_CASE(prompts_say_what_the_config_says) {
  const test::TempFolder folder;
  const Json text = {{"header", ""},    {"filler", "so so. "}, {"fact", "N{K}!"},
                     {"question", "N"}, {"answer", "{K}"},     {"digits", 4}};
  const data::TokenDataset dataset =
      mixed(folder, {{"share", 1}, {"length", 48}, {"shortest", 24}, {"windows", 20}, {"passkey", text}});
  std::vector<std::int64_t> ids(49);
  for (std::uint64_t w = 0; w < 20; ++w) {
    dataset.window(data::Split::kTrain, 48, w, ids);
    std::string all;
    for (const std::int64_t id : ids) all += id < 256 ? static_cast<char>(id) : '|';
    const std::size_t fact = all.find('N');
    BOOST_REQUIRE(fact != std::string::npos);
    const std::string number = all.substr(fact + 1, 4);
    BOOST_TEST(all[fact + 5] == '!', all);
    BOOST_TEST(all.find("N" + number, fact + 1) != std::string::npos, all);
  }
}

BOOST_AUTO_TEST_CASE(validation_and_test_are_copied_and_the_same_seed_gives_the_same_bytes) {
  const test::TempFolder folder;
  const data::TokenDataset text(text_shards(folder / "text"));
  const Json options = {{"share", 0.1}, {"length", 128}};
  const data::TokenDataset a = mixed(folder, options, "a"), b = mixed(folder, options, "b");
  BOOST_TEST(a.content_digest() == b.content_digest());
  Json other = options;
  other["seed"] = 2;
  BOOST_TEST(mixed(folder, other, "c").content_digest() != a.content_digest());
  for (const data::Split split : {data::Split::kValidation, data::Split::kTest}) {
    BOOST_REQUIRE(a.documents(split) == text.documents(split));
    for (std::uint64_t i = 0; i < text.documents(split); ++i) {
      BOOST_TEST(test::document_tokens(a, split, i) == test::document_tokens(text, split, i),
                 boost::test_tools::per_element());
    }
  }
  BOOST_TEST(a.tokenizer_digest() == text.tokenizer_digest());
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_said) {
  const test::TempFolder folder;
  const auto message = [&](const Json& options) {
    try {
      mixed(folder, options, "x");
    } catch (const support::Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string narrow = message({{"share", 0.5}, {"length", 16}});
  BOOST_TEST(narrow.find("mix.length is 16") != std::string::npos, narrow);
  const std::string many = message({{"length", 128}, {"windows", 100000}});
  BOOST_TEST(many.find("mix.windows is 100000") != std::string::npos, many);
  const std::string endless = message({{"share", 1}});
  BOOST_TEST(endless.find("mix.windows says how many") != std::string::npos, endless);
  const std::string unknown = message({{"tasks", {"pass_key"}}});
  BOOST_TEST(unknown.find("did you mean 'passkey'?") != std::string::npos, unknown);
}

BOOST_AUTO_TEST_SUITE_END()

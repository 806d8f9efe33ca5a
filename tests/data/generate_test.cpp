#include "data/token_shards/generate.h"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <functional>
#include <limits>
#include <map>

#include "data/tasks/algorithmic_task.h"
#include "data/token_shards/token_dataset.h"
#include "data/tokenizers/symbol_tokenizer.h"
#include "data/written_again.h"
#include "support/files.h"
#include "support/temp_folder.h"

using namespace pe;
using namespace pe::data;

namespace {

std::filesystem::path generated(const test::TempFolder& folder, const Json& options, const std::string& name = "data") {
  artifact::Workspace workspace;
  workspace.outputs["data"] = folder / name;
  workspace.work = folder.path();
  workspace.progress = &support::silent_progress();
  generate(support::make_config<GenerateConfig>(Json{{"generate", options}}), workspace);
  return folder / name;
}

std::string message_of(const Json& options) {
  const test::TempFolder folder;
  try {
    generated(folder, options);
  } catch (const support::ConfigError& error) {
    return error.what();
  }
  return "";
}

/// The first shard of training data, written again with the labels of `labels`.
void rewrite_shard(const std::filesystem::path& data,
                   const std::function<void(artifact::h5::Group&, const std::vector<std::int32_t>&)>& labels) {
  const auto before = artifact::h5::File::open(data / "train-00000.h5").root().read<std::int32_t>("labels");
  test::rewrite_shard(data, {}, [&](artifact::h5::Group& root, const std::vector<std::uint16_t>& tokens) {
    root.write("tokens", tokens);
    labels(root, before);
  });
}

/// Reads every label. Returns the error about the damage, or "" without one.
std::string damage_of(const std::filesystem::path& data) {
  try {
    const TokenDataset dataset(data);
    if (!dataset.has_labels()) return "no labels";
    for (const Split split : artifact::kAllSplits) {
      std::vector<std::int64_t> all(dataset.tokens(split));
      dataset.read_labels(split, 0, all);
    }
  } catch (const support::ArtifactError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_SUITE(generate_stage)

BOOST_AUTO_TEST_CASE(every_window_is_an_example_with_its_labels) {
  const test::TempFolder folder;
  const TokenDataset dataset(generated(
      folder,
      {{"task", "reverse"}, {"lengths", {3, 7}}, {"train", 500}, {"validation", 50}, {"window", 20}, {"seed", 4}}));
  BOOST_TEST(dataset.window_tokens() == 20u);
  BOOST_TEST(dataset.has_labels());
  BOOST_TEST(dataset.windows(Split::kTrain, 20) == 500u);
  BOOST_TEST(dataset.windows(Split::kValidation, 20) == 50u);
  BOOST_TEST(dataset.vocabulary() == 104);
  std::map<std::size_t, int> lengths;
  std::vector<std::int64_t> ids(21), labels(20);
  for (std::uint64_t w = 0; w < 500; ++w) {
    dataset.window(Split::kTrain, 20, w, ids);
    dataset.read_labels(Split::kTrain, w * 20, labels);
    BOOST_REQUIRE(ids[0] == kTaskBos);
    std::size_t n = 0;
    while (ids[n + 1] != kTaskSep) ++n;
    ++lengths[n];
    for (std::size_t i = 0; i < 20; ++i) {
      std::int64_t expected = kUnlabelled;
      if (i > n && i <= 2 * n) expected = ids[2 * n + 1 - i];  // the input, backwards
      if (i == 2 * n + 1) expected = kTaskEos;
      BOOST_REQUIRE(labels[i] == expected);
    }
    for (std::size_t i = 2 * n + 3; i < 20; ++i) BOOST_REQUIRE(ids[i] == kTaskPad);
  }
  BOOST_TEST(lengths.size() == 5u);
  for (const auto& [length, times] : lengths) BOOST_TEST(times == 100, length << ": " << times);
}

BOOST_AUTO_TEST_CASE(padding_apart_is_a_document_of_its_own_and_changes_no_token) {
  const test::TempFolder folder, other;
  Json options = {
      {"task", "reverse"}, {"lengths", {3, 8}}, {"train", 60}, {"validation", 5}, {"window", 19}, {"seed", 4}};
  const TokenDataset joined(generated(folder, options));
  options["padding"] = "apart";
  const TokenDataset apart(generated(other, options));
  std::vector<std::int64_t> ids(20), same(20);
  std::uint64_t document = 0;
  for (std::uint64_t w = 0; w < 60; ++w) {
    joined.window(Split::kTrain, 19, w, ids);
    apart.window(Split::kTrain, 19, w, same);
    BOOST_REQUIRE(ids == same);
    const auto size = static_cast<std::uint64_t>(std::find(ids.begin(), ids.end() - 1, kTaskPad) - ids.begin());
    BOOST_REQUIRE_EQUAL(apart.document(Split::kTrain, document++).first, 19 * w);
    if (size < 19) BOOST_REQUIRE_EQUAL(apart.document(Split::kTrain, document++).first, 19 * w + size);
  }
}

BOOST_AUTO_TEST_CASE(lengths_come_by_their_weights_and_mixed) {
  const test::TempFolder folder;
  const TokenDataset dataset(
      generated(folder, {{"task", "add"}, {"lengths", {1, 3}}, {"train", 900}, {"validation", 0}, {"window", 16}}));
  std::map<std::size_t, int> lengths;
  std::vector<std::int64_t> ids(17);
  std::size_t changes = 0, before = 0;
  for (std::uint64_t w = 0; w < 900; ++w) {
    dataset.window(Split::kTrain, 16, w, ids);
    std::size_t a = 0, b = 0;
    while (ids[1 + a] != kFirstSymbol + 10) ++a;
    while (ids[2 + a + b] != kTaskSep) ++b;
    ++lengths[std::max(a, b)];
    changes += std::max(a, b) != before;
    before = std::max(a, b);
  }
  // 1, 3 and 5 pairs of digit counts.
  BOOST_TEST(lengths[1] == 100);
  BOOST_TEST(lengths[2] == 300);
  BOOST_TEST(lengths[3] == 500);
  BOOST_TEST(changes > 300u);
}

BOOST_AUTO_TEST_CASE(the_same_config_gives_the_same_bytes_and_another_seed_others) {
  const test::TempFolder folder;
  Json options = {{"task", {{"kind", "posgen"}, {"modulus", 7}}},
                  {"lengths", {8, 12}},
                  {"train", 64},
                  {"validation", 8},
                  {"window", 16}};
  const TokenDataset a(generated(folder, options, "a")), b(generated(folder, options, "b"));
  options["seed"] = 2;
  const TokenDataset c(generated(folder, options, "c"));
  BOOST_TEST(a.content_digest() == b.content_digest());
  BOOST_TEST(a.content_digest() != c.content_digest());
  BOOST_TEST(a.tokenizer_digest() == c.tokenizer_digest());
}

BOOST_AUTO_TEST_CASE(the_tokenizer_knows_the_task_and_refuses_text) {
  const test::TempFolder folder;
  const TokenDataset dataset(generated(folder, {{"task", {{"kind", "posgen"}, {"modulus", 7}}},
                                                {"lengths", {8, 8}},
                                                {"train", 8},
                                                {"validation", 0},
                                                {"window", 16}}));
  BOOST_TEST(dataset.tokenizer().kind == "symbols");
  BOOST_TEST(task_of_tokenizer(dataset.tokenizer(), "data").at("modulus") == 7);
  const auto tokenizer = make_tokenizer(dataset.tokenizer(), "data");
  const std::vector<std::int32_t> ids = tokenizer->encode("3 0 6");
  BOOST_TEST(ids == (std::vector<std::int32_t>{7, 4, 10}), boost::test_tools::per_element());
  BOOST_TEST(tokenizer->decode(ids) == "3 0 6");
  BOOST_CHECK_EXCEPTION(tokenizer->encode("7"), support::ConfigError, [](const auto& error) {
    const std::string text = error.what();
    return text.find("posgen") != std::string::npos && text.find("'7'") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(what_does_not_fit_is_said_with_both_numbers) {
  const std::string narrow = message_of({{"task", "copy_multi"}, {"lengths", {20, 20}}, {"train", 4}, {"window", 32}});
  BOOST_TEST(narrow.find("43 tokens") != std::string::npos, narrow);
  BOOST_TEST(narrow.find("generate.window is 32") != std::string::npos, narrow);
  const std::string none = message_of({{"task", "dyck"}, {"lengths", {3, 3}}, {"train", 4}});
  BOOST_TEST(none.find("no example of 3 to 3 brackets") != std::string::npos, none);
  const std::string backwards = message_of({{"task", "dyck"}, {"lengths", {8, 2}}});
  BOOST_TEST(backwards.find("the shortest and the longest") != std::string::npos, backwards);
}

BOOST_AUTO_TEST_CASE(damaged_labels_are_refused_with_what_was_found_and_expected) {
  using artifact::h5::Group;
  const Json options = {{"task", "reverse"}, {"lengths", {3, 3}}, {"train", 40}, {"validation", 4}, {"window", 10}};
  const auto after = [&](const std::function<void(Group&, std::vector<std::int32_t>)>& labels) {
    const test::TempFolder folder;
    const std::filesystem::path data = generated(folder, options);
    rewrite_shard(data, labels);
    return damage_of(data);
  };
  const auto with_last = [&](std::int32_t label) {
    return after([label](Group& root, std::vector<std::int32_t> all) {
      all.back() = label;
      root.write("labels", all);
    });
  };
  // 40 windows of 10 tokens and the one that ends the last; 104 symbols.
  BOOST_TEST(after([](Group& root, std::vector<std::int32_t> all) { root.write("labels", all); }) == "");
  BOOST_TEST(with_last(103) == "");
  const std::map<std::string, std::string> expected = {
      {after([](Group& root, std::vector<std::int32_t> all) {
         all.pop_back();
         root.write("labels", all);
       }),
       "/labels: expected int32 [401], found int32 [400]"},
      {after([](Group& root, std::vector<std::int32_t> all) {
         all.push_back(0);
         root.write("labels", all);
       }),
       "/labels: expected int32 [401], found int32 [402]"},
      {after([](Group& root, std::vector<std::int32_t>) { root.write("labels", std::vector<std::int32_t>()); }),
       "/labels: expected int32 [401], found int32 [0]"},
      {after([](Group& root, const std::vector<std::int32_t>& all) {
         root.write("labels", std::vector<std::int64_t>(all.begin(), all.end()));
       }),
       "/labels: expected int32 [401], found int64 [401]"},
      {after([](Group& root, const std::vector<std::int32_t>& all) {
         root.write("labels", std::vector<float>(all.begin(), all.end()));
       }),
       "/labels: expected int32 [401], found float32 [401]"},
      {after([](Group& root, const std::vector<std::int32_t>& all) {
         root.write("labels", std::span<const std::int32_t>(all), {all.size(), 1});
       }),
       "/labels: expected int32 [401], found int32 [401, 1]"},
      {after([](Group& root, const std::vector<std::int32_t>&) { root.create_group("labels"); }),
       "opening dataset 'labels'"},
      {after([](Group&, const std::vector<std::int32_t>&) {}), "1 of 2 shards have /labels; all do or none"},
      {with_last(104), "/labels holds 104, the vocabulary has 104"},
      {with_last(-2), "/labels holds -2, the vocabulary has 104"},
      {with_last(std::numeric_limits<std::int32_t>::min()), "/labels holds -2147483648, the vocabulary has 104"},
  };
  BOOST_TEST(expected.size() == 11u);
  for (const auto& [message, words] : expected) {
    BOOST_TEST(message.find(words) != std::string::npos, message << "\n  lacks: " << words);
    const bool of_the_folder = words.find("all do or none") != std::string::npos;
    BOOST_TEST(message.find(of_the_folder ? "data'" : "train-00000.h5'") != std::string::npos, message);
  }
}

BOOST_AUTO_TEST_CASE(a_shard_cut_short_or_with_a_wrong_byte_is_read_or_refused_and_never_worse) {
  const test::TempFolder folder;
  const std::filesystem::path data =
      generated(folder, {{"task", "reverse"}, {"lengths", {3, 3}}, {"train", 40}, {"validation", 4}, {"window", 10}});
  const std::filesystem::path shard = data / "train-00000.h5";
  const std::string whole = support::read_file(shard);
  const auto damage = [&](const std::string& bytes) {
    std::ofstream(shard, std::ios::binary | std::ios::trunc) << bytes;
    test::mend_manifest(data);
    return damage_of(data);
  };
  for (const std::size_t left :
       {std::size_t{0}, std::size_t{7}, std::size_t{600}, whole.size() / 2, whole.size() - 1}) {
    const std::string message = damage(whole.substr(0, left));
    BOOST_TEST(message.find("train-00000.h5") != std::string::npos, left << " bytes: " << message);
  }
  support::Xoshiro random(7);
  int refused = 0;
  for (int i = 0; i < 400; ++i) {
    std::string bytes = whole;
    bytes[random.below(bytes.size())] ^= static_cast<char>(1u << random.below(8));
    refused += damage(bytes).empty() ? 0 : 1;
  }
  BOOST_TEST(refused > 20);
  BOOST_TEST(damage(whole) == "");
}

BOOST_AUTO_TEST_SUITE_END()

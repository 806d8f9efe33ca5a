#include "data/generate.h"

#include <boost/test/unit_test.hpp>
#include <map>

#include "data/algorithmic_task.h"
#include "data/symbol_tokenizer.h"
#include "data/token_dataset.h"
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

}  // namespace

BOOST_AUTO_TEST_SUITE(generate_stage)

BOOST_AUTO_TEST_CASE(every_window_is_an_example_with_its_labels) {
  const test::TempFolder folder;
  const TokenDataset dataset(generated(folder, {{"task", "reverse"}, {"lengths", {3, 7}}, {"train", 500}, {"validation", 50},
                                                {"window", 20}, {"seed", 4}}));
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
      if (i > n && i <= 2 * n) expected = ids[2 * n + 1 - i];   // the input, backwards
      if (i == 2 * n + 1) expected = kTaskEos;
      BOOST_REQUIRE(labels[i] == expected);
    }
    for (std::size_t i = 2 * n + 3; i < 20; ++i) BOOST_REQUIRE(ids[i] == kTaskPad);
  }
  BOOST_TEST(lengths.size() == 5u);
  for (const auto& [length, times] : lengths) BOOST_TEST(times == 100, length << ": " << times);
}

BOOST_AUTO_TEST_CASE(lengths_come_by_their_weights_and_mixed) {
  const test::TempFolder folder;
  const TokenDataset dataset(generated(folder, {{"task", "add"}, {"lengths", {1, 3}}, {"train", 900}, {"validation", 0}, {"window", 16}}));
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
  Json options = {{"task", {{"kind", "posgen"}, {"modulus", 7}}}, {"lengths", {8, 12}}, {"train", 64}, {"validation", 8}, {"window", 16}};
  const TokenDataset a(generated(folder, options, "a")), b(generated(folder, options, "b"));
  options["seed"] = 2;
  const TokenDataset c(generated(folder, options, "c"));
  BOOST_TEST(a.content_digest() == b.content_digest());
  BOOST_TEST(a.content_digest() != c.content_digest());
  BOOST_TEST(a.tokenizer_digest() == c.tokenizer_digest());
}

BOOST_AUTO_TEST_CASE(the_tokenizer_knows_the_task_and_refuses_text) {
  const test::TempFolder folder;
  const TokenDataset dataset(generated(folder, {{"task", {{"kind", "posgen"}, {"modulus", 7}}}, {"lengths", {8, 8}}, {"train", 8},
                                                {"validation", 0}, {"window", 16}}));
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

BOOST_AUTO_TEST_SUITE_END()

// Numbers that are read off tokens: places in runs of digits, in segments, in columns of additions.
#include "data/tokenizers/token_numbers.h"

#include <boost/test/unit_test.hpp>

#include "data/tasks/algorithmic_task.h"
#include "data/tokenizers/symbol_tokenizer.h"
#include "data/tokenizers/tokenizer.h"
#include "support/error.h"

using namespace pe;
using namespace pe::data;

namespace {

using Numbers = std::vector<std::int64_t>;

Numbers read(const Json& wish, const artifact::TokenizerRecord& record, const std::string& text) {
  const auto tokenizer = make_tokenizer(record, "here");
  std::vector<std::int64_t> ids;
  for (const std::int32_t id : tokenizer->encode(text)) ids.push_back(id);
  return token_numbers(wish, record, "here")(ids);
}

Numbers of_task(const std::string& task, const std::string& text, const std::string& reads = "coupled") {
  return read({{"reads", reads}}, symbol_tokenizer_record(task), text);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(token_numbers_of)

BOOST_AUTO_TEST_CASE(digits_count_in_their_runs) {
  const auto bytes = make_byte_tokenizer()->record();
  const Numbers in_text = {0, 0, 1, 2, 3, 0, 1, 0, 0};
  BOOST_TEST(read({{"reads", "digits"}}, bytes, "a 123,4 b") == in_text, boost::test_tools::per_element());
  const Numbers in_sum = {1, 2, 0, 1, 2, 0, 1, 2, 3};
  BOOST_TEST(of_task("add_rev", "7 5 + 8 6 <sep> 5 2 1", "digits") == in_sum, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(segments_end_with_their_separators) {
  const auto bytes = make_byte_tokenizer()->record();
  const Json wish = {{"reads", "segments"}, {"separators", {"\n", "."}}};
  const Numbers expected = {0, 0, 1, 0, 2, 0, 0, 1, 1, 1, 0, 2};  // a b . c \n d
  BOOST_TEST(read(wish, bytes, "ab.c\nd") == expected, boost::test_tools::per_element());
  const Json never = {{"reads", "segments"}, {"separators", Json::array({"#"})}};
  const Numbers rows = {0, 0, 1, 0, 2, 0};
  BOOST_TEST(read(never, bytes, "a.b") == rows, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(digits_of_one_weight_are_coupled) {
  const auto same = [](const Numbers& found, const Numbers& expected) {
    BOOST_TEST(found == expected, boost::test_tools::per_element());
  };
  same(of_task("add_rev", "<bos> 7 5 + 8 6 <sep> 5 2 1 <eos>"), {0, 2, 3, 1, 2, 3, 1, 2, 3, 4, 0});
  same(of_task("add_pad", "<bos> 5 7 + 6 8 <sep> 1 2 5 <eos>"), {0, 3, 2, 1, 3, 2, 5, 4, 3, 2, 0});
  same(of_task("add_pad", "<bos> 5 7 + 6 8 <sep> 1"), {0, 3, 2, 1, 3, 2, 5, 4});  // the end is known before it is said
  same(of_task("copy_multi", "<bos> s3 s1 s2 <sep> s3 s1 s2 <eos>"), {0, 2, 3, 4, 1, 2, 3, 4, 0});
  same(of_task("reverse", "<bos> s3 s1 s2 <sep> s2 s1 s3 <eos>"), {0, 1, 2, 3, 4, 3, 2, 1, 0});
  same(of_task("parity", "<bos> 1 , 0 <sep> No <eos>"), {0, 1, 1, 1, 2, 1, 0});
  same(of_task("reverse", "<bos> s3 s1"), {0, 1, 2});
}

BOOST_AUTO_TEST_CASE(what_is_said_has_the_id_of_what_it_is_said_of) {
  for (const char* name : {"copy_repeat", "copy_multi", "reverse"}) {
    const ChosenTask chosen = choose_task(name);
    const TokenNumbers numbers = token_numbers({{"reads", "coupled"}}, symbol_tokenizer_record(name), "here");
    for (std::int64_t i = 0; i < 20; ++i) {
      const TaskExample example = make_example(*chosen.task, name, kTaskTestSeed, Split::kTest, 1 + i, i);
      const std::vector<std::int64_t> ids(example.ids.begin(), example.ids.end());
      const Numbers found = numbers(ids);
      const auto separator = static_cast<std::size_t>(std::find(ids.begin(), ids.end(), kTaskSep) - ids.begin());
      for (std::size_t t = separator + 1; t + 1 < ids.size(); ++t) {
        const auto of = static_cast<std::size_t>(
            std::find(found.begin(), found.begin() + static_cast<std::ptrdiff_t>(separator), found[t]) - found.begin());
        BOOST_REQUIRE(of < separator);
        BOOST_TEST(ids[of] == ids[t]);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_has_no_such_numbers_is_refused) {
  const Json wish = {{"reads", "coupled"}};
  BOOST_CHECK_THROW(token_numbers(wish, make_byte_tokenizer()->record(), "here"), support::ConfigError);
  try {
    token_numbers(wish, symbol_tokenizer_record("sort_single"), "data");
    BOOST_ERROR("not refused");
  } catch (const support::ConfigError& error) {
    BOOST_TEST(std::string(error.what()).find("sort_single") != std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()

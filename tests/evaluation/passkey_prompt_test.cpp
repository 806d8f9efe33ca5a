#include "evaluation/retrieval/passkey_prompt.h"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <map>
#include <string>

#include "evaluation/fakes.h"
#include "support/text.h"

using namespace pe::evaluation;
using namespace pe::evaluation::testing;
using pe::Json;

namespace {

std::size_t occurrences(const std::vector<std::int32_t>& ids, const std::vector<std::int32_t>& part) {
  std::size_t found = 0;
  for (auto it = ids.begin(); (it = std::search(it, ids.end(), part.begin(), part.end())) != ids.end(); ++it) ++found;
  return found;
}

const std::vector<double> kDepths = {0, 0.1, 0.25, 0.5, 0.75, 0.9, 1};

}  // namespace

BOOST_AUTO_TEST_SUITE(passkey_prompt)

BOOST_AUTO_TEST_CASE(prompt_and_answer_have_exactly_the_length) {
  const ByteCodec codec;
  const PairCodec pairs;
  for (const TextCodec* tokenizer : {static_cast<const TextCodec*>(&codec), static_cast<const TextCodec*>(&pairs)}) {
    const PasskeyBuilder builder(*tokenizer, false);
    for (PasskeyForm form : {PasskeyForm::kLong, PasskeyForm::kShort}) {
      const std::int64_t least = builder.minimum(form);
      for (std::int64_t length :
           {least, least + 1, least + 37, std::int64_t{512}, std::int64_t{1000}, std::int64_t{4096}}) {
        for (double depth : kDepths) {
          const auto prompt = builder.build(form, length, depth, builder.key(length, 3));
          BOOST_REQUIRE(prompt.has_value());
          BOOST_TEST(static_cast<std::int64_t>(prompt->ids.size()) == length);
          BOOST_TEST(prompt->control.size() == prompt->ids.size());
          BOOST_TEST(length - prompt->answer_begin == builder.answer_tokens());
        }
      }
      BOOST_TEST(!builder.build(form, least - builder.answer_tokens(), 0.5, builder.key(512, 3)).has_value());
    }
  }
}

BOOST_AUTO_TEST_CASE(the_key_occurs_as_often_as_the_wording_states) {
  const ByteCodec codec;
  const PasskeyBuilder builder(codec, false);
  for (std::int64_t trial = 0; trial < 50; ++trial) {
    const std::string key = builder.key(600, trial);
    BOOST_TEST(key.size() == 5);
    BOOST_TEST(key[0] != '0');
    const auto digits = codec.encode_inside(key);
    for (double depth : kDepths) {
      const auto prompt = builder.build(PasskeyForm::kLong, 600, depth, key);
      BOOST_TEST(occurrences(prompt->ids, digits) == 3);      // twice in the fact, once as the answer
      BOOST_TEST(occurrences(prompt->control, digits) == 1);  // the answer alone
      BOOST_TEST(occurrences(builder.build(PasskeyForm::kShort, 600, depth, key)->ids, digits) == 2);
    }
  }
}

BOOST_AUTO_TEST_CASE(deeper_facts_stand_later_and_on_a_unit_s_boundary) {
  const ByteCodec codec;
  const PasskeyBuilder builder(codec, false);
  const std::string key = builder.key(2048, 0);
  for (PasskeyForm form : {PasskeyForm::kLong, PasskeyForm::kShort}) {
    std::int64_t last = -1;
    const std::int64_t start = builder.build(form, 2048, 0, key)->fact_begin;
    for (double depth : kDepths) {
      const std::int64_t at = builder.build(form, 2048, depth, key)->fact_begin;
      BOOST_TEST(at >= last);
      BOOST_TEST((at - start) % builder.unit_tokens() == 0);
      last = at;
    }
    BOOST_TEST(last > start);
  }
}

BOOST_AUTO_TEST_CASE(the_control_differs_in_the_fact_alone) {
  const ByteCodec codec;
  const PasskeyBuilder builder(codec, false);
  const auto prompt = builder.build(PasskeyForm::kLong, 700, 0.5, builder.key(700, 1));
  for (std::size_t i = 0; i < prompt->ids.size(); ++i) {
    const auto at = static_cast<std::int64_t>(i);
    if (at >= prompt->fact_begin && at < prompt->fact_begin + prompt->fact_tokens) continue;
    BOOST_TEST(prompt->ids[i] == prompt->control[i]);
  }
}

BOOST_AUTO_TEST_CASE(the_text_reads_as_the_template_says) {
  const ByteCodec codec;
  const PasskeyBuilder builder(codec, false);
  const auto read = [](const std::vector<std::int32_t>& ids) {
    std::string text;
    for (std::int32_t id : ids) {
      if (id < 256) text += static_cast<char>(id);
    }
    return text;
  };
  const std::int64_t least = builder.minimum(PasskeyForm::kLong);
  BOOST_TEST(
      read(builder.build(PasskeyForm::kLong, least, 1, "40961")->ids) ==
      "A secret number is written somewhere in the text below. Keep it in mind, it will be asked for at the end.\n"
      "The secret number is 40961. Do not forget it. 40961 is the secret number.\n"
      "What is the secret number? The secret number is 40961");
  BOOST_TEST(read(builder.build(PasskeyForm::kShort, builder.minimum(PasskeyForm::kShort), 0, "40961")->ids) ==
             "Code 40961.\nCode 40961");
  const PasskeyBuilder spaced(codec, true);
  BOOST_TEST(read(spaced.build(PasskeyForm::kShort, spaced.minimum(PasskeyForm::kShort), 0, "40961")->ids) ==
             "Code 4 0 9 6 1.\nCode 4 0 9 6 1");
}

BOOST_AUTO_TEST_CASE(the_text_of_another_source_makes_its_prompts) {
  const ByteCodec codec;
  PasskeyText text;
  text.header = "";
  text.filler = "la ";
  text.fact = "<{K}>";
  text.question = "?";
  text.answer = "={K}.";
  text.digits = 3;
  BOOST_TEST(!text.is_ours());
  BOOST_TEST(PasskeyText().is_ours());
  const PasskeyBuilder builder(codec, false, text);
  BOOST_TEST(builder.minimum(PasskeyForm::kLong) == 1 + 5 + 1 + 5);  // the separator, "<123>", "?", "=123."
  const auto prompt = builder.build(PasskeyForm::kLong, 20, 0.5, "123");
  BOOST_REQUIRE(prompt.has_value());
  std::string read;
  for (const std::int32_t id : prompt->ids) read += id < 256 ? static_cast<char>(id) : '|';
  BOOST_TEST(read == "|la <123>la la?=123.");
  for (std::int64_t trial = 0; trial < 50; ++trial) {
    const std::string key = builder.key(20, trial);
    BOOST_TEST(key.size() == 3u);
    BOOST_TEST(key[0] != '0');
  }
  // A number that the texts hold is no key.
  text.digits = 1;
  text.header = "1 2 3 4 6 7 8 9 ";
  for (std::int64_t trial = 0; trial < 20; ++trial)
    BOOST_TEST(PasskeyBuilder(codec, false, text).key(20, trial) == "5");
  text.header += "5";
  BOOST_CHECK_EXCEPTION(PasskeyBuilder(codec, false, text).key(20, 0), pe::support::ConfigError, [](const auto& error) {
    return std::string(error.what()).find("no number of 1 digits was found that the passkey's texts do not hold") !=
           std::string::npos;
  });
  text.header = "";
  BOOST_CHECK_EXCEPTION(
      PasskeyBuilder(codec, false, text).other_keys("5", 20, 0, 9), pe::support::ConfigError, [](const auto& error) {
        return std::string(error.what()).find("no 10 different numbers of 1 digits") != std::string::npos;
      });
}

BOOST_AUTO_TEST_CASE(numbers_up_to_something_have_one_digit_or_more) {
  const ByteCodec codec;
  PasskeyText text;
  text.upto = 50000;
  BOOST_TEST(!text.is_ours());
  const PasskeyBuilder builder(codec, false, text);
  BOOST_TEST(builder.answer_tokens() == 6);  // a space and five digits
  std::map<std::size_t, int> lengths;
  for (std::int64_t trial = 0; trial < 2000; ++trial) {
    const std::string key = builder.key(400, trial);
    BOOST_REQUIRE_LE(std::stol(key), 50000);
    BOOST_REQUIRE_GE(std::stol(key), 1);
    ++lengths[key.size()];
    const auto prompt = builder.build(PasskeyForm::kLong, 400, 0.5, key);
    BOOST_REQUIRE(prompt.has_value());
    BOOST_REQUIRE_EQUAL(prompt->ids.size(), 400u);
    BOOST_REQUIRE_EQUAL(prompt->ids.size() - static_cast<std::size_t>(prompt->answer_begin), key.size() + 1);
  }
  BOOST_TEST(std::abs(lengths[5] - 1600) < 80);  // 80 %, 18 % and 2 %
  BOOST_TEST(std::abs(lengths[4] - 360) < 80);
  BOOST_TEST(lengths[3] > 10);
  for (const std::string& other : builder.other_keys("417", 400, 0, 20)) BOOST_TEST(other.size() == 3u);
  BOOST_CHECK_EXCEPTION(builder.other_keys("7", 400, 0, 9), pe::support::ConfigError, [](const auto& error) {
    return std::string(error.what()).find("no 10 different numbers up to 50000") != std::string::npos;
  });
}

BOOST_AUTO_TEST_CASE(texts_without_a_place_for_the_number_are_told) {
  const auto message = [](const Json& values) {
    try {
      pe::support::make_config<PasskeyText>(values);
    } catch (const pe::support::ConfigError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  BOOST_TEST(message({{"fact", "the number"}}).find("the fact lacks {K}") != std::string::npos);
  BOOST_TEST(message({{"answer", " 12345"}}).find("the answer lacks {K}") != std::string::npos);
  BOOST_TEST(message({{"question", "Is it {K}?"}}).find("only fact and answer may contain it") != std::string::npos);
  BOOST_TEST(message({{"filler", ""}}).find("the filler is empty") != std::string::npos);
  BOOST_TEST(message({{"header", ""}}) == "accepted");
}

BOOST_AUTO_TEST_CASE(keys_have_the_usual_number_of_tokens) {
  const PairCodec codec;
  const PasskeyBuilder builder(codec, false);
  for (std::int64_t trial = 0; trial < 100; ++trial) {
    const std::string key = builder.key(512, trial);
    BOOST_TEST(static_cast<std::int64_t>(builder.answer(key).size()) == builder.answer_tokens());
    for (const std::string& other : builder.other_keys(key, 512, trial, 9)) {
      BOOST_TEST(other != key);
      BOOST_TEST(builder.answer(other).size() == builder.answer(key).size());
    }
  }
}

BOOST_AUTO_TEST_CASE(keys_depend_on_length_and_index_alone) {
  const ByteCodec codec;
  const PasskeyBuilder one(codec, false), another(codec, false);
  BOOST_TEST(one.key(512, 7) == another.key(512, 7));
  BOOST_TEST(one.key(512, 7) != one.key(512, 8));
  BOOST_TEST(one.key(512, 7) != one.key(1024, 7));
}

BOOST_AUTO_TEST_SUITE_END()

// Prompts with facts in haystacks, and the ladder of scores, on models that can be solved by hand.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <set>

#include "evaluation/eval_group.h"
#include "evaluation/fakes.h"
#include "evaluation/retrieval/haystack.h"
#include "evaluation/retrieval/retrieval_scoring.h"
#include "support/text.h"

using namespace pe::evaluation;
using namespace pe::evaluation::testing;
using pe::Json;

namespace {

struct EvalConfig {
  EvalGroup eval;
  void describe(pe::support::FieldVisitor& v) { v.group("eval", eval, "What is measured."); }
};

Rows run(const std::string& task, Scorer& scorer, Json options, const DocumentSource& documents) {
  options["tasks"] = {task};
  const auto config = pe::support::make_config<EvalConfig>(Json{{"eval", options}});
  MemoryResults results;
  run_tasks(config.eval, scorer, ByteCodec(), documents, results, pe::support::silent_progress());
  return cells_of(results.rows);
}

std::string text_of(const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const std::int32_t id : ids) text += id < 256 ? std::string(1, static_cast<char>(id)) : "<s>";
  return text;
}

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

/// Letters and full stops, so that nothing looks like a needle.
class Prose final : public DocumentSource {
 public:
  explicit Prose(std::int64_t documents, std::int64_t tokens) : documents_(documents), tokens_(tokens) {}
  std::string split() const override { return "test"; }
  std::int64_t count() const override { return documents_; }
  std::int64_t tokens(std::int64_t) const override { return tokens_; }
  std::uint64_t hash(std::int64_t id) const override { return pe::support::mix(static_cast<std::uint64_t>(id)); }
  Document read(std::int64_t id, std::int64_t limit) const override {
    Document document;
    pe::support::Xoshiro random(static_cast<std::uint64_t>(id) + 99);
    for (std::int64_t i = 0; i < std::min(limit, tokens_); ++i) {
      const std::uint64_t draw = random.below(30);
      document.ids.push_back(draw < 26 ? static_cast<std::int32_t>('a' + draw) : draw == 26 ? '.' : ' ');
      document.bytes.push_back(1);
    }
    return document;
  }

 private:
  std::int64_t documents_, tokens_;
};

/// Every prompt that a task feeds, once, in order: prompts with an answer are distinguished by their question.
std::vector<std::string> prompts(const std::string& task, const Json& options, const DocumentSource& documents) {
  std::vector<std::string> seen;
  FakeScorer recorder(
      [&](const std::vector<std::int32_t>& ids, std::int64_t) {
        const std::string text = text_of(ids);
        if (seen.empty() || seen.back() != text) seen.push_back(text);
        return FakeScorer::Answer{1.0, false};
      },
      {.vocabulary = 257, .train_length = 256});
  run(task, recorder, options, documents);
  return seen;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(retrieval)

BOOST_AUTO_TEST_CASE(word_lists_have_sixty_four_different_words) {
  for (const auto* words : {&adjectives(), &nouns()}) {
    BOOST_TEST(words->size() == 64u);
    BOOST_TEST(std::set<std::string>(words->begin(), words->end()).size() == 64u);
  }
}

BOOST_AUTO_TEST_CASE(prompts_have_exactly_the_length_and_facts_stand_where_sentences_end) {
  const ByteCodec codec;
  const Prose prose(20, 3000);
  const DocumentHaystack documents(prose, codec);
  const UnitHaystack filler(codec, filler_unit());
  for (const Haystack* haystack : {static_cast<const Haystack*>(&documents), static_cast<const Haystack*>(&filler)}) {
    Question question{
        .head = "Read.\n", .facts = {}, .question = "What is it? It is", .answers = {" 123", ", 45"}, .others = {}};
    for (const double depth : {0.0, 0.3, 0.9})
      question.facts.push_back({"Fact " + std::to_string(depth) + ".\n", depth});
    const std::int64_t least = fixed_tokens(codec, question);
    for (const std::int64_t length : {least, least + 1, least + 50, std::int64_t{1000}, std::int64_t{2500}}) {
      pe::support::Xoshiro random(static_cast<std::uint64_t>(length));
      const auto prompt = build_prompt(codec, *haystack, question, length, random);
      BOOST_REQUIRE(prompt.has_value());
      BOOST_TEST(static_cast<std::int64_t>(prompt->ids.size()) == length);
      BOOST_TEST(prompt->control.size() == prompt->ids.size());
      const std::string text = text_of(prompt->ids), control = text_of(prompt->control);
      BOOST_TEST(text.substr(text.size() - 8) == " 123, 45");
      BOOST_TEST(control.substr(control.size() - 8) == " 123, 45");
      for (std::size_t i = 0; i < 3; ++i) {
        BOOST_TEST(times(text, question.facts[i].text) == 1u);
        BOOST_TEST(times(control, question.facts[i].text) == 0u);
        const auto begin = static_cast<std::size_t>(prompt->fact_begins[i]) + 2;  // <s> is three characters, one token
        if (length > least) {
          // BOS, the head and the facts before it are no part of the haystack.
          const double before = static_cast<double>(prompt->fact_begins[i]) - 1 - 6 -
                                static_cast<double>(i * question.facts[0].text.size());
          BOOST_TEST(std::abs(prompt->landed[i] - before / static_cast<double>(length - least)) < 1e-12);
        }
        BOOST_TEST(text.substr(begin, 4) == "Fact");
        if (i > 0) BOOST_TEST(prompt->fact_begins[i] > prompt->fact_begins[i - 1]);
        if (length >= 1000) BOOST_TEST((text[begin - 1] == '.' || text[begin - 1] == '\n'), text[begin - 1]);
      }
    }
    pe::support::Xoshiro random(1);
    BOOST_TEST(!build_prompt(codec, *haystack, question, least - 1, random).has_value());
  }
}

BOOST_AUTO_TEST_CASE(a_needle_is_stated_once_and_asked_for_at_the_end) {
  const Prose prose(20, 3000);
  const Json options = {{"context", {400}}, {"needle", {{"depths", {0, 0.5, 1}}, {"trials", 3}, {"candidates", 1}}}};
  const auto seen = prompts("needle", options, prose);
  BOOST_TEST(seen.size() == 18u);  // nine items, each with its control
  std::set<std::string> numbers;
  for (std::size_t i = 0; i < seen.size(); i += 2) {
    const std::string number = seen[i].substr(seen[i].size() - 7);
    numbers.insert(number);
    BOOST_TEST(number[0] != '0');
    BOOST_TEST(times(seen[i], number) == 2u);      // in the needle, and as the answer
    BOOST_TEST(times(seen[i + 1], number) == 1u);  // the control has the answer alone
    BOOST_TEST(seen[i].size() == 400u + 2);
  }
  BOOST_TEST(numbers.size() == 9u);
  BOOST_TEST(prompts("needle", options, prose) == seen,
             boost::test_tools::per_element());  // whichever model reads them

  Json easy = options;
  easy["needle"].update({{"mode", "easy"}, {"distractors", 3}});
  for (const std::string& text : prompts("needle", easy, prose)) {
    const std::size_t asked = text.rfind("What is the ");
    const std::string question = text.substr(asked, text.rfind(" code is") - asked);
    const bool control = times(text, question) == 1;
    BOOST_TEST((control || times(text, question) == 2));
    if (!control) BOOST_TEST(times(text, " code is ") == 5u);  // the needle, three others, the question
  }
}

BOOST_AUTO_TEST_CASE(every_task_of_ruler_holds_what_it_asks_for) {
  const Prose prose(20, 3000);
  for (const char* name : {"single_filler", "single", "multikey", "multikey_needles", "multivalue", "multiquery",
                           "variables", "common_words"}) {
    const Json options = {{"context", {900}}, {"ruler", {{"tasks", {name}}, {"trials", 4}, {"candidates", 1}}}};
    const auto seen = prompts("ruler", options, prose);
    BOOST_TEST(seen.size() == 8u, name << ": " << seen.size());
    for (std::size_t i = 0; i < seen.size(); i += 2) {
      const std::string& text = seen[i];
      BOOST_TEST(text.size() == 902u, name);
      const std::string kind = name;
      const std::size_t ask = kind == "common_words"                         ? text.rfind(" are ") + 5
                              : kind == "multivalue" || kind == "multiquery" ? text.rfind("The codes are ") + 14
                              : kind == "variables"                          ? text.rfind("They are ") + 9
                                                                             : text.rfind(" code is ") + 9;
      const std::string body = text.substr(0, text.rfind(kind == "common_words" ? "The 3 words"
                                                         : kind == "variables"  ? "Which variables"
                                                                                : "What "));
      std::vector<std::string> answers;
      for (const std::string& part : pe::support::split(text.substr(ask), ',')) {
        answers.push_back(part[0] == ' ' ? part.substr(1) : part);
      }
      const std::size_t expected = kind == "common_words"                         ? 3
                                   : kind == "variables"                          ? 5
                                   : kind == "multivalue" || kind == "multiquery" ? 4
                                                                                  : 1;
      BOOST_TEST(answers.size() == expected, name << ": " << text.substr(ask));
      std::size_t before = 0;
      for (const std::string& answer : answers) {
        const std::size_t at = body.find(answer);
        BOOST_TEST(at != std::string::npos, name << ": " << answer << " is nowhere");
        if (kind == "multivalue" || kind == "multiquery") {
          BOOST_TEST(at > before, name);  // in the order of the text
          before = at;
        }
        if (expected == 1) BOOST_TEST(times(body, answer) == 1u, name);
      }
      if (kind == "multikey") BOOST_TEST(times(body, " code is ") == 4u);
      if (kind == "multikey_needles") BOOST_TEST(times(body, " code is ") > 15u);
      if (kind == "variables") {
        for (std::size_t hop = 1; hop < answers.size(); ++hop) {
          BOOST_TEST(times(body, "VAR " + answers[hop] + " = VAR " + answers[hop - 1] + "\n") == 1u);
        }
      }
      if (kind == "common_words") {
        std::map<std::string, int> count;
        for (std::string word : pe::support::split(body.substr(body.find('\n') + 1), ' ')) {
          if (const std::size_t stop = word.find('.'); stop != std::string::npos) word = word.substr(0, stop);
          ++count[word];
        }
        for (const auto& [word, n] : count) {
          const bool common = std::find(answers.begin(), answers.end(), word) != answers.end();
          if (common) BOOST_TEST(n >= 10, word << " comes " << n << " times");
        }
        BOOST_TEST(std::is_sorted(answers.begin(), answers.end()));
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_needle_with_too_few_numbers_is_rejected) {
  FakeScorer any(
      [](const auto&, std::int64_t) {
        return FakeScorer::Answer{1, false};
      },
      {.vocabulary = 257, .train_length = 256});
  const auto refused = [&](const Json& needle) -> std::string {
    try {
      run("needle", any, {{"context", {400}}, {"needle", needle}}, Prose(4, 3000));
    } catch (const pe::support::ConfigError& error) {
      return error.what();
    }
    return "";
  };
  BOOST_TEST(refused({{"digits", 1}, {"depths", {0}}, {"trials", 1}})
                 .find("needle needs 10 distinct numbers, and there are 9 of 1 digit") != std::string::npos);
  BOOST_TEST(
      refused({{"digits", 2}, {"distractors", 100}}).find("110 distinct numbers, and there are 90 of 2 digits") !=
      std::string::npos);
  BOOST_TEST(refused({{"digits", 1}, {"candidates", 9}, {"depths", {0}}, {"trials", 1}}) == "");
}

BOOST_AUTO_TEST_CASE(a_model_without_numbers_has_no_place_on_the_ladder) {
  const Prose prose(20, 3000);
  FakeScorer broken(
      [](const auto&, std::int64_t) {
        return FakeScorer::Answer{std::nan(""), false};
      },
      {.vocabulary = 257, .train_length = 256});
  const Rows rows = run("needle", broken, {{"context", {256}}, {"needle", {{"depths", {0}}, {"trials", 3}}}}, prose);
  for (const char* name : {"S0", "S1", "S2_gain", "S3", "S3_mrr", "S4"}) {
    const Row row = rows_where(rows, "retrieval_ladder", {{"measure", name}}).at(0);
    BOOST_TEST(text(cell("retrieval_ladder", row, "status")) == "overflow", name);
  }
  BOOST_TEST(std::isnan(value("retrieval_trial", rows.at("retrieval_trial").at(0), "rank")));
}

BOOST_AUTO_TEST_CASE(an_oracle_is_at_the_top_of_the_ladder_and_a_uniform_model_at_chance) {
  const Prose prose(20, 3000);
  const Json options = {{"context", {256, 512}}, {"needle", {{"depths", {0, 1}}, {"trials", 20}, {"candidates", 10}}}};
  // Knows the number where it is stated: seven digits behind the last " code is " before the question.
  FakeScorer oracle(
      [](const std::vector<std::int32_t>& ids, std::int64_t target) {
        const std::string text = text_of(std::vector<std::int32_t>(ids.begin() + 1, ids.end()));
        const std::size_t at = text.find(" code is ");
        const auto begin = static_cast<std::int64_t>(ids.size()) - 8;
        const bool stated = at != std::string::npos && at + 20 < text.size() - 8;
        const bool right = stated && text[at + 8 + static_cast<std::size_t>(target - begin)] ==
                                         text[static_cast<std::size_t>(target) - 1];
        return FakeScorer::Answer{right ? 0.0 : 2.302585, right};
      },
      {.vocabulary = 257, .train_length = 256});
  FakeScorer uniform = uniform_model(257, {.train_length = 256});
  const Rows top = run("needle", oracle, options, prose), chance = run("needle", uniform, options, prose);
  const auto measure = [](const Rows& rows, const char* name, const char* length = "512") {
    return rows_where(rows, "retrieval_ladder", {{"measure", name}, {"L", length}}).at(0);
  };
  for (const char* name : {"S0", "parts", "S1", "S1_digits", "S2_recovered", "S3", "S3_mrr", "S4", "S5"}) {
    BOOST_TEST(std::abs(value("retrieval_ladder", measure(top, name), "value") - 1) < 1e-6, name);
    BOOST_TEST(text(cell("retrieval_ladder", measure(top, name), "status")) == "ok", name);
  }
  BOOST_TEST(std::abs(value("retrieval_ladder", measure(top, "S2_gain"), "value") - 2.302585) < 1e-5);
  // S3 = 1/M, ties shared; a fact that is never read gains nothing.
  BOOST_TEST(std::abs(value("retrieval_ladder", measure(chance, "S3"), "value") - 0.1) < 1e-12);
  BOOST_TEST(value("retrieval_ladder", measure(chance, "S3"), "chance") == 0.1);
  BOOST_TEST(std::abs(value("retrieval_ladder", measure(chance, "S4"), "value")) < 1e-12);
  BOOST_TEST(value("retrieval_ladder", measure(chance, "S2_gain"), "value") == 0);
  BOOST_TEST(value("retrieval_ladder", measure(chance, "S0"), "value") == 0);
  // A task that was not learned at the training length cannot be compared with it.
  BOOST_TEST(text(cell("retrieval_ladder", measure(chance, "S5"), "status")) == "not_acquired");
  BOOST_TEST(std::isnan(value("retrieval_ladder", measure(chance, "S5"), "value")));
  for (const Row& row : rows_where(top, "retrieval_summary", {{"depth", "all"}})) {
    BOOST_TEST(value("retrieval_summary", row, "em") == 1);
    BOOST_TEST(value("retrieval_summary", row, "n") == 40);
  }
}

BOOST_AUTO_TEST_CASE(lengths_without_room_positions_or_text_say_so) {
  FakeScorer uniform = uniform_model(257, {.train_length = 256, .max_positions = 600});
  const Json options = {{"context", {64, 300, 500, 800}}, {"needle", {{"depths", {0.5}}, {"trials", 2}}}};
  const Rows rows = run("needle", uniform, options, Prose(1, 400));
  const std::map<std::int64_t, std::string> expected = {
      {64, "na_length"}, {300, "ok"}, {500, "skipped_docs"}, {800, "na_positions"}};
  for (const auto& [length, state] : expected) {
    const Row row = rows_where(rows, "retrieval_summary", {{"L", std::to_string(length)}, {"depth", "all"}}).at(0);
    BOOST_TEST(text(cell("retrieval_summary", row, "status")) == state, length);
    BOOST_TEST(std::isnan(value("retrieval_summary", row, "em")) == (state != "ok"));
  }
}

BOOST_AUTO_TEST_CASE(digits_that_a_tokenizer_joins_are_no_set_to_choose_from) {
  BOOST_TEST(digit_ids(ByteCodec()).size() == 10u);
  BOOST_TEST(digit_ids(PairCodec()).empty());
}

BOOST_AUTO_TEST_CASE(a_line_among_keys_and_values_is_the_one_that_is_asked_for) {
  const Prose prose(20, 3000);
  const Json options = {{"context", {900}}, {"kv_json", {{"depths", {0, 0.5, 1}}, {"trials", 3}, {"candidates", 1}}}};
  const auto seen = prompts("kv_json", options, prose);
  BOOST_TEST(seen.size() == 18u);  // nine items, each with its control
  for (std::size_t i = 0; i < seen.size(); i += 2) {
    const std::string& text = seen[i];
    BOOST_TEST(text.size() == 902u);
    const std::string body = text.substr(text.find("Keys and their values:\n") + 23);
    std::map<std::string, std::string> value;  // key in quotes to digits
    std::vector<std::string> order;
    for (const std::string& line : pe::support::split(body, '\n')) {
      const std::size_t colon = line.find("\": ");
      if (colon == std::string::npos) continue;
      order.push_back(line.substr(0, colon + 1));
      BOOST_TEST(value.emplace(order.back(), line.substr(colon + 3, 5)).second);
    }
    BOOST_TEST(value.size() >= 25u);
    const std::size_t ask = text.rfind("The value of ") + 13;
    const std::string key = text.substr(ask, text.rfind(" is ") - ask);
    BOOST_TEST(text.substr(text.size() - 6) == " " + value.at(key));
    const std::size_t place = i / 6 == 0 ? 0 : i / 6 == 1 ? (order.size() - 1 + 1) / 2 : order.size() - 1;
    BOOST_TEST(order[place] == key);
    BOOST_TEST(times(seen[i + 1], value.at(key)) == 1u);  // the control has the answer alone
  }
}

BOOST_AUTO_TEST_CASE(the_partner_of_a_word_has_the_code) {
  const Prose prose(20, 3000);
  std::set<std::string> asked[2];
  for (const bool trained : {false, true}) {
    const Json options = {
        {"context", {500}},
        {"needle_assoc",
         {{"depths", {0.5}}, {"trials", 30}, {"candidates", 1}, {"mode", trained ? "trained" : "in_context"}}}};
    const auto seen = prompts("needle_assoc", options, prose);
    for (std::size_t i = 0; i < seen.size(); i += 2) {
      const std::string& text = seen[i];
      const std::size_t at = text.rfind("partner of ") + 11;
      const std::string partner = text.substr(at, text.rfind("? It is ") - at);
      asked[trained ? 1 : 0].insert(partner);
      BOOST_TEST(times(text, " goes with ") == (trained ? 0u : 1u));
      const std::size_t code = text.find(" code is ");
      const std::size_t name = text.rfind("The ", code) + 4;
      const std::string coded = text.substr(name, code - name);
      BOOST_TEST(text.substr(code + 9, 5) == text.substr(text.size() - 5));
      if (!trained) BOOST_TEST(times(text, partner + " goes with " + coded + ".") == 1u);
    }
  }
  BOOST_TEST(asked[0].size() == 8u);
  BOOST_TEST(asked[1].size() > 12u);
  for (const std::string& partner : asked[0]) BOOST_TEST(asked[1].count(partner) == 0u);
}

BOOST_AUTO_TEST_CASE(lines_about_a_small_world_stand_in_order_and_the_control_lacks_those_that_decide) {
  const Prose prose(20, 3000);
  const Json options = {{"context", {1200}}, {"babi", {{"trials", 6}}}};
  const auto seen = prompts("babi", options, prose);
  std::size_t asked = 0;
  for (const std::string& text : seen) asked += times(text, "? Answer: ") == 1 ? 1 : 0;
  BOOST_TEST(asked == seen.size());
  FakeScorer uniform = uniform_model(257, {.vocabulary = 257, .train_length = 256});
  const Rows rows = run("babi", uniform, options, prose);
  for (const Row& row : rows.at("retrieval_trial")) BOOST_TEST(value("retrieval_trial", row, "n_candidates") == 8);
}

BOOST_AUTO_TEST_SUITE_END()

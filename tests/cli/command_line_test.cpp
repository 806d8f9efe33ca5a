#include "cli/command_line.h"

#include <boost/test/unit_test.hpp>

#include "commands/command_table.h"
#include "support/error.h"

using pe::cli::CommandLine;

namespace {

CommandLine parsed(std::vector<std::string> words) {
  words.insert(words.begin(), "pe-pipeline");
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  CommandLine line;
  BOOST_REQUIRE(!pe::cli::parse_command_line(pe::commands::command_table(), static_cast<int>(words.size()),
                                             arguments.data(), "1", line));
  return line;
}

std::string refusal(const std::vector<std::string>& words) {
  try {
    parsed(words);
  } catch (const pe::support::ConfigError& error) {
    BOOST_TEST(error.exit_code() == 2);
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(command_line)

BOOST_AUTO_TEST_CASE(words_and_flags_may_come_in_any_order) {
  const CommandLine line =
      parsed({"run", "--force", "a.yml", "-j", "3", "+trunk[seed=42]", "--mem", "2G", "decay+", "--gpus=0,1"});
  BOOST_TEST(line.verb == "run");
  BOOST_TEST((line.words == std::vector<std::string>{"a.yml", "+trunk[seed=42]", "decay+"}));
  BOOST_TEST(line.force);
  BOOST_TEST(*line.jobs == 3);
  BOOST_TEST(*line.mem_bytes == (2LL << 30));
  BOOST_TEST(*line.gpus == "0,1");
}

BOOST_AUTO_TEST_CASE(of_two_flags_that_exclude_each_other_the_last_holds) {
  BOOST_TEST(!parsed({"run", "a.yml", "--fail-fast", "--keep-going"}).fail_fast);
  BOOST_TEST(parsed({"run", "a.yml", "--keep-going", "--fail-fast"}).fail_fast);
}

BOOST_AUTO_TEST_CASE(a_selection_in_brackets_stays_one_word) {
  const CommandLine line =
      parsed({"run", "a.yml", "[encoding=rope,seed=42]", "*", "--set", "x.y=[1, 2]", "--set", "x.z={a: 1}"});
  BOOST_TEST((line.words == std::vector<std::string>{"a.yml", "[encoding=rope,seed=42]", "*"}));
  BOOST_TEST((line.set == std::vector<std::string>{"x.y=[1, 2]", "x.z={a: 1}"}));
}

BOOST_AUTO_TEST_CASE(a_word_after_two_dashes_is_no_flag) {
  BOOST_TEST((parsed({"show", "--", "abcd"}).words == std::vector<std::string>{"abcd"}));
}

BOOST_AUTO_TEST_CASE(what_does_not_exist_names_the_nearest_that_does) {
  BOOST_TEST(has(refusal({"rnu", "a.yml"}), "there is no command 'rnu'"));
  BOOST_TEST(has(refusal({"rnu", "a.yml"}), "did you mean 'run'?"));
  BOOST_TEST(has(refusal({"run", "a.yml", "--kep-going"}), "did you mean '--keep-going'?"));
  BOOST_TEST(has(refusal({"plan", "a.yml", "--forse"}), "unknown flag '--forse' of 'pe-pipeline plan'"));
  BOOST_TEST(has(refusal({"help", "staus"}), "did you mean 'status'?"));
  BOOST_TEST(has(refusal({"help", "run", "plan"}), "unknown word 'plan'"));
}

BOOST_AUTO_TEST_CASE(values_that_are_none_are_refused) {
  // As of --run "$RUN" where RUN is not set.
  for (const char* flag : {"--run", "--store"}) {
    const std::string said = refusal({"cancel", flag, ""});
    BOOST_TEST(said.find(std::string(flag) + " has an empty value") != std::string::npos, said);
  }
  BOOST_TEST(has(refusal({"run", "a.yml", "--mem", "16"}), "--mem must be a size with a unit, found '16'"));
  BOOST_TEST(has(refusal({"run", "a.yml", "--mem", "16"}), "16M or 16G"));
  BOOST_TEST(has(refusal({"gc", "--max-size", "500"}), "500M or 500G"));
  BOOST_TEST(has(refusal({"gc", "--grace", "7"}), "--grace must be a time with a unit, found '7'"));
  BOOST_TEST(parsed({"gc", "--grace", "0"}).trash_grace_s == 0.0);
  BOOST_TEST(parsed({"gc", "--grace", "7d"}).trash_grace_s == 7 * 86400.0);
  BOOST_TEST(*parsed({"run", "a.yml", "--mem", "17179869184"}).mem_bytes == (16LL << 30));  // as a plan records it
  BOOST_TEST(*parsed({"gc", "--max-size", "0"}).max_size == 0);
  BOOST_TEST(has(refusal({"run", "a.yml", "-j", "many"}), "-j, --jobs must be a whole number, found 'many'"));
  BOOST_TEST(has(refusal({"run", "a.yml", "-j", "0"}), "-j, --jobs must be at least 1, found 0"));
  BOOST_TEST(has(refusal({"run", "a.yml", "--color", "red"}), "--color must be one of auto, always, never, found 'red'"));
  BOOST_TEST(has(refusal({"run", "a.yml", "--grace", "soon"}), "--grace must be a time, found 'soon'"));
  BOOST_TEST(has(refusal({"run", "a.yml", "--set"}), "--set"));
  BOOST_TEST(parsed({"run", "a.yml", "--grace", "2m"}).grace_s == 120.0);
  BOOST_TEST(*parsed({"run", "a.yml", "--gpus", "none"}).gpus == "");
}

BOOST_AUTO_TEST_CASE(every_command_has_help_with_an_example_and_exit_codes_in_narrow_windows_too) {
  for (const std::string& name : pe::cli::command_names(pe::commands::command_table())) {
    for (const int columns : {40, 80, 200}) {
      const std::string text = pe::cli::help_text(pe::commands::command_table(), name, columns);
      BOOST_TEST(has(text, "usage: pe-pipeline " + name));
      BOOST_TEST(has(text, "Exit codes:"));
      if (name != "help") BOOST_TEST(has(text, "Examples:"));
    }
  }
  const std::string overview = pe::cli::help_text(pe::commands::command_table(), "", 80);
  // A long name has a separate line.
  for (const std::string& name : pe::cli::command_names(pe::commands::command_table()))
    BOOST_TEST((has(overview, "  " + name + " ") || has(overview, "  " + name + "\n")), name);
}

BOOST_AUTO_TEST_CASE(a_usage_line_says_what_may_stand_where) {
  const auto told = [](const std::string& usage) {
    std::string out;
    for (const auto& place : pe::cli::usage_places(usage))
      out += (place.optional ? "?" : "") + place.kind + (place.repeats ? "* " : " ");
    return out;
  };
  BOOST_TEST(told("FILE [SELECT...] [flags]") == "FILE ?SELECT* ");
  BOOST_TEST(told("[FILE] SELECT... DIR [flags]") == "?FILE SELECT* DIR ");
  BOOST_TEST(told("[FILE] [NAME SELECT...] [flags]") == "?FILE ?NAME ?SELECT* ");
  BOOST_TEST(told("FILE [SELECT...] --origin [flags]") == "FILE ?SELECT* ");
  BOOST_TEST(told("KEY|PATH|ID [flags]") == "KEY|PATH|ID ");
  for (const auto& command : pe::commands::command_table()) {
    if (command.name != "help" && !command.usage.empty())
      BOOST_TEST(!pe::cli::usage_places(command.usage).empty(), command.name);
  }
}

BOOST_AUTO_TEST_CASE(every_command_but_help_does_something) {
  for (const auto& command : pe::commands::command_table())
    BOOST_TEST((command.act != nullptr) == (command.name != "help"), command.name);
}

BOOST_AUTO_TEST_SUITE_END()

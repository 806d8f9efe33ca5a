#include "cli/command_table.h"

#include <algorithm>
#include <cctype>
#include <utility>

#include "support/suggest.h"
#include "support/text.h"

namespace pe::cli {

using support::cat;
using support::ConfigError;
using support::quote;

ConfigError usage_error(const std::string& message, const std::string& hint) {
  return ConfigError(message, {"pe-pipeline", 0, 0, "", 1}, hint);
}

namespace {

/// "-j, --jobs" of "-j,--jobs".
std::string label_of(const std::string& names) { return support::join(support::split(names, ','), ", "); }

std::int64_t whole(const std::string& flag, const std::string& text, support::Suffixes suffixes, std::int64_t least) {
  std::string why;
  const auto value = support::parse_integer(text, suffixes, &why);
  if (!value)
    throw usage_error(
        cat(label_of(flag), suffixes == support::Suffixes::kBytes ? " must be a size" : " must be a whole number",
            ", found ", quote(text), why.empty() || why == "is not a whole number" ? "" : cat(" (", why, ")")),
        "");
  if (*value < least) throw usage_error(cat(label_of(flag), " must be at least ", least, ", found ", *value), "");
  return *value;
}

std::string one_of(const std::string& flag, const std::string& text, const std::vector<std::string>& words) {
  if (std::find(words.begin(), words.end(), text) == words.end()) {
    throw usage_error(cat(label_of(flag), " must be one of ", support::join(words, ", "), ", found ", quote(text)),
                      support::did_you_mean(text, words));
  }
  return text;
}

}  // namespace

Flag toggle(std::string names, std::string help, bool CommandLine::*member, bool value) {
  return {std::move(names), "", std::move(help),
          [member, value](CommandLine& line, const std::string&) { line.*member = value; }};
}

Flag text(std::string names, std::string value, std::string help, std::string CommandLine::*member) {
  return {std::move(names), std::move(value), std::move(help),
          [member](CommandLine& line, const std::string& given) { line.*member = given; }};
}

Flag list(std::string names, std::string value, std::string help, std::vector<std::string> CommandLine::*member) {
  return {std::move(names), std::move(value), std::move(help),
          [member](CommandLine& line, const std::string& given) { (line.*member).push_back(given); }, true};
}

Flag choice(std::string names, std::vector<std::string> words, std::string help, std::string CommandLine::*member) {
  std::string value = support::join(words, "|");
  const std::string flag = names;
  return {std::move(names), std::move(value), std::move(help),
          [member, words = std::move(words), flag](CommandLine& line, const std::string& given) {
            line.*member = one_of(flag, given, words);
          }};
}

Flag number(std::string names, std::string value, std::string help, std::optional<std::int64_t> CommandLine::*member,
            support::Suffixes suffixes, std::int64_t least) {
  const std::string flag = names;
  return {std::move(names), std::move(value), std::move(help),
          [member, suffixes, least, flag](CommandLine& line, const std::string& given) {
            line.*member = whole(flag, given, suffixes, least);
          }};
}

double time_of(const std::string& flag, const std::string& given) {
  const auto value = support::parse_real(given, support::Suffixes::kSeconds);
  if (!value || !(*value >= 0))
    throw usage_error(cat(label_of(flag), " must be a time, found ", quote(given)), "for example 30s, 2m or 24h");
  const std::string_view number = support::trim(given);
  if (*value > 0 && support::parse_real(number))
    throw usage_error(cat(label_of(flag), " must be a time with a unit, found ", quote(number)),
                      cat("a time needs a unit: ", number, "s, ", number, "m or ", number, "h"));
  return *value;
}

std::int64_t size_of(const std::string& flag, const std::string& given) {
  const std::int64_t bytes = whole(flag, given, support::Suffixes::kBytes, 0);
  constexpr std::int64_t kSmall = 1 << 20;
  const std::string_view number = support::trim(given);
  const bool bare = std::isalpha(static_cast<unsigned char>(number.back())) == 0;
  if (bare && bytes > 0 && bytes < kSmall)
    throw usage_error(cat(label_of(flag), " must be a size with a unit, found ", quote(number)),
                      cat("a size needs a unit: ", number, "M or ", number, "G"));
  return bytes;
}

double share_of(const std::string& flag, const std::string& given) {
  const bool percent = !given.empty() && given.back() == '%';
  const auto value = support::parse_real(percent ? given.substr(0, given.size() - 1) : given);
  const double share = value.value_or(-1) * (percent ? 0.01 : 1);
  if (!(share > 0) || share > 1)
    throw usage_error(cat(label_of(flag), " must be above 0 and at most 1, found ", quote(given)),
                      "for example 0.05 or 5%");
  return share;
}

const Command* find_command(const CommandTable& table, const std::string& name) {
  for (const Command& command : table) {
    if (command.name == name) return &command;
  }
  return nullptr;
}

const char* const kSummary =
    "Runs pipelines of pe- stages: makes what is missing, reuses existing results, and explains why.";

const char* const kExitCodes =
    "0 done or nothing to do; 1 a task failed; 2 usage or pipeline file; 3 incomplete without a failure; 4 store or "
    "file system; 5 a mismatch in verify, or a conflict under --strict; 10 a task would run (plan --exit-code); 130 "
    "interrupted twice.";

const char* const kEnvironment =
    "PE_STORE names the store, PE_DOWNLOADS the folder of downloads, and PE_PYTHON the Python of metrics. HF_TOKEN and "
    "other HF_ variables act as in the Hugging Face hub. TMPDIR is the folder of scratch files. NO_COLOR, CLICOLOR, "
    "CLICOLOR_FORCE, FORCE_COLOR and TERM=dumb control colour. CUDA_VISIBLE_DEVICES names the GPUs that may be used.";

std::vector<std::string> command_names(const CommandTable& table) {
  std::vector<std::string> names;
  for (const Command& command : table) names.push_back(command.name);
  return names;
}

}  // namespace pe::cli

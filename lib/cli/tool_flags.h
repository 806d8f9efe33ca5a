/// @file
/// Flags of the small programs that are neither stages nor pe-pipeline: a table in, values out.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace pe::cli {

struct ToolFlag {
  std::string name;  ///< "--in"
  std::string type;  ///< "FILE"; empty for a switch
  std::string help;
  std::string fallback = {};              ///< when it is not given
  std::vector<std::string> choices = {};  ///< any other value is an error
  bool required = false;
  bool many = false;   ///< may be given several times
  bool plain = false;  ///< its value may also be a word without the name
};

struct ToolText {
  std::string program;  ///< "pe-score"
  std::string summary;
  std::vector<ToolFlag> flags;
  std::vector<std::string> verbs;  ///< the first word is one of these; none: no words are taken
  std::string epilogue;            ///< text at the end of the help
  std::vector<std::string> examples;
  std::string exits;  ///< "0 done; 2 flags."
};

class ToolValues {
 public:
  bool is_set(const std::string& flag) const { return values_.count(flag) > 0 && !values_.at(flag).empty(); }
  /// The value, or the flag's fallback.
  const std::string& text(const std::string& flag) const;
  const std::vector<std::string>& all(const std::string& flag) const { return values_.at(flag); }
  /// @throws ConfigError when it is no whole number between the two.
  std::int64_t integer(const std::string& flag, std::int64_t least, std::int64_t most = std::int64_t{1} << 24) const;
  const std::string& verb() const { return verb_; }

 private:
  std::map<std::string, std::vector<std::string>> values_;
  std::string verb_;
  friend std::optional<int> parse_tool_flags(int argc, char** argv, const ToolText& text, ToolValues& values);
};

/// Parses; prints help or the version itself. Returns an exit code when the program should end now.
/// @throws ConfigError for a flag or verb that does not exist, with the nearest one, and for one that is missing.
std::optional<int> parse_tool_flags(int argc, char** argv, const ToolText& text, ToolValues& values);

}  // namespace pe::cli

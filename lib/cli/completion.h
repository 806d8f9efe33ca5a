/// @file
/// Candidates for the word at the cursor, for the shells' completion. The words in capitals of the command table's
/// usage lines and flag values name the kind of a place; its values (stages, axes, runs, …) come from a
/// `CompletionSource`.
///
/// A completion script is a few lines for each shell; all thinking is done by the hidden command
///
///     pe-pipeline __complete SHELL …
///
/// bash passes its line, the word under the cursor and its word breaks, and gets words to insert. Both zsh and fish
/// pass words, and get a word, a tab and a note per line.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cli/command_table.h"

namespace pe::cli {

struct Candidate {
  std::string word;
  std::string help;
};

/// A command line up to the cursor.
struct CompletionContext {
  std::string program;                                      ///< "pe-pipeline", "pe-train"
  std::string command;                                      ///< of pe-pipeline
  std::string flag;                                         ///< whose value is asked for, or empty
  std::vector<std::string> words;                           ///< words after the command that are no flags
  std::vector<std::pair<std::string, std::string>> values;  ///< flags that were given, with their values
};

class CompletionSource {
 public:
  virtual ~CompletionSource() = default;
  /// Commands of pe-pipeline.
  virtual const CommandTable& commands() const = 0;
  /// All values of `kind` ("FILE", "SELECT", "RUN", …) that begin with `typed`; of another kind, nothing.
  /// A candidate that ends with one of = [ , / . is the beginning of something longer.
  virtual std::vector<Candidate> find(const std::string& kind, const std::string& typed,
                                      const CompletionContext& context) = 0;
};

/// `words` is the line up to the cursor, the program first and the unfinished word last.
std::vector<Candidate> complete(const std::vector<std::string>& words, CompletionSource& source);

/// The answer to `__complete` with these arguments. Without candidates it is empty.
std::string answer_completion(const std::vector<std::string>& arguments, CompletionSource& source);

/// A script for "bash", "zsh" or "fish" that completes pe-pipeline and the programs named.
std::string completion_script(const std::string& shell, const std::vector<std::string>& programs);

/// A line of a shell up to the cursor as bash splits it: words without quotes, and how the last one was typed.
struct TypedLine {
  std::vector<std::string> words;
  bool quoted = false;      ///< the last word is inside quotes that are still open
  std::size_t settled = 0;  ///< bytes of the last word that bash leaves alone when it inserts a candidate
};
TypedLine split_line(std::string_view line, std::string_view breaks);

}  // namespace pe::cli

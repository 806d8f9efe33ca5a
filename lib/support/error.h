/// @file
/// Errors with all that a user needs: the message, the place in the user's file, the action that failed, and a way out.
/// An exception ends a stage with the exit code of its type; `std::optional` says "not there" where that is expected.
#pragma once

#include <exception>
#include <string>
#include <string_view>
#include <vector>

namespace pe::support {

/// Exit codes of a stage. The exit codes of `pe-pipeline` are in `pipeline/exit_code.h`.
enum ExitCode : int {
  kExitDone = 0,
  kExitFailed = 1,         ///< A child failed, or a check did not hold.
  kExitConfig = 2,         ///< The user's flags or config.
  kExitArtifact = 3,       ///< An input artifact is missing, damaged or of another kind.
  kExitUnavailable = 69,   ///< A service that the stage needs does not answer.
  kExitBug = 70,           ///< Our own mistake.
  kExitCannotCreate = 73,  ///< The output cannot be created.
  kExitIo = 74,            ///< Reading or writing failed, disk full.
  kExitCheckpointed = 75,  ///< Stopped at a checkpoint on request; run it again.
  kExitDiverged = 76,      ///< training diverged; the artifact says so
  kExitInterrupted = 130,
};

/// A position in a text that the user wrote. Lines and columns count from 1; 0 means unknown.
struct Place {
  std::string file;  ///< as the user named it; "--set" for a flag
  int line = 0;
  int column = 0;
  std::string excerpt;  ///< the source line, without its newline
  int width = 1;        ///< how many columns the caret marks

  /// "file:line:column", as much of it as is known.
  std::string str() const;
};

/// One mistake, ready to be shown.
struct Diagnostic {
  std::string message;
  Place place;
  std::string hint;                  ///< "did you mean 'warmup_steps'?"; may be empty
  std::vector<std::string> context;  ///< "while reading stage 'trunk' (a.yml:9:3)", innermost first

  /// The text that a person sees, several lines, with the source line and a caret.
  std::string render() const;
};

class Error : public std::exception {
 public:
  explicit Error(int exit_code, Diagnostic diagnostic);
  Error(int exit_code, std::vector<Diagnostic> diagnostics);

  const char* what() const noexcept override { return rendered_.c_str(); }
  int exit_code() const { return exit_code_; }
  const std::vector<Diagnostic>& diagnostics() const { return diagnostics_; }

  /// Adds "while …" to every diagnostic; used when a caller knows more than the thrower.
  void add_context(const std::string& context);

 private:
  int exit_code_;
  std::vector<Diagnostic> diagnostics_;
  std::string rendered_;
};

/// The user's YAML or flags.
class ConfigError : public Error {
 public:
  explicit ConfigError(std::string message, Place place = {}, std::string hint = {});
  explicit ConfigError(std::vector<Diagnostic> diagnostics);
};

/// An artifact that is missing, damaged, or of another kind. The message names file, dataset, expected and found.
class ArtifactError : public Error {
 public:
  explicit ArtifactError(std::string message, std::string hint = {});
};

/// Reading or writing failed. `creating` distinguishes an output that could not be made (exit 73) from one that broke
/// (74).
class IoError : public Error {
 public:
  explicit IoError(std::string message, bool creating = false, int system_error = 0);
  /// errno, where throw_errno made it; else 0.
  int system_error() const { return system_error_; }

 private:
  int system_error_ = 0;
};

/// An `IoError` whose text ends with the message of `errno`.
[[noreturn]] void throw_errno(std::string_view doing, std::string_view path, bool creating = false);

/// Collects mistakes so that a file is reported whole; `throw_if_any` raises one ConfigError with all of them, or with
/// the first hundred and a word that there are more.
class Diagnostics {
 public:
  static constexpr std::size_t kMost = 100;

  void add(std::string message, Place place = {}, std::string hint = {});
  bool empty() const { return items_.empty(); }
  std::size_t size() const { return items_.size() + left_out_; }
  /// Further mistakes are counted and not kept: a loop that finds them may end.
  bool full() const { return items_.size() >= kMost; }
  const std::vector<Diagnostic>& items() const { return items_; }
  void add_context(const std::string& context, std::size_t from = 0);
  void throw_if_any();

 private:
  std::vector<Diagnostic> items_;
  std::size_t left_out_ = 0;
};

/// Runs `body`; an Error that leaves it gains "while <doing>".
template <typename Body>
decltype(auto) with_context(const std::string& doing, Body&& body) {
  try {
    return body();
  } catch (Error& error) {
    error.add_context("while " + doing);
    throw;
  }
}

}  // namespace pe::support

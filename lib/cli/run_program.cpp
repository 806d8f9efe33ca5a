#include "cli/run_program.h"

#include <cstdio>

#include "support/program.h"
#include "support/version.h"

namespace pe::cli {

void print_error(const std::string& program, const support::Error& error) {
  const std::string text = error.what();
  const bool named = text.starts_with(program + ":") || text.starts_with(program + " ");
  std::fprintf(stderr, "%s\n", (named ? text : program + ": " + text).c_str());
  if (error.exit_code() != support::kExitBug) return;
  std::fprintf(stderr, "This is a mistake of %s %s; please report it with this message.\n", program.c_str(),
               PE_VERSION);
}

int run_program(const std::string& program, const std::function<int()>& body, const support::Explain& explain) {
  try {
    support::begin_program();
    return body();
  } catch (const std::exception& exception) {
    const support::Error error = support::as_error(exception, explain);
    print_error(program, error);
    return error.exit_code();
  }
}

}  // namespace pe::cli

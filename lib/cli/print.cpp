#include "cli/print.h"

#include <cerrno>
#include <cstdio>

#include "support/error.h"

namespace pe::cli {

void print(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  if (errno == EBADF) throw support::IoError("cannot write to standard output: it is closed");
  support::throw_errno("write to standard output", "");
}

}  // namespace pe::cli

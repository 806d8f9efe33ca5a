#include "support/child_work.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "support/explain.h"
#include "support/files.h"
#include "support/json.h"
#include "support/json_text.h"
#include "support/parse_json.h"
#include "support/process.h"
#include "support/progress.h"
#include "support/text.h"

namespace pe::support {

namespace {

constexpr char kResult = '=', kFailure = '!';
constexpr int kLookEveryMs = 50;

std::string failure_text(int code, const std::vector<Diagnostic>& diagnostics) {
  Json list = Json::array();
  for (const Diagnostic& item : diagnostics)
    list.push_back({{"message", item.message}, {"hint", item.hint}, {"context", item.context}});
  return kFailure + support::json_text(Json{{"code", code}, {"diagnostics", list}});
}

std::string answer_of(const std::function<std::string()>& body) {
  try {
    return kResult + body();
  } catch (const std::exception& exception) {
    const Error error = as_error(exception);
    return failure_text(error.exit_code(), error.diagnostics());
  }
}

[[noreturn]] void throw_failure(std::string_view text) {
  const Json json = require_json(text);
  std::vector<Diagnostic> diagnostics;
  for (const Json& item : json.at("diagnostics")) {
    diagnostics.push_back({item.at("message").get<std::string>(),
                           {},
                           item.at("hint").get<std::string>(),
                           item.at("context").get<std::vector<std::string>>()});
  }
  const int code = json.at("code").get<int>();
  if (code == kExitConfig) throw ConfigError(std::move(diagnostics));
  throw Error(code, std::move(diagnostics));
}

[[noreturn]] void work_in_child(pid_t parent, int to, const std::function<std::string()>& body) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kExitFailed);
  for (const int signal : {SIGTERM, SIGINT, SIGUSR1}) ::signal(signal, SIG_IGN);  // the parent decides
  ::_exit(write_whole(to, answer_of(body)) ? kExitDone : kExitIo);
}

}  // namespace

std::string in_child(const std::string& what, const std::string& hint, const std::function<std::string()>& body) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("make a pipe for", what);
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  const pid_t parent = ::getpid(), child = ::fork();
  if (child < 0) throw_errno("start a process for", what);
  if (child == 0) work_in_child(parent, to.get(), body);
  to.close();
  std::string answer;
  std::vector<char> piece(1 << 16);
  pollfd polled{from.get(), POLLIN, 0};
  for (bool over = false; !over;) {
    const int ready = ::poll(&polled, 1, kLookEveryMs);
    if (stop_requested()) {
      ::kill(child, SIGKILL);
      wait_for(child);
      throw StopRequest(false);
    }
    if (ready <= 0) continue;
    const ssize_t got = ::read(from.get(), piece.data(), piece.size());
    if (got > 0) answer.append(piece.data(), static_cast<std::size_t>(got));
    over = got == 0 || (got < 0 && errno != EINTR);
  }
  const ExitStatus status = wait_for(child);
  if (status.code == kExitDone && answer.starts_with(kResult)) return answer.substr(1);
  if (status.code == kExitDone && answer.starts_with(kFailure)) throw_failure(std::string_view(answer).substr(1));
  if (status.signal == 0) {
    throw Error(kExitBug, Diagnostic{cat(what, " ended with exit code ", status.code),
                                     {},
                                     "the library that does it gave up: its reason is on standard error, above",
                                     {}});
  }
  const char* name = ::strsignal(status.signal);
  // As a launcher of ranks ends, so that a lack of memory is seen for one.
  throw Error(status.code,
              Diagnostic{cat(what, " was ended by signal ", status.signal, name != nullptr ? cat(" (", name, ")") : ""),
                         {},
                         hint,
                         {}});
}

}  // namespace pe::support

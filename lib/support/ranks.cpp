#include "support/ranks.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "support/error.h"
#include "support/files.h"
#include "support/text.h"

namespace pe::support {
namespace {

// torchrun's default, and ports for several jobs of a machine; Linux assigns ports from 32768 on to any program.
constexpr int kFirstPort = 29500, kPorts = 3000, kLastPort = 65535;
constexpr const char* kGreeting = "pe-ranks/2";

using Clock = std::chrono::steady_clock;

std::int64_t number(const Lookup& environment, const char* name) {
  const std::optional<std::string> text = environment(name);
  if (!text) throw ConfigError(cat("this process is one of several, but ", name, " is not set"));
  const auto value = parse_integer(*text);
  if (!value || *value < 0)
    throw ConfigError(cat(name, " is ", quote(*text), ", which is not the number of a process"));
  return *value;
}

Ranks checked(Ranks ranks, const char* rank_name) {
  if (ranks.rank >= ranks.count) {
    throw ConfigError(cat(rank_name, " is ", ranks.rank, ", but ", ranks.from, " is ", ranks.count));
  }
  return ranks;
}

/// One number of a range as Slurm writes it: the width is kept.
std::string padded(std::int64_t value, std::size_t width) {
  std::string text = std::to_string(value);
  return text.size() < width ? std::string(width - text.size(), '0') + text : text;
}

[[noreturn]] void unavailable(const std::string& message) {
  throw Error(kExitUnavailable, Diagnostic{message, {}, "MASTER_ADDR and MASTER_PORT say where rank 0 is found", {}});
}

double left(Clock::time_point until) { return std::chrono::duration<double>(until - Clock::now()).count(); }

bool ready(int fd, short events, Clock::time_point until) {
  pollfd polled{fd, events, 0};
  while (true) {
    const double seconds = left(until);
    if (seconds <= 0) return false;
    const int found = ::poll(&polled, 1, static_cast<int>(std::min(seconds, 60.0) * 1000) + 1);
    if (found > 0) return true;
  }
}

bool write_all(int fd, const std::string& bytes, Clock::time_point until) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    if (!ready(fd, POLLOUT, until)) return false;
    const ssize_t count = ::send(fd, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    done += static_cast<std::size_t>(count);
  }
  return true;
}

bool read_some(int fd, std::size_t bytes, std::string& into, Clock::time_point until) {
  into.clear();
  while (into.size() < bytes) {
    char buffer[4096];
    if (!ready(fd, POLLIN, until)) return false;
    const ssize_t count = ::recv(fd, buffer, std::min(sizeof buffer, bytes - into.size()), 0);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    into.append(buffer, static_cast<std::size_t>(count));
  }
  return true;
}

/// The first words of who comes: which rank, of how many, of which start. Of a fixed length.
std::string greeting(std::int64_t rank, const Ranks& ranks) {
  std::string text = cat(kGreeting, " ", rank, " ", ranks.count, " ", ranks.start);
  text.resize(128, ' ');
  return text;
}

Descriptor listen_on(int port) {
  Descriptor fd(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1, no = 0;
  if (fd) {
    ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    ::setsockopt(fd.get(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    sockaddr_in6 any{};
    any.sin6_family = AF_INET6;
    any.sin6_addr = in6addr_any;
    any.sin6_port = htons(static_cast<std::uint16_t>(port));
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) == 0 && ::listen(fd.get(), 512) == 0) return fd;
    if (errno == EADDRINUSE) return {};
  }
  fd = Descriptor(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));  // a machine without IPv6
  if (!fd) return fd;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_ANY);
  any.sin_port = htons(static_cast<std::uint16_t>(port));
  if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 || ::listen(fd.get(), 512) != 0) return {};
  return fd;
}

Descriptor connect_to(const std::string& host, int port, Clock::time_point until) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0) return {};
  Descriptor connected;
  for (const addrinfo* at = found; at != nullptr && !connected; at = at->ai_next) {
    // A firewall that drops packets would hold a blocking connect for minutes.
    Descriptor fd(::socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!fd) continue;
    int error = ::connect(fd.get(), at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (error == EINPROGRESS && ready(fd.get(), POLLOUT, until)) {
      socklen_t size = sizeof error;
      if (::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0) error = errno;
    }
    if (error == 0 && ::fcntl(fd.get(), F_SETFL, 0) == 0) connected = std::move(fd);
  }
  ::freeaddrinfo(found);
  return connected;
}

void serve(const Ranks& ranks, const std::string& text, Clock::time_point until, double timeout_s) {
  const Descriptor listening = listen_on(ranks.port);
  if (!listening) {
    unavailable(cat("rank 0 cannot listen on port ", ranks.port, ": ", std::strerror(errno)));
  }
  std::vector<bool> came(static_cast<std::size_t>(ranks.count));
  came[0] = true;
  const std::string reply = padded(static_cast<std::int64_t>(text.size()), 20) + text;
  while (std::find(came.begin(), came.end(), false) != came.end()) {
    if (!ready(listening.get(), POLLIN, until)) {
      std::string missing;
      for (std::size_t i = 0; i < came.size(); ++i) {
        if (!came[i]) missing += cat(missing.empty() ? "" : ", ", i);
      }
      unavailable(cat("rank 0 has waited ", shortest(timeout_s), " s on port ", ranks.port, " of ", ranks.host,
                      " for rank ", missing));
    }
    const Descriptor caller(::accept4(listening.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!caller) continue;
    // Other connections, from a scanner or another job, are rejected and do not stop us.
    std::string words;
    const Clock::time_point soon = std::min(until, Clock::now() + std::chrono::seconds(5));
    if (!read_some(caller.get(), greeting(0, ranks).size(), words, soon)) continue;
    for (std::size_t i = 1; i < came.size(); ++i) {
      if (words == greeting(static_cast<std::int64_t>(i), ranks) && write_all(caller.get(), reply, soon))
        came[i] = true;
    }
  }
}

std::string ask(const Ranks& ranks, Clock::time_point until, double timeout_s) {
  while (left(until) > 0) {
    const Descriptor fd = connect_to(ranks.host, ranks.port, until);
    std::string size, text;
    if (fd && write_all(fd.get(), greeting(ranks.rank, ranks), until) && read_some(fd.get(), 20, size, until)) {
      const auto bytes = parse_integer(size.substr(std::min(size.find_first_not_of('0'), size.size() - 1)));
      if (bytes && *bytes >= 0 && read_some(fd.get(), static_cast<std::size_t>(*bytes), text, until)) return text;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // rank 0 is not there yet
  }
  unavailable(cat("rank ", ranks.rank, " has not reached rank 0 at ", ranks.host, ", port ", ranks.port, ", within ",
                  shortest(timeout_s), " s"));
}

}  // namespace

Ranks ranks_from(const Lookup& environment) {
  Ranks ranks;
  if (environment("WORLD_SIZE") && environment("RANK")) {
    ranks.from = "WORLD_SIZE";
    ranks.rank = number(environment, "RANK");
    ranks.count = number(environment, "WORLD_SIZE");
    ranks.local = environment("LOCAL_RANK") ? number(environment, "LOCAL_RANK") : ranks.rank;
    if (ranks.count > 1 && !environment("OMPI_COMM_WORLD_SIZE")) {
      ranks.host = environment("MASTER_ADDR").value_or("127.0.0.1");
      ranks.port = environment("MASTER_PORT") ? static_cast<int>(number(environment, "MASTER_PORT")) : kFirstPort;
      if (environment("TORCHELASTIC_RUN_ID")) ++ranks.port;  // torchrun itself listens there
      if (ranks.port < 1 || ranks.port > kLastPort)
        throw ConfigError(cat("MASTER_PORT gives port ", ranks.port, ", and ports are from 1 to ", kLastPort));
    }
    return checked(ranks, "RANK");
  }
  if (environment("OMPI_COMM_WORLD_SIZE")) {
    ranks.from = "OMPI_COMM_WORLD_SIZE";
    ranks.rank = number(environment, "OMPI_COMM_WORLD_RANK");
    ranks.count = number(environment, "OMPI_COMM_WORLD_SIZE");
    ranks.local = number(environment, "OMPI_COMM_WORLD_LOCAL_RANK");
    return checked(ranks, "OMPI_COMM_WORLD_RANK");
  }
  // Only srun numbers its processes with a step; what a batch script starts is on its own, whatever SLURM_NTASKS says.
  const std::optional<std::string> step = environment("SLURM_STEP_ID");
  if (step && parse_integer(*step) && environment("SLURM_STEP_NUM_TASKS")) {
    ranks.from = "SLURM_STEP_NUM_TASKS";
    ranks.rank = number(environment, "SLURM_PROCID");
    ranks.count = number(environment, "SLURM_STEP_NUM_TASKS");
    ranks.local = number(environment, "SLURM_LOCALID");
    if (ranks.count > 1) {
      std::optional<std::string> nodes = environment("SLURM_STEP_NODELIST");
      if (!nodes) nodes = environment("SLURM_JOB_NODELIST");
      const std::vector<std::string> hosts = expand_hosts(nodes.value_or(""));
      if (hosts.empty()) throw ConfigError("this process is one of several, but SLURM_STEP_NODELIST names no machine");
      ranks.host = hosts.front();
      const std::int64_t job = number(environment, "SLURM_JOB_ID");
      ranks.port = kFirstPort + static_cast<int>(job % kPorts);
      ranks.start = cat(job, ".", *step, ".", environment("SLURM_RESTART_COUNT").value_or("0"));
    }
    return checked(ranks, "SLURM_PROCID");
  }
  return ranks;
}

const Ranks& own_ranks() {
  static const Ranks ranks = ranks_from([](const char* name) -> std::optional<std::string> {
    const char* value = std::getenv(name);
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  });
  return ranks;
}

std::vector<std::string> expand_hosts(const std::string& list) {
  const auto refuse = [&](const std::string& why) {
    throw ConfigError(cat("the list of machines ", quote(list), " cannot be read: ", why));
  };
  std::vector<std::string> hosts, open{""};  // `open`: names that grow, one for each number of the brackets before
  const auto close = [&] {
    for (const std::string& name : open) {
      if (!name.empty()) hosts.push_back(name);
    }
    open = {""};
  };
  for (std::size_t i = 0; i < list.size(); ++i) {
    const char c = list[i];
    if (c == ',') {
      close();
    } else if (c == ']') {
      refuse("']' without '['");
    } else if (c != '[') {
      for (std::string& name : open) name += c;
    } else {
      const std::size_t end = list.find(']', i);
      if (end == std::string::npos) refuse("'[' without ']'");
      std::vector<std::string> numbers;
      for (const std::string& part : split(list.substr(i + 1, end - i - 1), ',')) {
        const std::size_t dash = part.find('-');
        const std::string first = part.substr(0, dash),
                          last = dash == std::string::npos ? first : part.substr(dash + 1);
        const bool digits = !first.empty() && !last.empty() && first.size() <= 9 && last.size() <= 9 &&
                            (first + last).find_first_not_of("0123456789") == std::string::npos;
        if (!digits || std::stoll(first) > std::stoll(last) || std::stoll(last) - std::stoll(first) > 100'000) {
          refuse(cat(quote(part), " is not a range of numbers"));
        }
        for (std::int64_t n = std::stoll(first); n <= std::stoll(last); ++n) numbers.push_back(padded(n, first.size()));
      }
      std::vector<std::string> grown;
      for (const std::string& name : open) {
        for (const std::string& text : numbers) grown.push_back(name + text);
      }
      open = std::move(grown);
      i = end;
    }
  }
  close();
  return hosts;
}

std::string broadcast_text(const Ranks& ranks, const std::string& text, double timeout_s) {
  if (ranks.count <= 1) return text;
  const Clock::time_point until = Clock::now() + std::chrono::milliseconds(static_cast<std::int64_t>(timeout_s * 1000));
  if (!ranks.is_first()) return ask(ranks, until, timeout_s);
  serve(ranks, text, until, timeout_s);
  return text;
}

std::int64_t gpu_micro_batch(std::int64_t part, std::int64_t length) {
  constexpr std::int64_t kTokens = 32'768;
  std::int64_t sequences = std::clamp<std::int64_t>(kTokens / length, 1, part);
  while (part % sequences != 0) --sequences;
  return sequences;
}

int free_port() {
  const Descriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof any;
  if (!fd || ::bind(fd.get(), reinterpret_cast<sockaddr*>(&any), sizeof any) != 0 ||
      ::getsockname(fd.get(), reinterpret_cast<sockaddr*>(&any), &size) != 0) {
    throw_errno("find a free port of", "this machine");
  }
  return ntohs(any.sin_port);
}

}  // namespace pe::support

/// @file
/// Errors of a user whom permissions bind. Root may read and write everything, so root becomes another user for it.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <exception>
#include <filesystem>
#include <functional>
#include <vector>

#include "support/process.h"

namespace pe::test {

constexpr unsigned kPlainUser = 65534;

/// The answer of `body`, 0 to 255, from a child process. Where root runs the tests, the child is user 65534, who
/// from now on owns `folder` and its contents; `others` in it are root's.
inline int as_plain_user(const std::filesystem::path& folder, const std::function<int()>& body,
                         const std::vector<std::filesystem::path>& others = {}) {
  const bool root = ::geteuid() == 0;
  if (root) {
    (void)::lchown(folder.c_str(), kPlainUser, kPlainUser);
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
      (void)::lchown(entry.path().c_str(), kPlainUser, kPlainUser);
    for (const std::filesystem::path& path : others) (void)::lchown(path.c_str(), 0, 0);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    int answer = 255;
    try {
      if (!root || (::setgid(kPlainUser) == 0 && ::setuid(kPlainUser) == 0)) answer = body();
    } catch (const std::exception&) {
      answer = 254;
    }
    ::_exit(answer);
  }
  return support::wait_for(child).code;
}

}  // namespace pe::test

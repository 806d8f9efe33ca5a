// How long programs take to say who they are: `pe-pipeline --help` beside `ninja --version`, which does as little.
//
//     startup PE-PIPELINE
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "support/process.h"

namespace {

/// The median of some starts, in ms; negative when the program is not there.
double median_ms(const std::vector<std::string>& arguments) {
  if (!pe::support::find_program(arguments[0])) return -1;
  std::vector<double> times;
  for (int i = 0; i < 41; ++i) {
    const auto start = std::chrono::steady_clock::now();
    pe::support::capture(arguments);
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + 20, times.end());
  return times[20];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    fmt::print(stderr, "usage: startup PE-PIPELINE\n");
    return 2;
  }
  const double own = median_ms({argv[1], "--help"});
  const double peer = median_ms({"ninja", "--version"});
  if (own < 0) {
    fmt::print(stderr, "there is no program {}\n", argv[1]);
    return 2;
  }
  fmt::print("pe-pipeline --help {:.1f} ms (goal 20)\n", own);
  if (peer > 0)
    fmt::print("ninja --version    {:.1f} ms; pe-pipeline takes {:.1f} times that\n", peer, own / peer);
  else
    fmt::print("ninja is not here, so there is no ratio\n");
  return 0;
}

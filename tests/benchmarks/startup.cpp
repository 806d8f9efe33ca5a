// How long programs take to start: `pe-pipeline --help` compared with `ninja --version`. A learning stage is timed up
// to the moment at which it opens its inputs (libraries loaded, instruction set and threads settled), compared with
// merely loading LibTorch.
//
//     startup STAGES-FOLDER [STARTS]     default: 41 starts of pe-pipeline, 11 of the stage
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string>
#include <vector>

#include "support/process.h"

namespace {

/// The median of some starts, in ms; negative when the program is not there.
double median_ms(const std::vector<std::string>& arguments, int starts) {
  if (!pe::support::find_program(arguments[0])) return -1;
  std::vector<double> times;
  for (int i = 0; i < starts; ++i) {
    const auto start = std::chrono::steady_clock::now();
    pe::support::capture(arguments);
    times.push_back(std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + starts / 2, times.end());
  return times[static_cast<std::size_t>(starts / 2)];
}

void print(const std::string& what, double ms, double goal_ms, const std::string& peer, double peer_ms) {
  if (ms < 0) {
    fmt::print("{}: the program is not there\n", what);
    return;
  }
  fmt::print("{:<28} {:7.1f} ms (goal {:.0f})", what, ms, goal_ms);
  if (peer_ms > 0) fmt::print("   {} {:.1f} ms, ratio {:.1f}", peer, peer_ms, ms / peer_ms);
  fmt::print("\n");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: startup STAGES-FOLDER [STARTS]\n");
    return 2;
  }
  const std::string folder = std::string(argv[1]) + "/";
  const int starts = argc > 2 ? std::max(1, std::atoi(argv[2])) : 41;
  print("pe-pipeline --help", median_ms({folder + "pe-pipeline", "--help"}, starts), 20, "ninja --version",
        median_ms({"ninja", "--version"}, starts));
  // Its input is not there, so it ends where its work would begin.
  const std::vector<std::string> train = {
      folder + "pe-train", "--input", "data=/nonexistent", "--work", "/tmp/pe-startup.work", "--progress", "none"};
  const int slow_starts = std::min(starts, 11);
  print("pe-train, up to its inputs", median_ms(train, slow_starts), 700, "loading LibTorch",
        median_ms({folder + "pe-train", "--version"}, slow_starts));
  return 0;
}

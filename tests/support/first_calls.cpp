// A process's first calls of vector functions, made by two concurrent threads. Built twice: with our library, and with
// LibTorch alone (PE_WITHOUT_LIBRARY).
//
//     first-calls once        two threads make the first exp; "same" when they agree with a second call, else "differs"
//     first-calls many COUNT  as many processes, forked before any call, each with another function, type and delay.
//                             It prints how many differed.
#include <ATen/core/Tensor.h>
#include <ATen/ops/cos.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/linspace.h>
#include <ATen/ops/log.h>
#include <ATen/ops/sqrt.h>
#include <c10/core/InferenceMode.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#ifndef PE_WITHOUT_LIBRARY
#include "encodings/registry.h"
#endif

namespace {

using Function = at::Tensor& (*)(at::Tensor&, const at::Tensor&);
constexpr Function kFunctions[] = {at::exp_out, at::log_out, at::sqrt_out, at::cos_out};

/// Rows that do not touch, so that each is a separate call. @return whether both threads computed the same as a later
/// call
bool agrees(Function function, at::ScalarType type, std::chrono::nanoseconds delay) {
  constexpr std::int64_t kRows = 512, kColumns = 24;
  const at::Tensor all = at::linspace(0.1, 3, 2 * kRows * kColumns, type).view({2, kRows, kColumns});
  const at::Tensor first = at::empty_like(all), later = at::empty_like(all);
  std::atomic<int> ready{0};
  const auto half = [&](std::int64_t i) {
    const c10::InferenceMode no_graph;
    const at::Tensor from = all.select(0, i).narrow(1, 0, 16);
    at::Tensor to = first.select(0, i).narrow(1, 0, 16);
    ++ready;
    while (ready.load() < 2) {
    }
    const auto until = std::chrono::steady_clock::now() + (i == 1 ? delay : std::chrono::nanoseconds(0));
    while (std::chrono::steady_clock::now() < until) {
    }
    function(to, from);
  };
  std::thread other(half, 1);
  half(0);
  other.join();
  const c10::InferenceMode no_graph;
  at::Tensor from = all.narrow(2, 0, 16), to = later.narrow(2, 0, 16);
  function(to, from);
  return first.narrow(2, 0, 16).equal(to);
}

}  // namespace

int main(int argc, char** argv) {
#ifndef PE_WITHOUT_LIBRARY
  if (pe::encodings::encodings().empty()) return 70;  // links an encoding, as every program of ours does
#endif
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "once") {
    std::puts(agrees(at::exp_out, at::kFloat, std::chrono::milliseconds(1)) ? "same" : "differs");
    return 0;
  }
  if (what != "many" || argc != 3) return 2;
  const int count = std::atoi(argv[2]);
  int differed = 0;
  for (int i = 0; i < count; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      const at::ScalarType type = i % 2 == 0 ? at::kFloat : at::kDouble;
      ::_exit(agrees(kFunctions[i / 2 % 4], type, std::chrono::nanoseconds(i * 7919 % 3000)) ? 0 : 1);
    }
    int status = 0;
    if (child < 0 || ::waitpid(child, &status, 0) != child || !WIFEXITED(status)) return 70;
    differed += WEXITSTATUS(status);
  }
  std::printf("%d of %d differed\n", differed, count);
  return 0;
}

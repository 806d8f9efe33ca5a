// Causal attention on the CPU, forward alone and with its backward pass, compared with LibTorch's kernel, which has no
// bias.
//
//     attention [THREADS] [--shapes N] [--turns N]     2 threads, all 5 shapes, best of 15 turns
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "encodings/attention/attend_rows.h"

namespace {

using at::Tensor;
using Clock = std::chrono::steady_clock;

struct Shape {
  std::int64_t batch, heads, length, width;
};
// The attention of the two models of the benchmark `training`, of tiny and of small, and a long text.
constexpr Shape kShapes[] = {{16, 4, 128, 32}, {8, 8, 256, 32}, {2, 8, 1024, 64}, {1, 12, 1024, 64}, {1, 4, 4096, 64}};

/// Milliseconds; the best of several, in turns, so that a slow moment of the machine meets all of them.
template <typename... Work>
std::vector<double> times(int turns, const Work&... work) {
  std::vector<double> best(sizeof...(work), 1e9);
  for (int turn = 0; turn < turns; ++turn) {
    std::size_t at = 0;
    const auto time = [&](const auto& one) {
      const auto begin = Clock::now();
      one();
      best[at] = std::min(best[at], std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
      ++at;
    };
    (time(work), ...);
  }
  return best;
}

}  // namespace

int main(int argc, char** argv) {
  int threads = 2, turns = 15;
  std::size_t shapes = std::size(kShapes);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--shapes" && i + 1 < argc)
      shapes = std::min(shapes, static_cast<std::size_t>(std::max(1, std::atoi(argv[++i]))));
    else if (word == "--turns" && i + 1 < argc)
      turns = std::max(1, std::atoi(argv[++i]));
    else
      threads = std::max(1, std::atoi(argv[i]));
  }
  at::set_num_threads(threads);
  for (const Shape& s : std::span(kShapes, shapes)) {
    const auto heads = [&] { return at::randn({s.batch, s.length, s.heads, s.width}).transpose(1, 2); };
    const Tensor q = heads().requires_grad_(true), k = heads().requires_grad_(true), v = heads().requires_grad_(true);
    const Tensor table = at::randn({s.heads, s.length}).requires_grad_(true), upstream = heads();
    const double scale = 1 / std::sqrt(static_cast<double>(s.width));
    const auto theirs = [&] { return at::scaled_dot_product_attention(q, k, v, {}, 0.0, true, scale); };
    const auto bare = [&] { return pe::encodings::attend_causal(q, k, v, {}, {}, {}, scale, {}).out; };
    const auto biased = [&] { return pe::encodings::attend_causal(q, k, v, table, {}, {}, scale, {}).out; };
    const auto alone = [](const auto& made) {
      return [&] {
        c10::NoGradGuard none;
        made();
      };
    };
    const auto both = [&](const auto& made) { return [&] { torch::autograd::grad({made()}, {q, k, v}, {upstream}); }; };
    const auto with_table = [&] { torch::autograd::grad({biased()}, {q, k, v, table}, {upstream}); };
    const auto forward = times(turns, alone(theirs), alone(bare), alone(biased));
    const auto training = times(turns, both(theirs), both(bare), with_table);
    fmt::print(
        "{} x {} heads, {} tokens, width {}: forward {:.2f} ms, with a table {:.2f}, LibTorch {:.2f}, ratio {:.2f}; "
        "forward and backward {:.2f}, with a trained table {:.2f}, LibTorch {:.2f}, ratio {:.2f}\n",
        s.batch, s.heads, s.length, s.width, forward[1], forward[2], forward[0], forward[0] / forward[1], training[1],
        training[2], training[0], training[0] / training[1]);
  }
  return 0;
}

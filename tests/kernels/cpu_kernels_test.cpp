// The CPU's products and losses, in every instruction set that this machine has, against float64.
#include <ATen/ops/empty.h>
#include <boost/test/unit_test.hpp>

#include <cmath>
#include <limits>

#include "instruction_sets.h"
#include "support/random.h"

namespace {

using namespace pe::kernels;
using at::Tensor;

Tensor normals(std::uint64_t key, std::vector<std::int64_t> shape, double scale = 1) {
  Tensor t = at::empty(shape, at::kDouble);
  pe::support::philox_normal(key, t.data_ptr<double>(), static_cast<std::size_t>(t.numel()));
  return t * scale;
}

double difference(const Tensor& a, const Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cpu_kernels)

// Shapes with and without remainders, either operand transposed, added to what was there.
BOOST_AUTO_TEST_CASE(products_are_those_of_a_naive_loop) {
  const auto gemm = table_for("AVX512").gemm;
  if (gemm == nullptr || !__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512vl")) {
    BOOST_TEST_MESSAGE("skipped: this machine lacks AVX-512");
    return;
  }
  std::vector<float> scratch(static_cast<std::size_t>(kGemmScratch));
  for (const auto& [m, n, k] : {std::tuple{16, 64, 32}, {37, 53, 29}, {8, 1, 300}, {3, 700, 5}, {65, 33, 129}}) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        const Tensor a = normals(1, {m, k}).to(at::kFloat), b = normals(2, {k, n}).to(at::kFloat);
        const Tensor a_stored = a_transposed ? a.t().contiguous().t() : a, b_stored = b_transposed ? b.t().contiguous().t() : b;
        Tensor c = normals(3, {m, n}).to(at::kFloat);
        const Tensor expected = c.to(at::kDouble) + a.to(at::kDouble).matmul(b.to(at::kDouble));
        gemm({m, n, k, a_stored.stride(0), a_stored.stride(1), b_stored.stride(0), b_stored.stride(1), n},
             a_stored.data_ptr<float>(), b_stored.data_ptr<float>(), c.data_ptr<float>(), scratch.data(), true);
        BOOST_TEST_CONTEXT(m << " " << n << " " << k << " " << a_transposed << b_transposed) {
          BOOST_TEST(difference(c, expected) <= 1e-4);
        }
      }
    }
  }
}

// Large, small, huge and not-a-number logits, in every instruction set that this machine has.
BOOST_AUTO_TEST_CASE(every_instruction_set_gives_the_same_losses) {
  const Tensor logits = normals(1, {6, 100}, 10).to(at::kFloat);
  logits[1].mul_(100);
  logits[2].fill_(-50);
  logits[3][17] = std::numeric_limits<float>::quiet_NaN();
  std::vector<std::int64_t> targets{0, 99, 50, 3, -1, 7};
  for (const std::string& set : pe::test::instruction_sets()) {
    const auto& table = table_for(set);
    Tensor values = logits.clone();
    std::vector<float> losses(6);
    table.cross_entropy(values.data_ptr<float>(), targets.data(), losses.data(), 6, 100, true);
    BOOST_TEST_CONTEXT(set) {
      for (const std::size_t row : {0, 1, 2, 5}) {
        const Tensor row_logits = logits[static_cast<std::int64_t>(row)].to(at::kDouble);
        const double expected = row_logits.logsumexp(0).item<double>() - row_logits[targets[row]].item<double>();
        BOOST_TEST(std::abs(losses[row] - expected) <= 1e-5 * std::max(1.0, std::abs(expected)));
        BOOST_TEST(std::abs(values[static_cast<std::int64_t>(row)].sum().item<double>()) <= 1e-5);
      }
      BOOST_TEST(std::isnan(losses[3]));
      BOOST_TEST(losses[4] == 0.0F);
      BOOST_TEST(values[4].abs().max().item<float>() == 0.0F);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

// The CPU's products and losses, in every instruction set that this machine has, against float64.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <boost/test/unit_test.hpp>

#include <array>
#include <cmath>
#include <limits>

#include "encodings/rotary/rotary.h"
#include "instruction_sets.h"
#include "kernels/ops.h"
#include "normals.h"
#include "support/random.h"

namespace {

using namespace pe::kernels;
using at::Tensor;
using pe::test::normals;

struct HasAvx512 {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(table_for("AVX512").gemm != nullptr &&
                                               __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl"));
    if (!result) result.message() << "this machine lacks AVX-512";
    return result;
  }
};

constexpr double kUnit = 0x1p-24;  // the unit roundoff of float32

/// How far sums of products of `a`'s rows and `b`'s columns, each added to `c`, may be from the exact ones. It is a few
/// units of |a|·|b| + |c| for any order and length of the sum, since the data have mean zero (N. J. Higham and T. Mary,
/// SIAM J. Sci. Comput. 42, 2020). The norms grow with the root of the length, and so does the bound of each.
Tensor product_bound(const Tensor& a, const Tensor& b, const Tensor& c) {
  constexpr double kUnits = 4;  // exceeded by chance once in some thousand sums at most
  const Tensor norms = a.pow(2).sum(1).sqrt().unsqueeze(1) * b.pow(2).sum(0).sqrt().unsqueeze(0);
  return (norms + c.abs()) * (kUnits * kUnit);
}

/// Heads [2, 3, 5, width] out of a packed projection and back: what a form of the kernels makes of them in one pass.
struct HeadsOnePass {
  std::int64_t width = 0, pairs = 0;
  bool half = true, normed = true, by_sequence = false;

  Tensor floats(std::uint64_t key, std::vector<std::int64_t> shape) const {
    return normals(key, std::move(shape)).to(at::kFloat);
  }
  Tensor packed() const { return floats(1, {10, 3 * width}); }
  Tensor dout() const { return floats(2, {2, 3, 5, width}); }
  Tensor cos() const {
    return floats(3, by_sequence ? std::vector<std::int64_t>{2, 5, pairs} : std::vector<std::int64_t>{5, pairs}).cos();
  }
  Tensor sin() const { return floats(3, cos().sizes().vec()).sin(); }
  Tensor weight() const { return floats(4, {width}); }
  HeadShape shape() const { return {5, 3, width, 3 * width}; }
  HeadStrides strides() const { return {15 * width, 5 * width, width}; }

  /// Heads, gradients of the packed projection and of the norm's weight. @param g the incoming gradients
  std::array<Tensor, 3> run(const Table& table, const Tensor& c, const Tensor& s, const Tensor& g) const {
    const Tensor from = packed(), w = weight(), out = at::empty({2, 3, 5, width}), rstd = at::empty({10, 3}),
                 back = at::empty_like(from), dw = at::zeros({width});
    HeadRotation rotation;
    if (c.defined()) {
      rotation = {c.data_ptr<float>(), s.data_ptr<float>(), pairs, by_sequence ? c.stride(0) : 0, pairs, half};
    }
    const float* norm = normed ? w.data_ptr<float>() : nullptr;
    table.split_heads(from.data_ptr<float>(), norm, 1e-6F, out.data_ptr<float>(), strides(), rstd.data_ptr<float>(),
                      shape(), rotation, 0, 10);
    table.split_heads_backward(g.data_ptr<float>(), strides(), from.data_ptr<float>(), norm, rstd.data_ptr<float>(),
                               back.data_ptr<float>(), dw.data_ptr<float>(), shape(), rotation, 0, 10);
    return {out, back, dw};
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cpu_kernels)

// Equal, not only near: every form rounds products and sums as the rotation alone does, so that no user's results
// changed.
BOOST_AUTO_TEST_CASE(heads_rotated_while_they_are_split_are_bit_for_bit_those_rotated_after) {
  for (const HeadsOnePass& of : {HeadsOnePass{64, 32},
                                 {64, 32, false},
                                 {48, 24, true, false},
                                 {40, 7, false, true, true},
                                 {20, 9, true, true, true},
                                 {33, 16, false, false, true}}) {
    const auto layout = of.half ? pe::encodings::PairLayout::kHalf : pe::encodings::PairLayout::kInterleaved;
    const Tensor cos = of.cos(), sin = of.sin();
    for (const std::string& set : pe::test::instruction_sets()) {
      BOOST_TEST_CONTEXT(set << ", heads of " << of.width << ", " << of.pairs << " pairs") {
        const Table& table = table_for(set);
        const auto found = of.run(table, cos, sin, of.dout());
        const auto expected = of.run(table, {}, {}, pe::encodings::rotate(of.dout(), cos, -sin, layout));
        BOOST_TEST(found[0].equal(pe::encodings::rotate(expected[0], cos, sin, layout)));
        BOOST_TEST(found[1].equal(expected[1]));
        BOOST_TEST(found[2].equal(expected[2]));
      }
    }
  }
}

// Shapes with and without remainders, either operand transposed, added to earlier values.
BOOST_AUTO_TEST_CASE(products_are_those_of_a_naive_loop, *boost::unit_test::precondition(HasAvx512{})) {
  const auto gemm = table_for("AVX512").gemm;
  std::vector<float> scratch(static_cast<std::size_t>(kGemmScratch));
  for (const auto& [m, n, k] : {std::tuple{16, 64, 32}, {37, 53, 29}, {8, 1, 300}, {3, 700, 5}, {65, 33, 129}}) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        const Tensor a = normals(1, {m, k}).to(at::kFloat), b = normals(2, {k, n}).to(at::kFloat);
        const Tensor a_stored = a_transposed ? a.t().contiguous().t() : a,
                     b_stored = b_transposed ? b.t().contiguous().t() : b;
        Tensor c = normals(3, {m, n}).to(at::kFloat);
        const Tensor a64 = a.to(at::kDouble), b64 = b.to(at::kDouble), c64 = c.to(at::kDouble);
        const Tensor expected = c64 + a64.matmul(b64);
        gemm({m, n, k, a_stored.stride(0), a_stored.stride(1), b_stored.stride(0), b_stored.stride(1), n},
             a_stored.data_ptr<float>(), b_stored.data_ptr<float>(), c.data_ptr<float>(), scratch.data(), true);
        BOOST_TEST_CONTEXT(m << " " << n << " " << k << " " << a_transposed << b_transposed) {
          const Tensor share = (c.to(at::kDouble) - expected).abs() / product_bound(a64, b64, c64);
          BOOST_TEST(share.max().item<double>() <= 1);
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
        // Rounded: each logit less the largest, which moves its exponential by as many units; a sum of 100; the result.
        const double largest = row_logits.abs().max().item<double>();
        BOOST_TEST(std::abs(losses[row] - expected) <= (100 + 4 * std::max(1.0, largest)) * kUnit);
        // Shares that a rounded sum of 100 divides add up to one but for that sum's error.
        BOOST_TEST(std::abs(values[static_cast<std::int64_t>(row)].to(at::kDouble).sum().item<double>()) <=
                   (100 + 4) * kUnit);
      }
      BOOST_TEST(std::isnan(losses[3]));
      BOOST_TEST(losses[4] == 0.0F);
      BOOST_TEST(values[4].abs().max().item<float>() == 0.0F);
    }
  }
}

BOOST_AUTO_TEST_CASE(every_instruction_set_gives_the_bits_of_one_sum_of_squares) {
  for (const std::int64_t count : {1, 7, 16, 31, 1000, 4099}) {
    const Tensor values = normals(5, {count}).to(at::kFloat);
    const double expected = values.to(at::kDouble).square().sum().item<double>();
    const double portable = table_for("DEFAULT").sum_of_squares(values.data_ptr<float>(), count);
    BOOST_TEST(portable == expected, boost::test_tools::tolerance(1e-13));
    for (const std::string& set : pe::test::instruction_sets()) {
      BOOST_TEST(table_for(set).sum_of_squares(values.data_ptr<float>(), count) == portable,
                 set << ", " << count << " numbers");
    }
  }
}

// The size of a model of 113 million weights, where a sum in fp32 loses more than a hundredth.
BOOST_AUTO_TEST_CASE(a_sum_of_squares_is_exact_at_any_size_and_the_same_with_any_number_of_threads) {
  constexpr std::int64_t kCount = 113'000'017;
  const Tensor values = at::empty({kCount}, at::kFloat);
  float* to = values.data_ptr<float>();
  double expected = 0;
  for (std::int64_t block = 0, i = 0; i < kCount; ++block) {  // a sum of sums of 4096, which is exact to some 1e-12
    double sum = 0;
    for (const std::int64_t end = std::min(kCount, i + 4096); i < end; ++i) {
      const std::uint64_t bits = static_cast<std::uint64_t>(i + 1) * 0x9E3779B97F4A7C15ULL;
      to[i] = static_cast<float>(static_cast<double>(bits >> 40) * 0x1p-24 - 0.5) * 1e-3F;
      sum += static_cast<double>(to[i]) * static_cast<double>(to[i]);
    }
    expected += sum;
  }
  const int threads = at::get_num_threads();
  std::vector<double> found;
  for (const int count : {1, 2, 3}) {
    at::set_num_threads(count);
    found.push_back(operations_for(values).sum_of_squares(values));
  }
  at::set_num_threads(threads);
  BOOST_TEST(std::abs(found[0] / expected - 1) <= 1e-11);
  BOOST_TEST(found[1] == found[0]);
  BOOST_TEST(found[2] == found[0]);
  BOOST_TEST(std::abs(kPlainOperations.sum_of_squares(values) / expected - 1) <= 1e-11);
}

BOOST_AUTO_TEST_SUITE_END()

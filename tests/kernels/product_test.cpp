// Products against naive sums in float64, of any strides and of sizes that are no multiple of a tile.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <boost/test/unit_test.hpp>

#include "kernels/product.h"
#include "kernels/product_bf16.h"
#include "portable_bf16.h"
#include "support/random.h"

using namespace pe;
using at::Tensor;

namespace {

Tensor normals(std::uint64_t key, std::vector<std::int64_t> shape) {
  Tensor t = at::empty(shape, at::kDouble);
  support::philox_normal(key, t.data_ptr<double>(), static_cast<std::size_t>(t.numel()));
  return t;
}

double largest_difference(const Tensor& a, const Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

struct Sizes {
  std::int64_t rows, columns, depth;
};
constexpr Sizes kSizes[] = {{1, 1, 1}, {33, 65, 7}, {32, 64, 128}, {70, 300, 129}, {128, 40, 2049}, {5, 1000, 64}};

/// Runs `check` in bf16 by plain loops and by each unit that this CPU has.
template <typename Check>
void for_each_unit(const Check& check) {
  const auto run = [&](kernels::Bf16Unit unit, const char* name) {
    kernels::multiply_in_bf16(unit);
    BOOST_TEST_CONTEXT(name) check();
    kernels::multiply_in_bf16(kernels::Bf16Unit::kNone);
  };
  kernels::set_bf16_test_table(&test::PortableBf16::table);
  run(kernels::Bf16Unit::kAvx512, "plain loops");
  kernels::set_bf16_test_table(nullptr);
  for (const auto unit : {kernels::Bf16Unit::kAvx512, kernels::Bf16Unit::kAmx})
    if (kernels::can_multiply_in_bf16(unit)) run(unit, name_of(unit));
}

/// Each operand as it is and as a transposed view.
template <typename Check>
void for_each_layout(const Check& check) {
  for (const Sizes& size : kSizes) {
    for (const bool a_transposed : {false, true}) {
      for (const bool b_transposed : {false, true}) {
        const Tensor a = normals(1, {size.rows, size.depth}).to(at::kFloat),
                     b = normals(2, {size.depth, size.columns}).to(at::kFloat);
        BOOST_TEST_CONTEXT(size.rows << " x " << size.columns << " x " << size.depth << " " << a_transposed
                                     << b_transposed)
        check(a_transposed ? a.t().contiguous().t() : a, b_transposed ? b.t().contiguous().t() : b);
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(products)

BOOST_AUTO_TEST_CASE(fp32_agrees_with_float64) {
  for_each_layout([](const Tensor& a, const Tensor& b) {
    const Tensor exact = at::mm(a.to(at::kDouble), b.to(at::kDouble)),
                 base = normals(3, {a.size(0), b.size(1)}).to(at::kFloat);
    BOOST_TEST(largest_difference(kernels::product(a, b), exact) <= 1e-3);
    BOOST_TEST(largest_difference(kernels::sum_with_product(base, a, b), exact + base.to(at::kDouble)) <= 1e-3);
    const Tensor gradient = base.clone();
    kernels::add_product(gradient, a.t(), b);
    BOOST_TEST(largest_difference(gradient, exact + base.to(at::kDouble)) <= 1e-3);
  });
}

// Operands rounded to bf16, whose products are exact in fp32: what is left is the error of sums in fp32.
BOOST_AUTO_TEST_CASE(bf16_is_the_product_of_rounded_operands) {
  for_each_unit([] {
    for_each_layout([](const Tensor& a, const Tensor& b) {
      const Tensor exact = at::mm(a.to(at::kBFloat16).to(at::kDouble), b.to(at::kBFloat16).to(at::kDouble));
      const Tensor base = normals(3, {a.size(0), b.size(1)}).to(at::kFloat);
      BOOST_TEST(largest_difference(kernels::product(a, b), exact) <= 1e-3);
      BOOST_TEST(largest_difference(kernels::sum_with_product(base, a, b), exact + base.to(at::kDouble)) <= 1e-3);
      const Tensor gradient = base.clone();
      kernels::add_product(gradient, a.t(), b);
      BOOST_TEST(largest_difference(gradient, exact + base.to(at::kDouble)) <= 1e-3);
    });
  });
}

BOOST_AUTO_TEST_CASE(bf16_gives_the_same_bits_in_any_number_of_threads) {
  const Tensor a = normals(1, {200, 1500}).to(at::kFloat), b = normals(2, {1500, 333}).to(at::kFloat);
  for_each_unit([&] {
    const int before = at::get_num_threads();
    const Tensor one = kernels::product(a, b);
    for (const int threads : {2, 3}) {
      at::set_num_threads(threads);
      BOOST_TEST(kernels::product(a, b).equal(one));
    }
    at::set_num_threads(before);
  });
}

BOOST_AUTO_TEST_CASE(nothing_to_sum_is_zero) {
  for_each_unit([] { BOOST_TEST(kernels::product(at::zeros({3, 0}), at::zeros({0, 4})).equal(at::zeros({3, 4}))); });
}

BOOST_AUTO_TEST_SUITE_END()

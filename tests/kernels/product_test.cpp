// Products against naive sums in float64, of any strides and of sizes that are no multiple of a tile.
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include <boost/test/unit_test.hpp>

#include "cuda/cublaslt_stand_in.h"
#include "cuda/kernels.h"
#include "cuda/plugin.h"
#include "instruction_sets.h"
#include "kernels/dispatch.h"
#include "kernels/product.h"
#include "kernels/product_bf16.h"
#include "normals.h"
#include "support/error.h"
#include "support/files.h"
#include "support/random.h"
#include "support/test_data.h"

using namespace pe;
using at::Tensor;
using test::normals;

namespace {

double largest_difference(const Tensor& a, const Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

struct Sizes {
  std::int64_t rows, columns, depth;
};
constexpr Sizes kSizes[] = {{1, 1, 1},       {33, 65, 7},   {32, 64, 128}, {70, 300, 129},
                            {128, 40, 2049}, {5, 1000, 64}, {300, 40, 70}};

/// Runs `check` in bf16 by each unit that this CPU has.
template <typename Check>
void for_each_unit(const Check& check) {
  for (const auto unit : {kernels::Bf16Unit::kPlain, kernels::Bf16Unit::kAvx512, kernels::Bf16Unit::kAmx}) {
    if (!kernels::can_multiply_in_bf16(unit)) continue;
    kernels::multiply_in_bf16(unit);
    BOOST_TEST_CONTEXT(name_of(unit)) check();
  }
  kernels::multiply_in_bf16(kernels::Bf16Unit::kNone);
}

/// Each operand as stored and as a transposed view.
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

/// While it lives, bf16 tensors on the CPU go to the plug-in's products, by a stand-in for cuBLASLt.
struct PluginProducts {
  PeCudaTable table{};
  PluginProducts() {
    table.current_stream = [](int) -> void* { return nullptr; };
    cuda::fill_products(table);
    kernels::stand_in_for_plugin(&table);
  }
  ~PluginProducts() { kernels::stand_in_for_plugin(nullptr); }
  PluginProducts(const PluginProducts&) = delete;
};

Tensor halves(std::uint64_t key, std::vector<std::int64_t> shape) { return normals(key, shape).to(at::kBFloat16); }

/// (c +) a · b with three rounded parts, as the algorithm of the tests' records sums.
Tensor in_three_parts(const Tensor& a, const Tensor& b, const Tensor* c = nullptr) {
  Tensor sum = c == nullptr ? at::zeros({a.size(0), b.size(1)}) : c->to(at::kFloat);
  const std::int64_t depth = a.size(1);
  for (std::int64_t part = 0; part < 3; ++part) {
    const std::int64_t first = depth * part / 3, count = depth * (part + 1) / 3 - first;
    const Tensor left = a.narrow(1, first, count).to(at::kDouble), right = b.narrow(0, first, count).to(at::kDouble);
    sum = sum + at::mm(left, right).to(at::kFloat);
  }
  return sum;
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

// Operands rounded to bf16, whose products are exact in fp32: the rest is the error of sums in fp32.
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

// A product of two bf16 is exact in fp32, so that an instruction that multiplies and adds rounds as two do.
BOOST_AUTO_TEST_CASE(bf16_in_fp32_arithmetic_gives_the_same_bits_in_every_instruction_set) {
  for_each_layout([](const Tensor& a, const Tensor& b) {
    const auto by = [&](const std::string& set) {
      const Tensor c = at::empty({a.size(0), b.size(1)});
      kernels::product_in_bf16(kernels::plain_bf16_table(set), a, b, c, false);
      return c;
    };
    for (const std::string& set : test::instruction_sets()) BOOST_TEST(by(set).equal(by("DEFAULT")), set);
  });
}

BOOST_AUTO_TEST_CASE(a_product_that_the_build_has_an_algorithm_for_goes_to_the_plug_in) {
  const PluginProducts plugin;
  const Tensor a = halves(1, {21, 40}), w = halves(2, {16, 40}), base = halves(3, {21, 16}), before = base.clone(),
               dy = halves(4, {21, 16}), gradient = normals(5, {16, 40}).to(at::kFloat), old = gradient.clone();
  const std::int64_t calls = test::cublaslt_calls();
  const Tensor expected = in_three_parts(a, w.t());
  BOOST_TEST(kernels::product(a, w.t()).equal(expected.to(at::kBFloat16)));
  BOOST_TEST(kernels::wide_product(a, w.t()).equal(expected));
  BOOST_TEST(kernels::sum_with_product(base, a, w.t()).equal(in_three_parts(a, w.t(), &base).to(at::kBFloat16)));
  BOOST_TEST(base.equal(before));
  kernels::add_product(gradient, dy, a);
  BOOST_TEST(gradient.equal(in_three_parts(dy.t(), a, &old)));
  BOOST_TEST(test::cublaslt_calls() == calls + 4);
  BOOST_TEST(!expected.equal(at::mm(a.to(at::kDouble), w.t().to(at::kDouble)).to(at::kFloat)));  // parts are seen
}

BOOST_AUTO_TEST_CASE(other_products_stay_with_libtorch) {
  const PluginProducts plugin;
  const Tensor a = halves(1, {23, 40}), w = halves(2, {16, 40});
  const std::int64_t calls = test::cublaslt_calls();
  const auto stays = [&](const Tensor& left, const Tensor& right) {
    BOOST_TEST(kernels::product(left, right).equal(at::mm(left, right)));
    BOOST_TEST(test::cublaslt_calls() == calls);
  };
  stays(a.narrow(0, 0, 22), w.t());                                             // the record is another device's
  stays(a.narrow(0, 0, 20), w.t());                                             // no record
  stays(halves(1, {21, 41}).narrow(1, 0, 40), w.t());                           // other strides
  stays(halves(1, {21 * 40 + 1}).narrow(0, 1, 21 * 40).view({21, 40}), w.t());  // two bytes past a multiple of 16
  stays(a.narrow(0, 0, 21).to(at::kFloat), w.to(at::kFloat).t());
  kernels::use_fused(false);
  stays(a.narrow(0, 0, 21), w.t());
  kernels::use_fused(true);
  std::vector<PeCudaProduct> seen;
  kernels::watch_products(&seen);
  stays(a.narrow(0, 0, 21), w.t());
  kernels::watch_products(nullptr);
  const PeCudaProduct expected{21, 16, 40, 40, 40, 16, false, true, false, false};
  BOOST_TEST((seen.size() == 1U && seen[0] == expected));
  BOOST_CHECK_EXCEPTION(kernels::product(a, w.t()), support::Error, [](const support::Error& error) {
    return std::string(error.what()).find("[23, 40] and [40, 16] with cuBLAS status 7") != std::string::npos;
  });
}

// Each operand as stored and transposed, with rows longer than the matrix, c apart from d and the same.
BOOST_AUTO_TEST_CASE(descriptions_for_cublaslt_hold_every_layout) {
  const PluginProducts plugin;
  for (int bits = 0; bits < 32; ++bits) {
    PeCudaProduct of{5, 6, 7, 0, 0, 9, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
    const bool in_place = (bits & 16) != 0;
    of.a_step = of.a_turned ? 8 : 10;
    of.b_step = of.b_turned ? 11 : 12;
    const Tensor all_a = halves(1, {of.a_turned ? 7 : 5, of.a_step}),
                 all_b = halves(2, {of.b_turned ? 6 : 7, of.b_step});
    const Tensor a = of.a_turned ? all_a.narrow(1, 0, 5).t() : all_a.narrow(1, 0, 7),
                 b = of.b_turned ? all_b.narrow(1, 0, 7).t() : all_b.narrow(1, 0, 6);
    const Tensor c = normals(3, {5, 9}).to(of.wide ? at::kFloat : at::kBFloat16), d = in_place ? c : c + 1;
    const Tensor old = c.clone(), beyond = d.narrow(1, 6, 3).clone();
    Tensor expected = at::mm(a.to(at::kDouble), b.to(at::kDouble)).to(at::kFloat);
    if (of.adds) expected = expected + old.narrow(1, 0, 6).to(at::kFloat);
    PeCudaAlgorithm found[8];
    int count = 0;
    BOOST_TEST_REQUIRE(plugin.table.product_algorithms(&of, 8, found, &count) == 0);
    BOOST_TEST_REQUIRE(count == 3);
    BOOST_TEST_REQUIRE(plugin.table.product(&of, &found[0], a.data_ptr(), b.data_ptr(), c.data_ptr(), d.data_ptr(),
                                            nullptr, nullptr) == 0);
    BOOST_TEST_CONTEXT("layout " << bits) {
      BOOST_TEST(d.narrow(1, 0, 6).equal(expected.to(d.scalar_type())));
      BOOST_TEST(d.narrow(1, 6, 3).equal(beyond));
      BOOST_TEST((in_place || c.equal(old)));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_record_is_the_line_that_the_benchmark_prints) {
  const PluginProducts plugin;
  const PeCudaProduct of{21, 16, 40, 40, 40, 16, false, true, false, false};
  PeCudaAlgorithm found[8], held;
  int count = 0;
  BOOST_TEST_REQUIRE(plugin.table.product_algorithms(&of, 8, found, &count) == 0);
  BOOST_TEST_REQUIRE(plugin.table.recorded_product(&of, &held));
  BOOST_TEST(std::equal(std::begin(held.data), std::end(held.data), std::begin(found[2].data)));
  BOOST_TEST(held.workspace == found[2].workspace);
  char line[512];
  plugin.table.write_product_record(&of, &found[2], line, sizeof line);
  const std::string records =
      support::read_file(test::source_root() / "tests/cuda/stand_in/cuda/recorded_products.inc");
  BOOST_TEST(records.find(std::string(line) + "\n") != std::string::npos, line);
}

BOOST_AUTO_TEST_CASE(nothing_to_sum_is_zero) {
  for_each_unit([] { BOOST_TEST(kernels::product(at::zeros({3, 0}), at::zeros({0, 4})).equal(at::zeros({3, 4}))); });
}

BOOST_AUTO_TEST_SUITE_END()

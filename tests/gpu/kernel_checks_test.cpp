// The checks that a GPU's kernels are put to, on the CPU by the stand-in for the plug-in.
#include <boost/test/unit_test.hpp>

#include "cuda/host_plugin.h"
#include "gpu/kernel_checks.h"

using namespace pe::test;  // NOLINT

namespace {

constexpr KernelShapes kSmall{.batch = 2,
                              .length = 44,
                              .width = 24,
                              .inner = 16,
                              .vocabulary = 96,
                              .odd_vocabulary = 37,
                              .heads = 4,
                              .kv_heads = 2,
                              .head_width = 16,
                              .weights = 1000,
                              .positions = 8};

}  // namespace

BOOST_AUTO_TEST_SUITE(kernel_checks)

BOOST_AUTO_TEST_CASE(the_kernels_bodies_pass_them_on_the_cpu) {
  const StandIn plugin;
  for (const auto& check :
       {check_norms, check_heads, check_rotations, check_swiglu, check_cross_entropy, check_loss_routes,
        check_product_routes, check_embedding_gradient, check_adam, check_weight_gradients, check_draws_and_gathers}) {
    check(at::kCPU, kSmall);
  }
  KernelShapes wide = kSmall;
  wide.head_width = 32;  // the narrowest for which there is attention
  check_attention_routes(at::kCPU, wide);
}

BOOST_AUTO_TEST_SUITE_END()

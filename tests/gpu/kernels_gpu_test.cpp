// Every kernel of the plug-in on a GPU at the shapes of real models; skipped where there is none.
#include "gpu/has_gpu.h"
#include "gpu/kernel_checks.h"

using namespace pe::test;  // NOLINT

namespace {

at::Device gpu() { return pe::model::open_device(pe::model::resolve(on_gpu())); }

}  // namespace

BOOST_AUTO_TEST_SUITE(kernels_gpu, *boost::unit_test::precondition(HasGpu{}))

BOOST_AUTO_TEST_CASE(norms) { check_norms(gpu(), {}); }
BOOST_AUTO_TEST_CASE(heads) { check_heads(gpu(), {}); }
BOOST_AUTO_TEST_CASE(rotations) { check_rotations(gpu(), {}); }
BOOST_AUTO_TEST_CASE(swiglu) { check_swiglu(gpu(), {}); }
BOOST_AUTO_TEST_CASE(cross_entropy) { check_cross_entropy(gpu(), {}); }
BOOST_AUTO_TEST_CASE(loss_routes) { check_loss_routes(gpu(), {}); }
BOOST_AUTO_TEST_CASE(product_routes) {  // of small, tiny and medium
  check_product_routes(gpu(), {.batch = 32});
  check_product_routes(gpu(), {.batch = 32, .width = 512, .inner = 2048, .heads = 8});
  check_product_routes(gpu(), {.batch = 32, .width = 1024, .inner = 4096, .heads = 16});
}
BOOST_AUTO_TEST_CASE(
    attention_routes) {  // of tiny, small, medium and large, of shared keys, and of wide and narrow heads
  for (const std::int64_t heads : {8, 12, 16, 32})
    check_attention_routes(gpu(), {.batch = 32, .heads = heads, .kv_heads = heads, .head_width = 64});
  check_attention_routes(gpu(), {.batch = 32, .heads = 12, .kv_heads = 4, .head_width = 64});
  check_attention_routes(gpu(), {.batch = 8, .length = 4096, .heads = 12, .kv_heads = 12, .head_width = 64});
  check_attention_routes(gpu(), {.batch = 32, .heads = 8, .kv_heads = 8, .head_width = 128});
  check_attention_routes(gpu(), {.batch = 32, .heads = 16, .kv_heads = 16, .head_width = 32});
}
BOOST_AUTO_TEST_CASE(embedding_gradient) { check_embedding_gradient(gpu(), {}); }
BOOST_AUTO_TEST_CASE(adam) { check_adam(gpu(), {}); }
BOOST_AUTO_TEST_CASE(weight_gradients) { check_weight_gradients(gpu(), {}); }
BOOST_AUTO_TEST_CASE(draws_and_gathers) { check_draws_and_gathers(gpu(), {}); }

BOOST_AUTO_TEST_SUITE_END()

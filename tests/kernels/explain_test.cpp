// Exceptions of LibTorch: a lack of memory is distinguished from mistakes of ours.
#include "kernels/explain.h"

#include <ATen/ops/empty.h>
#include <c10/util/Exception.h>

#include <boost/test/unit_test.hpp>
#include <new>
#include <string>

using pe::Json;
using pe::kernels::explain;
namespace support = pe::support;

namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const Json kConfig = {{"compute", {{"micro_batch", 16}}}};

c10::SourceLocation here() { return {__func__, __FILE__, static_cast<std::uint32_t>(__LINE__)}; }

}  // namespace

BOOST_AUTO_TEST_SUITE(explain_exceptions)

BOOST_AUTO_TEST_CASE(memory_that_the_machine_has_not_names_the_micro_batch) {
  std::optional<support::Error> found;
  try {
    at::empty({std::int64_t{1} << 47}, at::kByte);  // as many bytes as a process has addresses
  } catch (const std::exception& error) {
    found = explain(error, kConfig);
  }
  BOOST_REQUIRE(found.has_value());
  BOOST_TEST(found->exit_code() == support::kExitOutOfMemory);
  BOOST_TEST(has(found->what(), "out of memory: 128 TiB more could not be had"), found->what());
  BOOST_TEST(has(found->what(), "lower compute.micro_batch, which is 16 sequences"), found->what());
  const auto plain = explain(std::bad_alloc(), {{"compute", {{"micro_batch", "auto"}}}});
  BOOST_TEST(plain.value().exit_code() == support::kExitOutOfMemory);
  BOOST_TEST(has(plain->what(), "set compute.micro_batch, which is auto"), plain->what());
  BOOST_TEST(explain(std::bad_alloc()).value().what() == std::string("out of memory"));
}

BOOST_AUTO_TEST_CASE(memory_of_a_gpu_says_so) {
  const c10::OutOfMemoryError torch(
      here(),
      "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of "
      "79.11 GiB of which 1.00 GiB is free. If reserved but unallocated memory is large …");
  const auto found = explain(torch, kConfig);
  BOOST_TEST(found.value().exit_code() == support::kExitOutOfMemory);
  BOOST_TEST(has(found->what(), "out of memory of the GPU: Tried to allocate 2.00 GiB."), found->what());
  BOOST_TEST(!has(found->what(), "If reserved"), found->what());
  BOOST_TEST(explain(c10::AcceleratorError(here(), 2, "CUDA error: out of memory")).value().exit_code() ==
             support::kExitOutOfMemory);
  BOOST_TEST(explain(c10::Error(here(), "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"))
                 .value()
                 .exit_code() == support::kExitOutOfMemory);
}

BOOST_AUTO_TEST_CASE(a_device_that_failed_may_be_tried_again_and_a_wrong_call_may_not) {
  const auto lost = explain(c10::AcceleratorError(here(), 719, "CUDA error: unspecified launch failure\nmore"));
  BOOST_TEST(lost.value().exit_code() == support::kExitDevice);
  BOOST_TEST(has(lost->what(), "CUDA error 719"), lost->what());
  const auto nccl = explain(c10::Error(here(), "NCCL error in: x.cpp:1, remote process exited\nmore"));
  BOOST_TEST(nccl.value().exit_code() == support::kExitDevice);
  BOOST_TEST(!has(nccl->what(), "more"), nccl->what());
  BOOST_TEST(!explain(c10::AcceleratorError(here(), 1, "CUDA error: invalid argument")).has_value());
  BOOST_TEST(!explain(c10::Error(here(), "expected 2 dimensions")).has_value());
  BOOST_TEST(!explain(std::runtime_error("out of luck")).has_value());
}

BOOST_AUTO_TEST_SUITE_END()

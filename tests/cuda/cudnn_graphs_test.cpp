// Attention as lib/cuda/cudnn_attention.cpp describes it to cuDNN: accepted by its frontend for each shape, and with
// plans for a device that is not there. Skipped where there is no libcudnn.
#include <dlfcn.h>

#include <boost/test/unit_test.hpp>
#include <string>

#include "cuda/kernels.h"

namespace {

/// By its specification, in cuDNN's words.
constexpr const char* kH100 =
    R"({"deviceName": "NVIDIA H100 80GB HBM3", "deviceVer": 900, "driverVer": 13000, "multiProcessorCount": 132,
        "totalGlobalMem": 85024112640, "l2CacheSize": 52428800, "smClockRateKHz": 1980000, "memClockRateKHz": 2619000,
        "warpSize": 32, "maxThreadsPerBlock": 1024, "maxThreadsPerSM": 2048, "maxCtasPerSM": 32,
        "maxGridSize": [2147483647, 65535, 65535], "maxBlockSize": [1024, 1024, 64],
        "regsPerBlock": 65536, "maxRegistersPerSM": 65536, "maxSharedMemoryPerBlock": 49152,
        "maxSharedMemoryPerBlockOptin": 232448, "reservedSharedMemoryPerBlock": 1024,
        "supportCoopLaunch": 1, "isTccDriver": 0, "pciDeviceId": 0, "cudaDeviceId": 0})";

/// As a step of training stores it. All rows of a head, or all heads of a row, of q and k follow each other; v and the
/// gradients are columns of a packed projection.
PeCudaAttention shape(std::int64_t groups, std::int64_t length, std::int64_t width, bool by_head) {
  const std::int64_t heads = 12, row = (heads + 2 * groups) * width;
  const auto apart = [&](std::int64_t count) {
    return by_head ? PeCudaStrides{count * length * width, length * width, width}
                   : PeCudaStrides{count * length * width, width, count * width};
  };
  PeCudaAttention of{.batch = 4, .heads = heads, .groups = groups, .queries = length, .keys = length, .width = width};
  of.q = apart(heads);
  of.k = apart(groups);
  of.v = of.dq = of.dk = of.dv = {length * row, width, row};
  of.out = of.dout = {heads * length * width, width, heads * width};
  of.scale = 0.125F;
  return of;
}

struct Answer {
  int status;
  std::string problem;
};
Answer ask(const PeCudaAttention& of, bool backward, int capability, const char* device = nullptr) {
  char problem[4096] = "";
  const int status = pe::cuda::check_cudnn_attention(of, backward, capability, device, problem, sizeof problem);
  return {status, problem};
}

template <typename Check>
void for_each_shape(const Check& check) {
  for (const std::int64_t width : {32, 64, 128})
    for (const std::int64_t groups : {1, 4, 12})
      for (const std::int64_t length : {64, 700, 1024, 8192})
        for (const bool by_head : {false, true})
          for (const bool backward : {false, true}) {
            BOOST_TEST_CONTEXT("width " << width << ", groups " << groups << ", length " << length << ", by head "
                                        << by_head << ", backward " << backward)
            check(shape(groups, length, width, by_head), backward);
          }
}

struct HasCudnn {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(ask(shape(1, 64, 64, false), false, 90).status != -1);
    if (!result) result.message() << "libcudnn.so.9 was not found";
    return result;
  }
};

/// cuDNN's search for plans loads CUDA's driver, in whose place the toolkit has one without a device.
struct HasDriver {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(dlopen("libcuda.so.1", RTLD_NOW) != nullptr ||
                                               dlopen(PE_CUDA_STUBS "/libcuda.so", RTLD_NOW) != nullptr);
    if (!result) result.message() << "neither CUDA's driver nor a stub of it was found";
    return result;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(cudnn_graphs, *boost::unit_test::precondition(HasCudnn{}))

BOOST_AUTO_TEST_CASE(the_frontend_accepts_every_shape) {
  for (const int capability : {80, 90, 100, 120}) {
    for_each_shape([&](const PeCudaAttention& of, bool backward) {
      const Answer answer = ask(of, backward, capability);
      BOOST_TEST(answer.status == 0, answer.problem);
    });
  }
}

BOOST_AUTO_TEST_CASE(it_refuses_other_shapes_with_a_reason) {
  PeCudaAttention narrow = shape(4, 64, 12, false), apart = shape(4, 64, 64, false), uneven = shape(5, 64, 64, false);
  apart.q.by_row += 4;  // 8 bytes
  for (const PeCudaAttention* of : {&narrow, &apart, &uneven}) {
    const Answer answer = ask(*of, false, 90);
    BOOST_TEST(answer.status == 1);
    BOOST_TEST(answer.problem != "");
  }
}

BOOST_AUTO_TEST_CASE(an_h100_has_plans_for_every_shape, *boost::unit_test::precondition(HasDriver{})) {
  for_each_shape([](const PeCudaAttention& of, bool backward) {
    const Answer answer = ask(of, backward, 90, kH100);
    BOOST_TEST(answer.status == 0, answer.problem);
  });
}

BOOST_AUTO_TEST_CASE(an_older_device_has_none, *boost::unit_test::precondition(HasDriver{})) {
  std::string older = kH100;
  older.replace(older.find("900"), 3, "750");
  for (const bool backward : {false, true}) {
    const Answer answer = ask(shape(4, 1024, 64, false), backward, 90, older.c_str());
    BOOST_TEST(answer.status == 1);
    BOOST_TEST(answer.problem != "");
  }
}

BOOST_AUTO_TEST_SUITE_END()

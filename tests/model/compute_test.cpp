#include <ATen/Context.h>
#include <ATen/SDPBackend.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdlib>

#include "kernels/product_bf16.h"
#include "model/compute.h"
#include "model/device.h"
#include "support/cpu.h"
#include "support/error.h"

namespace {

using pe::model::ComputeConfig;

bool mentions(const std::exception& error, const std::string& text) {
  return std::string(error.what()).find(text) != std::string::npos;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(compute)

BOOST_AUTO_TEST_CASE(auto_by_hand_is_one_thread_on_the_cpu_in_fp32) {
  const ComputeConfig compute = pe::model::resolve({}, 16);
  BOOST_TEST((compute.device == pe::model::DeviceKind::kCpu));
  BOOST_TEST((compute.dtype == pe::model::Precision::kFp32));
  BOOST_TEST(*compute.threads == 1);
  BOOST_TEST(*compute.ranks == 1);
  BOOST_TEST(*compute.micro_batch == 16);
}

BOOST_AUTO_TEST_CASE(a_micro_batch_must_divide_the_batch) {
  ComputeConfig config;
  config.micro_batch = 5;
  BOOST_CHECK_EXCEPTION(pe::model::resolve(config, 16), pe::support::ConfigError,
                        [](const auto& error) { return mentions(error, "5") && mentions(error, "16"); });
  config.micro_batch = 64;
  BOOST_TEST(*pe::model::resolve(config, 16).micro_batch == 16);
}

BOOST_AUTO_TEST_CASE(a_micro_batch_of_a_gpu_counts_tokens) {
  ComputeConfig config;
  config.device = pe::model::DeviceKind::kCuda;
  BOOST_TEST(*pe::model::resolve(config, 512, 1024).micro_batch == 32);
  BOOST_TEST(*pe::model::resolve(config, 128, 4096).micro_batch == 8);
  BOOST_TEST(*pe::model::resolve(config, 32, 65'536).micro_batch == 1);
  config.ranks = 4;
  BOOST_TEST(*pe::model::resolve(config, 96, 1024).micro_batch == 24);
}

BOOST_AUTO_TEST_CASE(portable_asks_every_library_for_its_common_ground) {
  ComputeConfig config;
  config.isa = pe::model::Isa::kPortable;
  config.threads = 2;
  const auto environment = pe::model::environment_of(config);
  for (const char* entry : {"ATEN_CPU_CAPABILITY=default", "MKL_CBWR=COMPATIBLE", "ONEDNN_MAX_CPU_ISA=SSE41",
                            "OMP_NUM_THREADS=2", "MKL_NUM_THREADS=2", "GOMP_SPINCOUNT=1000"}) {
    BOOST_TEST_CONTEXT(entry)
    BOOST_TEST((std::find(environment.begin(), environment.end(), entry) != environment.end()));
  }
}

// The unit that multiplies goes by the instruction set alone, so that a result's config names it.
BOOST_AUTO_TEST_CASE(every_cpu_multiplies_in_bf16_by_our_kernels) {
  using pe::kernels::Bf16Unit;
  ComputeConfig config;
  config.dtype = pe::model::Precision::kBf16;
  config.isa = pe::model::Isa::kPortable;
  BOOST_TEST((pe::model::resolve(config).isa == pe::model::Isa::kPortable));
  const auto products = [&] {
    const ComputeConfig compute = pe::model::resolve(config);
    const at::Device device = pe::model::open_device(compute);
    pe::kernels::multiply_in_bf16(Bf16Unit::kNone);
    return pe::model::fingerprint(compute, device)["products"];
  };
  BOOST_TEST(products() == "fp32 arithmetic");
  config.isa = pe::model::Isa::kAuto;  // never a set whose unit is missing here
  const bool has = pe::kernels::can_multiply_in_bf16(Bf16Unit::kAvx512);
  BOOST_TEST((products() == "fp32 arithmetic") == !has);
  if (!has && pe::support::widest_instruction_set() == std::string("avx512")) {
    config.isa = pe::model::Isa::kAvx512;
    BOOST_CHECK_EXCEPTION(products(), pe::support::ConfigError, [](const auto& error) {
      return mentions(error, "has no AVX512-BF16") && mentions(error, "compute.isa: avx2");
    });
    config.isa = pe::model::Isa::kAuto;
  }
  config.kernels = pe::model::Kernels::kPlain;
  BOOST_CHECK_EXCEPTION(pe::model::resolve(config), pe::support::ConfigError,
                        [](const auto& error) { return mentions(error, "compute.kernels is plain"); });
}

// AMX and AVX512-BF16 sum in different orders, so the key says which it is; and no key has amx where nothing uses it.
BOOST_AUTO_TEST_CASE(amx_is_for_products_in_bf16_on_machines_that_have_it) {
  const bool has = pe::support::widest_instruction_set() == std::string("amx");
  ComputeConfig config;
  BOOST_TEST((pe::model::resolve(config).isa != pe::model::Isa::kAmx));  // fp32
  config.isa = pe::model::Isa::kAmx;
  BOOST_CHECK_EXCEPTION(pe::model::resolve(config), pe::support::ConfigError, [&](const auto& error) {
    return mentions(error, has ? "compute.isa is amx, which only products in bf16"
                               : "compute.isa is amx, but this machine has no more than");
  });
  config.dtype = pe::model::Precision::kBf16;
  if (!has) {
    BOOST_CHECK_EXCEPTION(pe::model::resolve(config), pe::support::ConfigError, [](const auto& error) {
      return mentions(error, "compute.isa is amx, but this machine has no more than");
    });
    return;
  }
  BOOST_TEST((pe::model::resolve(config).isa == pe::model::Isa::kAmx));
  const auto environment = pe::model::environment_of(config);
  BOOST_TEST(
      (std::find(environment.begin(), environment.end(), "ONEDNN_MAX_CPU_ISA=AVX512_CORE_AMX") != environment.end()));
  config.isa = pe::model::Isa::kAuto;
  BOOST_TEST((pe::model::resolve(config).isa == pe::model::Isa::kAmx));
}

BOOST_AUTO_TEST_CASE(only_a_gpu_may_be_told_to_be_faster_than_deterministic) {
  ComputeConfig config;
  BOOST_TEST((pe::model::resolve(config).deterministic == pe::model::Determinism::kOn));
  config.deterministic = pe::model::Determinism::kOff;
  BOOST_CHECK_EXCEPTION(pe::model::resolve(config), pe::support::ConfigError, [](const auto& error) {
    return mentions(error, "compute.deterministic is off") && mentions(error, "compute.device: cuda");
  });
  config.device = pe::model::DeviceKind::kCuda;
  const auto has = [&](const char* name) {
    const auto environment = pe::model::environment_of(config);
    return std::any_of(environment.begin(), environment.end(),
                       [&](const std::string& entry) { return entry.starts_with(name); });
  };
  BOOST_TEST(!has("NCCL_ALGO="));
  BOOST_TEST(!has("CUBLAS_WORKSPACE_CONFIG="));
  config.deterministic = pe::model::Determinism::kAuto;
  BOOST_TEST(has("NCCL_ALGO=Ring"));
  BOOST_TEST(has("CUBLAS_WORKSPACE_CONFIG=:4096:8"));
}

BOOST_AUTO_TEST_CASE(attention_of_cudnn_comes_first_where_nothing_needs_to_be_deterministic) {
  at::Context& context = at::globalContext();
  const bool was = context.deterministicAlgorithms();
  const auto order = context.sDPPriorityOrder();
  for (int i = 0; i < 2; ++i) {
    pe::model::set_deterministic(false);
    BOOST_TEST(!context.deterministicAlgorithms());
    BOOST_TEST((context.sDPPriorityOrder()[0] == at::SDPBackend::cudnn_attention));
    pe::model::set_deterministic(true);
    BOOST_TEST(context.deterministicAlgorithms());
    BOOST_TEST((context.sDPPriorityOrder() == order));
  }
  context.setDeterministicAlgorithms(was, false);
}

BOOST_AUTO_TEST_CASE(fp32_is_never_rounded_to_tf32) {
  at::Context& context = at::globalContext();
  context.setAllowTF32CuDNN(true);
  context.setAllowTF32CuBLAS(true);
  pe::model::open_device(pe::model::resolve({}));
  BOOST_TEST(!context.allowTF32CuDNN());
  BOOST_TEST(!context.allowTF32CuBLAS());
}

BOOST_AUTO_TEST_CASE(what_changes_bits_is_left_out_of_the_environment_and_what_wires_machines_is_not) {
  for (const char* name :
       {"OMP_THREAD_LIMIT", "MKL_ENABLE_INSTRUCTIONS", "ONEDNN_DEFAULT_FPMATH_MODE", "DNNL_MAX_CPU_ISA",
        "GLIBC_TUNABLES", "CUBLASLT_WORKSPACE_SIZE", "CUBLAS_EMULATE_SINGLE_PRECISION",
        "CUDNN_FRONTEND_ATTN_DP_WORKSPACE_LIMIT", "NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE",
        "PYTORCH_TUNABLEOP_ENABLED", "NCCL_ALGO", "NCCL_PROTO", "NCCL_MAX_NCHANNELS", "NCCL_NVLS_ENABLE",
        "NCCL_COLLNET_ENABLE"}) {
    BOOST_TEST(pe::model::misleads_libraries(name), name);
  }
  for (const char* name :
       {"PATH", "NCCL_DEBUG", "NCCL_P2P_DISABLE", "NCCL_NET", "NCCL_NET_PLUGIN", "NCCL_TOPO_FILE", "NCCL_CUMEM_ENABLE",
        "NCCL_SOCKET_IFNAME", "NCCL_IB_HCA", "CUBLASLT_LOG_LEVEL", "CUDNN_LOGLEVEL_DBG", "TORCH_CPP_LOG_LEVEL",
        "TORCH_SHOW_CPP_STACKTRACES", "CUDA_VISIBLE_DEVICES"}) {
    BOOST_TEST(!pe::model::misleads_libraries(name), name);
  }
}

BOOST_AUTO_TEST_CASE(settings_of_nccl_that_stay_and_may_change_its_sums_are_in_the_fingerprint) {
  for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_DEBUG", "NCCL_IB_HCA", "NCCL_PROTO"}) ::setenv(name, "1", 1);
  BOOST_TEST(pe::model::nccl_settings() == pe::Json({{"NCCL_P2P_DISABLE", "1"}}));
  for (const char* name : {"NCCL_P2P_DISABLE", "NCCL_DEBUG", "NCCL_IB_HCA", "NCCL_PROTO"}) ::unsetenv(name);
  BOOST_TEST(pe::model::nccl_settings().empty());
}

// Where no compiled kernel fits, the driver compiles one, and its version decides the bits.
BOOST_AUTO_TEST_CASE(gpus_without_compiled_kernels_are_known) {
  for (const auto& [major, minor] : {std::pair(8, 0), {8, 6}, {8, 9}, {9, 0}})
    BOOST_TEST(!pe::model::runs_from_ptx(major, minor));
  for (const auto& [major, minor] : {std::pair(10, 0), {10, 3}, {12, 0}})
    BOOST_TEST(pe::model::runs_from_ptx(major, minor));
}

BOOST_AUTO_TEST_CASE(the_words_of_the_group_read_back) {
  const auto config = pe::support::make_config<ComputeConfig>(
      {{"device", "cuda"}, {"isa", "avx2"}, {"dtype", "bf16"}, {"deterministic", "off"}, {"threads", 3}});
  BOOST_TEST((config.device == pe::model::DeviceKind::kCuda));
  BOOST_TEST((config.isa == pe::model::Isa::kAvx2));
  BOOST_TEST((config.dtype == pe::model::Precision::kBf16));
  BOOST_TEST((config.deterministic == pe::model::Determinism::kOff));
  BOOST_TEST(*config.threads == 3);
  BOOST_TEST(!config.micro_batch.has_value());
}

BOOST_AUTO_TEST_CASE(a_gpus_peak_is_looked_up_by_the_whole_name) {
  const at::Device gpu(at::kCUDA, 0);
  BOOST_TEST((pe::model::peak_flops(gpu, "NVIDIA H100 80GB HBM3") == 989e12));
  BOOST_TEST((pe::model::peak_flops(gpu, "NVIDIA H100 PCIe") == 756e12));
  BOOST_TEST((pe::model::peak_flops(gpu, "NVIDIA A100-SXM4-80GB") == 312e12));
  BOOST_TEST((pe::model::peak_flops(gpu, "NVIDIA L40S") == 362e12));
  BOOST_TEST((pe::model::peak_flops(gpu, "NVIDIA L4") == 121e12));
  for (const char* unknown : {"NVIDIA L40", "NVIDIA L40G"})
    BOOST_TEST(!pe::model::peak_flops(gpu, unknown).has_value(), unknown);
  BOOST_TEST(!pe::model::peak_flops(at::kCPU, "NVIDIA L4").has_value());
}

BOOST_AUTO_TEST_CASE(a_gpu_that_is_not_there_is_one_clear_line) {
  ComputeConfig config;
  config.device = pe::model::DeviceKind::kCuda;
  try {
    const at::Device device = pe::model::open_device(pe::model::resolve(config));
    BOOST_TEST(device.is_cuda());  // this machine has one
  } catch (const pe::support::ConfigError& error) {
    BOOST_TEST(mentions(error, "a GPU was asked for"));
    BOOST_TEST(mentions(error, "compute.device: cpu"));
  }
}

BOOST_AUTO_TEST_SUITE_END()

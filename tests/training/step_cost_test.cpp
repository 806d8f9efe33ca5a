// What a layer costs in one forward and backward pass besides its arithmetic: operations of LibTorch, and bytes that
// are allocated, as the difference between models of three layers and of two. Limits are what was measured; who raises
// one says why.
#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/record_function.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <boost/test/unit_test.hpp>
#include <map>
#include <memory>
#include <string>

#include "../cuda/host_plugin.h"
#include "kernels/dispatch.h"
#include "model/language_model.h"
#include "support/json.h"

using namespace pe;

namespace {

struct Cost {
  std::map<std::string, std::int64_t> operations;
  std::int64_t bytes = 0;

  std::int64_t count(const std::string& name) const {
    const auto found = operations.find(name);
    return found == operations.end() ? 0 : found->second;
  }
  std::int64_t all() const {
    std::int64_t sum = 0;
    for (const auto& [name, times] : operations) sum += times;
    return sum;
  }
};

thread_local Cost* counting = nullptr;

std::unique_ptr<at::ObserverContext> count_operation(const at::RecordFunction& function) {
  if (counting != nullptr) ++counting->operations[function.name()];
  return nullptr;
}

/// Told by LibTorch's allocator of every block.
class Allocations final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    if (counting != nullptr && size > 0) counting->bytes += size;
  }
  bool memoryProfilingEnabled() const override { return true; }
};

constexpr std::int64_t kBatch = 2, kLength = 64, kWidth = 64;
constexpr std::int64_t kStream = kBatch * kLength * kWidth * 4;  ///< bytes of one [B, T, d_m] in fp32

Cost of_model(const Json& encoding, std::int64_t layers) {
  model::ModelConfig config;
  config.width = kWidth;
  config.layers = layers;
  config.heads = 4;
  config.length = kLength;
  config.encoding.json = encoding;
  const model::LanguageModel model = model::LanguageModel::make(config, 97, 42);
  const at::Tensor ids = (at::arange(kBatch * kLength) * 31 % 97).view({kBatch, kLength});
  const auto pass = [&] {
    model::ForwardOptions options;
    options.training = true;
    const at::Tensor hidden = model.forward(ids, options);
    (model.loss_sum(hidden.reshape({-1, kWidth}), ids.reshape({-1})) * 0.01).backward();
  };
  pass();  // tables that are kept are made
  Cost cost;
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(count_operation).scopes({at::RecordScope::FUNCTION}));
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, std::make_shared<Allocations>());
    counting = &cost;
    pass();
    counting = nullptr;
  }
  at::removeCallback(handle);
  return cost;
}

Cost of_a_layer(const Json& encoding) {
  const Cost two = of_model(encoding, 2);
  Cost layer = of_model(encoding, 3);
  layer.bytes -= two.bytes;
  for (auto& [name, times] : layer.operations) times -= two.count(name);
  std::string text;
  for (const auto& [name, times] : layer.operations) {
    if (times != 0) text += " " + name + " " + std::to_string(times);
  }
  BOOST_TEST_MESSAGE(encoding.dump() << ": " << layer.all() << " operations, "
                                     << layer.bytes / static_cast<double>(kStream) << " streams:" << text);
  return layer;
}

struct Limit {
  const char* encoding;
  std::int64_t operations;
  double streams;  ///< of bytes, in units of one [B, T, d_m]
  std::int64_t zeros = 0;
};

void compare(const Limit& limit) {
  const Cost layer = of_a_layer(limit.encoding);
  BOOST_TEST(layer.all() <= limit.operations, limit.encoding << ": " << layer.all() << " operations a layer");
  BOOST_TEST(static_cast<double>(layer.bytes) <= limit.streams * kStream,
             limit.encoding << ": " << static_cast<double>(layer.bytes) / kStream << " streams of bytes a layer");
  // Sums belong into products and norms, and nobody needs zeros.
  for (const char* wasteful :
       {"aten::add", "aten::add_", "aten::zeros", "aten::zero_", "aten::zeros_like", "aten::contiguous"}) {
    const bool zero = std::string(wasteful).rfind("aten::zero", 0) == 0;
    BOOST_TEST(layer.count(wasteful) <= (zero ? limit.zeros : 0),
               limit.encoding << ": " << layer.count(wasteful) << " times " << wasteful << " a layer");
  }
}

/// A product of LibTorch is several operations, one of our own none.
struct OwnProducts {
  boost::test_tools::assertion_result operator()(boost::unit_test::test_unit_id) const {
    boost::test_tools::assertion_result result(kernels::cpu_table().gemm != nullptr);
    if (!result) result.message() << "products are LibTorch's here";
    return result;
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(step_cost)

BOOST_AUTO_TEST_CASE(a_layer_on_the_cpu, *boost::unit_test::precondition(OwnProducts{})) {
  for (const Limit& limit : {Limit{"none", 103, 45.3}, Limit{"rope", 109, 45.3}, Limit{"alibi", 117, 45.3}})
    compare(limit);
}

BOOST_AUTO_TEST_CASE(a_layer_by_the_plug_in) {
  const test::StandIn plugin;
  compare(
      {"none", 214, 47.2, 3});  // zeros are those of LibTorch's attention on the CPU, which stands in for that on a GPU
}

BOOST_AUTO_TEST_SUITE_END()

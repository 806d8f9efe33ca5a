#include "evaluation/memory_meter.h"

#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <atomic>
#include <memory>

namespace pe::evaluation {

namespace {

class Meter final : public c10::MemoryReportingInfoBase {
 public:
  explicit Meter(c10::DeviceType device) : device_(device) {}

  void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device where) override {
    if (where.type() != device_) return;  // the allocators of all devices report here
    const std::int64_t now = current.fetch_add(bytes) + bytes;
    std::int64_t before = peak.load();
    while (now > before && !peak.compare_exchange_weak(before, now)) {
    }
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::atomic<std::int64_t> current{0}, peak{0};

 private:
  const c10::DeviceType device_;
};

}  // namespace

MemoryUse memory_of(const c10::Device& device, const std::function<void()>& work) {
  const auto meter = std::make_shared<Meter>(device.type());
  const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, meter);
  work();
  return {meter->peak.load(), meter->current.load()};
}

}  // namespace pe::evaluation

#include "support/fault_point.h"

#include <atomic>
#include <utility>

namespace pe::support {

namespace {

std::atomic<const FaultHook*> current{nullptr};

}  // namespace

void fault_point(std::string_view step) {
  if (const FaultHook* hook = current.load(std::memory_order_acquire)) hook->hook_(step);
}

FaultHook::FaultHook(std::function<void(std::string_view step)> hook) : hook_(std::move(hook)) {
  current.store(this, std::memory_order_release);
}

FaultHook::~FaultHook() { current.store(nullptr, std::memory_order_release); }

}  // namespace pe::support

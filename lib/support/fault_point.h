/// @file
/// Places between two steps that change the disk. They do nothing; a test looks at the disk there, makes the step fail
/// by throwing, or ends the process.
#pragma once

#include <functional>
#include <string_view>

namespace pe::support {

/// `step` names what comes next. Any thread.
void fault_point(std::string_view step);

/// While it lives, every fault point of this process calls `hook`, on the thread that reaches it. One at a time, made
/// and destroyed while no other thread passes fault points.
class FaultHook {
 public:
  explicit FaultHook(std::function<void(std::string_view step)> hook);
  ~FaultHook();
  FaultHook(const FaultHook&) = delete;
  FaultHook& operator=(const FaultHook&) = delete;

 private:
  std::function<void(std::string_view)> hook_;
  friend void fault_point(std::string_view step);
};

}  // namespace pe::support

/// @file
/// A value that many hold and few change: copies share it until one is edited.
#pragma once

#include <memory>
#include <utility>

namespace pe::support {

template <typename T>
class SharedValue {
 public:
  SharedValue() = default;
  SharedValue(T value) : value_(std::make_shared<T>(std::move(value))) {}  // NOLINT: converts from its value

  const T& get() const {
    static const T none{};
    return value_ ? *value_ : none;
  }
  const T& operator*() const { return get(); }
  const T* operator->() const { return &get(); }
  operator const T&() const { return get(); }  // NOLINT

  /// The value to change; first copied where it has another owner too. Not for concurrent calls.
  T& edit() {
    if (!value_) value_ = std::make_shared<T>();
    if (value_.use_count() > 1) value_ = std::make_shared<T>(*value_);
    return *value_;
  }
  /// True when both are one value in memory: equal without looking.
  bool same_as(const SharedValue& other) const { return value_ == other.value_; }
  /// Identity of the value: equal for values that are shared. Null for one that was never set.
  const void* identity() const { return value_.get(); }

 private:
  std::shared_ptr<T> value_;
};

}  // namespace pe::support

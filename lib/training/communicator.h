/// @file
/// Exchange between the ranks of a training. All ranks make the same calls in the same order. With one rank, every call
/// is free.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "model/compute.h"

struct PeCudaTable;

namespace pe::training {

class Communicator {
 public:
  virtual ~Communicator() = default;
  std::int64_t rank() const { return rank_; }
  std::int64_t count() const { return count_; }
  bool is_first() const { return rank_ == 0; }

  /// Begins to add a contiguous fp32 tensor up over all ranks, in place; it must not be touched before `finish`
  /// returns. Every rank gets the same bits.
  virtual void start_sum(const at::Tensor& data) = 0;
  /// Lets exchanges that were begun move on, where nothing else does.
  virtual void advance() {}
  /// Until all that was begun has ended. @throws Error (69) when that takes longer than `rank_timeout`, or a rank is
  /// gone.
  virtual void finish() = 0;
  /// Any contiguous tensor, from rank 0.
  virtual void broadcast(const at::Tensor& data) = 0;
  /// Sums of a few numbers in float64.
  virtual std::vector<double> sum(std::vector<double> values) = 0;

  void sum(const at::Tensor& data) {
    start_sum(data);
    finish();
  }
  std::string broadcast(const std::string& text);  ///< rank 0's
  /// The value of rank 0; the values of other ranks do not count.
  bool first_says(bool value) { return count_ == 1 ? value : sum({is_first() && value ? 1.0 : 0.0})[0] > 0; }
  /// Whether the value of any rank is true.
  bool any(bool value) { return count_ == 1 ? value : sum({value ? 1.0 : 0.0})[0] > 0; }
  /// The number of each rank, by rank.
  std::vector<double> gather(double value);
  void barrier() { sum(std::vector<double>{0.0}); }

  /// All ranks have come to the same end. Without it, a process that ends by an exception closes no connection in
  /// order, and its launcher ends the others.
  void agree_on_end() {
    barrier();
    agreed_ = true;
  }

 protected:
  Communicator(std::int64_t rank, std::int64_t count) : rank_(rank), count_(count) {}
  bool agreed_ = false;

 private:
  std::int64_t rank_, count_;
};

/// One process.
std::unique_ptr<Communicator> make_null_communicator();

/// For a resolved config: none for one rank, MPI for tensors on the CPU, NCCL for those on a GPU. Waits for all ranks.
/// @throws ConfigError when the plug-in, or its library, is not there, or when not as many processes were
/// started.
std::unique_ptr<Communicator> open_communicator(const model::ComputeConfig& compute, at::Device device);

/// Over the functions of the CUDA plug-in's table. nccl_unique_id makes `id` on one rank. The device may be the
/// CPU where a stand-in for NCCL works on host memory. @throws Error (69) when the other ranks do not come
std::unique_ptr<Communicator> open_nccl(const PeCudaTable& table, const std::string& id, std::int64_t rank,
                                        std::int64_t count, at::Device device, double timeout_s);

/// @throws Error (1) that names the ranks when not all have the same number; `step` steps were done. After this error a
/// rank must not continue or save.
void require_agreement(Communicator& communicator, double mine, std::int64_t step);

}  // namespace pe::training

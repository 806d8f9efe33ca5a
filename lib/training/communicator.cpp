#include "training/communicator.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/tensor.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>

#include "cuda/plugin.h"
#include "kernels/dispatch.h"
#include "mpi/plugin.h"
#include "support/error.h"
#include "support/plugin.h"
#include "support/plugin_layouts.h"
#include "support/ranks.h"
#include "support/text.h"

namespace pe::training {
namespace {

using support::cat;
using support::ConfigError;
using Clock = std::chrono::steady_clock;

constexpr const char* kWayOut =
    "install libopenmpi-dev and openmpi-bin and build again (./bootstrap build), or set compute.ranks: 1";

/// Waits with little delay at first; a long wait does not occupy a core.
class Patience {
 public:
  explicit Patience(double timeout_s) : timeout_s_(timeout_s) {}
  /// @return false when there is none left
  bool wait() {
    const double waited = std::chrono::duration<double>(Clock::now() - begin_).count();
    if (waited > timeout_s_) return false;
    if (waited < 2e-4)
      ::sched_yield();
    else
      ::usleep(waited < 0.05 ? 20 : 500);
    return true;
  }

 private:
  Clock::time_point begin_ = Clock::now();
  double timeout_s_;
};

/// A rank that has given up on the others does not meet them at the end either.
bool gave_up = false;

[[noreturn]] void lost(std::int64_t rank, std::int64_t count, const std::string& what) {
  gave_up = true;
  throw support::Error(support::kExitUnavailable,
                       support::Diagnostic{cat("rank ", rank, " of ", count, ": ", what),
                                           {},
                                           "the same command resumes from the newest checkpoint",
                                           {}});
}

std::string waited_too_long(double timeout_s) {
  return cat("the other ranks have not answered for ", support::shortest(timeout_s),
             " s (compute.rank_timeout); one may have died, or hang");
}

class Null final : public Communicator {
 public:
  Null() : Communicator(0, 1) {}
  void start_sum(const at::Tensor&) override {}
  void finish() override {}
  void broadcast(const at::Tensor&) override {}
  std::vector<double> sum(std::vector<double> values) override { return values; }
};

// ---- MPI ----------------------------------------------------------------------------------------------------------

constexpr std::int64_t kMostAtOnce = 1 << 28;  // elements or bytes: MPI counts in int

const PeMpiTable& load_mpi(std::int64_t ranks) {
  static const PeMpiTable* loaded = nullptr;
  if (loaded != nullptr) return *loaded;
  loaded = static_cast<const PeMpiTable*>(support::load_plugin({.folder = "mpi",
                                                                .name = "pe-mpi",
                                                                .symbol = "pe_mpi",
                                                                .layout = PE_MPI_LAYOUT,
                                                                .reason = cat("compute.ranks is ", ranks),
                                                                .if_absent = kWayOut,
                                                                .if_unusable = kWayOut}));
  return *loaded;
}

class Mpi final : public Communicator {
 public:
  Mpi(const PeMpiTable& table, std::int64_t rank, std::int64_t count, double timeout_s)
      : Communicator(rank, count), table_(table), timeout_s_(timeout_s) {}
  ~Mpi() override {
    if ((std::uncaught_exceptions() == 0 && !gave_up) || agreed_) table_.close();
  }

  void start_sum(const at::Tensor& data) override {
    held_.push_back(data);
    float* at = data.data_ptr<float>();
    for (std::int64_t first = 0; first < data.numel(); first += kMostAtOnce) {
      const std::int64_t size = std::min(kMostAtOnce, data.numel() - first);
      begin([&](void** exchange, char* problem, std::size_t room) {
        return table_.start_sum_float(at + first, size, exchange, problem, room);
      });
    }
  }
  void advance() override {
    while (!running_.empty() && test(running_.front())) running_.pop_front();
  }
  void finish() override {
    Patience patience(timeout_s_);
    for (advance(); !running_.empty(); advance()) {
      if (!patience.wait()) lost(rank(), count(), waited_too_long(timeout_s_));
    }
    held_.clear();
  }
  void broadcast(const at::Tensor& data) override {
    held_.push_back(data);
    auto* at = static_cast<std::byte*>(data.data_ptr());
    const auto bytes = static_cast<std::int64_t>(data.nbytes());
    for (std::int64_t first = 0; first < bytes; first += kMostAtOnce) {
      const std::int64_t size = std::min(kMostAtOnce, bytes - first);
      begin([&](void** exchange, char* problem, std::size_t room) {
        return table_.start_broadcast(at + first, size, exchange, problem, room);
      });
    }
    finish();
  }
  std::vector<double> sum(std::vector<double> values) override {
    summed_ = std::move(values);
    begin([&](void** exchange, char* problem, std::size_t room) {
      return table_.start_sum_double(summed_.data(), std::ssize(summed_), exchange, problem, room);
    });
    finish();
    return std::move(summed_);
  }

 private:
  void begin(const auto& start) {
    void* exchange = nullptr;
    char problem[256] = {};
    if (start(&exchange, problem, sizeof problem) != 0) lost(rank(), count(), cat("MPI: ", problem));
    running_.push_back(exchange);
  }
  bool test(void* exchange) {
    int done = 0;
    char problem[256] = {};
    if (table_.test(exchange, &done, problem, sizeof problem) != 0) lost(rank(), count(), cat("MPI: ", problem));
    return done != 0;
  }

  const PeMpiTable& table_;
  double timeout_s_;
  std::deque<void*> running_;
  // An exchange that fails for this rank may still run: its memory stays until MPI is left.
  std::vector<at::Tensor> held_;
  std::vector<double> summed_;
};

std::unique_ptr<Mpi> open_mpi(std::int64_t ranks, double timeout_s) {
  const PeMpiTable& table = load_mpi(ranks);
  int rank = 0, count = 0;
  char problem[256] = {};
  if (table.open(&rank, &count, problem, sizeof problem) != 0) throw ConfigError(cat("MPI does not start: ", problem));
  if (count != ranks) {
    table.close();
    throw ConfigError(cat("compute.ranks is ", ranks, ", but MPI sees ", count, count == 1 ? " process" : " processes"),
                      {}, cat("start them by mpirun -n ", ranks, ", or srun --mpi=pmix -n ", ranks));
  }
  return std::make_unique<Mpi>(table, rank, count, timeout_s);
}

// ---- NCCL ---------------------------------------------------------------------------------------------------------

class Nccl final : public Communicator {
 public:
  Nccl(const PeCudaTable& table, void* handle, std::int64_t rank, std::int64_t count, at::Device device,
       double timeout_s)
      : Communicator(rank, count), table_(table), handle_(handle), device_(device), timeout_s_(timeout_s) {}
  ~Nccl() override {
    const bool in_order = (std::uncaught_exceptions() == 0 && !gave_up) || agreed_;
    if (!in_order) gave_up = true;  // MPI, over which the ranks met, is left open then: its end waits for all of them
    table_.nccl_close(handle_, in_order);
  }

  void start_sum(const at::Tensor& data) override {
    held_.push_back(data);
    begin(table_.nccl_start_sum(handle_, data.data_ptr(), data.numel(), data.scalar_type() == at::kDouble, stream()));
  }
  void finish() override {
    begin(table_.nccl_join(handle_, stream()));
    Patience patience(timeout_s_);
    for (int done = 0; done == 0;) {
      char problem[256] = {};
      if (table_.nccl_done(handle_, &done, problem, sizeof problem) != 0) lost(rank(), count(), cat("NCCL: ", problem));
      if (done == 0 && !patience.wait()) lost(rank(), count(), waited_too_long(timeout_s_));
    }
    held_.clear();
  }
  void broadcast(const at::Tensor& data) override {
    if (data.device() != device_) {
      const at::Tensor there = data.to(device_);
      broadcast(there);
      at::Tensor(data).copy_(there);
      return;
    }
    held_.push_back(data);
    begin(table_.nccl_start_broadcast(handle_, data.data_ptr(), static_cast<std::int64_t>(data.nbytes()), 0, stream()));
    finish();
  }
  std::vector<double> sum(std::vector<double> values) override {
    const at::Tensor host = at::from_blob(values.data(), {std::ssize(values)}, at::TensorOptions(at::kDouble));
    const at::Tensor there = host.to(device_, at::kDouble, /*non_blocking=*/false, /*copy=*/true);
    start_sum(there);
    finish();
    host.copy_(there);
    return values;
  }

 private:
  void* stream() const { return table_.current_stream(device_.index()); }
  void begin(int status) {
    constexpr int kNcclInProgress = 7;  // the answer of a call that took longer than the ranks wait
    if (status == 0) return;
    int done = 0;
    char problem[256] = {};
    if (status == kNcclInProgress) lost(rank(), count(), waited_too_long(timeout_s_));
    if (table_.nccl_done(handle_, &done, problem, sizeof problem) != 0) lost(rank(), count(), cat("NCCL: ", problem));
    lost(rank(), count(), cat(status < 0 ? "CUDA error " : "NCCL error ", status < 0 ? -status : status));
  }

  const PeCudaTable& table_;
  void* handle_;
  at::Device device_;
  double timeout_s_;
  std::vector<at::Tensor> held_;  ///< of exchanges that may still run, also after an error, until the communicator ends
};

std::unique_ptr<Communicator> meet_over_nccl(std::int64_t ranks, at::Device device, double timeout_s) {
  const PeCudaTable* table = kernels::plugin();
  if (table == nullptr || table->nccl_open == nullptr) {
    throw ConfigError(cat("compute.ranks is ", ranks, ", but this build's CUDA plug-in has no NCCL"), {},
                      "build where nccl.h is found, or set compute.ranks: 1");
  }
  const support::Ranks& own = support::own_ranks();
  std::string id(128, '\0');
  if (own.is_first() && table->nccl_unique_id(id.data()) != 0)
    throw ConfigError("NCCL cannot make an id for its ranks");
  // mpirun's processes find each other by MPI; processes of other launchers by the address in their environment.
  if (own.host.empty()) {
    static std::unique_ptr<Mpi> mpi;  // stays open: closing it ends MPI
    mpi = open_mpi(ranks, timeout_s);
    id = mpi->Communicator::broadcast(id);
  } else {
    id = support::broadcast_text(own, id, timeout_s);
  }
  return open_nccl(*table, id, own.rank, ranks, device, timeout_s);
}

}  // namespace

std::unique_ptr<Communicator> open_nccl(const PeCudaTable& table, const std::string& id, std::int64_t rank,
                                        std::int64_t count, at::Device device, double timeout_s) {
  void* handle = nullptr;
  char problem[256] = {};
  if (id.size() != 128 || table.nccl_open(id.data(), static_cast<int>(count), static_cast<int>(rank), device.index(),
                                          timeout_s, &handle, problem, sizeof problem) != 0) {
    lost(rank, count, cat("NCCL does not start: ", problem));
  }
  return std::make_unique<Nccl>(table, handle, rank, count, device, timeout_s);
}

std::string Communicator::broadcast(const std::string& text) {
  if (count_ == 1) return text;
  const auto size = static_cast<std::int64_t>(sum({is_first() ? static_cast<double>(text.size()) : 0.0})[0]);
  const at::Tensor bytes = at::empty({size}, at::TensorOptions(at::kByte));
  if (is_first() && size > 0) std::memcpy(bytes.data_ptr(), text.data(), text.size());
  if (size > 0) broadcast(bytes);
  return {static_cast<const char*>(bytes.data_ptr()), static_cast<std::size_t>(size)};
}

std::vector<double> Communicator::gather(double value) {
  std::vector<double> values(static_cast<std::size_t>(count_));
  values[static_cast<std::size_t>(rank_)] = value;
  return sum(std::move(values));
}

std::unique_ptr<Communicator> make_null_communicator() { return std::make_unique<Null>(); }

std::unique_ptr<Communicator> open_communicator(const model::ComputeConfig& compute, at::Device device) {
  const std::int64_t ranks = compute.ranks.value_or(1), started = support::own_ranks().count;
  if (ranks != started) {
    throw ConfigError(cat("compute.ranks is ", ranks, ", but ", started,
                          started == 1 ? " process was" : " processes were", " started"),
                      {}, cat("start ", ranks, ", or set compute.ranks: ", started));
  }
  if (ranks == 1) return make_null_communicator();
  if (device.is_cuda()) return meet_over_nccl(ranks, device, compute.rank_timeout);
  return open_mpi(ranks, compute.rank_timeout);
}

void require_agreement(Communicator& communicator, double mine, std::int64_t step) {
  if (communicator.count() == 1) return;
  const std::vector<double> all = communicator.gather(mine);
  std::string apart;
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] != all[0]) apart += cat(apart.empty() ? "" : ", ", rank);
  }
  if (apart.empty()) return;
  throw support::Error(
      support::kExitFailed,
      support::Diagnostic{cat("after step ", step, " the parameters of rank ", apart, " and of rank 0 differ"),
                          {},
                          "their machines compute differently: set compute.isa to portable, or use machines of one "
                          "kind. The same command resumes from the newest checkpoint",
                          {}});
}

}  // namespace pe::training

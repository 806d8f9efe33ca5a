/// @file
/// A lease under which one `submit` of a pipeline reads the queue and sends jobs. Two that read the same queue would
/// both send the missing jobs.
#pragma once

#include <functional>
#include <string>

#include "pipeline/cluster/slurm.h"
#include "pipeline/store/lease.h"
#include "pipeline/store/store.h"

namespace pe::pipeline {

/// The lease `submit-<pipeline>` of a store, from construction to the end.
class SubmitLease {
 public:
  /// Waits until the lease is free. `tell` receives a line with its owner. @throws IoError as Leases::acquire
  SubmitLease(const Store& store, const std::string& pipeline, Slurm& slurm,
              const std::function<void(const std::string&)>& tell);
  /// To be called at least once a minute.
  /// @throws IoError if another process has broken the lease meanwhile and may send the same jobs
  void send_heartbeat();

 private:
  Leases leases_;
};

}  // namespace pe::pipeline

/// @file
/// Identity of this machine and of a process: leases and attempt folders need it to distinguish live owners from dead
/// ones.
#pragma once

#include <cstdint>
#include <string>

namespace pe::pipeline {

std::string host_name();

/// Name of this machine's first GPU, as NVIDIA's driver says it; empty where there is none.
const std::string& gpu_name();

/// A machine since it was started, as far as its process numbers reach.
struct HostIdentity {
  std::string host;     ///< name
  std::string machine;  ///< /etc/machine-id: distinguishes machines that share a name
  std::string boot;     ///< changes with every start of the kernel
  std::string pids;     ///< the process number space: containers of one machine have their own
};
const HostIdentity& this_host();

/// Clock ticks since boot at which a process began; 0 when there is none, or only its zombie. With the boot id it names
/// a process for good.
std::uint64_t process_start(std::int64_t pid);

enum class ProcessLife {
  kAlive,
  kGone,    ///< there is none, it is a zombie, or its number belongs to a later process
  kHidden,  ///< some process has the number, and /proc does not show it (hidepid): perhaps this one
};
/// Whether the process of this host that began at `start` is alive. With `start` 0 any process of that number counts.
ProcessLife process_life(std::int64_t pid, std::uint64_t start);

}  // namespace pe::pipeline

/// @file
/// Starts the ranks of a stage, if its config asks for several and this process is not a rank already (under mpirun or
/// srun). They run on this machine, or in a Slurm job of several machines on all of these, by srun. Ranks on the CPU of
/// one machine need mpirun, by which MPI finds its processes; ranks on GPUs are started directly.
///
/// The first rank that fails ends the others. A request to stop reaches all of them, and they die with this process.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace pe::stage {

struct RankLaunch {
  std::int64_t count = 2;
  bool mpi = true;                     ///< by mpirun
  std::vector<std::string> arguments;  ///< of every rank; [0] is the program
  std::optional<int> events_fd;        ///< of this process; rank 0 writes to it
  double grace_s = 10;                 ///< between asking the rest to end and killing them
};

/// @return the exit code of all ranks: rank 0's where they agree on an end (0, 75, 76), else the code of the first
/// failed rank. It is 128 + signal where a signal ended it. It is 130 where that was our own request to stop.
/// @throws ConfigError when mpirun is not there; IoError when a rank cannot be started.
int launch_ranks(const RankLaunch& launch);

/// For a rank: its events descriptor, when this process was started by `launch_ranks` and rank 0's is to be written to.
std::optional<int> rank_events();

/// For a rank, at its end: what it returns from main. Tells the launcher how it ended; mpirun hears of failures alone,
/// since it would take a stop that all agreed on for one.
int rank_exit(int code);

/// For a rank: to die with its launcher, and to hear a request to stop from now on.
void follow_launcher();

}  // namespace pe::stage
